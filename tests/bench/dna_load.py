#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Load a synthetic file of DNA and RNA sequences into the dictionary, one put for each line from one process, and read it back.

    ddict run --managers=2 --mem=512M -- python3 dna_load.py [--size GB] [--file FILE]

The file: SIZE * 2^30 bytes count as letters and line ends, the first half DNA (A T C G), the second RNA (A U C G), uniform; a
line is up to 1024 letters, then `,design_id_N` with N from 1 (not counted in the size). 0.125 GB are 130,946 lines.
Times are printed, not judged.
"""

import argparse
import os
import random
import sys
import tempfile
import time

import ddict


def letters_table(letters):
    return bytes(letters[i % 4] for i in range(256))


def file_write(path, size):
    """Returns the number of lines."""
    n = 0
    with open(path, "wb") as f:
        for table in (letters_table(b"ATCG"), letters_table(b"AUCG")):
            left = int(size * 2**30) // 2
            while left > 0:
                chunk = min(1024, left)
                n += 1
                f.write(os.urandom(chunk).translate(table) + b",design_id_%d\n" % n)
                left -= chunk + 1
    return n


def timed(what, n, action):
    start = time.perf_counter()
    result = action()
    took = time.perf_counter() - start
    print(f"{what:44s} {took:8.3f} s  {took / n * 1e6:7.2f} us each  {n / took:10.0f} /s", flush=True)
    return result


def load(d, path):
    with open(path) as f:
        for i, line in enumerate(f):
            d[i] = line.strip()


def load_many(d, path):
    with open(path) as f:
        d.put_many(enumerate(line.strip() for line in f))


def check(d, path):
    with open(path) as f:
        for i, line in enumerate(f):
            if d[i] != line.strip():
                raise SystemExit(f"line {i} was read back wrong")


def read(d, keys):
    for key in keys:
        d[key]


def read_many(d, keys):
    for at in range(0, len(keys), 256):
        d.get_many(keys[at:at + 256])


def view(d, keys):
    for key in keys:
        d.view(key)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", type=float, default=0.125, help="GB")
    p.add_argument("--file", help="use this file instead of making one")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.file or os.path.join(folder, f"seq{args.size}gb.txt")
        if args.file:
            with open(path, "rb") as f:
                n = sum(1 for _ in f)
        else:
            n = file_write(path, args.size)
        print(f"{n} lines, {os.path.getsize(path)} bytes")
        start = time.perf_counter()
        d = ddict.attach()
        timed("file, line by line: d[i] = line.strip()", n, lambda: load(d, path))
        print(f"{'attach and load':44s} {time.perf_counter() - start:8.3f} s")
        stats = d.stats
        used = sum(s["total_used_bytes"] for s in stats)
        keys = list(range(n))
        if len(d) != n:
            sys.exit(f"{len(d)} keys instead of {n}")
        print(f"{used} bytes for {n} pairs: {used / n:.0f} bytes a pair")
        check(d, path)
        random.shuffle(keys)
        timed("random order: d[i]", n, lambda: read(d, keys))
        timed("random order: d.view(i)", n, lambda: view(d, keys))
        timed("random order: d.get_many() of 256", n, lambda: read_many(d, keys))
        timed("len(list(d))", n, lambda: len(list(d)))
        timed("again over the old ones: d[i] = line", n, lambda: load(d, path))
        d.clear()
        timed("file: d.put_many()", n, lambda: load_many(d, path))
        check(d, path)
        for s in d.stats:
            print(f"manager {s['manager_id']} on {s['node']}: {s['num_keys']} keys, {s['total_used_bytes']} of {s['total_bytes']} bytes, "
                  f"put p50 {s['latency']['put']['p50_ns']} ns p99 {s['latency']['put']['p99_ns']} ns")


if __name__ == "__main__":
    main()
