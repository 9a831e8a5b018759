# SPDX-License-Identifier: Apache-2.0
"""Processes of tests that hold locks and others of the dictionary, or wait for them; what they say, and how they are killed."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import ddict
from harness import DictTest, python

SOON_S = 20  # what a dead process held is free within a second; this is for a busy machine


# --- processes of the tests: each says on stdout what it does ---
def say(*words):
    print(*words, flush=True)


def hold(kind, *args):
    """Take it, and keep it."""
    it = getattr(ddict, kind)(*args)
    it.acquire()
    say("held")
    sys.stdin.readline()
    it.release()
    say("released")
    sys.stdin.readline()


def alone(d, who):
    """What only works where nobody else does it meanwhile"""
    n = d.get("count", 0)
    d["inside"] = who
    if random.random() < 0.3:
        time.sleep(random.random() * 0.005)
    assert d["inside"] == who, d["inside"]
    d["count"] = n + 1
    d["done", who] = d.get(("done", who), 0) + 1


def turns(kind, args, who, seconds):
    """Take it again and again; of each turn the time of its begin and of its end."""
    d = ddict.attach()
    it = getattr(ddict, kind)(*args, d=d)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        it.acquire(timeout=60)
        say("in", time.monotonic())
        try:
            alone(d, who) if kind == "Lock" else time.sleep(random.random() * 0.01)
        except ddict.LostError:  # of a manager's end: it may have happened
            say("lost")
        say("out", time.monotonic())
        it.release()


def put(key):
    """Say who we are, and put something when told to."""
    d = ddict.attach()
    say(*d._self())
    sys.stdin.readline()
    d[key] = "late"


def rounds(n, parties, who):
    d = ddict.attach()
    barrier = ddict.Barrier("b", parties, d=d)
    for i in range(n):
        assert all(("at", i + 1, p) not in d for p in range(parties))  # nobody is ahead
        d["index", i, who] = barrier.wait()
        d["at", i + 1, who] = 1
        barrier.wait()
        assert all(("at", i + 1, p) in d for p in range(parties))  # nor behind
        barrier.wait()


def party(parties, comes):
    barrier = ddict.Barrier("b", parties)
    say("made")
    if not comes:
        sys.stdin.readline()
    try:
        say("index", barrier.wait())
    except ddict.BrokenBarrierError:
        say("broken")


def count(n):
    counter = ddict.Counter("c")
    for _ in range(n):
        counter.add()


def wait_for_news():
    d = ddict.attach()
    news = ddict.Condition("news", d=d)
    before = news._me
    news._me = lambda: d.__setitem__(("pid", (me := before())[2]), os.getpid()) or me
    with news:
        say("held")
        say(news.wait(60))
    sys.stdin.readline()


def work(who):
    """Take values, and say which; the last one of each process is never done."""
    d = ddict.attach()
    q = ddict.JoinableQueue("q", d=d)
    while (value := q.get(timeout=30)) is not None:
        time.sleep(random.random() * 0.005)
        d["did", value] = who
        q.task_done()
    say("stuck")
    sys.stdin.readline()


def at_each_line(call):
    """Ctrl-C at each line of the package that call() runs, one after another; gives each time whether it came out of the call."""
    line, hit = 0, True
    while hit:
        left, hit = line, False

        def trace(frame, event, arg):
            nonlocal left
            if "/ddict/_" not in frame.f_code.co_filename:
                return None
            if event == "line":
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt
            return trace
        sys.settrace(trace)
        try:
            call()
        except KeyboardInterrupt:
            hit = True
        finally:
            sys.settrace(None)
        yield hit
        line += 1


class Process:
    def __init__(self, test, node, what, *args):
        code = f"import holders\nholders.{what}(*{args!r})"
        self.process = python(code, environment=test.dictionary.environment(node), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.kill)
        self.said, self.listener = [], None

    def listen(self):
        """Keep what it says, from now on."""
        self.listener = threading.Thread(target=lambda: self.said.extend(iter(self.process.stdout.readline, "")), daemon=True)
        self.listener.start()

    def line(self):
        return self.process.stdout.readline().strip()

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self):
        """When it was sure to be there still."""
        at = time.monotonic()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.listener:
            self.listener.join()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        return at


def turns_of(said, end):
    """(begin, end) of each turn; that of one that was killed ends then."""
    begin, found = None, []
    for words in (line.split() for line in said):
        if len(words) != 2:  # lost, or it was cut off
            continue
        if words[0] == "in":
            begin = float(words[1])
        elif begin is not None:
            found.append((begin, float(words[1])))
            begin = None
    return found + ([(begin, end)] if begin is not None and end > begin else [])


def most_at_once(turns):
    now = most = 0
    for _, step in sorted([(begin, 1) for begin, _ in turns] + [(end, -1) for _, end in turns]):
        now += step
        most = max(most, now)
    return most


class Two(DictTest):
    managers, nodes = 4, 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.far = cls.dictionary.attach(1)

    @classmethod
    def tearDownClass(cls):
        cls.far.detach()
        del cls.far
        super().tearDownClass()

    def manager_pids(self, node):
        return [s["pid"] for s in self.d.stats if s["node_id"] == node]

    def kill_managers(self, node):
        for pid in self.manager_pids(node):
            os.kill(pid, signal.SIGKILL)
