#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A node is set down while managers run, in a job that goes on without it (--no-kill): Slurm ends what runs there and nothing else, so the managers of the
# other nodes end in order, say why, and write their part of the record. From Slurm 23.11 on this holds for a step that keeps --no-kill (step_argv.c).
. "$(dirname "$0")/lib.sh"
trap 'root scontrol update nodename="${nodes[1]}" state=resume >/dev/null 2>&1; rm -f "$out"' EXIT

limit=120 sub srun --no-kill -N2 -n2 -w "${nodes[0]},${nodes[1]}" --mem=300M --ddict-mem=64M sh -c 'ddict put k$SLURM_PROCID v && echo "begun $SLURM_JOB_ID"
    for i in $(seq 1200); do ddict put again v || break; sleep 0.2; done; echo "rank $SLURM_PROCID has seen it" >>seen-$SLURM_JOB_ID' >"$out" 2>&1 </dev/null &
srun=$!
for i in $(seq $((300 * slow))); do
    [ "$(grep -c '^begun ' "$out")" = 2 ] && break
    sleep 0.2
done
is "both_tasks_have_begun" "$(grep -c '^begun ' "$out")" 2
job=$(awk '$1 == "begun" { print $2; exit }' "$out")
t0=$SECONDS
root scontrol update nodename="${nodes[1]}" state=down reason=test
wait $srun
if [ $((SECONDS - t0)) -lt $((45 * slow)) ]; then ok "it_is_over_in_time"; else not_ok "it is over $((SECONDS - t0)) s later"; fi
# in a file, because srun 22.05 may end before the last line of a task comes
is "the_task_of_the_other_node_went_on_until_the_dictionary_ended" "$(cat "seen-$job" 2>&1)" 'rank 0 has seen it'
has "the_lost_node_is_named" "ddict: node ${nodes[1]} is lost"
has "the_summary_is_there" "ddict: 2 managers on 2 nodes.*; ended early: node ${nodes[1]} is lost"
has_not "nobody_was_killed_on_the_other_node" "${nodes[0]}: task .: (Killed|Terminated)"
is "the_record_has_the_end" "$(grep -c '"event":"job_end"' "ddict-$job.jsonl")" 1
rm -f "ddict-$job.jsonl" "seen-$job"
root scontrol update nodename="${nodes[1]}" state=resume >/dev/null 2>&1
clean_after "nothing_is_left"
finish
