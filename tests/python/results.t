#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ddict.results
exec "$(dirname "$(readlink -f "$0")")/run" test_results
