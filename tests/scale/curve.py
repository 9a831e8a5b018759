#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the control of a dictionary grows with its nodes: real ddictds, one manager each, on this host without Slurm.

    tests/scale/curve.py [--nodes 4,16,64] [--markdown]        in the build folder, or with DDICT_BUILD

For each number of nodes: start, statistics, freeze and unfreeze, and the end as Slurm brings it (the line `drain` and EOF at every node); then the loss of
a node in the middle, and of node 0. ddictds and managers say at their end how many messages of which type they sent and heard (wire/conn_counts.h).

Invariants, for each phase: at most SHARE * n * log2(n) messages in all. Where one node speaks with all others it has at most HEAD * n: node 0, which is the
parent of all; node 1 where node 0 is lost; and the node whose client asks all managers. Any other node has at most OTHER, or TREE where node 0 is lost,
whatever n is. After a loss one node writes the record, and it has the figures of all that live. The starter writes each node one line whose length does not
depend on n. All nodes get the node infos of all from the node above them in a tree: no node sends more than CHILDREN * n of them; a node info has at most
CARD bytes.
"""
import argparse
import base64
import collections
import hashlib
import json
import math
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("DDICT_BUILD", os.getcwd())
SHARE, HEAD, OTHER, TREE, CARD = 4, 10, 32, 200, 400
CHILDREN = 16  # DD_TREE_CHILDREN
LIMIT = 60.0  # seconds that one phase may take

# Which messages belong to which phase; a line of the table each.
CONTROL_END = ("CTL_DRAIN", "CTL_DRAINED", "CTL_END", "CTL_STATS", "CTL_STEP", "CTL_DONE")
LIFE = {"gather": ("CTL_INFO", "CTL_INFOS"), "start": ("CTL_READY",), "stats": ("STATS", "REPLY", "DATA", "CREDIT"), "freeze": ("CTL_FREEZE",), "end": CONTROL_END}
LOSS = CONTROL_END + ("CTL_LOST", "CTL_NOTE")


class Failed(Exception):
    pass


def check(ok, what):
    if not ok:
        raise Failed(what)


class Node:
    def __init__(self, fleet, i):
        self.i, self.buffer, self.lines, self.eof = i, b"", [], False
        self.log = os.path.join(fleet.folder, "%d.err" % i)
        argv = [os.path.join(BUILD, "ddictd"), "--name", fleet.name, "--managers", str(fleet.n), "--mem", str(fleet.n * fleet.mem), "--node",
                fleet.node_name(i), "--wireup", "stdio", "--nodes", str(fleet.n), "--node-id", str(i), "--transport", "tcp", "--record", os.path.join(fleet.folder, "record")]
        with open(self.log, "wb") as err:
            self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, env=fleet.environ)
        os.set_blocking(self.proc.stdout.fileno(), False)

    def take(self):
        data = self.proc.stdout.read()
        if data == b"":
            self.eof = True
        elif data:
            *whole, self.buffer = (self.buffer + data).split(b"\n")
            self.lines += [w.decode() for w in whole if w.startswith(b"ddict1 ")]

    def line(self, start):
        return next((text[7:] for text in self.lines if text.startswith("ddict1 " + start)), None)

    def write(self, data):
        self.proc.stdin.write(data)
        self.proc.stdin.flush()


class Fleet:
    def __init__(self, n):
        self.n, self.mem = n, 4 << 20
        self.tag = "%d.%d" % (os.getpid(), time.monotonic_ns() % 1000000)
        self.name = "%d.local.%s" % (os.getuid(), self.tag)
        self.folder = tempfile.mkdtemp(prefix="ddict-scale.")
        self.environ = dict(os.environ, DDICT_LOG="debug")
        self.nodes, self.ready, self.seconds = [], False, {}
        self.select = selectors.DefaultSelector()

    def node_name(self, i):
        return "127.1.%d.%d" % (i // 250, i % 250 + 1)  # no name server is asked for it

    def wait(self, what, done):
        end = time.monotonic() + LIMIT
        while not done():
            check(time.monotonic() < end, "not within %g s: %s" % (LIMIT, what))
            for key, _ in self.select.select(0.01):
                key.data.take()
                if key.data.eof:
                    self.select.unregister(key.fileobj)
        return True

    def timed(self, phase, fn):
        began = time.monotonic()
        result = fn()
        self.seconds[phase] = time.monotonic() - began
        return result

    def spawn(self):
        for i in range(self.n):
            node = Node(self, i)
            self.nodes.append(node)
            self.select.register(node.proc.stdout, selectors.EVENT_READ, node)
        left = set(self.nodes)

        def all_said():
            left.difference_update([node for node in left if node.line("card ")])
            bad = next((node for node in left if node.eof), None)
            check(not bad, "a ddictd ended: %s" % (bad and self.stderr(bad)))
            return not left

        self.wait("node infos", all_said)
        self.cards = [node.line("card ").split()[2] for node in self.nodes]

    def start(self):
        digest = hashlib.blake2b(" ".join(self.cards).encode(), digest_size=32).digest()
        self.gather = b"gather %s %s %s\n" % (base64.b64encode(digest), base64.b64encode(os.urandom(32)), self.cards[0].encode())
        line = self.gather
        for node in self.nodes:
            node.write(line)
        self.wait("ready", lambda: self.nodes[0].line("ready") or (self.nodes[0].eof and check(False, self.stderr(self.nodes[0]))))

        for node in self.nodes:  # node 0 says it first
            self.wait("node %d to be ready" % node.i, lambda: "STARTING -> READY" in self.stderr(node))

    def client(self, node, *argv):
        p = subprocess.run([os.path.join(BUILD, "ddict"), *argv], env=dict(os.environ, DDICT_NAME=self.name, DDICT_NODE=self.node_name(node)),
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
        check(p.returncode == 0, "ddict %s: %s" % (" ".join(argv), p.stdout))
        return p.stdout

    def all_gone(self, but=()):
        def gone():
            return all(node.eof for node in self.nodes if node.i not in but)

        self.wait("the end", gone)
        return [(node.i, node.proc.wait()) for node in self.nodes if node.i not in but]

    def drain(self):
        for node in self.nodes:
            try:
                node.write(b"drain\n")
                node.proc.stdin.close()
            except OSError:  # node 0 told it before we did
                pass
        for i, code in self.all_gone():
            check(code == 0, "node %d: exit code %d: %s" % (i, code, self.stderr(self.nodes[i])))
        check(self.nodes[0].line("end"), "no line end")
        report = json.loads(self.nodes[0].line("report")[7:])
        check(len(report["managers"]) == self.n and report["total"]["lost_managers"] == 0, "report: %s" % report["total"])

    def lose(self, lost):
        node = self.nodes[lost]
        node.proc.kill()
        for i, code in self.all_gone(but=(lost,)):
            check(code == 1, "node %d: exit code %d after a loss: %s" % (i, code, self.stderr(self.nodes[i])))
        node.proc.wait()
        if not os.path.exists(os.path.join(self.folder, "record")):
            return False
        with open(os.path.join(self.folder, "record")) as f:
            ends = [end for end in map(json.loads, f) if end["event"] == "job_end"]
        return len(ends) == 1 and ends[0]["total"]["lost_managers"] == 1

    def stderr(self, node):
        with open(node.log) as f:
            return f.read()[-1500:]

    def counts(self):
        """[node]{type: messages and bytes, sent and heard}, and [node]{"opened", "accepted"}, of ddictd and its manager together."""
        counted = []
        for node in self.nodes:
            of, conns = collections.defaultdict(lambda: [0, 0, 0, 0]), [0, 0]
            with open(node.log) as f:
                for line in f:
                    m = re.search(r": counts opened=(\d+) accepted=(\d+)(.*)", line)
                    if not m:
                        continue
                    conns = [conns[0] + int(m.group(1)), conns[1] + int(m.group(2))]
                    for kind, numbers in re.findall(r" (\w+)=([\d/]+)", m.group(3)):
                        of[kind] = [a + int(b) for a, b in zip(of[kind], numbers.split("/"))]
            counted.append((of, conns))
        return counted

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for node in self.nodes:
            if node.proc.poll() is None:
                node.proc.kill()
            node.proc.wait()
            node.proc.stdout.close()
            try:
                node.proc.stdin.close()
            except OSError:
                pass
        self.select.close()
        shutil.rmtree(self.folder)


def size_text(size):
    for unit in ("B", "KB", "MB"):
        if size < 1000 or unit == "MB":
            return "%.*f %s" % (1 if unit != "B" and size < 100 else 0, size, unit)
        size /= 1000


class Table:
    def __init__(self):
        self.bad, self.cells = [], collections.defaultdict(dict)
        print("# %5s  %-12s %9s %10s %9s %10s %10s %11s %8s" %
              ("nodes", "phase", "messages", "bytes", "of a node", "its bytes", "of others", "connections", "seconds"), flush=True)

    def row(self, n, phase, counted, kinds, heads, seconds, conns=None, other=OTHER):
        """Messages are counted where they were sent; those of a node are what it sent and heard."""
        total = [sum(of[k][j] for of, _ in counted for k in kinds) for j in (0, 1)]
        each = [[sum(of[k][j] + of[k][j + 2] for k in kinds) for j in (0, 1)] for of, _ in counted]
        head = max(range(n), key=lambda i: each[i][0])
        others = max(e[0] for i, e in enumerate(each) if i not in heads)
        self.line(n, phase, total, each[head], others, "" if conns is None else conns, seconds)
        self.limit(n, phase, "messages in all", total[0], SHARE * n * math.log2(n))
        self.limit(n, phase, "messages of a node", each[head][0], HEAD * n)
        self.limit(n, phase, "messages of a node that is not %s" % " or ".join(map(str, heads)), others, other)
        check(total[0] > 0, "%s: no message was counted" % phase)

    def line(self, n, phase, total, head, others, conns, seconds):
        print("  %5d  %-12s %9d %10d %9d %10d %10s %11s %8.2f" % (n, phase, *total, *head, others, conns, seconds), flush=True)
        row = {"loss of %d" % (n // 2): "loss of node n/2", "loss of 0": "loss of node 0"}.get(phase, phase)
        self.cells[row][n] = "%d / %s / %d / %.2f" % (total[0], size_text(total[1]), head[0], seconds)

    def markdown(self):
        """The table of doc/tested-nodes.md."""
        numbers = sorted(self.cells["start"])
        print("\n| phase | %s |\n|%s" % (" | ".join("%d nodes" % n for n in numbers), "---|" * (len(numbers) + 1)))
        for row, cells in self.cells.items():
            print("| %s | %s |" % (row, " | ".join(cells[n] for n in numbers)))

    def limit(self, n, phase, what, value, limit):
        if value > limit:
            self.bad.append("%d nodes, %s: %d %s, more than %d" % (n, phase, value, what, limit))


def at_start(node):
    """Connections that a node opens: to node 0 and, if that is another one, to the node above for the node infos; to node 0 for control."""
    return 0 if node == 0 else 2 if node <= CHILDREN else 3


def life(table, n):
    with Fleet(n) as f:
        f.timed("spawn", f.spawn)
        f.timed("start", f.start)
        stats = f.timed("stats", lambda: f.client(n - 1, "stats", "--json"))
        check(stats.count('"manager_id"') >= n, "not all managers gave figures: %s" % stats)
        f.timed("freeze", lambda: (f.client(n - 1, "freeze"), f.client(n - 1, "unfreeze")))
        f.timed("end", f.drain)
        counted = f.counts()
        sizes = [len(c) + 1 for c in f.cards]
        # Each node says its node info, and the starter gives the line with that of node 0 to each. The rest is theirs.
        table.line(n, "wireup", (2 * n, sum(sizes) + n * len(f.gather)), (2, max(sizes) + len(f.gather)), "", 0, f.seconds["spawn"])
        table.limit(n, "wireup", "bytes of a node info", max(sizes), CARD)
        table.limit(n, "wireup", "bytes of the line for each node", len(f.gather), 2 * CARD)
        opened = [sum(conns[j] for _, conns in counted) for j in (0, 1)]
        check(opened[0] == opened[1], "%d connections opened, %d accepted" % tuple(opened))
        gathered = sum(map(at_start, range(n))) - (n - 1)
        for phase, kinds in LIFE.items():
            conns = {"gather": gathered, "start": n - 1, "stats": opened[0] - (n - 1) - gathered}.get(phase)
            table.row(n, phase, counted, kinds, (0, n - 1), f.seconds["start" if phase == "gather" else phase], conns)
        sent = max(of["CTL_INFOS"][1] for of, _ in counted)
        table.limit(n, "gather", "bytes of node infos that a node sends", sent, CHILDREN * (sum(sizes) + 100))
        table.limit(n, "start", "connections of ddictds of a node that is not 0", max(sum(c) for _, c in counted[1:n - 1]), 4 + CHILDREN + 2)
        table.limit(n, "life", "connections", opened[0], 5 * n)


def loss(table, n, lost):
    """On a busy machine a node may be taken for lost, or its figures come too late: up to three times."""
    phase = "loss of %d" % lost
    for attempt in range(3):
        with Fleet(n) as f:
            f.spawn()
            f.start()
            whole = f.timed(phase, lambda: f.lose(lost))
            if not whole and attempt < 2:
                print("# %d nodes, %s: not one record with all figures, once more" % (n, phase), flush=True)
                continue
            check(whole, "%d nodes, %s: not one record with all figures" % (n, phase))
            counted = f.counts()
            opened = sum(conns[0] for _, conns in counted) - sum(at_start(i) for i in range(n) if i != lost)
            table.row(n, phase, counted, LOSS, (0, 1), f.seconds[phase], opened, TREE if lost == 0 else OTHER)
            table.limit(n, phase, "new connections", opened, 2 * n)
            return


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--nodes", default="4,16,64", help="numbers of nodes (%(default)s)")
    p.add_argument("--markdown", action="store_true", help="at the end, the table of doc/tested-nodes.md")
    a = p.parse_args()
    if not os.access(os.path.join(BUILD, "ddictd"), os.X_OK):
        print("no ddictd in", BUILD)
        sys.exit(77)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    table = Table()
    try:
        for n in map(int, a.nodes.split(",")):
            life(table, n)
            loss(table, n, n // 2)
            loss(table, n, 0)
    except Failed as e:
        table.bad.append(str(e))
    for text in table.bad:
        print("not ok", text)
    if a.markdown and not table.bad:
        table.markdown()
    if not table.bad:
        print("ok no phase has more than %d n log2 n messages" % SHARE)
    sys.exit(1 if table.bad else 0)


main()
