#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the plugin does in slurmstepd: strace with stacks on slurmd and all it starts shows every system call that has the plugin on its stack.
# There are those of the task, made by the user (who looks for the dictionary and asks ddictd for MASTER_PORT and GPUs), and in the managers' step a
# pipe, one short read from it, and what slurm_info does to log a line.
. "$(dirname "$0")/lib.sh"
command -v strace >/dev/null || { echo "needs strace"; exit 77; }
limit=240 patience=60 tracer='' # strace slows all of it down; slurmstepd 26.05, which has 16 threads, by far the most
trace=$(mktemp -d "${TMPDIR:-/var/tmp}/ddict-trace.XXXXXX") || exit 1
prefix=$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/prefix")
DEVCLUSTER_ID=t$(printf %05d $((RANDOM % 100000)))
[ -z "${DDICT_CHECK_IDS-}" ] || echo "$DEVCLUSTER_ID" >>"$DDICT_CHECK_IDS"
export DEVCLUSTER=$devcluster
trap 'kill $tracer 2>/dev/null; site_conf_end; "$devcluster" down 2>/dev/null; rm -rf "$trace" "$out"' EXIT
# A cluster of its own, in which srun waits for slurmstepd longer than 10 s, and the managers may take longer than that, too.
t "a_cluster_that_may_be_slow_is_up" timeout $((120 * slow)) "$devcluster" up -n 1 --prefix "$prefix" --set MessageTimeout=100 || finish
mapfile -t nodes < <("$devcluster" nodes)
cd "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/home/ddict-test" || exit 1
site_conf "start_timeout=180"

slurmd=$("$devcluster" ps 1 | awk '$5 == "slurmd" { print $2; exit }')
strace -f -k -qq -o "$trace/all" -p "$slurmd" 2>"$trace/err" &
tracer=$!
for i in $(seq $((50 * slow))); do
    grep -qs '^TracerPid:[[:space:]]*[1-9]' "/proc/$slurmd/status" && break
    sleep 0.1
done
t "a_step_with_a_dictionary_runs_under_strace" sub srun -N1 -n2 -w "${nodes[0]}" --ddict-managers=1 --ddict-mem=8M sh -c 'test -n "$DDICT_NAME"'
t "a_bad_value_that_comes_past_srun_does_too" sub env SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_mem=16Q \
    sh -c '! srun -N1 -w '"${nodes[0]}"' true'
# The trace is whole when slurmstepd has ended, too: where that is late, srun ends while the managers' step has its read still before it.
for i in $(seq 240); do
    "$devcluster" ps | awk '$5 !~ /^(munged|slurmctld|slurmd|slurmscriptd|:)$/' | grep -q . || break
    sleep 0.5
done
kill -INT $tracer
wait $tracer 2>/dev/null
tracer=''
clean_after "nothing_is_left"

# "PID call(...) = result", then "> file(function+offset)" for each frame.
awk '/^ *>/ { if (/\/ddict\.so\(/ && !done) { done = 1; f = $0; sub(/.*ddict\.so\(/, "", f); sub(/\+.*/, "", f)
               c = call; sub(/^[0-9]+ +/, "", c); sub(/^<\.\.\. /, "", c); n = c; sub(/[^a-z0-9_].*/, "", n)
               r = c; sub(/.* = /, "", r); sub(/ .*/, "", r); a = c; sub(/\) *= .*/, "", a); sub(/.*[ (]/, "", a); print f, n, r, a == "" ? "-" : a, call + 0 } next }
     { call = $0; done = 0 }' "$trace/all" >"$trace/ours"
cut -d' ' -f1,2 "$trace/ours" | sort | uniq -c >"$out"
task='^(task_begin|step_name|component_name|job_name|dictionary_is_here|variable|name_find|gpu_prepare|meet_ask_place|socket_connect|attach_.*|address_connect|receive_once|user_is_one)$' oom='^(oom_open|oom_first_by|score_set)$' note='^(slurmd_log_prepare|slurmd_log_hand_over|slurmd_log_write|step_pipe_make|step_pipe_is_writable|step_pipe_take|is_ours)$'
# brk: malloc() of any of them
others() { awk -v t="$task" -v n="$note" -v o="$oom" "\$2 != \"brk\" && $1 { print \$1, \$2 }" "$trace/ours" | sort -u; }
has "the_trace_sees_the_plugin_in_the_task" '(task_begin|step_name) geteuid'
has "the_trace_sees_the_plugin_in_the_managers_step" 'step_pipe_take read'
is "no_other_function_makes_a_system_call" "$(others '$1 !~ t && $1 !~ n && $1 !~ o')" ""
# /proc/self/oom_score_adj, opened before the user is known to be one, so by root; written by the user
is "oom_score_adj_is_opened_and_written_and_nothing_else" "$(others '$1 ~ o && $2 !~ /^(openat|write|close)$/')" ""
is "the_task_looks_for_its_dictionary_and_does_nothing_else" "$(others '$1 ~ t && $2 !~ /^(geteuid|socket|connect|close|[gs]etsockopt|fcntl|sendmsg|recvmsg|poll|access)$/ &&
    ($1 != "user_is_one" || $2 !~ /^(openat|read|fstat|newfstatat|lseek)$/)')" ""
is "and_is_not_root" "$(awk '$2 == "geteuid" && $3 == 0' "$trace/ours")" ""
is "nor_is_any_process_that_does_so" "$(awk -v t="$task" '$1 ~ t { pid[$5] = $1 } $2 == "geteuid" && $3 > 0 { user[$5] } END { for (p in pid) if (!(p in user)) print pid[p] }' "$trace/ours")" ""
is "nor_opens_to_write" "$(awk -v o="$oom" '$1 !~ o && $2 == "openat" && $4 ~ /^O_/ && $4 !~ /^O_RDONLY/' "$trace/ours")" ""
is "but_that_file" "$(awk -v o="$oom" '/^ *>/ { if (/\/ddict\.so\(/ && !done) { done = 1; f = $0; sub(/.*ddict\.so\(/, "", f); sub(/\+.*/, "", f)
    if (f ~ o && call ~ /openat\(.*O_(WRONLY|RDWR)/ && call !~ /"\/proc\/self\/oom_score_adj"/) print call } next } { call = $0; done = 0 }' "$trace/all")" ""
# write, poll, futex and clocks are slurm_info's; the log is open already
is "the_managers_step_has_a_pipe_and_a_log_and_nothing_else" \
    "$(others '$1 ~ n && $2 !~ /^(pipe2|fstat|newfstatat|fcntl|read|close|write|poll|futex|gettimeofday|clock_gettime|getpid)$/')" ""
is "of_which_one_line_is_read_of_at_most_400_bytes" "$(awk '$1 == "step_pipe_take" && $2 == "read" { print $4 }' "$trace/ours")" 400
finish
