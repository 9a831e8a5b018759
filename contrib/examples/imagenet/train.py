#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Train ResNet-18 with DistributedDataParallel on images in the job's dictionary.

  srun -N2 --ntasks-per-node=1 --ddict-mem=4G --ddict-load=train.tar python3 train.py train

The argument is a set's name, or a folder, tar or s3:// URL of images by classes, which is loaded first. --files reads a folder from the file system instead, in every
epoch. --val is validated on after each epoch: the same forms, or ImageNet's val.tar, whose classes are in the devkit (devkit.py).
"""
import argparse
import io
import itertools
import os
import sys
import time

import numpy
import torch
import torch.distributed as dist
from PIL import Image

import ddict
from ddict import runtime
from ddict.torch import DataLoader, DDictDataset, DistributedSampler, ImageFolder, collate
from ddict.torch.images import pil_loader
from devkit import validation_wnids
from resnet import resnet18


class Decode:
    """Decode an image to a tensor: its central square, scaled to `size` pixels a side; with flip at random flipped left to right."""

    def __init__(self, size, flip=True):
        self.size, self.flip = size, flip

    def __call__(self, image):
        w, h = image.size
        side = min(w, h)
        left, top = (w - side) // 2, (h - side) // 2
        image = image.resize((self.size, self.size), Image.BILINEAR, (left, top, left + side, top + side))
        pixels = torch.from_numpy(numpy.asarray(image, dtype=numpy.float32)).permute(2, 0, 1) / 128 - 1
        return pixels.flip(2) if self.flip and torch.rand(()) < 0.5 else pixels


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


class Labelled(torch.utils.data.Dataset):
    """Images that are in no folders, as val.tar has them, in the order of their names; their labels come from a file of the devkit."""

    def __init__(self, data, labels_file, class_to_idx, transform):
        self.data, self.transform = data, transform
        self.order = sorted(range(len(data)), key=lambda i: data.keys[i])
        wnids = validation_wnids(labels_file, [data.keys[i] for i in self.order])
        strange = sorted(set(wnids) - set(class_to_idx))
        if strange:
            sys.exit("%s: %d classes that there are no training images of, the first is %s" % (labels_file, len(strange), strange[0]))
        self.labels = [class_to_idx[w] for w in wnids]

    def __len__(self):
        return len(self.order)

    def __getitem__(self, i):
        return self.__getitems__([i])[0]

    def __getitems__(self, indices):
        """Fetch a batch in one request."""
        values = self.data.__getitems__([self.order[i] for i in indices])
        return [(self.transform(pil_loader(io.BytesIO(v))), self.labels[i]) for i, v in zip(indices, values)]


def validation_data(args, class_to_idx):
    """The images of --val with the numbers that the training images' classes have."""
    transform = Decode(args.image_size, flip=False)
    if args.val_labels is None:
        data = ImageFolder(args.val, transform)
        if data.classes != list(class_to_idx):
            sys.exit("%s: not the classes of %s" % (args.val, args.data))
        return data
    if args.val not in ddict.attach().sets():
        ddict.load(args.val, prefix=args.val + "/", set=args.val)
    return Labelled(DDictDataset(args.val), args.val_labels, class_to_idx, transform)


def optimizer_of(args, model):
    if args.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), lr=args.lr if args.lr is not None else 0.001)
    return torch.optim.SGD(model.parameters(), lr=args.lr if args.lr is not None else 0.02, momentum=0.9)


def epoch_run(loader, model, optimizer, device, args, epoch):
    """Images, seconds, seconds of these spent waiting for data, mean loss, and accuracy of this rank. Rank 0 prints the loss of each --log-interval steps."""
    model.train()
    began = asked = time.perf_counter()
    seen, waited, loss_sum, right, n = 0, 0.0, 0.0, 0, 0
    steps = len(loader) if args.max_batches is None else min(len(loader), args.max_batches)
    for images, labels in itertools.islice(loader, args.max_batches):
        waited += time.perf_counter() - asked
        images, labels = images.to(device, non_blocking=True), torch.as_tensor(labels).to(device)
        scores = model(images)
        loss = torch.nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if n % args.log_interval == 0 and dist.get_rank() == 0:
            print("Epoch [%d/%d], Step [%d/%d], Loss: %.4f" % (epoch + 1, args.epochs, n + 1, steps, loss.item()), flush=True)
        seen += len(labels)
        n += 1
        loss_sum += loss.item()
        right += (scores.argmax(1) == labels).sum().item()
        asked = time.perf_counter()
    return seen, time.perf_counter() - began, waited, loss_sum / max(n, 1), right


