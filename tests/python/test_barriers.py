# SPDX-License-Identifier: Apache-2.0
"""Barriers, events, counters and the tasks of a queue, between processes of two nodes: also where one of them is killed."""

import pickle
import queue
import threading
import time
import unittest
from pathlib import Path

import ddict
from holders import SOON_S, Process, Two, at_each_line


class Conditions(Two):
    def test_an_event(self):
        a, b = ddict.Event("e", self.d), ddict.Event("e", self.far)
        self.assertFalse(a.is_set())
        self.assertIs(b.wait(0), False)
        self.assertIs(b.wait(0.2), False)
        timer = threading.Timer(0.3, a.set)
        timer.start()
        self.assertIs(b.wait(20), True)
        self.assertTrue(a.is_set() and b.is_set() and a.wait() and a.wait(0))
        b.clear()
        b.clear()
        self.assertFalse(a.is_set())
        d = self.dictionary.attach(0, timeout=0.3)
        with self.assertRaises(ddict.TimeoutError):
            ddict.Event("e", d).wait()
        d.detach()

    def test_a_counter(self):
        counter = ddict.Counter("c", self.d)
        self.assertEqual(counter.value, 0)
        self.assertEqual((counter.add(), counter.add(5), counter.add(-2)), (1, 6, 4))
        processes = [Process(self, i % 2, "count", 300) for i in range(4)]
        for p in processes:
            self.assertEqual(p.process.wait(60), 0)
        self.assertEqual(ddict.Counter("c", self.far).value, 1204)
        counter.value = 7
        self.assertEqual(counter.add(1), 8)


    def test_a_condition(self):
        """Of several that wait so many go on as are notified; one that is killed is none of them."""
        here = ddict.Condition("news", d=self.d)
        waits = [Process(self, i % 2, "wait_for_news") for i in range(4)]
        for p in waits:
            self.assertEqual(p.line(), "held")
            p.listen()
        self.wait_for_waiting(here, 4)
        first = here._read()[1][0]
        victim = next(p for p in waits if p.process.pid == self.d["pid", first[2]])
        victim.process.kill()
        victim.process.wait()
        self.assertRaises(RuntimeError, here.notify)
        self.assertRaises(RuntimeError, here.wait)
        for n, told in ((1, 1), (0, 1), (5, 3)):
            with here:
                here.notify(n)
            end = time.monotonic() + SOON_S
            while len(here._read()[1] or []) > 3 - told:
                self.assertLess(time.monotonic(), end)
            others = [p for p in waits if p is not victim]
            while sum("True\n" in p.said for p in others) < told:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            self.assertEqual(sum("True\n" in p.said for p in others), told)

    def wait_for_waiting(self, condition, n):
        end = time.monotonic() + SOON_S
        while len(condition._read()[1] or []) < n:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_a_condition_and_its_time(self):
        a, b = ddict.Condition("t", d=self.d), pickle.loads(pickle.dumps(ddict.Condition("t", ddict.RLock("own", self.d), self.d)))
        for it in a, b:
            with it, it:  # its lock, twice
                self.assertIs(it.wait(0.05), False)
                self.assertIs(it.wait_for(lambda: False, 0.05), False)
                self.assertEqual(it.wait_for(lambda: 7), 7)
                self.assertEqual(it._read()[1], None)
                self.assertEqual(it._lock._depth, 2)
        plain = ddict.Condition("p", ddict.Lock("plain", self.d), self.d)
        far = ddict.Condition("p", ddict.Lock("plain", self.far), self.far)

        def tells():
            with far:
                self.far["told"] = 1
                far.notify_all()

        self.d.pop("told", None)
        thread = threading.Thread(target=tells)
        with plain:
            thread.start()
            self.assertTrue(plain.wait_for(lambda: "told" in self.d, 20))
            self.assertTrue(plain._lock.locked())
        thread.join()
        d = self.dictionary.attach(0, timeout=0.3)
        mine = ddict.Condition("none", d=d)
        with self.assertRaises(ddict.TimeoutError), mine:
            mine.wait()
        self.assertFalse(mine._lock.locked())
        d.detach()


