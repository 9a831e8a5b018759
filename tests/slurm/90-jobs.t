#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Jobs one after another and several at once, in each way a dictionary is started: none fails, and Slurm's daemons have no descriptor, thread or process
# more than before, the nodes no socket, file or cgroup. The full length: tests/bench/jobs.py.
. "$(dirname "$0")/lib.sh"
export DEVCLUSTER=$devcluster
for how in srun:10 sbatch:4 hand:2; do
    t "jobs_in_a_row_and_four_at_once_leave_nothing_${how%:*}" timeout $((300 * slow)) "$tests/../bench/jobs.py" --how "${how%:*}" --count "${how#*:}" --at-once 4
    sed 's/^/# /' "$out"
done
clean_after "nothing_is_left"
finish
