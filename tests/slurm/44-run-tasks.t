#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `ddict run` in every task of a step, without the plugin's options: one dictionary for all of them, which ends with the last of their commands.
. "$(dirname "$0")/lib.sh"
need_nodes 3
home=$PWD
trap 'site_conf_end; rm -f "$out" "$home"/tasks.*' EXIT
mem="--mem=96M --record=none"

# The tasks share a dictionary, and have the place that they would have without `ddict run`.
# shellcheck disable=SC2016
script='ddict put from$SLURM_PROCID v && for i in 0 1 2 3 4 5; do ddict get --wait=20 from$i >/dev/null || exit 1; done
    echo "$(hostname) $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $DDICT_NAME $MASTER_ADDR:$MASTER_PORT"
    [ -z "${PMIX_NAMESPACE-}" ] || unset DDICT_NAME
    ddict runtime --check --json | sed "s/.*\"how\":\"\([^\"]*\)\".*/found by \1/"'
mpis="none pmi2"
if has_pmix; then mpis="pmix $mpis"; else echo "skipped srun --mpi=pmix: Slurm has no such plugin here"; fi
for mpi in $mpis; do
    t "${mpi}_tasks_of_three_nodes_share_a_dictionary" sub srun --mpi=$mpi -N3 -n6 --ntasks-per-node=2 ddict run --managers=4 $mem -- sh -c "$script"
    is "${mpi}_of_one_name" "$(awk 'NF == 8 && $1 !~ /srun/ { print $7 }' "$out" | sort -u | grep -c '\.run$')" 1
    is "${mpi}_every_task_has_its_rank" "$(awk 'NF == 8 && $1 !~ /srun/ { print $2, $3, $4, $5, $6 }' "$out" | sort | paste -sd,)" \
        "0 0 6 2 0,1 1 6 2 0,2 0 6 2 1,3 1 6 2 1,4 0 6 2 2,5 1 6 2 2"
    is "${mpi}_and_all_meet_at_one_place" "$(awk 'NF == 8 && $1 !~ /srun/ { print $8 }' "$out" | sort -u | grep -c '^[0-9.]*:[0-9]*$')" 1
    if [ $mpi = pmix ]; then way=PMIx; else way="Slurm's variables"; fi
    is "${mpi}_and_is_left_to_the_command" "$(grep -c "^found by $way" "$out")" 6
    has_not "${mpi}_nothing_else_is_said" '^ddict|^srun: [^j]'
done
clean_after "nothing_is_left"

# shellcheck disable=SC2016
t "torch_meets" sub srun -N2 -n3 ddict run $mem -- python3 -c 'import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="env://")
x = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(x)
print("sum", int(x))'
is "torch_adds_up" "$(grep -c '^sum 6$' "$out")" 3

# The record is of the step, and complete when srun returns. Fewer managers than nodes are raised, said once.
t "options_and_the_record" sub sh -c "srun -N3 -n3 ddict run -v --managers=2 --mem=96M --record='$home/tasks.%j.%s' -- ddict put k v; cat '$home'/tasks.*"
is "fewer_managers_are_raised_and_that_is_said_once" "$(grep -c '^ddict run: --managers=2 raised to 3: one for each node$' "$out")" 1
is "the_summary_is_said_once" "$(grep -c '^ddict run: 3 managers on 3 nodes' "$out")" 1
has "the_record_has_the_end" '"event":"job_end".*"scope":"step","step":"0","reason":"drained"'

# Exit codes. A command that fails ends its task at once, the others go on with the dictionary.
# shellcheck disable=SC2016
t "a_task_that_fails_leaves_the_others_alone" sub sh -c 'srun -N2 -n3 ddict run '"$mem"' -- sh -c "
    case \$SLURM_PROCID in 0) exit 7 ;; 1) kill -9 \$\$ ;; esac
    sleep 1; ddict put k v && ddict get k && echo" 2>&1; echo "rc=$?"'
has "the_other_has_the_dictionary" '^v$'
has "exit_code_of_a_task" 'task 0: Exited with exit code 7'
has "signal_of_a_task" 'task 1: Killed'
t "a_command_that_is_not_there" sub sh -c "srun -N2 -n2 ddict run $mem -- ./nothing; test \$? = 127"
clean_after "nothing_is_left_of_tasks_that_failed"

# shellcheck disable=SC2016
t "one_after_the_other" sub srun -N2 -n4 sh -c 'ddict run '"$mem"' -- sh -c "ddict put a\$SLURM_PROCID v; sleep 0.\$SLURM_PROCID"
    ddict run '"$mem"' -- sh -c "ddict put b\$SLURM_PROCID v; for i in 0 1 2 3; do ddict get --wait=20 b\$i >/dev/null; done; ddict ls | sort | xargs"'
is "each_begins_empty" "$(grep -c '^b0 b1 b2 b3$' "$out")" 4

