#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# changes that depend on what a key has
exec "$(dirname "$(readlink -f "$0")")/run" test_atomic
