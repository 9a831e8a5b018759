# SPDX-License-Identifier: Apache-2.0
"""A rank of a group that meets by env://.

torch_ranks.py reduce  with torch: all ranks add up their numbers
torch_ranks.py meet    without: rank 0 listens where it is to be, as torch's store does, and hears from all others
torch_ranks.py meet N  the same, by N steps of a job at once: none goes on before all listen
"""
import glob
import os
import socket
import sys
import time

rank, world, port = (int(os.environ[k]) for k in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
place = (os.environ["MASTER_ADDR"], port)


def reduce():
    import datetime

    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method="env://", timeout=datetime.timedelta(seconds=150))
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    dist.barrier()
    dist.destroy_process_group()
    return int(total.item())


def together(steps):
    """All of so many steps listen: each leaves a file here."""
    open("meets.%s" % os.environ["SLURM_STEP_ID"], "w").close()
    end = time.monotonic() + 150
    while len(glob.glob("meets.*")) < steps:
        if time.monotonic() > end:
            sys.exit("only %d of %d steps meet" % (len(glob.glob("meets.*")), steps))
        time.sleep(0.05)


def listen():
    heard = []
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("", port))
        s.listen(64)
        s.settimeout(150)
        if len(sys.argv) > 2:
            together(int(sys.argv[2]))
        while len(heard) < world - 1:
            c, _ = s.accept()
            with c:
                heard.append(int(c.makefile().readline()))
                c.sendall(b"%s\n" % os.environ["SLURM_STEP_ID"].encode())
    return sum(heard) + len(heard) + 1


def call():
    end = time.monotonic() + 150
    while True:
        try:
            with socket.create_connection(place, timeout=160) as c:
                c.sendall(b"%d\n" % rank)
                step = c.makefile().readline().strip()
            break
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    if step != os.environ["SLURM_STEP_ID"]:
        sys.exit("rank %d met step %r" % (rank, step))
    return world * (world + 1) // 2


total = reduce() if sys.argv[1] == "reduce" else listen() if rank == 0 else call()
local = " ".join(os.environ[k] for k in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"))
os.write(1, ("rank %d of %d: sum %d local %s at %s %d\n" % (rank, world, total, local, *place)).encode())  # whole, beside others
