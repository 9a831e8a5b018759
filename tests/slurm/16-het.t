#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Heterogeneous jobs: one dictionary over all components of a step or of a job, whoever asks for it and however it ends.
. "$(dirname "$0")/lib.sh"
. "$tests/batch.sh"
need_nodes 3
ddict=$(sub sh -c 'command -v ddict')
id=$DEVCLUSTER_ID
# Only Slurm's backfill starts them, and one component after the other.
limit=90
rm -f ddict-*.jsonl

# Each task puts a key and waits for those of all others.
cat >het.sh <<END
#!/bin/bash
$ddict put k\$RANK "of \$RANK on \$SLURMD_NODENAME"
for ((r = 0; r < WORLD_SIZE; r++)); do
    end=\$((SECONDS + 20 * $slow))
    until $ddict get k\$r >/dev/null 2>&1; do [ \$SECONDS -lt \$end ] || { echo "rank \$RANK misses k\$r"; exit 1; }; sleep 0.1; done
done
echo "rank \$RANK of \$WORLD_SIZE in \$DDICT_NAME has all"
[ \$RANK = 0 ] || exit 0
$ddict get k\$((WORLD_SIZE - 1)); echo
squeue -h -s -u \$USER -o 'step %j on %N'
END
chmod 755 het.sh

t "a_step_of_two_components" sub srun -N1 -n1 --ddict-mem=96M ./het.sh : -N2 -n3 ./het.sh
has "the_last_rank_has_all_keys" "^rank 3 of 4 in [0-9]+\.[0-9]+\.0 has all$"
is "all_have_one_dictionary" "$(sed -n 's/^rank . of 4 in \(.*\) has all$/\1/p' "$out" | sort | uniq -c | awk '{ print $1 }')" 4
has "a_key_of_the_other_component_is_read" "^of 3 on ${id}n"
is "each_component_has_a_step_of_managers" "$(grep -c '^step ddict on ' "$out")" 2
is "srun_tells_its_end_once" "$(grep -Ec '^ddict: 3 managers on 3 nodes, 96.0 MiB: ' "$out")" 1
job=$(sed -n 's/^rank 0 of 4 in [0-9]*\.\([0-9]*\)\..*/\1/p' "$out")
is "and_there_is_one_record" "$(ls ddict-*.jsonl | tr '\n' ' ')" "ddict-$job.jsonl "
t "that_report_prints" sub "$ddict" report "$job"
has "with_all_nodes" "${id}n3"
clean_after "nothing_is_left_of_it"
rm -f ddict-*.jsonl

# One for each component
cat >het-each.sh <<END
#!/bin/bash
$ddict put r\$RANK "of \$SLURMD_NODENAME"
for ((r = 0; r < WORLD_SIZE; r++)); do
    end=\$((SECONDS + 20 * $slow))
    until $ddict get r\$r >/dev/null 2>&1; do [ \$SECONDS -lt \$end ] || { echo "rank \$RANK misses r\$r"; exit 1; }; sleep 0.1; done
