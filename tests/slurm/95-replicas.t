#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --ddict-replicas=2: a node loses its power. The tasks of the others read all that was acknowledged, also by a task of the lost node, and go on, where the job may go on (srun -k). Without -k
# Slurm ends the job, and the record has which node it was. When there are two copies again another node may be lost.
. "$(dirname "$0")/lib.sh"
need_nodes 3
work=$(mktemp -d /var/tmp/ddict-replicas.XXXXXX) && chmod 777 "$work" || exit 1
trap 'down_soon_end; undrain; rm -rf "$work" "$out"' EXIT
home=$PWD
cat >"$work/task.py" <<'END'
"""Puts COUNT keys, notes each, and says "begun"; while the file `stop` is not there puts further ones; then reads all that all tasks have noted, and takes its queue to the end."""
import hashlib
import os
import sys
import time

import ddict

folder, rank, size = sys.argv[1], int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])


def value(key):
    return hashlib.shake_128(key.encode()).digest(1000)


d = ddict.attach()
notes = open("%s/notes.%d" % (folder, rank), "w", buffering=1)
n, longest = 0, 0.0


def put():
    global n, longest
    key, began = "key %d of %d" % (n, rank), time.monotonic()
    d[key] = value(key)
    notes.write(key + "\n")
    longest = max(longest, time.monotonic() - began)
    n += 1


try:
    while n < 300:
        put()
    print("begun %s" % os.environ["SLURM_JOB_ID"], flush=True)
    while not os.path.exists(folder + "/stop"):
        put()
        time.sleep(0.002)
    seen = 0
    for r in range(size):
        for line in open("%s/notes.%d" % (folder, r)):
            key = line.rstrip("\n")
            if line.endswith("\n"):
                if bytes(d[key]) != value(key):
                    sys.exit("rank %d: %s has other bytes" % (rank, key))
                seen += 1
    print("rank %d has read %d keys, its longest put took %d ms" % (rank, seen, longest * 1000), flush=True)
    open("%s/read.%d" % (folder, rank), "w").close()
except ddict.Error as e:
    print("rank %d is told: %s" % (rank, e), flush=True)
    open("%s/told.%d" % (folder, rank), "w").close()
    sys.exit(3)
END
begin() { # srun's OPTIONS: three tasks, one on each node; in the background, as $srun
    rm -f "$work"/stop "$work"/notes.* "$work"/read.* "$work"/told.*
    # shellcheck disable=SC2086
    limit=200 sub srun "$@" -N3 -n3 -w "${nodes[0]},${nodes[1]},${nodes[2]}" --mem=400M --ddict-managers=3 --ddict-mem=192M --ddict-replicas=2 \
        /usr/bin/python3 "$work/task.py" "$work" >"$out" 2>&1 </dev/null &
    srun=$!
    for _ in $(seq $((300 * slow))); do
        [ "$(grep -c '^begun ' "$out")" = 3 ] && break
        sleep 0.2
    done
    is "all_tasks_have_begun$row" "$(grep -c '^begun ' "$out")" 3
    job=$(awk '$1 == "begun" { print $2; exit }' "$out")
}
files() { # KIND - ranks of which there is one
    find "$work" -name "$1.*" | sed 's/.*\.//' | sort -n | paste -sd' '
}
until_files() { # KIND WANTED SECONDS
    local end=$((SECONDS + $3 * slow))
    until [ "$(files "$1")" = "$2" ] || [ $SECONDS -ge $end ]; do sleep 0.2; done
    is "$1_by_ranks_${2// /_}$row" "$(files "$1")" "$2"
}
grows() { # [RANK] - a task of a remaining node, of rank 0, puts more
    local was now rank=${1-0}
    was=$(wc -l <"$work/notes.$rank")
    sleep 2
    now=$(wc -l <"$work/notes.$rank")
    [ "$now" -gt "$was" ] && ok "puts_go_on$row" || not_ok "puts go on$row: $was, then $now"
}
record_has() { # SENTENCE PYTHON - true of `events`, those of the job's record
    t "$1" python3 -c 'import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
ends = [e for e in events if e["event"] == "job_end"]
assert len(ends) == 1, ends
assert eval(sys.argv[2]), "\n".join(json.dumps(e)[:400] for e in reversed(events))' "$home/ddict-$job.jsonl" "$2"
}

