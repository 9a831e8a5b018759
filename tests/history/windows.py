#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Working sets against their rules: runs in which 6 processes on 2 nodes put, get, remove, count and move between checkpoints as they like, some of them killed
meanwhile. window_model.py, the rules in plain Python, then says whether some order of the calls explains all answers.

    make check TESTS=tests/history/windows.py      in a build folder: some hundred runs
    make windows WINDOW_RUNS=10000                 so many, each of 72 calls
    WINDOW_SEED=N                                  draw the same calls, though not the same moments
    WINDOW_SIZE=K                                  one size of the working set alone
"""
import ctypes
import json
import mmap
import os
import random
import select
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "local")]

from cluster import BUILD, Dictionary, Failed, check, main  # noqa: E402
from window_model import CHANGES, NEVER, Call, Rules, Search  # noqa: E402
import window_worker  # noqa: E402
from window_worker import SAID, SLOT  # noqa: E402

RUNS = int(os.environ.get("WINDOW_RUNS", "0"))
SIZE = int(os.environ.get("WINDOW_SIZE", "0"))
SEED = int(os.environ.get("WINDOW_SEED", "0")) or random.SystemRandom().getrandbits(31)
BINDING = os.path.join(BUILD, "client", "python", ".libs")
PROCESSES, CALLS, KEYS = 6, 12, 3
ANSWER_S = 60     # of one run, on a busy machine
WAIT_S = 0.05     # of a call, where it may wait for others
KILLED = 0.2      # so many of the runs lose a process
PER_DICTIONARY = 500
# What is called, and how often. The last ones ask nobody.
KINDS = {"put": 16, "mput": 10, "pput": 4, "put_new": 6, "get": 22, "contains": 6, "del": 8, "pop": 5, "keys": 3, "len": 3, "sync": 11,
         "checkpoint": 9, "rollback": 4, "set": 2}
MOVES = ("checkpoint", "rollback", "set")
TOTAL = Counter()


def stage(folder):
    """The package as it will be installed"""
    os.mkdir(os.path.join(folder, "ddict"))
    source = os.path.join(HERE, "..", "..", "client", "python", "ddict")
    for path in [*(os.path.join(source, name) for name in os.listdir(source)), os.path.join(BINDING, "_ddict.so"), os.path.join(BINDING, "_runtime.so")]:
        os.symlink(os.path.abspath(path), os.path.join(folder, "ddict", os.path.basename(path)))


class Process:
    """A worker. What it notes lies in memory of ours, so it is there when the worker was killed."""

    def __init__(self, d, node, seconds=ANSWER_S):
        self.marked = -1  # the last checkpoint at which it was to change something, or behind which it was to read
        self.node, self.memory, self.calls = node, mmap.mmap(-1, -(-CALLS * SLOT.size // mmap.PAGESIZE) * mmap.PAGESIZE), []
        requests, self.requests = os.pipe()
        self.answers, answers = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: others have our pipes, too
                os.environ.update(DDICT_NAME=d.name, DDICT_NODE=d.node_name(node))
                with open(requests) as requests, open(answers, "w") as answers:
                    window_worker.serve(self.memory, requests, answers, seconds)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(requests)
        os.close(answers)
        self.requests, self.answers = open(self.requests, "w"), open(self.answers)
        self.wait("ready")

    def tell(self, what):
        print(json.dumps(what), file=self.requests, flush=True)

    def begin(self, head, checkpoint, calls):
        self.calls, self.checkpoint = calls, checkpoint
        self.memory[:] = bytes(len(self.memory))
        self.tell((head, checkpoint, calls))

    def wait(self, word="done"):
        check(select.select([self.answers], [], [], ANSWER_S)[0], "a process hangs: %r" % self.notes())
        line = self.answers.readline()
        check(line == word + "\n", "a process said %r: %r" % (line, self.notes()))

    def notes(self):
        return [SLOT.unpack_from(self.memory, i * SLOT.size) for i in range(len(self.calls))]

    def run(self, head, checkpoint, calls):
        """What each of the calls got"""
        self.begin(head, checkpoint, calls)
        self.wait()
        return [(SAID[said], got) for _, _, said, got, _ in self.notes()]

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.ended(-signal.SIGKILL)

    def end(self):
        self.tell(None)
        self.ended(0)

    def ended(self, wanted):
        _, status = os.waitpid(self.pid, 0)
        self.requests.close()
        self.answers.close()
        code = os.waitstatus_to_exitcode(status)
        check(code == wanted, "a process ended with %d" % code)


class Runs:
    """Runs in one dictionary, one after the other."""

    def __init__(self, d, rng, size, waits):
        self.d, self.rng, self.size, self.waits, self.head = d, rng, size, waits, "k"
        self.there = 1  # keys that are the steward's
        self.seconds = WAIT_S if waits else ANSWER_S
        self.processes = [Process(d, i % d.n, self.seconds) for i in range(PROCESSES)]
        self.steward = Process(d, 0)
        self.numbers = 0

    def empty_window(self):
        """The oldest checkpoint of a window in which there is nothing but the steward's key, and how many keys that are"""
        newest = self.steward.run("k", 0, [("sync", 0, 0, 0)])[0][1]
        if self.waits:
            return self.settled_window(newest)
        self.steward.run("k", newest, [("del", key, 0, 0) for key in range(KEYS)])
        self.steward.run("steward", newest + 1, [("put", 0, 0, 1)])
        (said, _), (_, there) = self.steward.run("steward", newest + self.size, [("put", 0, 0, 1), ("len", 0, 0, 0)])
        check(said == "ok" and there == 1, "the empty window: %s, and %d keys" % (said, there))
        return newest + 1

    def settled_window(self, newest):
        """The same where the window waits: what the last run left is put at all checkpoints, persistently, all writers go on, and keys get new names"""
        for at in range(newest - self.size + 1, newest + 1):
            for said, _ in self.steward.run(self.head, at, [("pput", key, 0, 1) for key in range(KEYS)]) + self.steward.run("steward", at, [("pput", 0, 0, 1)]):
                check(said == "ok", "the steward's put at %d: %s" % (at, said))
        for p in [*self.processes, self.steward]:
            self.numbers += 1
            p.run("steward", newest, [("pput", 0, 0, 1)])
        check(self.steward.run("steward", newest + 1, [("pput", 0, 0, 1)])[0][0] == "ok", "no next checkpoint")
        self.wrote = newest
        self.head = "r%d/" % self.numbers
        newest = self.steward.run("k", 0, [("sync", 0, 0, 0)])[0][1]
        self.there = self.steward.run("steward", newest, [("len", 0, 0, 0)])[0][1]
        return newest - self.size + 1

    def draw(self, oldest):
        calls = []
        for what in self.rng.choices(list(KINDS), KINDS.values(), k=CALLS):
            self.numbers += 1
            value = oldest + self.rng.randrange(self.size + 2) if what == "set" else self.numbers
            calls.append((what, self.rng.randrange(KEYS), value, self.rng.choice((1, 1, 16, 3000))))
        return calls

    def one(self):
        """A run, and what is wrong with it: None or a text"""
        oldest = self.empty_window()
        for p in self.processes:
            p.begin(self.head, oldest + self.rng.randrange(self.size), self.draw(oldest))
        victim = self.rng.choice(self.processes) if self.rng.random() < KILLED else None
        if victim:
            time.sleep(self.rng.random() * 0.01)
            victim.kill()
        for p in self.processes:
            if p is not victim:
                p.wait()
        calls = [c for i, p in enumerate(self.processes) for c in self.noted(i, p, p is victim)]
        killed = self.processes.index(victim) if victim else None
        if victim:
            self.processes[killed] = Process(self.d, victim.node, self.seconds)
            TOTAL["killed"] += 1
        hurried = self.hurried(calls, killed) if "wait-for-writers" in self.waits else None
        if hurried:
            return "process %d wrote at checkpoint %d, which was retired before it went on: %r and %r\n%s" % (
                hurried[0].process, hurried[0].at, *hurried, "\n".join(map(repr, sorted(calls, key=lambda c: c.begin))))
        for c in calls:
            if c.process != killed:
                p = self.processes[c.process]
                p.marked = max(p.marked, c.at if c.what in CHANGES else c.at - 1)
        search = Search(Rules(self.size, KEYS, self.waits, oldest), calls)
        found = search.run()
        TOTAL.update({"runs": 1, "calls": len(calls), "looked": search.looked, "too long": found is None})
        TOTAL.update("said " + str(c.said) for c in calls)
        return None if found is not False else search.story() + "\n" + "\n".join(map(repr, sorted(calls, key=lambda c: c.begin)))

    def hurried(self, calls, killed):
        """A put and an answer that tells of its checkpoint's end, before who put has called anything at a later one; or None.
        Who has called a change at a later one before, or read behind one, and went back is not waited for."""
        for put in calls:
            if put.what != "put" or put.said != "ok" or put.process == killed:
                continue
            before = (c.at if c.what in CHANGES else c.at - 1 for c in calls if c.process == put.process and c.number < put.number)
            if max([self.wrote, self.processes[put.process].marked, *before]) > put.at:
                continue
            on = min((c.begin for c in calls if c.process == put.process and c.number > put.number and c.at > put.at), default=NEVER)
            for c in calls:
                told = {"ok": c.got - self.size if c.what == "sync" else c.at - self.size if c.what == "put" else -1, "retired": c.at}.get(c.said, -1)
                if told >= put.at and c.end < on and c.begin > put.end:
                    return put, c
        return None

    def noted(self, process, p, killed):
        """The calls of a process that somebody else could notice; those that move its handle are checked here"""
        checkpoint, calls = p.checkpoint, []
        for i, (what, key, value, _) in enumerate(p.calls):
            begin, end, said, got, at = SLOT.unpack_from(p.memory, i * SLOT.size)
            if begin == 0:
                break
            said = SAID[said] or None
            check(said or killed, "%s had no answer" % what)
            check(self.waits or said not in ("time", "awaited"), "%s took too long" % what)
            if what not in MOVES:
                if what in ("contains", "keys"):
                    got = bool(got) if what == "contains" else {k for k in range(KEYS) if got & 1 << k}
                elif what == "len":
                    got -= self.there
                plain = "put" if what in ("pput", "mput") else what
                calls.append(Call(process, i, plain, key, checkpoint, value, what == "pput", None if said == "time" else said, got,
                                  begin, NEVER if said in (None, "time") else end))
            if said:
                moved = {"checkpoint": checkpoint + 1, "rollback": max(checkpoint - 1, 0), "set": value, "sync": got if said == "ok" else checkpoint}
                moved = moved.get(what, checkpoint)
                check(at == moved, "%s of process %d at checkpoint %d moved it to %d" % (what, process, checkpoint, at))
                checkpoint = moved
        return calls

    def end(self):
        for p in [*self.processes, self.steward]:
            p.end()


