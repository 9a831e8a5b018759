#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What torch's env:// reads, in the tasks of a step with a dictionary: the same place for all, of rank 0's node, a port of its own for each step; the user's own
# variables stay; and torch itself under plain srun and under its own launcher.
. "$(dirname "$0")/lib.sh"
need_nodes 3
limit=200
ask="--ddict-mem=48M --ddict-record=none"
two="-N2 -n2 -w ${nodes[0]},${nodes[1]}" # not those that are free first
ranks=$tests/torch_ranks.py
address() { "$devcluster" exec "$1" -- getent hosts "$1" | cut -d" " -f1; }
n1=$(address "${nodes[0]}") n2=$(address "${nodes[1]}")
# shellcheck disable=SC2016
show='echo "$SLURM_PROCID: ${MASTER_ADDR--} ${MASTER_PORT--} ${RANK--} ${LOCAL_RANK--} ${WORLD_SIZE--} ${LOCAL_WORLD_SIZE--} ${GROUP_RANK--}"'
lines() { grep -cE -- "$1" "$out"; }

t "ranks_meet_at_rank_0" sub srun -N3 --ntasks-per-node=2 $ask /usr/bin/python3 "$ranks" meet
for r in 0 1 2 3 4 5; do
    has "rank_${r}_has_its_place" "^rank $r of 6: sum 21 local $((r % 2)) 2 $((r / 2)) at $n1 [0-9]+\$"
done
is "all_have_one_port" "$(sed -n 's/^rank.* at //p' "$out" | sort -u | grep -c .)" 1
# shellcheck disable=SC2016
t "rank_0_may_be_on_any_node" sub sh -c 'cd; printf "%s\n" "$@" >hosts; SLURM_HOSTFILE=$PWD/hosts srun -n4 -m arbitrary '"$ask"' /usr/bin/python3 "$0" meet; rc=$?; rm hosts; exit $rc' \
    "$ranks" "${nodes[1]}" "${nodes[0]}" "${nodes[2]}" "${nodes[0]}"
is "and_it_is_that_node_s_address" "$(lines "^rank [0-3] of 4: sum 10 .* at $n2 ")" 4

# One job, many steps at once.
rm -f meets.*
cat >steps.sh <<END
i=0
while [ \$i -lt 20 ]; do
    srun --overlap -N2 -n2 -w "\$1" /usr/bin/python3 "$ranks" meet 20 &
    i=\$((i + 1))
done
wait
END
t "twenty_steps_at_once_meet" sub salloc -Q -N3 -n3 $ask sh steps.sh "${nodes[0]},${nodes[1]}"
is "each_rank_met_its_own" "$(lines "^rank [01] of 2: sum 3 .* at $n1 ")" 40
is "at_a_port_of_its_own" "$(sed -n 's/^rank 0 .* //p' "$out" | sort -u | grep -c .)" 20
rm -f steps.sh meets.*

# Who says what.
sub srun $two sh -c "$show" >"$out" 2>&1 </dev/null
is "without_a_dictionary_nothing_is_set" "$(lines '^[01]: - - - - - - -$')" 2
sub srun $two $ask --ddict-torch-env=no sh -c "$show" >"$out" 2>&1 </dev/null
is "with_no_nothing_is_set" "$(lines '^[01]: - - - - - - -$')" 2
sub env DDICT_TORCH_ENV=no srun $two $ask sh -c "$show" >"$out" 2>&1 </dev/null
is "nor_with_the_variable" "$(lines '^[01]: - - - - - - -$')" 2
sub env MASTER_PORT=29500 RANK=77 srun $two $ask sh -c "$show" >"$out" 2>&1 </dev/null
is "what_the_user_set_stays" "$(lines "^[01]: $n1 29500 77 0 2 1 [01]\$")" 2
for export in NONE NIL; do
    sub srun $two --export=$export $ask /bin/sh -c "$show" >"$out" 2>&1 </dev/null
    is "it_comes_with_export_$export" "$(lines "^[01]: $n1 [0-9]+ [01] 0 2 1 [01]\$")" 2
done
# shellcheck disable=SC2016
sub srun -N1 -n1 $ask sh -c 'ddict run -n 2 --local --managers=1 --mem=16M --record=none -- sh -c "$0" | sort; MASTER_ADDR=mine ddict run -n 2 --local --managers=1 --mem=16M --record=none -- sh -c "$0" | sort' "$show" >"$out" 2>&1 </dev/null
is "ranks_within_a_task_have_their_own" "$(lines '^0: 127.0.0.1 [0-9]+ ([01]) \1 2 2 0$')" 2
is "but_for_what_the_user_set" "$(lines '^0: mine [0-9]+ ([01]) \1 2 2 0$')" 2
# shellcheck disable=SC2016
sub srun $two $ask sh -c '[ $SLURM_PROCID = 0 ] || srun --jobid=$SLURM_JOB_ID --overlap -N1 -n1 -w "$SLURMD_NODENAME" --ddict-mem=16M --ddict-record=none sh -c "$0"' "$show" >"$out" 2>&1 </dev/null
has "a_step_within_a_task_has_its_own" "^0: [0-9.]+ [0-9]+ 0 0 1 1 0\$"
site_conf torch_env=no
sub srun $two $ask sh -c "$show" >"$out" 2>&1 </dev/null
is "the_site_may_say_no" "$(lines '^[01]: - - - - - - -$')" 2
sub srun $two $ask --ddict-torch-env=yes sh -c "$show" >"$out" 2>&1 </dev/null
is "and_the_user_yes" "$(lines "^[01]: $n1 [0-9]+ [01] 0 2 1 [01]\$")" 2
site_conf ports=42000-42099
t "ports_of_the_range" sub srun $two $ask /usr/bin/python3 "$ranks" meet
is "are_taken" "$(lines "^rank [01] of 2: sum 3 .* at $n1 420[0-9][0-9]\$")" 2
site_conf_end

if sub /usr/bin/python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'; then
    t "torch_adds_up_under_plain_srun" sub srun -N3 --ntasks-per-node=2 $ask /usr/bin/python3 "$ranks" reduce
    is "on_all_ranks" "$(lines "^rank [0-5] of 6: sum 21 .* at $n1 ")" 6
    # With Python 3.11 the launcher of torch 1.13 fails at its own default of "no redirection"; one for a rank that is not there means the same.
    # shellcheck disable=SC2016
    why=$(torchrun_may) || echo "skipped its_own_launcher: $why"
    [ -n "$why" ] || t "its_own_launcher_in_a_task_a_node" sub srun -N2 --ntasks-per-node=1 $ask sh -c 'exec /usr/bin/python3 -m torch.distributed.run --nnodes=$WORLD_SIZE --node_rank=$RANK \
        --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT --nproc_per_node=2 --redirects=9:1 --tee=9:1 "$0" reduce' "$ranks"
    [ -n "$why" ] || is "sets_its_own" "$(lines '^rank ([0-3]) of 4: sum 10 local [01] 2 [01] at ')" 4
else
    echo "skipped torch: python3-torch is not installed"
fi
clean_after "nothing_is_left"
finish
