#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Transfer learning on images in an S3 bucket by all ranks: the last layer of a ResNet is trained again; metrics and checkpoints go to a folder while the job runs.

  srun -N2 --ntasks-per-node=1 --ddict-mem=4G --ddict-gpu-bind=rotate --ddict-results=results python3 transfer.py s3://bucket/train

--ddict-gpu-bind=rotate gives each rank its own GPU as device 0. The bucket is read into the dictionary once, with the credentials of the AWS tools.
"""
import argparse
import os
import sys
import time

import torch
import torch.distributed as dist

from ddict.results import ResultsHandler
from ddict.torch import DataLoader, DistributedSampler, S3ImageFolder, collate

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "imagenet"))
from resnet import resnet18  # noqa: E402
from train import Decode  # noqa: E402


def network(classes, weights):
    """The network with all layers except the last frozen; their parameters come from the file of weights (of the same network, with any number of classes)."""
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
        p.requires_grad = False
    return net


def main():
    p = argparse.ArgumentParser(description="transfer learning on images in S3")
    p.add_argument("source", help="s3://bucket/prefix, with a folder below it for each class")
    p.add_argument("--run", default="transfer", help="name of the run: the folder of its results (default: transfer)")
    p.add_argument("--weights", help="a state_dict of the network to begin with (default: random ones)")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--image-size", type=int, default=224)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--lr", type=float, default=0.05)
    args = p.parse_args()

    torch.manual_seed(1)
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", 0) if cuda else torch.device("cpu")
    began = time.perf_counter()
    data = S3ImageFolder(args.source, transform=Decode(args.image_size))
    if rank == 0:
        print("%d images of %d classes from %s in %.2f s" % (len(data), len(data.classes), args.source, time.perf_counter() - began), flush=True)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler, num_workers=args.workers, pin_memory=cuda, collate_fn=collate)
    model = torch.nn.parallel.DistributedDataParallel(network(len(data.classes), args.weights).to(device))
    optimizer = torch.optim.SGD([q for q in model.parameters() if q.requires_grad], lr=args.lr, momentum=0.9)
    results = ResultsHandler(args.run)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for batch, (images, labels) in enumerate(loader):
            labels = torch.as_tensor(labels).to(device)
            scores = model(images.to(device, non_blocking=True))
            loss = torch.nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            results.submit_result("worker/%d.json" % rank, {"epoch": epoch, "batch": batch, "step": epoch * len(loader) + batch, "loss": loss.item(),
                                                            "accuracy": (scores.argmax(1) == labels).float().mean().item(), "time": time.time()})
        if rank == 0:
            results.submit_checkpoint("checkpoints/epoch-%d.pt" % epoch, model.module.state_dict())
            print("Epoch %d: loss %.4f" % (epoch, loss.item()), flush=True)
    results.close()
    dist.barrier()
    if rank == 0:
        print("%d ranks are done" % world)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
