#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is published with two copies of all: a node of the chain is lost while the value is on its way, and the others have it all the same."""
import os
import random
import signal
import subprocess
import time

import cluster
from cluster import BUILD, check, main
from losses import Replicated

BENCH = os.path.join(BUILD, "tests", "bench", "follow_bench")
LIMIT = 120  # seconds


def start(d, node, *args):
    return subprocess.Popen([BENCH, *map(str, args)], env=d.env(node), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(p, what):
    out, err = p.communicate(timeout=LIMIT)
    check(p.returncode == 0, "%s: exit code %d: %s%s" % (what, p.returncode, out, err))
    return out.split()


def follow(d, nodes, last):
    followers = {i: start(d, i, "follow", last) for i in nodes}
    for p in followers.values():
        check(p.stdout.readline() == "ready\n", "a follower does not come")
    return followers


def publish_and_lose(lost, mib=24):
    with Replicated(nodes=4, mem="1G") as d:
        followers = follow(d, range(4), 2)
        ended(start(d, 0, "publish", mib << 20, 1, 0), "publish")
        time.sleep(random.uniform(0.0, 0.15))  # in any part of the way
        cluster.Dictionary.lose(d, lost, [followers[lost].pid])
        followers.pop(lost).communicate(timeout=LIMIT)
        ended(start(d, d.left()[0], "publish", mib << 20, 1, 0), "publish after the loss")
        for i, p in followers.items():
            check(ended(p, "the follower on node %d" % i)[-2:-1] == ["2"], "node %d has not got the second version" % i)
        late = follow(d, d.left()[-1:], 2)[d.left()[-1]]
        check(ended(late, "a late one")[0:1] == ["2"], "a late one gets the newest alone")
        d.end()


def a_node_of_the_chain_is_lost():
    publish_and_lose(random.choice((1, 2, 3)))


def the_node_that_published_is_lost():
    publish_and_lose(0)


def a_manager_is_killed_while_it_is_published():
    """Its next life has its memory: the publication ends well, or is told that a manager was lost, and the next one does."""
    with cluster.Dictionary(nodes=3, mem="600M") as d:
        followers = follow(d, (1, 2), 5)
        for turn in range(4):
            p = start(d, 0, "publish", 24 << 20, 1, 0)
            time.sleep(random.uniform(0.0, 0.08))
            victim = cluster.managers_of(d.nodes[turn % 3].proc.pid)[0]
            os.kill(victim, signal.SIGKILL)
            out, err = p.communicate(timeout=LIMIT)
            check(p.returncode == 0 or "lost" in err, "publish: exit code %d: %s%s" % (p.returncode, out, err))
            cluster.wait_for("the next life", lambda: [m for m in cluster.managers_of(d.nodes[turn % 3].proc.pid) if m != victim])
        version = 0
        while version < 5:
            version = int(ended(start(d, 0, "publish", 24 << 20, 1, 0), "publish after the kills")[0])
        for i, p in followers.items():
            check(int(ended(p, "the follower on node %d" % i)[-2]) >= 5, "node %d has not got the last version" % i)
        d.end()


if __name__ == "__main__":
    main([a_node_of_the_chain_is_lost, the_node_that_published_is_lost, a_manager_is_killed_while_it_is_published], limit=240)
