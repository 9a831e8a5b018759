#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The examples of contrib/examples, small, on two nodes, submitted with the run.sbatch of each. (MNIST: 56-torch-data.t, the container: 55-ddp.t)
. "$(dirname "$0")/lib.sh"
need_nodes 2
limit=240
examples=$tests/../../contrib/examples
sub python3 -c 'import ddict, numpy, torch' 2>/dev/null || { echo "no Python binding, numpy or torch is installed"; exit 77; }
trap 'rm -rf "$PWD/examples"; rm -f "$out"' EXIT
rm -rf examples && cp -r "$examples" examples && chmod -R a+rwX examples || exit 1
# batch EXAMPLE WORDS... - its run.sbatch with these words, in a dictionary of a test's size
batch() {
    local dir=$1
    shift
    # shellcheck disable=SC2016
    sub sh -c 'cd "examples/$0" && sbatch -Q -W -o batch.out --ddict-managers=4 --ddict-mem=96M --ddict-record=none run.sbatch "$@"; rc=$?; cat batch.out; exit $rc' "$dir" "$@"
}
on_two="srun -N2 --ntasks-per-node=1 --ddict-managers=4 --ddict-mem=96M --ddict-record=none"

# --- dna ---
t "sequences_are_generated" sub sh -c 'cd examples/dna && python3 generate.py --size 0.001 && wc -lc <seq0.001gb.txt'
has "as_many_and_as_long_as_dragons" '^ *1048 +1088355$'
t "doc2vec_trains_on_two_nodes" batch dna 0.001 --max-batches 25 --num-workers 2 --read-only --dragon-dict-managers 2 --dragon-dict-mem 100000000
has "it_says_that_it_has_started" '^Started$'
has "and_with_what" '^Namespace\(.*num_workers=2.*read_only=True'
has "the_load_is_timed" '^DDict_Timer [0-9.]+$'
is "four_managers_say_what_they_hold" "$(grep '^\[DDictManagerStats(manager_id=0, .*)\]$' "$out" | grep -oE "manager_id=[0-3], hostname='[^']+', total_bytes=[0-9]+, total_used_bytes=[0-9]+, num_keys=[0-9]+, free_blocks=" | wc -l)" 4
is "letters_and_what_dragons_program_prints_behind_them" "$(sed -n '/^Building Vocabulary/,/^Time taken/p' "$out" | grep -v '^Vocabulary\|^Read alone' | xargs)" "Building Vocabulary GACTU 2 False 0 1048 0 Time taken for epoch:"
has "the_whole_is_timed_as_by_the_shell" '^real.*m[0-9.,]+s$'
has "an_epoch_is_timed" '^Time taken for epoch:$'
has "what_was_trained_is_said" '^100 of 1048 sequences read and trained, [0-9.]+ a second'
has "times" '^(Real|User|System) time: [0-9.]+$'
t "without_a_file_sequences_are_made" sub sh -c "cd examples/dna && ddict run --managers=1 --mem=32M -- python3 doc2vec.py --seq-len 50 --input-size 120 --batch-size 8 --num-workers 0 --shuffle --pin-memory=False"
has "as_many_as_asked_for" '^120 of 120 sequences read and trained'
is "and_as_long" "$(awk -F, 'length($1) == 50 && $2 == "design_id_" NR' examples/dna/sim_7.txt | wc -l)" 120
t "it_makes_a_dictionary_of_its_own_on_the_jobs_nodes" sub sh -c "cd examples/dna &&
    sbatch -Q -W -N2 --overcommit -o own.out --wrap 'exec python3 doc2vec.py --file-name seq0.001gb.txt --max-batches 2 --num-workers 0 --dragon-dict-managers 2 --dragon-dict-mem 100000000'; rc=\$?; cat own.out; exit \$rc"
has "whose_making_is_timed_too" '^DDict_Timer [0-9.]+$'
is "of_so_many_managers_on_both" "$(grep -oE "hostname='[^']+', total_bytes=49[0-9]{6}," "$out" | sort -u | wc -l)" 2
t "a_table_is_made" sub sh -c "cd examples/dna && cp seq0.001gb.txt seq0.125gb.txt && python3 table.py --sizes 0.125 --workers 0 --batches 4,8 --max-batches 5 -- $on_two"
is "of_two_lines" "$(grep -cE '^\| 0.125 \| 0 \| (4|8) \| 100663296 \|( [0-9.]+ \|){3} (20|40) of 1048 \|( [0-9.]+ \|){7}$' "$out")" 2
has "and_one_of_what_is_published" "^\\| 0.125, Dragon's \\| 2 \\| 4 \\| 17179869184 \\| 138.33 \\|.* 355.75 \\|"
is "with_as_many_columns_as_the_head" "$(grep '^|' "$out" | tr -cd '|\n' | sort -u | wc -l)" 1
t "a_sequence_that_is_none_ends_it" sub sh -c "cd examples/dna && echo 'ATCGN,design_id_1' >bad.txt && ! $on_two python3 doc2vec.py --file-name bad.txt"
has "and_is_shown" 'other letters than'

