#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Write a file of random sequences, half of them DNA, half RNA: a line has 1,024 letters (the last line of each half may be shorter), a comma and design_id_N.

  python3 generate.py --size 0.125        seq0.125gb.txt; the size does not include the ids
"""
import argparse
import os
import sys

import numpy

LINE, BLOCK = 1024, 4096  # letters of a line, lines written at a time


def half(out, letters, size, number, random):
    """Write lines of size bytes in total, counting letters and newlines. Returns the next line number."""
    table = numpy.frombuffer(letters.encode(), dtype=numpy.uint8)
    while size > 0:
        lines = []
        block = table[random.integers(0, len(letters), size=(min(BLOCK, size // (LINE + 1) + 1), LINE), dtype=numpy.uint8)]
        for row in block:
            chunk = min(LINE, size)
            lines.append(b"%s,design_id_%d\n" % (row[:chunk].tobytes(), number))
            size -= chunk + 1
            number += 1
            if size <= 0:
                break
        out.write(b"".join(lines))
        show(out.tell())
    return number


def show(done):
    if sys.stderr.isatty():
        print("\r%.0f MB" % (done / 1e6), end="", file=sys.stderr, flush=True)


def write(path, size, seed):
    random = numpy.random.default_rng(seed)
    part = path + ".part"
    with open(part, "wb") as out:
        number = half(out, "ATCG", size // 2, 1, random)
        number = half(out, "AUCG", size // 2, number, random)
    os.rename(part, path)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print("%s: %d lines, %d bytes" % (path, number - 1, os.path.getsize(path)))


def simulate(path, lines, letters, seed=7):
    """Write a small file: `lines` lines of `letters` letters, the first half DNA."""
    random = numpy.random.default_rng(seed)
    part = path + ".part"
    with open(part, "w") as out:
        for n in range(1, lines + 1):
            out.write("%s,design_id_%d\n" % ("".join(random.choice(list("ATCG" if n <= (lines + 1) // 2 else "AUCG"), letters)), n))
    os.rename(part, path)


def main():
    p = argparse.ArgumentParser(description="Write random DNA and RNA sequences.")
    p.add_argument("--size", type=float, help="Specify the size of a single file in GB")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--dir", default=".")
    args = p.parse_args()
    for size in [args.size] if args.size is not None else [1, 2, 4, 8, 16, 32]:
        if size <= 0:
            p.error("--size: a positive number is wanted")
        write(os.path.join(args.dir, "seq%sgb.txt" % (int(size) if size == int(size) else size)), int(size * 1024 ** 3), args.seed)


if __name__ == "__main__":
    main()
