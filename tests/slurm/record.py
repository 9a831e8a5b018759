# SPDX-License-Identifier: Apache-2.0
"""One of three steps on the dictionary of a job: load COUNT keys, change some, check all. Each rank counts what it asked for and prints the sums as JSON.

load    each key is put once; half of the ranks one by one, half in batches
change  each key is read once, one by one or in batches; every 10th is overwritten, every 25th deleted, and each rank looks for 100 that never were
check   each rank reads all, one by one or in batches: the first value, the second, or none
"""
import hashlib
import json
import os
import sys

import ddict

BATCH = 500
phase, count = sys.argv[1], int(sys.argv[2])
rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
made = {"puts": 0, "gets": 0, "misses": 0, "deletes": 0}


def value(i, turn):
    """Of 20 to 400 bytes; each 1000th of 100 kB."""
    n = 100000 if i % 1000 == 7 else 20 + i * 7 % 381
    return hashlib.shake_128(b"%d.%d" % (i, turn)).digest(16) * (n // 16 + 1)


def now(i):
    return None if i % 25 == 0 else value(i, 2 if i % 10 == 3 else 1)


def read(keys, want):
    """Read and compare; a key that is not there is None."""
    if rank % 2:
        got = [d.get(i) for i in keys]
    else:
        got = d.get_many(keys, default=None)
    for i, g in zip(keys, got):
        made["misses" if g is None else "gets"] += 1
        if (None if g is None else bytes(g)) != want(i):
            sys.exit(f"rank {rank}: key {i} has {'nothing' if g is None else len(g)}")


d = ddict.attach()
mine = range(rank, count, size)
if phase == "load":
    if rank % 2:
        for i in mine:
            d[i] = value(i, 1)
    else:
        for begin in range(0, len(mine), BATCH):
            d.put_many({i: value(i, 1) for i in mine[begin:begin + BATCH]})
    made["puts"] += len(mine)
elif phase == "change":
    for begin in range(0, len(mine), BATCH):
        read(mine[begin:begin + BATCH], lambda i: value(i, 1))
    for i in mine:
        if i % 25 == 0:
            del d[i]
            made["deletes"] += 1
        elif i % 10 == 3:
            d[i] = value(i, 2)
            made["puts"] += 1
    read(range(count + rank, count + rank + 100), lambda i: None)
else:
    for begin in range(0, count, BATCH):
        read(range(begin, begin + BATCH), now)
    if len(d) != sum(i % 25 != 0 for i in range(count)):
        sys.exit(f"rank {rank}: {len(d)} keys")
d.detach()
print(json.dumps(made), flush=True)
