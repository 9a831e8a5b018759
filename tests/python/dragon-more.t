#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ddict.dragon: working sets, checkpoints on disk, copies, bput
exec "$(dirname "$(readlink -f "$0")")/run" test_dragon_window test_dragon_persist test_dragon_copies test_dragon_publish
