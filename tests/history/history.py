#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Histories: workers (worker.c) call what they like on a few keys, while managers, workers, ddictds and links are killed, stopped and cut; linear.py then says whether some order of the calls explains
all answers. What nobody can know, of calls that ran out of time, were lost or were under way in a killed process, may have taken effect or not.

    make check TESTS=tests/history/history.py      in a build folder: some 20 s
    make history HISTORY_SECONDS=1800              longer, with more nemeses
    make history HISTORY_KILLS=10000               so many kills of managers and clients, on 1 and 3 nodes, and what they did
    make history HISTORY_REPLICAS=2                those of several nodes with two copies of all
    make history HISTORY_REPLICAS=2 HISTORY_LOSSES=200    so many losses of nodes, each of a dictionary of its own, and what they did
    HISTORY_AT_ONCE=N                              of these and of kills: dictionaries at once (one more than cores); 1 for times on an idle machine
    HISTORY_SEED=N                                 draw the same nemeses, though not the same moments
    HISTORY_KEEP=DIR                               keep the notes of a history without explanation there, for linear.py

Links are cut and made bad (badlink.py) in network namespaces, if we are root. Where more was lost than may be, the calls of that dictionary are checked and another one goes on; the figures say how often.
"""
import contextlib
import errno
import itertools
import os
import pickle
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "local")]

import linear  # noqa: E402
from cluster import BUILD, Dictionary, Disk, Failed, check, main, managers_of, shadows_of, wait_for  # noqa: E402
from outage import Link  # noqa: E402
from badlink import BadLink  # noqa: E402
from switch import Switch  # noqa: E402

WORKER = os.path.join(BUILD, "tests", "history", "worker")
SECONDS = float(os.environ.get("HISTORY_SECONDS", "18"))
SEED = int(os.environ.get("HISTORY_SEED", "0")) or random.SystemRandom().getrandbits(31)
LONG = SECONDS > 60
KILLS = int(os.environ.get("HISTORY_KILLS", "0"))
NEAR = bool(int(os.environ.get("HISTORY_NEAR", "0")))
REPLICAS = int(os.environ.get("HISTORY_REPLICAS", "1"))
LOSSES = int(os.environ.get("HISTORY_LOSSES", "0"))
AT_ONCE = int(os.environ.get("HISTORY_AT_ONCE", "0")) or len(os.sched_getaffinity(0)) + 1  # dictionaries, of so many kills
GROWN = 32768  # bytes that an index and its slabs may have grown by, of each manager
EMPTIED_S = 2
STREAM_S = 8  # four times as long what a lost node had sent of a value is kept: DD_STREAM_MS
RESTARTS, RESTARTS_NS = 16, 11 * 10**9  # --restarts, DD_RESTARTS_MS and a bit
LOST_S = 10  # DD_PEER_LOST_MS, and the same for a manager that stands still
REPLACED_S = 5.5  # within it the backups of a lost node serve: DD_LEASE_WAIT_MS, and a busy machine
LONG_MS = 20000  # of worker.c: a call that takes so long, where nothing stands still, hangs
KEYS = 12 if KILLS or LOSSES else 6
# Seconds from a kill to the next. Of four managers each dies some ten times in ten seconds, and serves hundreds of calls between; 16 deaths are made good.
KILL_PACE = 0.15


def comm_of(pid):
    with open("/proc/%d/comm" % pid) as f:
        return f.read().strip()


class Unexplained(Failed):
    """The checker has found something."""


class Ended(Failed):
    """The dictionary ended, and should not have."""


class LeftOver(Failed):
    """Something stays behind."""


class Round:
    """One dictionary, its workers, and what is done to them."""

    def __init__(self, d, folder, rng, link=None, workers=6, pause_us=300, words=(), at=None, freezes=False, managers=0):
        """at: the nodes that have workers; None: all. freezes: one more worker freezes and unfreezes."""
        self.d, self.folder, self.rng, self.link, self.words, self.pause_us, self.managers = d, folder, rng, link, words, pause_us, managers
        if d.n > 1 and (NEAR or (LONG and rng.random() < 0.3)):  # else its values lie where the owner is
            self.words = (*self.words, "near")
        self.clients = 0
        self.did = Counter()
        self.over = None      # why the dictionary has ended
        self.later = []       # (when, what to undo)
        self.files = []
        self.deaths = []      # (when a manager was killed, when it was gone, its number), in ns
        self.losses = []      # the same of the managers of a lost node
        self.at = list(range(d.n)) if at is None else at
        self.workers = [self.start(self.at[i % len(self.at)]) for i in range(workers)]
        self.freezer = self.start(self.at[0], "freezer") if freezes else None

    def start(self, node, *words):
        self.clients += 1
        path = os.path.join(self.folder, "calls.%d" % self.clients)
        self.files.append(path)
        argv = [*self.d.prefix(node), WORKER, path, str(self.clients), str(self.rng.getrandbits(31)), str(KEYS), str(self.pause_us), *self.words, *words]
        p = subprocess.Popen(argv, env=self.d.env(node))
        p.node = node
        return p

    # --- nemeses; each undoes itself later ---

    def nodes(self):
        return [self.d.nodes[i] for i in self.d.left()]

    def manager(self, nodes=None):
        pids = managers_of(self.rng.choice(nodes or self.nodes()).proc.pid)
        return self.rng.choice(pids) if pids else None

    def signal(self, pid, number):
        try:
            if pid:
                os.kill(pid, number)
        except ProcessLookupError:
            pass

    def stop(self, pid, seconds):
        self.signal(pid, signal.SIGSTOP)
        self.later.append((time.monotonic() + seconds, lambda: self.signal(pid, signal.SIGCONT)))

    def kill(self, pid):
        """A manager, unless it has died as often as may be."""
        try:
            number, fd = int(comm_of(pid).rsplit(":", 1)[1]), os.pidfd_open(pid)
        except (OSError, TypeError):  # it has just died, or there is none
            return
        when = time.monotonic_ns()
        if sum(n == number and when - gone < RESTARTS_NS for _, gone, n in self.deaths) >= RESTARTS:
            os.close(fd)
            return
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        select.select([fd], [], [], 10)
        self.deaths.append((when, time.monotonic_ns(), number))
        os.close(fd)

    def manager_killed(self):
        self.kill(self.manager())

    def owner_killed(self):
        """One of a node without workers: all are asked through proxies."""
        self.kill(self.manager([n for i, n in enumerate(self.d.nodes) if i not in self.at]))

    def proxy_killed(self):
        self.kill(self.manager([self.d.nodes[i] for i in self.at]))

    def manager_stopped(self):
        self.stop(self.manager(), self.rng.uniform(0.02, 1.5))

    def worker_killed(self):
        i = self.rng.randrange(len(self.workers))
        p = self.workers[i]
        p.kill()
        p.wait()
        self.workers[i] = self.start(p.node)

    def worker_stopped(self):
        p = self.rng.choice(self.workers)
        p.send_signal(signal.SIGSTOP)
        # Popen knows whether it was waited for: its pid may be another process's by then
        self.later.append((time.monotonic() + self.rng.uniform(0.02, 3), lambda: p.send_signal(signal.SIGCONT)))

    def ddictd_stopped(self):
        self.stop(self.rng.choice(self.nodes()).proc.pid, self.rng.uniform(0.02, 3))

    def shadow_killed(self):
        pids = shadows_of(self.rng.choice(self.nodes()).proc.pid)
        self.signal(self.rng.choice(pids) if pids else None, signal.SIGKILL)

    def node_stopped(self):
        """Without its workers, for less than the lease is long."""
        seconds = self.rng.uniform(0.02, 1.5)
        for pid in self.d.pids_of(self.rng.choice(self.d.left())):
            self.stop(pid, seconds)

    def backups_of(self, i):
        """Shadows of the managers of node i."""
        pids = [pid for node in self.nodes() for pid in shadows_of(node.proc.pid)]
        return [pid for pid in pids if int(comm_of(pid).rsplit(":", 1)[1][:-1]) % self.d.n == i]

    def node_lost(self):
        """Any, of two not the first one, with its workers; as many go on with the load on the others. Where there are links its own is cut some moments before: what it has sent has not arrived. Else its
        backups may stand still at that moment: they carry out what nobody will be told of."""
        self.undo(True)
        left = self.d.left()
        stays = [self.freezer.node] if self.freezer else []
        i = self.rng.choice([i for i in (left if len(left) > 2 else left[1:]) if i not in stays])
        behind = [] if self.link or self.rng.random() < 0.5 else self.backups_of(i)
        for pid in behind:
            self.stop(pid, 0.2)
        if self.link:
            self.link.up(i, False)
            time.sleep(self.rng.uniform(0, 0.5))
        elif behind:
            time.sleep(self.rng.uniform(0.01, 0.1))
        mine, when = [p for p in self.workers if p.node == i], time.monotonic_ns()
        self.d.lose(i, [p.pid for p in mine])
        for p in mine:
            p.wait()
        gone = time.monotonic_ns()
        self.losses += [(when, gone, m) for m in range(i, self.managers, self.d.n)]
        self.at = [node for node in self.at if node != i] or self.d.left()[:1]
        self.workers = [self.start(self.rng.choice(self.at)) if p in mine else p for p in self.workers]

    def link_back(self):
        self.link.up(True)

    def link_cut_until(self, seconds):
        if any(undo == self.link_back for _, undo in self.later):
            self.later = [item for item in self.later if item[1] != self.link_back]
        else:
            self.link.up(False)
        self.later.append((time.monotonic() + seconds, self.link_back))

    def link_cut(self):
        self.link_cut_until(self.rng.uniform(0.5, 7))

    def link_cut_shortly(self):
        self.link_cut_until(self.rng.uniform(0.05, 1.5))

    def link_bad(self):
        """Frames are late, lost and out of order."""
        self.link.bad(self.rng.uniform(0.001, 0.02), self.rng.uniform(0, 0.08), self.rng.uniform(0, 0.3))
        self.later.append((time.monotonic() + self.rng.uniform(0.5, 4), self.link.bad))

    # Those that end the dictionary, at the end of a long run's round
    def ddictd_killed(self):
        self.signal(self.rng.choice(self.d.nodes).proc.pid, signal.SIGKILL)

    def manager_stopped_for_long(self):
        self.stop(self.manager(), LOST_S + 5)

    def link_cut_for_long(self):
        self.link_cut_until(self.rng.uniform(LOST_S + 2, 30))

    # --- the course ---

    def undo(self, all_of_them=False):
        now = time.monotonic()
        for item in [i for i in self.later if all_of_them or i[0] <= now]:
            self.later.remove(item)
            item[1]()

    def look(self):
        """True while the dictionary lives; workers that have ended without need are found."""
        for node in self.nodes():
            while node.read(0):
                pass
            bad = [line for line in node.lines if line.startswith("ddict1 error")]
            if bad or node.proc.poll() is not None:
                self.over = self.over or (bad[0] if bad else "ddictd of %s ended with %r" % (node.name, node.proc.returncode))
        return self.over is None

    def workers_look(self):
        for i, p in enumerate(self.workers):
            code = p.poll()
            if code:  # ddictd may be about to say that the dictionary has ended
                wait_for("the end of the dictionary, after a worker ended with %r" % code, lambda: not self.look(), 2)
            if code is not None and self.look():
                self.workers[i] = self.start(p.node)  # its file is full

    def do(self, what):
        self.did[what] += 1
        getattr(self, what)()

    def run(self, seconds, nemeses, pace):
        """One of the nemeses every so many seconds."""
        end, at = time.monotonic() + seconds, time.monotonic() + 0.3
        while time.monotonic() < end and self.look():
            time.sleep(0.01)
            self.undo()
            self.workers_look()
            if nemeses and time.monotonic() > at:
                self.do(self.rng.choice(nemeses))
                at = time.monotonic() + self.rng.uniform(0.3, 1.7) * pace
        return self.over is None

    def finish(self):
        """All end, and one more looks at what is left. The dictionary may have ended."""
        self.undo(True)
        if self.freezer:
            self.workers.append(self.freezer)
        for p in self.workers:
            p.send_signal(signal.SIGTERM)
        for p in self.workers:
            wait_for("a worker to end", lambda: p.poll() is not None, 30)
        for p in self.workers:
            check(p.returncode in (0, -signal.SIGTERM) or not self.look() and p.returncode in (2, 3), "a worker ended with %r" % p.returncode)
        if self.look():
            last = self.start(self.d.left()[0], "last")
            self.workers.append(last)
            wait_for("a last worker to end", lambda: last.poll() is not None, 30)
            check(last.returncode == 0 or not self.look(), "the last worker ended with %r" % last.returncode)

    def kill_all(self):
        self.undo(True)
        for p in self.workers + ([self.freezer] if self.freezer else []):
            p.kill()
            p.wait()

    def recoveries(self, calls):
        """For each death of a manager, in ms: from the kill to the end of the first call that began behind it and that this manager has answered; None: there was none."""
        answers, asked = {}, {c.owner for c in calls}
        for c in calls:
            if c.ended is not None and c.code not in linear.OPEN and c.code not in linear.NOTHING and c.verb not in (linear.GET, linear.HAS):  # these are read in place
                answers.setdefault(c.owner, []).append((c.began, c.ended))
        return [min(((ended - killed) / 1e6 for began, ended in answers.get(number, []) if began > killed and ended > gone), default=None) for killed, gone, number in self.deaths]

    def replaced(self, calls):
        """For each manager of a lost node whose keys were ever asked for, in ms: from the loss to the first answer of who took its place; None: there was none."""
        answers, asked = {}, {c.owner for c in calls}
        for c in calls:
            if c.ended is not None and c.code not in linear.OPEN and c.code not in linear.NOTHING and c.how != linear.MANY:  # which wait for other keys, too
                answers.setdefault(c.owner, []).append(c.ended)
        # what ends just behind the loss was answered before it
        return [min(((ended - when) / 1e6 for ended in answers.get(number, []) if ended > gone + 100e6), default=None) for when, gone, number in self.losses if number in asked]

    def calls(self):
        return [c for path in self.files if os.path.exists(path) for c in linear.read_file(path)]

    def explained(self, calls):
        """How many of which outcome there were; notes without explanation are kept."""
        try:
            return linear.check_history(calls, {number: gone for _, gone, number in self.losses})
        except linear.Unexpected as e:
            keep = os.environ.get("HISTORY_KEEP")
            if keep:
                shutil.copytree(self.folder, keep, dirs_exist_ok=True)
            raise Unexplained("%s\n    (after %s; %s)" % (e, dict(self.did), self.over or "the dictionary lived"))

    def restarts(self):
        return sum("was started again" in line for node in self.d.nodes for line in node.lines)

    def judge(self):
        calls = self.calls()
        counts, found = self.explained(calls), self.recoveries(calls)
        RECOVERED.extend(ms for ms in found if ms is not None)
        replaced = self.replaced(calls)
        REPLACED.extend(ms for ms in replaced if ms is not None)
        counts["deaths"], counts["owners"] = len(found), len(replaced)
        counts["unanswered"] = sum(ms is None for ms in replaced) if self.over is None else 0
        counts["hung"] = sum(c.code == -errno.ETIMEDOUT and c.timeout_ms >= LONG_MS for c in calls)
        counts["restarts"] = self.restarts()
        return counts


def check_emptied(d, before):
    """When all is removed and all workers have gone, the managers use as much as before, but for what their indexes grew by."""
    figures, node = [], d.left()[0]

    def clients(of):  # who asks for the figures is one, of the node that it asks
        return sum(v["clients_now"] for v in of.values())

    def over():
        now = d.stats(node)
        figures[:] = [(m, {k: (before[m][k], v[k]) for k in ("total_used_bytes", "retired_bytes", "spill_used_bytes")}) for m, v in now.items()] + [("clients", {"n": (clients(before), clients(now))})]
        return all(is_now <= was + (GROWN if name == "total_used_bytes" else 0) for _, f in figures for name, (was, is_now) in f.items())

    d.run("clear", node=node)
    try:
        wait_for("memory", over, STREAM_S if d.lost else EMPTIED_S)
    except Failed:
        raise LeftOver("after all was removed (before, now): %r" % figures) from None


TOTAL = Counter()
RECOVERED = []  # ms
REPLACED = []   # ms


def a_round(rng, seconds, nemeses, pace=0.8, last=None, nodes=1, managers=2, mem="32M", args=(), env=None, link=None, may_end=False, ballast=0, emptied=False, loses=0, lost=1, replicas=REPLICAS,
            **how):
    """A dictionary for so long; what it was. loses: then a node is lost, and the others go on for so long; lost: so many times, when each key has two copies again."""
    if replicas > 1 and nodes > 1:
        args = [*args, "--replicas", str(replicas)]
    folder = tempfile.mkdtemp(prefix="ddict-history-", dir=BUILD)
    try:
        with Dictionary(nodes=nodes, managers=managers, mem=mem, args=args, env=env, via=[link.prefix(i) for i in range(nodes)] if link else None) as d:
            before = d.stats() if emptied else None
            if ballast:
                d.run("fill", "ballast", ballast, 20000)
            r = Round(d, folder, rng, link, managers=managers, **how)
            try:
                lived = r.run(seconds, nemeses, pace)
                for n in range(lost if loses else 0):
                    if n > 0 and lived:
                        wait_for("two copies of all keys", lambda: all(d.copies().values()), 30, pace=0.05)
                    if lived:
                        r.do("node_lost")
                        lived = r.run(loses, nemeses, pace)
                if lived and last:
                    r.do(last)
                    r.run(LOST_S + 10, [], pace)
                r.finish()
            finally:
                r.kill_all()
            counts = r.judge()  # before what follows: a wrong answer says more than that it ended
            if r.over is not None and not last and (not may_end or any(d.node_name(i) in r.over for i in d.lost)):
                raise Ended("the dictionary has ended: %s" % r.over)
            d.pids.update(p for node in d.nodes for p in managers_of(node.proc.pid))
            if r.over is None:
                if before:
                    check_emptied(d, before)
                d.end()
    finally:
        shutil.rmtree(folder)
    TOTAL.update(counts, rounds=1, ended=r.over is not None)
    TOTAL.update(r.did)
    return r


def recovery(found=RECOVERED):
    ms = sorted(found)
    return "p50 %.1f ms, p99 %.1f ms, most %.1f ms, of %d" % (ms[len(ms) // 2], ms[len(ms) * 99 // 100], ms[-1], len(ms))


def until(seconds, one):
    """Rounds of it, for so long."""
    end = time.monotonic() + seconds
    TOTAL.clear()
    RECOVERED.clear()
    while (left := end - time.monotonic()) > 0.5:
        one(min(left, 20))
    print("# " + ", ".join("%s %d" % item for item in sorted(TOTAL.items())), flush=True)
    if RECOVERED:
        print("# from a kill to the first answer: " + recovery(), flush=True)
    check(TOTAL["answered"] > 20 * seconds, "only %d answers" % TOTAL["answered"])


def no_switch():
    """Why there are no network namespaces on a bridge; None: there are."""
    if os.geteuid() != 0:
        return "we are not root"
    return None if subprocess.run(["ip", "netns", "list"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0 else "no network namespaces here"


def no_links():
    """Why there are no links of our own to cut; None: there are."""
    if why := no_switch():
        return why
    return None if os.access("/dev/net/tun", os.R_OK | os.W_OK) else "no /dev/net/tun here"


RNG = random.Random(SEED)
LINKS = LONG and no_links() is None
SHARE = SECONDS / (10 if LINKS else 7)


def managers_that_are_killed_and_started_again():
    kinds = itertools.cycle(["plain", "frozen", "disk"])

    def one(left):
        nodes, words = RNG.choice([(1, ["small"]), (2, ["small"]), (2, []), (2, ["tiny"])]) if LONG else (1, ["small"])
        kind, how = next(kinds), {}
        with Disk() as disk:
            args = ["--restarts", str(RESTARTS)]
            if kind == "disk" and disk:
                args += ["--spill", disk, "--spill-size", "64M"]
                how.update(mem="8M", ballast=400)
            a_round(RNG, min(left, SHARE), ["manager_killed", "manager_killed", "worker_killed"], pace=0.4, nodes=nodes, args=args, words=words, pause_us=1500,
                    freezes=kind == "frozen", **how)
    until(3 * SHARE, one)


def owners_that_are_killed_while_other_nodes_ask():
    """Managers of either side."""
    def one(left):
        nemeses, nodes = ["owner_killed"] * 2 + ["proxy_killed"] * 2 + ["worker_killed"], RNG.choice([2, 3])
        how = dict(pace=0.5, args=["--restarts", str(RESTARTS)], words=RNG.choice([[], ["small"], ["tiny"]]) if LONG else RNG.choice([[], ["small"]]), pause_us=1500, at=[0])
        if LINKS and nodes == 2:
            with Link("o") as link:
                a_round(RNG, left, nemeses + ["link_cut_shortly"], nodes=2, managers=4, link=link, **how)
        else:
            a_round(RNG, left, nemeses, nodes=nodes, managers=2 * nodes, **how)
    until(SHARE, one)


def processes_that_stand_still_or_die_on_two_nodes():
    nemeses = ["manager_stopped", "worker_killed", "worker_stopped", "ddictd_stopped"]
    until(SHARE, lambda left: a_round(RNG, left, nemeses, nodes=2))


def memory_that_is_full():
    until(SHARE, lambda left: a_round(RNG, left, ["worker_killed"], managers=1, mem="4M", ballast=165))
    check(TOTAL["full"] > 0, "no call found the memory full")


def times_that_are_too_short():
    until(SHARE, lambda left: a_round(RNG, left, ["manager_stopped", "worker_stopped"], pace=0.4, nodes=2, words=["tiny"]))


def links_that_are_cut_and_bad():
    nemeses = ["link_cut", "link_bad", "manager_stopped", "worker_killed"]

    def one(left):
        with BadLink("h") as link:
            a_round(RNG, max(left, 8), nemeses, pace=4, nodes=2, link=link, words=RNG.choice([[], ["tiny"]]))
        TOTAL.update({"frames_" + what: n for what, n in link.frames.items()})
    until(2 * SHARE, one)
    # a single bad link may be cut at the same time, or at the end of its round
    check(TOTAL["link_bad"] < 3 or (TOTAL["frames_late"] and TOTAL["frames_overtaking"]), "no frame was late, or none overtook another")


def losses_that_end_it():
    def one(left):
        kinds = ["ddictd_killed", "manager_stopped_for_long", "manager_killed", "link_cut_for_long"]
        with Link("l") as link:
            a_round(RNG, min(left, RNG.uniform(1, 5)), ["worker_killed", "manager_stopped"], nodes=2, args=["--restarts", "0"], link=link, last=RNG.choice(kinds),
                    words=RNG.choice([[], ["tiny"]]))
    until(SHARE, one)


def a_loss(rng, seconds, nemeses, nodes, cut=False, args=(), **how):
    """With two copies of all: a round that loses a node. cut: its link first, if we may."""
    how = dict({"managers": nodes, "mem": "%dM" % (32 * nodes), "replicas": 2, "loses": REPLACED_S + rng.uniform(0.2, 2), "pause_us": 1500, "words": ["small"], "pace": 0.4}, **how)
    with Switch(nodes) if cut and no_switch() is None else contextlib.nullcontext() as link:
        return a_round(rng, seconds, nemeses, nodes=nodes, args=[*args, "--restarts", str(RESTARTS)], link=link, **how)


def nodes_that_are_lost_with_two_copies():
    """One round of each, one after the other in long runs."""
    def one(left):
        what, nodes, nemeses, how = next(kinds)
        a_loss(RNG, RNG.uniform(0.5, 2), nemeses, nodes, **how)
    kinds = itertools.cycle([k for k in LOSS_KINDS if not k[3].get("disk")])
    REPLACED.clear()
    until(SHARE if LONG else 1, one)
    check(TOTAL["node_lost"] > 0 and REPLACED and TOTAL["unanswered"] == 0, "lost %d nodes; of %d owners nobody answered for %d" % (TOTAL["node_lost"], TOTAL["owners"], TOTAL["unanswered"]))
    print("# from a loss to the first answer: " + recovery(REPLACED), flush=True)


# What losses of a node are of, with two copies of all
LOSS_KINDS = [
    ("3 nodes", 3, [], {"cut": True}),
    ("2 nodes", 2, [], {}),
    ("3 nodes, large values", 3, [], {"words": []}),
    ("2 nodes, the link first", 2, [], {"cut": True}),
    ("3 nodes, shadows die, too", 3, ["shadow_killed"], {}),
    ("3 nodes, managers die, too", 3, ["manager_killed", "worker_killed"], {"may_end": True}),
    ("3 nodes, frozen now and then", 3, [], {"freezes": True}),
    ("2 nodes, values on disk", 2, [], {"disk": True}),
    ("3 nodes, tiny times", 3, [], {"words": ["small", "tiny"]}),
    ("3 nodes that stand still", 3, ["node_stopped"], {}),
    ("2 nodes, large values, the link first", 2, [], {"words": [], "cut": True}),
    ("4 nodes, one after the other", 4, [], {"lost": 2}),
    ("4 nodes, large values, one after the other", 4, [], {"lost": 2, "words": []}),
]


# What so many kills are of: nodes, and how a round differs.
ALL = ["manager_killed", "manager_killed", "worker_killed"]
OWNERS = ["owner_killed", "owner_killed", "worker_killed"]
KINDS = [
    ("1 node", 1, ALL, {}),
    ("1 node, frozen now and then", 1, ALL, {"freezes": True}),
    ("3 nodes, owners", 3, OWNERS, {"at": [0]}),
    ("1 node, values on disk", 1, ALL, {"disk": True}),
    ("3 nodes, owners, frozen now and then", 3, OWNERS, {"at": [0], "freezes": True}),
    ("3 nodes, owners, large values", 3, OWNERS, {"at": [0], "words": []}),
    ("1 node, large values", 1, ALL, {"words": []}),
    ("3 nodes, all", 3, ALL, {}),
    ("1 node, tiny times", 1, ALL, {"words": ["small", "tiny"]}),
    ("3 nodes, owners, tiny times", 3, OWNERS, {"at": [0], "words": ["small", "tiny"]}),
]


def some_kill_round(nodes, nemeses, args, how):
    a_round(RNG, 10, nemeses, **dict({"words": ["small"], "mem": "%dM" % (32 * nodes)}, pace=KILL_PACE, nodes=nodes, managers=max(4, 2 * nodes), args=[*args, "--restarts", str(RESTARTS)],
                                     pause_us=1500, emptied=True, **how))


def some_loss_round(nodes, nemeses, args, how):
    a_loss(RNG, RNG.uniform(0.3, 2), nemeses, nodes, args=args, emptied=True, **how)


def one_of_many(one, nodes, nemeses, how, kept):
    """A round; what was wrong, and why, or None."""
    how = dict(how)
    args, keep = [], os.environ.get("HISTORY_KEEP")
    try:
        with Disk() as disk:
            if how.pop("disk", False) and disk:
                args += ["--spill", disk, "--spill-size", "64M"]
                how.update(mem="16M", ballast=800)
            os.environ["HISTORY_KEEP"] = kept
            one(nodes, nemeses, args, how)
    except LeftOver as e:
        return "left-overs", e
    except Unexplained as e:
        return "torn values" if "torn" in str(e) else "applied twice" if "twice" in str(e) else "answers without explanation", e
    except Failed as e:
        return "hangs" if "a worker to end" in str(e) else "left-overs" if "to end: [" in str(e) or "sockets" in str(e) else "others", e
    finally:
        os.environ.pop("HISTORY_KEEP")
        if keep:
            os.environ["HISTORY_KEEP"] = keep
    return None


def some_kills(share, most, folder, found):
    """So many of them, in one dictionary after the other. found gets what was wrong, sums, and times from a kill to an answer."""
    global RNG
    RNG = random.Random(SEED + share)
    wrong, sums, shown = found["wrong"], found["sums"], 0
    RECOVERED.clear()
    found["recovered"] = RECOVERED
    for n, (what, nodes, nemeses, how) in enumerate(itertools.islice(itertools.cycle(KINDS), share * len(KINDS) // AT_ONCE, None)):
        killed = sums["managers 1"] + sums["managers 3"] + sums["clients"]
        if killed >= most:
            break
        if killed >= shown + 500:
            shown = killed
            print("# %d of %d kills, wrong: %s" % (killed, most, dict(wrong)), flush=True)
        TOTAL.clear()
        bad = one_of_many(some_kill_round, nodes, nemeses, how, os.path.join(folder, "%d.%d" % (share, n)))
        if bad:
            wrong[bad[0]] += 1
            print("# %s, round %d.%d: %s: %s" % (what, share, n, bad[0], str(bad[1]).replace("\n", "\n# ")), flush=True)
        wrong["hangs"] += TOTAL["hung"]
        sums.update({"managers %d" % nodes: TOTAL["deaths"], "clients": TOTAL["worker_killed"], "kind " + what: TOTAL["ended"], "rounds": 1})
        sums.update({k: TOTAL[k] for k in ("restarts", "ended", "answered", "lost")})


def at_once(n, one):
    """one(i, found) in n processes. What each found; also where all are ended early."""
    children, parts = [], []
    sys.stdout.flush()
    for i in range(n):
        end, begin = os.pipe()
        pid = os.fork()
        if pid == 0:
            found = {"wrong": Counter(), "sums": Counter(), "recovered": []}
            try:
                one(i, found)
            except SystemExit:
                pass
            except BaseException as e:  # what goes wrong outside of a round
                found["wrong"]["others"] += 1
                print("# share %d: %s: %s" % (i, type(e).__name__, e), flush=True)
            finally:
                with os.fdopen(begin, "wb") as f:
                    pickle.dump(found, f)
                os._exit(0)
        os.close(begin)
        children.append((pid, os.fdopen(end, "rb")))
    over = None
    while len(parts) < n:
        try:
            pid, f = children[len(parts)]
            data = f.read()
            os.waitpid(pid, 0)
            parts.append(pickle.loads(data) if data else {"wrong": Counter({"others": 1}), "sums": Counter(), "recovered": []})
        except (SystemExit, Failed) as e:  # we are to end, or time is over
            over = e
            for pid, _ in children[len(parts):]:
                os.kill(pid, signal.SIGTERM)
    return parts, over


def so_many_kills():
    """HISTORY_KILLS of them; goes on behind a fault, and says at the end what there was."""
    began, wrong, sums = time.monotonic(), Counter(), Counter()
    folder = os.environ.get("HISTORY_KEEP") or os.path.join(BUILD, "history-found")
    parts, over = at_once(AT_ONCE, lambda share, found: some_kills(share, -(-KILLS // AT_ONCE), folder, found))
    RECOVERED[:] = [ms for part in parts for ms in part["recovered"]]
    for part in parts:
        wrong.update(part["wrong"])
        sums.update(part["sums"])
    for what, *_ in KINDS:
        print("# %s: %d dictionaries ended" % (what, sums["kind " + what]))
    print("# %d kills of managers (%d on 1 node, %d on 3) and %d of clients under load in %d s, %d dictionaries, %d at once: %d answers without explanation (0: no acknowledged write lost, none applied "
          "twice), %d torn values, %d hangs, %d left-overs, %d others; %d calls answered, %d ended in DDICT_ELOST; %d managers came back, %d deaths ended a dictionary; from a kill to the first answer: %s"
          % (sums["managers 1"] + sums["managers 3"], sums["managers 1"], sums["managers 3"], sums["clients"], time.monotonic() - began, sums["rounds"], AT_ONCE, wrong["answers without explanation"] + wrong["applied twice"],
             wrong["torn values"], wrong["hangs"], wrong["left-overs"], wrong["others"], sums["answered"], sums["lost"], sums["restarts"], sums["ended"], recovery() if RECOVERED else "-"), flush=True)
    if over:
        raise over
    check(not any(wrong.values()), "%r; histories are in %s" % (dict(wrong), folder))


def some_losses(share, most, folder, found):
    """So many of them, each of a dictionary of its own. found as of some_kills()."""
    global RNG
    RNG = random.Random(SEED + share)
    wrong, sums = found["wrong"], found["sums"]
    REPLACED.clear()
    found["recovered"] = REPLACED
    for n, (what, nodes, nemeses, how) in enumerate(itertools.islice(itertools.cycle(LOSS_KINDS), share * len(LOSS_KINDS) // AT_ONCE, None)):
        if sums["losses"] >= most or sums["rounds"] >= 2 * most:
            break
        TOTAL.clear()
        bad = one_of_many(some_loss_round, nodes, nemeses, how, os.path.join(folder, "%d.%d" % (share, n)))
        if bad:
            wrong[bad[0]] += 1
            sums["losses"] += not TOTAL["rounds"]  # what is wrong is found behind it
            print("# %s, round %d.%d: %s: %s" % (what, share, n, bad[0], str(bad[1]).replace("\n", "\n# ")), flush=True)
        wrong["hangs"] += TOTAL["hung"]
        sums.update({"losses": TOTAL["node_lost"], "kind " + what: TOTAL["ended"], "rounds": 1})
        sums.update({k: TOTAL[k] for k in ("calls", "answered", "unknown", "lost", "ended", "owners", "unanswered", "deaths", "shadow_killed", "node_stopped")})
        if sums["rounds"] % 20 == 0:
            print("# share %d: %d of %d losses, wrong: %s" % (share, sums["losses"], most, dict(wrong)), flush=True)


def so_many_losses():
    """HISTORY_LOSSES of them; goes on behind a fault, and says at the end what there was."""
    began, wrong, sums = time.monotonic(), Counter(), Counter()
    folder = os.environ.get("HISTORY_KEEP") or os.path.join(BUILD, "history-found")
    parts, over = at_once(AT_ONCE, lambda share, found: some_losses(share, -(-LOSSES // AT_ONCE), folder, found))
    times = [ms for part in parts for ms in part["recovered"]]
    for part in parts:
        wrong.update(part["wrong"])
        sums.update(part["sums"])
    print("# %d losses of a node under load in %d s, %d dictionaries, %d at once: %d calls, of which %d answered, %d unknown, %d in DDICT_ELOST; acknowledged writes lost or answers without explanation %d, "
          "applied twice %d, torn %d, hung %d, left-overs %d, others %d; of %d owners nobody answered for %d; %d managers and %d shadows died, too, %d nodes stood still; %d dictionaries ended; from a loss to "
          "the first answer: %s"
          % (sums["losses"], time.monotonic() - began, sums["rounds"], AT_ONCE, sums["calls"], sums["answered"], sums["unknown"], sums["lost"], wrong["answers without explanation"], wrong["applied twice"],
             wrong["torn values"], wrong["hangs"], wrong["left-overs"], wrong["others"], sums["owners"], sums["unanswered"], sums["deaths"], sums["shadow_killed"], sums["node_stopped"], sums["ended"],
             recovery(times) if times else "-"), flush=True)
    if over:
        raise over
    check(not any(wrong.values()) and sums["unanswered"] == 0, "%r, %d unanswered; histories are in %s" % (dict(wrong), sums["unanswered"], folder))


if __name__ == "__main__":
    print("# HISTORY_SEED=%d" % SEED, flush=True)
    TESTS = [managers_that_are_killed_and_started_again, owners_that_are_killed_while_other_nodes_ask, processes_that_stand_still_or_die_on_two_nodes, memory_that_is_full, times_that_are_too_short, nodes_that_are_lost_with_two_copies]
    if LINKS:
        TESTS += [links_that_are_cut_and_bad, losses_that_end_it]
    elif LONG:
        print("# without bad links and losses of nodes: %s" % no_links(), flush=True)
    if KILLS:
        TESTS = [so_many_kills]
    if LOSSES:
        TESTS = [so_many_losses]
    main(TESTS, limit=KILLS * 4 + LOSSES * 30 + 600 if KILLS or LOSSES else int(SECONDS * 3 + 300))
