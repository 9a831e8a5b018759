#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every way of starting processes x {rank, size, local rank, nodes, exchange of 1 KiB a rank, barrier}: equal to the truth, each within a second on
# three nodes with three ranks each. The truth is where the test put the ranks, and what each node calls itself.
. "$(dirname "$0")/lib.sh"
need_nodes 3
limit=40
n1=${nodes[0]} n2=${nodes[1]} n3=${nodes[2]}
block="$n1 $n1 $n1 $n2 $n2 $n2 $n3 $n3 $n3"
# shellcheck disable=SC2016
rank='echo "$(hostname) $(ddict runtime --json --check)"'
three="-N3 -n9 --ntasks-per-node=3"

has_pmix && pmix=yes || pmix=no
# without_pmix NAME CMD... - says so where Slurm has no mpi/pmix and the command asks for it
without_pmix() {
    case "$pmix $*" in no*--mpi=pmix*) echo "skipped $1: Slurm has no mpi/pmix here" ;; *) return 1 ;; esac
}
# row NAME HOW PEERS "HOSTS" CMD... - one row of the table. A loaded machine gets three goes at the second, and at what slurm_slipped tells.
row() {
    local name=$1 how=$2 peers=$3 hosts=$4 go
    shift 4
    if without_pmix "$name" "$@"; then return; fi
    for go in 1 2 3; do
        sub "$@" >"$out" 2>&1 </dev/null
        # shellcheck disable=SC2086
        answers=$(python3 "$tests/runtime_table.py" "$name" "$how" "$peers" $hosts <"$out") && break
        grep -q "^not ok ${name}_\(exchange\|barrier\)" <<<"$answers" || slurm_slipped || break
    done
    echo "$answers"
    if grep -q '^not ok' <<<"$answers"; then tail -n 15 "$out" | cut -c1-300 | sed 's/^/# /'; bad=1; fi
}

row srun_pmix PMIx PMIx "$block" srun $three --mpi=pmix sh -c "$rank"
row srun_pmix_cyclic PMIx PMIx "$n1 $n2 $n3 $n1 $n2 $n3" srun -N3 -n6 --ntasks-per-node=2 -m cyclic --mpi=pmix sh -c "$rank"

# With a dictionary, which is where ranks meet without PMIx.
# shellcheck disable=SC2016
row srun_none "Slurm's variables" "the dictionary" "$block" srun $three --mpi=none --ddict-managers=3 --ddict-mem=48M --ddict-record=none \
    sh -c "$rank"'; ddict runtime --check >/dev/null; [ $SLURM_PROCID != 0 ] || ddict ls | sed "s/^/key /"'
has_not "an_exchange_leaves_no_key" "^key"
row srun_pmix_with_dictionary "Slurm's variables" "the dictionary" "$block" srun $three --mpi=pmix --ddict-managers=3 --ddict-mem=48M --ddict-record=none sh -c "$rank"
# shellcheck disable=SC2016
row srun_arbitrary_pmix PMIx "the dictionary" "$n1 $n2 $n1 $n3 $n3" sh -c 'cd; printf "%s\n" "$@" >hosts; SLURM_HOSTFILE=$PWD/hosts \
    srun -n5 -m arbitrary --mpi=pmix --ddict-managers=3 --ddict-mem=48M --ddict-record=none sh -c "$0"; rm hosts' "$rank" "$n1" "$n2" "$n1" "$n3" "$n3"
# shellcheck disable=SC2016
row srun_some_without_pmix "Slurm's variables~" "the dictionary" "$block" srun $three --mpi=pmix --ddict-managers=3 --ddict-mem=48M --ddict-record=none \
    sh -c '[ $((SLURM_PROCID % 2)) = 0 ] || export DDICT_PMIX=no; '"$rank"
row srun_pmi2 "Slurm's variables" "the dictionary" "$block" srun $three --mpi=pmi2 --ddict-managers=3 --ddict-mem=48M --ddict-record=none sh -c "$rank"
row srun_no_pmix_library "Slurm's variables" "the dictionary" "$n1 $n1 $n2 $n2 $n1 $n1 $n2 $n2" \
    srun -N2 -n8 -m plane=2 --mpi=pmix --ddict-managers=2 --ddict-mem=32M --ddict-record=none env DDICT_PMIX=no sh -c "$rank"
# shellcheck disable=SC2016
row srun_arbitrary "Slurm's variables?" "the dictionary" "$n1 $n2 $n1 $n3 $n3" sh -c 'cd; printf "%s\n" "$@" >hosts; SLURM_HOSTFILE=$PWD/hosts \
    srun -n5 -m arbitrary --mpi=none --ddict-managers=3 --ddict-mem=48M --ddict-record=none sh -c "$0"; rm hosts' "$rank" "$n1" "$n2" "$n1" "$n3" "$n3"

# A container: a /tmp of its own, the folder of the PMIx server's files hidden, and a user namespace with the same user or another one, whom the PMIx server would refuse.
row container_of_the_same_user PMIx PMIx "$n1 $n1 $n2 $n2" \
    srun -N2 -n4 --ntasks-per-node=2 --mpi=pmix unshare -c -m --keep-caps sh -c "mount -t tmpfs tmpfs /tmp && $rank"
# shellcheck disable=SC2016
row container_without_the_server_s_files PMIx PMIx "$n1 $n1 $n2 $n2" \
    srun -N2 -n4 --ntasks-per-node=2 --mpi=pmix unshare -c -m --keep-caps sh -c 'mount -t tmpfs tmpfs "${PMIX_SERVER_TMPDIR%/*}" && '"$rank"
