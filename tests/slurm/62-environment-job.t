#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The hidden step starts whatever is in the environment of an srun in an allocation.
. "$(dirname "$0")/lib.sh"
. "$tests/hostile_lines.sh"
limit=600

hostile inside bash "$tests/hostile.sh" "$tests/hostile.env" "salloc -Q -N2" -N2 -n2
clean_after "nothing_is_left_after_sruns_in_an_allocation"
finish
