# SPDX-License-Identifier: Apache-2.0
"""containers.py UID HIDDEN [loader|die] - a rank in a container, where it calls itself UID and does not see the files HIDDEN (with commas) of its node.

It does what ranks do: attach, put, get, view in place and remote, read by forked DataLoader workers (loader), find its place and exchange. die: the last rank is
killed, with a view held and a child that keeps what it had open; rank 0 sees its client go.
"""
import os
import signal
import sys
import time

import ddict
from ddict import runtime

KEYS, SECONDS = 64, 40
rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])


def value(r, i):
    return bytes([(r * 131 + i * 7 + k) % 251 for k in range(1000 + i)])


def keys():
    return [("v", r, i) for r in range(size) for i in range(KEYS)]


class Values:
    def __init__(self, d):
        self.d, self.keys = d, keys()

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, i):
        _, r, k = self.keys[i]
        assert self.d[self.keys[i]] == value(r, k), self.keys[i]
        return i


def clients(d):
    return sum(m["clients_now"] for m in d.stats)


def die(d):
    """A rank is a client as often as any other: twice, as its runtime is one as well."""
    view = d.view(("v", 0, 0))
    if rank == 0:
        before = clients(d)
        left = before * (size - 1) // size
        d["counted"] = 1
    if rank == size - 1:
        d.get("counted", wait=True, timeout=SECONDS)
        if os.fork() == 0:
            time.sleep(SECONDS)
            os._exit(0)
        d[("dying", len(view))] = 1
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0:
        d.get(("dying", len(view)), wait=True, timeout=SECONDS)
        end = time.monotonic() + SECONDS / 2
        while clients(d) != left and time.monotonic() < end:
            time.sleep(0.02)
        assert clients(d) == left, f"{clients(d)} clients of {before}"
        d["seen"] = 1
        print("rank 0 saw it die", flush=True)
    d.get("seen", wait=True, timeout=SECONDS)


def main():
    uid, hidden, what = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    assert os.geteuid() == uid, f"uid {os.geteuid()} in here, not {uid}"
    for name in hidden.split(","):
        assert not os.path.exists(name), f"{name} of the node is seen in here"

    d = ddict.attach()
    d.put_many({("v", rank, i): value(rank, i) for i in range(KEYS)})
    for _, r, i in keys():
        assert d.get(("v", r, i), wait=True, timeout=SECONDS) == value(r, i)
        assert bytes(d.view(("v", r, i))) == value(r, i)
    d[("all", rank)] = "read"
    assert all(d.get(("all", r), wait=True, timeout=SECONDS) == "read" for r in range(size))

    assert (runtime.rank, runtime.size, runtime.node) == (rank, size, os.environ["SLURMD_NODENAME"])
    assert runtime.host_of(rank) == runtime.node
    assert runtime.exchange(b"%d" % rank, SECONDS) == [b"%d" % r for r in range(size)]
    if "loader" in what:
        from torch.utils.data import DataLoader
        held = d.view(("v", 0, 0))
        seen = [int(i) for batch in DataLoader(Values(d), batch_size=16, shuffle=True, num_workers=2, multiprocessing_context="fork") for i in batch]
        assert sorted(seen) == list(range(len(keys()))) and bytes(held) == value(0, 0)
    runtime.barrier(SECONDS)
    if "die" in what:
        die(d)
    print(f"rank {rank} of {size} is fine as uid {uid}; {runtime.how}, peers by {runtime.peers}", flush=True)


main()
