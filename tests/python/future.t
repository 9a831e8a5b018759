#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# requests under way
exec "$(dirname "$(readlink -f "$0")")/run" test_future
