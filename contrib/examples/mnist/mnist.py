#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Train the MNIST network with several learning rates at once, with the images in the job's dictionary.

  srun -N2 --ntasks-per-node=1 --ddict-managers=4 --ddict-mem=1G python3 mnist.py --data DIR --mnist-workers 4

The ranks together put the images into the dictionary and start the workers, each a separate process with its own learning rate. Workers read their batches from the
dictionary, take a GPU from their node's queue, and report to rank 0 through a queue of the job.
"""
import argparse
import gzip
import itertools
import math
import multiprocessing
import os
import queue
import sys
import urllib.request

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import StepLR

import ddict
from ddict import runtime
from ddict.torch import DDictDataset, DataLoader, collate

BATCH = 64
DEVICE_S = 10     # seconds that a worker waits for a GPU; then it trains on the CPU
RESULT_S = 7200   # seconds that rank 0 waits for the next worker's result, and other ranks for the end
FILES = {"train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"), "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")}
HELD_OUT = 0.15   # share of the images, if there is only one of the two sets
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
DOWNLOAD_S = 60   # seconds that a server may be silent


def download(folder, mirror):
    """Fetch MNIST's files that the folder has not, and unpack them, with the lines that torchvision prints."""
    os.makedirs(folder, exist_ok=True)
    for name in (n for pair in FILES.values() for n in pair):
        path, url = os.path.join(folder, name), mirror.rstrip("/") + "/" + name + ".gz"
        if os.path.exists(path) or os.path.exists(path + ".gz"):
            continue
        print(f"Downloading {url}\nDownloading {url} to {path}.gz", flush=True)
        with urllib.request.urlopen(url, timeout=DOWNLOAD_S) as source, open(path + ".gz.part", "wb") as out:
            while piece := source.read(1 << 20):
                out.write(piece)
        os.rename(path + ".gz.part", path + ".gz")
        print(f"100.0%\nExtracting {path}.gz to {folder}\n", flush=True)
        with gzip.open(path + ".gz", "rb") as packed, open(path + ".part", "wb") as out:
            out.write(packed.read())
        os.rename(path + ".part", path)


def download_once(args):
    """Rank 0 downloads; the others wait. An error of rank 0 ends all."""
    error = ""
    if runtime.rank == 0:
        try:
            download(args.data, args.mirror)
        except OSError as e:
            error = f"no MNIST from {args.mirror}: {e}"
    error = runtime.exchange(error.encode(), RESULT_S)[0].decode()
    if error:
        sys.exit(error)


def idx_open(folder, name):
    path = os.path.join(folder, name)
    return gzip.open(path + ".gz", "rb") if os.path.exists(path + ".gz") else open(path, "rb")


def idx_read(folder, name):
    """Read an IDX file of bytes, plain or gzip, as a tensor."""
    with idx_open(folder, name) as f:
        zero, kind, dims = int.from_bytes(f.read(2), "big"), f.read(1)[0], f.read(1)[0]
        if zero or kind != 8:
            sys.exit(f"{name}: not an IDX file of unsigned bytes")
        shape = [int.from_bytes(f.read(4), "big") for _ in range(dims)]
        return torch.frombuffer(bytearray(f.read()), dtype=torch.uint8).view(shape)


class Mnist(torch.utils.data.Dataset):
    """(image, label) from files, which only the ranks read that put images into the dictionary."""

    def __init__(self, folder, kind):
        there = [k for k, names in FILES.items() if any(os.path.exists(os.path.join(folder, names[0] + end)) for end in ("", ".gz"))]
        if not there:
            sys.exit(f"{folder}: neither {FILES['train'][0]} nor {FILES['test'][0]} (or .gz) is there")
        self.images, self.labels = (idx_read(folder, name) for name in FILES[kind if len(there) == 2 else there[0]])
        if len(there) == 1:
            order = torch.randperm(len(self.images), generator=torch.Generator().manual_seed(1))
            cut = int(len(order) * HELD_OUT)
            mine = order[cut:] if kind == "train" else order[:cut]
            self.images, self.labels = self.images[mine], self.labels[mine]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], int(self.labels[i])


def batch(samples):
    """Convert one block of bytes from the dictionary to the network's input."""
    images, labels = collate(samples)
    return (images.unsqueeze(1).float() / 255 - 0.1307) / 0.3081, labels


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = self.dropout2(F.relu(self.fc1(torch.flatten(self.dropout1(x), 1))))
        return F.log_softmax(self.fc2(x), dim=1)


def train(rank, model, device, loader, optimizer, epoch, limit):
    model.train()
    for i, (x, y) in enumerate(itertools.islice(loader, limit)):
        optimizer.zero_grad()
        loss = F.nll_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        if i % 100 == 0:
            print(f"Rank {rank} Train Epoch: {epoch} [{i * len(y)}/{len(loader.dataset)} ({100 * i / len(loader):.0f}%)]\tLoss: {loss.item():.6f}",
                  flush=True)


def accuracy(model, device, loader):
    model.eval()
    with torch.no_grad():
        right = sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def device_queue(count):
    """The GPUs of this node, which its workers take."""
    devices = ddict.Queue(f"{runtime.group} devices of {runtime.node}")
    if runtime.local_rank == 0:
        for device in range(count):
            devices.put(device)
    return devices


