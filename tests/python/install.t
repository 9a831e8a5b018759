#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pip install from the source distribution
exec "$(dirname "$(readlink -f "$0")")/run" test_install
