# SPDX-License-Identifier: Apache-2.0
"""A rank of a group that reads a data set of ddict.torch, on several nodes.

torch_data.py set FOLDER    all put it together, read epochs by both samplers with workers, and compare what they saw
torch_data.py stop FILE     read half an epoch and write its state there
torch_data.py resume FILE   go on, as another number of ranks
"""
import json
import os
import sys
import time
from collections import Counter

import torch
from torch.utils.data import DataLoader as TorchLoader

import ddict
from ddict import runtime
from ddict.torch import DataLoader, DDictDataset, DDictIterableDataset, DistributedSampler, ImageFolder, LocalSampler, load, save

COUNT, EPOCH, BATCH = 900, 3, 10


class Samples(torch.utils.data.Dataset):
    read = 0

    def __len__(self):
        return COUNT

    def __getitem__(self, i):
        Samples.read += 1
        time.sleep(0.002)  # as if it were read from a file: so that nobody is done before the others came
        return torch.arange(300, dtype=torch.int32) * i, i


def gather(value):
    """What all ranks give, on each of them."""
    return [json.loads(one) for one in runtime.exchange(json.dumps(value).encode())]


def check(what, good, *shown):
    if not good:
        sys.exit(f"rank {runtime.rank}: not so: {what} {shown}")
    if runtime.rank == 0:
        print(what, flush=True)


def epoch_read(loader):
    seen = []
    for image, label in loader:
        if not torch.equal(image, torch.arange(300, dtype=torch.int32) * label.int()[:, None]):
            sys.exit(f"rank {runtime.rank}: an image that nobody put")
        seen += label.tolist()
    return seen


def counts(d):
    stats = d.stats
    return [sum(s[name] for s in stats) for name in ("gets_local", "gets_remote")]


def read_once(lists):
    times = Counter(i for one in lists for i in one)
    return len(times) == COUNT and sum(times.values()) < COUNT + runtime.size and len({len(one) for one in lists}) == 1


def whole_set(folder):
    d = ddict.attach()
    runtime.barrier()
    data = DDictDataset(Samples(), name="samples", d=d)
    read = gather(Samples.read)
    # Each rank looks at four samples besides, twice, to know whether the set is of this data.
    check("each sample was put once", COUNT <= sum(read) <= COUNT + 8 * runtime.size and len(data) == COUNT, read)
    check("by more than one rank", sum(n > 0 for n in read) > 1, read)
    sampler = DistributedSampler(data, seed=4)
    sampler.set_epoch(EPOCH)
    seen = gather(epoch_read(DataLoader(data, batch_size=BATCH, sampler=sampler, num_workers=1, multiprocessing_context="fork")))
    check("an epoch is each sample once", read_once(seen))
    order = sampler.order().tolist()
    steps = [sorted(i for one in seen for i in one[at:at + BATCH]) for at in range(0, len(sampler), BATCH)]
    whole = BATCH * runtime.size
    check("each step is the next piece of one order", all(step == sorted(order[i * whole:(i + 1) * whole]) for i, step in enumerate(steps[:-1])))
    stream = DDictIterableDataset(data, BATCH, seed=4)
    stream.set_epoch(EPOCH)
    mine = epoch_read(DataLoader(stream, batch_size=None, num_workers=2, multiprocessing_context="fork"))
    check("a stream gives each rank the same in the same order", gather(mine) == seen)

    near = LocalSampler(data, seed=4)
    runtime.barrier()
    before = counts(d)
    runtime.barrier()
    seen = gather(epoch_read(TorchLoader(data, batch_size=BATCH, sampler=near)))
    runtime.barrier()
    local, remote = (b - a for a, b in zip(before, counts(d)))
    said = gather(near.stats)
    runtime.barrier()
    check("an epoch of the own node first is each sample once", read_once(seen))
    said_local, said_remote = (sum(s[k] for s in said) for k in ("local", "remote"))
    owners = data.owners()
    most = sum(min(owners.count(n), near.nodes.count(n) * len(near)) for n in set(near.nodes))
    check("as much is read on its own node as there is", said_local >= min(most, COUNT) - runtime.size, said, most)
    some = 20 * runtime.size  # by which the ranks met, where that goes through the dictionary
    check("and the dictionary counted the same", said_local <= local <= said_local + some and said_remote <= remote <= said_remote + some,
          [local, remote], [said_local, said_remote])
    if runtime.rank == 0:
        print(f"share of local reads: {said_local / (said_local + said_remote):.2f}", flush=True)

    images = ImageFolder(folder, loader=lambda f: (os.path.basename(f.name), f.read()), d=d)
    texts = list(images)
    check("files of a folder are read by all ranks", [(name, label) for (name, _), label in texts] == [(f"{i}.png", c) for c in range(3) for i in range(9)], texts)
    check("and are whole", all(body == bytes([97 + label]) * (1000 + int(name[0])) for (name, body), label in texts))

    if runtime.rank == runtime.size - 1:
        save({"weights": torch.arange(1e5), "step": 1}, ("checkpoint", 1), d)
    state = load(("checkpoint", 1), d, wait=True, timeout=60)
    check("a checkpoint of the last rank is read by all", torch.equal(state["weights"], torch.arange(1e5)) and state["step"] == 1)


def stop(path):
    data = DDictDataset(Samples(), d=ddict.attach())
    loader = DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data, seed=7), num_workers=1)
    loader.sampler.set_epoch(EPOCH)
    batches, seen = iter(loader), []
    for _ in range(len(loader) // 2):
        seen += next(batches)[1].tolist()
    seen = gather(seen)
    if runtime.rank == 0:
        with open(path, "w") as f:
            json.dump({"state": loader.state_dict(), "seen": [i for one in seen for i in one]}, f)
        print(f"{runtime.size} ranks stopped after {len(seen[0])} samples each", flush=True)


def resume(path):
    with open(path) as f:
        kept = json.load(f)
    data = DDictDataset(Samples(), d=ddict.attach())
    loader = DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data), num_workers=1)
    loader.load_state_dict(kept["state"])
    check("the epoch is known", loader.sampler.epoch == EPOCH)
    seen = gather(epoch_read(loader))
    check("each sample was read once", read_once([[*kept["seen"], *(i for one in seen for i in one)]]))


torch.set_num_threads(1)
if __name__ == "__main__":  # Python 3.14's fork server imports this file for the loaders' workers
    {"set": whole_set, "stop": stop, "resume": resume}[sys.argv[1]](sys.argv[2])
    runtime.barrier()