def some_runs(n, size, seed, waits=()):
    rng = random.Random(seed)
    at_once = PER_DICTIONARY // (10 if waits else 1)
    while n > 0:
        with Dictionary(nodes=2, managers=4, mem="64M", args=["--working-set=%s" % ",".join([str(size), *waits])], drain_ms=2000) as d:
            runs = Runs(d, rng, size, waits)
            for _ in range(min(n, at_once)):
                wrong = runs.one()
                check(not wrong, "run %d of size %d %s has no explanation: %s" % (TOTAL["runs"], size, waits, wrong))
            n -= at_once
            runs.end()
            d.end()


def say_total(share):
    print("# %s" % ", ".join("%s: %d" % item for item in sorted(TOTAL.items())), flush=True)
    check(TOTAL["too long"] <= TOTAL["runs"] * share, "of %d runs no order was found in time" % TOTAL["too long"])


def answers_of_working_sets_have_an_explanation():
    TOTAL.clear()
    sizes = [SIZE] if SIZE else [1, 2, 3]
    for size in sizes:
        some_runs(-(-(RUNS or 60) // len(sizes)), size, SEED + size)
    say_total(0)
    if not RUNS or RUNS > 100:
        check(TOTAL["killed"] and all(TOTAL["said " + said] for said in ("ok", "no key", "there", "retired", "None")), "this was not met: %r" % TOTAL)


def answers_have_one_where_the_next_checkpoint_waits():
    TOTAL.clear()
    for waits in (["wait-for-keys"], ["wait-for-writers"], ["wait-for-keys", "wait-for-writers"]):
        some_runs(-(-(RUNS // 20 or 6) // 3), 2 + (SEED + len(waits)) % 2, SEED + 10, waits)
    say_total(0.05)


if __name__ == "__main__":
    if not os.path.exists(os.path.join(BINDING, "_ddict.so")):
        print("no Python binding in", BUILD)
        sys.exit(77)
    print("# WINDOW_SEED=%d" % SEED, flush=True)
    with tempfile.TemporaryDirectory(prefix="ddict-windows-") as package:
        stage(package)
        sys.path.insert(0, package)
        import ddict  # noqa: F401  forked processes have it then
    main([answers_of_working_sets_have_an_explanation, answers_have_one_where_the_next_checkpoint_waits], limit=RUNS + 300)
