# SPDX-License-Identifier: Apache-2.0
"""What tests of lost nodes share (replicas.py, votes.py, first_node.py, leases.py): dictionaries with two copies, loads that judge each answer (replicas_client.c), and reads in place that must not be old."""
import contextlib
import functools
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

import cluster
from cluster import BUILD, Failed, alive, check, children, owners_of, wait_for
from switch import Switch

CLIENT = os.path.join(BUILD, "tests", "local", "replicas_client")
REPLICAS = os.environ.get("DDICT_TEST_REPLICAS", "2")
ETIMEDOUT, ENOKEY, EFROZEN = -110, -4001, -4015
WAIT_S = 4          # DD_LEASE_WAIT_MS
# From a loss to the answer of a call that waited for it: WAIT, a beat or two, and a busy machine; not DD_PEER_LOST_MS.
ANSWERED_MS = 9000


class Client:
    """One replicas_client on a node."""

    def __init__(self, d, node, *args):
        self.node, self.args = node, args
        self.proc = subprocess.Popen([*d.prefix(node), CLIENT, *map(str, args)], env=d.env(node), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)
        self.lines = []

    def line(self, seconds=30):
        if not select.select([self.proc.stdout], [], [], 4 * seconds)[0]:
            raise Failed("%s on node %d says nothing for %g s" % (" ".join(map(str, self.args)), self.node, 4 * seconds))
        return self.proc.stdout.readline().rstrip("\n")

    def begins(self, word):
        got = self.line()
        check(got == word, "%s on node %d said %r, not %r" % (" ".join(map(str, self.args)), self.node, got, word))
        return self

    def end(self, code=0, seconds=90):
        """After a SIGTERM, or by itself; its last line."""
        try:
            out = self.proc.communicate(timeout=seconds)[0].splitlines() or [""]
        except subprocess.TimeoutExpired:
            raise Failed("%s on node %d does not end" % (" ".join(map(str, self.args)), self.node)) from None
        check(self.proc.returncode == code, "%s on node %d: exit code %d, not %d: %s" % (" ".join(map(str, self.args)), self.node, self.proc.returncode, code, out[-1]))
        self.lines += out
        return out[-1]

    def stop(self, code=0):
        self.proc.send_signal(signal.SIGTERM)
        return self.end(code)


class Asker(Client):
    """Calls by lines: say() begins one, answer() is (code, ms, rest); call() is both."""

    def __init__(self, d, node):
        super().__init__(d, node, "ask")
        self.begins("ready")

    def say(self, verb, key="-", number=0, size=8, ms=60000):
        self.proc.stdin.write("%s %s %d %d %d\n" % (verb, key, number, size, ms))
        self.proc.stdin.flush()

    def answer(self, seconds=70):
        words = self.line(seconds).split(" ", 2)
        check(len(words) >= 2, "an answer of %r" % words)
        return int(words[0]), int(words[1]), (words + [""])[2]

    def call(self, *args, **kw):
        self.say(*args, **kw)
        return self.answer()

    def does(self, *args, code=0, **kw):
        got = self.call(*args, **kw)
        check(got[0] == code, "%r: %r" % (args, got))
        return got

    def has(self, key, number, size=8, verb="get"):
        got = self.call(verb, key)
        check(got[0] == 0 and got[2] == "%d %d" % (number, size), "node %d: %s %s: %r, not %d of %d bytes" % (self.node, verb, key, got, number, size))