done
echo "rank \$RANK of \$WORLD_SIZE, task \$SLURM_PROCID, in \$DDICT_NAME at \$MASTER_PORT"
[ \$RANK = 0 ] || exit 0
$ddict stats | sed 's/^/stats /'
$ddict save $PWD/het-saved.\$DDICT_NAME && $ddict restore $PWD/het-saved.\$DDICT_NAME
END
chmod 755 het-each.sh
t "each_component_has_one" sub srun -N1 -n1 --ddict-mem=96M --ddict-scope=component ./het-each.sh : -N2 -n3 ./het-each.sh
job=$(sed -n 's/^rank 0 of 1, task 0, in [0-9]*\.\([0-9]*\)\.0\.\1 at [0-9]*$/\1/p' "$out")
is "the_first_has_one_task_and_its_own_dictionary" "${job:+yes}" yes
is "the_second_has_three" "$(sed -n "s/^rank \(.\) of 3, task \(.\), in [0-9]*\.$job\.0\.$((job + 1)) at [0-9]*$/\1\2/p" "$out" | sort | paste -sd' ')" "01 12 23"
is "they_meet_at_two_places" "$(sed -n 's/.* at \([0-9]*\)$/\1/p' "$out" | sort -u | wc -l)" 2
is "each_has_the_managers_of_its_nodes" "$(grep -Ec "^stats +[0-9]+ +${id}n[123] " "$out")" 3
is "each_is_saved_and_restored_on_its_nodes" "$(grep -Ec '^ddict restore: restored [13] items, .* (1 node|2 nodes)\)$' "$out")" 2
is "srun_tells_the_end_of_each" "$(sed -n "s/^ddict: [0-9]*\.$job\.0\.\([0-9]*\): \([12]\) managers\{0,1\} on \2 nodes\{0,1\}, 96.0 MiB: .*/\1 \2/p" "$out" | sort | paste -sd,)" "$job 1,$((job + 1)) 2"
is "each_names_its_managers_step_as_Slurm_finds_it" "$(sed -n 's/.*"component":"\([0-9]*\)".*"managers_step":"\([0-9]*\)\.[0-9]*".*/\1 \2/p' "ddict-$job.jsonl" | sort | paste -sd,)" "$job $job,$((job + 1)) $((job + 1))"
t "and_there_is_a_report_of_each" sub "$ddict" report "$job"
is "with_its_component" "$(grep -Ec "job $job, step 0, component ($job|$((job + 1))): " "$out")" 2
clean_after "nothing_is_left_of_both"
sub srun -N1 -n1 --ddict-mem=96M --ddict-scope=component true : -N1 -n1 --ddict-mem=97M true >"$out" 2>&1 </dev/null
is "each_asks_alike" "$?" 1
has "and_it_says_so" 'srun: error: ddict: --ddict-mem=97M: .* ask alike; .*before the first ":"'
sub srun -N1 -n1 --ddict-mem=96M --ddict-scope=component --ddict-load=/none true : -N1 -n1 true >"$out" 2>&1 </dev/null
is "if_one_cannot_start_none_does" "$?" 1
clean_after "and_nothing_of_them_is_left"
sub srun -N1 -n1 --ddict-mem=96M --ddict-scope=component --ddict-save=both true : -N1 -n1 true >"$out" 2>&1 </dev/null
is "they_cannot_save_into_one_folder" "$?" 1
has "and_it_says_what_to_do" 'srun: error: ddict: --ddict-save with --ddict-scope=component: .* use .ddict save.'
t "ranks_of_several_dictionaries_meet_by_none_of_them" sub srun -N1 -n1 --ddict-mem=96M --ddict-scope=component "$ddict" runtime : -N2 -n3 "$ddict" runtime
has_not "but_by_PMIx_alone" 'the dictionary'
if sub env SLURM_HET_SIZE=2 srun -N1 -n1 true >"$out" 2>&1; then
    t "a_job_without_components_may_have_inherited_their_number" sub env SLURM_HET_SIZE=2 srun -N1 -n1 --ddict-mem=96M --ddict-scope=component "$ddict" put inherited yes
else
    echo "skipped a_job_without_components_may_have_inherited_their_number: this srun refuses it itself: $(tail -n 1 "$out")"
fi
t "without_components_it_is_the_step_s" sub srun -N2 -n2 --ddict-mem=96M --ddict-scope=component sh -c 'echo "in $DDICT_NAME"'
is "as_its_name_says" "$(grep -Ec '^in [0-9]+\.[0-9]+\.0$' "$out")" 2
rm -rf ddict-*.jsonl het-saved*

# The nodes of one component hold it
cat >het-keyed.sh <<END
#!/bin/bash
./het.sh || exit
[ \$RANK != 0 ] || $ddict stats | sed 's/^/stats /'
END
chmod 755 het-keyed.sh
t "the_second_component_holds_it" sub srun -N1 -n1 --ddict-mem=96M --ddict-nodes=het:1 ./het-keyed.sh : -N2 -n3 ./het-keyed.sh
is "with_its_nodes_first" "$(sed -nE "s/^stats +([012]) +(${id}n[123]) .*/\1 \2/p" "$out" | paste -sd,)" "0 ${id}n2,1 ${id}n3,2 ${id}n1"
has "and_none_of_its_memory_on_the_first" "^stats +2 +${id}n1 .* 64.0 MiB +[0-9.]+% +0 "
is "which_is_not_counted" "$(grep -Ec '^ddict: 3 managers on 3 nodes, 96.0 MiB: 4 keys' "$out")" 1
t "and_so_in_a_plain_job_the_first_node" sub srun -N3 -n3 --ddict-mem=96M --ddict-nodes=1:32M ./het-keyed.sh
has "while_the_others_forward" "^stats +1 +${id}n2 .* 32.0 MiB +[0-9.]+% +0 "
is "says_the_record" "$(sed -n 's/.*"event":"start".*"keyed_nodes":\([0-9]*\).*/\1/p' ddict-*.jsonl | sort | paste -sd' ')" "1 2"
clean_after "nothing_is_left_of_these"
sub srun -N1 -n1 --ddict-mem=96M --ddict-nodes=het:2 true : -N1 -n1 true >"$out" 2>&1 </dev/null
is "a_component_that_is_not_there_is_refused" "$?" 1
has "by_its_name" 'srun: error: ddict: --ddict-nodes=het:2: the dictionary has no node of that component'
sub srun -N1 -n1 --ddict-mem=96M --ddict-nodes=het:0 true >"$out" 2>&1 </dev/null
is "without_components_it_is_refused" "$?" 1
sub srun -N1 -n1 --ddict-mem=96M --ddict-scope=component --ddict-nodes=het:0 true : -N1 -n1 true >"$out" 2>&1 </dev/null
is "and_with_a_dictionary_for_each" "$?" 1
clean_after "and_nothing_begins"
rm -f ddict-*.jsonl

