#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program for Dragon whose steps are checkpoints of a working set: workers on two nodes wait for each other's values.
. "$(dirname "$0")/lib.sh"
limit=150
home=$PWD
trap 'rm -f "$out" "$home"/dragon_steps*' EXIT
cp "$tests/dragon_steps.py" "$home" && chmod 644 "$home/dragon_steps.py"
printf '#!/bin/sh\npython3 dragon_steps.py\n' >"$home/dragon_steps.sh"
t "steps_run" sub sbatch -Q --wait -N2 --overcommit -o "$home/dragon_steps.out" "$home/dragon_steps.sh"
cat "$home/dragon_steps.out" >>"$out"
has "all_workers_agree" '^agreed True pi 3\.1$'
has "the_newest_checkpoint_is_known" '^newest 7$'
has "what_is_persistent_stays" '^one before 6 workers 4$'
has "the_first_is_gone" '^the first is retired$'
clean_after "nothing_is_left_of_the_steps"
finish
