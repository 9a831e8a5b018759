#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# freezing, on two nodes
exec "$(dirname "$(readlink -f "$0")")/run" test_freeze
