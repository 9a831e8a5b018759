#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# copies between dictionaries of one job
exec "$(dirname "$(readlink -f "$0")")/run" test_copies
