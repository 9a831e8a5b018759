#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""MNIST with DistributedDataParallel and env://, as in a user's existing script. Only mnist() deals with the dictionary.

  srun -N2 --ntasks-per-node=2 --ddict-mem=256M apptainer exec train.sif python mnist_ddp.py --data DIR
"""
import argparse
import glob
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import ddict
from ddict.torch import DDictDataset


def mnist(folder, which, transform):
    """Replaces torchvision's datasets.MNIST(folder, train=which == "train", transform=transform): one rank reads the same files, for all ranks."""
    return DDictDataset(ddict.load(sorted(glob.glob(os.path.join(folder, which + "-*-ubyte*"))), prefix=which + "/", set=which, here=True), transform=transform)


def transform(image):
    return torch.from_numpy(image).float().div(255).sub(0.1307).div(0.3081).unsqueeze(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3), nn.Conv2d(16, 32, 3)
        self.fc1, self.fc2 = nn.Linear(32 * 5 * 5, 64), nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = torch.flatten(F.max_pool2d(F.relu(self.conv2(x)), 2), 1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(F.dropout(x, 0.25, self.training)))), dim=1)


def train(args, model, device, loader, optimizer, epoch, rank):
    model.train()
    for step, (images, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        if rank == 0 and step % args.log_interval == 0:
            print(f"Train Epoch: {epoch} [{step * args.batch_size}/{len(loader.sampler)} ({100 * step // len(loader)}%)]\tLoss: {loss.item():.6f}", flush=True)


def test(model, device, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in loader:
            right += (model(images.to(device)).argmax(1) == labels.to(device)).sum().item()
    print(f"Test set: Accuracy: {right}/{len(loader.dataset)} ({100 * right / len(loader.dataset):.2f}%)", flush=True)
    return right / len(loader.dataset)


def main():
    p = argparse.ArgumentParser(description="MNIST by DDP")
    p.add_argument("--data", required=True, help="folder of MNIST's four files, plain or .gz")
    p.add_argument("--batch-size", type=int, default=64, help="images of a step and rank (default 64)")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=0.5)
    p.add_argument("--gamma", type=float, default=0.7)
    p.add_argument("--workers", type=int, default=1, help="loader processes of a rank (default 1)")
    p.add_argument("--log-interval", type=int, default=50, metavar="STEPS")
    p.add_argument("--want", type=float, default=0.0, help="fail when the last accuracy is lower than this")
    args = p.parse_args()

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", init_method="env://")
    rank, world, local_rank = dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(1)

    train_data = mnist(args.data, "train", transform)
    sampler = DistributedSampler(train_data, world, rank)
    loader = DataLoader(train_data, args.batch_size, sampler=sampler, num_workers=args.workers)
    test_loader = DataLoader(mnist(args.data, "t10k", transform), 500)
    if rank == 0:
        print(f"{world} ranks on {world // int(os.environ['LOCAL_WORLD_SIZE'])} nodes, {len(train_data)} images", flush=True)

    model = DistributedDataParallel(Net().to(device), device_ids=[local_rank] if device.type == "cuda" else None)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    accuracy = 1.0
    for epoch in range(1, args.epochs + 1):
        sampler.set_epoch(epoch)
        train(args, model, device, loader, optimizer, epoch, rank)
        if rank == 0:
            accuracy = test(model.module, device, test_loader)
        scheduler.step()
    dist.barrier()
    dist.destroy_process_group()
    if accuracy < args.want:
        sys.exit(f"the accuracy is below {100 * args.want:.2f}%")


if __name__ == "__main__":
    main()
