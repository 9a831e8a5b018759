#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The hidden step starts whatever is in srun's environment; so does the user's step, with its stdin untouched.
. "$(dirname "$0")/lib.sh"
. "$tests/hostile_lines.sh"
limit=600

hostile alone bash "$tests/hostile.sh" "$tests/hostile.env" "" -N2 -n2
clean_after "nothing_is_left_after_sruns_of_their_own"

ddict=$(sub sh -c 'command -v ddict')
for export in NONE X=1 ALL,X=1 ALL NIL; do
    t "export_$export" sub srun -N2 -n2 --export="$export" --ddict-managers=2 --ddict-mem=32M /bin/sh "$tests/both.sh" "$ddict"
done
t "variables_of_ours_that_the_user_sets_hurt_nothing" sub env SLURM_DDICT_REFUSED=1 SLURM_DDICT_STEP=x SLURM_DDICT_JOB=--mem=1T \
    SLURM_SPANK_DDICT_SCOPE=job DDICT_NOTE_FD=4 DDICT_NODE=x DDICT_NAME=x DDICT_INTERNAL=1 \
    srun -N2 -n2 --ddict-managers=2 --ddict-mem=32M /bin/sh "$tests/both.sh" "$ddict"
t "a_refusal_reaches_the_tasks" sub sh -c "! salloc -Q -N2 srun -n2 --mem=100M --ddict-mem=10T echo THE TASK RAN"
has_not "and_no_task_ran" "^THE TASK"
clean_after "nothing_is_left_after_export"
finish
