#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# how long turns of a manager are
exec "$(dirname "$(readlink -f "$0")")/run" test_turns
