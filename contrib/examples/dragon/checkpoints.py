# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a working set: a consumer waits for each step of a producer on another node, and workers roll back to a step that was good."""

import random

import numpy as np

import ddict.dragon.infrastructure.parameters as di_param
from ddict.dragon.data.ddict import DDict, DDictCheckpointSyncError
from ddict.dragon.native.barrier import Barrier
from ddict.dragon.native.machine import System
from ddict.dragon.native.process import Process, ProcessTemplate
from ddict.dragon.native.process_group import ProcessGroup

STEPS, KEPT = 8, 4
SAMPLES, EACH, WORKERS = 1000, 100, 4


def produce(d, steps):
    """A field of each step, under the same key. To get what the consumer puts waits for it: else it might be too late for a step, which is retired then"""
    for step in range(steps):
        d["field"] = np.full((64, 64), float(step))
        assert d["mean"] == step
        d.checkpoint()


def consume(d, steps):
    """Each get waits until the producer has put the field of this checkpoint"""
    size = d["size"]
    for step in range(steps):
        field = d["field"]
        assert d.checkpoint_id == step and field.shape == (size, size)
        d["mean"] = float(field.mean())
        d.checkpoint()


def steps():
    system = System()
    d = DDict(1, system.nnodes, system.nnodes * 32 * 1024 * 1024, working_set_size=KEPT, wait_for_keys=True, timeout=100)
    d.pput("size", 64)  # is there at all checkpoints
    policies = system.hostname_policies()
    processes = [Process(target=consume, args=(d, STEPS), policy=policies[-1]), Process(target=produce, args=(d, STEPS), policy=policies[0])]
    for process in processes:
        process.start()
    print("ended with", [process.join() for process in processes], "on nodes", sorted(process.node for process in processes))
    d.sync_to_newest_checkpoint()
    print("newest checkpoint", d.checkpoint_id, "mean", d["mean"])
    d.rollback()
    print("the one before", d.checkpoint_id, "mean", d["mean"], "size", d["size"])
    d.checkpoint_id = 0
    try:
        print("mean", d["mean"])
    except DDictCheckpointSyncError:
        print("checkpoint 0 is retired")
    d.destroy()


def sampler(d, barrier):
    """Sums of samples, each hundred of them a checkpoint. Once its state is bad, and it goes back to the checkpoint before."""
    me = di_param.this_process.my_puid
    rng, total, n, is_bad, back = random.Random(me), 0.0, 0, False, 0
    while n < SAMPLES:
        total += rng.normalvariate(0, 1)
        n += 1
        if n == 450 and not is_bad:
            is_bad, total = True, float("nan")
            d.checkpoint()
            d.rollback()
            d.rollback()
            back += 1
            total, n = d[f"puid_{me}"], (d.checkpoint_id + 1) * EACH
            d.checkpoint()
            continue
        if n % EACH == 0:
            d[f"puid_{me}"] = total
            d.checkpoint()
            barrier.wait()
    d[f"rolled_{me}"] = back


def rollbacks():
    nodes = System().nnodes
    d = DDict(1, nodes, nodes * 16 * 1024 * 1024, working_set_size=KEPT, timeout=100)
    group = ProcessGroup()
    group.add_process(nproc=WORKERS, template=ProcessTemplate(target=sampler, args=(d, Barrier(WORKERS))))
    group.init()
    group.start()
    group.join()
    d.sync_to_newest_checkpoint()
    print("workers rolled back", sum(d[f"rolled_{puid}"] for puid, _ in group.inactive_puids))
    d.checkpoint_id = SAMPLES // EACH - 1
    average = sum(d[f"puid_{puid}"] for puid, _ in group.inactive_puids) / (WORKERS * SAMPLES)
    print(f"average of {WORKERS * SAMPLES} samples near 0: {abs(average) < 0.1}")
    group.close()
    d.destroy()


if __name__ == "__main__":
    steps()
    rollbacks()
