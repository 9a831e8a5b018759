#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --replicas=2 costs: `ddict bench` on two nodes, which are network namespaces of this host, with one copy and with two, in turn. Needs root. In the build folder:

    ../tests/bench/replicas.py                        some four minutes
    ../tests/bench/replicas.py --rounds 7 --seconds 0.5 --sizes 1K,64K,1M --markdown FILE

Each row is a ratio of times: with two copies to one; the median of the rounds, the least and the most. The node on which the client is has one manager, and so has the other, which also holds
the copy: on one machine the copy costs processor time that two machines would not share.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "peers"), os.path.join(HERE, "..", "local")]
os.environ.setdefault("DDICT_BUILD", os.getcwd())

import nets  # noqa: E402
from cluster import BUILD, Dictionary  # noqa: E402

COMMAND = os.path.join(BUILD, "ddict")
LIMIT = 600  # seconds of one bench


def arguments():
    p = argparse.ArgumentParser(description="Measure what a second copy of all costs.")
    p.add_argument("--rounds", type=int, default=5, help="one copy and two, in turn (default %(default)s)")
    p.add_argument("--seconds", type=float, default=0.2, help="of one repetition of an operation (default %(default)s)")
    p.add_argument("--sizes", default="1K,64K,1M", help="bytes of a value (default %(default)s)")
    p.add_argument("--ops", default="put,put_many,get,view", help="(default %(default)s)")
    p.add_argument("--mem", default="1G", help="of the dictionary, for one copy (default %(default)s)")
    p.add_argument("--apart", action="store_true", help="each node on half of the cores")
    p.add_argument("--markdown", metavar="FILE", help="the table")
    return p.parse_args()


def bench(a, pair, replicas):
    """{(op, place, bytes): ns of one}"""
    with Dictionary(nodes=2, managers=2, mem=a.mem, args=["--replicas", str(replicas)], via=[pair.prefix(0), pair.prefix(1)]) as d:
        argv = [*pair.prefix(0), COMMAND, "bench", "--json", "--sizes=" + a.sizes, "--ops=" + a.ops, "--seconds=%g" % a.seconds, "--reps=3", "--set-size=64M"]
        p = subprocess.run(argv, env=d.env(0), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
        if p.returncode != 0:
            sys.exit("ddict bench with %d: exit code %d: %s" % (replicas, p.returncode, p.stderr.strip()))
        d.end()
    return {(r["op"], r["place"], r["value_bytes"]): 1e9 / r["ops_per_s"] for r in json.loads(p.stdout)["results"]}


def time_text(ns):
    return "%.3g µs" % (ns / 1e3) if ns < 1e6 else "%.3g ms" % (ns / 1e6)


def size_text(n):
    return "%d MiB" % (n >> 20) if n % (1 << 20) == 0 else "%d KiB" % (n >> 10) if n % 1024 == 0 else "%d bytes" % n


def main():
    a, rounds = arguments(), []
    if os.geteuid() != 0:
        sys.exit("needs root: two network namespaces")
    with nets.Pair("replicas") as pair:
        pair.apart = a.apart
        for n in range(a.rounds):
            rounds.append((bench(a, pair, 1), bench(a, pair, 2)))
            print("round %d of %d" % (n + 1, a.rounds), file=sys.stderr, flush=True)
    lines = ["| row | one copy | two copies: ratio of times |", "|---|---|---|"]
    for row in rounds[0][0]:
        ratios = sorted(two[row] / one[row] for one, two in rounds)
        lines.append("| %s of %s, keys of %s node | %s | %.2f (%.2f - %.2f) |" % (row[0], size_text(row[2]), "this" if row[1] == "local" else "the other",
                                                                           time_text(statistics.median(one[row] for one, _ in rounds)), statistics.median(ratios), ratios[0], ratios[-1]))
    print("\n".join(lines))
    if a.markdown:
        with open(a.markdown, "w") as f:
            f.write("\n".join(lines) + "\n")


main()
