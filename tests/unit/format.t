#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The C files are as `make format` would leave them.
"${srcdir-.}/contrib/format" --check
rc=$?
[ $rc = 0 ] && echo "ok all C files have the one style"
exit $rc
