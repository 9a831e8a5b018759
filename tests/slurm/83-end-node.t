#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A node is lost: its power, or its slurmd. Slurm ends the job as it would without a dictionary; who uses the dictionary gets an
# error before that.
. "$(dirname "$0")/ends.sh"
slots=12 # those that wait for a loss must all have begun
need_nodes 3
trap 'down_soon_end; undrain; rm -rf "$ends" "$out"' EXIT
slurmd_kill() { kill -KILL "$("$devcluster" ps "$1" | awk '$5 == "slurmd" { print $2 }')"; } # NODE
all_begun() { # of the rows not yet judged
    local n on
    for ((n = judged; n < ${#names[@]}; n++)); do
        for on in no yes; do
            [ ! -e "$ends/$n.$on/out" ] || [ -e "$ends/$n.$on/id" ] || return 1
        done
    done
}
at() { until_true 100 test -e "$ends/$1"; t0=$(now_ms); }
down_soon
# By libfabric where there is one: what it carries ends as fast.
ofi=''
sub srun -N1 -n1 ddict run --local --transport=ofi:tcp --record=none -- true >"$out" 2>&1 </dev/null && ofi=--ddict-transport=ofi:tcp
nap='begun; exec sleep 100'
work="exec python3 $tests/ends.py work"

row "slurmd killed and started again" step opts="-w ${nodes[0]},${nodes[2]}" task='begun; sleep 8; put again v' act='at slurmd'
sleep 1
until_true 100 all_begun
slurmd_kill 3
touch "$ends/slurmd"
sleep 1
"$devcluster" poweron 3
rows_end "nothing_is_left_after_slurmd_was_started_again"

row "power lost on a node" step opts="-w ${nodes[0]},${nodes[2]}" task="$nap" act='at power' line="node ${nodes[2]} is lost"
row "power lost on a node, in use" step plain=no opts="-w ${nodes[0]},${nodes[2]}" task="$work" act='at power' rc='[1-9][0-9]*' \
    state='NODE_FAIL .*' within=60 errors=1 line="node ${nodes[2]} is lost"
row "power lost on a node, in use" batch plain=no opts="$ofi --no-requeue -w ${nodes[0]},${nodes[2]}" task="$work" act='at power' rc='[0-9]*' \
    state='NODE_FAIL .*' within=60 errors=1
row "slurmd killed for good" step opts="-N1 -w ${nodes[1]}" task="$nap" act='at power' line="Node failure on ${nodes[1]}" maybe=yes
sleep 1
until_true 100 all_begun
"$devcluster" poweroff 3
slurmd_kill 2
touch "$ends/power"
while jobs -rp | grep -qvx "$watcher"; do wait -n; done
down_soon_end
rows_end "nothing_is_left_after_nodes_were_lost"
ends_finish
