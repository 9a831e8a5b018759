#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Values of 0 B to 256 MiB, put on one node and read on the other.
. "$(dirname "$0")/lib.sh"
limit=240
sizes="0 1 4096 1048576 268435456"
t "values_of_all_sizes_cross_between_nodes" sub srun -N2 -n2 --ddict-managers=2 --ddict-mem=1G python3 "$tests/sizes.py" $sizes
for size in $sizes; do
    is "equal_both_ways_$size" "$(grep -c "^equal: $size bytes" "$out")" 2
done
clean_after "nothing_is_left"
finish
