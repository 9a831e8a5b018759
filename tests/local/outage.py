#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The link between two nodes goes and comes back, in network namespaces of their own: what is shorter than the promised 10 s loses nothing and says nothing false; what is longer is noticed
soon, and said as it is. Needs root."""
import os
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench", "peers"))
import nets  # noqa: E402
from cluster import PROBE, Dictionary, Failed, check, main, wait_for

LOST = 10  # DD_PEER_LOST_MS, seconds


class Link(nets.Pair):
    """Two namespaces and a pair of interfaces; names[i] is node i's."""

    def __init__(self, tag):
        super().__init__("cut", tag, 198)

    def up(self, up):
        """Frames go to an address that nobody has: neither kernel is told."""
        for i, name in enumerate(self.names):
            nets.ip("-n", name, "neighbor", *(["del"] if up else ["replace"]), self.address[1 - i], *([] if up else ["lladdr", "02:00:00:00:00:99", "nud", "permanent"]), "dev", "eth0")


class Cut(Link):
    """The link is down at one end: the kernels know."""

    def up(self, up):
        nets.ip("-n", self.names[1], "link", "set", "eth0", "up" if up else "down")


def probe(d, link, node, *args, ms=60000):
    return subprocess.Popen([*link.prefix(node), PROBE, *map(str, args)], env=dict(d.env(node), PROBE_MS=str(ms)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True)


def run(d, link, node, *args, ms=60000):
    p = probe(d, link, node, *args, ms=ms)
    out = p.communicate(timeout=110)[0]
    check(p.returncode == 0, "probe %s on node %d: exit code %d: %s" % (" ".join(map(str, args)), node, p.returncode, out))


def survived(kind, seconds):
    """An outage that came near LOST, as a busy machine had no time for us, says nothing: there is another one."""
    for attempt in range(4):
        lasted = []
        try:
            return outage(kind, seconds, lasted)
        except Failed as e:
            if attempt == 3 or not lasted or lasted[0] < max(seconds + 0.2, LOST - 1) or str(e) == "time is over":
                raise
            print("# an outage of %.2f s instead of %g: %s" % (lasted[0], seconds, e), flush=True)


def outage(kind, seconds, lasted):
    with kind("s") as link, Dictionary(nodes=2, managers=2, via=[link.prefix(0), link.prefix(1)]) as d:
        for node in (0, 1):
            run(d, link, node, "fill", "before%d" % node, 50, 2000)
            run(d, link, node, "verify", "before%d" % node, 50, 2000)
        began = time.monotonic()
        link.up(False)
        late = [probe(d, link, node, "fill", "late%d" % node, 20, 2000, ms=300) for node in (0, 1)]  # these run out of time
        during = [probe(d, link, node, "fill", "during%d" % node, 50, 2000) for node in (0, 1)]      # these do not
        time.sleep(max(0, seconds - (time.monotonic() - began)))
        link.up(True)
        lasted.append(time.monotonic() - began)
        for p in during:
            out = p.communicate(timeout=60)[0]
            check(p.returncode == 0, "under way in an outage of %g s: %r" % (seconds, out))
        for p in late:
            out = p.communicate(timeout=60)[0]
            check("no answer within 300 ms" in out, "out of time in an outage: %r" % out)
        for node in (0, 1):
            run(d, link, node, "verify", "before%d" % node, 50, 2000)
            run(d, link, node, "verify", "during%d" % (1 - node), 50, 2000)
            run(d, link, node, "fill", "after%d" % node, 50, 2000)
        time.sleep(4)  # what TCP still had to say has been said
        run(d, link, 0, "verify", "after1", 50, 2000)
        for node in d.nodes:
            check("lost" not in node.stderr() and not node.has("error"), "stderr: %s" % node.stderr())
        d.end()


def an_outage_of_7_s_loses_nothing():
    survived(Link, 7)


def an_outage_of_9_s_loses_nothing():
    survived(Link, 9)


def a_cable_that_is_out_for_9_s_loses_nothing():
    survived(Cut, 9)


def an_idle_connection_outlives_an_outage():
    """Nothing is under way but the beats; the first requests afterwards are answered."""
    with Link("i") as link, Dictionary(nodes=2, managers=2, via=[link.prefix(0), link.prefix(1)]) as d:
        for node in (0, 1):
            run(d, link, node, "fill", "before%d" % node, 50, 2000)
        time.sleep(5)
        link.up(False)
        time.sleep(8.5)
        link.up(True)
        for node in (0, 1):
            run(d, link, node, "verify", "before%d" % (1 - node), 50, 2000)
            run(d, link, node, "fill", "after%d" % node, 50, 2000)
        d.end()


def an_outage_without_end_is_noticed_and_said_as_it_is():
    with Link("e") as link, Dictionary(nodes=2, managers=2, via=[link.prefix(0), link.prefix(1)]) as d:
        for node in (0, 1):
            run(d, link, node, "fill", "before%d" % node, 50, 2000)
        link.up(False)
        began = time.monotonic()
        wait_for("the loss", lambda: any(node.has("error") for node in d.nodes), 20)
        took = time.monotonic() - began
        check(LOST - 2 < took < LOST + 8, "noticed after %.1f s" % took)
        link.up(True)  # who has not noticed it yet hears that the other has gone
        for node in d.nodes:
            wait_for("the loss", lambda: node.has("error"), 20)
        for i, node in enumerate(d.nodes):
            line = node.line("error", 1)
            check("node %s is lost: silent for" % d.node_name(1 - i) in line and "ended" not in line, "node %d said %r" % (i, line))
            check(node.wait(10) == 1, "exit code")


if __name__ == "__main__":
    if os.geteuid() != 0 or subprocess.run(["ip", "netns", "list"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        print("skipped: needs the right to make network namespaces")
        sys.exit(77)
    main([an_outage_of_7_s_loses_nothing, an_outage_of_9_s_loses_nothing, a_cable_that_is_out_for_9_s_loses_nothing, an_idle_connection_outlives_an_outage,
          an_outage_without_end_is_noticed_and_said_as_it_is], at_once=3)
