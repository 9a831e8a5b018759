#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The hidden step starts whatever is in srun's environment; so does the user's step, with its stdin untouched.
. "$(dirname "$0")/lib.sh"
limit=600

hostile() { # NAME CMD...: passes the lines of hostile.sh on
    local name=$1
    shift
    sub "$@" >"$out" 2>&1 </dev/null
    sed "s/^\(ok\|not ok\) /\1 ${name}_/" "$out"
    ! grep -q '^not ok' "$out" || bad=1
    local n
    n=$(sed -n 's/^\([0-9]*\) tested.*/\1/p' "$out")
    if [ "${n:-0}" -ge 80 ]; then ok "${name}_tests_at_least_80_variables"; else not_ok "${name}_tests_at_least_80_variables"; fi
}
hostile alone bash "$tests/hostile.sh" "$tests/hostile.env" "" -N2 -n2
clean_after "nothing_is_left_after_sruns_of_their_own"
hostile inside bash "$tests/hostile.sh" "$tests/hostile.env" "salloc -Q -N2" -N2 -n2
clean_after "nothing_is_left_after_sruns_in_an_allocation"

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
