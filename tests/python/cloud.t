#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# values that pickle alone cannot store
exec "$(dirname "$(readlink -f "$0")")/run" test_cloud
