# SPDX-License-Identifier: Apache-2.0
"""Locks and semaphores between processes of two nodes: also while those that hold them are killed, and their managers with them."""

import os
import pickle
import random
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import unittest
from unittest import mock

import ddict
from ddict import _holders
from harness import Dictionary, python
from holders import SOON_S, Process, Two, at_each_line, most_at_once, turns_of


class Locks(Two):
    def test_one_has_it(self):
        a, b = ddict.Lock("l", self.d), ddict.Lock("l", self.far)
        self.assertFalse(b.locked())
        self.assertIs(a.acquire(), True)
        self.assertTrue(a.locked() and b.locked())
        self.assertIs(b.acquire(False), False)
        self.assertIs(b.acquire(blocking=False), False)
        began = time.monotonic()
        self.assertIs(b.acquire(timeout=0.3), False)
        self.assertTrue(0.29 < time.monotonic() - began < 5)
        with self.assertRaises(RuntimeError):
            b.release()
        a.release()
        with self.assertRaises(RuntimeError):
            a.release()
        with b as got:
            self.assertIs(got, True)
            self.assertIs(a.acquire(True, 0.05), False)
        self.assertTrue(a.acquire(True, -1))
        a.release()
        with self.assertRaises(ValueError):
            a.acquire(False, 1)
        with self.assertRaises(TypeError):
            ddict.Lock(5)
        with ddict.Lock(("a", 1), self.d), ddict.Lock("other", self.d):  # names are names
            pass

    def test_the_time_of_the_handle(self):
        d = self.dictionary.attach(1, timeout=0.4)
        with ddict.Lock("l", self.d):
            began = time.monotonic()
            with self.assertRaises(ddict.TimeoutError):
                ddict.Lock("l", d).acquire()
            self.assertTrue(0.39 < time.monotonic() - began < 5)
        d.detach()

    def test_who_waits_hears_at_once(self):
        """Not by looking from time to time, which is each 0.1 to 0.25 s."""
        a, b, took = ddict.Lock("l", self.d), ddict.Lock("l", self.far), []
        for _ in range(15):
            a.acquire()
            thread = threading.Thread(target=lambda: (b.acquire(), took.append(time.monotonic() - began)))
            thread.start()
            time.sleep(0.02)
            began = time.monotonic()
            a.release()
            thread.join(30)
            b.release()
        self.assertLess(statistics.median(took), 0.05)

    def test_threads(self):
        lock, n = ddict.Lock("l", self.d), [0]

        def add():
            for _ in range(40):
                with lock:
                    now = n[0]
                    time.sleep(0)
                    n[0] = now + 1
        threads = [threading.Thread(target=add) for _ in range(5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        self.assertEqual(n, [200])

    def test_a_killed_process_gives_it_back(self):
        for kind in ("Lock", "RLock", "Semaphore"):
            for node in range(2):
                holder = Process(self, node, "hold", kind, "h")
                self.assertEqual(holder.line(), "held")
                mine = getattr(ddict, kind)("h", d=self.d)
                self.assertFalse(mine.acquire(timeout=0.6))
                holder.kill()
                self.assertTrue(mine.acquire(timeout=SOON_S), (kind, node))
                mine.release()

    def test_not_blocking_gets_it_from_a_dead_one_too(self):
        holder = Process(self, 1, "hold", "Lock", "h")
        self.assertEqual(holder.line(), "held")
        holder.kill()
        end = time.monotonic() + SOON_S
        lock = ddict.Lock("h", self.d)
        while lock.locked():
            self.assertLess(time.monotonic(), end)
        self.assertTrue(lock.acquire(False))
        lock.release()

    def test_killed_with_its_managers(self):
        for node in range(2):
            holder = Process(self, node, "hold", "Lock", "h")
            self.assertEqual(holder.line(), "held")
            self.kill_managers(node)
            holder.kill()
            lock = ddict.Lock("h", self.d)
            self.assertTrue(lock.acquire(timeout=SOON_S))
            lock.release()

    def test_it_outlives_the_managers(self):
        lock, other = ddict.Lock("h", self.d), ddict.Lock("h", self.far)
        with lock:
            self.kill_managers(0)
            self.assertFalse(other.acquire(timeout=1))
        self.assertTrue(other.acquire(timeout=SOON_S))
        other.release()

    def test_a_release_that_failed(self):
        """Who could not give it back holds it still, or takes it again."""
        for kind in (ddict.Lock, ddict.RLock):
            lock, other = kind("f", self.d), kind("f", self.far)
            lock.acquire()
            self.frozen(lock.release)
            self.assertFalse(other.acquire(False))
            lock.release()
            with other, self.assertRaises(RuntimeError):
                lock.release()

        lock.acquire()
        self.frozen(lock.release)
        self.assertTrue(lock.acquire(timeout=5))  # again
        lock.release()
        self.assertFalse(other.acquire(False))
        lock.release()

        for _ in range(2):  # a release that failed was made all the same, and another one took it; or it did not
            lock.acquire()
            self.frozen(lock.release)
            del self.d["ddict.rlock", "f"]
            with other:
                self.assertFalse(lock.acquire(timeout=0.3))
            with lock:
                self.assertFalse(other.acquire(False))

    def frozen(self, call):
        self.d.freeze()
        try:
            with self.assertRaises(ddict.FrozenError):
                call()
        finally:
            self.d.unfreeze()

    def test_an_interrupt_at_any_line(self):
        """Of acquire(): it is not held. Of release(): it can be released again."""
        for it in (ddict.Lock("i", self.d), ddict.RLock("i", self.d), ddict.Semaphore("i", 1, self.d)):
            for hit in at_each_line(it.acquire):
                if hit:
                    other = type(it)("i", d=self.far)
                    self.assertTrue(other.acquire(timeout=0))
                    other.release()
            for hit in at_each_line(it.release):
                if hit:
                    if type(it) is ddict.RLock:
                        self.assertTrue(it.acquire(timeout=0))
                        while it._is_ours():
                            it.release()
                    else:
                        it.release()
                    other = type(it)("i", d=self.far)
                    self.assertTrue(other.acquire(timeout=0))
                    other.release()
                    it.acquire()

    def test_times_that_are_none(self):
        """As threading takes them"""
        lock, again, semaphore = ddict.Lock("t", self.d), ddict.RLock("t", self.d), ddict.Semaphore("t", 1, self.d)
        nan = float("nan")
        for call in (lambda: lock.acquire(timeout=-2), lambda: lock.acquire(timeout=nan), lambda: again.acquire(timeout=-0.5), lambda: again.acquire(timeout=nan),
                     lambda: semaphore.acquire(timeout=nan), lambda: ddict.Event("t", self.d).wait(nan), lambda: ddict.Barrier("t", 1, d=self.d).wait(nan)):
            with self.assertRaises(ValueError):
                call()
        with lock, semaphore:
            self.assertFalse(semaphore.acquire(timeout=-2))
            self.assertFalse(ddict.Event("t", self.d).wait(-2))

    def test_a_manager_that_stands_still_takes_no_more_time(self):
        d = self.dictionary.attach(0, timeout=25)
        for kind in (ddict.Lock, ddict.Semaphore):
            for to in (0, 1):
                locks = (kind(str(i), d=d) for i in range(1000))
                lock = next(it for it in locks if d.owner(it._key) % 2 == to)
                pid = d.stats[d.owner(lock._key)]["pid"]
                os.kill(pid, signal.SIGSTOP)
                try:
                    for how in ({"timeout": 0.5}, {"blocking": False}):  # it is lost after 10 s
                        began = time.monotonic()
                        self.assertFalse(lock.acquire(**how))
                        self.assertLess(time.monotonic() - began, 6)
                finally:
                    os.kill(pid, signal.SIGCONT)
                with kind(lock.name, d=self.far) as got:  # it was not taken later
                    self.assertTrue(got)
        d.detach()

    def test_a_process_that_stands_still_keeps_it(self):
        holder = Process(self, 1, "hold", "Lock", "h")
        self.assertEqual(holder.line(), "held")
        os.kill(holder.process.pid, signal.SIGSTOP)
        self.assertFalse(ddict.Lock("h", self.d).acquire(timeout=1.5))
        os.kill(holder.process.pid, signal.SIGCONT)
        holder.go_on()
        self.assertEqual(holder.line(), "released")
        with ddict.Lock("h", self.d):
            pass

    def test_a_detached_handle_gives_it_back(self):
        d = self.dictionary.attach(1)
        ddict.Lock("h", d).acquire()
        d.detach()
        self.assertTrue(ddict.Lock("h", self.d).acquire(timeout=SOON_S))

    def test_a_forked_child_does_not_hold_it(self):
        lock = ddict.Lock("h", self.d)
        lock.acquire()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                lock.release()
            except RuntimeError:
                code = 2 if lock.acquire(timeout=0.3) else 0
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertFalse(ddict.Lock("h", self.far).acquire(timeout=0.5))
        lock.release()

    def test_again_by_the_thread_that_has_it(self):
        a, b = ddict.RLock("r", self.d), ddict.RLock("r", self.far)
        with a, a:
            self.assertFalse(b.acquire(False))
            refused = []
            thread = threading.Thread(target=lambda: refused.append(a.acquire(False)))
            thread.start()
            thread.join()
            self.assertEqual(refused, [False])
        with b, self.assertRaises(RuntimeError):
            a.release()
        with ddict.Lock("r", self.d), a:  # another one
            pass

    def test_pickled(self):
        with ddict.Lock("l", self.d) as _:
            again = pickle.loads(pickle.dumps(ddict.Lock("l", self.d)))
            self.assertFalse(again.acquire(False))
            again._d.detach()
        for it in (ddict.Semaphore("s", 3, self.d), ddict.Event("e", self.d), ddict.Counter("c", self.d), ddict.Barrier("p", 2, d=self.d), ddict.RLock("l", self.d)):
            again = pickle.loads(pickle.dumps(it))
            self.assertEqual((type(again), again.name), (type(it), it.name))
            again._d.detach()

    def kills(self, kind, args, seconds, managers=False):
        """Five processes on two nodes take it, and are killed at random; others take their places. All turns."""
        who, found, running, ends, last = 0, [], [], time.monotonic() + seconds, time.monotonic()
        kills = 0  # and lost: of so many turns nobody knows how far they came
        while True:
            for p in [p for p in running if p.process.poll() is not None]:
                self.assertEqual(p.process.returncode, 0)
                running.remove(p)
                at = p.kill()
                kills += sum(line.startswith("lost") for line in p.said)
                found += turns_of(p.said, at)
            left = ends - time.monotonic()
            if left <= 0:
                break
            while len(running) < 5:
                running.append(Process(self, who % 2, "turns", kind, args, who, left + 1))
                running[-1].listen()
                who += 1
            time.sleep(random.uniform(0.05, 0.4))
            victim = random.choice(running)
            if random.random() < 0.8 and any("in" in line for line in victim.said[-3:]):
                running.remove(victim)
                if managers and time.monotonic() - last > 6:
                    last = time.monotonic()
                    self.kill_managers(random.randrange(2))
                at = victim.kill()
                kills += 1 + sum(line.startswith("lost") for line in victim.said)
                found += turns_of(victim.said, at)
        for p in running:
            self.assertEqual(p.process.wait(60), 0)
            at = p.kill()
            found += turns_of(p.said, at)
            kills += sum(line.startswith("lost") for line in p.said)
        self.assertGreater(kills, 3)
        return found, kills

    def check_one(self, kind, managers):
        found, kills = self.kills(kind, ("k",), 14, managers)
        self.assertEqual(most_at_once(found), 1)
        done = sum(self.d[key] for key in self.d.keys(("done",)))
        self.assertGreater(done, 20)
        self.assertTrue(done <= self.d["count"] <= done + kills, (done, self.d["count"], kills))

    def test_random_kills(self):
        self.check_one("Lock", False)

    def test_random_kills_with_managers(self):
        self.check_one("Lock", True)

    def test_random_kills_of_a_semaphore(self):
        found, _ = self.kills("Semaphore", ("s", 3), 8)
        self.assertTrue(2 <= most_at_once(found) <= 3, most_at_once(found))
        end = time.monotonic() + SOON_S
        with ddict.Semaphore("s", 3, self.d) as _, ddict.Semaphore("s", None, self.far), ddict.Semaphore("s", 3, self.far):
            self.assertLess(time.monotonic(), end)


class Semaphores(Two):
    def test_so_many_have_it(self):
        a, b = ddict.Semaphore("s", 3, self.d), ddict.Semaphore("s", None, self.far)
        self.assertTrue(a.acquire() and b.acquire() and a.acquire())
        self.assertEqual((a.value, b.get_value()), (0, 0))
        self.assertFalse(b.acquire(False))
        self.assertFalse(a.acquire(timeout=0.2))
        a.release(2)
        self.assertEqual(b.value, 2)
        with self.assertRaises(ValueError):
            a.release()
        b.release()
        with self.assertRaises(ValueError):
            ddict.Semaphore("s", 4, self.d)
        with self.assertRaises(ValueError):
            ddict.Semaphore("none", None, self.d)
        with self.assertRaises(ValueError):
            ddict.Semaphore("s", 0, self.d)
        with a, b:
            self.assertEqual(a.value, 1)
        self.assertEqual(a.value, 3)

    def test_a_release_that_failed(self):
        a, b = ddict.Semaphore("s", 2, self.d), ddict.Semaphore("s", 2, self.far)
        self.assertTrue(a.acquire() and a.acquire())
        self.d.freeze()
        try:
            with self.assertRaises(ddict.FrozenError):
                a.release(2)
        finally:
            self.d.unfreeze()
        self.assertFalse(b.acquire(False))
        a.release(2)
        self.assertEqual(b.value, 2)
        with self.assertRaises(ValueError):
            a.release()

    def test_what_has_no_value(self):
        self.d["ddict.semaphore", "null"] = "null"
        with self.assertRaises(ValueError):
            ddict.Semaphore("null", None, self.d)
        with ddict.Semaphore("null", 2, self.d) as got:
            self.assertTrue(got)

    def test_who_waits_hears_at_once(self):
        a, b = ddict.Semaphore("s", 1, self.d), ddict.Semaphore("s", 1, self.far)
        a.acquire()
        timer = threading.Timer(0.3, a.release)
        timer.start()
        began = time.monotonic()
        self.assertTrue(b.acquire(timeout=20))
        self.assertGreater(time.monotonic() - began, 0.25)
        b.release()


class Lost(unittest.TestCase):
    def test_a_lost_node_gives_it_back(self):
        with Dictionary(managers=3, nodes=3, more=["--replicas", "2"]) as dictionary:
            self.dictionary = dictionary
            d = dictionary.attach(0, timeout=60)
            holders = [Process(self, 2, "hold", "Lock", f"h{i}") for i in range(4)]  # by keys of all nodes
            for p in holders:
                self.assertEqual(p.line(), "held")
            self.assertFalse(ddict.Lock("h0", d).acquire(timeout=0.5))
            dictionary.lose(2)
            for p in holders:
                p.kill()
            for i in range(4):
                self.assertTrue(ddict.Lock(f"h{i}", d).acquire(timeout=60))
            d.detach()


    def test_a_change_on_its_way_to_the_second_copy(self):
        """Its client is dead, but not gone as long as that may still be made."""
        with Dictionary(managers=2, nodes=2, more=["--replicas", "2"]) as dictionary:
            self.dictionary = dictionary
            d = dictionary.attach(0, timeout=60)
            key = next(k for k in range(99) if d.owner(k) == 0)
            with open(f"/proc/{dictionary.nodes[1].process.pid}/task/{dictionary.nodes[1].process.pid}/children") as f:
                copy = next(pid for pid in map(int, f.read().split()) if ":0s" in open(f"/proc/{pid}/comm").read())
            client = Process(self, 0, "put", key)
            who = tuple(map(int, client.line().split()))
            os.kill(copy, signal.SIGSTOP)
            client.go_on()
            time.sleep(0.5)
            client.kill()
            for _ in range(100):
                self.assertTrue(d._alive(*who, 10))
                time.sleep(0.01)
            self.assertNotIn(key, d)
            os.kill(copy, signal.SIGCONT)
            end = time.monotonic() + SOON_S
            while d._alive(*who, 10):
                self.assertLess(time.monotonic(), end)
            self.assertEqual(d[key], "late")
            d.detach()


class Saved(Two):
    def test_a_save_has_no_holders(self):
        """They would be other processes where it is restored."""
        kept = {("ddict.event", "e"), ("ddict.counter", "c"), ("ddict.locks", "mine"), ("ddict.Queue", "q"), "a"}
        made = (ddict.Lock("l", self.d), ddict.RLock("r", self.d), ddict.Semaphore("s", 2, self.d))
        for it in made:
            it.acquire()
        ddict.Barrier("b", 2, d=self.d)
        q = ddict.JoinableQueue("q", d=self.d)
        q.put(1)
        q.put(2)
        q.get()
        ddict.Event("e", self.d).set()
        ddict.Counter("c", self.d).add(5)
        self.d["ddict.locks", "mine"] = self.d["a"] = 1
        self.assertEqual(len(set(self.d.keys(hidden=True))), len(kept) + 6)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "saved.ddict")
            command = os.environ["DDICT_TEST_COMMAND"]
            environment = {**os.environ, **self.dictionary.environment(0)}
            subprocess.run([command, "save", "-q", path], env=environment, check=True)
            self.d.clear()
            subprocess.run([command, "restore", "-q", path], env=environment, check=True)
        self.assertEqual(set(self.d.keys(hidden=True)), kept)
        self.assertTrue(ddict.Lock("l", self.far).acquire(False))


class Own(unittest.TestCase):
    """The handle of those that are given none"""

    def setUp(self):
        patched = mock.patch.dict(os.environ)
        patched.start()
        self.addCleanup(patched.stop)
        for name in ("DDICT_NAME", "DDICT_NODE"):
            os.environ.pop(name, None)

    def test_it_ends_with_its_dictionary(self):
        for _ in range(2):
            ddict.up(mem="32M", drain_ms=60000)
            self.assertTrue(ddict.Lock("a").acquire(timeout=20))
            began = time.monotonic()
            ddict.down()
            self.assertLess(time.monotonic() - began, 30)

    def test_it_is_of_the_dictionary_that_the_environment_names(self):
        key = "ddict.lock", "a"
        with ddict.up(mem="32M") as one:
            a = ddict.Lock("a")
            a.acquire()
            with ddict.up(mem="32M") as two, ddict.Lock("a") as got:
                self.assertTrue(got)
                self.assertTrue(key in one and key in two)
                a.release()  # where it was taken
                self.assertTrue(key not in one and key in two)
            with ddict.Lock("a"):
                self.assertIn(key, one)

    def test_a_fork_while_another_thread_asks_for_it(self):
        with ddict.up(mem="32M"):
            with _holders._lock:
                pid = os.fork()
                if pid == 0:
                    code = 1
                    try:
                        signal.alarm(20)
                        code = 0 if ddict.Lock("a").acquire(timeout=10) else 2
                    finally:
                        os._exit(code)
            self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_its_dictionary_was_ended_by_another_process(self):
        name = f"own{os.getpid()}"
        self.addCleanup(subprocess.run, [os.environ["DDICT_TEST_COMMAND"], "down", "--name=" + name], stderr=subprocess.DEVNULL, env=dict(os.environ))
        for _ in range(2):
            with ddict.up(name, mem="32M", drain_ms=500, keep=True) as d:
                lock = ddict.Lock("a")
                self.assertTrue(lock.acquire(timeout=20))
                ends = python("import ddict, sys; ddict.down(sys.argv[1])", name)
                self.assertEqual(ends.wait(60), 0)
                with self.assertRaises((ddict.GoneError, ddict.LostError)):
                    while True:
                        d["a"] = 1
                        time.sleep(0.01)
            with self.assertRaises(ddict.Error):  # it stays with its own
                lock.acquire(timeout=1)


if __name__ == "__main__":
    unittest.main()
