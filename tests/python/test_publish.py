# SPDX-License-Identifier: Apache-2.0
"""What is published is on every node: a follower gets the newest version, then newer ones, whole, and arrays in place."""

import multiprocessing
import os
import signal
import threading
import time
import unittest

import ddict
from harness import DictTest, module_or_skip

WAIT = 30


def _raise():
    raise KeyError("of the value")


class _RaisesKeyError:
    def __reduce__(self):
        return _raise, ()


class Publish(DictTest):
    managers, nodes, mem = 1, 2, 512 << 20

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.handles = [cls.d, cls.dictionary.attach(1)]

    @classmethod
    def tearDownClass(cls):
        cls.handles[1].detach()
        del cls.handles
        super().tearDownClass()

    def test_versions_and_values(self):
        values = [1, "text", b"bytes", {"a": [1, 2]}, 2.5, None, "x" * 300000, [b"y" * 200000, 7]]
        for name in ("w", ("a", 1), 7, b"w"):
            followers = [d.follow(name, timeout=WAIT) for d in self.handles]
            for i, value in enumerate(values):
                self.assertEqual(self.handles[i % 2].publish(name, value), i + 1)
                for follower, d in zip(followers, self.handles):
                    self.assertEqual(next(follower), (i + 1, value))
                    self.assertIsNone(follower.next_version(0.02))
                    self.assertEqual(d.bget(name), value)
            for follower in followers:
                follower.close()
                self.assertEqual(list(follower), [])
                self.assertRaises(ValueError, follower.next_version)
        self.assertEqual((len(self.d), list(self.d), [list(self.d.manager(m)) for m in range(2)]), (0, [], [[], []]))
        self.assertNotIn("w", self.d)

    def test_the_first_is_waited_for(self):
        with self.assertRaisesRegex(KeyError, "^'w'$"):
            self.d.bget("w")
        self.assertRaises(ddict.TimeoutError, self.d.bget, "w", wait=True, timeout=0.05)
        with self.d.follow("w", timeout=0.05) as follower:
            self.assertRaises(ddict.TimeoutError, next, follower)
        timer = threading.Timer(0.2, self.handles[1].bput, ("w", "first"))
        timer.start()
        self.assertEqual(self.d.bget("w", wait=True, timeout=WAIT), "first")
        timer.join()
        self.handles[1].bput("w", "second")
        self.assertEqual(next(self.d.follow("w")), (2, "second"))  # a late one: the newest alone

    def test_who_is_slower_misses_some(self):
        follower = self.handles[1].follow("w", timeout=WAIT)
        for i in range(1, 30):
            self.d.publish("w", [i] * 30000)
            if i % 7 == 0:
                self.assertEqual(next(follower), (i, [i] * 30000))
        self.assertEqual(next(follower), (29, [29] * 30000))

    def test_unpublish(self):
        self.assertRaisesRegex(KeyError, "^'w'$", self.d.unpublish, "w")
        for value in ("text", list(range(100000))):
            self.assertEqual(self.d.publish("w", value), 1)
            follower, got = self.handles[1].follow("w", timeout=WAIT), []
            timer = threading.Timer(0.2, self.d.unpublish, ("w",))
            for version, seen in follower:
                got.append((version, seen))
                timer.start()
            timer.join()
            self.assertEqual(got, [(1, value)])
            self.assertRaises(KeyError, self.handles[1].bget, "w")
            self.assertEqual(self.d.publish("w", "next"), 1)
            self.assertEqual(next(follower), (1, "next"))  # it goes on if it is asked
            self.d.clear()
            self.assertRaisesRegex(KeyError, "^'w'$", follower.next_version)
            self.assertIsNone(follower.next_version(0.02))
        self.assertEqual(sum(m["hidden_keys"] for m in self.d.stats), 0)

    def test_a_load_that_raises_is_no_end(self):
        self.d.publish("w", _RaisesKeyError())
        self.assertRaisesRegex(KeyError, "^'of the value'$", next, self.d.follow("w", timeout=WAIT))

    def test_a_timeout_of_0_looks(self):
        for d in self.handles:
            follower = d.follow("w")
            self.assertIsNone(follower.next_version(0))
            self.d.publish("w", 7)
            self.assertEqual(follower.next_version(0), (1, 7))
            self.assertIsNone(follower.next_version(0))
            self.d.unpublish("w")

    def test_arrays_are_in_place(self):
        numpy = module_or_skip("numpy")
        first = numpy.arange(1 << 20, dtype="f4").reshape(1024, 1024)
        self.d.publish("w", {"layer": first, "step": 1})
        kept = []
        for d in self.handles:
            with d.follow("w") as follower, d.follow("w") as other:
                array, same = next(follower)[1]["layer"], next(other)[1]["layer"]
            self.assertEqual((array.flags.writeable, array.flags.owndata), (False, False))
            self.assertTrue(numpy.shares_memory(array, same))  # each node has it once, for all
            kept.append(array)
        for i in range(5):
            self.d.publish("w", {"layer": first + i, "step": i + 2})
            self.handles[1].bget("w")
        for array in kept:  # as long as it is used
            self.assertTrue((array == first).all())

    def test_tensors_are_in_place_when_asked(self):
        torch = module_or_skip("torch")
        self.d.publish("w", torch.arange(100000))
        version, tensor = next(self.handles[1].follow("w", alias_tensors=True))
        self.assertEqual((version, int(tensor.sum())), (1, 4999950000))
        version, tensor = next(self.handles[1].follow("w"))
        tensor += 1  # a copy
        self.assertEqual(int(self.d.bget("w").sum()), 4999950000)

    def test_full_and_frozen(self):
        self.d.publish("w", "old")
        self.assertRaises(ddict.FullError, self.d.publish, "w", bytes(400 << 20))
        self.assertEqual(self.handles[1].bget("w"), "old")
        self.d.freeze()
        try:
            self.assertRaises(ddict.FrozenError, self.d.publish, "w", "new")
            self.assertEqual(self.handles[1].bget("w"), "old")
        finally:
            self.d.unfreeze()
        self.assertEqual(self.d.publish("w", "new"), 2)

    def test_close_and_ctrl_c_end_a_wait(self):
        follower = self.d.follow("none")
        threading.Timer(0.2, follower.close).start()
        self.assertEqual(list(follower), [])
        follower = self.d.follow("none")
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            self.assertRaises(KeyboardInterrupt, next, follower)
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertRaises(ValueError, next, self.d.follow("none", timeout=-1))

    def test_a_killed_publisher_leaves_the_old_one(self):
        self.d.publish("w", bytes(3 << 20))
        fork = multiprocessing.get_context("fork")
        for i in range(6):
            p = fork.Process(target=self.d.publish, args=("w", b"x" * (40 << 20)))
            p.start()
            time.sleep(0.004 * i)
            os.kill(p.pid, signal.SIGKILL)
            p.join()
            version, value = next(self.handles[1].follow("w"))
            self.assertIn((len(value), value[:1]), [(3 << 20, b"\0"), (40 << 20, b"x")])
            self.assertEqual(self.d.publish("w", bytes(3 << 20)), version + 1)


if __name__ == "__main__":
    unittest.main()
