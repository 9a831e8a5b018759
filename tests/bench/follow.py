#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how fast a published value is on all nodes: ddict_publish() and ddict_follow_next(). In a build folder; needs root where links are shaped.

small: 1 KiB, on 8 nodes that are idle: the time from the begin of its publication until the last node has it.
large: the same of a large value, on 2 nodes and on 8, each a network namespace whose link has --mbit both ways: the factor between them.
"""
import argparse
import contextlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "local"))
from cluster import BUILD, Dictionary, check  # noqa: E402
from switch import Switch, ip  # noqa: E402

BENCH = os.path.join(BUILD, "tests", "bench", "follow_bench")
LIMIT = 600  # seconds that one run may take


class Shaped(Switch):
    """Its links carry so many Mbit/s, each way."""

    def __init__(self, hosts, mbit):
        super().__init__(hosts)
        self.mbit = mbit

    def __enter__(self):
        super().__enter__()
        try:
            rate = ["tbf", "rate", "%dmbit" % self.mbit, "burst", "256kb", "latency", "50ms"]
            for i, name in enumerate(self.names):
                subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", *rate], check=True)
                subprocess.run(["tc", "-n", self.bridge, "qdisc", "add", "dev", "p%d" % i, "root", *rate], check=True)
        except BaseException:
            self.__exit__()
            raise
        return self


def ended(p):
    out, err = p.communicate(timeout=LIMIT)
    check(p.returncode == 0, "follow_bench: exit code %d: %s" % (p.returncode, err))
    return [line.split() for line in out.splitlines()]


def start(d, node, *args):
    return subprocess.Popen([*d.prefix(node), BENCH, *map(str, args)], env=d.env(node), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def measure(d, followed, size, count, gap_ms):
    """Publish on node 0, follow on these; for each version that all saw the us until the last had it, and of the calls."""
    followers = [start(d, i, "follow", count) for i in followed]
    for p in followers:
        check(p.stdout.readline() == "ready\n", "a follower does not come")
    calls = [int(us) for _, us in ended(start(d, 0, "publish", size, count, gap_ms))]
    seen = [{version: int(us) for version, us, *_ in ended(p)} for p in followers]
    return [max(one[v] for one in seen) for v in seen[0] if all(v in one for one in seen)], calls


def part(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def small(nodes, count):
    with Dictionary(nodes=nodes, managers=1, mem="%dM" % (64 * nodes)) as d:
        last, calls = measure(d, range(nodes), 1024, count, 20)
        print("1 KiB on %d nodes, %d versions that all saw: the last node has it after p50 %.2f ms, p90 %.2f, p99 %.2f; a call of publish takes p50 %.2f ms" %
              (nodes, len(last), part(last, 0.5) / 1e3, part(last, 0.9) / 1e3, part(last, 0.99) / 1e3, part(calls, 0.5) / 1e3))


def large(nodes, mib, mbit, count):
    """Milliseconds until the last of the nodes has it, the best of some."""
    with Shaped(nodes, mbit) if mbit else contextlib.nullcontext() as switch:
        via = [switch.prefix(i) for i in range(nodes)] if switch else None
        with Dictionary(nodes=nodes, managers=1, mem="%dM" % ((min(count, 3) * mib + mib // 8 + 64) * nodes), via=via) as d:
            times = []
            for _ in range(count):
                last, calls = measure_once(d, nodes, mib)
                times.append(last / 1e3)
    print("%d MiB to %d nodes: %s ms" % (mib, nodes - 1, ", ".join("%.0f" % t for t in times)))
    return min(times)


def measure_once(d, nodes, mib):
    """Node 0 publishes, all others follow."""
    d.published = getattr(d, "published", 0) + 1
    followers = [start(d, i, "follow", d.published) for i in range(1, nodes)]
    for p in followers:
        check(p.stdout.readline() == "ready\n", "a follower does not come")
    calls = [int(us) for _, us in ended(start(d, 0, "publish", mib << 20, 1, 300))]
    return max(int(ended(p)[-1][1]) for p in followers), calls


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--nodes", type=int, default=8)
    a.add_argument("--mib", type=int, default=1024, help="of the large value; a node needs three times as much, with --count=1 once")
    a.add_argument("--mbit", type=int, default=1000, help="of each link, each way; 0: without namespaces, so that the machine is the limit")
    a.add_argument("--count", type=int, default=3, help="of large values; of small ones a hundred times as many")
    a.add_argument("--only", choices=("small", "large"))
    o = a.parse_args()
    if o.only != "large":
        small(o.nodes, 100 * o.count)
    if o.only != "small":
        two, all_ = large(2 + 1, o.mib, o.mbit, o.count), large(o.nodes + 1, o.mib, o.mbit, o.count)
        print("to %d nodes in %.2f times the time to 2" % (o.nodes, all_ / two))


if __name__ == "__main__":
    main()
