#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# values built in place
exec "$(dirname "$(readlink -f "$0")")/run" test_place
