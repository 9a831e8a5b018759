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

sub srun -N1 -n1 true : -N1 -n1 --ddict-managers=1 --ddict-mem=16M true >"$out" 2>&1 </dev/null
is "het_jobs_that_ask_late_are_refused" "$([ $? != 0 ] && echo yes)" yes
has "het_jobs_are_named_in_the_reason" "[Hh]et"

# submitted NAME REGEX COMMAND WORDS... - sbatch or salloc submits nothing and says why in one line
submitted() {
    local name=$1 regex=$2 rc
    shift 2
    sub "$@" >"$out" 2>&1 </dev/null
    rc=$?
    if [ $rc = 0 ] || [ $rc -ge 124 ] || [ "$(wc -l <"$out")" != 1 ]; then echo "(exit code $rc)" >>"$out"; not_ok "$name"; return; fi
    has "$name" "$regex"
    is "${name}_and_nothing_is_submitted" "$(sub squeue -h)" ""
}
submitted "sbatch_judges_the_memory" 'sbatch: error: ddict: --ddict-mem=16Q' sbatch --ddict-mem=16Q --wrap true
submitted "sbatch_judges_a_share" 'sbatch: error: ddict: --ddict-mem=101%' sbatch --ddict-mem=101% --wrap true
submitted "sbatch_judges_the_managers" 'sbatch: error: ddict: --ddict-managers=0' sbatch --ddict-managers=0 --wrap true
submitted "sbatch_judges_the_scope" 'sbatch: error: ddict: --ddict-scope=all' sbatch --ddict-mem=64M --ddict-scope=all --wrap true
submitted "sbatch_judges_lines_of_the_script" 'sbatch: error: ddict: --ddict-managers=x' sh -c 'cd; printf "#!/bin/sh\n#SBATCH --ddict-managers=x\n" >job.sh; sbatch job.sh; rc=$?; rm -f job.sh; exit $rc'
submitted "sbatch_refuses_het_jobs_of_two_minds" 'sbatch: error: ddict: .*heterogeneous' sbatch --ddict-mem=64M : -N1 --ddict-mem=32M --wrap true
submitted "salloc_judges_the_memory" 'salloc: error: ddict: --ddict-mem=16Q' salloc --ddict-mem=16Q true
submitted "salloc_judges_the_variable" 'salloc: error: ddict: DDICT_MEM=16Q' env DDICT_MEM=16Q salloc true
submitted "salloc_judges_a_lonely_record" 'salloc: error: ddict: --ddict-record=x: also ask' salloc --ddict-record=x true
submitted "srun_does_not_give_a_dictionary_to_a_job" 'srun: error: ddict: --ddict-scope=job: say it to salloc or sbatch' srun --ddict-mem=64M --ddict-scope=job true

clean_after "no_job_is_left_and_no_node_drained"
t "the_next_job_runs" sub srun -N2 -n2 --ddict-managers=2 --ddict-mem=64M true
clean_after "nothing_is_left"
finish
