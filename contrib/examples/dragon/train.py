# SPDX-License-Identifier: Apache-2.0
"""Train on MNIST out of a dictionary: DragonDataset, DataLoader, and a DistributedDataParallel model on all nodes."""

import argparse
import gzip
import os
import types

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from ddict.dragon.ai.collective_group import CollectiveGroup, RankInfo
from ddict.dragon.ai.torch.dictdataset import DragonDataset
from ddict.dragon.data.ddict import DDict
from ddict.dragon.native.machine import System

MEAN, DEVIATION = 0.1307, 0.3081
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"), ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(path):
    """The array of a file of MNIST, plain or .gz"""
    with open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz", "rb") as f:
        dims = f.read(4)[3]
        shape = np.frombuffer(f.read(4 * dims), ">u4")
        return np.frombuffer(f.read(), np.uint8).reshape(shape)


def samples(folder, most):
    """(image, label) of each image of the training set, or where it is not there of the other one"""
    for images, labels in FILES:
        paths = [os.path.join(folder, name) for name in (images, labels)]
        if all(os.path.exists(path) or os.path.exists(path + ".gz") for path in paths):
            images, labels = map(idx, paths)
            pixels = torch.from_numpy(images[:most].astype(np.float32) / 255 - MEAN).unsqueeze(1) / DEVIATION
            return list(zip(pixels, labels[:most].tolist()))
    raise SystemExit(f"{folder} has none of {' '.join(name for pair in FILES for name in pair)}, also not as .gz")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(784, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        return self.out(F.relu(self.hidden(x.flatten(1))))


def accuracy(model, loader):
    right = 0
    with torch.no_grad():
        for images, labels in loader:
            right += int((model(images).argmax(1) == labels).sum())
    return right / len(loader.dataset)


def train(data, test, results, epochs):
    """What each rank does"""
    me = RankInfo()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://{me.master_addr}:{me.master_port}", world_size=me.world_size, rank=me.my_rank)
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    sampler = DistributedSampler(data, me.world_size, me.my_rank)
    loader = DataLoader(data, batch_size=32, sampler=sampler, num_workers=1)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        seen, total = 0, 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            seen, total = seen + len(labels), total + loss.item() * len(labels)
        print(f"rank {me.my_rank} of {me.world_size} epoch {epoch}: {seen} images, loss {total / seen:.3f}", flush=True)
    if me.my_rank == 0:
        results["accuracy"] = accuracy(model.module, DataLoader(test, batch_size=256))
    results["host", me.my_rank] = os.uname().nodename
    results["weights", me.my_rank] = model.module.out.weight.detach()
    dist.barrier()
    dist.destroy_process_group()


def main():
    options = argparse.ArgumentParser(description="MNIST in a DragonDataset")
    options.add_argument("--data", default="../data", help="folder with MNIST's files")
    options.add_argument("--images", type=int, default=60000, help="take so many at most")
    options.add_argument("--epochs", type=int, default=2)
    options.add_argument("--port", type=int, default=29500)
    args = options.parse_args()

    system = System()
    all_samples = samples(args.data, args.images)
    held = len(all_samples) // 6
    dict_args = types.SimpleNamespace(managers_per_node=1, n_nodes=system.nnodes, total_mem=system.nnodes * 256 * 1024 * 1024)
    data = DragonDataset(all_samples[held:], dragon_dict_args=dict_args)
    results = DDict(1, system.nnodes, system.nnodes * 16 * 1024 * 1024)
    for i in range(held):
        results["test", i] = all_samples[i]
    test = DragonDataset(results, dataset_keys=[("test", i) for i in range(held)])
    print("images", len(data), "held out", len(test), "managers", len(data.dict.stats))

    group = CollectiveGroup(training_fn=train, training_args=(data, test, results, args.epochs), policies=system.hostname_policies(), port=args.port)
    group.init()
    group.start()
    group.join()
    group.close()

    ranks = range(system.nnodes)
    print("hosts", len({results["host", rank] for rank in ranks}))
    print("same weights", all(torch.equal(results["weights", rank], results["weights", 0]) for rank in ranks))
    print(f"accuracy {results['accuracy']:.3f}")
    data.stop()
    results.destroy()


if __name__ == "__main__":
    main()
