#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the time to read an epoch's data from the dictionary, from files, and from the memory of each rank's process, in turn.

  srun -N2 --ntasks-per-node=1 --ddict-mem=3G python3 compare.py train.tar FOLDER

FOLDER has the tar's images as files. An epoch is that of train.py (same sampler, loader with workers, batches) without a model and, except in rows that say so,
without decoding: the bytes of each image are read and one byte of each page is touched. All ranks begin together, and the epoch ends when the last rank is done.
All ways have to give the same checksum.
"""
import argparse
import contextlib
import io
import itertools
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

from ddict import runtime
from ddict.torch import DataLoader, DistributedSampler, ImageFolder, collate
from train import Decode, Files

PAGE = 4096


def touch(file):
    return sum(memoryview(file.read())[::PAGE])


def same(value):
    return value


class Memory(Files):
    """All files, read once into this process. Workers inherit them by fork."""

    def __init__(self, root, transform, loader):
        super().__init__(root, transform, loader)
        self.values = []
        for path, _ in self.files:
            with open(path, "rb") as f:
                self.values.append(f.read())

    def __getitem__(self, i):
        return self.transform(self.loader(io.BytesIO(self.values[i]))), self.files[i][1]


def forget(data):
    """Drop the files from this machine's page cache, unless another process uses them."""
    for path, _ in data.files:
        f = os.open(path, os.O_RDONLY)
        os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(f)


def bytes_read():
    """What this process and its loader's have read by now, of files and pipes."""
    total = 0
    with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as f:
        for process in ("self", *f.read().split()):
            with contextlib.suppress(OSError), open(f"/proc/{process}/io") as io_:
                total += int(io_.readline().split()[1])
    return total


class Side:
    def __init__(self, name, data, args, before=None, limit=None):
        self.name, self.data, self.before, self.limit, self.times = name, data, before, limit, []
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=args.batch_size, sampler=self.sampler, num_workers=args.workers, persistent_workers=args.workers > 0, collate_fn=collate)

    def epoch(self, number):
        """Seconds, number of images, and the checksum of all ranks."""
        self.sampler.set_epoch(number)
        if self.before is not None and dist.get_rank() == 0:
            self.before(self.data)
        dist.barrier()
        read = bytes_read()
        began, seen = time.perf_counter(), torch.zeros(3, dtype=torch.float64)
        for values, labels in itertools.islice(self.loader, self.limit):
            seen += torch.tensor([len(labels), 0 if values.is_floating_point() else values.sum().item(), 0], dtype=torch.float64)
        took = time.perf_counter() - began
        seen[2] = bytes_read() - read
        dist.all_reduce(seen)
        self.times.append(took)
        *counted, self.read = map(int, seen.tolist())
        return took, *counted


def in_turn(sides, numbers, first):
    for number in numbers:
        sums = set()
        for side in sides[number % len(sides):] + sides[:number % len(sides)]:
            took, side.seen, total = side.epoch(number)
            if total:
                sums.add((side.seen, total))
            if first:
                print("%s: %.2f s" % (side.name, took), flush=True)
        if len(sums) != 1:
            sys.exit("compare: the sides saw different bytes: %s" % sums)


def opened(what, make):
    dist.barrier()
    began = time.perf_counter()
    data = make()
    dist.barrier()
    if dist.get_rank() == 0:
        print("%s: %.2f s" % (what, time.perf_counter() - began), flush=True)
    return data


def main():
    p = argparse.ArgumentParser(description="An epoch's data from the dictionary, from files and from memory")
    p.add_argument("tar")
    p.add_argument("folder")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--workers", type=int, default=2, help="loader processes of each rank and side (default 2)")
    p.add_argument("--decode", type=int, default=0, metavar="BATCHES", help="so many batches of each rank with decoding, too")
    p.add_argument("--image-size", type=int, default=224)
    args = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    first, ranks = dist.get_rank() == 0, dist.get_world_size()
    staged = opened("staged into the dictionary", lambda: ImageFolder(args.tar, same, loader=touch))
    memory = opened("read into the memory of each rank", lambda: Memory(args.folder, same, touch))
    files = Files(args.folder, same, touch)
    size = sum(map(len, memory.values))
    sides = [Side("dictionary", staged, args), Side("files, in the page cache", files, args), Side("files, not in the page cache", files, args, forget), Side("memory", memory, args)]
    if args.decode:
        decode = Decode(args.image_size)
        sides += [Side("dictionary, decoded", ImageFolder(args.tar, decode), args, None, args.decode), Side("files in the page cache, decoded", Files(args.folder, decode), args, None, args.decode)]
    if first:
        print("%d ranks on %d nodes, %d images, %.1f MB, batches of %d, %d workers a rank" % (ranks, runtime.nodes, len(staged), size / 1e6, args.batch_size, args.workers), flush=True)
    in_turn(sides, range(args.rounds), first)
    if first:
        staged.dict.freeze()
    dist.barrier()
    frozen = Side("dictionary, frozen", staged, args)
    in_turn([frozen], [0], first)  # now each node caches values that it reads from other nodes
    frozen.times.clear()
    sides.append(frozen)
    in_turn([s for s in sides[1:] if s.limit is None], range(args.rounds), first)
    if first:
        print("| an epoch from | images | s, median | least | most | images a second | MB/s | read by read(), of the images' bytes |\n|---|---|---|---|---|---|---|---|")
        for side in sides:
            middle = statistics.median(side.times)
            part = size * side.seen / len(staged)
            print("| %s | %d | %.2f | %.2f | %.2f | %.0f | %.0f | %.2f |" % (side.name, side.seen, middle, min(side.times), max(side.times), side.seen / middle,
                                                                            part / middle / 1e6, side.read / part))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
