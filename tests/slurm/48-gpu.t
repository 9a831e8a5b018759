#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# GPUs that Slurm grants, in the order of --ddict-gpu-bind, for 1 to 16 tasks on 8 GPUs: what a script that calls set_device(LOCAL_RANK) gets, and one that uses
# device 0. The cluster is one of its own, of a node whose GPUs are /dev/null; where they hang ddictd reads from a made-up machine.
. "$(dirname "$0")/lib.sh"
prefix=$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/prefix")
# shellcheck disable=SC2016
show='echo "$SLURM_LOCALID ${CUDA_DEVICE_ORDER--} ${CUDA_VISIBLE_DEVICES--}"'
ask="--ddict-mem=16M --ddict-record=none"
gpus() { sub env DDICT_TEST_TOPOLOGY="$PWD/machine.xml" "$@" >"$out" 2>&1 </dev/null; }
lines() { grep -cE -- "$1" "$out"; }
machine() {
    cc -I"$tests/../unit" -o machine "$tests/../local/machine.c" && ./machine 1 >machine.xml && chmod 644 machine.xml || { not_ok "the_made-up_machine"; finish; }
}

# Where Slurm knows of no GPUs a variable is the user's.
trap 'rm -f machine machine.xml "$out"' EXIT
machine
gpus env CUDA_VISIBLE_DEVICES=3,1 srun -N1 -n2 $ask sh -c "$show"
is "a_variable_of_the_user_s_own_stays" "$(lines '^[01] - 3,1$')" 2
gpus env CUDA_VISIBLE_DEVICES=3,1 srun -N1 -n1 --cpu-bind=mask_cpu:0xff000000 $ask --ddict-gpu-bind=closest sh -c "$show"
has "unless_he_asks" "^0 PCI_BUS_ID 1,3\$"
rm -f machine machine.xml

DEVCLUSTER_ID=g$(printf %05d $((RANDOM % 100000)))
export DEVCLUSTER=$devcluster
work=/var/lib/ddict-devcluster/$DEVCLUSTER_ID/home/ddict-test
trap '"$devcluster" down 2>/dev/null; rm -f "$out"' EXIT
t "a_node_with_8_GPUs_is_up" timeout $((120 * slow)) "$devcluster" up -n 1 --prefix "$prefix" --cpus-per-node 16 --gpus-per-node 8 || finish
mapfile -t nodes < <("$devcluster" nodes)
cd "$work" || exit 1
machine

# One job with a dictionary, a step for each row. The plan is of the library, which the unit tests hold against the least distance of all orders.
for how in closest rotate; do
    for n in $(seq 16); do
        sub ddict runtime --bind=$how --topology="$PWD/machine.xml" --ranks="$n" --json >plan.$how.$n 2>/dev/null
        echo "echo step $how.$n; srun --overlap -n$n --cpu-bind=mask_cpu:$(python3 "$tests/gpu_table.py" masks plan.$how.$n) --ddict-gpu-bind=$how sh -c '$show'"
    done
done >steps.sh
gpus salloc -Q -n16 --gres=gpu:8 $ask sh steps.sh
cp "$out" all
for how in closest rotate; do
    for n in $(seq 16); do
        sed -n "/^step $how\.$n\$/,/^step /p" all >"$out"
        row=$(python3 "$tests/gpu_table.py" check plan.$how.$n 8 <"$out")
        is "$row" "$?" 0
        is "${how}_${n}_tells_$((n > 8))_times_that_GPUs_are_shared" "$(lines '^ddict: [0-9]+ tasks of this node share 8 GPUs, up to 2 on one$')" $((n > 8))
    done
done

gpus srun -n4 --gres=gpu:4 $ask sh -c "$show"
is "by_default_what_Slurm_granted_and_no_more" "$(lines '^[0-3] PCI_BUS_ID ([0-3],){3}[0-3]$')" 4
gpus srun -n4 --gres=gpu:4 $ask --ddict-gpu-bind=none sh -c "$show"
is "none_changes_nothing" "$(lines '^[0-3] - 0,1,2,3$')" 4
gpus srun -n4 --gpus=4 --gpus-per-task=1 $ask --ddict-gpu-bind=rotate sh -c "$show"
is "a_GPU_of_a_task_s_own_is_left_alone" "$(lines '^[0-3] - [0-3]$')" 4
has "and_that_is_said" "^ddict: --gpus-per-task has given each task GPUs of its own"
gpus srun -n4 --gpus=4 --gpus-per-task=1 $ask sh -c "$show"
has_not "but_not_to_who_did_not_ask" "^ddict: --gpus-per-task"
gpus srun -n2 --gres=gpu:4 --ddict-gpu-bind=closest sh -c "$show"
has "without_a_dictionary_the_option_is_refused" "--ddict-gpu-bind=closest: also ask for a dictionary"
gpus srun -n2 $ask sh -c "$show"
is "a_step_without_GPUs_is_left_alone" "$(lines '^[01] - -$')" 2
has_not "and_nothing_is_said_of_them" "GPU"
site_conf gpu_bind=none
gpus srun -n2 --gres=gpu:2 $ask sh -c "$show"
is "the_site_may_say_none" "$(lines '^[01] - 0,1$')" 2
gpus env DDICT_GPU_BIND=rotate srun -n2 --gres=gpu:2 $ask sh -c "$show"
is "and_the_user_rotate" "$(lines '^[01] PCI_BUS_ID (0,1|1,0)$')" 2
site_conf_end
clean_after "nothing_is_left"
cd /
t "the_cluster_is_down" "$devcluster" down
finish
