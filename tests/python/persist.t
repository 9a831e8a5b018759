#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# states of a dictionary on disk, by number: saved, listed, restored, read one after another
exec "$(dirname "$(readlink -f "$0")")/run" test_persist