# --- imagenet: a tar of a tar for each class, all nodes load it at once ---
if sub python3 -c 'import PIL' 2>/dev/null; then
    t "images_are_made" sub sh -c 'cd examples/imagenet && python3 make_images.py --classes 3 --images 12 --val 9 --width 80 --height 60 train.tar &&
        mkdir folder && tar -xf train.tar -C folder && cd folder && for t in *.tar; do mkdir "${t%.tar}" && tar -xf "$t" -C "${t%.tar}" && rm "$t" || exit 1; done'
    t "resnet_trains_from_the_tar" batch imagenet train.tar --image-size 32 --batch-size 4 --workers 1 --epochs 2 --log-interval 2 --val val.tar --val-labels devkit
    has "on_two_nodes" '^2 ranks on 2 nodes, 36 images of 3 classes from the dictionary'
    is "two_epochs_of_all_images" "$(grep -cE '^Epoch [01]: loss [0-9.]+, accuracy [0-9.]+%, (32|36) images in' "$out")" 2
    is "the_loss_of_every_second_step_is_printed" "$(grep -oE '^Epoch \[./2\], Step \[./4\], Loss: [0-9.]+$' "$out" | cut -d, -f1,2 | xargs)" \
        "Epoch [1/2], Step [1/4] Epoch [1/2], Step [3/4] Epoch [2/2], Step [1/4] Epoch [2/2], Step [3/4]"
    is "each_validation_image_is_looked_at_once" "$(grep -cE '^Validation: loss [0-9.]+, top-1 [0-9.]+%, top-5 100.0%, 9 images$' "$out")" 2
    mv examples/imagenet/results-* examples/imagenet/results
    is "the_job_brings_back_what_it_wrote" "$(cd examples/imagenet/results && find . -maxdepth 1 | LC_ALL=C sort | xargs), $(grep -c '^Validation' examples/imagenet/results/train.log)" ". ./net.pt ./samples ./train.log, 2"
    mv examples/imagenet/results/net.pt examples/imagenet/net.pt
    is "and_samples_of_the_images" "$(cd examples/imagenet/results/samples && find . -type f | wc -l), $(cd examples/imagenet/results/samples && find . -type f -exec cmp {} ../../folder/{} \; 2>&1 | wc -l)" "20, 0"
    t "labels_are_found_in_each_form_of_the_devkit" sub python3 "$tests/devkit.py" examples/imagenet
    t "and_from_files" sub sh -c "cd examples/imagenet && $on_two python3 train.py folder --files --image-size 32 --batch-size 4 --workers 1 --epochs 1 --optimizer adam --read-only"
    has "as_many_are_read" '^Epoch 0: read (32|36) images in'
    t "adam_is_torchs" sub sh -c "cd examples/imagenet && python3 -c 'import argparse, torch, train
