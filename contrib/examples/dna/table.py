#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The table of Dragon's example: sizes of files, workers and batches, one line each.

  python3 table.py [--sizes 0.125,0.25] [--workers 2,4] [--batches 4,16] [--max-batches N] -- srun -N2 --ntasks-per-node=1 --ddict-managers=4 --ddict-mem=1G

The words after -- are put in front of each run's command; without them `ddict run` runs it on this machine. Missing files are generated.
"""
import argparse
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FIGURES = (("DDict_Timer", r"^DDict_Timer (\S+)", "load s"), ("vocabulary", r"^Vocabulary of .* in (\S+) s", "vocab s"), ("epoch", r"^Time taken for epoch:\n(\S+)", "epoch s"),
           ("trained", r"^(\d+ of \d+) sequences", "sequences"), ("rate", r"trained, (\S+) a second", "a second"), ("real", r"^Real time: (\S+)", "real s"),
           ("user", r"^User time: (\S+)", "user s"), ("system", r"^System time: (\S+)", "system s"))


def numbers(text, kind):
    try:
        return [kind(n) for n in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError("want numbers with commas between, not %r" % text)


def run(before, size, workers, batch, args):
    name = "seq%sgb.txt" % (int(size) if size == int(size) else size)
    path = os.path.join(args.dir, name)
    if not os.path.exists(path):
        subprocess.run([sys.executable, os.path.join(HERE, "generate.py"), "--size", str(size), "--dir", args.dir], check=True, stdout=subprocess.DEVNULL)
    words = [*before, sys.executable, os.path.join(HERE, "doc2vec.py"), "--file-name", path, "--num-workers", str(workers), "--batch-size", str(batch)]
    if args.max_batches is not None:
        words += ["--max-batches", str(args.max_batches)]
    p = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if p.returncode != 0:
        sys.exit("table: exit code %d: %s" % (p.returncode, " ".join(words)))
    row = [str(size), str(workers), str(batch)]
    for what, pattern, _ in FIGURES:
        m = re.search(pattern, p.stdout, re.M)
        if not m:
            sys.exit("table: no %s was printed by %s" % (what, " ".join(words)))
        row.append(m.group(1) if what == "trained" else "%.2f" % float(m.group(1)))
    return row


def main():
    p = argparse.ArgumentParser(description="Times of doc2vec.py over sizes, workers and batches.")
    p.add_argument("--sizes", type=lambda t: numbers(t, float), default=[0.125, 0.25], help="of files, in GB (default 0.125,0.25)")
    p.add_argument("--workers", type=lambda t: numbers(t, int), default=[2], help="of the loader (default 2)")
    p.add_argument("--batches", type=lambda t: numbers(t, int), default=[4], help="sequences of a batch (default 4)")
    p.add_argument("--max-batches", type=int, help="of an epoch (default: all of it)")
    p.add_argument("--dir", default=".", help="where the files are")
    p.add_argument("before", nargs="*", metavar="-- COMMAND", help="that starts a dictionary")
    args = p.parse_args()
    before = args.before or ["ddict", "run", "--managers=4", "--mem=1G", "--"]
    head = ["GB", "workers", "batch"] + [h for _, _, h in FIGURES]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    for size in args.sizes:
        for workers in args.workers:
            for batch in args.batches:
                print("| " + " | ".join(run(before, size, workers, batch, args)) + " |", flush=True)


if __name__ == "__main__":
    main()
