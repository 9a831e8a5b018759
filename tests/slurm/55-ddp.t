#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# contrib/examples/container, training by DDP over gloo, one script without a change: by its run.sbatch on three nodes, by torch.distributed.run in one task a node, under
# `ddict run -n`, in an image of charliecloud by run.sbatch and by torch.distributed.run, and in a sandbox of bubblewrap with a private /tmp and /dev/shm and another user namespace.
. "$(dirname "$0")/lib.sh"
. "$tests/containers.sh"
need_nodes 3
limit=180
train=$tests/../../contrib/examples/container/mnist_ddp.py
sub python3 -c 'import ddict, numpy, torch.distributed' 2>/dev/null || { echo "no Python binding, numpy or torch is installed"; exit 77; }
trap 'rm -rf "$PWD/ddp"; image_remove; rm -f "$out"' EXIT
rm -rf ddp && mkdir ddp && cp "$train" "${train%/*}/run.sbatch" "$tests/ddp_data.py" ddp/ && python3 ddp/ddp_data.py ddp "${DDICT_TEST_DATA-}" >"$out" && chmod -R a+rwX ddp || exit 1
echo "# images: $(cat "$out")"
words=(--epochs 2 --batch-size 16 --lr 0.003 --workers 1 --save "" --want 0.5) # ten classes: a guess gives 0.1
dict=(--ddict-managers=3 --ddict-mem=96M --ddict-record=none)
three=(srun -N3 -n3 --ntasks-per-node=1 "${dict[@]}")
here=(python3 "$PWD/ddp/mnist_ddp.py" --data "$PWD/ddp" "${words[@]}")

# trains NAME RANKS NODES WORDS... - this many ranks learn from one set
trains() {
    local name=$1 ranks=$2 nodes=$3 rc
    shift 3
    sub "$@" >"$out" 2>&1 </dev/null
    rc=$?
    if [ $rc != 0 ] && slurm_slipped; then
        sub "$@" >"$out" 2>&1 </dev/null
        rc=$?
    fi
    is "$name" "$rc, $(grep -Eo "^[0-9]+ ranks on [0-9]+ nodes, 960 images" "$out")" "0, $ranks ranks on $nodes nodes, 960 images"
    sed -n 's/^Test set:/#/p' "$out" | tail -n 1
}

# batch IMAGE WORDS... - the example's run.sbatch, in a dictionary of a test's size; IMAGE: empty, or a folder
batch() {
    # shellcheck disable=SC2016
    sub env DATA="${DATA-.}" sh -c 'cd ddp && IMAGE=$0 sbatch -Q -W -o batch.out -N3 --ntasks-per-node=1 '"${dict[*]}"' run.sbatch "$@"; rc=$?; cat batch.out; exit $rc' "$@"
}
mkdir ddp/mirror ddp/empty && cp ddp/*-ubyte* ddp/mirror && gzip -qf ddp/mirror/*-ubyte && chmod -R a+rwX ddp || exit 1
DATA=empty t "srun_in_a_batch_script" batch "" "${words[@]:0:8}" --want 0.5 --download --mirror "file://$PWD/ddp/mirror/"
is "rank_0_downloads_each_file" "$(grep -c "^Downloading file:.*-ubyte.gz to .*/empty/" "$out") $(ls ddp/empty | wc -l)" "4 4"
has "trains_three_ranks" '^3 ranks on 3 nodes, 960 images$'
is "each_says_where_it_is" "$(grep -oE '^Initialized Rank:[0-9]+ on Node Rank:[0-9]+$' "$out" | sort | xargs)" \
    "Initialized Rank:0 on Node Rank:0 Initialized Rank:1 on Node Rank:1 Initialized Rank:2 on Node Rank:2"