print(type(train.optimizer_of(argparse.Namespace(optimizer=\"adam\", lr=None), torch.nn.Linear(1, 1))).__name__)' | grep -x Adam"
    t "both_are_compared" sub sh -c "cd examples/imagenet && $on_two python3 compare.py train.tar folder --rounds 1 --batch-size 4 --workers 0 --decode 2 --image-size 32"
    is "by_an_epoch_of_each" "$(grep -cE '^\| (dictionary|dictionary, frozen|files, (not )?in the page cache|memory) \| 36 \| [0-9.]+ \|' "$out")" 5
    is "of_which_only_files_are_read_from_the_file_system" "$(awk -F' *[|] *' '/^\| (dictionary|files,|memory)/ && $3 == 36 { print ($9 > 0.9 ? "read" : $9 < 0.3 ? "not" : $9) }' "$out" | sort | uniq -c | xargs)" "3 not 2 read"
    # --- transfer: images from S3, the network from above, results in a folder while it runs ---
    cat >examples/transfer/both.sh <<'END'
sbatch -Q -W -o batch.out --ddict-mem=96M --ddict-record=none run.sbatch bucket train --weights ../imagenet/net.pt --image-size 32 --batch-size 4 --workers 1 --epochs 2 \
    --results-to s3://bucket/out && cat batch.out &&
sbatch -Q -W -o batch.out --ddict-mem=96M --ddict-record=none run.sbatch s3://bucket/train --run dask --dask --weights ../imagenet/net.pt --train-all --image-size 32 --batch-size 8 --workers 0 --epochs 1 && cat batch.out &&
srun -N2 --ntasks-per-node=1 --ddict-mem=96M --ddict-record=none sh -c 'ddict load --json --prefix=i/ s3://bucket/train && ddict get "i/n00000001/a b+é&%=.txt" &&
    ddict get i/n00000002/n00000002_7.JPEG | cmp - ../imagenet/folder/n00000002/n00000002_7.JPEG && echo "$SLURM_PROCID: same"
    [ $SLURM_PROCID = 1 ] || { ddict load --quiet --prefix=out/ s3://bucket/out && ddict get --prefix out/ -o from-s3; }'
rc=$?; [ $rc = 0 ] || cat batch.out; exit $rc
END
    # shellcheck disable=SC2016
    t "it_trains_from_a_bucket" sub env DDICT_TEST_MOTO="${DDICT_TEST_MOTO-}" sh -c 'cd examples/transfer && echo a name >"../imagenet/folder/n00000001/a b+é&%=.txt" &&
        python3 "$0" ../imagenet/folder train/ -- sh both.sh' "$tests/s3_folder.py"
    sed -n 's/^S3 by /note S3 by /p' "$out"
    has "with_the_weights_of_another_run" '^120 tensors of ../imagenet/net.pt, and a last layer of 3 classes to train'
    has "all_images_come" '^36 images of 3 classes from s3://bucket/train'
    has "by_two_ranks" '^2 ranks are done'
    is "ddict_load_takes_all_of_the_folder_on_two_nodes" "$(grep -c '"kind":"s3","items":37,' "$out") $(grep -c '^[01]: same' "$out") $(grep -cx 'a name' "$out")" "2 2 2"
    is "metrics_of_both_ranks_are_in_files" "$(wc -l examples/transfer/results/transfer/worker/[01].json | awk '$2 != "total" { print $1 }' | xargs)" "8 8"
    is "and_those_of_the_images_that_are_not_trained_on" "$(grep -c '"count": 7, "loss": [0-9.]*, "accuracy"' examples/transfer/results/transfer/validation.json)" 2
    t "and_checkpoints" sub python3 -c "import torch
net = torch.load('examples/imagenet/net.pt')
for e in 0, 1:
    it = torch.load('examples/transfer/results/transfer/checkpoints/epoch-%d.pt' % e)
    print(len(it), *(k for k in net if not torch.equal(net[k], it[k]) and '.running_' not in k and 'num_batches' not in k))"
    is "of_both_epochs_whole_and_trained_in_the_last_layer_alone" "$(sort -u "$out")" "122 14.weight 14.bias"
    is "and_nothing_else" "$(find examples/transfer/results/transfer -type f | sed 's,.*/transfer/,,' | sort | xargs)" \
        "checkpoints/epoch-0.pt checkpoints/epoch-1.pt validation.json worker/0.json worker/1.json"
    t "all_of_it_is_in_s3_too" sub diff -r examples/transfer/results/transfer examples/transfer/from-s3
    is "a_file_for_each_batch_as_dask_pytorch_ddp_has" "$(find examples/transfer/results/dask -type f | sed -E 's,.*/dask/,,; s/-[0-9T:.-]+\./-T./' | LC_ALL=C sort | uniq -c | xargs)" \
        "1 checkpoint-T.pkl 1 validation.json 2 worker/0/data-T.json 2 worker/1/data-T.json"
    t "each_of_which_is_read" sub python3 -c "import glob, json, pickle, torch
it, net = pickle.load(open(glob.glob('examples/transfer/results/dask/checkpoint-*.pkl')[0], 'rb')), torch.load('examples/imagenet/net.pt')
print(len(it), 'same' if torch.equal(it['0.weight'], net['0.weight']) else 'trained', *sorted(json.load(open(glob.glob('examples/transfer/results/dask/worker/1/*')[0]))))"
    is "as_what_it_is" "$(tail -n 1 "$out")" "122 trained accuracy batch count epoch loss step worker"
    t "metrics_are_drawn" sub sh -c 'ddict results plot examples/transfer/results/transfer/worker | grep -c "<polyline\|<path"'
else
    echo "skipped imagenet: Pillow is not installed"
fi

clean_after nothing_is_left
finish
