#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A dictionary on three nodes of this host is used for long, by all calls at once, while managers and clients are killed and come back: nothing that managers, ddictds and clients have grows.

    make check TESTS=tests/soak/soak.py            in a build folder: 20 s, and two leaks on purpose that must be found
    make soak SOAK_SECONDS=1800
    SOAK_SEED=N                                    draw the same actions

Workers (tests/history/worker.c) are at contended keys, soakers (soaker.c) make all other calls, and the command saves, restores, loads, freezes, watches and clears. What each process has is looked at
every ten seconds: memory, descriptors, mapped regions, threads, and by its managers' figures the dictionary's memory, lanes, connections and subscriptions; of ddictd the entries of its ledgers, too.
After a warm-up, the median of the last third may be above that of the first by no more than ROOM says. At the end all leave, and nothing is left.
"""
import errno
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "history"), os.path.join(HERE, "..", "local")]

import cluster  # noqa: E402
import linear  # noqa: E402
from cluster import BUILD, Dictionary, Failed, check, main, managers_of, wait_for  # noqa: E402
from history import LONG_MS, Round, check_emptied  # noqa: E402

SECONDS = float(os.environ.get("SOAK_SECONDS", "20"))
SEED = int(os.environ.get("SOAK_SEED", "0")) or random.SystemRandom().getrandbits(31)
SOAKER = os.path.join(BUILD, "tests", "soak", "soaker")
DDICT = os.path.join(BUILD, "ddict")
KIB, MIB = 1 << 10, 1 << 20
SAMPLES = 36          # of a short soak; of a long one there is one each SAMPLE_S
SAMPLE_S = 10
WARM = 0.2            # of all samples: memory is populated, indexes and tables get their size
LEAST = 18            # samples that say something: a third has five behind the warm-up
DICTIONARIES = 4      # so many at most, where managers die with what is lost with them
LOAD_FILES, LOAD_BYTES = 60, 2000

# How far a median may be above another without a leak: (this much, and this part of it).
ROOM = {
    # Without shared memory, of which more below: libc's heap keeps what a burst took; and in its first minute that of events fills up
    "pss_kib": (1024 if SECONDS > 120 else 3072, 0.1),
    # of a command that is there at that moment: a socket, arenas, lanes; of a short soak, whose thirds have twelve samples, of two
    "descriptors": (6 if SECONDS > 120 else 12, 0),
    "regions": (16, 0),                 # the same, and pieces of the heap
    "threads": (1, 0),                  # one that populates memory
    "total_used_bytes": (MIB, 0),       # the largest values, and where a round of save, load and clear is
    "retired_bytes": (MIB, 0),          # replaced values that are held at that moment
    "leased_bytes": (MIB, 0),           # views of all clients: HELD of the largest value
    "cached_bytes": (MIB, 0),           # while all is frozen
    "clients_now": (4, 0),              # commands, and children after a fork
    "lane_bytes": (2 * MIB, 0.25),      # rings and places of these
    "connections": (2, 0),              # one that is opened again, beside the one before
    "prefixes": (3, 0),                 # they are kept for a minute
    "events_bytes": (2 * MIB, 0.25),    # 4096 events of each
    "page_table_bytes": (512 * KIB, 0.1),
    "ledger_entries": (12, 0),          # requests that wait at that moment
}


class Grown(Failed):
    """Something has."""


def of_process(pid):
    """What a process has; None: it has ended."""
    try:
        with open("/proc/%d/smaps_rollup" % pid) as f:
            kib = {line.split(":")[0]: int(line.split()[1]) for line in f if line.startswith("Pss")}
        with open("/proc/%d/maps" % pid) as f:
            regions = sum(1 for _ in f)
        return {"pss_kib": kib["Pss"] - kib.get("Pss_Shmem", 0), "descriptors": len(os.listdir("/proc/%d/fd" % pid)), "regions": regions, "threads": len(os.listdir("/proc/%d/task" % pid))}
    except (OSError, KeyError):
        return None


class Soak(Round):
    """Of Round it has the workers and what is done to processes. Nodes 0 and 1 have clients."""

    def __init__(self, d, folder, rng, leak=False, kills=True, pause_us=2000):
        super().__init__(d, folder, rng, workers=2, pause_us=pause_us, words=["small"], at=[0, 1])
        self.actions = [a for a in self.ACTIONS if kills or a not in ("owner_of_others_killed", "proxy_killed")]
        self.series = defaultdict(list)  # (process, what): figures
        self.samples = 0
        self.no_ledger = False
        self.steady = [self.soaker(node, *(["leak"] if leak and node == 0 else [])) for node in (0, 1)]
        self.mortal = self.soaker(1)
        for i in range(LOAD_FILES):
            path = os.path.join(folder, "files", "ab"[i % 2])
            os.makedirs(path, exist_ok=True)
            with open(os.path.join(path, "%d.jpg" % i), "wb") as f:
                f.write(bytes([i]) * LOAD_BYTES)

    # --- soakers ---

    def soaker(self, node, *words):
        p = subprocess.Popen([SOAKER, str(self.rng.getrandbits(31)), *words], env=self.d.env(node), stdout=subprocess.PIPE, text=True)
        p.node = node
        check(p.stdout.readline() == "attached\n" or not self.look(), "a soaker did not attach")
        return p

    def soakers(self):
        return [*self.steady, self.mortal]

    def soakers_look(self):
        for p in self.soakers():
            code = p.poll()
            if code == 3:  # ddictd may be about to say it
                wait_for("the end of the dictionary, after a soaker was told", lambda: not self.look(), 2)
            else:
                check(code is None, "a soaker ended with %r" % code)

    def quiet(self, on):
        """No call of theirs is under way."""
        for p in self.soakers():
            p.send_signal(signal.SIGUSR1 if on else signal.SIGUSR2)
        if on:
            for p in self.soakers():
                line = p.stdout.readline()
                check(line == "quiet\n" or not self.look(), "a soaker said %r" % line)

    def soakers_end(self):
        for p in self.soakers():
            p.send_signal(signal.SIGTERM)
        for p in self.soakers():
            wait_for("a soaker to end", lambda: p.poll() is not None, 30)
            p.stdout.close()
            check(p.returncode == 0 or p.returncode == 3 and not self.look(), "a soaker ended with %r" % p.returncode)

    def kill_all(self):
        super().kill_all()
        for p in self.soakers():
            p.kill()
            p.wait()
            p.stdout.close()

    # --- actions ---

    def ddict(self, *words, code=0, timeout=90):
        p = subprocess.run([DDICT, *words], env=self.d.env(self.rng.choice([0, 1])), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False)
        check(p.returncode == code or not self.look(), "ddict %s: exit code %d: %s" % (" ".join(words), p.returncode, p.stdout))

    def saved_and_restored(self):
        self.ddict("save", "-q", os.path.join(self.folder, "saved"))
        self.cleared()
        self.ddict("restore", "-q", os.path.join(self.folder, "saved"))
        shutil.rmtree(os.path.join(self.folder, "saved"), ignore_errors=True)

    def loaded(self):
        self.ddict("load", "--json", "--replace", "--prefix=loaded/", "files")
        self.ddict("ls", "--sets")

    def cleared(self):
        self.d.run("clear", code=None)

    def frozen(self):
        self.ddict("freeze")
        self.ddict("ls")
        self.ddict("unfreeze")

    def watched(self):
        self.ddict("watch", "--there", "--count=20", "--timeout=20")

    def figures_asked(self):
        self.ddict("stats")

    def came_back(self, before):
        wait_for("the next life of a manager", lambda: not self.look() or self.restarts() > before, 5)

    def one_killed(self, nodes):
        before, deaths = self.restarts(), len(self.deaths)
        self.kill(self.manager(nodes))
        if len(self.deaths) > deaths:
            self.came_back(before)

    def owner_of_others_killed(self):
        """Small requests of the workers are under way there; where a large value was it would be lost, and the dictionary."""
        self.quiet(True)
        self.one_killed([self.d.nodes[2]])
        self.quiet(False)

    def proxy_killed(self):
        """A manager that clients ask, while none asks: what it had passed on would be lost."""
        self.quiet(True)
        for p in self.workers:
            p.send_signal(signal.SIGTERM)
        for p in self.workers:
            wait_for("a worker to end", lambda: p.poll() is not None, 30)
        self.one_killed(self.d.nodes[:2])
        self.quiet(False)
        self.workers_look()

    def soaker_killed(self):
        self.mortal.kill()
        self.mortal.wait()
        self.mortal.stdout.close()
        self.mortal = self.soaker(self.rng.choice([0, 1]))

    ACTIONS = ["saved_and_restored", "loaded", "cleared", "frozen", "watched", "figures_asked", "owner_of_others_killed", "proxy_killed", "worker_killed", "worker_killed", "soaker_killed"]

    # --- samples ---

    def note(self, process, figures):
        for what, value in figures.items():
            if what in ROOM:
                self.series[process, what].append(value)

    def sample(self):
        for i, node in enumerate(self.d.nodes):
            self.note("ddictd %d" % i, of_process(node.proc.pid) or {})
            p = subprocess.run([SOAKER, "ledger", str(node.proc.pid)], stdout=subprocess.PIPE, text=True, check=False)
            if p.returncode == 0:
                self.note("ddictd %d" % i, {"ledger_entries": int(p.stdout.split()[0])})
            else:
                self.no_ledger = True
        try:
            stats = self.d.stats()
        except Failed:
            check(not self.look(), "no figures of the managers")
            return
        for m, figures in stats.items():
            self.note("manager %d" % m, {**figures, **(of_process(figures["pid"]) or {})})
        for p in self.steady:
            self.note("client on node %d" % p.node, of_process(p.pid) or {})
        self.samples += 1

    def soak(self, seconds):
        """True: the dictionary lived so long."""
        pace = min(SAMPLE_S, seconds / SAMPLES)
        began, actions = time.monotonic(), []
        sample_at = act_at = began
        while time.monotonic() < began + seconds and self.look():
            time.sleep(0.005)
            self.workers_look()
            self.soakers_look()
            if time.monotonic() >= sample_at and self.look():
                self.sample()
                sample_at += pace
            elif time.monotonic() >= act_at and self.look():
                if not actions:
                    actions = self.rng.sample(self.actions, len(self.actions))
                self.do(actions.pop())
                act_at = time.monotonic() + self.rng.uniform(0, min(pace, 2))
        return self.look()

    def grown(self):
        """What has, as text."""
        found = []
        for (process, what), values in sorted(self.series.items()):
            kept = values[int(len(values) * WARM):]
            third = len(kept) // 3
            if len(values) < LEAST:
                continue
            first, last = statistics.median(kept[:third]), statistics.median(kept[-third:])
            room = ROOM[what][0] + ROOM[what][1] * first
            if last > first + room:
                found.append("%s of %s: %d, and %d at first (room for %d; %s)" % (what, process, last, first, room, " ".join("%d" % v for v in values[::max(1, len(values) // 12)])))
        return found

    def torn_or_hung(self):
        """Of the workers, whose keys others cleared and restored, so that more cannot be said."""
        n = 0
        for path in filter(os.path.exists, self.files):
            for c in linear.read_file(path):
                n += 1
                check(c.read != linear.TORN, "a value was torn: %s" % linear.text(c, c.began))
                check(c.code != -errno.ETIMEDOUT or c.timeout_ms < LONG_MS, "a call hung: %s" % linear.text(c, c.began))
        return n


def a_dictionary(rng, seconds, totals, env=None, **how):
    """Used for so long; False: it ended before, with a manager. Raises Grown."""
    folder = tempfile.mkdtemp(prefix="ddict-soak-", dir=BUILD)
    try:
        with Dictionary(nodes=3, managers=3, mem="72M", args=["--restarts", "16"], env=env) as d:
            for i in range(2):  # indexes and page maps get their size
                d.run("fill", "warm", 300, 3000)
                d.run("clear")
            before = d.stats()
            s = Soak(d, folder, rng, **how)
            try:
                lived = s.soak(seconds)
                grown = s.grown()
                s.soakers_end()
                s.finish()
            finally:
                s.kill_all()
            totals.update(s.did, samples=s.samples, calls_of_workers=s.torn_or_hung(), restarts=s.restarts(), judged=s.samples >= LEAST)
            if s.no_ledger:
                print("# ledgers were not looked at: ddictd's memory is not ours to read", flush=True)
            if grown:
                raise Grown("; ".join(grown))
            check(lived or s.deaths, "the dictionary has ended: %s" % s.over)
            d.pids.update(p for node in d.nodes for p in managers_of(node.proc.pid))
            if s.look():
                check_emptied(d, before)
                d.end()
            return lived
    finally:
        shutil.rmtree(folder)


def nothing_grows():
    rng, totals, left = random.Random(SEED), Counter(), SECONDS
    for i in range(DICTIONARIES):
        began = time.monotonic()
        if a_dictionary(rng, left, totals):
            break
        totals["ended"] += 1
        left = max(left - (time.monotonic() - began), min(SECONDS, 60))
    print("# " + ", ".join("%s %d" % item for item in sorted(totals.items())), flush=True)
    check(totals["judged"] > 0, "%d dictionaries ended before anything could be said" % totals["ended"])
    check(totals["restarts"] > 0, "no manager was started again")


def must_grow(what, **how):
    """A leak is found."""
    rng = random.Random(SEED)
    for i in range(DICTIONARIES):
        try:
            if a_dictionary(rng, 12, Counter(), kills=False, **how):
                break
        except Grown as e:
            print("# " + str(e)[:600].replace("; ", "\n# "))
            check(what in str(e), "%s was to grow" % what)
            return
    raise Failed("a leak of %s was not found" % what)


def a_block_that_nobody_frees_is_found():
    product, cluster.DDICTD = cluster.DDICTD, os.path.join(BUILD, "tests", "history", "ddictd_mutant")
    try:
        must_grow("total_used_bytes", env={"HISTORY_MUTANT": "memory_lost"}, pause_us=200)
    finally:
        cluster.DDICTD = product


def a_handle_that_nobody_closes_is_found():
    must_grow("descriptors of client", leak=True)


if __name__ == "__main__":
    print("# SOAK_SEED=%d" % SEED, flush=True)
    main([nothing_grows] if SECONDS > 60 else [nothing_grows, a_block_that_nobody_frees_is_found, a_handle_that_nobody_closes_is_found], limit=int(SECONDS * 2 + 300))
