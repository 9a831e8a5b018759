#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Slurm as sites have it: settings and kinds of jobs, each with the five ways to a dictionary (srun, sbatch, salloc, `ddict run`, `ddict up` by hand). Each
# row has a cluster of its own. In every cell two nodes put and get values, the user's exit code is that of the tasks, the statistics of the end are there,
# and after the row nothing is left. A line of the result for each cell is "ok ROW: WAY".
#
# SITES=REGEX  only these rows; SITES=few: what costs little; default: all.  HELD=SECONDS  that jobs are suspended (default 60, few: 12)
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$tests/batch.sh"
prefix=$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/prefix")
release=$(sub srun --version | tr -dc '0-9.' | awk -F. '{ print $1 * 100 + $2 }')
newer() { [ "$release" -ge "$1" ]; }
has_plugin() { ls /usr/lib/*/slurm*/"$1".so /usr/lib64/slurm/"$1".so >/dev/null 2>&1; }
held=${HELD-60} rows=${SITES-.} up=''
[ "$rows" != few ] || rows='^(all_at_once|preempt_requeue)$' held=${HELD-12}
ways='srun sbatch salloc run up'
limit=240
row_end() {
    cd / || return
    [ -z "$up" ] || "$devcluster" down >"$out" 2>&1 || not_ok "$row: the cluster is taken down"
    up=''
}
trap 'exec 3>&1 >/dev/null; row_end; rm -f "$out" "$out".*' EXIT

# row NAME CELLS WORDS... - a cluster of its own, made with these words of `devcluster up`, in which the command CELLS runs
row() {
    row=$1
    local run=$2
    shift 2
    [[ $row =~ $rows ]] || return 0
    export DEVCLUSTER_ID
    DEVCLUSTER_ID=s$(printf %05d $((RANDOM * 3 % 100000)))
    [ -z "${DDICT_CHECK_IDS-}" ] || echo "$DEVCLUSTER_ID" >>"$DDICT_CHECK_IDS"
    up=yes
    t "$row: a cluster comes up" "$devcluster" up -n 2 --cpus-per-node 8 --prefix "$prefix" "$@" || { row_end; return; }
    mapfile -t nodes < <("$devcluster" nodes)
    home=/var/lib/ddict-devcluster/$DEVCLUSTER_ID/home/ddict-test
    cd "$home" || exit 1
    task_write
    eval "$run"
    row_end
}
task_write() {
    cat >task <<'END'
me=$SLURM_PROCID other=$((1 - SLURM_PROCID))
[ "$1" != signal ] || trap 'exit 7' USR1
ddict put --new "from $me" "hello $me" || exit 91
seen() { [ "$(ddict get --wait 30 "from $other")" = "hello $other" ]; }
seen || exit 92
echo "rank $me of job $SLURM_JOB_ID, life ${SLURM_RESTART_COUNT-0}, has the other's"
case $1 in
signal) for _ in $(seq 1500); do sleep 0.1; done; exit 93 ;;
waits) while [ ! -e ~/go ]; do ddict put "from $me" "hello $me" && seen || exit 94; sleep 0.1; done ;;
requeue) [ "${SLURM_RESTART_COUNT-0}" != 0 ] || exec sleep 300 ;;
esac
exit 7
END
}

# What of the user's is run for a way, as words; in a batch job it is the script that does.
asked='--ddict-managers=2 --ddict-mem=64M'
script() { # WAY KIND
    local step="srun -N2 -n2 sh $home/task $2"
    echo '#!/bin/bash'
    case $1 in
    srun) echo "srun $asked ${step#srun }" ;;
    sbatch | salloc) echo "$step" ;;
    run) echo "ddict run -v --managers=2 --mem=64M -- $step" ;;
    up) printf '%s\n' 'eval "$(ddict up --managers=2 --mem=64M)" || exit 90' "$step" 'rc=$?; ddict down; exit $rc' ;;
    esac
}
# direct WAY KIND WORDS... - as most users type it; `ddict up` by hand and sbatch have a script
direct() {
    local way=$1 kind=$2 job
    shift 2
    job="-J $way -N2 -n2 --mem=200M $*"
    script "$way" "$kind" >"$way.sh"
    chmod 755 "$way.sh"
    case $way in
    srun) sub srun $job $asked sh task "$kind" ;;
    salloc) sub salloc -Q $job $asked "$home/$way.sh" ;;
    run) sub salloc -Q $job "$home/$way.sh" ;;
    *) in_batch "$way" "$kind" "$@" ;;
    esac
}
in_batch() { # WAY KIND WORDS...
    local way=$1 kind=$2 rc
    shift 2
    script "$way" "$kind" >"$way.sh"
    sub sbatch -Q -W -J "$way" -N2 -n2 --mem=200M -o "$home/$way.%a.job" $([ "$way" != sbatch ] || echo "$asked") "$@" "$way.sh"
    rc=$?
    cat "$way".*.job
    rm -f "$way".*.job
    return $rc
}
# requeued WAY KIND WORDS... - as in_batch, and does not wait two minutes for the second life
requeued() {
    local way=$1 kind=$2
    shift 2
    script "$way" "$kind" | states=PD,R,CG batch -J "$way" -N2 -n2 --mem=200M $([ "$way" != sbatch ] || echo "$asked") "$@"
}

