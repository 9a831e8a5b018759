#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# what is on this node, and on one manager
exec "$(dirname "$(readlink -f "$0")")/run" test_near
