# SPDX-License-Identifier: Apache-2.0
"""add, append, compare_and_set, version and wait_for: between processes of two nodes each change is made on what the one before has left."""

import multiprocessing
import os
import pickle
import threading
import time
import unittest

import ddict
from harness import DictTest

KEYS = ["a", ("b", 2), 3, b"d"]  # of several managers


def work(name, node, n, out):
    os.environ["DDICT_NODE"] = node
    d = ddict.attach(name)
    sums = []
    for i in range(n):
        for key in KEYS:
            sums.append((key, d.add(key)))
        while True:
            old = d.get("state", ddict.ABSENT)
            if d.compare_and_set("state", old, (0 if old is ddict.ABSENT else old) + 1):
                break
        d.append("log", f"{node} {i}\n")
    out.put(sums)


class Atomic(DictTest):
    nodes = 2

    def test_add(self):
        for key in KEYS:
            self.assertEqual(self.d.add(key), 1)
            self.assertEqual(self.d.add(key, delta=-5), -4)
            self.assertEqual(self.d[key], -4)
            self.d[key] = 1 << 40
            self.assertEqual(self.d.add(key, 1), (1 << 40) + 1)
            self.d[key] = (1 << 63) - 1
            self.assertRaises(OverflowError, self.d.add, key)
            self.assertRaises(OverflowError, self.d.add, key, 1 << 63)
            for value in "1", 1.0, b"1", 1 << 63, None:
                self.d[key] = value
                with self.assertRaises(ddict.NotIntError) as e:
                    self.d.add(key)
                self.assertIsInstance(e.exception, TypeError)
                self.assertEqual(self.d[key], value)

    def test_processes_lose_nothing(self):
        n, workers = 60, 4
        out = multiprocessing.Queue()
        processes = [multiprocessing.Process(target=work, args=(self.d.name, self.dictionary.nodes[i % 2].node, n, out)) for i in range(workers)]
        for p in processes:
            p.start()
        sums = [s for _ in processes for s in out.get(timeout=120)]
        for p in processes:
            p.join(60)
            self.assertEqual(p.exitcode, 0)
        for key in KEYS:
            self.assertEqual(sorted(s for k, s in sums if k == key), list(range(1, n * workers + 1)))
        self.assertEqual(self.d["state"], n * workers)
        lines = self.d["log"].splitlines()
        self.assertEqual(len(lines), n * workers)
        self.assertEqual(len(set(lines)), n * 2)

    def test_size(self):
        d = self.d
        for key in KEYS:
            self.assertRaises(KeyError, d.size, key)
            for value, size in (b"", 0), (b"abc", 3), ("\u00e9", 2), (7, 1), (0.5, 8), (bytes(3 << 20), 3 << 20):
                d[key] = value
                self.assertEqual(d.size(key), size)
            d[key] = {"a": [1, 2]}
            with d.view(key) as view:
                self.assertEqual(d.size(key), view.nbytes)
            del d[key]
        d.put(KEYS[0], b"near", near=True)
        self.assertEqual(d.size(KEYS[0]), 4)
        self.assertRaises(TypeError, d.size, 1.5)
        self.assertRaises(TypeError, d.size, None)

    def test_compare_and_set(self):
        d = self.d
        for key in KEYS:
            self.assertEqual(d.version(key), 0)
            self.assertFalse(d.compare_and_set(key, 1, 2))
            self.assertTrue(d.compare_and_set(key, ddict.ABSENT, ["one"]))
            self.assertFalse(d.compare_and_set(key, ddict.ABSENT, "two"))
            self.assertFalse(d.compare_and_set(key, ["other"], "two"))
            self.assertTrue(d.compare_and_set(key, ["one"], 2))
            self.assertFalse(d.compare_and_set(key, 2.0, 3))
            self.assertFalse(d.compare_and_set(key, "2", 3))
            version = d.version(key)
            with d.view(key) as view:
                self.assertEqual(view.version, version)
            self.assertFalse(d.compare_and_set(key, new=3, version=version - 1))
            self.assertTrue(d.compare_and_set(key, new=3, version=version))
            self.assertGreater(d.version(key), version)
            self.assertFalse(d.compare_and_set(key, 2, ddict.ABSENT))
            self.assertTrue(d.compare_and_set(key, 3, ddict.ABSENT))
            self.assertNotIn(key, d)
            large = os.urandom(1 << 20)
            self.assertTrue(d.compare_and_set(key, new=large, version=0))
            self.assertTrue(d.compare_and_set(key, large, b""))
            self.assertTrue(d.compare_and_set(key, b"", b"x"))
            self.assertEqual(d[key], b"x")
        for bad in ((), (1,), (1, 2, 3)):
            self.assertRaises(TypeError, d.compare_and_set, "k", *bad)
        self.assertRaises(TypeError, d.compare_and_set, "k", 1, 2, version=3)
        self.assertRaises(ValueError, d.compare_and_set, "k", ddict.ABSENT, ddict.ABSENT)
        self.assertIs(pickle.loads(pickle.dumps(ddict.ABSENT)), ddict.ABSENT)

    def test_append(self):
        d = self.d
        for key in KEYS:
            self.assertEqual(d.append(key, b"ab"), 2)
            self.assertEqual(d.append(key, bytearray(b"c")), 3)
            self.assertEqual(d[key], b"abc")
            d[key] = "é"
            self.assertEqual(d.append(key, "è"), 4)
            self.assertEqual(d[key], "éè")
            self.assertRaises(TypeError, d.append, key, 1)
            self.assertRaises(TypeError, d.append, key, ["x"])
            for value in 12, 1.5, [1], None, {"a": bytes(1 << 20)}:
                d[key] = value
                with self.assertRaisesRegex(TypeError, "only bytes and text"):
                    d.append(key, b"1")
                self.assertEqual(d[key], value)
            d[key] = bytearray(b"a")
            self.assertEqual((d.append(key, b"b"), d[key]), (2, bytearray(b"ab")))

    def test_wait_for(self):
        d = self.d
        for key in KEYS:
            def change():
                for value in 1, 2, 3:
                    time.sleep(0.02)
                    d[key] = value
                time.sleep(0.05)
                del d[key]
            t = threading.Thread(target=change)
            t.start()
            d.wait_for(key, 3, timeout=20)
            d.wait_for(key, ddict.ABSENT, timeout=20)
            t.join()
            began = time.monotonic()
            self.assertRaises(ddict.TimeoutError, d.wait_for, key, 3, timeout=0.1)
            self.assertLess(time.monotonic() - began, 5)
            d[key] = 3
            d.wait_for(key, 3, timeout=0)
            self.assertRaises(ddict.TimeoutError, d.wait_for, key, ddict.ABSENT, timeout=0)
            for timeout in -1, float("nan"):
                self.assertRaises(ValueError, d.wait_for, key, 3, timeout=timeout)

    def test_frozen(self):
        self.d["k"] = 1
        self.d.freeze()
        try:
            self.assertRaises(ddict.FrozenError, self.d.add, "k")
            self.assertRaises(ddict.FrozenError, self.d.compare_and_set, "k", 1, 2)
            self.assertFalse(self.d.compare_and_set("k", 2, 3))
        finally:
            self.d.unfreeze()
        self.assertEqual(self.d.add("k"), 2)


if __name__ == "__main__":
    unittest.main()
