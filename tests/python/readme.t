#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# the snippets of the READMEs
exec "$(dirname "$(readlink -f "$0")")/run" test_readme
