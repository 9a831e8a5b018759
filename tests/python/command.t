#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# the ddict command beside Python, and ddict run
exec "$(dirname "$(readlink -f "$0")")/run" test_command
