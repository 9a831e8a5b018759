#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job's memory limit that is changed while it runs, by an administrator or by Slurm: the dictionary keeps what it has, says which cgroup's limit is
# near, and goes on when there is room again; where the kernel slows the job, nobody is lost.
. "$(dirname "$0")/lib.sh"
. "$tests/limits.sh"

begin srun -w "${nodes[0]}" -N1 -n1 --mem=700M --ddict-managers=1 --ddict-mem=500M --ddict-record=none python3 "$tests/limits.py" \
    put 60 check mark held wait lowered full check mark full wait raised put 20 check
if awaited held; then
    folder=$(job_folder)
    mib=$(($(used) + 32)) # 64 are kept free
    limit "$mib"
    touch "$work/lowered"
    awaited full
    limit 700
    touch "$work/raised"
fi
over
is "limit_lowered: the_task_ends_well" "$rc" 0
is "limit_lowered: no_value_is_lost" "$(grep -c '^checked .*no error' "$out")" 3
has "limit_lowered: the_error_names_the_cgroup_and_its_limit" "^full at [0-9]+: .*manager 0 cannot grow beyond .*: the memory limit of cgroup $(in_messages "$folder") \($mib\.0 MiB\) is near"
clean_after "limit_lowered: nothing_is_left"

# Below what is held the kernel ends all of the job on that node, slurmstepd too, as without a dictionary: it looks
# again before the memory of the first one is free. Slurm's srun waits for a slurmstepd that is no more, until the job is cancelled.
begin srun -w "${nodes[0]}" -N1 -n1 --mem=700M --ddict-managers=1 --ddict-mem=500M --ddict-record=none python3 "$tests/limits.py" \
    put 200 mark held wait lowered use 30
if awaited held; then
    folder=$(job_folder)
    limit 100
    touch "$work/lowered"
    t "limit_below_what_is_held: it_can_be_cancelled" sub scancel -u ddict-test
fi
over
is "limit_below_what_is_held: then_srun_ends_by_itself" "$([ "$rc" != 124 ] && [ "$rc" != 137 ] && echo yes || echo "$rc")" yes
find "$folder" -depth -type d -exec rmdir {} + # nobody removes the cgroups of a slurmstepd that was killed
clean_after "limit_below_what_is_held: nothing_is_left"

begin srun -w "${nodes[0]},${nodes[1]}" -N2 -n2 --mem=700M --ddict-managers=2 --ddict-mem=800M --ddict-record=none sh -c "
    if [ \$SLURM_PROCID = 0 ]; then exec python3 $tests/limits.py put 200 check mark held wait lowered put 8 use 8 mark slowed wait raised put 20 check
    else exec python3 $tests/limits.py wait raised; fi"
if awaited held; then
    folder=$(job_folder)
    mib=$(($(used) - 20)) # far above it each few KiB sent to another node take Linux 6.12 two seconds
    echo $((mib << 20)) >"$folder/memory.high"
    touch "$work/lowered"
    awaited slowed
    echo max >"$folder/memory.high"
    touch "$work/raised"
fi
over
is "memory_high: the_tasks_end_well" "$rc" 0
is "memory_high: no_value_is_lost" "$(grep -c '^checked .*no error' "$out")" 2
has "memory_high: a_sentence_says_why_it_is_slow" "ddict: .*node ${nodes[0]} is above memory\.high of cgroup $(in_messages "$folder") \($mib\.0 MiB\): the kernel slows"
has_not "memory_high: nobody_is_lost" 'has not answered|is lost|LostError|GoneError|died'
clean_after "memory_high: nothing_is_left"
finish
