# SPDX-License-Identifier: Apache-2.0
# clean.sh - find everything that belongs to a cluster, remove it, look again. Sourced by devcluster.

find_cgroups() { # [HOST]: deepest first; v1 has /slurm_<node> per controller, v2 a scope per node in system.slice
    local host=${1-${id}n[0-9]+}
    find /sys/fs/cgroup -depth -type d 2>/dev/null | grep -E "/(slurm_$host|${host}_slurmstepd\.scope)(/|\$)"
}

find_pids() { # [HOST]: by network namespace and by cgroup; without HOST also by mount namespace (our /etc/hosts is mounted there)
    local inodes
    {
        inodes=$(stat -Lc %i /run/netns/"$ns-"${1-*} 2>/dev/null | paste -sd' ')
        [ -n "$inodes" ] && stat -Lc '%i %n' /proc/[0-9]*/ns/net 2>/dev/null |
            awk -v l="$inodes" 'BEGIN { n = split(l, a); for (i = 1; i <= n; i++) s[a[i]] } $1 in s { split($2, p, "/"); print p[3] }'
        [ $# -gt 0 ] || grep -Els "/ddict-devcluster/$id/etc/hosts(//deleted)? " /proc/[0-9]*/mountinfo 2>/dev/null | cut -d/ -f3
        find_cgroups "$@" | while read -r c; do cat "$c/cgroup.procs" 2>/dev/null; done
    } | sort -un | grep -vx "$$"
}

find_netns() { ls -d /run/netns/"$ns-"* 2>/dev/null; }
find_links() { ip -o link 2>/dev/null | awk -F': ' '{ print $2 }' | grep -E "^${id}n[0-9]+(@|\$)"; }
find_mounts() { grep -s " $dir/" /proc/mounts; }

thaw() { # a frozen process cannot be killed
    local c
    for c in $(find_cgroups | grep /freezer/); do echo THAWED >"$c/freezer.state" 2>/dev/null; done
}

# clean - remove everything. 0 if a second look finds nothing ($looked says what it looked at), else 1, with the rest in $left.
clean() {
    local p c end pids
    for p in $(find_pids); do
        case $(cat "/proc/$p/comm" 2>/dev/null) in slurmctld | slurmd) kill -TERM "$p" 2>/dev/null ;; esac
    done
    end=$(($(date +%s) + LIMIT_KILL))
    while pids=$(find_pids); [ -n "$pids" ] && [ "$(date +%s)" -lt "$end" ]; do
        thaw
        kill -KILL $pids 2>/dev/null
        sleep 0.1
    done
    find_netns | while read -r p; do ip netns del "${p##*/}"; done
    find_links | while read -r p; do ip link del "${p%@*}"; done
    find_mounts | awk '{ print $2 }' | sort -r | while read -r p; do umount -l "$p"; done
    for c in 1 2 3 4 5; do
        find_cgroups | while read -r p; do rmdir "$p" 2>/dev/null; done
        [ -z "$(find_cgroups)" ] && break
        sleep 0.2
    done
    # Never delete through a mount that could not be removed.
    [ -z "$(find_mounts)" ] && rm -rf --one-file-system "$dir"
    rmdir "$BASE" 2>/dev/null
    prove
}

prove() {
    local np nn nl nm nc nf=0
    np=$(find_pids | wc -l) nn=$(find_netns | wc -l) nl=$(find_links | wc -l)
    nm=$(find_mounts | wc -l) nc=$(find_cgroups | wc -l)
    [ -e "$dir" ] && nf=1
    looked="processes $np, network namespaces $nn, interfaces $nl, mounts $nm, cgroups $nc, folders $nf"
    left=$looked
    [ $((np + nn + nl + nm + nc + nf)) = 0 ]
}
