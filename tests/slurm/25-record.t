#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A batch job with three steps of other nodes and ranks on one dictionary: what they put, read, missed and deleted is what the record says, to the last
# one. `ddict report` shows it, from the job's folder and from elsewhere.
. "$(dirname "$0")/lib.sh"
need_nodes 3
limit=300
dir=$(sub mktemp -d /var/lib/ddict-devcluster/"$DEVCLUSTER_ID"/home/ddict-test/record.XXXXXX) || exit 1
trap 'rm -rf "$dir" "$out"' EXIT
three="$(IFS=,; echo "${nodes[*]:0:3}")"

# counts HOW RECORD < OUTPUT - compare what the ranks printed with the record; one line of what differs, or "equal"
counts() {
    python3 -c '
import json, sys
ranks = [json.loads(line) for line in sys.stdin if line.startswith("{\"puts\"")]
made = {k: sum(r[k] for r in ranks) for k in ("puts", "gets", "misses", "deletes")}
report = json.load(open(sys.argv[1]))
assert len(report["dictionaries"]) == 1, report
end = report["dictionaries"][0]["end"]
total, managers = end["total"], end["managers"]
kept = {"puts": total["puts"], "gets": total["gets_local"] + total["gets_remote"], "misses": total["misses"], "deletes": total["deletes"]}
summed = {"puts": sum(m["puts"] for m in managers), "gets": sum(m["gets_local"] + m["gets_remote"] for m in managers),
          "misses": sum(m["misses"] for m in managers), "deletes": sum(m["deletes"] for m in managers)}
print("made", json.dumps(made), len(ranks), "ranks; keys", total["num_keys"])
print("equal" if made == kept == summed and len(ranks) == 12 else "the record: %s, its managers: %s" % (kept, summed))
' "$1"
}

# record HOW COUNT SUMMARY SBATCH-OPTION... - SUMMARY: what is said at the end of keys, puts and gets
record() {
    local how=$1 count=$2 summary=$3 job
    shift 3
    t "three_steps_use_the_dictionary_$how" sub sh -c "cd $dir && sbatch --parsable -W -w $three -N3 --ntasks-per-node=2 --mem=500M -o out.$how $* $tests/record.sh $how $count $tests"
    job=$(grep -Eo '^[0-9]+' "$out" | head -n 1)
    cp "$dir/out.$how" "$out"
    is "all_ranks_of_all_steps_report_$how" "$(grep -c '^{"puts"' "$out")" 12
    t "the_job_is_gone_$how" sub sh -c "while squeue -h -j $job | grep -q .; do sleep 0.2; done"
    t "the_record_is_read_$how" sub sh -c "cd $dir && ddict report --json $job >record.json && ddict report $job"
    has "it_was_ended_with_the_job_$how" "ended by a signal: end of the job"
    has "it_has_a_line_for_each_manager_$how" '^ +3 +[a-z0-9]+ .* 32\.0 MiB'
    has "it_says_whose_step_is_whose_$how" "steps: $job\.[0-9]+ \(managers\).* $job\.1 \(6 processes\), $job\.2 \(4 processes\), $job\.3 \(2 processes\)"
    counts "$dir/record.json" <"$dir/out.$how" >"$out"
    is "it_counts_what_the_steps_counted_$how" "$(tail -n 1 "$out")" equal
    sed 's/^/# /' "$out"
    t "it_is_found_from_elsewhere_$how" sub sh -c "cd / && ddict report $job"
    is "it_is_the_user_s_alone_$how" "$(stat -c '%a %U' "$dir/ddict-$job.jsonl")" "600 $(stat -c %U "$dir")"
    is "the_user_is_told_in_one_line_$how" "$(grep -c "^ddict: 4 managers on 3 nodes, .* $summary" "$dir/out.$how")" 1
    t "the_newest_is_this_$how" sub sh -c "cd $dir && ddict report | grep -q 'job $job, all steps: 4 managers on 3 nodes'"
}

