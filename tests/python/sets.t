#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# data sets by ddict.load(), and the dictionary to disk and back
exec "$(dirname "$(readlink -f "$0")")/run" test_sets
