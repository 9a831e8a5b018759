#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Settings of sites, on a cluster of their own, that concern memory: /tmp and /dev/shm are a job's own, a running job's limit is lowered by Slurm, a step
# is killed as a whole, a step waits for what its tasks leave. What this Slurm does not have is skipped by name.
. "$(dirname "$0")/lib.sh"
prefix=$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/prefix")
release=$(sub srun --version | tr -dc '0-9.' | awk -F. '{ print $1 * 100 + $2 }')
newer() { [ "$release" -ge "$1" ]; }
case $prefix/ in /tmp/*) echo "skipped all: a job with a /tmp of its own does not see $prefix"; exit 77 ;; esac
. "$tests/limits.sh"

DEVCLUSTER_ID=l$(printf %05d $((RANDOM % 100000)))
[ -z "${DDICT_CHECK_IDS-}" ] || echo "$DEVCLUSTER_ID" >>"$DDICT_CHECK_IDS"
export DEVCLUSTER=$devcluster
spool=/var/lib/ddict-devcluster/$DEVCLUSTER_ID/spool
trap '"$devcluster" down 2>/dev/null; rm -rf "$work" "$out" "$out".*' EXIT
newer 2302 && dirs=' Dirs=/tmp,/dev/shm' || dirs=''
{
    echo 'AutoBasePath=true'
    for n in 1 2; do echo "NodeName=${DEVCLUSTER_ID}n$n BasePath=$spool/own$n$dirs"; done
} >"$work/job_container.conf"
newer 2511 && own=NamespaceType=namespace/tmpfs || own=JobContainerType=job_container/tmpfs
set -- --set "$own" --set PrologFlags=Contain --set JobAcctGatherType=jobacct_gather/cgroup
! newer 2405 || set -- "$@" --set SlurmctldParameters=enable_stepmgr
t "a_cluster_whose_jobs_have_a_tmp_of_their_own_is_up" timeout 120 "$devcluster" up -n 2 --prefix "$prefix" --etc "$work/job_container.conf" "$@" || finish
rm -rf "$work"
mapfile -t nodes < <("$devcluster" nodes)
cd "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/home/ddict-test" || exit 1
work=$PWD/limits
mkdir -m 1777 "$work"

# Managers and tasks have the same folders, whoever asked for the dictionary. What is in memory is in no folder; the spill is.
# shellcheck disable=SC2016
both='ddict put $SLURM_PROCID v && ddict get --wait 20 $((1 - SLURM_PROCID)) && echo'
t "own_tmp: a_step_s_own_dictionary" sub srun -N2 -n2 --mem=200M --ddict-mem=64M sh -c "$both"
is "own_tmp: both_tasks_use_it" "$(grep -cx v "$out")" 2
t "own_tmp: a_job_s_dictionary" sub salloc -Q -N2 --mem=300M --ddict-mem=64M sh -c "srun -N2 -n2 sh -c '$both' && srun -N2 -n2 sh -c 'ddict get 0 && echo'"
is "own_tmp: both_steps_use_it" "$(grep -cx v "$out")" 4
cat >"$work/script" <<END
#!/bin/bash
touch /tmp/mine /dev/shm/mine && ls /dev/shm
x=\$(ddict up --managers=2 --mem=64M --spill=/tmp:400M) && eval "\$x" || exit 90
srun -N1 -n1 --mem=0 --overlap python3 $tests/limits.py put 100 check
srun -N2 -n2 --mem=0 --overlap sh -c '$both'
ddict down
END
chmod 644 "$work/script"
t "own_tmp: a_dictionary_by_hand_in_a_script" sub sbatch -W -Q -N2 --mem=300M -o "$work/script.out" "$work/script"
cat "$work/script.out" >>"$out"
is "own_tmp: both_tasks_use_that" "$(grep -cx v "$out")" 2
has "own_tmp: 100_MiB_of_64_are_in_the_spill" '^checked 100: no error'
is "own_tmp: and_the_script_s_files_were_its_own" "$(grep -cx mine "$out") $("$devcluster" exec 1 -- find /tmp /dev/shm -maxdepth 1 -name mine | wc -l)" "1 0"
clean_after "own_tmp: nothing_is_left"

if sub srun --help | grep -q -- --oom-kill-step; then
    t "oom_kill_step: the_next_step_has_what_was_put" sub salloc -Q -N2 --mem=250M --ddict-managers=2 --ddict-mem=100M sh -c "
        srun -N1 -n1 ddict put before v
        ! srun -N2 -n2 --oom-kill-step=1 python3 $tests/ends.py eat || exit 1
        srun -N1 -n1 ddict get before && echo"
    has "oom_kill_step: slurm_says_why" '[Oo]ut of [Mm]emory|oom|OOM'
    has_not "oom_kill_step: the_dictionary_is_well" 'is lost|died|ended early|was killed because'
    sub srun -N2 -n2 --mem=250M --oom-kill-step=1 --ddict-managers=2 --ddict-mem=100M python3 "$tests/ends.py" eat >"$out" 2>&1
    has "oom_kill_step: a_step_s_own_dictionary_ends_in_order" 'ddict: 2 managers on 2 nodes, 100.0 MiB: '
    has_not "oom_kill_step: and_is_well" 'is lost|died|ended early|was killed because'
    clean_after "oom_kill_step: nothing_is_left"
else
    echo "skipped --oom-kill-step: this srun does not have it"
fi

if sub srun --help | grep -q -- --wait-for-children; then
    # shellcheck disable=SC2016
    t "wait_for_children: a_step_with_a_dictionary" sub srun -N1 -n1 --mem=200M --wait-for-children --ddict-mem=64M sh -c \
        '(sleep 4; ddict put late v && ddict get late; echo) & ddict put early w'
    has "wait_for_children: what_the_task_leaves_still_has_it" '^v$'
    has "wait_for_children: two_keys" ': 2 keys'
    clean_after "wait_for_children: nothing_is_left"
else
    echo "skipped --wait-for-children: this srun does not have it (25.05)"
fi

if newer 2605; then
    lowered() { # NAME: what Slurm made of it
        over
        is "$1: the_task_ends_well" "$rc" 0
        is "$1: no_value_is_lost" "$(grep -c '^checked .*no error' "$out")" 2
        has "$1: the_error_names_the_job_s_cgroup" "^full at [0-9]+: .*manager 0 cannot grow beyond .*: the memory limit of cgroup $(in_messages "$folder")(/step_[^ ]*)? \($mib\.0 MiB\) is near"
        clean_after "$1: nothing_is_left"
    }
    begin srun -w "${nodes[0]}" -N1 -n1 --mem=700M --ddict-managers=1 --ddict-mem=500M python3 "$tests/limits.py" put 60 check mark held wait lowered full check
    if awaited held; then
        folder=$(job_folder)
        mib=$(($(used) + 32)) # 64 are kept free
        t "scontrol_update: is_accepted" sub scontrol update JobId="$(sub squeue -h -o %A)" MinMemoryNode=$mib
        for i in $(seq 50); do
            [ "$(cat "$folder/memory.max")" != $((mib << 20)) ] || break
            sleep 0.2
        done
        touch "$work/lowered"
    fi
    lowered scontrol_update

    # --mem-update: a minute after the start, what is used and a fifth more is the limit. One job by srun, one by sbatch.
    begin srun -w "${nodes[0]}" -N1 -n1 --mem=900M --mem-update=20@1 --ddict-managers=1 --ddict-mem=300M python3 "$tests/limits.py" put 60 check mark held wait lowered full check
    cat >"$work/script" <<END
#!/bin/bash
exec python3 $tests/limits.py put 60 check mark $work/held_too wait $work/lowered full check
END
    chmod 644 "$work/script"
    limit=300 sub sbatch -W -Q -w "${nodes[1]}" --mem=900M --mem-update=20@1 --ddict-managers=1 --ddict-mem=300M -o "$work/script.out" "$work/script" >/dev/null 2>&1 &
    batch=$!
    if awaited held && awaited held_too; then
        for n in 0 1; do
            folder=$(job_folder "${nodes[$n]}")
            for i in $(seq 1200); do
                mib=$(($(cat "$folder/memory.max") >> 20))
                [ $mib = 900 ] || break
                sleep 0.1
            done
            is "mem_update: slurm_lowers_the_limit_of_job_$n" "$([ $mib -ge 300 ] && [ $mib -lt 900 ] && echo lowered || echo "$mib MiB")" lowered
        done
        touch "$work/lowered"
    fi
    wait $batch
    is "mem_update: the_script_ends_well" $? 0
    over
    is "mem_update: the_task_ends_well" "$rc" 0
    cat "$work/script.out" >>"$out"
    is "mem_update: no_value_is_lost" "$(grep -c '^checked .*no error' "$out")" 4
    has_not "mem_update: nobody_is_lost" 'is lost|LostError|GoneError|died|was killed'
    clean_after "mem_update: nothing_is_left"
else
    echo "skipped scontrol update MinMemoryNode of a running job, and --mem-update: this Slurm is older than 26.05"
fi
t "the_cluster_is_down" "$devcluster" down
finish
