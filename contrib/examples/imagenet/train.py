#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Train ResNet-18 with DistributedDataParallel on images in the job's dictionary.

  srun -N2 --ntasks-per-node=1 --ddict-mem=4G --ddict-load=train.tar python3 train.py train

The argument is a set's name, or a folder, tar or s3:// URL of images by classes, which is loaded first. --files reads a folder from the file system instead, in every
epoch.
"""
import argparse
import itertools
import os
import time

import numpy
import torch
import torch.distributed as dist
from PIL import Image

from ddict import runtime
from ddict.torch import DataLoader, DistributedSampler, ImageFolder, collate
from ddict.torch.images import pil_loader
from resnet import resnet18


class Decode:
    """Decode an image to a tensor: its central square, scaled to `size` pixels a side; at random flipped left to right."""

    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        w, h = image.size
        side = min(w, h)
        left, top = (w - side) // 2, (h - side) // 2
        image = image.resize((self.size, self.size), Image.BILINEAR, (left, top, left + side, top + side))
        pixels = torch.from_numpy(numpy.asarray(image, dtype=numpy.float32)).permute(2, 0, 1) / 128 - 1
        return pixels.flip(2) if torch.rand(()) < 0.5 else pixels


class Files(torch.utils.data.Dataset):
    """The same images from a folder; each is opened and read every time it is used."""

    def __init__(self, root, transform, loader=pil_loader):
        self.classes = sorted(e.name for e in os.scandir(root) if e.is_dir())
        self.files = [(os.path.join(root, c, n), i) for i, c in enumerate(self.classes) for n in sorted(os.listdir(os.path.join(root, c)))]
        self.transform, self.loader = transform, loader

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path, label = self.files[i]
        with open(path, "rb") as f:
            return self.transform(self.loader(f)), label


def epoch_run(loader, model, optimizer, device, limit):
    """Images, seconds, seconds of these spent waiting for data, mean loss, and accuracy of this rank."""
    began = asked = time.perf_counter()
    seen, waited, loss_sum, right, n = 0, 0.0, 0.0, 0, 0
    for images, labels in itertools.islice(loader, limit):
        waited += time.perf_counter() - asked
        images, labels = images.to(device, non_blocking=True), torch.as_tensor(labels).to(device)
        scores = model(images)
        loss = torch.nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        seen += len(labels)
        n += 1
        loss_sum += loss.item()
        right += (scores.argmax(1) == labels).sum().item()
        asked = time.perf_counter()
    return seen, time.perf_counter() - began, waited, loss_sum / max(n, 1), right


def read_alone(loader, limit):
    """The same epoch without a model."""
    began, seen = time.perf_counter(), 0
    for _, labels in itertools.islice(loader, limit):
        seen += len(labels)
    return seen, time.perf_counter() - began


def sums(*values):
    t = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(t)
    return t.tolist()


def main():
    p = argparse.ArgumentParser(description="ResNet-18 by DDP from the job's dictionary")
    p.add_argument("data", help="name of a set, or a folder, tar or s3:// of images by classes")
    p.add_argument("--files", action="store_true", help="data is a folder, to be read from the file system")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=32, help="of each rank (default 32)")
    p.add_argument("--image-size", type=int, default=224)
    p.add_argument("--workers", type=int, default=2, help="loader processes of each rank (default 2)")
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--max-batches", type=int, help="of an epoch and rank (default: all)")
    p.add_argument("--read-only", action="store_true", help="read and decode without training")
    p.add_argument("--save", metavar="FILE", help="the network's state_dict, at the end (for ../transfer)")
    args = p.parse_args()
    if args.save and args.read_only:
        p.error("--read-only trains nothing that --save could save")

    torch.manual_seed(1)
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    began = time.perf_counter()
    transform = Decode(args.image_size)
    data = Files(args.data, transform) if args.files else ImageFolder(args.data, transform)
    first = dist.get_rank() == 0
    if first:
        print("%d ranks on %d nodes, %d images of %d classes from %s, opened in %.2f s"
              % (dist.get_world_size(), runtime.nodes, len(data), len(data.classes), "files" if args.files else "the dictionary", time.perf_counter() - began), flush=True)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler, num_workers=args.workers, pin_memory=cuda, drop_last=True, collate_fn=collate,
                        persistent_workers=args.workers > 0)
    model = torch.nn.parallel.DistributedDataParallel(resnet18(len(data.classes)).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        if args.read_only:
            seen, took = read_alone(loader, args.max_batches)
            seen, = sums(seen)
            if first:
                print("Epoch %d: read %d images in %.2f s, %.1f a second" % (epoch, seen, took, seen / took), flush=True)
            continue
        seen, took, waited, loss, right = epoch_run(loader, model, optimizer, device, args.max_batches)
        seen, waited, loss, right = sums(seen, waited, loss, right)
        ranks = dist.get_world_size()
        if first:
            print("Epoch %d: loss %.4f, accuracy %.1f%%, %d images in %.2f s, %.1f a second, %.1f %% of it waiting for data"
                  % (epoch, loss / ranks, 100 * right / max(seen, 1), seen, took, seen / took, 100 * waited / ranks / took), flush=True)
    if args.save and first:
        torch.save(model.module.state_dict(), args.save + ".part")
        os.replace(args.save + ".part", args.save)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
