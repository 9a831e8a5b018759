# SPDX-License-Identifier: Apache-2.0
"""ddict.Queue: between processes of two nodes every value is given to exactly one, in order, and nothing waits longer than it says."""

import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
import unittest

import ddict
from harness import DictTest, Dictionary, python


def produce(name, node, who, n):
    os.environ["DDICT_NODE"] = node
    q = ddict.Queue(name, maxsize=7, d=ddict.attach(os.environ["DDICT_NAME"]))
    for i in range(n):
        q.put((who, i, b"x" * (i * 997 % 40000)), timeout=60)


def consume(name, node, out, who):
    os.environ["DDICT_NODE"] = node
    d = ddict.attach(os.environ["DDICT_NAME"])
    q = ddict.Queue(name, d=d)
    got = []
    while True:
        value = q.get(timeout=60)
        if value is None:
            break
        assert len(value[2]) == value[1] * 997 % 40000
        got.append(value[:2])
    d[out, who] = got


class Picky:
    """Unpickles only where that is allowed."""
    refuse = None

    def __init__(self, n):
        self.n = n

    def __setstate__(self, state):
        if Picky.refuse is not None:
            raise Picky.refuse
        self.__dict__.update(state)


class Queues(DictTest):
    nodes = 2
    managers = 4

    def queue(self, name="q", maxsize=0):
        return ddict.Queue(name, maxsize, self.d)

    def names(self):
        """Queues whose values lie on each of the managers."""
        names = {}
        i = 0
        while len(names) < self.managers:
            names.setdefault(self.d.owner(("ddict.Queue", str(i))), str(i))
            i += 1
        return names.values()

    def clients(self):
        return sum(s["clients_now"] for s in self.d.stats)

    def gone(self, others):
        deadline = time.monotonic() + 30
        while self.clients() > others:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def kill(self, process, name, others):
        """And see that the managers know: what comes before that is given to the dead one. others: the clients without it."""
        process.kill()
        process.wait()
        self.gone(others)
        # comes to the queue's manager behind what that of the dead one's node has told it
        asks = python("import ddict, sys; ddict.Queue(sys.argv[1], 1, ddict.attach()).empty()", str(name), environment=self.dictionary.environment(1))
        self.assertEqual(asks.wait(60), 0)
        self.gone(others)

    def test_it_is_first_in_first_out_and_holds_any_value(self):
        for name in self.names():
            q = self.queue(name)
            values = [None, 1, "text", b"", b"x" * 300000, {"a": [1, 2]}, 2.5]
            for v in values:
                q.put(v)
            self.assertEqual(q.qsize(), len(values))
            self.assertFalse(q.empty())
            self.assertEqual([q.get() for _ in values], values)
            self.assertTrue(q.empty())
            self.assertEqual(len(self.d), 0)

    def test_empty_and_full_are_those_of_multiprocessing(self):
        for name in self.names():
            q = self.queue(name, 2)
            with self.assertRaises(queue.Empty):
                q.get_nowait()
            began = time.monotonic()
            with self.assertRaises(queue.Empty):
                q.get(timeout=0.3)
            self.assertGreater(time.monotonic() - began, 0.25)
            q.put(1)
            q.put(2)
            self.assertTrue(q.full())
            with self.assertRaises(queue.Full):
                q.put_nowait(3)
            began = time.monotonic()
            with self.assertRaises(queue.Full):
                q.put(3, timeout=0.3)
            self.assertGreater(time.monotonic() - began, 0.25)
            self.assertEqual([q.get(), q.get()], [1, 2])
            with self.assertRaises(queue.Empty):
                q.get(False)

    def test_who_waits_is_served_by_whoever_comes(self):
        for name in self.names():
            got = []
            getter = threading.Thread(target=lambda: got.append(self.queue(name).get(timeout=60)))
            getter.start()
            time.sleep(0.1)
            self.queue(name).put("late")
            getter.join(60)
            self.assertEqual(got, ["late"])
            q = self.queue(name, 1)
            q.put("first")
            putter = threading.Thread(target=lambda: q.put("second", timeout=60))
            putter.start()
            time.sleep(0.1)
            self.assertEqual(q.qsize(), 1)
            self.assertEqual(q.get(), "first")
            putter.join(60)
            self.assertEqual(q.get(timeout=60), "second")

    def test_a_large_value_waits_for_room_too(self):
        for name in self.names():
            q = self.queue(name, 1)
            q.put(b"a" * 1000000)
            putter = threading.Thread(target=lambda: q.put(b"b" * 1000000, timeout=60))
            putter.start()
            time.sleep(0.2)
            self.assertEqual(q.get(), b"a" * 1000000)
            self.assertEqual(q.get(timeout=60), b"b" * 1000000)
            putter.join(60)

    def test_what_does_not_unpickle_stays_for_others(self):
        for name in self.names():
            q = self.queue(name, 3)
            for error in (AttributeError("no class"), KeyError("x"), KeyboardInterrupt()):
                for n in range(3):
                    q.put([Picky(n), b"x" * (n * 200_000)])
                Picky.refuse = error
                for wait in (False, True):
                    for n in range(3):
                        with self.assertRaises(ddict.Error if isinstance(error, KeyError) else type(error)) as caught:
                            q.get(wait, 10)
                        self.assertEqual(q.qsize(), 3)
                if not isinstance(error, KeyboardInterrupt):
                    self.assertIn("ddict.Queue", str(caught.exception))
                Picky.refuse = None
                self.assertEqual([q.get()[0].n for _ in range(3)], [0, 1, 2])
            self.assertTrue(q.empty())

    def test_what_is_deleted_makes_room_and_leaves_nothing(self):
        used = sum(s["total_used_bytes"] - s["retired_bytes"] for s in self.d.stats)
        for name in self.names():
            q = self.queue(name, 3)
            for i in range(3):
                q.put(bytes(100000))
            putter = threading.Thread(target=lambda: q.put("in the end", timeout=60))
            putter.start()
            time.sleep(0.1)
            del self.d["ddict.Queue", name]
            putter.join(60)
            self.assertEqual((q.qsize(), q.get()), (1, "in the end"))
            for i in range(3):
                q.put(bytes(100000))
        self.d.clear()
        for name in self.names():
            self.assertEqual(self.queue(name).qsize(), 0)
        deadline = time.monotonic() + 30
        while sum(s["total_used_bytes"] - s["retired_bytes"] for s in self.d.stats) > used + (1 << 20):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_many_producers_and_consumers_on_two_nodes_lose_and_double_nothing(self):
        context = multiprocessing.get_context("spawn")
        for name in list(self.names())[:2]:
            nodes = [self.dictionary.environment(i)["DDICT_NODE"] for i in range(2)]
            os.environ["DDICT_NAME"] = self.dictionary.name
            consumers = [context.Process(target=consume, args=(name, nodes[i % 2], "got", i)) for i in range(3)]
            producers = [context.Process(target=produce, args=(name, nodes[i % 2], i, 150)) for i in range(3)]
            for p in consumers + producers:
                p.start()
            for p in producers:
                p.join(120)
                self.assertEqual(p.exitcode, 0)
            for _ in consumers:
                self.queue(name).put(None)
            for p in consumers:
                p.join(120)
                self.assertEqual(p.exitcode, 0)
            all_got = [self.d["got", i] for i in range(3)]
            self.assertEqual(sorted(x for got in all_got for x in got), [(w, i) for w in range(3) for i in range(150)])
            for got in all_got:  # those of one producer come in its order
                for w in range(3):
                    mine = [i for who, i in got if who == w]
                    self.assertEqual(mine, sorted(mine))
            self.assertTrue(self.queue(name).empty())

    def test_a_process_that_dies_while_it_waits_takes_and_leaves_nothing(self):
        others = self.clients()
        for name in self.names():
            q = self.queue(name, 1)
            code = "import ddict, sys; d = ddict.attach(); d['here'] = 1; ddict.Queue(sys.argv[1], 1, d)"
            waits = python(code + ".get()", str(name), environment=self.dictionary.environment(1))
            self.d.get("here", wait=True, timeout=60)
            time.sleep(0.1)
            self.kill(waits, name, others)
            q.put("kept")
            self.assertEqual(q.get(timeout=60), "kept")
            del self.d["here"]
            q.put("kept")
            waits = python(code + ".put(2)", str(name), environment=self.dictionary.environment(1))
            self.d.get("here", wait=True, timeout=60)
            time.sleep(0.1)
            self.kill(waits, name, others)
            self.assertEqual(q.get(timeout=60), "kept")
            del self.d["here"]
            with self.assertRaises(queue.Empty):
                q.get(timeout=0.2)

    def test_ctrl_c_ends_a_wait_and_takes_nothing(self):
        q = self.queue()
        waits = python("import ddict; d = ddict.attach(); d['here'] = 1; ddict.Queue('q', 0, d).get()", environment=self.dictionary.environment(1),
                       stderr=-3)
        self.d.get("here", wait=True, timeout=60)
        waits.send_signal(signal.SIGINT)
        self.assertEqual(waits.wait(60), -signal.SIGINT)
        q.put(1)
        self.assertEqual(q.get(timeout=60), 1)

    def test_it_ends_with_the_dictionary(self):
        said = {}
        self.addCleanup(os.environ.update, DDICT_NODE=self.dictionary.nodes[0].node)

        def wait(what, call):
            try:
                said[what] = call()
            except BaseException as e:
                said[what] = e

        with Dictionary(nodes=2) as it:
            handles = [it.attach(node) for node in (0, 1)]
            ddict.Queue("full", 1, handles[0]).put("first")
            calls = {(what, node): getattr(ddict.Queue(name, 1, d), what) for node, d in enumerate(handles) for what, name in (("get", "empty"), ("put", "full"))}
            threads = [threading.Thread(target=wait, args=(of, call if of[0] == "get" else lambda call=call: call("more"))) for of, call in calls.items()]
            for t in threads:
                t.start()
            time.sleep(0.3)
            self.assertEqual(said, {})
        for t in threads:
            t.join(60)
        self.assertEqual({of: type(e) for of, e in said.items()}, dict.fromkeys(calls, ddict.GoneError), said)
        self.assertEqual(len(said), 4)
        for d in handles:
            with self.assertRaises(ddict.GoneError):
                ddict.Queue("full", 1, d).get(timeout=60)
            d.detach()

    def test_maxsize_is_the_queues_own(self):
        for name in self.names():
            plain, q = self.queue(name), self.queue(name, 2)
            other = ddict.Queue(name, 0, self.dictionary.attach(1))
            self.addCleanup(other._given.detach)
            self.assertEqual((plain.maxsize, q.maxsize, other.maxsize), (2, 2, 2))
            plain.put(1)
            other.put(2)
            for who in plain, q, other:
                self.assertTrue(who.full())
                with self.assertRaises(queue.Full):
                    who.put(3, timeout=0.05)
                with self.assertRaises(queue.Full):
                    who.put_nowait(3)
            with self.assertRaisesRegex(ValueError, "the queue was made for at most 2 values, not for 5"):
                self.queue(name, 5)
            self.assertEqual(self.queue(name, 2).qsize(), 2)
            getter = threading.Timer(0.2, plain.get)
            getter.start()
            other.put(3, timeout=60)  # which named none waits, too
            getter.join(60)
            self.assertEqual([q.get(), q.get()], [2, 3])
            self.assertEqual(self.queue(name).maxsize, 2)  # empty, it stays so
            q.put(1)
            del self.d["ddict.Queue", name]
            self.assertEqual(plain.maxsize, 0)
            again = self.queue(name, 5)
            self.assertEqual(plain.maxsize, 5)
            with self.assertRaisesRegex(ValueError, "at most 5 values, not for 2"):
                q.put(1)
            again.put(1)
            self.d.clear()
            self.assertEqual((plain.maxsize, plain.qsize()), (0, 0))

    def test_what_is_no_name_and_no_maxsize_is_refused(self):
        for name in 5, 5.0, True:
            with self.assertRaisesRegex(TypeError, "found by its name"):
                ddict.Queue(name)
        for maxsize in "5", None, 5.0:
            with self.assertRaises(TypeError):
                self.queue("q", maxsize)
        self.assertEqual(self.queue("q", -1).maxsize, 0)
        with self.assertRaises((ValueError, OverflowError)):
            self.queue("q", 1 << 63)

    def test_while_frozen_it_is_read_only(self):
        q = self.queue("f", 3)
        q.put(1)
        self.d.freeze()
        try:
            self.assertEqual((q.qsize(), self.queue("f", 3).maxsize), (1, 3))
            for call in (lambda: q.put(2), q.get, lambda: self.queue("g", 3)):
                with self.assertRaises(ddict.FrozenError):
                    call()
        finally:
            self.d.unfreeze()
        self.assertEqual((q.get(), self.queue("g").maxsize), (1, 0))

    def test_a_long_queue_is_as_fast_as_a_short_one_and_takes_no_other_memory(self):
        """By the CPU time of its manager: a walk of what stands in it would be hundreds of times as much."""
        name = next(iter(self.names()))
        q = self.queue(name)
        pid = self.d.stats[self.d.owner(("ddict.Queue", name))]["pid"]
        own = lambda: sum(int(line.split()[1]) for line in open(f"/proc/{pid}/smaps_rollup") if line.startswith("Anonymous:"))
        cpu = lambda: sum(map(int, open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[11:13]))

        def take(n):
            began = cpu()
            for _ in range(n):
                q.get()
                q.put(0)
            return cpu() - began

        for i in range(100):
            q.put(0)
        used, memory, short = self.d.stats[self.d.owner(("ddict.Queue", name))]["total_used_bytes"], own(), take(2000)
        for i in range(60000):
            q.put(0)
        self.assertGreater(self.d.stats[self.d.owner(("ddict.Queue", name))]["total_used_bytes"] - used, 60000 * 64)
        self.assertLess(own() - memory, 3000)  # KiB; 170 bytes a value were 10,000
        self.assertLess(take(2000), 5 * short + 50)  # ticks of 10 ms
        del self.d["ddict.Queue", name]

    def test_it_is_pickled_and_closed(self):
        q = pickle.loads(pickle.dumps(self.queue("p", 5)))
        q.put("x")
        self.assertEqual((q.maxsize, self.queue("p").maxsize, self.queue("p").get()), (5, 5, "x"))
        q.close()
        os.environ.update(self.dictionary.environment(0))
        own = ddict.Queue("own")
        own.put(1)
        self.assertEqual(own.get(), 1)
        own.close()
        for closed in (q, own, ddict.Queue("never used")):
            closed.close()
            for call in (lambda: closed.put(1), lambda: closed.maxsize, closed.get, closed.get_nowait, closed.qsize, closed.empty, closed.full, lambda: len(closed)):
                with self.assertRaisesRegex(ValueError, f"Queue {closed.name!r} is closed"):
                    call()
            self.assertIsNone(closed._attached)  # none of them attached again
            closed.close()


if __name__ == "__main__":
    unittest.main()
