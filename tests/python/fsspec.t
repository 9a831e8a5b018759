#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# the dictionary as a file system of fsspec. DDICT_TEST_FILES: a Python of the same version that has fsspec, pandas, pyarrow, ...; contrib/check makes one
readme=''
if [ -x "${DDICT_TEST_FILES-}" ]; then
    export PYTHON=$DDICT_TEST_FILES
    readme=test_readme # has snippets that only such a Python runs
fi
exec "$(dirname "$(readlink -f "$0")")/run" test_fsspec $readme
