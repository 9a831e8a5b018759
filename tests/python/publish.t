#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# one value on every node
exec "$(dirname "$(readlink -f "$0")")/run" test_publish