class Replicated(cluster.Dictionary):
    """A dictionary with --replicas=2, one manager on each node. link: where each node is a network namespace."""

    def __init__(self, nodes=3, managers=None, mem="96M", args=(), link=None, via=None, replicas=REPLICAS, **kw):
        self.clients = []
        self.folder = tempfile.mkdtemp(prefix="ddict-replicas-", dir=BUILD)
        via = [link.prefix(i) for i in range(nodes)] if link else via
        super().__init__(nodes=nodes, managers=managers or nodes, mem=mem, args=["--replicas", replicas, "--restarts", "16", *args], via=via, **kw)
        for node in self.nodes:
            self.pids.update(children(node.proc.pid))

    def client(self, node, *args, kind=Client):
        c = kind(self, node, *args)
        self.clients.append(c)
        return c

    def ask(self, node):
        return self.client(node, kind=Asker)

    def load(self, node, most=4096):
        c = self.client(node, "load", os.path.join(self.folder, "notes.%d" % len(self.clients)), len(self.clients) + 1, most)
        c.path = c.args[1]
        return c.begins("going")

    def loads(self, each=2, most=4096):
        return [self.load(i, most) for i in self.left() for _ in range(each)]

    # --- what is done to a node ---
    def signal(self, pids, number):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def lose(self, i, clients=True):
        """With its clients, or without."""
        super().lose(i, [c.proc.pid for c in self.clients if clients and c.node == i and c.proc.poll() is None])

    def wait_promoted(self, i, seconds=20):
        """The keys of all managers of this node are answered for by processes of others."""
        def done():
            stats = self.stats(self.left()[0])
            others = {p for k in self.left() for p in self.pids_of(k)}
            return all(s["pid"] in others for m, s in stats.items() if m % self.n == i)
        wait_for("promotion of what node %d had" % i, done, seconds, pace=0.05)

    def wait_whole(self, i, seconds=30):
        """After the loss of node i: all its keys are served, and all keys have two copies again."""
        self.wait_promoted(i)
        wait_for("two copies of all keys: %r" % self.copies(), lambda: self.copies() and all(self.copies().values()), seconds, pace=0.05)
        self.pids.update(p for k in self.left() for p in self.pids_of(k))

    def filled(self, seconds=20):
        """(node, owner, process) of a shadow of later, as soon as there is one. It is stopped: so it is not whole yet."""
        def look():
            for i in self.left():
                for owner, pid in owners_of(self.nodes[i].proc.pid):
                    if pid not in self.pids:
                        os.kill(pid, signal.SIGSTOP)
                        self.pids.add(pid)
                        return i, owner, pid
            return None
        return wait_for("a new shadow", look, seconds, pace=0.001)

    # --- what is there ---
    def verify(self, loads, nodes=None):
        """What each load has been told is there, from every remaining node; then its queue is taken to its end from one of them."""
        nodes = self.left() if nodes is None else nodes
        for n, c in enumerate(loads):
            for i in nodes:
                check(self.client(i, "verify", c.path).end() == "all there", "verify")
            check(self.client(nodes[n % len(nodes)], "drain", c.path).end() == "all there", "drain")

    def stop_loads(self, loads):
        """Those of remaining nodes; the longest call of all, in ms."""
        longest = 0
        for c in loads:
            if c.node in self.lost:
                c.proc.wait(30)
                continue
            last = c.stop()
            m = re.fullmatch(r"calls (\d+) longest (\d+)", last)
            check(m and int(m.group(1)) > 20, "a load said %r" % last)
            longest = max(longest, int(m.group(2)))
        return longest

    def judge(self, loads, most_ms=ANSWERED_MS):
        """The loads end: no call took too long, and what they were told is there."""
        longest = self.stop_loads(loads)
        check(longest < most_ms, "a call took %d ms" % longest)
        print("# the longest call took %d ms" % longest)
        self.verify(loads)

    def go_on(self, loads, seconds):
        """For so long; none of a remaining node ends."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for c in loads:
                if c.proc.poll() is not None and c.node not in self.lost:
                    c.end()
                    raise Failed("a load on node %d has ended" % c.node)
            time.sleep(0.02)

    def ends_cut_off(self, i, clients, seconds=15):
        """Node i, which was cut off from the others, and these clients of it, are told so and end."""
        for c in clients:
            text = c.end(code=3)
            check(text.startswith("lost "), "a client of node %d was told %r" % (i, text))
        self.nodes[i].line("error", seconds)
        check(self.nodes[i].wait(15) != 0, "exit code")

    def end(self, seconds=15.0):
        """All remaining ddictds end with 0; the report."""
        for c in self.clients:
            if c.proc.poll() is None:
                c.proc.stdin.close()
                c.proc.wait(30)
        return super().end(seconds)

    def ends_lost(self, pattern, seconds=25):
        """All remaining ddictds end with 1 and this sentence."""
        for i in self.left():
            wait_for("the loss on node %d: lines %r" % (i, self.nodes[i].lines), lambda: self.nodes[i].has("error"), seconds)
            line = self.nodes[i].line("error", 1)
            check(re.search(pattern, line), "node %d said %r" % (i, line))
            code = self.nodes[i].wait(seconds)
            check(code == 1, "node %d: exit code %d" % (i, code))

    def __exit__(self, kind, value, trace):
        for c in self.clients:
            if c.proc.poll() is None:
                c.proc.kill()
            c.proc.wait()
            c.proc.stdout.close()
            with contextlib.suppress(OSError):
                c.proc.stdin.close()
        for i in range(self.n):
            self.signal([p for p in self.pids_of(i)[1:] if alive(p)], signal.SIGCONT)
        shutil.rmtree(self.folder, ignore_errors=True)
        return super().__exit__(kind, value, trace)


def keys_of(d, owner, n, prefix="k"):
    """Names of n keys of this owner."""
    a, found, i = d.ask(d.left()[0]), [], 0
    while len(found) < n:
        key = "%s%d" % (prefix, i)
        if a.call("owner", key)[0] == owner:
            found.append(key)
        i += 1
    return found


def linked(nodes):
    """Of a function (d, switch), the test of a dictionary of so many nodes, each a network namespace whose link can be cut; it needs root."""
    def of(function):
        @functools.wraps(function)
        def test():
            if os.geteuid() != 0 or subprocess.run(["ip", "netns", "list"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
                print("# needs the right to make network namespaces")
                return
            with Switch(nodes) as switch, Replicated(nodes=nodes, link=switch) as d:
                function(d, switch)
        return test
    return of


def no_stale(reads, writes):
    """[(number, ns)]: of a read that began after the end of a write, an older number."""
    worst = 0
    for number, began in reads:
        least = max((n for n, ended in writes if ended < began), default=0)
        if number < least:
            worst = max(worst, least - number)
    return worst


def pairs(lines):
    return [tuple(map(int, text.split())) for text in lines if re.fullmatch(r"\d+ \d+", text)]


class InPlace:
    """A key of this node's manager, which a client there reads in place while one on node 2 writes it."""

    def __init__(self, d, node):
        key = keys_of(d, node, 1, "s")[0]
        d.ask(1 - node).does("put", key, 0, 64)
        self.writer, self.reader = d.client(2, "write", key, 2000), d.client(node, "read", key).begins("going")

    def nothing_old(self):
        """The reader has ended."""
        self.writer.stop()
        stale = no_stale(pairs(self.reader.lines), pairs(self.writer.lines))
        check(stale == 0, "a read in place was %d values behind" % stale)
