#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# DataLoader workers read at random while another rank overwrites: every value is one that was put, whole.
. "$(dirname "$0")/lib.sh"
limit=300
for method in fork spawn; do
    t "workers_started_by_${method}_read_whole_values" sub srun -N2 -n2 --ddict-managers=4 --ddict-mem=256M \
        python3 "$tests/loader.py" $method
    has "three_epochs_were_read_by_$method" "read 3 epochs of 800 values by $method"
    clean_after "nothing_is_left_after_$method"
done
finish
