#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `ddict save` and `ddict restore` of a dictionary of three nodes: each writes its own, and what comes back is on other nodes and managers.
. "$(dirname "$0")/lib.sh"
need_nodes 3
home=$PWD
trap 'rm -rf "$out" "$home"/saved* "$home"/files' EXIT
opts="--ddict-mem=192M --ddict-log=none"

# shellcheck disable=SC2016
first='[ $SLURM_PROCID = 0 ] || exit 0;'
# shellcheck disable=SC2016
fill='python3 -c "import ddict, numpy
d = ddict.attach()
d.put_many((\"k/%d\" % i, bytes([i % 256]) * (i % 3000)) for i in range(5000))
d[\"array\"] = numpy.arange(3000000)
print(len(d), \"keys\")"'
verify='python3 -c "import ddict, numpy
d = ddict.attach()
assert len(d) == 5001, len(d)
assert all(d[\"k/%d\" % i] == bytes([i % 256]) * (i % 3000) for i in range(5000))
assert (d[\"array\"] == numpy.arange(3000000)).all()
print(\"all there\")"'

t "each_node_writes" sub srun -N3 -n3 --ddict-managers=4 $opts sh -c "$first $fill && ddict save --json $home/saved && ddict save --prefix k/1 $home/saved.ddict"
has "summary" '"items": ?5001.*"nodes": ?3'
is "parts_of_three_writers" "$(find "$home/saved" -name '*.part' -printf '%f\n' | cut -d- -f1 | sort -u | xargs)" "0 1 2"
is "and_a_manifest_and_nothing_else" "$(find "$home" -maxdepth 2 -path "$home/saved*" ! -name '*.part' -printf '%f\n' | sort | xargs)" "manifest.json saved saved.ddict"

t "it_comes_back_on_two_nodes" sub srun -N2 -n2 --ddict-managers=5 $opts sh -c "$first ddict restore $home/saved && $verify"
has "all_there" 'all there'
t "and_from_python" sub srun -N3 -n3 $opts python3 -c "import ddict, os, sys
if os.environ['SLURM_PROCID'] != '0': sys.exit()
d = ddict.attach()
assert ddict.restore('$home/saved.ddict')['items'] == 1111
assert ddict.save('$home/files', 'k/10', files=True)['items'] == 111
try:
    ddict.save('$home/saved')
except ddict.SaveError as e:
    print(e)"
has "what_is_there_is_not_written_over" 'saved is there already'
is "files_of_values" "$(find "$home/files/k" -type f | wc -l)" 111

# shellcheck disable=SC2016
t "from_the_shell_of_salloc" sub salloc -N3 -n1 --ddict-mem=96M sh -c 'srun -N1 -n1 --overlap ddict put text hello && ddict save '"$home"'/saved2 && srun -N1 -n1 --overlap ddict rm text &&
    ddict restore '"$home"'/saved2 && srun -N1 -n1 --overlap ddict get text'
has "the_value_is_back" 'hello'

# Storage that the nodes do not share: said, and nothing is left of it.
t "a_folder_of_one_node" sub sh -c "! srun -N3 -n3 $opts sh -c '$first ddict put k v; ddict save /dev/shm/saved3; rc=\$?; ls -A /dev/shm; exit \$rc'"
has "is_said_with_its_node" 'storage that all nodes share'
has_not "and_removed" '^saved3'
clean_after "nothing_is_left"
finish
