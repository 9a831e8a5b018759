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
row "ddictd cannot be run on a node" batch plain=no opts="-w ${nodes[0]},${nodes[1]}" task='begun; echo THE TASK RAN' rc='[1-9][0-9]*' tasks=0 \
    state='FAILED .*' not='THE TASK RAN' line="did not start: execve\(\): [^ ]*ddictd: Permission denied \(${nodes[1]}: task 1: Exited"
rows_end "nothing_is_left_when_ddictd_cannot_be_run"
uncover

# The name travels in the environment, and the managers need no plugin: only with --export=NONE there is something to say.
cover 2 /etc/slurm/plugstack.conf /dev/null
row "no plugin on a node" step opts="$here" task='begun'
row "no plugin on a node, --export=NONE" step plain=no opts="$here --export=NONE" tasks=1 rc='[1-9][0-9]*' state='FAILED .*' \
    task="PATH=$prefix/bin:\$PATH; begun" line='^ddict put: no dictionary: DDICT_NAME is not set .*is the plugin installed on this node.*'
rows_end "nothing_is_left_without_plugin_on_the_first_node"
cover 1 /etc/slurm/plugstack.conf /dev/null
row "no plugin on the job's first node" batch plain=no opts="$here" tasks=0 rc='[1-9][0-9]*' state='FAILED .*' task='' script='ddict put k v' \
    line='^ddict put: no dictionary: DDICT_NAME is not set .*is the plugin installed on this node.*'
rows_end "nothing_is_left_without_plugin_on_the_first_node"
uncover
# The same plugin, but for another version of Slurm.
python3 - "$plugin" "$ends/wrong.so" <<'END'
import re, subprocess, sys
data = bytearray(open(sys.argv[1], "rb").read())
value = next(int(w[0], 16) for w in map(str.split, subprocess.check_output(["nm", "-D", sys.argv[1]], text=True).splitlines())
             if w[-1] == "plugin_version")
sections = subprocess.check_output(["objdump", "-h", sys.argv[1]], text=True)
for size, vma, offset in re.findall(r"^ *\d+ \S+ +(\w+) +(\w+) +\w+ +(\w+)", sections, re.M):
    size, vma, offset = int(size, 16), int(vma, 16), int(offset, 16)
    if 0 < vma <= value < vma + size:
        at = offset + value - vma
data[at + 2] ^= 0x7f
open(sys.argv[2], "wb").write(data)
END
chmod 755 "$ends/wrong.so"
cover 2 "$plugin" "$ends/wrong.so"
row "a plugin of the wrong version on a node" step opts="$here" task='begun'
rows_end "nothing_is_left_with_a_wrong_plugin_on_a_node"
cover ctl "$plugin" "$ends/wrong.so"
row "a plugin of the wrong version where srun is" step plain=no opts="$here" task='begun; echo THE TASK RAN' tasks=0 rc='[1-9][0-9]*' \
    state=none said='unrecognized option .--ddict' not='THE TASK RAN' record=no
rows_end "nothing_is_left_with_a_wrong_plugin"
uncover

# Slurm without PMIx.
pmix=$(readlink -f "$(dirname "$(find /usr/lib* -name auth_munge.so | head -n 1)")"/mpi_pmix*.so | sort -u)
for host in ctl "${nodes[@]}"; do
    for file in $pmix; do cover "$host" "$file" /dev/null; done
done
row "no PMIx" step task='begun'
row "no PMIx" batch opts="$here" task='begun'
rows_end "nothing_is_left_without_pmix"
sed 's/$/ mpi=pmix/' "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/slurm/plugstack.conf" >"$ends/pmix.conf"
cover ctl /etc/slurm/plugstack.conf "$ends/pmix.conf"
cover 1 /etc/slurm/plugstack.conf "$ends/pmix.conf"
refused "no PMIx, and the site asks for it" 2 "did not start: .*mpi/pmix"
rows_end "nothing_is_left_where_the_site_says_mpi_pmix"
uncover

# The clock of a node's managers is off. (Of a node that is off by more than five minutes Slurm takes no message.)
cc -shared -fPIC -o "$ends/clock.so" "$tests/clock.c" && cp "$daemon" "$ends/ddictd" &&
    printf '#!/bin/sh\nLD_PRELOAD=%s exec %s "$@"\n' "$ends/clock.so" "$ends/ddictd" >"$ends/ahead" && chmod 755 "$ends/ahead"
cover 2 "$daemon" "$ends/ahead"
for scope in step batch; do
    row "a node whose clock is off" $scope plain=no opts="$here" task="exec python3 $tests/ends.py work 3" rc=0 state='COMPLETED 0:0' within=20 \
        said='^rank 1: no error'
done
rows_end "nothing_is_left_where_a_clock_is_off"
uncover
ends_finish
