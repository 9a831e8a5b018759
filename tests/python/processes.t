#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fork, spawn, forkserver, processes that die
exec "$(dirname "$(readlink -f "$0")")/run" test_processes
