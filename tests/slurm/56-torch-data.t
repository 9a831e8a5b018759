#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ddict.torch on several nodes: ranks put a set together, read it in orders that fit each other, their own node's part first, and go on as another number of
# ranks; and the example of MNIST with its workers, queues and test accuracy.
. "$(dirname "$0")/lib.sh"
need_nodes 3
limit=180
example=$tests/../../contrib/examples/mnist/mnist.py
sub python3 -c 'import ddict, numpy, torch' 2>/dev/null || { echo "no Python binding, numpy or torch is installed"; exit 77; }
trap 'rm -rf "$PWD/data"; rm -f "$out"' EXIT
rm -rf data && mkdir -p data/images/{a,b,c} data/mnist || exit 1
for class in a b c; do
    for i in 0 1 2 3 4 5 6 7 8; do head -c $((1000 + i)) /dev/zero | tr '\0' $class >data/images/$class/$i.png; done
done
python3 "$tests/ddp_data.py" data/mnist "${DDICT_TEST_DATA-}" >/dev/null && cp "$example" "${example%/*}/run.sbatch" "$tests/torch_data.py" data/ && chmod -R a+rwX data || exit 1
dict=(--ddict-managers=3 --ddict-mem=96M --ddict-record=none)

# runs SENTENCE WORDS... - sub, once more where Slurm slipped
runs() {
    local name=$1
    shift
    sub "$@" >"$out" 2>&1 </dev/null || ! slurm_slipped || sub "$@" >"$out" 2>&1 </dev/null

    if grep -q "$want" "$out" && ! grep -q 'not so\|Traceback\|error:' "$out"; then ok "$name"; else not_ok "$name"; fi
}

want='a checkpoint of the last rank is read by all'
runs "five_ranks_share_a_set" srun -N3 -n5 "${dict[@]}" python3 data/torch_data.py set "$PWD/data/images"
for line in 'each sample was put once' 'an epoch is each sample once' 'each step is the next piece of one order' \
    'a stream gives each rank the same in the same order' 'an epoch of the own node first is each sample once' \
    'as much is read on its own node as there is' 'and the dictionary counted the same' 'files of a folder are read by all ranks' 'and are whole'; do
    has "${line// /_}" "^$line\$"
done
grep '^share of local' "$out" | sed 's/^/# /'
want='3 ranks stopped after 150 samples each'
runs "three_ranks_stop_in_an_epoch" srun -N3 -n3 "${dict[@]}" python3 data/torch_data.py stop data/state
want='each sample was read once'
runs "two_ranks_go_on" srun -N2 -n2 "${dict[@]}" python3 data/torch_data.py resume data/state

want='^Rank 2 lr 1.500 on .*: Test accuracy: '
# batch WORDS... - the example's run.sbatch, in a dictionary of a test's size
batch() {
    # shellcheck disable=SC2016
    sub sh -c 'cd data && sbatch -Q -W -o batch.out --ddict-managers=3 --ddict-mem=96M --ddict-record=none run.sbatch "$@"; rc=$?; cat batch.out; exit $rc' sh "$@"
}
t "mnist_trains_on_two_nodes" batch --data mnist --mnist-workers 3 --epochs 2 --want 0.4 --dragon-dict-managers 2 --dragon-dict-mem 100000000 --download --mirror file:///none
has_not "what_is_there_is_not_downloaded" '^Downloading'
has "and_each_is_tested" '^Rank 2 lr 1.500 on .*: Test accuracy: '
is "dragons_flags_are_answered" "$(grep -c '^--dragon-dict-\(managers=2\|mem=100000000\) is .* was started with \(3\|100663296\)$' "$out")" 2
has "and_says_how_many_nodes" '^Number of nodes: 2$'
has "and_workers" '^Number of MNIST workers: 3$'
has "and_managers_as_dragons_program_does" '^Number of dragon dict managers: 3$'
is "and_each_worker_s_progress" "$(grep -cE '^Rank [012] Train Epoch: [12] \[0/960 \(0%\)\].Loss: [0-9.]+$' "$out")" 6
is "of_workers_on_both_nodes" "$(sed -n 's/^Rank . lr .* on \(.*\) (cpu): Test.*/\1/p' "$out" | sort -u | grep -c .)" 2

t "gpus_are_taken_from_a_queue_of_each_node" sub sh -c 'cd data && srun -N2 --ntasks-per-node=1 --ddict-mem=32M --ddict-record=none python3 -c "import mnist
mnist.DEVICE_S = 0.5
devices = mnist.device_queue(2)
mnist.runtime.barrier()
print(*(mnist.device_take(devices, True) for _ in range(3)), mnist.device_take(devices, False))"'
is "each_once_and_then_the_cpu" "$(grep -c '^cuda:0 cuda:1 cpu cpu$' "$out")" 2

# All of MNIST: the 60,000 images where they are at hand, else as many shapes; downloaded, once, by one rank
if ls "${DDICT_TEST_DATA-/none}"/train-images-idx3-ubyte* >/dev/null 2>&1; then
    mkdir data/mirror && cp -L "$DDICT_TEST_DATA"/*-ubyte* data/mirror && gunzip -qf data/mirror/*.gz
else
    mkdir data/mirror && python3 "$tests/ddp_data.py" data/mirror "" 60000 240 >/dev/null
fi
gzip -1 data/mirror/* && chmod -R a+rX data/mirror
t "all_of_mnist_is_downloaded" batch --data all --download --mirror "file://$PWD/data/mirror/" --mnist-workers 2 --epochs 1 --max-batches 2 --no-cuda --devices-per-node 2
is "its_workers_are_on_the_cpu" "$(grep -cE '^Rank [01] lr .* \(cpu\): Test accuracy' "$out")" 2
is "each_file_once" "$(grep -c "^Downloading file:.*-ubyte.gz to all/" "$out") $(grep -c '^100.0%$' "$out") $(grep -c '^Extracting all/.*.gz to all$' "$out")" "4 4 4"
has "and_managers_are_ours_without_its_flag" '^Number of ddict managers: 3$'
is "and_two_workers_train_of_60000" "$(grep -cE '^Rank [01] Train Epoch: 1 \[0/60000 \(0%\)\].Loss: [0-9.]+$' "$out")" 2
t "a_mirror_that_has_none_ends_all_ranks" sub sh -c 'cd data && ! timeout 60 srun -N2 --ntasks-per-node=1 --ddict-mem=32M --ddict-record=none python3 mnist.py --data none --download --mirror file:///none'
is "with_the_reason" "$(grep -c '^no MNIST from file:///none: ' "$out")" 2
clean_after nothing_is_left
finish
