# SPDX-License-Identifier: Apache-2.0
# power.sh - simulate that a node loses power and gets it back. Sourced by devcluster.

node_address() { awk -v h="$1" '$2 == h { print $1 }' "$dir/etc/hosts"; }
node_known() { grep -qx "$1" "$dir/etc/nodes" 2>/dev/null; }
# Until the new slurmd has registered, slurmctld may still show the state of the old one.
node_in_service() { # HOST SECONDS: in service since this time
    local show started
    show=$(ctl scontrol -o show node "$1" 2>/dev/null) || return 1
    started=$(date -d "$(grep -o 'SlurmdStartTime=[^ ]*' <<<"$show" | cut -d= -f2)" +%s 2>/dev/null) && [ "$started" -ge "$2" ] &&
        grep -Eq ' State=(IDLE|MIXED|ALLOCATED) ' <<<"$show"
}
slurmd_runs() { # HOST
    local p
    for p in $(find_pids "$1"); do
        [ "$(cat "/proc/$p/comm" 2>/dev/null)" = slurmd ] && return 0
    done
    return 1
}

# The link is cut first, so that peers get neither FIN nor RST; then all is stopped before it is killed, so that none sees the end of another.
power_off() {
    local host pids end c
    host=$(node_name "${1-}")
    need_root
    node_known "$host" || die "no node '$host' in cluster '$id'"
    lock
    ip -n "$ns-${id}ctl" link del "$host" 2>/dev/null
    kill -STOP $(find_pids "$host") 2>/dev/null
    end=$(($(date +%s) + LIMIT_KILL))
    while pids=$(find_pids "$host"); [ -n "$pids" ]; do
        [ "$(date +%s)" -lt "$end" ] || die "'$host': still there: $pids"
        for c in $(find_cgroups "$host" | grep /freezer/); do echo THAWED >"$c/freezer.state" 2>/dev/null; done
        kill -KILL $pids 2>/dev/null
        sleep 0.1
    done
    ip netns del "$ns-$host" 2>/dev/null
    rm -f "$dir/run/$host.pid" "$dir/run/slurmd-$host.pid"
    for c in 1 2 3 4 5; do
        find_cgroups "$host" | while read -r p; do rmdir "$p" 2>/dev/null; done
        [ -z "$(find_cgroups "$host")" ] && break
        sleep 0.2
    done
}

power_on() {
    local host since=0
    host=$(node_name "${1-}")
    need_root
    node_known "$host" || die "no node '$host' in cluster '$id'"
    lock
    if ! holder_pid "$host" >/dev/null; then
        node_network "$host" "$(node_address "$host")" || die "cannot make the network of '$host'"
        host_hold "$host"
        wait_for 10 "namespaces of $host" holder_pid "$host" >/dev/null || exit 1
    fi
    if ! slurmd_runs "$host"; then
        since=$(date +%s)
        slurmd_up "$host" || die "cannot start slurmd on '$host'"
    fi
    disown -a
    wait_for "$LIMIT_UP" "$host in service" node_in_service "$host" "$since" || exit 1
}
