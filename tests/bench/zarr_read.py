#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zarr_read.py [--mib N] [--chunk-kib N] [--rounds N] - all chunks of an array are written and read: ddict.zarr.Store, beside zarr's LocalStore (a folder of
/dev/shm) and MemoryStore, in turn; medians, and their ratio to the first. Needs zarr 3; makes a dictionary of its own."""

import argparse
import statistics
import tempfile
import time

import ddict
import ddict.zarr
import numpy
import zarr
from zarr.storage import LocalStore, MemoryStore


def took(fn):
    begin = time.perf_counter()
    fn()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--chunk-kib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    width = args.chunk_kib * 1024 // 4
    data = (numpy.random.default_rng(1).random((args.mib * 1024 // args.chunk_kib, width)) * 1000).astype("i4")
    with ddict.up(managers=1, mem=f"{4 * args.mib + 64}M", local=True), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        stores = {"ddict": ddict.zarr.Store(), "local": LocalStore(folder), "memory": MemoryStore()}
        for compressors in None, "auto":
            arrays = {name: zarr.create_array(store, name=f"a{compressors}", shape=data.shape, dtype=data.dtype, chunks=(1, width), compressors=compressors)
                      for name, store in stores.items()}
            times = {(name, what): [] for name in stores for what in ("write", "read")}
            for _ in range(args.rounds):
                for name, array in arrays.items():
                    times[name, "write"].append(took(lambda: array.__setitem__(slice(None), data)))
                    times[name, "read"].append(took(lambda: array[:]))
            for array in arrays.values():
                assert (array[:] == data).all()
            for what in "write", "read":
                medians = {name: statistics.median(times[name, what]) for name in stores}
                print(f"{what} {args.mib} MiB, chunks of {args.chunk_kib} KiB, compressors {compressors}: "
                      + ", ".join(f"{name} {m * 1000:.1f} ms ({medians['ddict'] / m:.2f})" for name, m in medians.items()))


if __name__ == "__main__":
    main()