def device_take(devices, use_cuda):
    """A GPU of this node, or the CPU if none is free in time."""
    if use_cuda:
        try:
            return torch.device("cuda", devices.get(timeout=DEVICE_S))
        except queue.Empty:
            pass
    return torch.device("cpu")


def worker(rank, args, sets, devices, results):
    """A worker process with one learning rate: from 0.5 for the first worker to 1.5 for the last."""
    torch.set_num_threads(1)
    lr = rank / (args.mnist_workers - 1) + 0.5
    device = device_take(devices, args.cuda)
    torch.manual_seed(math.floor(4099 * lr))
    words = dict(num_workers=4, pin_memory=True, shuffle=True, multiprocessing_context="spawn", persistent_workers=True) if device.type == "cuda" else {}
    train_loader = DataLoader(sets[0], batch_size=BATCH, collate_fn=batch, **words)
    test_loader = DataLoader(sets[1], batch_size=500, collate_fn=batch)
    model = Net().to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=lr)
    schedule = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, args.epochs + 1):
        train(rank, model, device, train_loader, optimizer, epoch, args.max_batches)
        schedule.step()
    results.put((rank, lr, str(device), runtime.node_name(runtime.node_id) if runtime.node_id is not None else runtime.node,
                 accuracy(model, device, test_loader)))


def results_print(results, args):
    """On rank 0: print the reports of all nodes' workers. Returns the best accuracy, or None if a worker failed."""
    rows = []
    while len(rows) < args.mnist_workers:
        row = results.get(timeout=RESULT_S)
        if row[0] is None:
            return print(row[1], file=sys.stderr, flush=True)
        rows.append(row)
    for rank, lr, device, node, right in sorted(rows):
        print(f"Rank {rank} lr {lr:.3f} on {node} ({device}): Test accuracy: {100 * right:.2f}%", flush=True)
    return max(row[4] for row in rows)


def arguments():
    p = argparse.ArgumentParser(description="MNIST with several learning rates, the images in the dictionary")
    p.add_argument("--mnist-workers", type=int, default=2, help="number of mnist workers (default: 2)")
    p.add_argument("--devices-per-node", type=int, default=1, help="number of devices per node (default: 1)")
    p.add_argument("--no-cuda", action="store_true", help="disables CUDA training")
    p.add_argument("--epochs", type=int, default=5, metavar="N", help="number of epochs to train (default: 5)")
    p.add_argument("--dragon-dict-managers", type=int, metavar="N", help="Dragon's: here it is srun --ddict-managers=N")
    p.add_argument("--dragon-dict-mem", type=int, metavar="BYTES", help="Dragon's: here it is srun --ddict-mem=BYTES")
    p.add_argument("--data", default="../data", metavar="DIR", help="folder with MNIST's IDX files, plain or .gz (default: ../data)")
    p.add_argument("--download", action="store_true", help="rank 0 downloads the files that are not there")
    p.add_argument("--mirror", default=MIRROR, metavar="URL", help=f"where from (default: {MIRROR})")
    p.add_argument("--max-batches", type=int, metavar="N", help="train so many batches of an epoch (default: all)")
    p.add_argument("--want", type=float, default=0.0, help="fail when the best accuracy is lower than this")
    args = p.parse_args()
    if args.mnist_workers < 2:
        p.error("--mnist-workers has to be 2 or more: each has a learning rate of its own")
    args.cuda = not args.no_cuda and torch.cuda.is_available()
    return args


def dragons_say(args, d):
    """Dragon's program makes a dictionary of the size that its flags give; here srun has made it."""
    have = {"managers": d.info["managers"], "mem": sum(s["total_bytes"] for s in d.stats)}
    for name, value in (("managers", args.dragon_dict_managers), ("mem", args.dragon_dict_mem)):
        if value is not None:
            print(f"--dragon-dict-{name}={value} is srun's --ddict-{name}={value} here; this dictionary was started with {have[name]}", flush=True)


def main():
    args = arguments()
    d = ddict.attach()
    if runtime.rank == 0:
        print(f"Number of nodes: {d.info['nodes']}\nNumber of MNIST workers: {args.mnist_workers}\n"
              f"Number of {'ddict' if args.dragon_dict_managers is None else 'dragon dict'} managers: {d.info['managers']}", flush=True)
        dragons_say(args, d)
    if args.download:
        download_once(args)
    sets = [DDictDataset(Mnist(args.data, kind), d=d) for kind in ("train", "test")]
    devices = device_queue(args.devices_per_node)
    results = ddict.Queue(f"{runtime.group} results")

    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=worker, args=(rank, args, sets, devices, results))
               for rank in range(runtime.rank, args.mnist_workers, runtime.size)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
        if w.exitcode:
            results.put((None, f"a worker on {runtime.node} ended with {w.exitcode}"))
    best = results_print(results, args) if runtime.rank == 0 else 1.0
    runtime.barrier(RESULT_S)
    if runtime.rank == 0:
        for data in sets:
            data.stop()
    runtime.finalize()
    if best is None or best < args.want:
        sys.exit("the best accuracy is below what is wanted" if best else 1)


if __name__ == "__main__":
    main()
