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
python3 "$tests/ddp_data.py" data/mnist "${DDICT_TEST_DATA-}" >/dev/null && cp "$example" "$tests/torch_data.py" data/ && chmod -R a+rwX data || exit 1
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
runs "mnist_trains_on_two_nodes" srun -N2 --ntasks-per-node=1 "${dict[@]}" python3 data/mnist.py --data data/mnist --mnist-workers 3 --epochs 2 --want 0.4
has "and_says_how_many_nodes" '^Number of nodes: 2$'
has "and_workers" '^Number of MNIST workers: 3$'
has "and_managers" '^Number of ddict managers: 3$'
is "and_each_worker_s_progress" "$(grep -cE '^Rank [012] Train Epoch: [12] \[0/960 \(0%\)\].Loss: [0-9.]+$' "$out")" 6
is "of_workers_on_both_nodes" "$(sed -n 's/^Rank . lr .* on \(.*\) (cpu): Test.*/\1/p' "$out" | sort -u | grep -c .)" 2
clean_after nothing_is_left
finish
