#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dictionaries that a program makes, in a notebook and under pytest, too
exec "$(dirname "$(readlink -f "$0")")/run" test_up test_up_hosts
