#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In a job of sbatch: a step with a dictionary of its own, one for each srun, records where they are wanted, and a dictionary that cannot start.
. "$(dirname "$0")/lib.sh"
. "$tests/batch.sh"
ddict=$(sub sh -c 'command -v ddict')

b "a_step_of_its_own" -N2 --ddict-mem=64M <<END
#!/bin/bash
srun -N1 -n1 $ddict put k job
srun -N2 -n2 --ddict-scope=step --ddict-mem=32M sh -c 'test \$SLURM_PROCID = 1 || { echo "own \$DDICT_NAME"; $ddict put --new k step; }'
srun -N1 -n1 --ddict-mem=128M $ddict get k
echo
END
has "it_is_beside_the_job_s" '^own [0-9]+\.[0-9]+\.[0-9]+$'
has "which_it_did_not_change" '^job$'
has "other_figures_are_answered_in_a_line" '^ddict: --ddict-mem=128M: this step uses the job.s dictionary'
sub sh -c 'mkdir -p ~/jobwork'
b "scope_step_is_one_for_each_srun" -N1 --ddict-mem=32M --ddict-scope=step --chdir="$PWD/jobwork" --ddict-record="my %s.jsonl" <<END
#!/bin/bash
echo "script \${DDICT_NAME-none}"
srun -N1 -n1 $ddict put --new k v
srun -N1 -n1 $ddict put --new k v && echo "twice new"
END
has "the_script_has_none" '^script none$'
has "the_second_is_empty" '^twice new$'
is "records_are_where_the_option_and_chdir_say" "$(ls jobwork | tr '\n' ' ')" "my 0.jsonl my 2.jsonl "
rm -rf jobwork

batch -N1 --mem=100M --ddict-mem=10T >"$out" 2>&1 <<END
#!/bin/bash
echo THE SCRIPT RAN
END
is "a_dictionary_that_cannot_start_fails_the_job" "$?" 1
has "and_says_why_in_the_job_s_file" '^ddict: .*--mem='
has_not "and_the_script_does_not_run" 'THE SCRIPT'
clean_after "nothing_is_left"
finish
