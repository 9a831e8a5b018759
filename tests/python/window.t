#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# checkpoints of a dictionary with a working set
exec "$(dirname "$(readlink -f "$0")")/run" test_window
