# SPDX-License-Identifier: Apache-2.0
# lib.sh - what the tests on a real Slurm share. Sourced by tests/slurm/*.t.
#
# A test runs as root on the host and reaches a cluster of contrib/devcluster by DEVCLUSTER_ID; jobs run as an
# unprivileged user. It prints "ok SENTENCE" or "not ok SENTENCE"; exit code 0, 1, or 77 when there is no cluster.
set -u
tests=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
devcluster=${DEVCLUSTER-$tests/../../contrib/devcluster/devcluster}
export DEVCLUSTER_ID=${DEVCLUSTER_ID-d}
bad=0 site='' soon=13
out=$(mktemp "${TMPDIR:-/var/tmp}/ddict-test.XXXXXX") && chmod 644 "$out" || exit 1
trap 'rm -f "$out"' EXIT
trap 'exit 130' INT TERM HUP

[ "$(id -u)" = 0 ] || { echo "needs root to enter the nodes of a cluster"; exit 77; }
mapfile -t nodes < <("$devcluster" nodes 2>/dev/null)
[ ${#nodes[@]} -ge 2 ] || { echo "no cluster '$DEVCLUSTER_ID' of at least two nodes: devcluster up -n 3 --prefix DIR"; exit 77; }
cd "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/home/ddict-test" || exit 1 # jobs start here; records go to where jobs start
need_nodes() { [ ${#nodes[@]} -ge "$1" ] || { echo "needs $1 nodes"; exit 77; }; }

# User-mode Linux has one CPU and slow system calls: what takes a second elsewhere may take four there.
slow=1
! grep -q 'User Mode Linux' /proc/cpuinfo || slow=4

# sub CMD... - as the user on the submit host, with a time limit: nothing here may hang
sub() { timeout --foreground --kill-after=5 $((${limit-60} * slow)) "$devcluster" run -- "$@"; }

# terminal WORDS - the same with a terminal of its own. The time limit is outside of it: a `timeout` below the shell that script starts (/bin/sh, where it
# does not exec its last command) is a group in the background of the terminal, and what it runs is stopped at its first tcsetattr(), for good.
terminal() {
    local pid end=$((SECONDS + ${limit-60} * slow))
    SHELL=/bin/sh script -qec "'$devcluster' run -- $*" /dev/null </dev/null &
    pid=$!
    while [ $SECONDS -lt $end ] && kill -0 $pid 2>/dev/null; do sleep 0.1; done
    if kill -0 $pid 2>/dev/null; then
        echo "(not over after $((${limit-60} * slow)) s; what runs:)"
        "$devcluster" ps | awk '$5 !~ /^(munged|slurmctld|slurmd|slurmscriptd|:)$/'
        kill -TERM $pid # script ends its shell within 2 s
        wait $pid
        return 124
    fi
    wait $pid
}

root() { "$devcluster" run -u root -- "$@"; }

# down_soon [SECONDS] - until down_soon_end, which also gives all nodes their power back, a node that is lost is down for Slurm after so many seconds (13)
down_soon() {
    soon=${1-13}
    echo "SlurmdTimeout=$soon" >>"/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/slurm/slurm.conf"
    root scontrol reconfigure
}
down_soon_end() {
    local n
    sed -i "/^SlurmdTimeout=$soon\$/d" "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/slurm/slurm.conf"
    root scontrol reconfigure
    for n in "${nodes[@]}"; do "$devcluster" poweron "$n"; done
}
# undrain - a node that Slurm has drained is told, and is no matter of the tests that follow
undrain() {
    local node state why
    root sinfo -h -N -o '%N %T %E' | while read -r node state why; do
        case $state in drain* | down* | fail*) echo "# $node was $state: $why"; root scontrol update nodename="$node" state=resume ;; esac
    done
}

ok() { echo "ok $*"; }
not_ok() { # SENTENCE: shows what was captured last
    echo "not ok $*"
    tail -n "${shown-25}" "$out" | cut -c1-300 | sed 's/^/# /'
    bad=1
}
# t SENTENCE CMD... - CMD succeeds; its output is in $out
t() {
    local name=$1
    shift
    "$@" >"$out" 2>&1 </dev/null
    local rc=$?
    [ $rc = 0 ] && { ok "$name"; return 0; }
    echo "(exit code $rc: $*)" >>"$out"
    not_ok "$name"
    return 1
}
# has SENTENCE REGEX - the output captured last has a line like this
has() { if grep -Eq -- "$2" "$out"; then ok "$1"; else not_ok "$1"; fi; }
has_not() { if grep -Eq -- "$2" "$out"; then not_ok "$1"; else ok "$1"; fi; }
# is SENTENCE GOT WANTED
is() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1"; echo "# got '$2', wanted '$3'"; fi; }

# has_pmix - whether this Slurm has mpi/pmix: since 23.11 it is built only where that is asked for, and Debian's sid has none
has_pmix() { sub srun --mpi=list 2>&1 | grep -qw pmix; }

# Slurm 22.05's PMIx plugin takes the first message of another node's slurmstepd while its own is the user for a moment, and munge then refuses it: the
# step's fence never ends. Seen once in some hundred steps on a loaded machine.
slurm_slipped() { grep -q 'mpi/pmix.*\(Connection reject\|Invalid authentication credential\)' "$out"; }

remains() { # what a job must not leave: one line for each thing
    local n
    sub squeue -h -o 'job %i %T' 2>&1
    # planned: idle, and the scheduler had a waiting job in mind when it last looked
    sub sinfo -h -N -o '%N %T %E' 2>&1 | awk '$2 != "idle" && $2 != "planned" { print "node " $0 }'
    # every process of the cluster but the five daemons it is made of
    "$devcluster" ps | awk '$5 !~ /^(munged|slurmctld|slurmd|slurmscriptd|:)$/ { print "process " $0 }'
    for n in "${nodes[@]}"; do
        "$devcluster" exec "$n" -- sh -c "ss -xaH | grep -o '@[^ ]*' | sed 's/^/abstract socket $n /'
            ls -A /dev/shm | sed 's/^/shared memory $n /'
            ss -tlnpH | grep -v slurmd | sed 's/^/listener $n /'"
    done
    find /sys/fs/cgroup -type d -path "*/slurm_${DEVCLUSTER_ID}n*/uid_*" 2>/dev/null | sed 's/^/cgroup /'
    # v2: beside the jobs' folders there are two of Slurm's own, slurmd and system
    find /sys/fs/cgroup -type d -path "*/${DEVCLUSTER_ID}n*_slurmstepd.scope/*" ! -path '*.scope/system*' ! -path '*.scope/slurmd*' 2>/dev/null | sed 's/^/cgroup /'
}
# Slurm 22.05 forgets the freezer's cgroup of a job now and then, when two of its steps end at the same moment, also without us; 24.11 with stepmgr those of
# its own step_extern under cgroup v2. Nothing else remains then, it is one job's, and it can be removed: no process is in it.
slurm_forgot() {
    if grep -qvE '^cgroup /sys/fs/cgroup/(freezer/|.*_slurmstepd\.scope/job_[0-9]+(/step_extern(/.*)?)?$)' "$out" ||
        [ "$(grep -o '/job_[0-9]*' "$out" | sort -u | wc -l)" -gt 1 ]; then return 1; fi
    sed 's/^/# Slurm forgot: /' "$out"
    sed -n 's/^cgroup //p' "$out" | sort -r | xargs -r rmdir || return 1
    remains >"$out"
    [ ! -s "$out" ]
}
# clean_after SENTENCE - within ten seconds (KillWait is 5), and $patience on a busy machine, nothing of the job remains
clean_after() {
    local end=$((SECONDS + ${patience-30} * slow))
    while [ "$SECONDS" -lt "$end" ]; do
        remains >"$out"
        [ -s "$out" ] || { ok "$*"; return 0; }
        sleep 0.2
    done
    if slurm_forgot; then ok "$*"; return 0; fi
    not_ok "$*"
    sed -n 's/^cgroup //p' "$out" | sort -r | xargs -r rmdir 2>/dev/null # an empty one shall not fail the next test, too
}
# site_conf LINES... - ddict.conf as all hosts of this cluster see it from now on, to site_conf_end; other clusters of the same prefix do not
site_conf() {
    local home=/var/lib/ddict-devcluster/$DEVCLUSTER_ID host
    if [ -z "$site" ]; then
        site=$home/site.$$
        mkdir "$site"
        for host in ctl "${nodes[@]}"; do "$devcluster" exec "$host" -- mount --bind "$site" "$(cat "$home/etc/prefix")/etc" || bad=1; done
    fi
    printf '%s\n' "$@" >"$site/ddict.conf"
    chmod 644 "$site/ddict.conf"
}
site_conf_end() {
    local host
    [ -n "$site" ] || return 0
    for host in ctl "${nodes[@]}"; do "$devcluster" exec "$host" -- umount "$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/prefix")/etc"; done
    rm -rf "$site"
    site=''
}
# On how many nodes slurmstepd could not tell the managers' srun of the job in $out (its line "job ID") that its task had ended.
unheard() { cat /var/lib/ddict-devcluster/"$DEVCLUSTER_ID"/log/slurmd-*.log | grep -c "\[$(sed -n 's/^job //p' "$out")\..*Failed to send MESSAGE_TASK_EXIT"; }
# torchrun_may - torch's own launcher can run here; else one line says why not
torchrun_may() {
    local why
    why=$(sub /usr/bin/python3 -c 'import torch.distributed; torch.distributed.TCPStore("127.0.0.1", 0, 1, True)' 2>&1) && return 0
    grep -q 'buil[dt] without libuv' <<<"$why" || return 0 # the test shall say it
    echo "this PyTorch is built without libuv, which its launcher asks for whatever USE_LIBUV says"
    return 1
}
finish() { exit $bad; }