def validate(loader, model, device):
    """Images, sum of the losses, and how many of the best and of the best five guesses of this rank are right."""
    model.eval()
    seen, loss, top1, top5 = 0, 0.0, 0, 0
    with torch.no_grad():
        for images, labels in loader:
            labels = torch.as_tensor(labels).to(device)
            scores = model(images.to(device, non_blocking=True))
            loss += torch.nn.functional.cross_entropy(scores, labels, reduction="sum").item()
            hits = scores.topk(min(5, scores.shape[1]), dim=1).indices == labels[:, None]
            seen, top1, top5 = seen + len(labels), top1 + hits[:, 0].sum().item(), top5 + hits.sum().item()
    return seen, loss, top1, top5


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


def arguments():
    p = argparse.ArgumentParser(description="ResNet-18 by DDP from the job's dictionary")
    p.add_argument("data", help="name of a set, or a folder, tar or s3:// of images by classes")
    p.add_argument("--files", action="store_true", help="data is a folder, to be read from the file system")
    p.add_argument("--val", metavar="DATA", help="validate on this after each epoch")
    p.add_argument("--val-labels", metavar="FILE", help="the images of --val are in no folders of classes: the devkit, as tar.gz or folder, or a text of WNIDs")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=32, help="of each rank (default 32)")
    p.add_argument("--image-size", type=int, default=224)
    p.add_argument("--workers", type=int, default=2, help="loader processes of each rank (default 2)")
    p.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    p.add_argument("--lr", type=float, help="learning rate (default: 0.02 with sgd, 0.001 with adam)")
    p.add_argument("--weights", metavar="FILE", help="a state_dict of this network to begin with, as --save makes it (default: random)")
    p.add_argument("--log-interval", type=int, default=100, metavar="STEPS", help="print the loss of each of so many steps (default 100)")
    p.add_argument("--max-batches", type=int, help="of an epoch and rank (default: all)")
    p.add_argument("--read-only", action="store_true", help="read and decode without training")
    p.add_argument("--save", metavar="FILE", help="the network's state_dict, after each epoch (for ../transfer)")
    args = p.parse_args()
    if args.read_only and (args.save or args.val):
        p.error("--read-only trains nothing to save or to validate")
    if args.val_labels and not args.val:
        p.error("--val-labels are those of --val")
    return args


def save(model, path):
    """The file is a whole one at any time."""
    torch.save(model.module.state_dict(), path + ".part")
    os.replace(path + ".part", path)


def report(epoch, seen, took, waited, loss, right):
    seen, waited, loss, right = sums(seen, waited, loss, right)
    ranks = dist.get_world_size()
    if dist.get_rank() == 0:
        print("Epoch %d: loss %.4f, accuracy %.1f%%, %d images in %.2f s, %.1f a second, %.1f %% of it waiting for data"
              % (epoch, loss / ranks, 100 * right / max(seen, 1), seen, took, seen / took, 100 * waited / ranks / took), flush=True)


def main():
    args = arguments()
    torch.manual_seed(1)
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    rank, world = dist.get_rank(), dist.get_world_size()
    began = time.perf_counter()
    transform = Decode(args.image_size)
    data = Files(args.data, transform) if args.files else ImageFolder(args.data, transform)
    if rank == 0:
        print("%d ranks on %d nodes, %d images of %d classes from %s, opened in %.2f s"
              % (world, runtime.nodes, len(data), len(data.classes), "files" if args.files else "the dictionary", time.perf_counter() - began), flush=True)
    sampler = DistributedSampler(data)
    words = dict(batch_size=args.batch_size, num_workers=args.workers, pin_memory=cuda, collate_fn=collate, persistent_workers=args.workers > 0)
    loader = DataLoader(data, sampler=sampler, drop_last=True, **words)
    val_loader = None
    if args.val:  # each image once, by one of the ranks
        val = validation_data(args, {c: i for i, c in enumerate(data.classes)})
        val_loader = DataLoader(val, sampler=range(rank, len(val), world), **words)
    net = resnet18(len(data.classes))
    if args.weights:
        net.load_state_dict(torch.load(args.weights, map_location="cpu"))
    model = torch.nn.parallel.DistributedDataParallel(net.to(device))
    optimizer = optimizer_of(args, model)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        if args.read_only:
            seen, took = read_alone(loader, args.max_batches)
            seen, = sums(seen)
            if rank == 0:
                print("Epoch %d: read %d images in %.2f s, %.1f a second" % (epoch, seen, took, seen / took), flush=True)
            continue
        report(epoch, *epoch_run(loader, model, optimizer, device, args, epoch))
        if val_loader is not None:
            seen, loss, top1, top5 = sums(*validate(val_loader, model.module, device))
            if rank == 0:
                print("Validation: loss %.4f, top-1 %.1f%%, top-5 %.1f%%, %d images" % (loss / seen, 100 * top1 / seen, 100 * top5 / seen, seen), flush=True)
        if args.save and rank == 0:
            save(model, args.save)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