# The managers of both nodes are killed in the middle of puts, reads and waits: nobody notices, and record, report and statistics have it.
t "a_folder_for_the_next_record_is_made" sub mkdir "$dir/lives"
t "a_job_goes_on_when_its_managers_are_killed" sub sh -c "cd $dir/lives && srun -w ${nodes[0]},${nodes[1]} -N2 -n2 --mem=300M --ddict-managers=2 --ddict-mem=64M python3 $tests/lives.py"
is "no_rank_has_had_an_error" "$(grep -c '^rank [01]: no error, .* 2 deaths$' "$out")" 2
is "srun_says_each_death_in_one_line" "$(grep -cE 'ddict: manager [01] on node .* died \(signal 9\) and was started again within [0-9]+ ms$' "$out")" 2
t "its_record_is_read" sub sh -c "cd $dir/lives && ddict report --json >report.json && ddict report"
is "the_report_shows_each_death" "$(grep -cE 'manager [01] on .* restart: manager [01] on node .* died \(signal 9\) and was started again within [0-9]+ ms$' "$out")" 2
is "and_its_figures_count_it" "$(grep -cE '^ *manager [01] died and was started again over its memory, 1 time$' "$out")" 2
is "and_so_does_the_record" "$(python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))["dictionaries"][0]
print([m["restarts"] for m in d["end"]["managers"]], d["end"]["total"]["restarts"], d["end"]["reason"] in ("drained", "signal"), sorted((e["event"], e["manager"], e["count"]) for e in d["events"]))' \
    "$dir/lives/report.json" 2>&1)" "[1, 1] 2 True [('restart', 0, 1), ('restart', 1, 1)]"

# A job that is requeued would wait for two minutes: the others run meanwhile, and then it is told to begin.
t "a_job_for_requeue_is_accepted" sub sh -c "cd $dir && sbatch --parsable -w ${nodes[0]} -N1 -n1 --mem=200M -o again.out --requeue --ddict-mem=32M <<'END'
#!/bin/sh
ddict put k v && echo fine
test \"\${SLURM_RESTART_COUNT-0}\" != 0 || { scontrol requeue \$SLURM_JOB_ID; sleep 60; }
END
"
again=$(grep -Eo '^[0-9]+' "$out" | head -n 1)

record by_hand 10000 "9,600 keys, .* 11,000 puts, 29,200 gets"
record by_sbatch 50000 "48,000 keys, .* 55,000 puts, 146,000 gets" --ddict-managers=4 --ddict-mem=128M

# It has two dictionaries in one record; the second says so.
t "the_requeued_job_ran_twice" sub sh -c "cd $dir && while reason=\$(squeue -h -j $again -o %r) && [ -n \"\$reason\" ]; do
        [ \"\$reason\" != BeginTime ] || { sleep 1.2; scontrol update jobid=$again starttime=now; }; sleep 0.3; done; ddict report --json $again >again.json &&
    ddict report $again"
is "both_are_in_its_record" "$(grep -cE '^job [0-9]+, all steps: 1 manager on 1 node' "$out")" 2
has "the_second_is_told_as_requeued" 'requeued 1 time'
is "each_has_one_put_and_an_end" "$(python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))["dictionaries"]
print([(x["start"]["restarts"], x["end"]["reason"], x["end"]["total"]["puts"]) for x in d], d[0]["dict"] != d[1]["dict"])' "$dir/again.json" 2>&1)" \
    "[(0, 'signal', 1), (1, 'signal', 1)] True"

# The site's folder for records.
trap 'site_conf_end; rm -rf "$dir" "$out"' EXIT
mkdir -m 777 "$dir/site"
site_conf "record_dir=$dir/site/%j"
t "a_job_writes_into_the_site_s_folder" sub sh -c "cd $dir && id=\$(sbatch --parsable -N1 --mem=200M -o site.out --wrap 'mkdir $dir/site/\$SLURM_JOB_ID; eval \"\$(ddict up --mem=32M)\"; ddict put k v') &&
    while squeue -h -j \$id | grep -q .; do sleep 0.3; done && ls $dir/site/\$id && test ! -e ddict-\$id.jsonl && ddict report \$id"
has "its_record_is_found_there" '^job [0-9]+, all steps: 1 manager'
clean_after "nothing_is_left"
finish
