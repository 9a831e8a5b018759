#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# torch.distributed over the dictionary: ranks of two nodes meet by ddict:// without MASTER_ADDR; torchrun's agents by its backend, also when a worker or an agent dies.
# DDICT_TEST_PYTHON: an interpreter with another torch.
. "$(dirname "$0")/lib.sh"
limit=240
python=${DDICT_TEST_PYTHON-/usr/bin/python3}
meet=$tests/torch_meet.py
ask="--ddict-mem=64M --ddict-record=none"
lines() { grep -cE -- "$1" "$out"; }
sub "$python" -c 'import ddict, torch.distributed' 2>/dev/null || { echo "no Python binding or torch is installed"; exit 77; }

t "ranks_meet_without_an_address" sub srun -N2 --ntasks-per-node=2 $ask --ddict-torch-env=no "$python" "$meet"
is "all_four" "$(lines '^rank [0-3] of 4: sum 10 gradient 2\.5, address none$')" 4
t "and_twice_in_one_dictionary" sub salloc -Q -N2 -n2 $ask --ddict-torch-env=no sh -c 'srun -N2 -n2 "$0" "$1" && srun -N2 -n2 "$0" "$1"' "$python" "$meet"
is "each_time" "$(lines '^rank [01] of 2: sum 3 gradient 1\.5, address none$')" 4

# (9:1: with Python 3.11 the launcher of torch 1.13 fails at its own default of no redirection)
agents=(srun -N2 --ntasks-per-node=1 $ask "$python" -m ddict.torch.elastic --nproc_per_node=1 --rdzv_backend=ddict --redirects=9:1 --tee=9:1)
if why=$(torchrun_may); then
    t "two_agents_meet" sub "${agents[@]}" --nnodes=2 --rdzv_id=plain "$meet"
    is "with_a_rank_each" "$(lines '^rank [01] of 2: sum 3 gradient 1\.5')" 2
    t "a_worker_that_dies_is_started_again" sub "${agents[@]}" --nnodes=2 --rdzv_id=worker --max_restarts=2 "$meet" worker
    is "and_all_meet_again" "$(lines '^rank [01] of 2: sum 3 gradient 1\.5')" 2
    sub "${agents[@]}" --nnodes=1:2 --rdzv_id=agent --max_restarts=2 --rdzv_conf=last_call_timeout=5 "$meet" agent >"$out" 2>&1 </dev/null
    has "when_an_agent_is_killed_the_other_one_goes_on" '^rank 0 of 1: sum 1 gradient 1\.0'
else
    echo "skipped torchrun: $why"
fi
clean_after "nothing_is_left"
finish
