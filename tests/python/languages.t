#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# keys and values shared with C, C++ and Fortran
exec "$(dirname "$(readlink -f "$0")")/run" test_languages
