#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the time until a dictionary on many nodes is ready, on a cluster of contrib/devcluster with that many nodes: devcluster up -n 16 --mem-per-node 400.
Needs root.

For each number of nodes, several times in one allocation: a step of `true` on all nodes, for comparison; `ddict up`, which returns when all managers are
ready; puts and gets for every manager from the first node; `ddict down`, until the managers' step has ended.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
DEVCLUSTER = os.environ.get("DEVCLUSTER", os.path.join(HERE, "../../contrib/devcluster/devcluster"))
LIMIT = 120  # seconds that one command may take


def command(*argv):
    """Run a command and return its stdout; exit if it fails."""
    p = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    if p.returncode != 0:
        sys.exit("%s: exit code %d: %s" % (" ".join(argv), p.returncode, p.stderr))
    return p.stdout


def timed(fn):
    began = time.monotonic()
    fn()
    return time.monotonic() - began


# Puts and gets 50 keys for each manager, so that every manager is asked.
USE = """
import ddict
d = ddict.attach()
n = len(d.stats)
for i in range(50 * n):
    d[i] = i
assert all(d[i] == i for i in range(50 * n)) and all(s["num_keys"] > 0 for s in d.stats)
print(n)
"""


def gone(job):
    end = time.monotonic() + LIMIT
    while "ddict" in command("squeue", "-h", "-s", "-j", job, "-o", "%j"):
        if time.monotonic() > end:
            sys.exit("the managers' step does not end")
        time.sleep(0.02)


def inside(nodes, managers, mem, count, mpi):
    """The part that runs in the allocation."""
    job, times = os.environ["SLURM_JOB_ID"], {"step": [], "up": [], "use": [], "down": []}
    for i in range(count):
        times["step"].append(timed(lambda: command("srun", "-Q", "-N%d" % nodes, "-n%d" % nodes, "true")))
        times["up"].append(timed(lambda: command("ddict", "up", "--managers=%d" % managers, "--mem=%s" % mem, "--mpi=%s" % mpi)))
        os.environ["DDICT_NAME"] = "%d.%s.job" % (os.getuid(), job)
        got = []
        times["use"].append(timed(lambda: got.append(command("srun", "-Q", "-N1", "-n1", "python3", "-c", USE).strip())))
        if got != [str(managers)]:
            sys.exit("%s managers answered instead of %d" % (got, managers))
        times["down"].append(timed(lambda: (command("ddict", "down"), gone(job))))
        del os.environ["DDICT_NAME"]
    print("%5d %8d" % (nodes, managers) + "".join("   %6.2f %6.2f" % (statistics.median(t), max(t)) for t in times.values()), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--nodes", default="2,4,8,16", help="numbers of nodes (%(default)s)")
    p.add_argument("--managers", type=int, default=2, help="on a node (%(default)s)")
    p.add_argument("--mem", type=int, default=16, help="MiB of a manager (%(default)s)")
    p.add_argument("--count", type=int, default=10, help="starts for each (%(default)s)")
    p.add_argument("--mpi", default="pmix", help="how managers find each other, as of ddict up (%(default)s)")
    p.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.inside:
        n = int(a.nodes)
        return inside(n, n * a.managers, "%dM" % (n * a.managers * a.mem), a.count, a.mpi)
    print("seconds          a step of true       ddict up      first use      ddict down")
    print("nodes managers   median    max   median    max   median    max   median    max", flush=True)
    for n in a.nodes.split(","):
        rc = subprocess.run([DEVCLUSTER, "run", "--", "salloc", "-Q", "-N" + n, "--mem=%d" % (a.managers * a.mem + 100), "python3", os.path.realpath(__file__),
                             "--inside", "--nodes", n, "--managers", str(a.managers), "--mem", str(a.mem), "--count", str(a.count), "--mpi", a.mpi],
                            stdin=subprocess.DEVNULL).returncode
        if rc != 0:
            sys.exit(rc)


main()
