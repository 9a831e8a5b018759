#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --ddict-load and --ddict-refill without a second copy of anything: a node loses its power, and the tasks of the others read the whole data set again, while what a program had put there is
# lost, by name.
. "$(dirname "$0")/lib.sh"
need_nodes 3
work=$(mktemp -d /var/tmp/ddict-refill.XXXXXX) && chmod 777 "$work" || exit 1
trap 'down_soon_end; undrain; rm -rf "$work" "$out"' EXIT
home=$PWD
python3 - "$work" <<'END'
import hashlib
import io
import sys
import tarfile

with tarfile.open(sys.argv[1] + "/set.tar", "w") as tar:
    for i in range(400):
        data = hashlib.shake_128(b"%d" % i).digest(1000 + 37 * i)
        info = tarfile.TarInfo("%d" % i)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
END
chmod 644 "$work/set.tar"
cat >"$work/task.py" <<'END'
"""Puts ten keys and says "begun"; when the file `stop` is there reads the data set, and all that the tasks have put."""
import hashlib
import os
import subprocess
import sys
import time

import ddict

folder, rank, size = sys.argv[1], int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
d = ddict.attach()
for i in range(30):
    d["own", rank, i] = i
print("begun %s %s" % (os.environ["SLURM_JOB_ID"], d.info["refill"]), flush=True)
while not os.path.exists(folder + "/stop"):
    time.sleep(0.05)
lost = read = 0
began = time.monotonic()
for i in range(400):
    if bytes(d["%d" % i]) != hashlib.shake_128(b"%d" % i).digest(1000 + 37 * i):
        sys.exit("rank %d: %d has other bytes" % (rank, i))
    read += 1
said = ""
for r in range(size):
    for i in range(30):
        try:
            if d["own", r, i] != i:
                sys.exit("rank %d: another value" % rank)
        except ddict.KeyLostError as e:
            lost += 1
            said = str(e)
print("rank %d has read %d items in %d ms; %d of %d others are lost: %s" % (rank, read, (time.monotonic() - began) * 1000, lost, size * 30, said), flush=True)
loads = subprocess.run(["ddict", "load", folder + "/set.tar"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
print("rank %d loads again: %d %s" % (rank, loads.returncode, (loads.stdout + loads.stderr).strip().replace("\n", "; ")), flush=True)
try:
    print("rank %d has saved what is there: lost %s" % (rank, ddict.save("%s/saved.%d" % (folder, rank), d=d)["lost"]), flush=True)
except (ddict.SaveError, KeyError) as e:
    print("rank %d cannot save: %r" % (rank, e), flush=True)
open("%s/read.%d" % (folder, rank), "w").close()
END
files() { # KIND - ranks of which there is one
    find "$work" -name "$1.*" | sed 's/.*\.//' | sort -n | paste -sd' '
}
lose() { # NODE OTHERS - its power goes off; the ranks on the others read all
    rm -rf "$work"/stop "$work"/read.* "$work"/saved.*
    down_soon
    # shellcheck disable=SC2086
    limit=200 sub srun --no-kill -N3 -n3 -w "${nodes[0]},${nodes[1]},${nodes[2]}" --mem=400M --ddict-managers=3 --ddict-mem=192M --ddict-refill --ddict-load="$work/set.tar" \
        /usr/bin/python3 "$work/task.py" "$work" >"$out" 2>&1 </dev/null &
    local srun=$! end
    for _ in $(seq $((300 * slow))); do
        [ "$(grep -c '^begun ' "$out")" = 3 ] && break
        sleep 0.2
    done
    is "all_tasks_have_begun$row" "$(grep -c '^begun .* True$' "$out")" 3
    job=$(awk '$1 == "begun" { print $2; exit }' "$out")
    "$devcluster" poweroff "$1"
    touch "$work/stop"
    end=$((SECONDS + 60 * slow))
    until [ "$(files read)" = "$2" ] || [ $SECONDS -ge $end ]; do sleep 0.2; done
    is "all_items_are_read_by_the_ranks_${2// /_}$row" "$(files read)" "$2"
    wait $srun
    has "each_item_is_what_it_was$row" "rank ${2%% *} has read 400 items"
    has "what_no_source_has_is_lost_by_name$row" "rank ${2%% *} .* [1-9][0-9]* of 90 others are lost: .*node ${nodes[$1 - 1]}"
    has "the_same_load_still_works$row" "rank ${2%% *} loads again: 0 .* is loaded already"
    has "what_is_there_is_saved_and_marked$row" "rank ${2%% *} has saved what is there: lost True"
    has "what_was_read_again_is_said$row" 'has read again [1-9][0-9]* items* of 1 data set in'
    t "the_record_has_it$row" grep -q '"node_lost".*'"${nodes[$1 - 1]}" "$home/ddict-$job.jsonl"
    sed -n 's/^rank/note rank/p' "$out"
    rm -f "ddict-$job.jsonl"
    down_soon_end
    undrain
    patience=100 clean_after "nothing_is_left$row"
}
row=_another_node
lose 2 "0 2"
row=_first_node
lose 1 "1 2"
finish
