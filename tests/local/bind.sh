#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bind.sh - `ddict runtime --bind` as a user and as a task of a step types it. hwloc reads a made-up machine of 8 GPUs over 8 NUMA nodes in place of this one
# (HWLOC_XMLFILE), the variables are those of Slurm.
set -u
ddict=${DDICT:-$PWD/ddict} failed=0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
tests/local/machine 1 >"$dir/m1.xml" && tests/local/machine 3 >"$dir/m3.xml" || exit 1

# is CODE OUTPUT STDERR COMMAND...: the exit code, all of stdout, and what stderr has to say ("" for nothing)
is() {
    local code=$1 out=$2 err=$3 got rc
    shift 3
    got=$("$@" 2>"$dir/err")
    rc=$?
    if [ $rc != "$code" ] || { [ "$out" != "*" ] && [ "$got" != "$out" ]; } ||
        { [ -z "$err" ] && [ -s "$dir/err" ]; } || { [ -n "$err" ] && ! grep -qF -- "$err" "$dir/err"; }; then
        printf 'FAILED: %s\n  code %s, expected %s\n  stdout: %s\n  expected: %s\n' "$*" $rc "$code" "$got" "$out"
        sed 's/^/  stderr: /' "$dir/err"
        failed=1
    fi
}
# task LOCAL_RANK TASKS NAME=VALUE... : the shell lines of a task of a step
clean() { env -i PATH="$PATH" LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" ASAN_OPTIONS="${ASAN_OPTIONS-}" LSAN_OPTIONS="${LSAN_OPTIONS-}" "$@"; }
task() {
    local r=$1 n=$2 how=$3
    shift 3
    clean HWLOC_XMLFILE="$dir/m1.xml" SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=$r SLURM_STEP_NUM_TASKS=$n SLURM_NODEID=0 SLURM_STEP_NUM_NODES=1 \
        SLURM_LOCALID=$r SLURM_STEP_TASKS_PER_NODE=$n SLURM_STEP_NODELIST=n1 SLURMD_NODENAME=n1 "$@" "$ddict" runtime --bind="$how"
}
# Eight tasks, each with the eight cores of a NUMA node (threads c and c + 64). GPUs 0 1 hang on node 3, 2 3 on 1, 4 5 on 7, 6 7 on 5.
masks=$(python3 -c 'print(",".join(hex(0xff << 8 * n | 0xff << 64 + 8 * n) for n in range(8)))')
bound=(SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND_LIST="$masks")
pci=$'export CUDA_DEVICE_ORDER=PCI_BUS_ID\n'

for r in 0 5; do # all ranks say the same
    is 0 "${pci}export CUDA_VISIBLE_DEVICES=0,2,3,1,4,6,7,5" "" task $r 8 closest "${bound[@]}" CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
done
is 0 "${pci}export CUDA_VISIBLE_DEVICES=6,7,0,1,2,3,4,5" "" task 5 8 rotate "${bound[@]}" CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
is 0 "${pci}export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7" "" task 0 8 closest CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 # not bound
is 0 "${pci}export CUDA_VISIBLE_DEVICES=1,0,2,3" "" task 1 4 closest SLURM_CPU_BIND_TYPE=mask_cpu: \
    SLURM_CPU_BIND_LIST=0xff000000000000,0xff00,0xff0000000000,0xff000000 SLURM_STEP_GPUS=3,5,6,7 CUDA_VISIBLE_DEVICES=0,1,2,3
is 0 "" "is left as it is" task 0 4 closest "${bound[@]}" CUDA_VISIBLE_DEVICES=0,1,x
is 0 "" "" task 1 4 closest "${bound[@]}" CUDA_VISIBLE_DEVICES=0,1,x # said once
is 0 "" "--gpus-per-task" task 0 4 closest "${bound[@]}" SLURM_GPUS_PER_TASK=1 CUDA_VISIBLE_DEVICES=0
is 0 "" "no GPU for this process" task 0 4 rotate CUDA_VISIBLE_DEVICES=NoDevFiles
is 0 "" "" task 0 4 none CUDA_VISIBLE_DEVICES=1,0
is 0 "${pci}export CUDA_VISIBLE_DEVICES=4,5" "4 ranks of this node share 2 GPUs, up to 2 on one" task 0 4 closest CUDA_VISIBLE_DEVICES=4,5
# the lines do in a shell what they say
got=$(eval "$(task 3 8 rotate "${bound[@]}" CUDA_VISIBLE_DEVICES=GPU-11,GPU-22)" 2>/dev/null; echo "$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES")
[ "$got" = "PCI_BUS_ID GPU-22,GPU-11" ] || { echo "FAILED: eval gave $got"; failed=1; }

is 0 "*" "" clean "$ddict" runtime --bind=closest --topology="$dir/m1.xml"
is 0 "*" "" clean "$ddict" runtime --bind=closest --topology="$dir/m3.xml" --ranks=8 --json
clean "$ddict" runtime --bind=closest --topology="$dir/m3.xml" --ranks=8 --json | python3 -c '
import json, sys
o = json.load(sys.stdin)
assert o["variable"] == "ROCR_VISIBLE_DEVICES" and o["vendor"] == "AMD" and o["shared"] == 1, o
assert [r["rank"] for r in o["ranks"]] == list(range(8))
assert {r["value"] for r in o["ranks"]} == {"4,5,2,3,6,7,0,1"}, o
assert all(r["distance"] == 10 and r["numa"] == r["rank"] // 2 for r in o["ranks"]), o' || failed=1
is 1 "" "no way to bind GPUs" clean "$ddict" runtime --bind=nearest
is 1 "" "No such file" clean "$ddict" runtime --bind=closest --topology="$dir/none.xml"
is 1 "" "no XML of hwloc" clean "$ddict" runtime --bind=closest --topology=/dev/null
is 2 "" "--ranks" clean "$ddict" runtime --ranks=3
is 2 "" "1 to 512" clean "$ddict" runtime --bind=closest --ranks=0
[ $failed = 0 ] && echo "ok GPUs are bound as the command says"
exit $failed
