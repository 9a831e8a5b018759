#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# As root the plugin registers options and nothing else: strace with stacks on slurmd and all it starts shows every system call
# that has the plugin on its stack. There are only those of the task, made by the user.
. "$(dirname "$0")/lib.sh"
command -v strace >/dev/null || { echo "needs strace"; exit 77; }
limit=120
trace=$(mktemp -d /var/tmp/ddict-trace.XXXXXX) || exit 1
trap 'rm -rf "$trace" "$out"' EXIT

slurmd=$("$devcluster" ps 1 | awk '$5 == "slurmd" { print $2; exit }')
strace -f -k -qq -o "$trace/all" -p "$slurmd" 2>"$trace/err" &
tracer=$!
for i in $(seq 50); do
    grep -qs '^TracerPid:[[:space:]]*[1-9]' "/proc/$slurmd/status" && break
    sleep 0.1
done
t "a_step_with_a_dictionary_runs_under_strace" sub srun -N1 -n2 -w "${nodes[0]}" --ddict-managers=2 --ddict-mem=64M sh -c 'test -n "$DDICT_NAME"'
t "a_bad_value_that_comes_past_srun_does_too" sub env SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_mem=16Q \
    sh -c '! srun -N1 -w '"${nodes[0]}"' true'
kill -INT $tracer
wait $tracer 2>/dev/null
clean_after "nothing_is_left"

# "PID call(...) = result", then "> file(function+offset)" for each frame.
awk '/^ *>/ { if (/\/ddict\.so\(/ && !done) { done = 1; f = $0; sub(/.*ddict\.so\(/, "", f); sub(/\+.*/, "", f)
               c = call; sub(/^[0-9]+ +/, "", c); sub(/^<\.\.\. /, "", c); n = c; sub(/[^a-z0-9_].*/, "", n)
               r = c; sub(/.* = /, "", r); print f, n, r } next }
     { call = $0; done = 0 }' "$trace/all" >"$trace/ours"
cut -d' ' -f1,2 "$trace/ours" | sort | uniq -c >"$out"
has "the_trace_sees_the_plugin_in_the_task" 'remote_task geteuid'
is "no_function_but_the_task_s_makes_a_system_call" "$(cut -d' ' -f1 "$trace/ours" | grep -vx remote_task | sort -u)" ""
is "the_task_looks_for_its_dictionary_and_does_nothing_else" \
    "$(cut -d' ' -f2 "$trace/ours" | grep -vxE 'geteuid|socket|connect|close' | sort -u)" ""
is "and_is_not_root" "$(awk '$2 == "geteuid" && $3 == 0' "$trace/ours")" ""
finish
