#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# GPUs in the order that fits the ranks
exec "$(dirname "$(readlink -f "$0")")/run" test_gpu