cat >het-job.sh <<END
#!/bin/bash
echo "== both"
srun --het-group=0,1 --ddict-mem=96M ./het.sh
echo "== one"
srun --het-group=1 --ddict-mem=64M sh -c 'test \$SLURM_PROCID = 0 || exit 0; squeue -h -s -u \$USER -o "one %j %N" | grep ddict'
echo "== apart"
srun --het-group=0 --ddict-mem=32M sh -c '$ddict put k first; sleep 2; $ddict get k; echo' &
srun --het-group=1 -n1 -N1 --ddict-mem=32M sh -c '$ddict put k second; sleep 2; $ddict get k; echo' &
wait
echo "== each"
srun --het-group=0,1 --ddict-mem=32M --ddict-scope=component sh -c '$ddict put k v; echo "in \$DDICT_NAME"'
END
chmod 755 het-job.sh
t "in_an_allocation" sub salloc -Q -N1 -n1 : -N2 -n2 ./het-job.sh
has "a_step_spans_the_components_it_names" "^rank 2 of 3 in .* has all$"
has "managers_are_on_the_nodes_of_the_step_only" "^one ddict ${id}n\[2-3\]$"
has "two_sruns_are_two_dictionaries_first" "^first$"
has "two_sruns_are_two_dictionaries_second" "^second$"
is "one_srun_with_the_scope_component_is_two_as_well" "$(sed -n 's/^in //p' "$out" | sort | uniq -c | awk '{ print $1 }' | sort | paste -sd' ')" "1 2"
rm -f ddict-*.jsonl
mkdir -p het-data && for i in 1 2 3 4 5 6; do echo "item $i" >het-data/$i; done

cat >het-own.sh <<END
#!/bin/bash
srun --het-group=1 -n1 -N1 $ddict put k 'of the second'
srun --het-group=0 -n1 $ddict get k; echo
$ddict get k; echo
$ddict load het-data
$ddict save $PWD/het-saved && $ddict rm --all && $ddict restore $PWD/het-saved && $ddict get k; echo
srun --het-group=0,1 ./het.sh
END
chmod 755 het-own.sh
t "a_job_of_salloc_has_one" sub salloc -Q --ddict-mem=96M -N1 -n1 : -N2 -n2 ./het-own.sh
is "whose_nodes_load_as_one" "$(grep -c '^het-data: 6 items, .* on each of 3 nodes$' "$out")" 1
has "and_restore_what_they_saved" "^ddict restore: restored [0-9]+ items, .* 3 nodes\)$"
is "its_steps_and_the_submit_host_read_it" "$(grep -c '^of the second$' "$out")" 3
has "a_step_over_all_uses_it" "^rank 2 of 3 in [0-9]+\.[0-9]+\.job has all$"
clean_after "nothing_is_left_of_the_job"
is "it_leaves_one_record" "$(ls ddict-*.jsonl | wc -l)" 1
rm -f ddict-*.jsonl

b "a_job_of_sbatch_has_one" -N1 -n1 --ddict-mem=96M : -N2 -n2 <<END
#!/bin/bash
$ddict put k script
srun --het-group=1 -n1 -N1 $ddict get k; echo
srun --het-group=0,1 ./het.sh
END
has "its_script_and_steps_share_it" "^script$"
has "on_all_nodes" "^rank 2 of 3 in [0-9]+\.[0-9]+\.job has all$"
has "its_summary_is_in_the_job_s_file" "^ddict: 3 managers on 3 nodes"
clean_after "nothing_is_left_of_the_batch_job"
is "it_leaves_one_record_too" "$(ls ddict-*.jsonl | wc -l)" 1
rm -f ddict-*.jsonl

# Ends
# Slurm 22.05 to 26.05 let the other components of the step run on, and salloc does not end them with the job.
cat >het-cancel.sh <<END
#!/bin/bash
srun --het-group=0,1 --ddict-mem=96M sh -c '$ddict put a\$SLURM_PROCID v; test \$SLURM_PROCID = 0 || exec sleep 60; until $ddict get a2; do sleep 0.1; done; touch het-runs
    for i in \$(seq 200); do $ddict get a2 2>&1 || exit 3; sleep 0.1; done' >het-said 2>&1 &
