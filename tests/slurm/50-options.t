#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A wrong option is refused before any task starts: one clear line that names option and value, no job, no drained node.
. "$(dirname "$0")/lib.sh"

# refused NAME REGEX WORDS... - srun WORDS fails, says something like REGEX, and the task does not run
refused() {
    local name=$1 regex=$2 rc
    shift 2
    sub srun "$@" echo THE TASK RAN >"$out" 2>&1 </dev/null
    rc=$?
    if [ $rc = 0 ] || [ $rc = 124 ] || [ $rc = 137 ]; then echo "(exit code $rc)" >>"$out"; not_ok "$name"; return; fi
    if grep -q 'THE TASK RAN' "$out"; then not_ok "$name: no task runs"; return; fi
    if [ "$(grep -Eic -- "$regex" "$out")" != 1 ]; then not_ok "$name: one line says why"; return; fi
    ok "$name"
}

for value in 16Q -1 0 '' G 1Gx 4K 99999999999999999999T x; do
    refused "mem_'$value'_is_refused" "ddict-mem.*" -N2 -n2 --ddict-managers=2 --ddict-mem="$value"
    has "the_line_for_mem_'$value'_names_the_value" "(ddict-mem[= '\"]*$value|$value)"
done
for value in 0 -1 99999999 '' two 1.5 65536; do
    refused "managers_'$value'_is_refused" "ddict-managers.*" -N2 -n2 --ddict-managers="$value" --ddict-mem=64M
done
refused "more_memory_than_the_job_has" "ddict-mem|--mem=" -N2 -n2 --mem=2G --ddict-managers=2 --ddict-mem=10T
has "it_names_the_option_to_add" "--mem="
refused "a_little_more_than_the_job_has" "--mem=" -N2 -n2 --mem=100M --ddict-managers=2 --ddict-mem=400M
refused "more_than_the_node_has_with_mem_0" "ddict-mem|--mem" -N2 -n2 --mem=0 --ddict-managers=2 --ddict-mem=10T
refused "too_little_for_so_many_managers" "ddict-mem|ddict-managers" -N2 -n2 --ddict-managers=64 --ddict-mem=64M

sub env DDICT_MEM=16Q srun -N2 -n2 --ddict-managers=2 true >"$out" 2>&1 </dev/null
is "the_environment_form_is_checked_too" "$?" 1
has "and_names_the_variable_or_the_option" "DDICT_MEM|ddict-mem"

t "fewer_managers_than_nodes_is_raised" sub srun -N2 -n2 --ddict-managers=1 --ddict-mem=64M true
has "and_said_in_one_line" "ddict.*manager"

sub srun -N1 -n1 --ddict-managers=1 --ddict-mem=16M true : -N1 -n1 true >"$out" 2>&1 </dev/null
is "het_jobs_are_refused" "$([ $? != 0 ] && echo yes)" yes
has "het_jobs_are_named_in_the_reason" "[Hh]et"

clean_after "no_job_is_left_and_no_node_drained"
t "the_next_job_runs" sub srun -N2 -n2 --ddict-managers=2 --ddict-mem=64M true
clean_after "nothing_is_left"
finish