# What cannot be is said once, nothing runs, nobody waits.
refused() { # NAME REGEX ARGS...
    local name=$1 line=$2
    shift 2
    sub srun -N2 -n4 --mem=200M ddict run "$@" -- echo it ran >"$out" 2>&1 </dev/null
    is "${name}_is_refused" "$?$(grep -c 'it ran' "$out")" "${code-143}0"
    is "${name}_is_said_in_one_line" "$(grep -Ec "^ddict run: $line" "$out")$(grep -c '^ddict' "$out")" 11
}
refused "more_memory_than_the_job_has" '--mem of 900.0 MiB is 450.0 MiB on node .*, where the job has 200.0 MiB; ' --mem=900M --record=none
code=2 refused "a_wrong_option" '--mem=7X: ' --mem=7X
code=2 refused "ranks_of_its_own" '-n 2 in one of 4 tasks: ' -n 2 $mem
t "each_task_its_own" sub srun -N2 -n4 ddict run --local $mem -- sh -c 'ddict put $SLURM_PROCID v; ddict ls'
is "of_one_key_each" "$(grep -c . "$out")" 4
clean_after "nothing_is_left_of_what_was_refused"

# Ends from outside. Who is to start the managers is killed: another task of its node does it.
# shellcheck disable=SC2016
t "the_starter_is_killed" sub salloc -Q -N2 -n5 srun sh -c 'case $SLURM_PROCID in
    0) MASTER_ADDR=x MASTER_PORT=1 setsid ddict run '"$mem"' -- echo never & sleep 0.05; until kill -KILL -$! 2>/dev/null; do sleep 0.05; done ;;
    *) MASTER_ADDR=x MASTER_PORT=1 ddict run '"$mem"' -- sh -c "ddict put \$SLURM_PROCID v; ddict get --wait=20 4 >/dev/null && echo good" ;; esac'
is "the_others_have_a_dictionary" "$(grep -c '^good$' "$out")" 4
# shellcheck disable=SC2016
t "one_that_started_them_is_killed" sub salloc -Q -N2 -n4 srun sh -c 'case $SLURM_PROCID in
    0) setsid ddict run '"$mem"' -- sh -c "touch tasks.on; sleep 20" & p=$!; while [ ! -e tasks.on ]; do sleep 0.05; done; kill -KILL -$p ;;
    *) ddict run '"$mem"' -- sh -c "while [ ! -e tasks.on ]; do sleep 0.05; done; sleep 1; ddict put \$SLURM_PROCID v && echo good" ;; esac'
is "the_others_keep_theirs" "$(grep -c '^good$' "$out")" 3
rm -f tasks.on
# shellcheck disable=SC2016
t "scancel_of_the_step" sub salloc -Q -N2 -n4 sh -c 'srun ddict run --mem=96M --record='"$home"'/tasks.cancel -- sh -c "touch tasks.on; exec sleep 30" & p=$!
    while [ ! -e tasks.on ]; do sleep 0.05; done; scancel $SLURM_JOB_ID.0; wait $p; echo rc=$?
    for i in $(seq 400); do ! squeue -h -s -j $SLURM_JOB_ID -o %j | grep -q ddict && break; sleep 0.1; done; squeue -h -s -j $SLURM_JOB_ID -o "left %j"; cat tasks.cancel'
has "ends_the_tasks" '^rc=(137|143)$'
has "and_the_record_is_complete" '"event":"job_end".*"reason":"drained"'
has_not "and_the_managers_step" '^left ddict'
rm -f tasks.on
t "scancel_of_the_job" sub sh -c 'salloc -Q -N2 -n4 sh -c "(while [ ! -e tasks.on ]; do sleep 0.05; done; scancel \$SLURM_JOB_ID) & srun ddict run --mem=96M --record=tasks.job -- sh -c \"touch tasks.on; exec sleep 30\""
    for i in $(seq 400); do grep -q job_end tasks.job && break; sleep 0.1; done; cat tasks.job'
has "which_leaves_a_record" '"event":"job_end".*"reason":"(signal|drained)"'
rm -f tasks.on

# A batch script is one process, and so is a step of one task: the managers run on all nodes of the job, as ever.
t "one_process_has_all_nodes_of_the_job" sub salloc -Q -N3 srun -N1 -n1 --overlap ddict run -v $mem -- ddict put k v
has "three_nodes" '3 managers on 3 nodes'

# mpirun over the nodes of a job.
if sub sh -c 'command -v mpirun' >/dev/null; then
    # shellcheck disable=SC2016
    t "mpirun_over_three_nodes" sub salloc -Q -N3 -n6 --ntasks-per-node=2 mpirun --bind-to none ddict run --managers=3 $mem -- sh -c 'ddict put from$RANK v
        for i in 0 1 2 3 4 5; do ddict get --wait=20 from$i >/dev/null || exit 1; done; echo "$RANK $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT"; ddict runtime --check'
    is "mpirun_ranks" "$(awk '$2 == 6 { print $1 }' "$out" | sort | paste -sd,)" 0,1,2,3,4,5
    is "mpirun_ranks_meet" "$(awk '$2 == 6 { print $3 }' "$out" | sort -u | grep -c '^[0-9.]*:[0-9]*$')" 1
    is "mpirun_s_PMIx_is_left_to_the_command" "$(grep -c 'found by PMIx' "$out")" 6
else
    echo "skipped mpirun: openmpi-bin is not installed"
fi
clean_after "nothing_is_left_at_the_end"
finish
