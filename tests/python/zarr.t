#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# the dictionary as a store of zarr. DDICT_TEST_FILES: as in fsspec.t
[ ! -x "${DDICT_TEST_FILES-}" ] || export PYTHON=$DDICT_TEST_FILES
exec "$(dirname "$(readlink -f "$0")")/run" test_zarr test_zarr_folder