# Slurm finds out in 60 s and more: the dictionary long before.
row=_with_k
begin --no-kill
"$devcluster" poweroff 2
lost_at=$SECONDS
sleep $((8 * slow))
grows
has_not "nobody_was_told_of_an_error$row" 'is told'
touch "$work/stop"
until_files read "0 2" 60
echo "note all read $((SECONDS - lost_at)) s after the loss, of which 8 s were waited"
down_soon
wait $srun
has "rank_0_has_read_all$row" 'rank 0 has read [0-9]+ keys'
has "the_loss_is_said$row" "node ${nodes[1]} .*lost|lost.*node ${nodes[1]}"
record_has "the_record_has_the_lost_node_and_an_end$row" "'${nodes[1]}' in json.dumps([e for e in events if e['event'] != 'job_start'])"
rm -f "ddict-$job.jsonl"
down_soon_end
undrain
patience=100 clean_after "nothing_is_left$row"

# srun runs on the submit host. Node 0 of the dictionary decides for all: another one goes on with it.
row=_first_node
begin --no-kill
"$devcluster" poweroff 1
lost_at=$SECONDS
sleep $((8 * slow))
grows 1
has_not "nobody_was_told_of_an_error$row" 'is told'
if sub ddict stats --json --name "$(sub id -u).$job.0" >"$work/stats" 2>&1 && grep -q "\"node\":\"${nodes[1]}\"" "$work/stats"; then
    ok "a_verb_on_the_submit_host_reaches_another_node$row"
else
    not_ok "a verb on the submit host reaches another node$row: $(cut -c1-300 "$work/stats")"
fi
touch "$work/stop"
until_files read "1 2" 60
echo "note all read $((SECONDS - lost_at)) s after the loss, of which 8 s were waited"
down_soon
wait $srun
has "rank_1_has_read_all$row" 'rank 1 has read [0-9]+ keys'
has "the_loss_is_said$row" "node ${nodes[0]} is lost.* the dictionary goes on without it"
has_not "no_error_of_the_managers$row" 'the managers (ended early|did not end)'
has "the_summary_is_said$row" '3 managers on 3 nodes'
record_has "the_record_has_the_lost_node$row" "[e['node'] for e in events if e['event'] == 'node_lost'] == ['${nodes[0]}']"
record_has "the_record_has_one_start_and_an_end_by_another_node$row" "[e['event'] for e in events].count('start') == 1 and events[-1]['event'] == 'job_end' and events[-1]['writer'] in ('${nodes[1]}', '${nodes[2]}') and events[-1]['reason'] == 'drained' and events[-1]['total']['lost_managers'] == 0"
rm -f "ddict-$job.jsonl"
down_soon_end
undrain
patience=100 clean_after "nothing_is_left$row"

row=_without_k
down_soon
begin
"$devcluster" poweroff 2
sleep $((7 * slow))
grows # until Slurm finds out, all goes on
wait $srun
rc=$?
[ $rc -ne 0 ] && ok "the_step_has_failed$row" || not_ok "the step has failed$row"
is "nobody_has_read_it_to_the_end$row" "$(files read)" ''
record_has "the_record_says_which_node_was_lost$row" "'${nodes[1]}' in json.dumps([e for e in events if e['event'] != 'job_start'])"
rm -f "ddict-$job.jsonl"
down_soon_end
undrain
patience=100 clean_after "nothing_is_left$row"

row=_second_loss
begin --no-kill
"$devcluster" poweroff 2
sleep $((8 * slow))
grows
for _ in $(seq $((150 * slow))); do # of the two managers that node had a copy of
    [ "$(grep -c 'have a second copy again' "ddict-$job.jsonl")" -ge 2 ] && break
    sleep 0.2
done
is "there_are_two_copies_again$row" "$(grep -c 'have a second copy again' "ddict-$job.jsonl")" 2
"$devcluster" poweroff 3
sleep $((8 * slow))
grows
touch "$work/stop"
until_files read 0 60
down_soon
wait $srun
has "rank_0_has_read_all$row" 'rank 0 has read [0-9]+ keys'
record_has "the_record_has_both_nodes$row" "all(n in json.dumps([e for e in events if e['event'] != 'job_start']) for n in ('${nodes[1]}', '${nodes[2]}'))"
rm -f "ddict-$job.jsonl"
down_soon_end
undrain
patience=100 clean_after "nothing_is_left$row"
finish
