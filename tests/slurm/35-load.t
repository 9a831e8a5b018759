#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `ddict load` and --ddict-load on a real Slurm: all nodes read, before the first task starts; errors, ^C and the time limit end it with a sentence, and nothing remains.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need_nodes 3
limit=120

rm -rf load.dir && mkdir load.dir && cd load.dir || exit 1
trap 'rm -f "$out"; cd /; rm -rf "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/home/ddict-test/load.dir"' EXIT
python3 - <<'END' || exit 1
import io, os, tarfile
os.mkdir("tree")
for c in "ab":
    os.mkdir("tree/" + c)
    for i in range(20):
        open("tree/%s/%d" % (c, i), "wb").write(b"%s %d\n" % (c.encode(), i) * 100)
with tarfile.open("big.tar", "w") as t:
    for i in range(900):
        info = tarfile.TarInfo("c%d/%04d" % (i % 3, i))
        info.size = 100000
        t.addfile(info, io.BytesIO(b"%04d" % i * 25000))
data = open("big.tar", "rb").read()
open("cut.tar", "wb").write(data[:40000000])
END
cat >job.sh <<'END'
#!/bin/bash
ddict ls --sets --json
srun -N3 sh -c 'ddict get b/7 | head -n 1 | sed "s/^/$SLURM_PROCID: /"'
END
chmod -R a+rX . && chmod 755 job.sh && chown -R 59300:59300 . 2>/dev/null

# A reader that is started late may find nothing left: again until each has read some.
t "one task loads" sub srun -N3 --ddict-mem=300M sh -c '[ $SLURM_PROCID = 0 ] || exec ddict get --wait 60 done
for i in 1 2 3 4 5 6 7 8; do
    ddict load --json --threads 1 --replace big.tar >summary.json || break
    if grep "\"units\":\[[1-9][0-9]*,[1-9][0-9]*,[1-9][0-9]*\]" summary.json; then echo "try $i"; break; fi
done
ddict get c1/0007 | head -c 8; echo; ddict load big.tar; ddict load --prefix=t/ --set=t tree; ddict put done 1'
has "by readers on all nodes" '"items":900,.*"workers":3,.*"units":\[[1-9][0-9]*,[1-9][0-9]*,[1-9][0-9]*\]'
summary=$(python3 -c 'import json
s = json.load(open("summary.json"))
rate = s["bytes"] / 1e6 / s["seconds"] / s["nodes"]
print(s["set"], s["kind"], s["items"], s["bytes"], s["nodes"], sum(s["units"]), 0.99 < s["mb_per_s_node"] / rate < 1.01, s["already"], s["errors"])')
is "the summary has what was read, and how fast" "$summary" "big tar 900 90000000 3 6 True False []"
has "also as a sentence" '^t: 40 items, 17\.6 KiB \([0-9]+ bytes\) in [0-9.]+ s, [0-9.]+ MB/s on each of 3 nodes, 2 classes$'
has "every byte of a member is there" '^00070007$'
has "and a second time it is known" 'big is loaded already: 900 items'
t "all ranks call it from Python" sub srun -N3 --ddict-mem=300M python3 -c "
import ddict
s = ddict.load('tree', prefix='t/')
print(s.name, len(s), s.classes, s[25][:4], sum(s.labels))"
is "and each has the set" "$(grep -c "^t 40 \['a', 'b'\] b'b 13' 20$" "$out")" 3

t "--ddict-load loads before the tasks start" sub srun -N3 --ddict-mem=300M --ddict-load=tree --ddict-load=big.tar sh -c 'ddict ls --sets | grep -c "^big.* 900 "'
is "on all nodes" "$(grep -cx 1 "$out")" 3
has "and says what it loaded" 'ddict: loaded big: 900 items, 85\.8 MiB in [0-9.]+ s, [0-9.]+ MB/s on each of 3 nodes'
t "and so does DDICT_LOAD" sub env DDICT_LOAD=tree srun -N3 --ddict-mem=300M sh -c 'ddict ls --sets | grep -c "^tree.* 40 "; [ -z "$DDICT_LOAD" ]'
t "sbatch --ddict-load is there before the script's first line" sub sbatch -W -N3 -o job.out --ddict-mem=300M --ddict-load=tree job.sh
cat job.out >"$out"
has "as a set" '"name":"tree".*"items":40'
is "for all its steps" "$(grep -c '^[012]: b 7$' "$out")" 3
t "ddict run in every task of a step" sub srun -N3 ddict run --mem=300M --load=tree -- sh -c 'ddict ls --sets | grep -c "^tree.* 40 "'
is "has it in each" "$(grep -cx 1 "$out")" 3

# refused SENTENCE REGEX WORDS... - srun fails with a line like this, and no task starts
refused() {
    local name=$1 line=$2
    shift 2
    sub srun -N3 "$@" echo STARTED >"$out" 2>&1 </dev/null
    [ $? != 0 ] || not_ok "$name: srun succeeded"
    has "$name" "$line"
    has_not "$name: no task starts" 'STARTED|Traceback|is lost|died'
}
refused "a source that is not there" 'ddict: .*/nothing.tar: No such file' --ddict-mem=300M --ddict-load=nothing.tar
refused "a source that is cut" 'ddict: .*/cut.tar: .*[Tt]runcated' --ddict-mem=300M --ddict-load=cut.tar
refused "one that does not fit, with both figures" 'big.tar needs 8[0-9]\.[0-9] MiB at the least, and the dictionary has .* MiB free of its 60.0 MiB' --ddict-mem=60M --ddict-load=big.tar
refused "an option without a dictionary" '--ddict-load=tree: also ask for a dictionary' --ddict-load=tree
refused "an empty one" '--ddict-load=: want' --ddict-mem=300M --ddict-load=
clean_after "nothing remains of those"

# Members of one name, so that it takes long and little memory.
python3 - <<'END'
import gzip, tarfile
info = tarfile.TarInfo("same/name")
with gzip.open("long.tgz", "wb", 1) as f:
    for i in range(3000):
        f.write(info.tobuf() * 1000)
END
chmod a+r long.tgz
loads='srun=$!; for i in $(seq 600); do pgrep -f "ddict-load .*--chdir $PWD -- long.tgz" >/dev/null && break; sleep 0.2; done; sleep 1'
began=$SECONDS
sub bash -c 'srun -N3 --ddict-mem=600M --ddict-load=long.tgz echo STARTED & '"$loads"'; kill -INT $srun; wait $srun' >"$out" 2>&1 </dev/null
has_not "^C while it loads: no task starts" 'STARTED'
has "and srun says so" 'interrupted before all data was in the dictionary'
[ $((SECONDS - began)) -lt 60 ] && ok "and ends" || not_ok "it ends only after $((SECONDS - began)) s"
clean_after "nothing remains after ^C"
sub bash -c 'srun -N3 --ddict-mem=600M --job-name=ending --ddict-load=long.tgz echo STARTED & '"$loads"'; scancel --name=ending; wait $srun' >"$out" 2>&1 </dev/null
has "a job that ends while it loads says so" 'ddict: the job, or the dictionary, was ended before all data was in it'
has_not "and starts no task" 'STARTED|without a word'
t "a load that was stopped" sub srun -N3 --ddict-mem=600M sh -c '[ $SLURM_PROCID = 0 ] || exec ddict get --wait 60 done
timeout -s INT 2 ddict load -q long.tgz; echo "code $?"; ddict load --json big.tar; ddict ls --sets; ddict put done 1'
has "says so" 'ddict load: ended by a signal'
has "and others go on" '"items":900'
clean_after "nothing remains of it"
finish
