#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Where something of a dictionary is missing or wrong on a node, no task runs without it, one line says what, and the node
# stays in service.
. "$(dirname "$0")/ends.sh"
need_nodes 3
here="-w ${nodes[0]},${nodes[1]}"
daemon=$(find "$prefix" -name ddictd -type f | head -n 1)
plugin=$(find "$prefix" -name ddict.so -type f | head -n 1)
is "ddictd_and_the_plugin_are_installed" "$([ -n "$daemon" ] && [ -n "$plugin" ] && echo yes)" yes
undo=''
trap 'eval "$undo"; rm -rf "$ends" "$out"' EXIT

# cover NODE FILE BY - in that node another file lies over it, until uncover
cover() {
    "$devcluster" exec "$1" -- mount --bind "$3" "$2" && undo+="\"$devcluster\" exec $1 -- umount $2;"
}
uncover() { eval "$undo"; undo=''; }
refused() { # NAME NODE LINE: srun on the first node and that one
    row "$1" step plain=no opts="-w ${nodes[0]},${nodes[$2 - 1]}" task='begun; echo THE TASK RAN' rc='[1-9][0-9]*' state='CANCELLED 0:0' \
        not='THE TASK RAN' line="$3"
}
# Slurm's mpi/pmix may try for half a minute to reach the node whose daemon is gone, after the job is over.
cover 2 "$daemon" /dev/null
cover 3 "$daemon" /bin/false
refused "ddictd cannot be run on a node" 2 "did not start: execve\(\): [^ ]*ddictd: Permission denied \(${nodes[1]}: task 1: Exited"
refused "ddictd fails on a node" 3 "did not start: ${nodes[2]}: task 1: Exited with exit code 1"
rows_end "nothing_is_left_when_ddictd_cannot_be_run"
uncover

# The name travels in the environment, and the managers need no plugin: only with --export=NONE there is something to say.
cover 2 /etc/slurm/plugstack.conf /dev/null
row "no plugin on a node" step opts="$here" task='begun'
row "no plugin on a node, --export=NONE" step plain=no opts="$here --export=NONE" tasks=1 rc='[1-9][0-9]*' state='FAILED .*' \
    task="PATH=$prefix/bin:\$PATH; begun" line='^ddict: no dictionary: DDICT_NAME is not set; .*is the plugin installed on this node.*'
rows_end "nothing_is_left_without_plugin_on_a_node"
uncover
ends_finish
