#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Out of memory, in a task and in the dictionary, and jobs that are suspended: only who lacks memory gets an error, and a
# suspended job goes on as if nothing had been.
slots=9
. "$(dirname "$0")/ends.sh"
do="exec python3 $tests/ends.py"
for scope in step batch; do
    row "suspended for 5 s" $scope plain=no task="$do work 8" act='held 5' rc=0 state='COMPLETED 0:0' within=25 said='^rank 1: no error'
    # 200M: in user-mode Linux a process has 256 MB at most (contrib/images/v2), and faults without end beyond
    row "out of memory in a task" $scope opts="--mem=200M" task="$do eat" rc='[1-9][0-9]*' state='(FAILED|OUT_OF_MEMORY) .*' said='[Oo]ut of [Mm]emory|oom'
    row "out of memory in the dictionary" $scope plain=no task="$do full" rc=4 state='FAILED 4:0' within=40 \
        said='^rank 0: [A-Za-z]*: .*manager [01] on .*n[12].* of .*'
done
# The dictionary has more memory than the task that takes too much: it is not what the kernel ends, and goes on for the others.
for scope in step batch inner; do
    for how in empty full; do
        row "out of memory beside a large and $how dictionary" $scope plain=no task="$do eat_beside $how" dd="--ddict-managers=2 --ddict-mem=480M" opts="--mem=400M" \
            rc='[1-9][0-9]*' state='(FAILED|OUT_OF_MEMORY) .*' within=90 patience=150 said='^rank 0: no error' not='LostError|GoneError|died|ended early'
    done
done
rows_end "nothing_is_left_of_all_of_them"
# The managers were ended by the kernel nevertheless: the sentence says memory.
t "the_managers_first" sub sh -c '! DDICT_RESTARTS=0 srun -N1 -n2 --mem=400M --ddict-mem=300M --ddict-record=none python3 '"$tests"'/ends.py eat_first'
has "the_sentence_says_memory" 'manager 0 on node .* was killed because the job ran out of memory \(--mem\)'
# One that comes back takes little: then the task that takes too much is the largest.
t "the_managers_first_and_they_come_back" sub sh -c '! srun -N1 -n2 --mem=400M --ddict-mem=300M --ddict-record=none python3 '"$tests"'/ends.py eat_first'
has "it_is_said_once" 'manager 0 on node .* was killed because the job ran out of memory \(--mem\) and was started again within [0-9]+ ms$'
has_not "and_the_dictionary_does_not_end_early" 'ended early|LostError|GoneError'
has "slurm_says_which_task_had_none" '[Oo]ut [Oo]f [Mm]emory|oom'
is "tasks_say_of_themselves_that_they_go_first" "$(sub srun -n1 --mem=300M --ddict-mem=64M --ddict-record=none cat /proc/self/oom_score_adj)" 1000
is "a_script_too" "$(sub sbatch -W -n1 --mem=300M --ddict-mem=64M --ddict-record=none -o "$ends/adj" --wrap 'cat /proc/self/oom_score_adj; srun -n1 cat /proc/self/oom_score_adj; eval "$(ddict up --name "$SLURM_JOB_ID.own" --local --mem=16M)"
pgrep -f "^[^ ]*ddictd --name $SLURM_JOB_ID.own" | while read -r p; do cat /proc/$p/oom_score_adj; done; ddict down --name "$SLURM_JOB_ID.own"' >/dev/null; grep -x "[0-9]*" "$ends/adj" | xargs)" "1000 1000 0 0"
is "and_nobody_without_a_dictionary" "$(sub srun -n1 --mem=300M cat /proc/self/oom_score_adj)" 0
is "what_ddict_run_starts_too" "$(sub srun -n1 --mem=300M ddict run --mem=16M -- cat /proc/self/oom_score_adj)" 1000
ends_finish
