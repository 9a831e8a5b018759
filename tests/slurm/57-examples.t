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
on_two="srun -N2 --ntasks-per-node=1 --ddict-managers=4 --ddict-mem=96M --ddict-record=none"

# --- dna ---
t "sequences_are_generated" sub sh -c 'cd examples/dna && python3 generate.py --size 0.001 && wc -lc <seq0.001gb.txt'
has "as_many_and_as_long_as_dragons" '^ *1048 +1088355$'
t "doc2vec_trains_on_two_nodes" sub sh -c "cd examples/dna && $on_two python3 doc2vec.py --file-name seq0.001gb.txt --max-batches 25 --num-workers 2 --read-only"
has "the_load_is_timed" '^DDict_Timer [0-9.]+$'
is "four_managers_say_what_they_hold" "$(grep "^\[{'manager_id': 0, .*}\]$" "$out" | grep -o "'manager_id': [0-3], [^}]*'num_keys': [0-9]" | wc -l)" 4
has "letters" '^ACGTU$'
has "an_epoch_is_timed" '^Time taken for epoch:$'
has "what_was_trained_is_said" '^100 of 1048 sequences read and trained, [0-9.]+ a second'
has "times" '^(Real|User|System) time: [0-9.]+$'
t "without_a_file_sequences_are_made" sub sh -c "cd examples/dna && ddict run --managers=1 --mem=32M -- python3 doc2vec.py --seq-len 50 --input-size 120 --batch-size 8 --num-workers 0 --shuffle --pin-memory=False"
has "as_many_as_asked_for" '^120 of 120 sequences read and trained'
is "and_as_long" "$(awk -F, 'length($1) == 50 && $2 == "design_id_" NR' examples/dna/sim_7.txt | wc -l)" 120
t "a_table_is_made" sub sh -c "cd examples/dna && python3 table.py --sizes 0.001 --workers 0 --batches 4,8 --max-batches 5 -- $on_two"
is "of_two_lines" "$(grep -cE '^\| 0.001 \| 0 \| (4|8) \|' "$out")" 2
t "a_sequence_that_is_none_ends_it" sub sh -c "cd examples/dna && echo 'ATCGN,design_id_1' >bad.txt && ! $on_two python3 doc2vec.py --file-name bad.txt"
has "and_is_shown" 'other letters than'

# --- imagenet: a tar of a tar for each class, all nodes load it at once ---
if sub python3 -c 'import PIL' 2>/dev/null; then
    t "images_are_made" sub sh -c 'cd examples/imagenet && python3 make_images.py --classes 3 --images 12 --width 80 --height 60 train.tar &&
        mkdir folder && tar -xf train.tar -C folder && cd folder && for t in *.tar; do mkdir "${t%.tar}" && tar -xf "$t" -C "${t%.tar}" && rm "$t" || exit 1; done'
    t "resnet_trains_from_the_tar" sub sh -c "cd examples/imagenet && $on_two sh -c 'python3 train.py train.tar --image-size 32 --batch-size 4 --workers 1 --epochs 2 --save net.pt &&
        { [ \$SLURM_PROCID != 0 ] || { ddict ls --sets; ddict ls --prefix \$PWD/train.tar/n00000001 --limit 2
        ddict get \$PWD/train.tar/n00000001/n00000001_7.JPEG -o one.jpg; }; }'"
    has "on_two_nodes" '^2 ranks on 2 nodes, 36 images of 3 classes from the dictionary'
    is "two_epochs_of_all_images" "$(grep -cE '^Epoch [01]: loss [0-9.]+, accuracy [0-9.]+%, (32|36) images in' "$out")" 2
    has "the_set_has_its_classes" '^/.*train.tar +tar +36 .* 3 '
    is "an_image_is_as_it_was" "$(cmp examples/imagenet/one.jpg examples/imagenet/folder/n00000001/n00000001_7.JPEG && echo same)" same
    t "and_from_files" sub sh -c "cd examples/imagenet && $on_two python3 train.py folder --files --image-size 32 --batch-size 4 --workers 1 --epochs 1 --read-only"
    has "as_many_are_read" '^Epoch 0: read (32|36) images in'
    t "both_are_compared" sub sh -c "cd examples/imagenet && $on_two python3 compare.py train.tar folder --rounds 1 --batch-size 4 --workers 0 --decode 2 --image-size 32"
    is "by_an_epoch_of_each" "$(grep -cE '^\| (dictionary|dictionary, frozen|files, (not )?in the page cache|memory) \| 36 \| [0-9.]+ \|' "$out")" 5
    # --- transfer: images from S3, the network from above, results in a folder while it runs ---
    cat >examples/transfer/both.sh <<'END'
srun -N2 --ntasks-per-node=1 --ddict-mem=96M --ddict-record=none --ddict-gpu-bind=rotate --ddict-results="$PWD/results" \
    python3 transfer.py s3://bucket/train --weights ../imagenet/net.pt --image-size 32 --batch-size 4 --workers 1 --epochs 2 &&
srun -N2 --ntasks-per-node=1 --ddict-mem=96M --ddict-record=none sh -c 'ddict load --json --prefix=i/ s3://bucket/train && ddict get "i/n00000001/a b+é&%=.txt" &&
    ddict get i/n00000002/n00000002_7.JPEG | cmp - ../imagenet/folder/n00000002/n00000002_7.JPEG && echo "$SLURM_PROCID: same"'
END
    # shellcheck disable=SC2016
    t "it_trains_from_a_bucket" sub env DDICT_TEST_MOTO="${DDICT_TEST_MOTO-}" sh -c 'cd examples/transfer && echo a name >"../imagenet/folder/n00000001/a b+é&%=.txt" &&
        python3 "$0" ../imagenet/folder train/ -- sh both.sh' "$tests/s3_folder.py"
    sed -n 's/^S3 by /note S3 by /p' "$out"
    has "with_the_weights_of_another_run" '^120 tensors of ../imagenet/net.pt, and a last layer of 3 classes to train'
    has "all_images_come" '^36 images of 3 classes from s3://bucket/train'
    has "by_two_ranks" '^2 ranks are done'
    is "ddict_load_takes_all_of_the_folder_on_two_nodes" "$(grep -c '"kind":"s3","items":37,' "$out") $(grep -c '^[01]: same' "$out") $(grep -cx 'a name' "$out")" "2 2 2"
    is "metrics_of_both_ranks_are_in_files" "$(wc -l examples/transfer/results/transfer/worker/[01].json | awk '$2 != "total" { print $1 }' | xargs)" "10 10"
    t "and_checkpoints" sub python3 -c "import torch
net = torch.load('examples/imagenet/net.pt')
for e in 0, 1:
    it = torch.load('examples/transfer/results/transfer/checkpoints/epoch-%d.pt' % e)
    print(len(it), *(k for k in net if not torch.equal(net[k], it[k]) and '.running_' not in k and 'num_batches' not in k))"
    is "of_both_epochs_whole_and_trained_in_the_last_layer_alone" "$(sort -u "$out")" "122 14.weight 14.bias"
    is "and_nothing_else" "$(find examples/transfer/results -type f | sed 's,.*/transfer/,,' | sort | xargs)" "checkpoints/epoch-0.pt checkpoints/epoch-1.pt worker/0.json worker/1.json"
    t "metrics_are_drawn" sub sh -c 'ddict results plot examples/transfer/results/transfer/worker | grep -c "<polyline\|<path"'
else
    echo "skipped imagenet: Pillow is not installed"
fi

clean_after nothing_is_left
finish
