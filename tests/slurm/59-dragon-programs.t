#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The programs of contrib/examples/dragon, on two nodes by their run.sbatch: one of each kind that Dragon's documentation has.
. "$(dirname "$0")/lib.sh"
limit=240
prefix=$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/prefix")
trap 'rm -rf "$PWD/programs"; rm -f "$out"' EXIT
rm -rf programs && cp -r "$tests/../../contrib/examples/dragon" programs && chmod -R a+rwX programs || exit 1

# program NAME WORDS... - it in a batch job of two nodes; what it said is in $out
program() {
    local name=$1
    shift
    # shellcheck disable=SC2016
    t "${name}_runs" sub env PKG_CONFIG_PATH="$prefix/lib/pkgconfig" sh -c 'cd programs && sbatch -Q -W --overcommit -o batch.out run.sbatch "$@"; rc=$?; cat batch.out; exit $rc' - "$name.py" "$@"
    has_not "${name}_says_no_error" 'rror|CANCELLED|Traceback|Warning'
}
lines() { grep -cE -- "$1" "$out"; }

program mapping
has "its_dictionary_has_managers_on_both_nodes" '^nodes 2 managers 4$'
is "processes_and_those_of_a_group_end_well" "$(lines '^(samplers|readers) ended with \[0, 0, 0, 0\]$')" 2
has "all_have_counted" '^samples 400000 of 400000$'
is "they_are_on_both_nodes" "$(lines '^(hosts|readers) 2$')" 2
has "each_reads_what_another_has_put" '^means \[0, 1, 2, 3\]$'
has "managers_say_what_they_have" '^keys 17 in all, 17 by manager$'
is "each_by_a_line" "$(sed -nE 's/^manager [0-3] on ([^ ]+): [0-9]+ keys, [0-9]+ of 33[0-9]{6} bytes$/\1/p' "$out" | sort | uniq -c | awk '{ print $1 }' | xargs)" "2 2"

if sub sh -c 'command -v cc c++ pkg-config make' >/dev/null 2>&1; then
    program languages
    is "c_and_cpp_put_on_both_nodes" "$(sed -nE 's/^(c|c\+\+) [01] on ([^ ]+): \(40, 50\) float64, right True$/\1 \2/p' "$out" | sort -u | wc -l)" 4
    is "each_reads_the_others" "$(lines '^c\+\+ has read what c wrote: ([0-9.]+) of \1$')" 2
    has "and_counts" '^programs 4 of 4$'
else
    echo "skipped languages: no compiler"
fi

if sub python3 -c 'import numpy, torch' 2>/dev/null; then
    mkdir programs/data && python3 "$tests/ddp_data.py" programs/data "${DDICT_TEST_DATA-}" 3000 600 >"$out" && chmod -R a+rX programs/data || not_ok "there are images"
    program train --data data --epochs 3
    has "its_images_are_in_a_dictionary" '^images 2500 held out 500 managers 2$'
    is "each_of_two_ranks_trains_on_its_half" "$(lines '^rank [01] of 2 epoch [012]: 1250 images, loss [0-9.]+$')" 6
    has "on_both_nodes" '^hosts 2$'
    has "with_one_model" '^same weights True$'
    is "that_learns" "$(awk '$1 == "accuracy" { print ($2 > 0.7 ? "learns" : $2) }' "$out")" learns
else
    echo "skipped train: no numpy or torch"
fi

program checkpoints
has "producer_and_consumer_are_on_two_nodes" '^ended with \[0, 0\] on nodes \[0, 1\]$'
has "the_newest_step_is_there" '^newest checkpoint 7 mean 7\.0$'
has "and_the_one_before_with_what_is_persistent" '^the one before 6 mean 6\.0 size 64$'
has "the_first_is_retired" '^checkpoint 0 is retired$'
has "workers_roll_back" '^workers rolled back 4$'
has "and_go_on" '^average of 4000 samples near 0: True$'

program best
has "molecules_are_on_all_managers" '^molecules 2000 on managers 4$'
is "the_best_come_in_order" "$(grep -cE '^m[0-3]\.[0-9]+ -1[12]\.[0-9]{3}$' "$out"), $(sed -nE 's/^m[0-3]\.[0-9]+ -(.*)$/\1/p' "$out" | sort -rnc && echo sorted)" "10, sorted"
has "of_all_that_are_light_enough" '^the best True of [0-9]{3}$'

program copies
has "a_batch_is_put" '^batch 2000 2000 on 4 managers$'
has "persistent_values_are_put" '^persistent in a batch alone$'
has "a_broadcast_is_read_on_both_nodes" '^broadcast \[10000\.0, 10000\.0\]$'
has "a_clone_is_equal" '^clone True True$'
has "an_empty_one_is_filled" '^synchronized True 3996001$'
has "a_copy_has_a_name" '^copy another True$'
has "checkpoints_are_persisted" '^persisted \[0, 1, 2, 3, 5\]$'
has "and_read_in_turn" '^advanced \[\(1, 1\.0\), \(2, 2\.0\), \(3, 3\.0\)\] 3$'
has "by_who_may_only_read" '^read only$'
has "one_is_restored" '^restored 2 2 2\.0 \[0, 1, 2\]$'
has "from_where_it_goes_on" '^goes on at 3 \[0, 1, 2, 3\]$'
clean_after "nothing_is_left_of_the_programs"
finish
