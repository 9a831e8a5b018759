#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --ddict-persist: states by number of a dictionary on two nodes, each written and read by all nodes; the next job goes back to one, and another only reads.
. "$(dirname "$0")/lib.sh"
need_nodes 2
home=$PWD
trap 'rm -rf "$out" "$home"/states*' EXIT
limit=120
opts="-N2 -n2 --ddict-managers=3 --ddict-mem=96M --ddict-record=none"

# shellcheck disable=SC2086
t "states_are_saved" sub srun $opts --ddict-persist=states,count=2 python3 -c "import ddict, os, sys
if os.environ['SLURM_PROCID'] != '0': sys.exit()
d = ddict.attach()
for i in range(3):
    d.put_many((f'k/{j}', bytes([i]) * j) for j in range(500))
    d[f'only/{i}'] = i
    d.persist(i) if i != 1 else d.persist(1, wait=False).result(60)
print('ids', d.persisted_ids())"
has "of_which_the_newest_stay" '^ids \[1, 2\]'
is "each_by_both_nodes" "$(find "$home/states" -name '*.part' -printf '%P\n' | sed 's/-.*//' | sort -u | xargs)" "1/0 1/1 2/0 2/1"

# shellcheck disable=SC2086
t "the_next_job_goes_back" sub srun $opts --ddict-managers=2 --ddict-persist=states python3 -c "import ddict, os, sys
if os.environ['SLURM_PROCID'] != '0': sys.exit()
d = ddict.attach()
d.update({f'k/{j}': 'other' for j in range(900)})
d.restore(1)
assert sorted(d) == sorted([f'k/{j}' for j in range(500)] + ['only/0', 'only/1']), len(d)
assert all(d[f'k/{j}'] == bytes([1]) * j for j in range(500))
print('ids', d.persisted_ids())"
has "and_what_came_later_is_gone" '^ids \[1\]'
is "on_disk_too" "$(ls "$home/states")" 1

# shellcheck disable=SC2086
t "another_only_reads" sub srun $opts --ddict-persist="$home/states,read-only" python3 -c "import ddict, os, sys, time
d = ddict.attach()
try:
    d['mine'] = 1
except ddict.FrozenError:
    print('frozen')
if os.environ['SLURM_PROCID'] != '0':
    open('$home/states.tried', 'w').close()
    sys.exit()
for _ in range(600):
    if os.path.exists('$home/states.tried'): break
    time.sleep(0.05)
d.advance()
print(len(d), 'keys')
try:
    d.advance()
except ddict.SaveError as e:
    print(e)"
is "on_both_nodes" "$(grep -c '^frozen' "$out")" 2
has "the_state" '^502 keys'
has "and_the_end" 'state 1 is the last one in .*/states'

# shellcheck disable=SC2086
t "a_folder_of_one_node" sub srun $opts --ddict-persist=/dev/shm/states.%j sh -c '[ $SLURM_PROCID = 0 ] || exit 0; ddict put k v; ddict save --persist=1; echo code $?; ls /dev/shm/states.*; rmdir /dev/shm/states.*'
has "is_said" 'storage that all nodes share'
has "with_its_code" '^code 1$'
clean_after "nothing_is_left"
finish
