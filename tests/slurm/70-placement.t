#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The managers are on the nodes of their step and on no other, however the step got its nodes; tasks, limits, terminal
# and stdin are the user's own.
. "$(dirname "$0")/lib.sh"
need_nodes 3
dd="--ddict-managers=3 --ddict-mem=96M"
ddict=$(sub sh -c 'command -v ddict')
# Printed by one task: name and nodes of all steps of the job but the batch and extern ones.
steps='test $SLURM_PROCID = 0 || exit 0; squeue -h -s -j $SLURM_JOB_ID -o "%j %N"'

# placed NAME NODES SRUN-WORDS... - inside an allocation of three nodes
placed() {
    local name=$1 wanted=$2
    shift 2
    t "$name" sub salloc -Q -N3 --exclusive srun "$@" $dd sh -c "$ddict put k v && $ddict get k >/dev/null && $steps"
    has "${name}_puts_managers_on_$wanted" "^ddict $wanted\$"
}
id=$DEVCLUSTER_ID
placed "nodelist" "${id}n2" -N1 -n1 -w "${id}n2"
placed "relative" "${id}n\[2-3\]" -N2 -n2 -r1
placed "excluded" "${id}n\[2-3\]" -N2 -n2 -x "${id}n1"
placed "exclusive_mem_0" "${id}n\[1-3\]" -N3 -n3 --exclusive --mem=0
placed "one_node_two_tasks" "${id}n[123]" -N1 -n2
placed "ntasks_per_node" "${id}n\[1-3\]" -N3 --ntasks-per-node=2
placed "cpus_per_task" "${id}n\[1-3\]" -N3 -n3 --cpus-per-task=2
placed "all_cpus" "${id}n\[1-3\]" -N3 -n3 --cpus-per-task=4
placed "gives_names" "${id}n\[1-3\]" -N3 -n3 -J 'my job'
clean_after "nothing_is_left_after_placement"

t "two_steps_side_by_side_have_two_dictionaries" sub salloc -Q -N2 bash -c "
    for i in 1 2; do srun --exact -c1 -N2 -n2 --mem=500 --ddict-managers=2 --ddict-mem=32M sh -c \
        '$ddict put only\$0 v && sleep 1 && $ddict ls' \$i & done; wait"
has "each_sees_its_own_key_1" only1
has "each_sees_its_own_key_2" only2

t "low_file_size_limit" sub bash -c "ulimit -f 1; srun -N2 -n2 $dd sh $tests/both.sh $ddict"
# srun of Slurm 26.05 begins more threads, each with a stack of 8 MiB.
limit_kib=400000
sub bash -c "ulimit -v $limit_kib; srun -N2 -n2 true" >"$out" 2>&1 || limit_kib=800000
t "low_address_space_limit" sub bash -c "ulimit -v $limit_kib; srun -N2 -n2 --ddict-managers=2 --ddict-mem=32M sh $tests/both.sh $ddict"
t "few_descriptors" sub bash -c "ulimit -n 32; srun -N2 -n2 $dd sh $tests/both.sh $ddict"
t "closed_stdin" sub bash -c "exec <&-; srun -N2 -n2 $dd sh $tests/both.sh $ddict"

seq 20000 | sub srun -n1 -N1 --ddict-managers=1 --ddict-mem=16M md5sum 2>/dev/null >"$out"
is "stdin_of_the_program_is_intact" "$(cut -d' ' -f1 "$out")" "$(seq 20000 | md5sum | cut -d' ' -f1)"
seq 20000 | sub salloc -Q -N1 srun -n1 --ddict-managers=1 --ddict-mem=16M md5sum 2>/dev/null >"$out"
is "stdin_inside_an_allocation_is_intact" "$(cut -d' ' -f1 "$out")" "$(seq 20000 | md5sum | cut -d' ' -f1)"

t "pty" terminal "srun --pty -N1 --ddict-managers=1 --ddict-mem=16M sh -c 'test -t 0 && test -t 1 && $ddict put k v && echo a terminal'"
has "pty_says_so" "a terminal"
clean_after "nothing_is_left"
finish
