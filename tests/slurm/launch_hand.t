#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# By hand: `ddict up`, `down` and `run` in an allocation, in a batch script and from the submit host; the managers' step however it is hurt.
. "$(dirname "$0")/lib.sh"
sub() { timeout --foreground --kill-after=5 $((${limit-60} * slow)) "$devcluster" run -- env DDICT_RECORD=none "$@"; } # records are looked at further down
dd="--ddict-managers=2 --ddict-mem=64M"
ddict=$(sub sh -c 'command -v ddict')
steps='squeue -h -s -j $SLURM_JOB_ID -o "%j %N"'

t "up_in_an_allocation_names_the_dictionary" sub salloc -Q -N2 sh -c 'eval "$(ddict up --managers=4 --mem=64M)" && echo "name $DDICT_NAME" &&
    srun -N2 -n2 sh '"$tests/both.sh $ddict"' && srun -N1 -n1 ddict stats && ddict down &&
    for i in $(seq 400); do sleep 0.1; test -z "$(squeue -h -s -o %j -j $SLURM_JOB_ID | grep ddict)" && break; done; echo "steps: $(squeue -h -s -o %j -j $SLURM_JOB_ID)"'
has "up_prints_the_job_s_name" '^name [0-9]+\.[0-9]+\.job$'
has "managers_run_on_both_nodes" "^ *3 +${nodes[1]}"
has "down_from_the_submit_host_ends_the_step" '^steps: *$'
clean_after "nothing_is_left_after_up_and_down"

t "up_without_down_ends_with_the_job" sub salloc -Q -N2 sh -c 'eval "$(ddict up --mem=64M)" && srun -N2 -n2 ddict put k v'
clean_after "nothing_is_left_after_up_alone"

t "a_second_up_in_a_job_finds_the_first_one" sub salloc -Q -N2 sh -c 'ddict up --mem=64M && export DDICT_NAME=$(id -u).$SLURM_JOB_ID.job && srun -n1 -N1 ddict put k v && eval "$(ddict up --mem=128M)" &&
    srun -n1 -N1 ddict get k'
has "and_says_that_it_is_there" "ddict up: [0-9]+\.[0-9]+\.job is there already .*mem=67108864"
has "and_it_is_the_same" '^v$'
t "up_again_after_down" sub salloc -Q -N2 sh -c 'for i in 1 2 3; do eval "$(ddict up --mem=64M)" && srun -n1 -N1 ddict put --new k v && ddict down || exit; done'
t "eight_ups_at_once_are_one_dictionary" sub salloc -Q -N2 sh -c 'for i in 1 2 3 4 5 6 7 8; do (ddict up --plugin --mem=64M; echo "code $?") >~/up.$i 2>&1 & done; wait; cat ~/up.*; rm -f ~/up.*'
is "one_of_eight_is_ready" "$(grep -c "^ddict1 ready" "$out")" 1
is "seven_of_eight_find_it" "$(grep -c "^ddict1 exists" "$out")" 7
is "all_eight_say_the_same_id" "$(grep -o " id=[0-9a-f]*" "$out" | sort -u | wc -l)" 1
is "all_eight_are_content" "$(grep -c "^code 0" "$out")" 8
t "up_leaves_an_srun_alone" sub salloc -Q -N2 bash "$tests/stays.sh"
has "one_srun_and_no_ddict_stays" '^stays 1 srun, 0 ddict$'
has "it_has_a_session_of_its_own" '^session of its own, terminal \?$'
has "it_holds_no_file_of_ours" '^files /dev/null$'
has_not "and_no_pipe" '^holds our'
has "signals_to_it_do_nothing" '^after signals v, 1 srun$'
has "it_ends_with_the_dictionary" '^at the end 0 steps, 0 srun$'
is "slurmstepd_tells_it_about_the_end" "$(unheard)" 0
t "and_nobody_needs_it" sub salloc -Q -N2 bash "$tests/stays.sh" yes
has "its_death_does_nothing" '^after its death w$'
for _ in $(seq $((50 * slow))); do [ "$(unheard)" = 2 ] && break || sleep 0.2; done # slurmstepd tries for two seconds, when the job may be over
is "only_slurmstepd_misses_it" "$(unheard)" 2
t "a_share_is_of_the_memory_of_the_job" sub salloc -Q -N2 --mem=200M sh -c 'ddict up --mem=50% --plugin'
has "half_of_400M" 'mem=209715200$'
t "a_share_of_one_node_is_judged" sub salloc -Q -N2 --mem=200M sh -c '! ddict up --managers=3 --mem=80%'
has "and_refused_with_both_figures" '--mem of 320.0 MiB is 213.3 MiB on node .*, where the job has 200.0 MiB; .* --mem=1G'
clean_after "nothing_is_left_after_many_ups"

t "run_gives_the_exit_code_and_the_name" sub salloc -Q -N2 sh -c 'ddict run -v --managers=3 --mem=64M -- sh -c "srun -N2 -n2 sh '"$tests/both.sh $ddict"' && exit 7"; test $? = 7'
has "run_says_what_it_held" 'ddict run: 3 managers on 2 nodes, 64.0 MiB: 2 keys'
t "run_in_a_batch_script" sub sh -c 'cd; printf "#!/bin/sh\nddict run --mem=64M -- srun -N2 -n2 sh '"$tests/both.sh $ddict"' && echo fine\n" >job.sh
    sbatch -Q -W -N2 -o job.out job.sh; cat job.out; rm -f job.sh job.out'
