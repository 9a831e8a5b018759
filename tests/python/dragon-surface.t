#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ddict.dragon: what doc/dragon-surface.md has and no other test shows
exec "$(dirname "$(readlink -f "$0")")/run" test_dragon_surface
