# SPDX-License-Identifier: Apache-2.0
"""Processes on all nodes count words into one dictionary. With Dragon: from dragon.data.ddict import DDict, and so on."""

import socket
import time

import ddict.dragon as dragon
from ddict.dragon import mp
from ddict.dragon.data.ddict import DDict
from ddict.dragon.native.machine import System

TEXT = "the quick brown fox jumps over the lazy dog and the fox runs".split()


def client(d, rank, words):
    for word in words:
        d.fetch_add(word)
    d["host", rank] = socket.gethostname()
    d[float(rank)] = d.local_manager
    d.detach()


def square(x):
    time.sleep(0.2)
    return x * x, socket.gethostname()


def main():
    mp.set_start_method("dragon")
    nodes = System().nnodes
    print("nodes", nodes)
    d = DDict(2, nodes, nodes * 32 * 1024 * 1024, timeout=100)
    processes = [mp.Process(target=client, args=(d, i, TEXT[i::4])) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print("codes", [process.exitcode for process in processes])
    print("counts", {word: d[word] for word in sorted(set(TEXT)) if d[word] > 1})
    print("hosts", len({d["host", i] for i in range(4)}), "local", all(d[float(i)] is not None for i in range(4)))
    print("managers", len(d.stats), "on", len({s.hostname for s in d.stats}), "keys", len(d), sum(s.num_keys for s in d.stats))
    same = DDict.attach(d.serialize())
    print("attached", same["fox"])
    with mp.Pool(4) as pool:
        results = pool.map(square, range(40), chunksize=1)
    print("pool", sum(x for x, _ in results), len({host for _, host in results}))
    d.destroy()


if __name__ == "__main__":
    main()
