#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# When a part of a dictionary is killed, every task that uses it gets an error in time, and one line says what happened.
. "$(dirname "$0")/ends.sh"
loop="exec python3 $tests/ends.py work"
here="-w ${nodes[0]},${nodes[1]}"
lost() { # NAME ACT LINE
    row "$1" step plain=no opts="$here" task="$loop" rc=3 state='FAILED 3:0' within=20 errors=2 act="$2" line="$3"
}
lost "ddictd of the first node killed -9" 'kill9 $(ours 1 ddictd)' "ddict: node ${nodes[0]} is lost: its ddictd ended$"
lost "ddictd of another node killed -9" 'kill9 $(ours 2 ddictd)' "ddict: node ${nodes[1]} is lost: its ddictd ended$"
lost "a manager of the first node killed -9" 'kill9 $(ours 1 manager)' "ddict: manager 0 on node ${nodes[0]} died \(signal 9\)$"
lost "a manager of another node killed -9" 'kill9 $(ours 2 manager)' "ddict: manager 1 on node ${nodes[1]} died \(signal 9\)$"
lost "the managers' srun killed -9" 'kill9 $(hidden_srun)' "ddict: the srun of the managers ended early: killed by signal 9$"
lost "ddict up killed -9" 'kill9 $(hidden_up)' "ddict: .ddict up. was killed; the dictionary is gone$"
lost "scancel of the managers' step" 't0=$(now_ms); sub scancel $job.1' "ddict: the managers ended early: Slurm.s step [0-9]+\.1 was cancelled$"
rows_end "nothing_is_left_of_all_of_them"
ends_finish