is "losses_are_printed" "$(grep -cE '^Train Epoch: [12] \[0/320 \(0%\)\].Loss: [0-9.]+$' "$out") $(grep -cE '^Test set: Average loss: [0-9]\.[0-9]{4}, Accuracy: [0-9]+/240 \([0-9.]+%\)$' "$out")" "2 2"
is "and_the_network_is_saved" "$(sub python3 -c "import torch
print(*(tuple(v.shape) for v in torch.load('ddp/mnist_cnn.pt').values()))" 2>&1)" "(32, 1, 3, 3) (32,) (64, 32, 3, 3) (64,) (128, 9216) (128,) (10, 128) (10,)"
# shellcheck disable=SC2016
by_run=(sh -c 'exec python3 -m torch.distributed.run --nnodes=3 --nproc_per_node="$0" --node_rank="$GROUP_RANK" \
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --redirects=9:1 --tee=9:1 "$@"')
if why=$(torchrun_may); then
    trains torch_distributed_run 6 3 "${three[@]}" "${by_run[@]}" 2 "${here[@]:1}"
else
    echo "skipped torch_distributed_run: $why"
fi
# (9:1: with Python 3.11 the launcher of torch 1.13 fails at its own default of no redirection)
trains ddict_run 2 1 ddict run -n 2 --managers=2 --mem=96M -- "${here[@]}"

if why=$(containers_may "${bubble[@]}"); then
    trains bubblewrap 3 3 "${three[@]}" "${bubble[@]}" --uid 0 --gid 0 "${here[@]}"
else
    echo "skipped bubblewrap: $why"
fi
if why=$(containers_may ch-run --version) && image_make ddp/* && why=$(containers_may "${charlie[@]}" "${image_usr[@]}" "$image" --); then
    if [ ${#image_usr[@]} = 0 ]; then
        rm -f ddp/mnist_cnn.pt
        t "charliecloud_in_a_batch_script" batch "$image" "${words[@]:0:8}" --want 0.5
        is "and_the_network_is_saved_outside" "$(grep -c '^3 ranks on 3 nodes, 960 images$' "$out") $(ls ddp/mnist_cnn.pt)" "1 ddp/mnist_cnn.pt"
    else
        trains charliecloud 3 3 "${three[@]}" "${charlie[@]}" "${image_usr[@]}" "$image" -- python3 /tests/mnist_ddp.py --data /tests "${words[@]}"
    fi
    if why=$(torchrun_may); then # the image's PyTorch is this machine's
        trains torch_distributed_run_in_charliecloud 3 3 "${three[@]}" "${charlie[@]}" "${image_usr[@]}" "$image" -- "${by_run[@]}" 1 /tests/mnist_ddp.py --data /tests "${words[@]}"
    else
        echo "skipped torch.distributed.run in charliecloud: $why"
    fi
else
    echo "skipped charliecloud: $why"
fi

# The image of contrib/containers, with its own slurm-ddict and torch: one that is being made is waited for.
recipe=${DDICT_TEST_IMAGE-}
for ((n = 0; n < 240; n++)); do
    [ -n "$recipe" ] && [ ! -d "$recipe" ] && compgen -G "$recipe.part.*" >/dev/null || break
    sleep 1
done
if [ -d "$recipe" ] && why=$(containers_may "${charlie[@]}" "$recipe" --); then
    sub srun -N1 -n1 "${charlie[@]}" "$recipe" -- sh -c 'ddict --version; command -v ddict; python -c "import ddict; print(ddict.__file__)"' >"$out" 2>&1 </dev/null
    is the_image_has_its_own_client "$(grep -c '^/usr/local/' "$out")" 2
    rm -f ddp/mnist_cnn.pt
    t "the_image_of_the_recipe_in_a_batch_script" batch "$recipe" "${words[@]:0:8}" --want 0.5
    is "saves_its_network_too" "$(grep -c '^3 ranks on 3 nodes, 960 images$' "$out") $(ls ddp/mnist_cnn.pt)" "1 ddp/mnist_cnn.pt"
else
    [ -d "$recipe" ] || why="${recipe:-contrib/check --full makes it}"
    echo "skipped the image of the recipe: $why"
fi
clean_after nothing_is_left
finish
