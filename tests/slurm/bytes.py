# SPDX-License-Identifier: Apache-2.0
"""Every rank puts COUNT keys of 1 KiB of its own, then reads those of all ranks and checks every byte."""
import hashlib
import os
import sys

import ddict

rank, size, count = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"]), int(sys.argv[1])


def value(r, i):
    return hashlib.shake_128(b"%d.%d" % (r, i)).digest(1024)


d = ddict.attach()
if rank % 2:  # half of the ranks one by one, half in batches
    for i in range(count):
        d[(rank, i)] = value(rank, i)
else:
    for begin in range(0, count, 1000):
        d.put_many({(rank, i): value(rank, i) for i in range(begin, min(begin + 1000, count))})
d[("done", rank)] = rank
for r in range(size):
    if d.get(("done", r), wait=True, timeout=180) != r:
        sys.exit(f"rank {rank}: rank {r} never finished its puts")

wrong = []
for step in range(size):
    r = (rank + step) % size
    for i in range(count):
        if bytes(d[(r, i)]) != value(r, i):
            wrong.append((r, i))
if wrong:
    sys.exit(f"rank {rank}: {len(wrong)} values differ, first {wrong[0]}")

keys = list(d.keys())
want = {(r, i) for r in range(size) for i in range(count)} | {("done", r) for r in range(size)}
if len(keys) != len(set(keys)) or set(keys) != want or len(d) != len(want):
    sys.exit(f"rank {rank}: keys() gave {len(keys)} keys, {len(set(keys))} different, {len(set(keys) - want)} that nobody "
             f"put; len {len(d)}; wanted {len(want)}")
print(f"rank {rank} of {size} read {size * count} values, {len(keys)} keys", flush=True)