class Barriers(Two):
    def test_rounds(self):
        processes = [Process(self, i % 2, "rounds", 10, 4, i) for i in range(4)]
        for p in processes:
            self.assertEqual(p.process.wait(120), 0)
        for i in range(10):
            self.assertEqual(sorted(self.d["index", i, p] for p in range(4)), [0, 1, 2, 3])
        with self.assertRaises(ValueError):
            ddict.Barrier("b", 5, d=self.d)

    def test_a_killed_party_breaks_it(self):
        """One that waits, and one that was to come; with its managers, too."""
        for node, comes, managers in ((0, True, False), (1, True, False), (1, False, False), (0, False, True)):
            others = [Process(self, i, "party", 4, True) for i in range(2)]
            victim = Process(self, node, "party", 4, comes)
            barrier = ddict.Barrier("b", 4, d=self.d)  # the fourth; it does not come, so they wait
            for p in (*others, victim):
                self.assertEqual(p.line(), "made")
            time.sleep(0.5)
            self.assertFalse(barrier.broken)
            if managers:
                self.kill_managers(node)
            victim.kill()
            began = time.monotonic()
            self.assertEqual([p.line() for p in others], ["broken"] * 2)
            self.assertLess(time.monotonic() - began, SOON_S)
            self.assertTrue(barrier.broken)
            with self.assertRaises(ddict.BrokenBarrierError):
                barrier.wait()
            del self.d["ddict.barrier", "b"]

    def test_time_and_abort_and_reset(self):
        a, b = (ddict.Barrier("t", 2, d=d) for d in (self.d, self.far))
        self.assertEqual((a.parties, a.n_waiting, a.broken), (2, 0, False))
        with self.assertRaises(ddict.BrokenBarrierError):
            a.wait(0.2)
        self.assertTrue(b.broken)
        a.reset()
        self.assertFalse(b.broken)

        def waits(out):
            try:
                out.append(b.wait(20))
            except ddict.BrokenBarrierError:
                out.append("broken")
        for end, want in ((a.abort, "broken"), (a.reset, "broken"), (lambda: self.assertEqual(a.wait(), 1), 0)):
            out = []
            a.reset()
            thread = threading.Thread(target=waits, args=(out,))
            thread.start()
            while b.n_waiting == 0:
                time.sleep(0.01)
            end()
            thread.join(20)
            self.assertEqual(out, [want])
        a.abort()
        with self.assertRaises(ddict.BrokenBarrierError):
            b.wait()

    def test_an_action(self):
        ran, out = [], []
        barrier = ddict.Barrier("a", 3, lambda: ran.append(barrier.n_waiting), d=self.d)
        threads = [threading.Thread(target=lambda: out.append(barrier.wait(20))) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
        self.assertEqual((ran, sorted(out)), ([3], [0, 1, 2]))

        def fails():
            raise ArithmeticError
        barrier = ddict.Barrier("f", 1, fails, d=self.d)
        with self.assertRaises(ArithmeticError):
            barrier.wait()
        self.assertTrue(barrier.broken)


    def waiter(self, barrier):
        """A thread that waits, and what comes of it"""
        out = []

        def waits():
            try:
                out.append(barrier.wait(30))
            except BaseException as e:
                out.append(type(e))
        thread = threading.Thread(target=waits)
        thread.start()
        return thread, out

    def test_who_clears_breaks_it(self):
        """Who waits does not go on, though its round is not there any more."""
        for again in (None, 3, 2):
            barrier = ddict.Barrier("b", 3, d=self.d)
            waiters = [self.waiter(barrier) for _ in range(2)]
            while barrier.n_waiting < 2:
                time.sleep(0.01)
            self.d.clear()
            if again:
                ddict.Barrier("b", again, d=self.far)
            for thread, out in waiters:
                thread.join(20)
                self.assertEqual(out, [ddict.BrokenBarrierError])
            self.d.clear()

    def test_who_clears_during_the_action_breaks_it(self):
        barrier = ddict.Barrier("b", 2, self.d.clear, d=self.d)
        thread, out = self.waiter(ddict.Barrier("b", 2, d=self.far))
        while barrier.n_waiting < 1:
            time.sleep(0.01)
        with self.assertRaises(ddict.BrokenBarrierError):
            barrier.wait(30)
        thread.join(20)
        self.assertEqual(out, [ddict.BrokenBarrierError])

    def test_an_interrupt_at_any_line(self):
        """Nobody stays behind that counts as one who waits."""
        barrier = ddict.Barrier("i", 1, d=self.d)
        for hit in at_each_line(barrier.wait):
            self.assertEqual(barrier.n_waiting, 0)
            barrier.reset()


class Tasks(Two):
    def test_join(self):
        q, far = ddict.JoinableQueue("q", d=self.d), ddict.JoinableQueue("q", d=self.far)
        q.join()
        with self.assertRaises(ValueError):
            q.task_done()
        q.put(1)
        with self.assertRaises(ddict.TimeoutError):
            q.join(0.2)
        self.assertEqual(far.get(timeout=5), 1)
        with self.assertRaises(ddict.TimeoutError):
            q.join(0.2)
        timer = threading.Timer(0.3, far.task_done)
        timer.start()
        q.join(20)
        timer.join()
        with self.assertRaises(ValueError):
            far.task_done()
        with self.assertRaises(queue.Empty):
            q.get(False)
        began = time.monotonic()
        with self.assertRaises(queue.Empty):
            q.get(timeout=0.3)
        self.assertGreater(time.monotonic() - began, 0.29)
        q.join(20)
        again = pickle.loads(pickle.dumps(q))
        self.assertIs(type(again), ddict.JoinableQueue)

    def test_a_value_that_is_put_while_join_looks(self):
        """By a process whose own value is done then, when join() has seen that another one does nothing."""
        first, second = ddict.JoinableQueue("q", d=self.d), ddict.JoinableQueue("q", d=self.far)
        first.put(1)
        first.get(timeout=5)
        first.task_done()
        first.put(2)
        self.assertEqual(second.get(timeout=5), 2)
        key = ("ddict.tasks", "q", *self.d._self())
        moves = [lambda: (second.put(3), second.task_done())]

        class Slow(ddict.DDict):
            def seen(self, found, which):
                if which == key and moves:
                    moves.pop()()
                return found

            def get(self, which, *more):
                return self.seen(super().get(which, *more), which)

            def view(self, which, **more):
                return self.seen(super().view(which, **more), which)

        d = self.dictionary.attach(cls=Slow)
        with self.assertRaises(ddict.TimeoutError):
            ddict.JoinableQueue("q", d=d).join(0.5)
        self.assertEqual((moves, first.get(timeout=5)), ([], 3))
        first.task_done()
        ddict.JoinableQueue("q", d=d).join(20)
        d.detach()

    def test_what_is_no_name_and_no_time(self):
        for name in (Path("a"), 5):
            with self.assertRaises(TypeError):
                ddict.JoinableQueue(name, d=self.d)
        q = ddict.JoinableQueue("q", d=self.d)
        for timeout in (-1, float("nan")):
            for call in (lambda: q.get(timeout=timeout), lambda: q.join(timeout)):
                with self.assertRaises(ValueError):
                    call()

    def test_an_interrupt_at_any_line(self):
        q = ddict.JoinableQueue("q", d=self.d)
        q.put(0)
        q.get()
        for hit in at_each_line(lambda: q.get(timeout=5)):
            if hit:
                self.assertEqual(self.d["ddict.tasks", "q", *self.d._self()], 1)
                if q.empty():
                    q.put(0)

    def test_all_is_done(self):
        """By processes that wait, of two nodes; join() does not return before, and not never, though they die with what they have."""
        workers = [Process(self, i % 2, "work", i) for i in range(4)]
        q = ddict.JoinableQueue("q", d=self.d)
        for burst in range(5):
            for i in range(40):
                q.put((burst, i))
            q.join(60)
            self.assertTrue(all(("did", (burst, i)) in self.d for i in range(40)))
        for _ in workers:
            q.put(None)
        self.assertEqual([p.line() for p in workers], ["stuck"] * 4)
        with self.assertRaises(ddict.TimeoutError):
            q.join(0.5)
        for p in workers:
            p.kill()
        q.join(SOON_S)
        self.assertEqual(self.d["ddict.tasks", "q"], "[]")


if __name__ == "__main__":
    unittest.main()
