# SPDX-License-Identifier: Apache-2.0
"""Many puts at once, values for all nodes, copies of a dictionary, and checkpoints on disk."""

import os
import tempfile

import numpy as np

from ddict.dragon.data.ddict import DDict, DDictError, PosixCheckpointPersister
from ddict.dragon.native.machine import System
from ddict.dragon.native.process import ProcessTemplate
from ddict.dragon.native.process_group import ProcessGroup

PAIRS = 2000
MEM = 32 * 1024 * 1024
nodes = System().nnodes


def batches():
    d = DDict(2, nodes, nodes * MEM, timeout=100)
    d.start_batch_put()
    for i in range(PAIRS):
        d[i] = i * i
    d.end_batch_put()
    print("batch", len(d), sum(d[i] == i * i for i in range(PAIRS)), "on", sum(s.num_keys > 0 for s in d.stats), "managers")
    d.start_batch_put(persist=True)
    d["persistent"] = "in a batch"
    d.end_batch_put()
    d.pput("also", "alone")
    print("persistent", d["persistent"], d["also"])
    return d


def read(d, node):
    model = d.bget("model")
    d["read", os.uname().nodename] = float(model.sum())


def broadcast(d):
    d.bput("model", np.ones(10000))
    group = ProcessGroup()
    group.add_process(nproc=2 * nodes, template=ProcessTemplate(target=read, args=(d, 0)))
    group.init()
    group.start()
    group.join()
    group.close()
    print("broadcast", sorted(value for key, value in d.items() if isinstance(key, tuple)))


def copies(d):
    other, lost = DDict(2, nodes, nodes * MEM, timeout=100), DDict(2, nodes, nodes * MEM, timeout=100)
    d.clone([other.serialize()])
    print("clone", dict(other.items()) == dict(d.items()), len(other) == len(d))
    DDict.synchronize_ddicts([d.serialize(), lost.serialize()])
    print("synchronized", len(lost) == len(d), lost[PAIRS - 1])
    more = d.copy("another")
    print("copy", more.get_name(), len(more) == len(d))
    for each in other, lost, more:
        each.destroy()


def on_disk():
    folder = tempfile.mkdtemp(dir=".")
    kept = dict(persister_class=PosixCheckpointPersister, persist_path=folder, name="training")
    d = DDict(1, nodes, nodes * MEM, working_set_size=2, persist_freq=1, persist_count=-1, timeout=100, **kept)
    for epoch in range(6):
        d["weights"], d["epoch"] = np.full(1000, float(epoch)), epoch
        d.checkpoint()
    d.rollback()
    d.persist()
    d.sync()
    print("persisted", d.persisted_ids())  # at their end in the working set, and the last one by persist()
    d.destroy()
    d = DDict(1, nodes, nodes * MEM, read_only=True, restore_from=1, timeout=100, **kept)
    seen = [(d["epoch"], float(d["weights"].mean()))]
    for _ in range(2):
        d.advance()
        seen.append((d["epoch"], float(d["weights"].mean())))
    print("advanced", seen, d.checkpoint_id)
    try:
        d["epoch"] = 7
    except DDictError:
        print("read only")
    d.destroy()
    d = DDict(1, nodes, nodes * MEM, working_set_size=2, persist_freq=1, persist_count=-1, timeout=100, **kept)
    d.restore(d.persisted_ids()[2])
    print("restored", d.checkpoint_id, d["epoch"], d["weights"].mean(), d.persisted_ids())
    d.checkpoint()
    d["epoch"] = 3.5
    d.persist()
    print("goes on at", d.checkpoint_id, d.persisted_ids())
    d.destroy()


if __name__ == "__main__":
    d = batches()
    broadcast(d)
    copies(d)
    d.destroy()
    on_disk()
