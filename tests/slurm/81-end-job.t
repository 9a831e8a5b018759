#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# However a job ends, its dictionary ends with it: as soon, in the same state, with nothing left, and with its record complete.
slots=10
. "$(dirname "$0")/ends.sh"
loop='i=0; while [ $i -lt '$((600 * slow))' ]; do sleep 0.1; i=$((i + 1)); done'
wait='begun; exec sleep 61'

# Slurm would let it wait for two minutes.
requeue() {
    sub scontrol requeue "$job"
    until_true 20 sub sh -c "squeue -h -j $job -o %T | grep -qx PENDING"
    sleep 1.2 # Slurm does not start a job anew in the second in which it ended
    "$devcluster" run -u root -- scontrol update "jobid=$job" StartTime=now
}
# Slurm's shortest time limit is a minute: the others run beside it.
row "time limit" step opts='-t 1' task='begun; exec sleep 200' patience=120
row "time limit" batch plain=no opts='-t 1' rc=143 state='TIMEOUT (143:0|0:15)' within=120 task='begun; exec sleep 200' patience=120
row "suspended for a minute under load" batch plain=no task="exec python3 $tests/ends.py work 70" act='held 60' rc=0 state='COMPLETED 0:0' \
    within=90 patience=150 said='^rank 0: no error' not='Error|rank [01]: an error'
for scope in batch hand; do
    row normal $scope task='begun'
    row "the script fails" $scope task='begun' script=$'srun -N2 -n2 sh $task\nexit 7'
    row scancel $scope state='CANCELLED (143:0|0:15)' task="$wait" act='sub scancel $job'
    row "scancel of a step" $scope task="$wait" act='sub scancel $(step_of user)'
    row "scancel -s USR1" $scope task='trap "exit 5" USR1; begun; '"$loop" act='sub scancel -s USR1 $job'
done
row "--signal=USR2@60" batch plain=no rc=6 state='FAILED 6:0' within=50 opts="-t $((slow > 1 ? 3 : 1)) --signal=USR2@60" task='trap "exit 6" USR2; begun; '"$loop"
row "scontrol requeue" batch opts=--requeue act='requeue' task='begun; [ "${SLURM_RESTART_COUNT-0}" != 0 ] || exec sleep 61'
row "srun killed -9 while its tasks go on" batch act='kill9 $(user_sruns)' task='begun; sleep 3; put "again$SLURM_PROCID" v 2>>'"$ends"'/go-on && echo "task $SLURM_PROCID of $SLURM_JOB_NAME goes on" >>'"$ends"'/go-on' \
    script=$'srun -N2 -n2 sh $task\nsleep 5'
row normal salloc task='begun'
row "its command fails" salloc task='begun; exit 7'
row scancel salloc state='CANCELLED (143:0|0:0)' task="$wait" act='sub scancel $job'
row "salloc killed -9" salloc task="$wait" act='kill -KILL $pid; sleep 1; sub scancel $job'
row "^C twice" salloc tty=yes task="$wait" act='key CC'
row "srun killed -9" salloc task="$wait" act='kill9 $(user_srun)'
rows_end "nothing_is_left_of_all_of_them"
is "tasks_without_their_srun_reach_the_dictionary" "$(grep -c 'goes on' "$ends/go-on")" 4
ends_finish
