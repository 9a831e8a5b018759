#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No process of a user holds up the end of a batch job, whatever it was given or says: slurmstepd, which waits as root for the srun of the managers to have saved, waits for a process
# that Slurm kills with the script's step, and for nothing else. So scancel ends the job in seconds, and no node is drained.
. "$(dirname "$0")/lib.sh"
home=$PWD
work=$home/held.$$
real=$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/prefix")/bin/ddict
mkdir -m 777 "$work" && chown --reference="$home" "$work" || exit 1
jobs_end() { # no job of these users is left
    local i
    "$devcluster" run -u root -- scancel -u ddict-test >/dev/null 2>&1
    "$devcluster" run -u root -- scancel -u ddict-other >/dev/null 2>&1
    for i in $(seq $((300 * slow))); do [ -n "$(sub squeue -h -o %i)" ] || return 0; sleep 0.2; done
}
trap 'jobs_end; site_conf_end; rm -rf "$out" "$work"' EXIT

# Keeps what it is sent over its socket, as long as its job lives.
cat >"$work/hold.py" <<'END'
import array, os, socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.bind("\0held-" + sys.argv[1])
s.listen(8)
open(sys.argv[2], "w").write("%d/%s\n" % (os.getpid(), open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]))
while True:
    c, _ = s.accept()
    c.recvmsg(1, socket.CMSG_SPACE(64 * 4))
    c.send(b"k")
END
# Sends each pipe that the managers' srun has open, and says how many.
cat >"$work/send.py" <<'END'
import array, os, socket, stat, sys
fds = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if b"\0--job-name=ddict\0" not in open("/proc/%s/cmdline" % pid, "rb").read():
            continue
        for fd in os.listdir("/proc/%s/fd" % pid):
            path = "/proc/%s/fd/%s" % (pid, fd)
            if stat.S_ISFIFO(os.stat(path).st_mode):
                fds.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    except OSError:
        pass
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.connect("\0held-" + sys.argv[1])
if fds:
    s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds[:60]))])
    s.recv(1)
print("sent", len(fds))
END
# `ddict` of the site: the real one, which names another process than its srun; what $work/named says, or one that it leaves behind in the step.
cat >"$work/ddict" <<END
#!/bin/bash
named=\$(cat $work/named)
if [ "\$named" = own ]; then
    setsid sh -c 'trap "" TERM HUP; while :; do sleep 1000; done' </dev/null >/dev/null 2>&1 &
    named=\$!/\$(cut -d' ' -f22 /proc/\$!/stat)
fi
$real "\$@" | sed "s|srun=[^ ]*|srun=\$named|"
exit \${PIPESTATUS[0]}
END
printf '#!/bin/sh\n[ -z "$1" ] || python3 %s/send.py "$1"\nddict put k v\necho over\n' "$work" >"$work/job.sh"
printf '#!/bin/sh\nexec python3 %s/hold.py "$1" "$2"\n' "$work" >"$work/holder.sh"
chmod -R a+rX "$work"
chmod 755 "$work/ddict" "$work"/*.sh

job_gone() { # JOB SECONDS: four times as long in user-mode Linux
    local end=$((SECONDS + $2 * slow))
    while [ $SECONDS -lt $end ]; do
        [ -n "$(sub squeue -h -j "$1" -o %T 2>/dev/null)" ] || return 0
        sleep 0.3
    done
    return 1
}
healthy() { # SENTENCE: no node is draining, after a while in which it could be
    sub sinfo -h -N -o '%N %T %E' >"$out"
    has_not "$1" 'drain|down|Kill task'
}
# script ARGUMENT -> $job, when it is over. What it said is in $out.
script() {
    job=$(sub sbatch --parsable -w "${nodes[0]}" -N1 -n1 --mem=200M -o "$work/job.%j.out" --ddict-mem=48M --ddict-record=none --ddict-save="$work/saved.%j" "$work/job.sh" "$@")
    local i
    for i in $(seq $((150 * slow))); do grep -qs '^over' "$work/job.$job.out" && break; sleep 0.2; done
    cat "$work/job.$job.out" >"$out"
    has "a_script_ends $*" '^over'
}

# Another job of the user's on that node, and a process of somebody else's.
holder=$(sub sbatch --parsable -w "${nodes[0]}" -N1 -n1 --mem=100M -o /dev/null "$work/holder.sh" $$ "$work/holder")
other=$("$devcluster" run -u ddict-other -- sh -c "cd / && sbatch --parsable -w ${nodes[0]} -N1 -n1 --mem=100M -o /dev/null --wrap 'sleep 1001'")
for _ in $(seq $((100 * slow))); do [ -s "$work/holder" ] && break; sleep 0.2; done
is "another_job_holds" "$([ -s "$work/holder" ] && echo yes)" yes

# What was handed to it is not waited for.
script $$
sed -n 's/^sent/# sent/p' "$out"
if ! job_gone "$job" 20; then
    echo "# it goes on; it is cancelled"
    sub scancel "$job"
    if job_gone "$job" 15; then ok "a_job_whose_pipe_another_one_holds_is_cancelled"; else not_ok "a_job_whose_pipe_another_one_holds_is_over_15_s_after_scancel"; fi
else
    ok "a_job_whose_pipe_another_one_holds_is_over"
fi
[ -e "$work/saved.$job/manifest.json" ] && ok "and_saved" || not_ok "and_saved"
healthy "and_its_node_is_well"

# Nor who is no process of the script's, nor what is no process.
site_conf "ddict=$work/ddict"
pid_of() { "$devcluster" ps "${nodes[0]}" | awk -v w="$1" '$5 == w || index($0, w) { print $2; exit }'; }
named() { echo "$1/$(cut -d' ' -f22 "/proc/$1/stat")"; }
other_pid=$("$devcluster" ps "${nodes[0]}" | awk '$3 ~ /^(ddict-o|59[0-9]*)/ && /sleep 1001/ { print $2; exit }')
for who in "$(cat "$work/holder")" "$(named "${other_pid:-1}")" "$(named "$(pid_of slurmd)")" s 1 1/1 "99999999999/1" "1/99999999999999999999999" "%n/%s" "$(cut -d/ -f1 "$work/holder")/1"; do
    echo "$who" >"$work/named"
    script
    if job_gone "$job" 25; then ok "who_names $who ends"; else not_ok "who_names $who ends"; sub scancel "$job"; job_gone "$job" 60; fi
done
healthy "no_node_suffers_from_words"

# A process of the step, which takes no SIGTERM, is waited for, and ended with it.
echo own >"$work/named"
script
if job_gone "$job" 8; then not_ok "what_the_script_left_is_waited_for"; else ok "what_the_script_left_is_waited_for"; fi
sub scancel "$job"
if job_gone "$job" 15; then ok "until_scancel"; else not_ok "until_scancel"; fi
healthy "and_the_node_is_well"
# ... or until the time limit, which is a minute at least.
if [ -n "${LONG-}" ]; then
    script=
    job=$(sub sbatch --parsable -t 1 -w "${nodes[0]}" -N1 -n1 --mem=200M -o "$work/job.%j.out" --ddict-mem=48M --ddict-record=none --ddict-save="$work/saved.%j" "$work/job.sh")
    if job_gone "$job" 130; then ok "or_the_time_limit"; else not_ok "or_the_time_limit"; fi
    healthy "and_the_node_is_well_then"
fi
rm -f "$work/named"
sub scancel "$holder"
"$devcluster" run -u ddict-other -- scancel "$other"
job_gone "$holder" 30
job_gone "$other" 30
site_conf_end
clean_after "nothing_is_left"
finish