for ((i = 0; i < 300 * $slow; i++)); do [ ! -e het-runs ] || break; sleep 0.1; done
begin=\$SECONDS
scancel \$SLURM_JOB_ID+1
wait \$!
echo "srun ended with \$? after \$((SECONDS - begin)) s"
uniq het-said
scancel \$SLURM_JOB_ID
END
chmod 755 het-cancel.sh
sub sh -c 'rm -f het-runs'
sub salloc -Q -N1 -n1 : -N2 -n2 ./het-cancel.sh >"$out" 2>&1 </dev/null
has "a_component_that_is_cancelled_ends_the_dictionary" "^srun ended with [1-9][0-9]* after 1?[0-9] s$"
has "whose_other_tasks_are_told" "ddict get: .*(gone|lost|ending|ended|no dictionary)"
clean_after "nothing_is_left_of_a_cancelled_component"

sub sh -c 'rm -f het-runs'
sub srun -N1 -n1 --ddict-mem=96M sh -c 'touch het-runs; sleep 60' : -N2 -n2 sleep 60 >"$out" 2>&1 </dev/null &
for ((i = 0; i < 600 * slow; i++)); do [ ! -e het-runs ] || break; sleep 0.1; done
# srun has a child that looks the same, and ends the step; its pid may be the lower one
"$devcluster" ps ctl | awk '$5 ~ /(^|\/)srun$/ && / -N1 -n1 --ddict-mem=96M/ { print $2 }' | while read -r pid; do
    grep -qsx srun "/proc/$(ps -o ppid= -p "$pid" | tr -d ' ')/comm" || echo "$pid"
done | xargs kill -KILL
wait $!
is "srun_is_killed" "$?" 137
clean_after "nothing_is_left_when_srun_is_killed"

sub srun -N1 -n1 --ddict-mem=10T true : -N2 -n2 true >"$out" 2>&1 </dev/null
is "more_than_there_is_is_refused" "$?" 1
has "with_the_option_to_add" "^srun: error: ddict: --ddict-mem of 10.0 TiB is .* on node .*--mem="
sub srun -N1 -n1 true : -N1 -n1 --ddict-mem=96M true >"$out" 2>&1 </dev/null
is "an_option_of_the_second_component_alone_is_refused" "$?" 1
has "and_it_says_where_to_ask" 'srun: error: ddict: --ddict-mem=96M: .*before the first ":"'
sub srun -N1 -n1 --ddict-mem=32M true : -N1 -n1 --ddict-mem=96M true >"$out" 2>&1 </dev/null
is "two_sizes_are_refused" "$?" 1
sub env DDICT_MEM=96M srun -N1 -n1 --ddict-mem=32M true : -N1 -n1 --ddict-mem=96M true >"$out" 2>&1 </dev/null
is "also_if_the_second_is_that_of_the_variable" "$?" 1
t "the_same_twice_is_not" sub env DDICT_MANAGERS=2 srun -N1 -n1 --ddict-mem=32M --ddict-managers=3 true : -N1 -n1 --ddict-mem=32M true
has "and_what_was_typed_wins_over_the_variable" "^ddict: 3 managers on 2 nodes"
clean_after "nothing_is_left"

# The power of a component's node is lost: Slurm ends the step, and srun's exit code is that of the same step without a dictionary.
trap 'down_soon_end; rm -f "$out"*' EXIT
down_soon
sub sh -c 'rm -f het-runs*'
lose() { # WHICH OPTION - of two components, the second on the node to be lost
    sub srun -N1 -n1 -w "${nodes[0]}" --mem=300M $2 sh -c "touch het-runs.$1.0; exec sleep 80" : \
        -N1 -n1 -w "${nodes[2]}" --mem=300M sh -c "touch het-runs.$1.1; exec sleep 80" >"$out.$1" 2>&1 </dev/null
    echo "exit code $?" >>"$out.$1"
}
lose without '' &
lose with --ddict-mem=64M &
for ((i = 0; i < 600 * slow; i++)); do [ "$(ls het-runs.* 2>/dev/null | wc -l)" -lt 4 ] || break; sleep 0.1; done
begin=$SECONDS
"$devcluster" poweroff 3
wait
cat "$out.without" "$out.with" >"$out"
if [ $((SECONDS - begin)) -lt $((60 * slow)) ]; then ok "a_lost_node_of_a_component_ends_the_step"; else not_ok "a_lost_node_of_a_component_ends_the_step"; fi
is "with_the_exit_code_of_a_step_without_a_dictionary" "$(tail -n 1 "$out.with")" "$(tail -n 1 "$out.without")"
has "which_is_none_of_success" "^exit code [1-9]"
is "and_srun_says_once_what_was_lost" "$(grep -c "^srun: error: ddict: node ${nodes[2]} is lost" "$out")" 1
rm -f "$out".*
down_soon_end
trap 'rm -f "$out"' EXIT
patience=60 clean_after "nothing_is_left_of_the_lost_node"
rm -rf het.sh het-*.sh het-runs het-data het-saved* ddict-*.jsonl
finish