as_root() { "$devcluster" run -u root -- "$@"; }
# federated WAY KIND - a batch job of the user's with such an id as clusters of a federation give, theirs in the bits from 26 on. Only root may name one.
federated() {
    local id most=63
    # Slurm 26.05 sets SLURM_JOB_ID=-67108859 for 4227858437, which its own srun refuses
    ! newer 2605 || most=31
    case $1 in srun) id=1 ;; run) id=$most ;; *) id=$((most / 2)) ;; esac
    id=$(((id << 26) + 5))
    cc -o "submit.$1" "$tests/submit.c" -lslurm || return 99
    script "$1" "$2" | as_root env HOME="$home" USER=ddict-test "$home/submit.$1" $id "$(stat -c %u .)" "$1" "$home/$1.job" || return 98
    local end=$((SECONDS + limit * slow))
    while sub squeue -h -n "$1" -t PD,R,CG | grep -q .; do [ $SECONDS -lt $end ] || return 97; sleep 0.3; done
    cat "$1.job"
    rm -f "$1.job"
    echo "job id $id"
    return "$(sub scontrol show job $id | sed -n 's/.*ExitCode=\([0-9]*\):.*/\1/p')"
}

# What is done to the jobs of a row meanwhile.
running() { sub squeue -h -t R -o %A | paste -sd,; }
# at_work N - until N ranks have each other's values
at_work() {
    local end=$((SECONDS + 120 * slow)) n
    while n=$(cat "$home"/*.out "$home"/*.job 2>/dev/null | grep -c '^rank [01] of') && [ "$n" -lt "$1" ] || [ "$n" = 0 ]; do
        [ $SECONDS -lt $end ] || { echo "$n of $1 ranks are at work"; return 1; }
        sleep 0.3
    done
}
hold() {
    at_work 10 || return
    local jobs
    jobs=$(running)
    as_root scontrol suspend "$jobs" || return
    sleep "$held"
    [ "$(sub squeue -h -t S -o %A | wc -l)" = 5 ] || { echo "not all are suspended"; sub squeue; return 1; }
    as_root scontrol resume "$jobs" && sleep 3
}
preempt() { at_work "$1" && limit=$((held + 60)) sub srun -p high -N2 --exclusive --mem=100M "${@:2}"; }
preempt_hold() { preempt 10 sh -c "sleep $held; squeue >squeue" && [ "$(grep -c ' S ' squeue)" = 5 ] && sleep 3; }

# cells HOW KIND ACT WORDS... - a cell of this row for each of $ways, all at once: HOW is direct, in_batch, requeued or federated; ACT is run meanwhile.
# $jobs: how many jobs there are of each; $life: which life of them is seen; $cut: they are to be ended by Slurm
cells() {
    local how=$1 kind=$2 act=$3 way pids=()
    shift 3
    rm -f go -- *.out *.rc
    for way in $ways; do
        ("$how" "$way" "$kind" "$@" >"$way.out" 2>&1 </dev/null; echo $? >"$way.rc") &
        pids+=($!)
    done
    $act >act 2>&1 </dev/null || { cp act "$out"; not_ok "$row: $act"; }
    touch go
    wait "${pids[@]}"
    clean_after "$row: nothing is left"
    for way in $ways; do judge "$way"; done # when all has ended: of salloc's dictionary Slurm's log tells
}
name_of() { case $1 in run | up) echo "ddict $1" ;; *) echo "$1" ;; esac; }
statistics() { # WAY: of how many dictionaries; of salloc's Slurm's log has them
    local line='2 managers on 2 nodes, 64\.0 MiB: 2 keys, .* [0-9]+ puts?, [0-9]+ gets?'
    if [ "$1" != salloc ]; then
        grep -Ec "^ddict( run)?: $line" "$out"
    else
        cat "$home"/../../log/slurmd-*.log | grep -Ec "ddict: dictionary [0-9]+\.$(sed -n 's/^rank 0 of job \([0-9]*\),.*/\1/p' "$out")\.job ends: $line"
    fi
}
judge() { # WAY
    local way=$1 why='' n=${jobs-1} rc
    cp "$way.out" "$out"
    rc=$(cat "$way.rc")
    if [ -n "${cut-}" ]; then
        [ "$rc" != 0 ] && [ "$rc" != 7 ] || why+="exit code $rc; "
        sed -i '/^ddict \(get\|put\): cannot/d' "$out" # Slurm ends the managers and the tasks in any order
    else
        [ "$rc" = 7 ] || why+="exit code $rc, wanted 7; "
        [ "$(statistics "$way")" = "$n" ] || why+="not the statistics; "
    fi
    [ "$(grep -c "^rank [01] of job [0-9]*, life ${life-0}, has" "$out")" = $((2 * n)) ] || why+="not all ranks have each other's values; "
    ! grep -Eq 'is lost|has not answered|ended early|can ?not|Traceback' "$out" || why+="something is said; "
    [ -z "$why" ] && { ok "$row: $(name_of "$way")"; return; }
    echo "($why)" >>"$out"
    not_ok "$row: $(name_of "$way")"
}

high='PartitionName=high Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP'
if grep -q '^TaskPlugin=.*cgroup' "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/slurm/slurm.conf"; then task=task/affinity,task/cgroup; else task=task/affinity; fi
cores=$(($(nproc) < 8 ? $(nproc) : 8)) # that are bound have to be there
launch=LaunchParameters=use_interactive_step,mem_sort,test_exec,mpir_use_nodeaddr,batch_step_set_cpu_freq
# Not slurmstepd_memlock_all with PrologFlags=Contain: Slurm 24.11 then forgets the cgroups of each job's extern step, also without us.
everything=(--configless --set PrologFlags=Contain,X11 --set TaskPlugin=$task --cpus-per-node "$cores" --set "$launch")
if newer 2405; then
    everything+=(--auth slurm --set SlurmctldParameters=enable_stepmgr --set SlurmdParameters=config_overrides,contain_spank)
fi

row plain 'cells direct plain :'
row exclusive 'cells direct plain : --exclusive'
row array 'jobs=2 ways="sbatch run up" cells in_batch plain : --array=1-2'
row signal 'cells direct signal : -t1 --signal=USR1@60'
row contain_x11 'cells direct plain :' --set PrologFlags=Contain,X11
row affinity 'cells direct plain :' --set TaskPlugin=$task --cpus-per-node "$cores"
row launch_parameters 'cells direct plain :' --set "$launch,slurmstepd_memlock_all"
row configless 'cells direct plain :' --configless
if newer 2405; then
    row auth_slurm 'cells direct plain :' --auth slurm
    row stepmgr 'cells direct plain :' --set SlurmctldParameters=enable_stepmgr --set PrologFlags=Contain
    row contain_spank 'cells direct plain :' --set SlurmdParameters=config_overrides,contain_spank
else
    echo "skipped auth_slurm, stepmgr and contain_spank: this Slurm is older than 24.05"
fi
if has_plugin tls_s2n; then echo "skipped tls: not tried"; else echo "skipped tls: this Slurm is built without tls/s2n"; fi
row suspend 'cells direct waits hold'
row preempt_suspend 'cells direct waits preempt_hold' --set PreemptType=preempt/partition_prio --set PreemptMode=SUSPEND,GANG --set "$high"
row preempt_requeue 'life=1 ways="sbatch run up" cells requeued requeue "preempt 6 true" --requeue; cut=yes ways="srun salloc" cells direct waits "preempt 4 true"' \
    --set PreemptType=preempt/partition_prio --set PreemptMode=REQUEUE --set "$high"
row federated_ids 'ways="srun run up" cells federated plain :'
row all_at_once 'cells direct plain :' "${everything[@]}"
finish
