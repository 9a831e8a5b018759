# SPDX-License-Identifier: Apache-2.0
# batch.sh - jobs of sbatch for the tests. Sourced after lib.sh.

# batch OPTIONS... <SCRIPT - submits the script, waits for the script's end ($states=PD,R,CG: the job's) and prints its output (of all array tasks); exit
# code of the job's last task
batch() {
    local text
    text=$(cat)
    sub env states="${states-PD,R}" tag="$BASHPID" sh -c 'cd; printf "%s\n" "$1" >"job$tag"; shift
        id=$(sbatch --parsable -o "$HOME/job$tag.%A.%a.out" "$@" "job$tag") || exit 1
        while reason=$(squeue -h -t "$states" -j "$id" -o %r 2>/dev/null) && [ -n "$reason" ]; do
            # Requeued: Slurm waits two minutes. It does not start a job anew in the second in which it ended ("Job credential revoked").
            [ "$reason" != BeginTime ] || { sleep 1.2; scontrol update jobid="$id" starttime=now; }
            sleep 0.2
        done
        cat "job$tag".*.out; code=$(scontrol show job "$id" | sed -n "s/.*ExitCode=\([0-9]*\):.*/\1/p" | tail -n 1); rm -f "job$tag" "job$tag".*.out
        exit "${code:-99}"' batch "$text" "$@" </dev/null
}
# b SENTENCE OPTIONS... <SCRIPT - the job ends with 0; its output is in $out
b() {
    local name=$1 rc
    shift
    batch "$@" >"$out" 2>&1
    rc=$?
    [ $rc = 0 ] && { ok "$name"; return 0; }
    echo "(exit code $rc)" >>"$out"
    not_ok "$name"
}
trap 'rm -f "$out" "$out".*' EXIT
