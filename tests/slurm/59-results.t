#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ranks on three nodes submit results: they are files while the job runs, other ranks and a shell on the login node hear of them at once; and what was submitted
# before a job was cancelled, or its time was over, even by the last word of its tasks, is on disk.
. "$(dirname "$0")/lib.sh"
need_nodes 3
limit=120
home=$PWD
trap 'rm -rf "$out" "$home"/results.*' EXIT
ask="--ddict-managers=3 --ddict-mem=192M --ddict-record=none"
count() { find "$home/$1" -type f -path "$2" 2>/dev/null | wc -l; }
until_true() { # SECONDS CMD...: four times as long in user-mode Linux
    local end=$((SECONDS + $1 * slow))
    shift
    until "$@"; do [ $SECONDS -lt $end ] || return 1; sleep 0.2; done
}
# whole FOLDER - every file is one that was submitted, from its first byte to its last
whole() {
    python3 - "$home/$1" <<'END'
import json, os, sys
folder = sys.argv[1]
for where, _, names in os.walk(folder):
    for name in names:
        data = open(os.path.join(where, name), "rb").read()
        if name.startswith(".ddict-"):
            sys.exit(f"{name} was left")
        if name == "model" and (len(data) != 1000000 or data.count(data[:1]) != len(data)):
            sys.exit("a model is torn")
        if name.endswith(".json") and [json.loads(line)["step"] for line in data.splitlines()] != list(range(data.count(b"\n"))):
            sys.exit(f"{name} is not whole")
print("whole")
END
}
# job NAME OPTIONS... - a batch job whose three ranks submit until they are told to end; its number in $job
job() {
    local name=$1
    shift
    printf '#!/bin/sh\nexec srun -N3 -n3 python3 %s/results_ranks.py run %s/results.%s 200\n' "$tests" "$home" "$name" >"$home/results.$name.sh"
    # shellcheck disable=SC2086
    job=$(sub sbatch --parsable -N3 --overcommit -o "$home/results.$name.out" $ask "--ddict-results=results.$name" "$@" "$home/results.$name.sh")
}

# The step's own.
# shellcheck disable=SC2086
t "a_step_submits_results" sub srun -N3 -n3 $ask --ddict-results=results.step python3 "$tests/results_ranks.py" run "$home/results.step"
has "they_are_files_within_seconds" 'all metrics are on disk, within 5 s'
has "another_rank_hears_of_them" 'rank 1 heard of \[19, 19, 19\]'
has "a_queue_goes_between_nodes" 'through a queue: \[0, 1, 2\]'
is "all_of_its_files_are_there_at_its_end" "$(count results.step '*')" 7
is "the_last_ones_too" "$(wc -l <"$home/results.step/run/end")" 3
t "they_are_whole" whole results.step
t "they_are_drawn" "$devcluster" run -- ddict results plot "$home/results.step/run"
has "in_one_panel" '<polyline'

# A whole job's, seen from the login node, and cancelled.
job cancel
t "a_jobs_results_become_files_while_it_runs" until_true 60 sh -c "[ \"\$(find '$home/results.cancel/run/metrics' -name '*.json' 2>/dev/null | wc -l)\" = 3 ]"
t "a_shell_on_the_login_node_hears_of_them" sub ddict watch --name "$(sub id -u).$job.job" "ddict.results/run/metrics" -n 5
is "as_they_come" "$(grep -c "^put 'ddict.results/run/metrics/" "$out")" 5
t "it_is_cancelled" sub scancel "$job"
t "the_last_words_of_its_tasks_are_written" until_true 20 sh -c "[ \"\$(find '$home/results.cancel/run/last' -type f 2>/dev/null | wc -l)\" = 3 ]"
clean_after "nothing_is_left_of_it"
t "its_files_are_whole" whole results.cancel

# The writer is killed.
job killed
until_true 60 test -e "$home/results.killed/run/model"
t "its_writer_is_killed" sh -c "for n in ${nodes[*]}; do '$devcluster' exec \$n -- sh -c 'kill -9 \$(pgrep -f \"[r]esults --until-end --to $home/results.killed\") 2>/dev/null' && exit 0; done; exit 1"
mv "$home/results.killed/run/model" "$home/results.killed.model"
t "another_one_goes_on" until_true 60 test -e "$home/results.killed/run/model"
sub scancel "$job"
clean_after "nothing_is_left_of_that"
t "its_files_are_whole_too" whole results.killed

# Slurm's shortest time limit is a minute.
job limit -t 1 --ddict-record=results.limit.jsonl --ddict-save=results.saved
t "a_job_whose_time_is_over" until_true 150 sh -c "[ \"\$(find '$home/results.limit/run/last' -type f 2>/dev/null | wc -l)\" = 3 ]"
clean_after "nothing_is_left_of_it_either"
t "has_whole_files" whole results.limit
# ... and is saved: first before the limit (it comes a minute after the start, so at once), then what came since, also the last words.
cp "$home/results.limit.jsonl" "$out"
has "it_was_saved_before_the_limit" '"event":"save".*"final":false,"complete":true'
# KillWait is 5 s here, of which tasks may take 2: a busy machine has no time for the last pass, and must say so.
has "and_at_its_end" '"event":"save".*"final":true,"complete":(true|false.*NOT ALL WAS SAVED)'
whole=$(grep -c '"final":true,"complete":true' "$out")
t "the_next_job_goes_on_on_other_nodes_and_managers" sub srun -N2 -n2 --ddict-managers=5 --ddict-mem=192M --ddict-record=none --ddict-restore=results.saved ddict ls --prefix ddict.results/run/
has "with_what_was_there_before_the_limit" 'ddict.results/run/metrics'
[ "$whole" = 0 ] || is "with_the_last_words" "$(grep -o 'ddict.results/run/last[^'"'"']*' "$out" | sort -u | wc -l)" 3
t "a_folder_that_can_not_be_is_said" sub srun -N1 -n1 --ddict-mem=64M --ddict-record=none --ddict-results=/proc/no/where ddict put k v
has "with_its_name" 'ddict results: /proc/no/where'
finish