row container_of_another_user "Slurm's variables" "the dictionary" "$n1 $n1 $n2 $n2" \
    srun -N2 -n4 --ntasks-per-node=2 --mpi=pmix --ddict-managers=2 --ddict-mem=32M --ddict-record=none unshare -rm sh -c "mount -t tmpfs tmpfs /tmp && $rank"

[ $pmix = no ] || sub srun -N2 -n2 --mpi=pmix unshare -rm ddict runtime --json >"$out" 2>&1 </dev/null
[ $pmix = no ] || is "container_of_another_user_without_a_dictionary_is_told_why" "$(grep -c '"how":"Slurm.s variables","peers":"none".*another user or group' "$out")" 2

# A batch script and a shell are one process, whatever their job has; so is a script submitted from a step, which inherits that step's variables.
# shellcheck disable=SC2016
batch='cd; f=batch.$$.out; '"sbatch -Q -W $three -o \$PWD/\$f --wrap"' "$0" >/dev/null; cat $f; rm -f $f'
row sbatch_script "one process alone" alone "$n1" sh -c "$batch" "$rank"
# shellcheck disable=SC2016
row script_submitted_from_a_step "one process alone" alone "$n1" srun -N2 -n2 -w "$n2,$n3" sh -c \
    '[ $SLURM_PROCID != 1 ] || { cd; f=batch.$$.out; sbatch -Q -W -N1 -n1 -w "$1" -o $PWD/$f --wrap "$0" >/dev/null; cat $f; rm -f $f; }' "$rank" "$n1"
row salloc_shell "one process alone" alone "${DEVCLUSTER_ID}ctl" salloc -Q $three sh -c "$rank"
row single "one process alone" alone "${DEVCLUSTER_ID}ctl" sh -c "$rank"
row ddict_run "one process alone" alone "${DEVCLUSTER_ID}ctl" ddict run --managers=1 --mem=16M -- sh -c "$rank"
ctl="${DEVCLUSTER_ID}ctl"
row ddict_run_n "ddict run" "the dictionary" "$ctl $ctl $ctl" ddict run -n 3 --managers=2 --mem=16M -- sh -c "$rank"

if sub sh -c 'command -v mpirun' >/dev/null; then
    row mpirun PMIx PMIx "$block" salloc -Q $three mpirun --bind-to none sh -c "$rank"
    sub salloc -Q $three mpirun --bind-to none ddict runtime --json --no-pmix >"$out" 2>&1 </dev/null
    is "mpirun_without_pmix_ranks" "$(grep -o '"rank":[0-9]*,"size":9' "$out" | sort | paste -sd' ' | tr -cd '0-9 ')" "09 19 29 39 49 59 69 79 89"
    is "mpirun_without_pmix_does_not_guess" "$(grep -c '"node_id":-1,.*"map":false' "$out")" 9
else
    echo "skipped mpirun: openmpi-bin is not installed"
fi

# Nothing reaches the others without PMIx and without a dictionary; that is said, and nobody waits.
sub srun $three --mpi=none ddict runtime --check >"$out" 2>&1 </dev/null
is "without_both_the_reason_is_said" "$(grep -c 'ddict runtime: 9 ranks cannot reach each other.*--mpi=pmix.*--ddict-managers' "$out")" 9

# PMIx serves the first program of a task; now and then it seems to serve the second one of some ranks, and all meet nevertheless.
row second_program_of_a_task "Slurm's variables~" "the dictionary" "$block" \
    srun $three --mpi=pmix --ddict-managers=3 --ddict-mem=48M --ddict-record=none sh -c "ddict runtime >/dev/null && $rank"
row program_after_no_pmix PMIx PMIx "$block" srun $three --mpi=pmix sh -c "ddict runtime --no-pmix >/dev/null && $rank"

# A barrier holds the ranks of all nodes, each way.
barrier() { # NAME PEERS SRUN...
    local name=$1 peers=$2
    shift 2
    if without_pmix "${name}_barrier" "$@"; then return; fi
    sub "$@" python3 "$tests/runtime_barrier.py" "$PWD/barrier.$name" 4 >"$out" 2>&1 </dev/null
    is "${name}_barrier_holds_all_nodes" "$?$(grep -c "^$peers: held$" "$out")" 09
    has_not "${name}_barrier_is_left_by_none_too_early" 'left barrier'
    rm -rf "barrier.$name"
}
barrier srun_pmix PMIx srun $three --mpi=pmix
barrier srun_pmix_cyclic PMIx srun $three -m cyclic --mpi=pmix
barrier srun_none "the dictionary" srun $three --mpi=none --ddict-managers=3 --ddict-mem=48M --ddict-record=none

# What a rank starts is no second client of PMIx, which would hang them all.
child='import subprocess
from ddict import runtime
runtime.init()
runtime.barrier(30)
subprocess.run(["ddict", "runtime", "--json"], check=True)
runtime.barrier(30)'
if ! without_pmix a_child_of_a_rank --mpi=pmix; then
    for go in 1 2; do
        sub srun $three --mpi=pmix python3 -c "$child" >"$out" 2>&1 </dev/null
        rc=$?
        [ $go = 1 ] && [ $rc != 0 ] && { slurm_slipped || grep -q 'PMIx: .*no answer of all tasks' "$out"; } || break
    done
    is "a_child_of_a_rank_leaves_PMIx_to_it" $rc 0
    is "and_finds_the_same_place" "$(grep -c '"size":9,.*"how":"Slurm.s variables","peers":"none".*uses it"' "$out")" 9
fi
clean_after "nothing_is_left"
finish
