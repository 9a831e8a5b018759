#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ranks that reach each other through the dictionary
exec "$(dirname "$(readlink -f "$0")")/run" test_runtime
