#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# three nodes
exec "$(dirname "$(readlink -f "$0")")/run" test_remote
