# SPDX-License-Identifier: Apache-2.0
"""torch_store.py - calls a second of ddict.torch.Store and of torch's TCPStore, by many processes at once, in turn.

    ddict run --managers=2 --mem=256M -- python3 tests/bench/torch_store.py [--clients 64] [--calls 300] [--rounds 5]

set: each process its own keys. get: keys of another process. add: one key of all. wait: for a key of another process, that is there. meet: all add 1 to a key, the
last one sets another, for which all wait. Each client first makes a call that is not counted. Under srun with several tasks (SLURM_NTASKS) each task has
clients / tasks of them, and the TCPStore is in the first task. Prints medians, and the median of the rounds' ratios.
"""
import argparse
import os
import statistics
import sys
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

import ddict
from ddict.torch import Store

MINUTES = timedelta(minutes=5)
KINDS = "set", "get", "add", "wait", "meet"


def calls(store, kind, who, clients, n, turn):
    """n calls of a kind; what is asked for has been set by the one before"""
    value, beside = b"x" * 32, (who + 1) % clients
    if kind == "set":
        for i in range(n):
            store.set(f"{who}/{i}", value)
    elif kind == "get":
        for i in range(n):
            store.get(f"{beside}/{i}")
    elif kind == "add":
        for i in range(n):
            store.add("sum", 1)
    elif kind == "wait":
        for i in range(n):
            store.wait([f"{beside}/{i}"])
    else:
        for i in range(max(1, n // 20)):
            if store.add(f"came{turn}/{i}", 1) == clients:
                store.set(f"go{turn}/{i}", "1")
            store.wait([f"go{turn}/{i}"])


def order(turn):
    """The stores, in turn the other one first"""
    return ("ddict", "tcp") if turn % 2 else ("tcp", "ddict")


def client(d, who, args):
    stores = {"ddict": Store("bench", MINUTES, d), "tcp": dist.TCPStore(args.host, d.get(("bench", "port"), wait=True), None, False, MINUTES)}
    for store in stores.values():
        store.set(f"first{who}", "1")
    d.add(("bench", "ready"))
    for turn in range(args.rounds):
        for kind in KINDS:
            for which in order(turn):
                d.get(("bench", "go", turn, kind, which), wait=True, timeout=1200)
                start = time.time()
                calls(stores[which], kind, who, args.clients, args.calls, turn)
                d["bench", turn, kind, which, who] = start, time.time()
                d.add(("bench", "done", turn, kind, which))


def lead(d, args):
    rate = {}
    d.wait_for(("bench", "ready"), args.clients, timeout=1200)
    for turn in range(args.rounds):
        for kind in KINDS:
            for which in order(turn):
                time.sleep(0.2)
                d["bench", "go", turn, kind, which] = 1
                d.wait_for(("bench", "done", turn, kind, which), args.clients, timeout=1200)
                spans = [d["bench", turn, kind, which, who] for who in range(args.clients)]
                n = args.clients * (max(1, args.calls // 20) if kind == "meet" else args.calls)
                rate.setdefault((kind, which), []).append(n / (max(end for _, end in spans) - min(start for start, _ in spans)))
    print(f"torch {torch.__version__}: {args.clients} clients, {args.calls} calls, {args.rounds} rounds, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for kind in KINDS:
        ours, theirs = rate[kind, "ddict"], rate[kind, "tcp"]
        ratios = [a / b for a, b in zip(ours, theirs)]
        print(f"{kind:5} ddict {statistics.median(ours):9.0f}/s  TCPStore {statistics.median(theirs):9.0f}/s  {statistics.median(ratios):6.2f} times"
              f" ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def main():
    p = argparse.ArgumentParser()
    for word, default in (("clients", 64), ("calls", 300), ("rounds", 5)):
        p.add_argument("--" + word, type=int, default=default)
    args = p.parse_args()
    task, tasks = int(os.environ.get("SLURM_PROCID", 0)), int(os.environ.get("SLURM_NTASKS", 1))
    args.host = os.environ.get("MASTER_ADDR", "127.0.0.1")
    children = []
    for who in range(task, args.clients, tasks):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                client(ddict.attach(timeout=600), who, args)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(pid)
    if task == 0:  # behind the forks: a server has threads
        d = ddict.attach(timeout=600)
        server = dist.TCPStore(args.host, 0, None, True, MINUTES, wait_for_workers=False)
        d["bench", "port"] = server.port
        lead(d, args)
    if any(os.waitpid(pid, 0)[1] for pid in children):
        sys.exit("a client failed")


main()
