#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The examples of contrib/examples, small, on two nodes. (MNIST: 56-torch-data.t)
. "$(dirname "$0")/lib.sh"
need_nodes 2
limit=240
examples=$tests/../../contrib/examples
sub python3 -c 'import ddict, numpy, torch' 2>/dev/null || { echo "no Python binding, numpy or torch is installed"; exit 77; }
trap 'rm -rf "$PWD/examples"; rm -f "$out"' EXIT
rm -rf examples && cp -r "$examples" examples && chmod -R a+rwX examples || exit 1
on_two="srun -N2 --ntasks-per-node=1 --ddict-managers=4 --ddict-mem=96M --ddict-log=none"

# --- dna ---
t "sequences_are_generated" sub sh -c 'cd examples/dna && python3 generate.py --size 0.001 && wc -lc <seq0.001gb.txt'
has "as_many_and_as_long_as_dragons" '^ *1048 +1088355$'
t "doc2vec_trains_on_two_nodes" sub sh -c "cd examples/dna && $on_two python3 doc2vec.py --file-name seq0.001gb.txt --max-batches 25 --num-workers 2 --read-only"
has "the_load_is_timed" '^DDict_Timer [0-9.]+$'
is "four_managers_say_what_they_hold" "$(grep -c "^{'manager_id': [0-3], .*'num_keys': [0-9]" "$out")" 4
has "letters" '^ACGTU$'
has "an_epoch_is_timed" '^Time taken for epoch:$'
has "what_was_trained_is_said" '^100 of 1048 sequences read and trained, [0-9.]+ a second'
has "times" '^(Real|User|System) time: [0-9.]+$'
t "a_table_is_made" sub sh -c "cd examples/dna && python3 table.py --sizes 0.001 --workers 0 --batches 4,8 --max-batches 5 -- $on_two"
is "of_two_lines" "$(grep -cE '^\| 0.001 \| 0 \| (4|8) \|' "$out")" 2
t "a_sequence_that_is_none_ends_it" sub sh -c "cd examples/dna && echo 'ATCGN,design_id_1' >bad.txt && ! $on_two python3 doc2vec.py --file-name bad.txt"
has "and_is_shown" 'other letters than'

clean_after nothing_is_left
finish
