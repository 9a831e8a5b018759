# SPDX-License-Identifier: Apache-2.0
# conf.sh - the names of a cluster and the files its hosts see. Sourced by devcluster.

set_names() {
    [[ $id =~ ^[a-z0-9]{1,6}$ ]] || die "id '$id': want 1 to 6 of a-z and 0-9"
    ns=ddc-$id          # prefix of the network namespaces
    dir=$BASE/$id       # everything on disk
    local h
    h=$(printf %s "$id" | cksum | cut -d' ' -f1)
    net=10.$((100 + h % 100)).$((h / 100 % 250))
    port=$((20000 + h % 3000 * 4)) # below the kernel's ephemeral ports
}

cgroup_kind() {
    if grep -q ' /sys/fs/cgroup/freezer cgroup ' /proc/mounts && grep -q ' /sys/fs/cgroup/memory cgroup ' /proc/mounts; then
        echo v1
    elif [ "$(stat -fc %T /sys/fs/cgroup 2>/dev/null)" = cgroup2fs ]; then
        echo v2
    else
        echo none
    fi
}

free_uid() { # print the first uid from 59300 that is in neither passwd nor group
    local u=$1
    while getent passwd "$u" >/dev/null || getent group "$u" >/dev/null; do u=$((u + 1)); done
    echo "$u"
}

# "*", because "x" says that the password is in /etc/shadow, where there is no line: Debian 13's successor refuses `su` then, by which slurmd finds
# the environment of a user (sbatch --export=NONE).
add_user() { # NAME UID
    echo "$1:*:$2:$2::$dir/home/$1:/bin/bash" >>"$dir/etc/passwd"
    echo "$1:x:$2:" >>"$dir/etc/group"
    mkdir -p "$dir/home/$1" && chown "$2:$2" "$dir/home/$1" && chmod 700 "$dir/home/$1"
}

under_tmp() { case $1/ in /tmp/?*) return 0 ;; *) return 1 ;; esac; }

write_shares() { # the private /tmp must not hide this repository or the prefix
    local d top
    top=$(cd "$here/../.." && pwd)
    for d in "$top" "$prefix" "${shares[@]}"; do
        [ -n "$d" ] && under_tmp "$d" && [ -d "$d" ] && echo "$d"
    done | sort -u >"$dir/etc/shares"
    return 0
}

write_plugstack() {
    local n
    if [ -n "$plugstack" ]; then
        cp "$plugstack" "$dir/etc/slurm/plugstack.conf" || return 1
    elif [ -n "$prefix" ]; then
        echo "optional $prefix/lib/slurm/ddict.so $plugargs" >"$dir/etc/slurm/plugstack.conf"
    else
        : >"$dir/etc/slurm/plugstack.conf"
    fi
    for n in "${noplugin[@]}"; do : >"$dir/etc/noplugin.$(node_name "$n")"; done
}

write_gpus() {
    local i
    mkdir -p "$dir/etc/gpu" || return 1
    for ((i = 0; i < gpus; i++)); do ln -s /dev/null "$dir/etc/gpu/nvidia$i" || return 1; done
    echo "Name=gpu File=$dir/etc/gpu/nvidia[0-$((gpus - 1))] Flags=nvidia_gpu_env" >"$dir/etc/slurm/gres.conf"
}

write_keys() {
    dd if=/dev/urandom of="$dir/munge/key" bs=128 count=1 status=none && chmod 400 "$dir/munge/key" || return 1
    chmod 711 "$dir/munge"
    [ "$auth" = slurm ] || return 0
    (umask 077 && dd if=/dev/urandom of="$dir/etc/slurm/slurm.key" bs=1024 count=1 status=none) && : >"$dir/etc/private_run"
}

auth_lines() {
    if [ "$auth" = slurm ]; then
        printf "%s\n" AuthType=auth/slurm CredType=auth/slurm
        return
    fi
    echo "AuthType=auth/munge
AuthInfo=socket=$dir/munge/sock
CredType=cred/munge"
}

