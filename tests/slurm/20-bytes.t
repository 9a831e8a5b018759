#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Three nodes, two ranks a node, five managers: what any rank put, every rank reads, byte for byte; keys() is exact.
. "$(dirname "$0")/lib.sh"
need_nodes 3
limit=300 each=$((8000 / slow))
t "six_ranks_read_$((6 * each))_values_of_all_others" sub srun -N3 --ntasks-per-node=2 --ddict-managers=5 --ddict-mem=512M \
    python3 "$tests/bytes.py" $each
is "all_six_ranks_report" "$(grep -c "read $((6 * each)) values, $((6 * each + 6)) keys" "$out")" 6
clean_after "nothing_is_left"
finish
