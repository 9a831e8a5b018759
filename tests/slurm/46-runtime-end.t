#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# However a rank ends and whatever else uses PMIx in it: nothing hangs, and the exit code is Slurm's own.
. "$(dirname "$0")/lib.sh"
limit=40
two="-N2 -n4 --ntasks-per-node=2"

# ends NAME CODE STEPS [RANK STEPS] -- SRUN...
ends() {
    local name=$1 code=$2 words=()
    shift 2
    case "$pmix $*" in no*--mpi=pmix*) echo "skipped $name: Slurm has no mpi/pmix here"; return ;; esac
    while [ "$1" != -- ]; do words+=("$1"); shift; done
    shift
    sub "$@" python3 "$tests/runtime_end.py" "${words[@]}" >"$out" 2>&1 </dev/null
    local rc=$?
    if slurm_slipped; then
        sub "$@" python3 "$tests/runtime_end.py" "${words[@]}" >"$out" 2>&1 </dev/null
        rc=$?
    fi
    if [ $rc = "$code" ]; then ok "$name"; else not_ok "$name"; echo "# exit code $rc, wanted $code"; fi
}
has_pmix && pmix=yes || pmix=no
# shellcheck disable=SC2206
by_pmix=(srun $two --mpi=pmix) by_both=(srun $two --mpi=pmix --ddict-managers=2 --ddict-mem=32M --ddict-record=none) none=(srun $two --mpi=none --ddict-managers=2 --ddict-mem=32M --ddict-record=none)
sub python3 -c 'import ddict' 2>/dev/null || { echo "no Python binding is installed"; exit 77; }

# Clean ends: by return, by finalize, by sys.exit(), by an exception; again and again in one process.
ends "finalize_and_begin_again" 0 rxRrxRx -- "${by_pmix[@]}"
ends "exit_without_finalize_is_clean" 3 rxX -- "${by_pmix[@]}"
ends "an_unhandled_exception_is_clean" 1 rxe -- "${by_pmix[@]}"
has_not "and_Slurm_kills_nobody" "Killed|CANCELLED|137"
ends "leave_then_exit_at_once" 4 rxL_ -- "${by_pmix[@]}"
ends "leave_then_exec" 0 rxLE -- "${by_pmix[@]}"
has_not "and_Slurm_kills_nobody_either" "Killed|CANCELLED"
ends "fork_before_and_after" 0 FrfxfxRrfx -- "${by_pmix[@]}"
ends "fork_before_and_after_by_the_dictionary" 0 FrfxfxRrfxb -- "${none[@]}"

# Deaths while the others wait for them 60 s: Slurm ends the step when it hears of it by PMIx.
ends "a_rank_that_is_killed_ends_the_step" 137 rxb 1 rxk -- "${by_pmix[@]}"
ends "a_rank_that_leaves_without_a_word_ends_the_step" 137 rxbs 1 rx_ -- "${by_pmix[@]}"
ends "a_rank_that_is_killed_before_an_exchange_ends_the_step" 137 rx 1 rk -- "${by_pmix[@]}"
ends "a_rank_that_is_killed_in_a_barrier_ends_the_step" 137 rxnb 0 rxdb -- "${by_pmix[@]}"
# Without PMIx Slurm says what became of each; the others have a deadline.
ends "without_pmix_a_rank_that_is_killed" 137 rxB 3 rxk -- "${none[@]}"
ends "without_pmix_rank_0_that_leaves_without_a_word" 4 rxB 0 rx_ -- "${none[@]}"
ends "an_exception_in_one_and_a_deadline_in_the_others" 1 rxB 2 rxe -- "${by_pmix[@]}"

if sub python3 -c 'import mpi4py' 2>/dev/null; then
    # Both in every order of start and end, and forks between them. The barrier at the end of MPI_Init is a fence without data, which Slurm's plugin ends on
    # each node alone where the nodes are fewer than TreeWidth: Open MPI, also without us, then jumps to NULL in a rank that gets a message too early. A ring has
    # no such fence.
    mpi=(env SLURM_PMIX_FENCE=ring "${by_pmix[@]}") mpi_both=(env SLURM_PMIX_FENCE=ring "${by_both[@]}")
    major=$(sub python3 -c 'import mpi4py; mpi4py.rc.initialize = mpi4py.rc.finalize = False; from mpi4py import MPI; print(MPI.Get_library_version())' 2>/dev/null |
        sed -n 's/^Open MPI v\([0-9]*\).*/\1/p')
    for steps in rmaMxR mrxRaM rxRmaM rfxmfxaM mrxaLaM; do
        ends "with_mpi_and_a_dictionary_$steps" 0 $steps -- "${mpi_both[@]}"
        # Open MPI 5 has to be the first that uses PMIx.
        case "${major:-0} $steps" in
        [5-9]" "r*) echo "skipped with_mpi_$steps: MPI_Init() of Open MPI $major fails after PMIx was used" ;;
        *) ends "with_mpi_$steps" 0 $steps -- "${mpi[@]}" ;;
        esac
    done
    if sub sh -c 'command -v mpirun' >/dev/null; then
        # shellcheck disable=SC2086
        ends "with_mpi_by_mpirun" 0 mrxaMfxR -- salloc -Q $two mpirun --bind-to none --mca btl_tcp_if_include eth0
    else
        echo "skipped mpirun: openmpi-bin is not installed"
    fi
else
    echo "skipped MPI: python3-mpi4py is not installed"
fi
clean_after "nothing_is_left"
finish
