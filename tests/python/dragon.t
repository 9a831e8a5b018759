#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ddict.dragon: Dragon's names, each as its documentation says, or refused with what to use instead
exec "$(dirname "$(readlink -f "$0")")/run" test_dragon test_dragon_stubs test_dragon_processes test_dragon_torch
