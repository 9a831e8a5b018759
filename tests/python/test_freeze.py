# SPDX-License-Identifier: Apache-2.0
"""Two nodes: a frozen dictionary is read-only, and what one process of a node has read of another node the next ones have in place."""

import os
import pickle
import subprocess
import time
import unittest

import ddict
from harness import DictTest, python


class Freeze(DictTest):
    managers, mem, nodes = 4, 256 << 20, 2

    def setUp(self):
        self.d.unfreeze()
        super().setUp()
        self.other = self.dictionary.attach(1)
        self.addCleanup(self.other.detach)
        self.addCleanup(self.d.unfreeze)

    def cached(self):
        return sum(s["cached_items"] for s in self.d.stats)

    def test_writes_are_refused_until_unfreeze(self):
        self.d["a"] = 1
        self.assertIs(self.d.is_frozen, False)
        self.assertIsNone(self.d.freeze())
        self.d.freeze()
        self.assertIs(self.d.is_frozen, True)
        self.assertIs(self.other.is_frozen, True)
        for write in (lambda: self.d.__setitem__("a", 2), lambda: self.other.pop("a"), lambda: self.d.__delitem__("a"), self.d.clear,
                      lambda: self.d.update(b=1, c=2), lambda: self.other.put_new("z", 0), lambda: self.d.__setitem__("x", bytes(5 << 20))):
            with self.assertRaises(ddict.FrozenError) as e:
                write()
            self.assertIn("frozen", str(e.exception))
        self.assertEqual(dict(self.other.items()), {"a": 1})
        self.assertEqual([s["frozen"] for s in self.d.stats], [1] * 4)
        self.other.unfreeze()
        self.d["a"] = 2
        self.assertEqual(self.other["a"], 2)

    def test_second_reader_asks_nobody(self):
        keys = [("k", i) for i in range(400)]
        self.d.put_many((k, bytes([k[1] % 256]) * (1 + k[1] * 50)) for k in keys)
        far = [k for k in keys if self.other.owner(k) % 2 == 0]
        self.d.freeze()
        self.assertEqual(self.other.get_many(far), [bytes([k[1] % 256]) * (1 + k[1] * 50) for k in far])
        self.assertEqual(self.cached(), len(far))
        before = sum(s["gets_remote"] for s in self.d.stats)
        code = ("import ddict, os, pickle, sys; d = ddict.DDict(); keys = pickle.load(sys.stdin.buffer)\n"
                "for k in keys: assert d[k] == bytes([k[1] % 256]) * (1 + k[1] * 50) == bytes(d.view(k)) and k in d and d.get(k)\n"
                "assert len(d) == 400 == len(list(d)); print('right')")
        p = python(code, environment=self.dictionary.environment(1), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(p.communicate(pickle.dumps(far), timeout=60)[0], b"right\n")
        self.assertEqual(sum(s["gets_remote"] for s in self.d.stats), before)
        self.assertGreaterEqual(sum(s["cache_hits"] for s in self.d.stats), 3 * len(far))
        self.d.unfreeze()
        self.assertEqual(self.cached(), 0)
        for k in far:
            self.other[k] = "new"
        self.assertEqual({self.other[k] for k in far}, {"new"})

    def test_views_outlive_the_freeze(self):
        self.d.put_many((i, bytes([i]) * 20000) for i in range(100))
        self.d.freeze()
        views = {i: self.other.view(i) for i in range(100)}
        self.d.unfreeze()
        self.d.put_many((i, b"x" * 20000) for i in range(100))
        for i, view in views.items():
            self.assertEqual(bytes(view), bytes([i]) * 20000)
        self.assertEqual(self.other.get_many(range(100)), [b"x" * 20000] * 100)

    def test_prefetch(self):
        self.d.put_many((i, bytes(3000)) for i in range(300))
        far = [i for i in range(300) if self.other.owner(i) % 2 == 0]
        self.assertEqual(self.other.prefetch(far), 0)
        self.d.freeze()
        self.assertEqual(self.other.prefetch(iter(range(300))), len(far))
        end = time.monotonic() + 30
        while self.cached() < len(far) and time.monotonic() < end:
            time.sleep(0.005)
        self.assertEqual(self.cached(), len(far))
        self.assertEqual(self.other.prefetch(far), 0)
        self.assertEqual(self.other.prefetch([]), 0)
        self.assertRaises(TypeError, self.other.prefetch, 5)
        self.assertRaises(TypeError, self.other.prefetch, [object()])

    def test_command(self):
        env = {**os.environ, **self.dictionary.environment(1)}
        run = lambda *a: subprocess.run([os.environ["DDICT_TEST_COMMAND"], *a], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        self.d.put_many((i, bytes(100)) for i in range(50))
        self.assertEqual(run("freeze").returncode, 0)
        self.assertTrue(self.d.is_frozen)
        self.other.get_many(range(50))
        self.assertIn("frozen", run("put", "a", "b").stderr)
        self.assertRegex(run("stats").stdout, r"\nfrozen: \d+ values of other nodes are kept")
        self.assertEqual(run("unfreeze").returncode, 0)
        self.assertFalse(self.d.is_frozen)
        self.assertEqual(run("freeze", "now").returncode, 2)


if __name__ == "__main__":
    unittest.main()
