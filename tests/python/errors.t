#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# exceptions, waiting, Ctrl-C, dictionaries that end; and that nothing leaks
exec "$(dirname "$(readlink -f "$0")")/run" test_errors test_leaks test_refill
