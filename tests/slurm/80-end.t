#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# However a job ends, its managers end too, within KillWait; when they cannot start, srun says why and fails, and the
# node stays in service. A client whose dictionary is gone gets an error, never a hang.
. "$(dirname "$0")/lib.sh"
dd="--ddict-managers=2 --ddict-mem=64M"
ddict=$(sub sh -c 'command -v ddict')

# begin CMD... - in the background until its tasks print "begun"; the pid is srun's own, as everything execs
begin() {
    "$devcluster" run -- "$@" >"$out" 2>&1 </dev/null &
    pid=$!
    local i
    for i in $(seq 150); do
        grep -q begun "$out" && return 0
        sleep 0.1
    done
    not_ok "a job begins: $*"
    return 1
}
# ended SENTENCE SECONDS - the process of begin is gone. (bash would remark on each one that was killed.)
ended() {
    local i
    for i in $(seq $(($2 * 10))); do
        kill -0 $pid || { wait $pid; rc=$?; ok "$1"; return 0; }
        sleep 0.1
    done 2>/dev/null
    not_ok "$1"
    kill -KILL $pid
    wait $pid 2>/dev/null
}

begin srun -N2 -n2 $dd sh -c "$ddict put k v; echo begun; sleep 60" && { kill -KILL $pid; ended "srun_killed" 5; }
clean_after "nothing_is_left_after_kill_9_of_srun"

begin srun -N2 -n2 $dd sh -c "$ddict put k v; echo begun; sleep 60" && { kill -TERM $pid; ended "srun_terminated" 15; }
clean_after "nothing_is_left_after_sigterm_of_srun"

begin srun -N2 -n2 $dd sh -c "$ddict put k v; echo begun; sleep 60" && { kill -INT $pid; sleep 0.2; kill -INT $pid; ended "srun_interrupted_twice" 15; }
clean_after "nothing_is_left_after_ctrl_c_twice"

begin srun -N2 -n2 $dd sh -c "$ddict put k v; echo begun; sleep 60" && { sub scancel -u ddict-test; ended "scancel" 15; }
clean_after "nothing_is_left_after_scancel"

begin srun -t 0:01 -N2 -n2 $dd sh -c "echo begun; trap 'exit 0' USR1; i=0; while [ \$i -lt 300 ]; do sleep 0.1; i=\$((i + 1)); done"
sub sh -c 'scancel -s USR1 -u ddict-test'
ended "signals_of_the_job_reach_its_tasks" 15
is "and_do_not_change_its_exit_code" "${rc-}" 0
clean_after "nothing_is_left_after_a_signal"

t "managers_that_are_killed_fail_the_client" sub srun -N2 -n2 $dd python3 -c '
import ddict, os, signal, sys, time
d, me = ddict.attach(), int(os.environ["SLURM_PROCID"])
d["from", me] = b"x" * 1000
assert d.get(("from", 1 - me), wait=20) is not None
if me == 1:
    for p in os.listdir("/proc"):
        try:
            if p.isdigit() and open(f"/proc/{p}/comm").read().startswith("ddictd") and \
               os.readlink(f"/proc/{p}/ns/net") == os.readlink("/proc/self/ns/net"):
                os.kill(int(p), signal.SIGKILL)
        except (OSError, ProcessLookupError):
            pass
begin = time.monotonic()
while time.monotonic() - begin < 30:
    try:
        for i in range(50):
            d["k", me, i] = b"y" * 1000
        time.sleep(0.1)
    except Exception as e:
        print(f"rank {me}: an error after {time.monotonic() - begin:.1f} s: {e}", flush=True)
        sys.exit(0)
sys.exit(f"rank {me}: no error in 30 s")'
is "both_ranks_get_an_error" "$(grep -c 'an error after' "$out")" 2
clean_after "nothing_is_left_after_managers_were_killed"

# A node where ddictd cannot run: the file is covered by one that fails, in that node only.
prefix=$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/prefix")
daemon=$(find "$prefix" -name ddictd -type f | head -n 1)
is "ddictd_is_installed" "$([ -n "$daemon" ] && echo yes)" yes
"$devcluster" exec "${nodes[1]}" -- mount --bind /bin/false "$daemon"
sub srun -N2 -n2 -w "${nodes[0]},${nodes[1]}" $dd echo THE TASK RAN >"$out" 2>&1 </dev/null
rc=$?
is "srun_fails_when_a_manager_cannot_start" "$([ $rc != 0 ] && [ $rc != 124 ] && echo yes)" yes
has_not "and_runs_no_task" "THE TASK RAN"
has "and_says_why" "ddict"
"$devcluster" exec "${nodes[1]}" -- umount "$daemon"
clean_after "no_node_is_drained"

# A node without the plugin: its client must not go on without a dictionary.
"$devcluster" exec "${nodes[1]}" -- mount --bind /dev/null /etc/slurm/plugstack.conf
sub srun -N2 -n2 -w "${nodes[0]},${nodes[1]}" --export=NONE $dd "$ddict" put k v >"$out" 2>&1 </dev/null
rc=$?
"$devcluster" exec "${nodes[1]}" -- umount /etc/slurm/plugstack.conf
is "a_node_without_the_plugin_does_not_hang" "$([ $rc != 124 ] && [ $rc != 137 ] && echo yes)" yes
clean_after "nothing_is_left_after_a_node_without_plugin"
t "the_next_job_runs" sub srun -N2 -n2 $dd sh "$tests/both.sh" "$ddict"
clean_after "nothing_is_left"
finish
