#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Train a small CNN on several nodes with the images in the job's dictionary.

  srun -N2 --ntasks-per-node=2 --ddict-managers=4 --ddict-mem=1G python3 train.py --data DIR

Rank 0 of each node puts a share of the images into the dictionary. After that no rank opens a file: the DataLoader workers
of every rank read images of the whole set from the dictionary, in a new random order for each epoch.
"""
import argparse
import gzip
import os
import subprocess
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, SequentialSampler

import ddict


def idx_read(folder, name):
    """Read an IDX file of unsigned bytes, plain or gzip, as an array; None if it does not exist."""
    for path, opener in ((name, open), (name + ".gz", gzip.open)):
        path = os.path.join(folder, path)
        if os.path.exists(path):
            with opener(path, "rb") as f:
                head = f.read(4)
                if head[:3] != b"\0\0\x08":
                    sys.exit(f"{path}: not an IDX file of unsigned bytes")
                shape = np.frombuffer(f.read(4 * head[3]), ">u4")
                return np.frombuffer(f.read(), np.uint8).reshape(shape)
    return None


def images_load(folder):
    """(train images, train labels, held-out images, held-out labels), uint8. The same on every caller."""
    if folder is None:
        from sklearn.datasets import load_digits
        digits = load_digits()
        images, labels = (digits.images * 15).astype(np.uint8), digits.target.astype(np.uint8)
    else:
        images, labels = idx_read(folder, "train-images-idx3-ubyte"), idx_read(folder, "train-labels-idx1-ubyte")
        held, held_labels = idx_read(folder, "t10k-images-idx3-ubyte"), idx_read(folder, "t10k-labels-idx1-ubyte")
        if images is not None and held is not None:
            return images, labels, held, held_labels
        if images is None:
            images, labels = held, held_labels
        if images is None:
            sys.exit(f"{folder}: neither train-images-idx3-ubyte nor t10k-images-idx3-ubyte (or .gz) is there")
    # One set only: hold out a random 15 %.
    order = np.random.RandomState(1).permutation(len(images))
    cut = len(images) * 85 // 100
    train, held = order[:cut], order[cut:]
    return images[train], labels[train], images[held], labels[held]


class DictImages(Dataset):
    """Images in the dictionary. It is indexed by whole batches: a list of indices becomes one get_many."""

    def __init__(self, d, kind, mean=0.0, std=1.0, shift=0):
        self.d, self.kind, self.mean, self.std, self.shift = d, kind, mean, std, shift
        self.count = d[("count", kind)]

    def __len__(self):
        return self.count

    def __getitem__(self, indices):
        keys = [(self.kind, i) for i in indices]
        found = self.d.get_many(keys)
        rows = [found[k] for k in keys] if isinstance(found, dict) else list(found)
        images = torch.from_numpy(np.stack([r[0] for r in rows])).float().unsqueeze(1)
        if self.shift:  # shift by one pixel
            dy, dx = np.random.randint(-self.shift, self.shift + 1, 2)
            images = torch.roll(images, (int(dy), int(dx)), (2, 3))
        return (images - self.mean) / self.std, torch.tensor([r[1] for r in rows])


def loader(dataset, sampler, batch, workers):
    return DataLoader(dataset, sampler=BatchSampler(sampler, batch, False), batch_size=None, num_workers=workers)


class Net(nn.Module):
    def __init__(self, side):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(32 * (side // 4) ** 2, 96), nn.Linear(96, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.dropout(F.relu(self.fc1(x.flatten(1))), 0.2, self.training)
        return self.fc2(x)


def share_load(d, folder, node, nodes):
    """Put this node's share of the images: every nodes-th one from the node's number on."""
    train, train_labels, held, held_labels = images_load(folder)
    for kind, images, labels in (("x", train, train_labels), ("t", held, held_labels)):
        mine = range(node, len(images), nodes)
        d.put_many({(kind, i): (images[i], int(labels[i])) for i in mine})
        if node == 0:
            d[("count", kind)] = len(images)
    return (len(train) + len(held)) * train[0].size


reduced = []


def all_reduce(tensor, op=dist.ReduceOp.SUM):
    """As dist.all_reduce, but keep the tensor until Python ends. Otherwise a thread of gloo may hold the last reference and
    need the interpreter's lock to free it, while the thread that holds this lock destroys the process group and waits for
    gloo's thread: with torch 1.13 one exit in a few hundred hung."""
    reduced.append(tensor)
    dist.all_reduce(tensor, op)


