#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --ddict-persist: states by number of a dictionary on two nodes, each written and read by all nodes; the next job goes back to one, and another only reads.
. "$(dirname "$0")/lib.sh"
need_nodes 2
home=$PWD
trap 'rm -rf "$out" "$home"/{states,advance,meeting}*' EXIT
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

# Nobody unfreezes it, nor writes while it is restored: what others put is refused at each moment of ten restores.
# shellcheck disable=SC2086
t "nobody_writes_while_it_is_restored" sub srun $opts --ddict-persist="$home/states,read-only" python3 -c "import ddict, os, sys, time
d = ddict.attach()
over = '$home/states.over'
if os.environ['SLURM_PROCID'] != '0':
    refused = other = 0
    while not os.path.exists(over):
        for call in (lambda: d.put_many((f'mine/{i}', i) for i in range(20)), lambda: d.pop('k/1'), d.unfreeze):
            try:
                call()
                other += 1
            except ddict.FrozenError:
                refused += 1
            except KeyError:
                pass
    print('refused', refused > 100, 'done', other)
    sys.exit()
for i in range(10):
    d.restore(1)
    assert len(d) == 502 and d['k/9'] == bytes([1]) * 9, len(d)
open(over, 'w').close()"
has "on_no_node" '^refused True done 0$'

# Four processes go from checkpoint to checkpoint at once: one of them saves each state.
cp "$tests/../python/window_advance.py" "$home/advance.py"
mkdir -m 777 "$home/meeting" "$home/meeting2"
advance() { # OPTIONS OF srun, then what is run
    # shellcheck disable=SC2016
    sub srun -N2 -n4 --ddict-managers=2 --ddict-mem=128M --ddict-record=none --ddict-working-set=2 "$@"
}
cat >"$home/advance.command" <<END
#!/bin/bash
"$(sub sh -c 'command -v ddict')" "\$@"
rc=\$?
echo "\$* code \$rc" >>"$home/advance.log"
exit \$rc
END
chmod 755 "$home/advance.command"
install -m 666 /dev/null "$home/advance.log"
# shellcheck disable=SC2016
t "several_advance_at_once" advance --ddict-persist="$home/states2,freq=2,count=2" --export="ALL,DDICT_COMMAND=$home/advance.command" \
    sh -c 'exec python3 advance.py p$SLURM_PROCID 0 9 meeting p0 p1 p2 p3'
is "without_a_failure" "$(grep -c '^p[0-3] failed 0$' "$out")" 4
is "and_one_of_them_saves_each_state" "$(sed -n 's/.*--persist=\([0-9]*\) .* code 0$/\1/p' "$home/advance.log" | sort | xargs)" "0 2 4 6"
is "of_which_the_newest_stay" "$(ls "$home/states2" | xargs)" "4 6"
t "all_of_them_whole" sub ddict states "$home/states2"
is "and_by_both_nodes" "$(find "$home/states2" -name '*.part' -printf '%P\n' | sed 's/-.*//' | sort -u | xargs)" "4/0 4/1 6/0 6/1"

cat >"$home/advance.kill" <<END
import os, signal
killed = set()
while len(killed) < 3 and not os.path.exists("meeting2/over"):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().decode().split("\\0")
            if words[1:2] == ["save"] and os.environ["DDICT_NAME"] in words and any(w.startswith("--turn=") for w in words) and pid not in killed:
                os.kill(int(pid), signal.SIGKILL)
                killed.add(pid)
        except (OSError, UnicodeDecodeError):
            pass
END
# Savers are killed while the others wait: another one does it, and no state is half.
# shellcheck disable=SC2016
t "savers_are_killed" advance --ddict-persist="$home/states3,freq=1" sh -c '
    [ $SLURM_LOCALID != 0 ] || python3 advance.kill &
    python3 advance.py p$SLURM_PROCID 0 6 meeting2 p0 p1 p2 p3
    rc=$?
    touch meeting2/over
    wait
    exit $rc'
has "and_who_started_them_were_told" '^p[0-3] failed [1-9]'
is "every_state_is_there" "$(ls "$home/states3" | xargs)" "0 1 2 3"
t "and_whole" sub ddict states --json "$home/states3"
has "to_the_newest" '"state":3,"path":"[^"]*","damaged":false,.*"nodes":2'
# shellcheck disable=SC2086
t "and_is_restored" sub srun $opts --ddict-persist="$home/states3" python3 -c "import ddict, os, sys
if os.environ['SLURM_PROCID'] != '0': sys.exit()
d = ddict.attach()
for i in (3, 2, 1, 0):
    d.restore(i)
    assert {f'p{r}': d[f'p{r}'] for r in range(4)} == {f'p{r}': i for r in range(4)}, i
    assert all(d[f'p{r}/{i}'] == bytes([i]) * (1 << 20) for r in range(4)), i"

# shellcheck disable=SC2086
t "a_folder_of_one_node" sub srun $opts --ddict-persist=/dev/shm/states.%j sh -c '[ $SLURM_PROCID = 0 ] || exit 0; ddict put k v; ddict save --persist=1; echo code $?; ls /dev/shm/states.*; rmdir /dev/shm/states.*'
has "is_said" 'storage that all nodes share'
has "with_its_code" '^code 1$'
clean_after "nothing_is_left"
finish
