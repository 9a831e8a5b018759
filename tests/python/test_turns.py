# SPDX-License-Identifier: Apache-2.0
"""No turn of a manager is long, whatever it moves, clears, frees or scans: by the CPU time that it says its turns took."""

import unittest

import ddict
from harness import DictTest

LONG_US = 16384  # three times what is promised, for page faults of a machine that is short of everything


class Turns(DictTest):
    managers, mem = 1, 1 << 30

    def setUp(self):
        super().setUp()
        self.before = self.d.stats[0]["turns"]

    def long(self):
        now = self.d.stats[0]["turns"]
        self.assertGreater(sum(now.values()), sum(self.before.values()))
        return {us: n - self.before.get(us, 0) for us, n in now.items() if us >= LONG_US and n > self.before.get(us, 0)}

    def test_large_values_and_many_keys(self):
        value = bytes(200 << 20)
        for _ in range(2):
            self.d["large"] = value
        del self.d["large"]
        self.assertEqual(self.long(), {})
        for part in range(3):
            self.d.put_many((("k", part, i), i) for i in range(100000))
        self.assertEqual(list(self.d.keys("nothing")), [])
        self.assertEqual(self.long(), {})
        self.d.clear()
        self.d["large"] = value
        self.assertEqual(self.long(), {})

    def test_a_long_queue_that_is_deleted(self):
        q = ddict.Queue("q", d=self.d)
        for i in range(100000):
            q.put(i)
        self.assertEqual([q.get() for _ in range(100)], list(range(100)))
        del self.d["ddict.Queue", "q"]
        for i in range(1000):
            self.d["k", i] = i
        self.assertEqual(self.long(), {})

    def test_values_that_are_replaced_while_many_views_are_held(self):
        n = 200000
        self.d.put_many((("v", i), bytes(100)) for i in range(n))
        views = [self.d.view(("v", i)) for i in range(n)]
        for round in range(2):
            self.d.put_many((("v", i), bytes([round]) * 100) for i in range(n))
        self.assertEqual(self.d.stats[0]["num_keys"], n)
        self.assertEqual([bytes(v) for v in (views[0], views[n // 2], views[-1])], [bytes(100)] * 3)
        for v in views:
            v.release()
        for i in range(2000):
            self.d["k", i] = bytes(1000)
        self.assertEqual(self.long(), {})


if __name__ == "__main__":
    unittest.main()