def set_measure(d, args):
    """Read the whole training set once through this rank's workers; every rank must have seen the same bytes."""
    images = DictImages(d, "x")
    n = total = squares = 0
    for x, _ in loader(images, SequentialSampler(images), 500, args.workers):
        n, total, squares = n + x.numel(), total + x.double().sum().item(), squares + (x.double() ** 2).sum().item()
    mine = torch.tensor([float(n), total, squares], dtype=torch.float64)
    low, high = mine.clone(), mine.clone()
    all_reduce(low, dist.ReduceOp.MIN)
    all_reduce(high, dist.ReduceOp.MAX)
    if not torch.equal(low, high):
        sys.exit(f"rank {dist.get_rank()}: the ranks read different images: {low.tolist()} to {high.tolist()}")
    mean = total / n
    return mean, max((squares / n - mean * mean) ** 0.5, 1.0)


def accuracy(model, data):
    model.eval()
    right = torch.zeros(2)
    with torch.no_grad():
        for x, y in data:
            right += torch.tensor([(model(x).argmax(1) == y).sum().item(), len(y)], dtype=torch.float)
    model.train()
    all_reduce(right)
    return (right[0] / right[1]).item()


class Shard(torch.utils.data.Sampler):
    """Every world-th index, without padding, which would count some images twice."""

    def __init__(self, count, rank, world):
        self.indices = range(rank, count, world)

    def __iter__(self):
        return iter(self.indices)

    def __len__(self):
        return len(self.indices)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", help="folder with IDX files (MNIST's names, plain or .gz); default: scikit-learn's digits")
    p.add_argument("--epochs", type=int, help="default: 6, or 15 for a set of less than 5,000 images")
    p.add_argument("--batch", type=int, help="images per rank and step; default: 32, or 8 for such a small set")
    p.add_argument("--workers", type=int, default=2, help="DataLoader workers per rank")
    p.add_argument("--want", type=float, default=0.0, help="fail when the last accuracy is lower than this")
    args = p.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")  # from the environment, set by the plugin (srun --ddict-*), `ddict run -n` or torchrun
    rank, world = dist.get_rank(), dist.get_world_size()
    node, nodes = int(os.environ["GROUP_RANK"]), world // int(os.environ["LOCAL_WORLD_SIZE"])

    d = ddict.attach()
    start = time.monotonic()
    if int(os.environ["LOCAL_RANK"]) == 0:
        share_load(d, args.data, node, nodes)
    dist.barrier()
    mean, std = set_measure(d, args)
    train, held = DictImages(d, "x", mean, std), DictImages(d, "t", mean, std)
    args.epochs = args.epochs or (15 if len(train) < 5000 else 6)
    args.batch = args.batch or (8 if len(train) < 5000 else 32)
    if rank == 0:
        print(f"{world} ranks on {nodes} nodes; {len(train)} images to train on, {len(held)} held out; loaded and read "
              f"by every rank in {time.monotonic() - start:.1f} s", flush=True)

    side = train[[0]][0].shape[2]
    train.shift = 1 if side > 16 else 0
    model = DistributedDataParallel(Net(side))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    sampler = DistributedSampler(train, world, rank)
    batches = loader(train, sampler, args.batch, args.workers)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=args.epochs * len(batches))
    held_batches = loader(held, Shard(len(held), rank, world), 250, args.workers)
    best = 0.0
    for epoch in range(1, args.epochs + 1):
        sampler.set_epoch(epoch)
        start, loss_sum = time.monotonic(), torch.zeros(2)
        for x, y in batches:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            loss_sum += torch.tensor([loss.item() * len(y), len(y)])
        all_reduce(loss_sum)
        best = accuracy(model, held_batches)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss_sum[0] / loss_sum[1]:.4f}  test accuracy {100 * best:.2f} %  "
                  f"({time.monotonic() - start:.1f} s)", flush=True)
    dist.barrier()
    if rank == 0:
        subprocess.run(["ddict", "stats"], check=True)
    dist.barrier()
    dist.destroy_process_group()
    if best < args.want:
        sys.exit(f"rank {rank}: test accuracy {100 * best:.2f} % is below {100 * args.want:.2f} %")


if __name__ == "__main__":
    main()
