#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The table of Dragon's example: sizes of files, workers and batches, one line each.

  python3 table.py [--sizes 0.125,0.25] [--workers 2,4] [--batches 4,16] [--max-batches N] -- srun -N2 --ntasks-per-node=1 --ddict-managers=4 --ddict-mem=1G

The words after -- are put in front of each run's command; without them `ddict run` runs it on this machine. Missing files are generated. "Overall" is the whole
command, as the shell's time says it: its user and system seconds are those of what starts it, such as srun. Rows of sizes that are published of Dragon follow.
"""
import argparse
import os
import re
import resource
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FIGURES = (("total_bytes", r"total_bytes=(\d+)", "DDict size"), ("DDict_Timer", r"^DDict_Timer (\S+)", "load s"), ("vocabulary", r"^Vocabulary of .* in (\S+) s", "vocab s"), ("epoch", r"^Time taken for epoch:\n(\S+)", "epoch s"),
           ("trained", r"^(\d+ of \d+) sequences", "sequences"), ("rate", r"trained, (\S+) a second", "a second"), ("real", r"^Real time: (\S+)", "real s"),
           ("user", r"^User time: (\S+)", "user s"), ("system", r"^System time: (\S+)", "system s"))
OVERALL = ("overall real s", "overall user s", "overall system s")
# Dragon's documentation, "Dragon Timings for Dataloader Use Case Using 2 Workers and 2 Nodes": its figures, in the order of ours; it has none of the vocabulary and of sequences
DRAGON = {0.125: ("17179869184", "138.33", "", "0.04", "", "", "2.83", "0.09", "2.51", "355.75", "5.15", "1.32"),
          0.25: ("17179869184", "263.93", "", "0.07", "", "", "2.88", "0.06", "2.57", "634.44", "5.60", "1.41")}


def numbers(text, kind):
    try:
        return [kind(n) for n in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError("want numbers with commas between, not %r" % text)


def run(start, size, workers, batch, args):
    name = "seq%sgb.txt" % (int(size) if size == int(size) else size)
    path = os.path.join(args.dir, name)
    if not os.path.exists(path):
        subprocess.run([sys.executable, os.path.join(HERE, "generate.py"), "--size", str(size), "--dir", args.dir], check=True, stdout=subprocess.DEVNULL)
    words = [*start, sys.executable, os.path.join(HERE, "doc2vec.py"), "--file-name", path, "--num-workers", str(workers), "--batch-size", str(batch)]
    if args.max_batches is not None:
        words += ["--max-batches", str(args.max_batches)]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    real, used = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if p.returncode != 0:
        sys.exit("table: exit code %d: %s" % (p.returncode, " ".join(words)))
    row = [str(size), str(workers), str(batch)]
    for what, pattern, _ in FIGURES:
        found = re.findall(pattern, p.stdout, re.M)
        if not found:
            sys.exit("table: no %s was printed by %s" % (what, " ".join(words)))
        row.append(found[0] if what == "trained" else str(sum(map(int, found))) if what == "total_bytes" else "%.2f" % float(found[0]))
    return row + ["%.2f" % s for s in (real, used.ru_utime - before.ru_utime, used.ru_stime - before.ru_stime)]


def main():
    p = argparse.ArgumentParser(description="Times of doc2vec.py over sizes, workers and batches.")
    p.add_argument("--sizes", type=lambda t: numbers(t, float), default=[0.125, 0.25], help="of files, in GB (default 0.125,0.25)")
    p.add_argument("--workers", type=lambda t: numbers(t, int), default=[2], help="of the loader (default 2)")
    p.add_argument("--batches", type=lambda t: numbers(t, int), default=[4], help="sequences of a batch (default 4)")
    p.add_argument("--max-batches", type=int, help="of an epoch (default: all of it)")
    p.add_argument("--dir", default=".", help="where the files are")
    p.add_argument("before", nargs="*", metavar="-- COMMAND", help="that starts a dictionary")
    args = p.parse_args()
    start = args.before or ["ddict", "run", "--managers=4", "--mem=1G", "--"]
    head = ["GB", "workers", "batch"] + [h for _, _, h in FIGURES] + list(OVERALL)
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    for size in args.sizes:
        for workers in args.workers:
            for batch in args.batches:
                print("| " + " | ".join(run(start, size, workers, batch, args)) + " |", flush=True)
        if size in DRAGON:
            print("| " + " | ".join(["%s, Dragon's" % size, "2", "4", *DRAGON[size]]) + " |", flush=True)


if __name__ == "__main__":
    main()