has "the_batch_script_ran" '^fine$'
t "run_is_refused_more_than_the_job_has" sub salloc -Q -N2 --mem=100M sh -c '! ddict run --mem=1G -- echo THE COMMAND RAN'
has_not "and_the_command_does_not_run" '^THE COMMAND'
has "with_the_option_to_add" '--mem=1G'
t "run_passes_signals_on" sub salloc -Q -N2 bash -c 'ddict run --mem=64M -- sh -c "trap \"echo got it; exit 3\" TERM; echo begun; while :; do sleep 0.1; done" >~/o &
    for i in $(seq 400); do grep -q begun ~/o && break; sleep 0.1; done; kill -TERM $!; wait $!; test $? = 3 && cat ~/o; rm -f ~/o'
has "the_command_got_it" '^got it'
t "run_ends_128_plus_the_signal" sub salloc -Q -N2 bash -c 'ddict run --mem=64M -- sh -c "kill -9 \$\$"; test $? = 137'
t "run_names_a_command_that_is_not_there" sub bash -c 'ddict run --local --mem=64M -- /nonexistent; test $? = 127'
clean_after "nothing_is_left_after_run"

t "run_without_slurm_is_one_node" sub bash -c 'ddict run --mem=64M --managers=2 -- sh -c "ddict put k v && ddict get k && ddict stats"'
has "both_managers_serve" '^ *1 +'
clean_after "nothing_is_left_after_run_without_slurm"

t "the_record_of_a_batch_job_and_its_summary" sub sh -c 'd=$(mktemp -d ~/record.XXXXXX); cd $d; unset DDICT_RECORD; printf "#!/bin/sh\nddict up --managers=4 --mem=64M && export DDICT_NAME=\$(id -u).\$SLURM_JOB_ID.job\nsrun -n2 true; ddict put k v; ddict run --mem=64M -- true\n" >job.sh
    sbatch -Q -W -N2 -o job.%j.out job.sh; for i in $(seq 400); do grep -q "record " job.*.out && break; sleep 0.1; done; cat job.*.out; ls ddict-*.jsonl; cat ddict-*.jsonl; rm -rf $d'
has "the_summary_is_in_the_job_s_output" '^ddict: 4 managers on 2 nodes, 64.0 MiB: 1 key.*; record .*/ddict-[0-9]+\.jsonl$'
has "the_record_names_what_was_asked" '"asked":"--managers=4 --mem=64M"'
is "two_dictionaries_are_in_one_file" "$(grep -c '"event":"job_end"' "$out")" 2
t "record_expands_and_record_none_is_none" sub salloc -Q -N1 bash -c 'cd; mkdir -p rec.$USER; ddict run --record=rec.%u/j%j-%%.jsonl --mem=64M -- true; ls rec.*; rm -rf rec.*; ddict run --record=none --mem=64M -- true; ls *.jsonl; true'
has "the_name_is_expanded" '^j[0-9]+-%\.jsonl$'
t "a_wrong_percent_is_refused" sub salloc -Q -N1 sh -c '! ddict run --record=x%q --mem=64M -- echo THE COMMAND RAN'
has "and_named" '--record=x%q: %q is none of'
t "managers_find_each_other_without_pmix" sub salloc -Q -N2 sh -c 'ddict run --mpi=none --mem=64M -- srun -N2 -n2 sh '"$tests/both.sh $ddict"

# The starter of the managers and their srun are killed in the middle: the job goes on, srun says one line, all ends.
hurt() { # SENTENCE PIDS-OF-SRUN-IN-$1
    t "$1" sub bash -c "srun -N2 -n2 $dd sh -c '$ddict put k v; echo begun; sleep 3' >~/o 2>&1 & srun=\$!
        for i in \$(seq 400); do grep -q begun ~/o && break; sleep 0.1; done
        up=\$(pgrep -x -P \$srun ddict) && kill -9 $2; wait \$srun; cat ~/o; rm -f ~/o"
    is "${1}_is_told_in_one_line" "$(grep -c 'ddict:' "$out")" 1
    clean_after "nothing_is_left_after_$1"
}
hurt "death_of_ddict_up" '$up'
hurt "death_of_the_managers_srun" '$(pgrep -x -P $up srun)'

# While srun waits for managers that do not get ready.
t "one_interrupt_ends_the_waiting" sub bash -c "DDICT_TEST_READY_MS=60000 srun -N2 -n2 $dd echo THE TASK RAN & srun=\$!
    sleep $((slow > 1 ? 6 : 2)); kill -INT \$srun; wait \$srun; test \$? = 1"
has "and_says_so" 'ddict: interrupted'
has_not "no_task_ran" '^THE TASK'
clean_after "nothing_is_left_after_an_interrupt"

t "a_refusal_in_an_allocation_leaves_no_step" sub salloc -Q -N2 sh -c "! srun -n2 --mem=100M --ddict-mem=10T echo THE TASK RAN && sleep 0.5 &&
    test -z \"\$(squeue -h -s -j \$SLURM_JOB_ID)\" && timeout 20 srun -n2 $dd true"
has_not "and_runs_no_task" '^THE TASK'
t "a_step_that_asks_for_nothing_gets_nothing" sub salloc -Q -N2 sh -c 'srun -n2 '"$dd"' true; srun -n2 sh -c "test -z \"\${DDICT_NAME-}\""'
t "an_srun_in_a_task_does_not_ask_again" sub salloc -Q -N2 env DDICT_MEM=64M srun -n1 -N1 sh -c 'n=$DDICT_NAME; srun --overlap -n1 -N1 sh -c "test \"\$DDICT_NAME\" = $n"'
t "variables_do_not_hurt_salloc_and_sbatch" sub env DDICT_MEM=64M sh -c 'cd; salloc -Q -N1 true && sbatch -Q -W -o /dev/null --wrap true'
clean_after "nothing_is_left"
finish
