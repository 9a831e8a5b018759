# SPDX-License-Identifier: Apache-2.0
"""A rank of a group that meets by ddict://, with one step of DistributedDataParallel.

torch_meet.py               all add up their numbers; the gradient is the mean of the ranks'
torch_meet.py worker        the same, but the last rank kills itself once
torch_meet.py agent         the same, but the last of two ranks kills the agent that started it, and itself
"""
import datetime
import os
import signal
import sys

import torch
import torch.distributed as dist

import ddict.torch

dist.init_process_group("gloo", init_method="ddict://", timeout=datetime.timedelta(seconds=150))
rank, size = dist.get_rank(), dist.get_world_size()
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
model(torch.tensor([[rank + 1.0]])).sum().backward()
line = "rank %d of %d: sum %d gradient %.1f, address %s" % (rank, size, total.item(), model.module.weight.grad.item(), os.environ.get("MASTER_ADDR", "none"))
what = sys.argv[1] if len(sys.argv) > 1 else None
if what == "worker":
    store = ddict.torch.Store("deaths")
    dist.barrier()
    if rank == size - 1 and store.add("died", 1) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
if what == "agent" and size == 2:
    dist.barrier()
    if rank == size - 1:
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()  # fails, and its agent looks who is left
os.write(1, line.encode() + b"\n")  # whole, beside others
dist.destroy_process_group()
