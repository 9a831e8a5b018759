#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A dictionary that srun was asked for is there for its tasks, is a step of its own, and is gone with them.
. "$(dirname "$0")/lib.sh"

t "srun_shows_the_options_in_help" sub srun --help
for option in ddict-managers ddict-mem ddict-record ddict-scope; do has "help_has_$option" "--$option"; done

t "a_job_without_options_runs_as_ever" sub srun -N2 -n2 sh -c 'test -z "${DDICT_NAME-}"'

t "tasks_of_two_nodes_share_a_dictionary" sub srun -N2 -n2 --ddict-managers=2 --ddict-mem=64M python3 -c '
import ddict, os
d, me = ddict.attach(), int(os.environ["SLURM_PROCID"])
d["from", me] = "hello %d" % me
assert d.get(("from", 1 - me), wait=True, timeout=20) == "hello %d" % (1 - me)
print(os.environ["DDICT_NAME"])'
is "both_tasks_see_the_same_name" "$(grep -v '^ddict: ' "$out" | sort -u | grep -c .)" 1
clean_after "nothing_is_left_after_it"

t "environment_form_of_the_options" sub env DDICT_MANAGERS=2 DDICT_MEM=64M srun -N2 -n2 ddict put k v
clean_after "nothing_is_left_after_the_environment_form"

t "squeue_lists_the_step_while_it_runs" sub srun -N2 -n2 --ddict-managers=2 --ddict-mem=64M \
    sh -c 'test $SLURM_PROCID = 1 || squeue -h -s -j $SLURM_JOB_ID -o "%i %j %N"; sleep 0.5'
has "squeue_shows_a_step_named_ddict" '^[0-9]+\.[0-9]+ ddict '

t "exit_code_of_the_tasks_is_that_of_srun" sub sh -c 'srun -N2 -n2 --ddict-managers=2 --ddict-mem=64M sh -c "exit 7"; test $? = 7'
clean_after "nothing_is_left_after_a_failed_task"

t "the_users_noise_is_only_the_users" sub srun -N2 -n2 --ddict-managers=2 --ddict-mem=64M true
is "but_for_a_summary_of_one_line" "$(grep -cv '^ddict: [0-9]* manager' "$out")$(wc -l <"$out")" 01

t "inside_salloc" sub salloc -Q -N2 srun -n2 --ddict-managers=2 --ddict-mem=64M ddict stats
t "inside_a_batch_script" sub sh -c 'cd; printf "#!/bin/sh\nsrun -n2 --ddict-managers=2 --ddict-mem=64M ddict put a b && echo fine\n" >job.sh
    sbatch -Q -W -N2 -o job.out job.sh; cat job.out; rm -f job.sh job.out'
has "the_batch_script_ran" '^fine$'
clean_after "nothing_is_left_after_salloc_and_sbatch"
finish