# set_lines FILE: each line of --set takes the place of those with its word, or is one more
set_lines() {
    local line word
    for line in "${extra[@]}"; do
        word=${line%%=*}
        case $word in NodeName | PartitionName) ;; *) sed -i "/^$word=/Id" "$1" || return 1 ;; esac
    done
    [ ${#extra[@]} = 0 ] || printf '%s\n' "${extra[@]}" >>"$1"
}

# A node without configuration has the key alone; what slurmctld sends must not name a plugstack.conf of its own.
write_configless() {
    local etc=$dir/etc/configless/slurm
    : >"$dir/etc/private_run"
    mkdir -p "$etc" && sed -i '/^PlugStackConfig=/d' "$dir/etc/slurm/slurm.conf" || return 1
    [ ! -e "$dir/etc/slurm/slurm.key" ] || cp -p "$dir/etc/slurm/slurm.key" "$etc/" || return 1
    if grep -q '^SlurmctldParameters=' "$dir/etc/slurm/slurm.conf"; then
        sed -i '/^SlurmctldParameters=/s/$/,enable_configless/' "$dir/etc/slurm/slurm.conf"
    else
        echo SlurmctldParameters=enable_configless >>"$dir/etc/slurm/slurm.conf"
    fi
}

write_conf() { # v1|v2|none
    local kind=$1 track=proctrack/cgroup task=task/cgroup
    [ "$kind" = none ] && track=proctrack/linuxproc task=task/none
    mkdir -p "$dir"/{etc/slurm,run,log,munge,state,spool,share,home/root} || return 1
    chmod 755 "$BASE" "$dir" "$dir"/{etc,etc/slurm,home} && chmod 700 "$dir/munge" "$dir/home/root"
    printf '%s\n' "${hosts[@]}" >"$dir/etc/nodes"
    echo "$prefix" >"$dir/etc/prefix"
    cp /etc/passwd "$dir/etc/passwd" && cp /etc/group "$dir/etc/group" || return 1
    local uid
    uid=$(free_uid 59300)
    add_user ddict-test "$uid"
    add_user ddict-other "$(free_uid $((uid + 1)))"
    write_shares && write_plugstack || return 1
    [ ${#files[@]} = 0 ] || cp "${files[@]}" "$dir/etc/slurm/" || return 1

    local host n=10 gres=''
    {
        echo "127.0.0.1 localhost"
        echo "$net.1 ${id}ctl"
        for host in "${hosts[@]}"; do n=$((n + 1)); echo "$net.$n $host"; done
    } >"$dir/etc/hosts"

    write_keys || return 1

    {
        cat <<END
ClusterName=$id
SlurmctldHost=${id}ctl($net.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
SlurmdUser=root
$(auth_lines)
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=verbose
PlugStackConfig=/etc/slurm/plugstack.conf
ProctrackType=$track
TaskPlugin=$task
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
ReturnToService=2
KillWait=5
SlurmdTimeout=60
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=100000,bf_interval=1
END
        [ "$gpus" = 0 ] || { write_gpus && gres=" Gres=gpu:$gpus" && echo "GresTypes=gpu"; }
        for host in "${hosts[@]}"; do
            echo "NodeName=$host NodeHostname=$host NodeAddr=$host CPUs=$cpus RealMemory=$mem$gres"
        done
        echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
    } >"$dir/etc/slurm/slurm.conf"
    set_lines "$dir/etc/slurm/slurm.conf" || return 1
    [ "$configless" = no ] || write_configless || return 1

    # Cores are not bound, because a node may claim more CPUs than the host has.
    {
        [ "$kind" = v1 ] && echo "CgroupPlugin=cgroup/v1"
        [ "$kind" = v2 ] && echo "CgroupPlugin=cgroup/v2
IgnoreSystemd=yes"
        echo "ConstrainRAMSpace=yes
ConstrainCores=no
ConstrainDevices=no"
    } >"$dir/etc/slurm/cgroup.conf"
}
