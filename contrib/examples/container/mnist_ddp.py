#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""MNIST with DistributedDataParallel and env://, as in a user's existing script. Only mnist() deals with the dictionary.

  srun -N2 --ntasks-per-node=2 --ddict-mem=256M apptainer exec train.sif python mnist_ddp.py --data DIR
"""
import argparse
import dataclasses
import glob
import os
import sys
import urllib.request

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import ddict
from ddict.torch import DDictDataset


def mnist(folder, which, transform):
    """Replaces torchvision's datasets.MNIST(folder, train=which == "train", transform=transform): one rank reads the same files, for all ranks."""
    return DDictDataset(ddict.load(sorted(glob.glob(os.path.join(folder, which + "-*-ubyte*"))), prefix=which + "/", set=which, here=True), transform=transform)


MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FILES = [f"{which}-{kind}-ubyte.gz" for which in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


def download(folder, mirror):
    """Fetch what the folder has not, as torchvision's datasets.MNIST(folder, download=True)."""
    os.makedirs(folder, exist_ok=True)
    for path in (os.path.join(folder, name) for name in FILES):
        if not os.path.exists(path) and not os.path.exists(path[:-3]):
            print(f"Downloading {mirror}{os.path.basename(path)} to {path}", flush=True)
            with urllib.request.urlopen(mirror + os.path.basename(path), timeout=60) as source, open(path + ".part", "wb") as out:
                out.write(source.read())
            os.replace(path + ".part", path)


def transform(image):
    return torch.from_numpy(image).float().div(255).sub(0.1307).div(0.3081).unsqueeze(0)


@dataclasses.dataclass
class Hyperparams:
    batch_size: int = 64
    epochs: int = 10
    lr: float = 1e-3
    log_interval: int = 50  # steps


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


def train(params, model, device, loader, optimizer, epoch, rank):
    model.train()
    for step, (images, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        if rank == 0 and step % params.log_interval == 0:
            print(f"Train Epoch: {epoch} [{step * params.batch_size}/{len(loader.sampler)} ({100 * step // len(loader)}%)]\tLoss: {loss.item():.6f}", flush=True)


def test(model, device, loader):
    model.eval()
    loss, right, count = 0.0, 0, len(loader.dataset)
    with torch.no_grad():
        for images, labels in loader:
            scores, labels = model(images.to(device)), labels.to(device)
            loss += F.nll_loss(scores, labels, reduction="sum").item()
            right += (scores.argmax(1) == labels).sum().item()
    print(f"\nTest set: Average loss: {loss / count:.4f}, Accuracy: {right}/{count} ({100 * right / count:.2f}%)\n", flush=True)
    return right / count


def save_model(model, path):
    torch.save(model.state_dict(), path + ".part")
    os.replace(path + ".part", path)


def arguments():
    p = argparse.ArgumentParser(description="MNIST by DDP")
    p.add_argument("--data", required=True, help="folder of MNIST's four files, plain or .gz")
    for field in dataclasses.fields(Hyperparams):
        p.add_argument("--" + field.name.replace("_", "-"), type=field.type, default=field.default, help="(default: %(default)s)")
    p.add_argument("--download", action="store_true", help="rank 0 downloads the files that are not there")
    p.add_argument("--mirror", default=MIRROR, metavar="URL", help="where from (default: %(default)s)")
    p.add_argument("--workers", type=int, default=1, help="loader processes of a rank (default 1)")
    p.add_argument("--save", metavar="FILE", default="mnist_cnn.pt", help="the network's state_dict, at the end; '' for none (default: mnist_cnn.pt)")
    p.add_argument("--want", type=float, default=0.0, help="fail when the last accuracy is lower than this")
    return p.parse_args()


def main():
    args = arguments()
    params = Hyperparams(**{f.name: getattr(args, f.name) for f in dataclasses.fields(Hyperparams)})
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", init_method="env://")
    rank, world, local_rank = dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])
    print(f"Initialized Rank:{rank} on Node Rank:{os.environ.get('GROUP_RANK', 0)}", flush=True)
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(1)

    if args.download and rank == 0:
        download(args.data, args.mirror)
    dist.barrier()
    train_data = mnist(args.data, "train", transform)
    sampler = DistributedSampler(train_data, world, rank)
    loader = DataLoader(train_data, params.batch_size, sampler=sampler, num_workers=args.workers)
    test_loader = DataLoader(mnist(args.data, "t10k", transform), 500)
    if rank == 0:
        print(f"{world} ranks on {world // int(os.environ['LOCAL_WORLD_SIZE'])} nodes, {len(train_data)} images", flush=True)

    model = DistributedDataParallel(Net().to(device), device_ids=[local_rank] if device.type == "cuda" else None)
    optimizer = optim.AdamW(model.parameters(), lr=params.lr)
    accuracy = 1.0
    for epoch in range(1, params.epochs + 1):
        sampler.set_epoch(epoch)
        train(params, model, device, loader, optimizer, epoch, rank)
        if rank == 0:
            accuracy = test(model.module, device, test_loader)
    if rank == 0 and args.save:
        save_model(model.module, args.save)
    dist.barrier()
    dist.destroy_process_group()
    if accuracy < args.want:
        sys.exit(f"the accuracy is below {100 * args.want:.2f}%")


if __name__ == "__main__":
    main()
