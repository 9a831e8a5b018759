# SPDX-License-Identifier: Apache-2.0
"""Pi again, in steps: each worker puts its average of a step, and reads those of the others, which waits for them. Steps are checkpoints, of which four are kept."""

import random

import ddict.dragon as dragon
from ddict.dragon import mp
from ddict.dragon.data.ddict import DDict
from ddict.dragon.native.machine import System

WORKERS, STEPS, DARTS = 4, 8, 2000


def work(d, me):
    workers, average = d["workers"], 0.0
    rng = random.Random(me)
    for step in range(STEPS):
        hits = sum(rng.random() ** 2 + rng.random() ** 2 <= 1 for _ in range(DARTS))
        d[me] = hits / DARTS
        average += sum(d[other] for other in range(workers)) / workers
        d.checkpoint()
    d.detach()
    return average / STEPS


def main():
    mp.set_start_method("dragon")
    nodes = System().nnodes
    d = DDict(1, nodes, nodes * 64 * 1024 * 1024, working_set_size=4, wait_for_keys=True, timeout=60)
    d.pput("workers", WORKERS)
    with mp.Pool(WORKERS) as pool:
        results = pool.starmap(work, [(d, i) for i in range(WORKERS)])
    d.sync_to_newest_checkpoint()
    print("agreed", len(set(results)) == 1, f"pi {4 * results[0]:.1f}")
    print("newest", d.checkpoint_id)
    d.rollback()
    print("one before", d.checkpoint_id, "workers", d["workers"])
    d.checkpoint_id = 0
    try:
        print("there:", d[0])
    except dragon.DDictCheckpointSyncError:
        print("the first is retired")
    d.destroy()


if __name__ == "__main__":
    main()
