# SPDX-License-Identifier: Apache-2.0
"""Rank 0 overwrites values without end; the other ranks read them through a DataLoader with 4 workers, in random order,
for three epochs. A value says which key and version it is; every byte follows from that, so a torn one cannot pass."""
import os
import random
import struct
import sys

import ddict
from torch.utils.data import DataLoader, Dataset

rank, size, method = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"]), sys.argv[1]
KEYS, EPOCHS, HEAD = 800, 3, struct.Struct("<QQQ")


def value(i, version):
    body = random.Random(i << 32 | version).randbytes(random.Random(version ^ i).randrange(100, 20000))
    return HEAD.pack(i, version, len(body)) + body


class Values(Dataset):
    def __init__(self, d):
        self.d = d  # pickled for spawn, inherited by fork

    def __len__(self):
        return KEYS

    def __getitem__(self, i):
        got = bytes(self.d[("v", i)])
        key, version, _ = HEAD.unpack_from(got)
        if key != i or got != value(i, version):
            raise ValueError(f"key {i}: a value that nobody put ({len(got)} bytes, says key {key}, version {version})")
        return version


def write(d):
    version = 0
    while any(("stop", r) not in d for r in range(1, size)):
        version += 1
        for i in range(KEYS):
            d[("v", i)] = value(i, version)
            if i % 100 == 0 and version > 1 and all(("stop", r) in d for r in range(1, size)):
                break
        d["round"] = version
    print(f"rank 0 wrote {version} rounds", flush=True)
    if version < 2:
        sys.exit("nothing was overwritten while the others read")


def read(d):
    if d.get("round", wait=True, timeout=120) is None:
        sys.exit(f"rank {rank}: no values came")
    seen = set()
    for epoch in range(EPOCHS):
        loader = DataLoader(Values(d), batch_size=50, shuffle=True, num_workers=4, multiprocessing_context=method)
        versions = [int(v) for batch in loader for v in batch]
        if len(versions) != KEYS:
            sys.exit(f"rank {rank}: epoch {epoch} gave {len(versions)} values")
        seen.update(versions)
    d[("stop", rank)] = 1
    print(f"rank {rank} read {EPOCHS} epochs of {KEYS} values by {method}, of {len(seen)} versions", flush=True)


if __name__ == "__main__":
    dictionary = ddict.attach()
    write(dictionary) if rank == 0 else read(dictionary)
