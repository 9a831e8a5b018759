#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs make dictionaries of their own over the nodes of their job: in a batch script, in a step, from Python and C. They end with their makers, also
# where these are killed, and where a whole step is; on a host that is none of the job's nothing is left.
. "$(dirname "$0")/lib.sh"
limit=150
home=$PWD prefix=$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/prefix")
trap 'rm -f "$out" "$home"/up_program*' EXIT
cp "$tests"/up_program.py "$home" && chmod 644 "$home/up_program.py"
cc -o "$home/up_program" "$tests/up_program.c" -I"$prefix/include" -L"$prefix/lib" -lddict -Wl,-rpath,"$prefix/lib" || not_ok "the C program is built"
program="python3 $home/up_program.py"

# batch NAME COMMAND... - a batch job of two nodes; what it said is in $out
batch() {
    local name=$1
    shift
    printf '#!/bin/sh\n%s\n' "$*" >"$home/up_program.$name.sh"
    t "$name" sub sbatch -Q --wait -N2 --overcommit -o "$home/up_program.out" "$home/up_program.$name.sh"
    cat "$home/up_program.out" >>"$out"
}

batch python_in_a_batch_script "$program block"
has "it_is_on_both_nodes" '^nodes 2 managers 4 own name True$'
has "its_managers_are_a_step" '^steps 1$'
is "tasks_of_both_nodes_find_it" "$(grep -c '^task ' "$out")" 2
has "and_store_in_it" '^keys 3$'
has "the_step_ends_with_the_block" '^ended True$'
clean_after "nothing_is_left_of_a_block"

batch c_in_a_batch_script "$home/up_program down && $home/up_program && squeue -h -s -o %j -j \$SLURM_JOB_ID | sed 's/^/step /'"
is "it_is_on_both_nodes_each_time" "$(grep -c '^nodes 2 managers 4$' "$out")" 2
is "and_has_its_keys" "$(grep -c '^keys 100$' "$out")" 2
has "down_returns" '^down$'
has_not "exit_ends_the_step" '^step ddict'
clean_after "nothing_is_left_of_the_c_program"

batch makers_are_killed "$program killed"
has "the_step_ends_with_its_maker" '^maker up 1 ended True$'
has "the_step_ends_with_the_maker_s_step" '^step up 1 ended True$'
clean_after "nothing_is_left_of_the_killed"

batch a_script_ends_before_its_maker "$program stay & sleep 8"
has "it_was_up" '^up$'
clean_after "nothing_is_left_of_the_script"

batch a_kept_one "$program keep && srun -N1 -n1 ddict get a && $program kept"
has "it_has_the_job_s_name" '^name of the job True$'
has "another_program_finds_it" '^found 1$'
has "and_ends_it" '^ended True$'
clean_after "nothing_is_left_of_a_kept_one"

t "in_a_step" sub salloc -Q -N2 srun -n1 -N1 --overlap $program block
has "it_is_on_the_job_s_nodes" '^nodes 2 managers 4 own name True$'
is "tasks_of_both_find_it" "$(grep -c '^task ' "$out")" 2
has "it_ends_with_the_block" '^ended True$'
clean_after "nothing_is_left_of_the_step"

t "on_the_login_node" sub salloc -Q -N2 $program away
has "the_error_says_why" '^refused: the dictionary .* began, but none of its nodes is .*: start the program on a node of the job, by srun or sbatch'
has "and_it_was_ended" '^ended True$'
clean_after "nothing_is_left_of_the_login_node"
finish
