#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `ddict save` and `ddict restore` of a dictionary of three nodes: each writes its own, and what comes back is on other nodes and managers. --ddict-save and --ddict-restore do so at the end and
# the beginning of jobs, however they end; what could not be saved is said.
. "$(dirname "$0")/lib.sh"
need_nodes 3
home=$PWD
trap 'rm -rf "$out" "$home"/saved* "$home"/files' EXIT
limit=120
opts="--ddict-mem=192M --ddict-record=none"

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

# Storage that the nodes do not share: said, and nothing is left of it. The task writes to a file: srun 22.05 now and then cuts off
# what a task says last.
t "a_folder_of_one_node" sub sh -c "! srun -N3 -n3 $opts sh -c '$first exec >$home/saved3.out 2>&1; ddict put k v; ddict save /dev/shm/saved3; rc=\$?; echo code \$rc; ls -A /dev/shm; exit \$rc'; rc=\$?
    cat $home/saved3.out; exit \$rc"
has "is_said_with_its_node" 'storage that all nodes share'
has "with_its_code" '^code 1$'
has_not "and_removed" '^saved3'

# --ddict-save and --ddict-restore. srun returns when all is saved.
small="--overcommit --ddict-mem=48M --ddict-record=none"
# shellcheck disable=SC2016
t "a_step_is_saved_at_its_end" sub srun -N3 -n3 $small --ddict-save=saved.%j.step sh -c 'ddict put "s/$SLURM_PROCID" x'
has "and_says_so" 'saved 3 items, .*/saved\.[0-9]+\.step'
mv "$home"/saved.*.step "$home/saved.step"
# shellcheck disable=SC2016
t "the_next_one_begins_with_it" sub srun -N2 -n2 $small --ddict-managers=5 --ddict-restore=-saved.none,saved.step --ddict-save=s/:saved.files sh -c 'ddict get s/2; ddict put "s/$SLURM_PROCID" "y$SLURM_PROCID"; ddict put "n/$SLURM_PROCID" z'
has "all_of_it" '^xx?'
is "and_leaves_files" "$(cd "$home/saved.files" && grep -r . | sort | xargs)" "s/0:y0 s/1:y1 s/2:x"
t "a_folder_that_cannot_be_written" sh -c '! "$0" "$@"' "$devcluster" run -- srun -N3 -n3 $small --ddict-save=/proc/saved echo STARTED
has "is_told_with_its_node" 'ddict: cannot save to /proc/saved on node .*: No such file'
has_not "before_a_task_starts" STARTED
t "an_empty_one" sh -c '! "$0" "$@"' "$devcluster" run -- srun -N3 -n3 $small --ddict-save=s/: echo STARTED
has "is_refused" 'ddict-save=s/:: want'

printf '#!/bin/sh\nsrun -N3 -n3 --overlap sh -c "ddict put b/\\$SLURM_PROCID 1"\n[ "$1" = end ] || sleep 600\n' >"$home/saved.job.sh" && chmod 755 "$home/saved.job.sh"
# shellcheck disable=SC2086
t "a_batch_script_that_ends" sub sbatch -W -N3 -o "$home/saved.end.out" $small --ddict-save=saved.end "$home/saved.job.sh" end
cat "$home/saved.end.out" >"$out"
has "has_saved_all" 'saved 3 items'
# shellcheck disable=SC2086
job=$(sub sbatch --parsable -N3 -o "$home/saved.cancel.out" $small --ddict-save=saved.cancel "$home/saved.job.sh")
for _ in $(seq $((150 * slow))); do sub srun --jobid="$job" --overlap -N1 -n1 ddict get b/2 >/dev/null 2>&1 && break; sleep 0.2; done
sub scancel "$job"

t "a_step_that_is_interrupted" sub bash -c "srun -N3 -n3 $small --ddict-save=$home/saved.int sh -c 'ddict put i/\$SLURM_PROCID 1; echo put; sleep 600' >$home/saved.int.out 2>&1 & pid=\$!
    for i in \$(seq $((300 * slow))); do [ \"\$(grep -c ^put $home/saved.int.out)\" = 3 ] && break; sleep 0.2; done; for i in 1 2 3; do kill -INT \$pid; sleep 0.2; done; wait \$pid; cat $home/saved.int.out"
has "is_saved" 'saved 3 items'

cat >"$home/saved.own" <<'SCRIPT' # the ddictd of this node: it has the node's network, and our job's name
#!/bin/sh
for p in $(pgrep -f "^[^ ]*ddictd --name [0-9]+[.]$SLURM_JOB_ID[.]"); do
    [ "$(readlink /proc/$p/ns/net)" != "$(readlink /proc/self/ns/net)" ] || echo $p
done
SCRIPT
chmod 755 "$home/saved.own"
t "a_node_whose_ddictd_is_killed" sub bash -c "srun -N3 -n3 $small --ddict-save=$home/saved.lost sh -c 'ddict put i/\$SLURM_PROCID 1; [ \$SLURM_PROCID != 1 ] || kill -9 \$($home/saved.own); sleep 3' || true"
has "is_said" 'NOT ALL WAS SAVED to .*saved.lost: the dictionary was lost'

# Nobody of it is left to say so: who started it does, and the exit code.
t "an_only_node_whose_ddictd_is_killed" sub bash -c "srun -N1 -n1 $small --ddict-save=$home/saved.lost1 sh -c 'ddict put i 1; kill -9 \$($home/saved.own); sleep 1; exit 0'; echo code \$?"
has "is_said_too" 'NOT ALL WAS SAVED to .*saved.lost1: '
has "and_told_by_the_exit_code" '^code 1$'
t "a_program_s_own_exit_code_stays" sub bash -c "srun -N1 -n1 $small --ddict-save=$home/saved.lost2 sh -c 'ddict put i 1; kill -9 \$($home/saved.own); sleep 1; exit 7'; echo code \$?"
has "as_it_is" '^code 7$'
t "and_a_good_end_is_one" sub bash -c "srun -N1 -n1 $small --ddict-save=$home/saved.good sh -c 'ddict put i 1'; echo code \$?"
has "with_code_0" '^code 0$'
t "ddict_run_says_it" sub bash -c "srun -N1 -n1 --mem=200M ddict run --mem=48M --save=$home/saved.lost3 -- sh -c 'ddict put i 1; kill -9 \$(pgrep -f \"^[^ ]*ddictd --name \$DDICT_NAME \"); sleep 1'; echo code \$?"
has "too" 'NOT ALL WAS SAVED to .*saved.lost3: '
has "with_its_code" '^code 1$'

for _ in $(seq $((100 * slow))); do [ -e "$home/saved.cancel/manifest.json" ] && break; sleep 0.2; done
# shellcheck disable=SC2086
t "a_job_that_was_cancelled_is_there" sub srun -N1 -n1 $small --ddict-restore=saved.cancel ddict ls --prefix b/
is "with_all_that_it_had" "$(grep -c "^'b/" "$out")" 3
clean_after "nothing_is_left"
finish
