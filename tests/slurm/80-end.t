#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# However a step ends, its dictionary ends with it: as soon, with the same exit code, with nothing left, and silent.
. "$(dirname "$0")/ends.sh"
loop='i=0; while [ $i -lt '$((600 * slow))' ]; do sleep 0.1; i=$((i + 1)); done'

row normal step task='begun'
row "its program fails" step task='begun; [ $SLURM_PROCID = 0 ] || exit 7'
row "a task is killed" step task='begun; sleep 0.5; [ $SLURM_PROCID = 0 ] || kill -9 $$'
row scancel step task='begun; exec sleep 61' act='sub scancel $job'
row "scancel of the step" step task='begun; exec sleep 61' act='sub scancel $job.0'
row "srun gets TERM" step task='begun; exec sleep 61' act='kill -TERM $pid'
row "^C" step tty=yes task='begun; exec sleep 3' act='key C'
# Slurm sends INT and, at once, KILL: either may come first, and the job's state tells which.
row "^C twice" step tty=yes rc='130|137' state='(FAILED 0:2|CANCELLED 0:[09])' task='begun; exec sleep 61' act='key CC'
row "srun killed -9" step task='begun; exec sleep 61' act='kill -KILL $pid'
row "scancel -s USR1" step task='trap "exit 5" USR1; begun; '"$loop" act='sub scancel -s USR1 $job'
row "--signal=USR2@60" step opts="-t $((slow > 1 ? 3 : 1)) --signal=USR2@60" task='trap "exit 6" USR2; begun; '"$loop"
rows_end "nothing_is_left_of_all_of_them"
ends_finish
