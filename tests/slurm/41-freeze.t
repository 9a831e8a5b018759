#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two nodes, two ranks a node: frozen by one rank the dictionary is read-only for all, the second reader of a node asks nobody, and after unfreeze every put is seen
# everywhere. A step may end while it is frozen; a manager that dies meanwhile, and is not started again, ends it as ever.
. "$(dirname "$0")/lib.sh"
limit=120
dir=$(sub mktemp -d "$PWD/freeze.XXXXXX") || exit 1
trap 'rm -rf "$dir" "$out"' EXIT

t "a_step_freezes_reads_unfreezes_and_writes" sub sh -c "cd $dir && srun -N2 --ntasks-per-node=2 --ddict-managers=2 --ddict-mem=128M python3 $tests/freeze.py whole"
is "all_four_ranks_read_all" "$(grep -c 'read all, frozen and not' "$out")" 4
has "second_readers_have_the_values_in_place" "second readers had 600 values in place"
t "the_record_is_read" sub sh -c "cd $dir && ddict report --json ddict-*.jsonl | python3 -c '
import json, sys
total = json.load(sys.stdin)[\"dictionaries\"][0][\"end\"][\"total\"]
print(\"frozen %d, hits %s\" % (total[\"frozen\"], total[\"cache_hits\"] >= 600))'"
has "it_says_that_the_step_ended_frozen" "frozen 1, hits True"
clean_after "nothing_is_left_of_a_step_that_ended_frozen"

t "a_manager_is_killed_while_frozen" sub sh -c "cd $dir && DDICT_RESTARTS=0 srun -N2 --ntasks-per-node=2 --ddict-managers=2 --ddict-mem=128M python3 $tests/freeze.py killed || test \$? -gt 0"
is "every_rank_is_told_in_time_and_keeps_its_view" "$(grep -c 'was told after less than 10 s: .*\(died\|gone\|lost\|ended\)' "$out")" 4
clean_after "nothing_is_left_of_a_lost_one"
finish
