# SPDX-License-Identifier: Apache-2.0
"""One dictionary on all nodes: processes on each of them put and get."""

import argparse
import socket

import numpy as np

from ddict.dragon import mp  # was: import multiprocessing as mp
from ddict.dragon.data.ddict import DDict
from ddict.dragon.native.machine import System
from ddict.dragon.native.process import ProcessTemplate
from ddict.dragon.native.process_group import ProcessGroup


def sample(d, me, n):
    """Put samples, and how many they are"""
    rng = np.random.default_rng(me)
    d["samples", me] = rng.normal(me, 1, n)
    d["host", me] = socket.gethostname()
    d.fetch_add("samples", n)


def average(d, me, workers):
    """Get what another process has put, mostly on another node, and put its mean"""
    other = (me + 1) % workers
    d["mean", other] = float(d["samples", other].mean())
    d["reader", other] = socket.gethostname()


def main():
    options = argparse.ArgumentParser(description="Processes on all nodes put and get")
    options.add_argument("--workers", type=int, default=4)
    options.add_argument("--samples", type=int, default=100000)
    options.add_argument("--managers-per-node", type=int, default=2)
    args = options.parse_args()

    mp.set_start_method("dragon")
    nodes = System().nnodes
    d = DDict(args.managers_per_node, nodes, nodes * 64 * 1024 * 1024, timeout=100)
    print("nodes", nodes, "managers", len(d.manager_nodes))

    processes = [mp.Process(target=sample, args=(d, i, args.samples)) for i in range(args.workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print("samplers ended with", [process.exitcode for process in processes])

    group = ProcessGroup()
    for i in range(args.workers):
        group.add_process(nproc=1, template=ProcessTemplate(target=average, args=(d, i, args.workers)))
    group.init()
    group.start()
    group.join()
    print("readers ended with", [code for _, code in group.inactive_puids])
    group.close()

    print("samples", d["samples"], "of", args.workers * args.samples)
    for what in "host", "reader":
        print(what + "s", len({d[what, i] for i in range(args.workers)}))
    print("means", [round(d["mean", i]) for i in range(args.workers)])
    print("keys", len(d), "in all,", sum(s.num_keys for s in d.stats), "by manager")
    for s in d.stats:
        print(f"manager {s.manager_id} on {s.hostname}: {s.num_keys} keys, {s.total_used_bytes} of {s.total_bytes} bytes")
    d.destroy()


if __name__ == "__main__":
    main()
