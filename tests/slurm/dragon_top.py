# SPDX-License-Identifier: Apache-2.0
"""Which molecules bind best? Each manager's are looked through, and the best of all come out in order."""

import random
import socket

import ddict.dragon as dragon
from ddict.dragon.data.ddict.ddict import DDict
from ddict.dragon.infrastructure.policy import Policy
from ddict.dragon.native.machine import Node, System
from ddict.dragon.native.process import Process


def best_here(dd, out, n):
    for name, score in sorted(dd.items(), key=lambda item: -item[1])[:n]:
        out.put((score, name))


def is_better(a, b):
    return a[0] > b[0]


def screen(d, node):
    rng = random.Random(node)
    assert Node().hostname == Node(node).hostname, (Node(), socket.gethostname())
    d.start_batch_put()
    for i in range(500):
        d[f"molecule {node}.{i}"] = rng.random()
    d.end_batch_put()
    mine = d.manager(d.local_manager)
    mine["note"] = node  # on this node, whatever its hash
    print("screened", node, flush=True)


def main():
    system = System()
    d = DDict(None, None, 64 * 1024 * 1024, policy=system.hostname_policies())
    processes = [Process(target=screen, args=(d, node), policy=Policy(placement=Policy.Placement.HOST_ID, host_id=node)) for node in system.nodes]
    for process in processes:
        process.start()
    for process in processes:
        assert process.join() == 0, process.returncode
    with d.filter(best_here, (10,), is_better) as candidates:
        found = [next(candidates) for _ in range(10)]
    scores = sorted((score for name, score in d.items()), reverse=True)
    print("best", [score for score, _ in found] == scores[:10], "of", len(scores))
    notes = [d.manager(i)["note"] for i in range(len(d.manager_nodes))]
    print("notes", sorted(notes))
    print("policies", len({node.hostname for node in d.manager_nodes}))
    d.destroy()


if __name__ == "__main__":
    main()
