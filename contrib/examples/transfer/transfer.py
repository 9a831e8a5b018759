#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Transfer learning on images in an S3 bucket by all ranks: the last layer of a ResNet is trained again; metrics and checkpoints go to a folder while the job runs.

  srun -N2 --ntasks-per-node=1 --ddict-mem=4G --ddict-gpu-bind=rotate --ddict-results=results python3 transfer.py bucket train

--ddict-gpu-bind=rotate gives each rank its own GPU as device 0. The bucket is read into the dictionary once, with the credentials of the AWS tools, or --anon.
"""
import argparse
import datetime
import json
import os
import pickle
import sys
import time

import torch
import torch.distributed as dist

from ddict.results import ResultsHandler
from ddict.torch import DataLoader, S3ImageFolder, collate

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "imagenet"))
from resnet import resnet18  # noqa: E402
from train import Decode  # noqa: E402


CHECKPOINT = 100  # batches of rank 0 between two of --dask's checkpoints


def network(classes, weights, train_all):
    """The network, unless train_all with all layers except the last frozen; their parameters come from the file of weights (of the same network, with any number of classes)."""
    net = resnet18(classes)
    if weights is not None:
        last = "%d." % (len(net) - 1)
        before = {k: v for k, v in torch.load(weights, map_location="cpu").items() if not k.startswith(last)}
        absent = [k for k in net.load_state_dict(before, strict=False).missing_keys if not k.startswith(last)]
        if absent:
            sys.exit("%s: no weights of this network: it has no %s" % (weights, absent[0]))
        if dist.get_rank() == 0:
            print("%d tensors of %s, and a last layer of %d classes to train" % (len(before), weights, classes), flush=True)
    for p in net[:-1].parameters():
        p.requires_grad = train_all
    return net


def split(count, share, rank, world):
    """The images of this rank to train on and to validate on. All ranks have as many to train on, as DistributedDataParallel wants it."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1)).tolist()
    cut = int(count * share)
    train = order[cut:]
    return train[rank:len(train) // world * world:world], order[rank:cut:world]


class Report:
    """Where metrics and checkpoints go: a file of lines and a checkpoint an epoch; or with --dask, as its users' programs do, a file a batch and pickles."""

    def __init__(self, args, rank):
        self.handler, self.dask, self.rank, self.batches = ResultsHandler(args.run), args.dask, rank, 0

    def batch(self, model, **metrics):
        now = datetime.datetime.now().isoformat()
        if not self.dask:
            return self.handler.submit_result(f"worker/{self.rank}.json", {**metrics, "worker": self.rank, "time": time.time()})
        self.handler.submit_result(f"worker/{self.rank}/data-{now}.json", json.dumps({**metrics, "worker": self.rank}), append=False)
        if self.rank == 0 and self.batches % CHECKPOINT == 0:
            self.handler.submit_result(f"checkpoint-{now}.pkl", pickle.dumps(model.module.state_dict()))
        self.batches += 1

    def epoch(self, model, epoch, **metrics):
        if self.rank == 0:
            self.handler.submit_result("validation.json", {"epoch": epoch, **metrics})
            if not self.dask:
                self.handler.submit_checkpoint(f"checkpoints/epoch-{epoch}.pt", model.module.state_dict())


def train(loader, model, optimizer, device, epoch, report):
    """Returns the last loss."""
    model.train()
    for batch, (images, labels) in enumerate(loader):
        labels = torch.as_tensor(labels).to(device)
        scores = model(images.to(device, non_blocking=True))
        loss = torch.nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        report.batch(model, epoch=epoch, batch=batch, step=epoch * len(loader) + batch, count=len(labels), loss=loss.item(),
                     accuracy=(scores.argmax(1) == labels).float().mean().item())
    return loss.item()


def validate(loader, model, device):
    """Loss and accuracy over all ranks' images."""
    model.eval()
    sums = torch.zeros(3, dtype=torch.float64)
    with torch.no_grad():
        for images, labels in loader:
            labels = torch.as_tensor(labels).to(device)
            scores = model.module(images.to(device))
            loss = torch.nn.functional.cross_entropy(scores, labels, reduction="sum")
            sums += torch.tensor([len(labels), loss.item(), (scores.argmax(1) == labels).sum().item()])
    sums = sums.to(device)
    dist.all_reduce(sums)
    count, loss, right = sums.tolist()
    return {"count": int(count), "loss": loss / max(count, 1), "accuracy": right / max(count, 1)}


def arguments():
    p = argparse.ArgumentParser(description="transfer learning on images in S3")
    p.add_argument("bucket", help="the bucket, or s3://bucket/prefix")
    p.add_argument("prefix", nargs="?", default="", help="of the objects, with a folder below it for each class")
    p.add_argument("--anon", action="store_true", help="the bucket is public: do not sign requests")
    p.add_argument("--run", default="transfer", help="name of the run: the folder of its results (default: transfer)")
    p.add_argument("--weights", help="a state_dict of the network to begin with (default: random ones)")
    p.add_argument("--train-all", action="store_true", help="train all layers, not the last alone")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--image-size", type=int, default=224)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--validation", type=float, default=0.2, metavar="SHARE", help="of the images, which are not trained on (default 0.2)")
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--dask", action="store_true", help="results as dask-pytorch-ddp's programs have them: a file for each batch, pickled checkpoints")
    p.add_argument("--results-to", metavar="URL", help="at the end also s3://bucket/prefix, or a folder")
    return p.parse_args()


def main():
    args = arguments()
    torch.manual_seed(1)
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", 0) if cuda else torch.device("cpu")
    began = time.perf_counter()
    data = S3ImageFolder(args.bucket, args.prefix, transform=Decode(args.image_size), anon=args.anon)
    if rank == 0:
        print("%d images of %d classes from %s in %.2f s" % (len(data), len(data.classes), data.root, time.perf_counter() - began), flush=True)
    words = dict(batch_size=args.batch_size, num_workers=args.workers, pin_memory=cuda, collate_fn=collate)
    loader, validation = (DataLoader(data, sampler=torch.utils.data.SubsetRandomSampler(part), **words) for part in split(len(data), args.validation, rank, world))
    model = torch.nn.parallel.DistributedDataParallel(network(len(data.classes), args.weights, args.train_all).to(device))
    optimizer = torch.optim.SGD([q for q in model.parameters() if q.requires_grad], lr=args.lr, momentum=0.9)
    report = Report(args, rank)
    for epoch in range(args.epochs):
        loss = train(loader, model, optimizer, device, epoch, report)
        found = validate(validation, model, device)
        report.epoch(model, epoch, **found)
        if rank == 0:
            print("Epoch %d: loss %.4f; validation: loss %.4f, accuracy %.1f%% of %d images" % (epoch, loss, found["loss"], 100 * found["accuracy"], found["count"]), flush=True)
    report.handler.flush()
    dist.barrier()
    if rank == 0:
        if args.results_to:
            print("%d files to %s" % (report.handler.process_results(args.results_to), args.results_to))
        print("%d ranks are done" % world)
    report.handler.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
