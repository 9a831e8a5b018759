# SPDX-License-Identifier: Apache-2.0
"""Subscriptions and prefixes on two nodes: every event comes, in order, or the subscriber is told how many did not; nobody waits for a subscriber."""

import os
import threading
import time
import traceback
import unittest

import ddict
from harness import Dictionary, DictTest, python


class Events(DictTest):
    nodes = 2
    managers = 4

    def test_keys_with_a_prefix_are_picked_out(self):
        self.d.put_many((f"run/{i:04}", i) for i in range(3000))
        self.d.put_many((("t", i % 3, i), i) for i in range(300))
        self.d[b"run/bytes"] = 1
        self.assertEqual(sorted(self.d.keys("run/00")), [f"run/{i:04}" for i in range(100)])
        self.assertEqual(sorted(self.d.keys(("t", 1))), [("t", 1, i) for i in range(1, 300, 3)])
        self.assertEqual(list(self.d.keys(b"run/")), [b"run/bytes"])
        self.assertEqual(list(self.d.keys("no")), [])
        self.assertEqual(len(set(self.d.keys())), 3301)
        with self.assertRaises(TypeError):
            self.d.keys(7)

    def test_each_put_is_told_with_its_value(self):
        with self.d.subscribe("a/", timeout=60) as events:
            for i in range(100):
                self.d[f"a/{i}"] = i
                self.d[f"b/{i}"] = i
                del self.d[f"b/{i}"]
            self.d["a/large"] = b"x" * 100000
            got = {}
            while len(got) < 101:
                e = next(events)
                self.assertEqual(e.kind, "put")
                got[e.key] = e.value
            self.assertEqual(got, {**{f"a/{i}": i for i in range(100)}, "a/large": b"x" * 100000})
            self.assertIsNone(events.next_event(0.05))
            self.assertIsNone(events.next_event(0))

    def test_removals_are_told_to_those_who_want_them(self):
        with self.d.subscribe(("k",), dels=True, timeout=60) as events, self.d.subscribe(("k",), timeout=60) as puts:
            self.d["k", 1] = "one"
            self.d["k", 1] = "two"
            self.assertEqual(self.d.pop(("k", 1)), "two")
            self.d["k", 1] = "three"
            del self.d["k", 1]
            e = [next(events) for _ in range(5)]
            self.assertEqual([(x.kind, x.key) for x in e], [(kind, ("k", 1)) for kind in ("put", "put", "del", "put", "del")])
            self.assertLess(e[0].version, e[1].version)
            self.assertEqual([next(puts).kind for _ in range(3)], ["put"] * 3)
            with self.assertRaises(KeyError):
                e[2].value
            self.d.clear()
            self.assertEqual([next(events).kind for _ in range(self.managers)], ["clear"] * self.managers)

    def test_what_was_there_comes_first(self):
        self.d.put_many((f"t/{i}", i) for i in range(50))
        with self.d.subscribe("t/", there=True, timeout=60) as events:
            self.d["t/new"] = "new"
            got = [next(events) for _ in range(51)]
            self.assertEqual({e.key: e.value for e in got}, {**{f"t/{i}": i for i in range(50)}, "t/new": "new"})

    def test_it_waits_on_both_nodes_and_all_managers(self):
        for node in range(2):
            d = self.dictionary.attach(node)
            with d.subscribe("w/", timeout=60) as events:
                for m in range(self.managers):
                    key = next(f"w/{i}" for i in range(10000) if d.owner(f"w/{i}") == m)
                    late = threading.Thread(target=lambda: (time.sleep(0.1), self.d.__setitem__(key, m)))
                    late.start()
                    self.assertEqual(next(events).value, m)
                    late.join()
            d.detach()

    def test_who_is_slow_is_told_what_it_missed_and_stops_nobody(self):
        with self.d.subscribe("s/", dels=True) as events, self.d.subscribe("s/") as idle:
            n = 30000
            self.d.put_many((f"s/{i}", i) for i in range(n))
            seen = missed = 0
            kinds = set()
            while seen + missed < n:
                e = events.next_event(60)
                kinds.add(e.kind)
                missed += e.missed
                seen += e.kind == "put"
            self.assertEqual((seen + missed, kinds), (n, {"put", "missed"}))
            self.d["s/after"] = "after"
            self.assertEqual(events.next_event(60).value, "after")
            self.assertEqual(idle.next_event(60).kind, "missed")

    def test_wait_for_prefix(self):
        self.assertEqual(self.d.wait_for_prefix("none/", 0), set())
        begin = time.monotonic()
        with self.assertRaises(ddict.TimeoutError):
            self.d.wait_for_prefix("none/", timeout=0.2)
        self.assertLess(time.monotonic() - begin, 30)
        self.d["x/0"] = 0
        children = [python("import ddict, sys, time; time.sleep(0.1); ddict.attach()['x/' + sys.argv[1]] = 1", str(i), environment=self.dictionary.environment(i % 2))
                    for i in range(1, 5)]
        self.assertEqual(self.d.wait_for_prefix("x/", 5, timeout=60), {f"x/{i}" for i in range(5)})
        for c in children:
            self.assertEqual(c.wait(60), 0)

    def test_another_thread_closes_it(self):
        for wait in ("for", "next_event", "between"):
            events, ended, in_loop = self.d.subscribe("closed/"), [], threading.Event()

            def read():
                if wait == "next_event":
                    try:
                        events.next_event()
                    except ValueError as e:
                        ended.append(str(e))
                    return
                for event in events:
                    in_loop.set()
                    time.sleep(0.5)
                ended.append("ended")

            thread = threading.Thread(target=read)
            thread.start()
            if wait == "between":  # closed while the loop is busy with an event
                self.d["closed/a"] = 1
                self.assertTrue(in_loop.wait(20))
            else:
                time.sleep(0.3)
            events.close()
            thread.join(20)
            self.assertFalse(thread.is_alive())
            self.assertEqual(ended, ["the subscription is closed"] if wait == "next_event" else ["ended"])
            with self.assertRaises(ValueError):
                events.next_event(0)

    def test_a_forked_child_goes_on_by_itself(self):
        with self.d.subscribe("f/", timeout=60) as events:
            self.d["f/1"] = 1
            self.assertEqual(next(events).key, "f/1")
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    code = 0 if {next(events).key, next(events).key} == {"f/2", "f/3"} else 2
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            self.d["f/2"] = 2
            self.assertEqual(next(events).key, "f/2")
            self.d["f/3"] = 3
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
            self.assertEqual(next(events).key, "f/3")

    def test_a_subscriber_that_dies_leaves_nothing(self):
        child = python("import ddict; s = ddict.attach().subscribe('d/'); next(s); next(s)", environment=self.dictionary.environment(1))
        clients = sum(s["clients_now"] for s in self.d.stats)
        deadline = time.monotonic() + 60
        while sum(s["clients_now"] for s in self.d.stats) == clients:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.d["d/1"] = 1
        time.sleep(0.1)
        child.kill()
        child.wait()
        for i in range(100):
            self.d[f"d/{i}"] = i
        with self.d.subscribe("d/", timeout=60) as events:
            self.d["d/x"] = 1
            self.assertEqual(next(events).key, "d/x")

    def test_queues_are_told_by_their_first_value(self):
        with self.d.subscribe(("ddict.Queue",), dels=True, timeout=60) as events:
            q = ddict.Queue("e", d=self.d)
            q.put(1)
            q.put(2)
            self.assertEqual(next(events).value, 1)
            q.get()
            self.assertEqual([next(events).kind, next(events).value], ["del", 2])

    def test_it_holds_the_handle_and_ends_with_the_dictionary(self):
        with Dictionary(nodes=1) as it:
            d = it.attach()
            events = d.subscribe("e/")
            got = []
            reader = threading.Thread(target=lambda: got.extend(e.key for e in events))
            reader.start()
            d["e/1"] = 1
            d.detach()
            d2 = it.attach()
            d2["e/2"] = 2
            d2.detach()
            deadline = time.monotonic() + 60
            while sorted(got) != ["e/1", "e/2"]:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
        reader.join(60)
        self.assertFalse(reader.is_alive())
        events.close()
        with self.assertRaises(ValueError):
            events.next_event()

    def test_a_lost_node_is_an_error(self):
        it = Dictionary(nodes=2)
        try:
            d = it.attach(0)
            events = d.subscribe("e/")
            it.nodes[1].process.kill()
            with self.assertRaises(ddict.LostError):
                events.next_event(60)
            events.close()
        finally:
            it.kill()


if __name__ == "__main__":
    unittest.main()
