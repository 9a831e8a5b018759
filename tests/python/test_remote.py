# SPDX-License-Identifier: Apache-2.0
"""Three nodes (three ddictd on this host): what is put on one is read on the others."""

import os
import random
import signal
import threading
import time
import unittest

import ddict
from harness import DictTest, mem_available, module_or_skip


class Remote(DictTest):
    managers, mem, nodes = 5, 1 << 30, 3

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.handles = [cls.d, cls.dictionary.attach(1), cls.dictionary.attach(2)]

    @classmethod
    def tearDownClass(cls):
        for d in cls.handles[1:]:
            d.detach()
        del cls.handles
        super().tearDownClass()

    def test_every_handle_is_on_its_node(self):
        self.assertEqual([d.info["node_id"] for d in self.handles], [0, 1, 2])
        self.assertEqual([d.info["keyed_nodes"] for d in self.handles], [3, 3, 3])
        self.assertEqual([d.info["refill"] for d in self.handles], [False, False, False])
        self.assertEqual([d.info["local_managers"] for d in self.handles], [2, 2, 1])
        self.assertEqual([len(d.stats) for d in self.handles], [5] * 3)
        self.assertEqual({tuple(d.owner(i) for i in range(50)) for d in self.handles}, {tuple(self.d.owner(i) for i in range(50))})

    def test_sizes(self):
        for size in (0, 1, 4096, 100_000, 1 << 20, 64 << 20):
            if size > 1 << 20 and mem_available() < 2 << 30:
                continue
            for n in range(3):
                key = next(("k", i) for i in range(1000) if self.d.owner(("k", i)) % 3 == n)
                value = random.randbytes(size)
                self.handles[1][key] = value
                for d in self.handles:
                    self.assertEqual(d[key], value)
                    with d.view(key) as view:
                        self.assertEqual(memoryview(view), value)
                self.handles[2].pop(key)
                self.assertNotIn(key, self.d)

    def test_a_value_that_is_there_is_not_waited_for(self):
        """A call that waits first looks up as any does, with the time of the handle: also from a manager that answers late."""
        keys = [k for k in (f"late{i}" for i in range(60)) if self.d.owner(k) == 1][:4]
        for key in keys:
            self.d[key] = key
        pid = self.d.stats[1]["pid"]
        timer = threading.Timer(4, os.kill, (pid, signal.SIGCONT))
        os.kill(pid, signal.SIGSTOP)
        timer.start()
        try:
            self.assertEqual(self.d.get(keys[0], wait=True, timeout=0.5), keys[0])
        finally:
            timer.join()
        self.assertEqual([self.d.get(k, wait=True, timeout=0) for k in keys[1:]], keys[1:])

    def test_every_operation_from_every_node(self):
        for i, d in enumerate(self.handles):
            for n in range(30):
                key = (i, n)
                self.assertNotIn(key, d)
                self.assertTrue(d.put_new(key, n))
                self.assertFalse(self.handles[(i + 1) % 3].put_new(key, 0))
                self.assertTrue(self.handles[(i + 2) % 3].put_existing(key, [n]))
                self.assertEqual(self.handles[(i + 1) % 3].setdefault(key, 5), [n])
                self.assertEqual(d.get(key), [n])
        self.assertEqual([len(d) for d in self.handles], [90] * 3)
        self.assertEqual(self.d, self.handles[1])
        for n in range(30):
            self.assertEqual(self.handles[1].pop((0, n)), [n])
            del self.handles[2][1, n]
        self.assertEqual(set(self.d), {(2, n) for n in range(30)})
        self.handles[1].clear()
        self.assertEqual([len(d) for d in self.handles], [0] * 3)

    def test_many(self):
        for i, d in enumerate(self.handles):
            d.put_many(((i, n), b"%d.%d" % (i, n) * 50) for n in range(3000))
        want = {(i, n): b"%d.%d" % (i, n) * 50 for i in range(3) for n in range(3000)}
        for d in self.handles:
            self.assertEqual(d.get_many(want), list(want.values()))
            self.assertEqual(dict(d.items()), want)

    def test_arrays(self):
        np = module_or_skip("numpy")
        for i in range(20):
            self.handles[i % 3]["a", i] = {"x": np.arange(i * 1000), "i": i}
        for d in self.handles:
            for i in range(20):
                v = d["a", i]
                self.assertTrue((v["x"] == np.arange(i * 1000)).all() and v["i"] == i)
                v["x"][:] = 0
                a = d.view(("a", i)).load()["x"]
                self.assertTrue((a == np.arange(i * 1000)).all())

    def test_views_of_remote_values_stay(self):
        keys = [i for i in range(60)]
        self.d.put_many((i, bytes([i]) * 50_000) for i in keys)
        views = [self.handles[1].view(i) for i in keys]
        self.d.put_many((i, b"new" * 20_000) for i in keys)
        self.assertTrue(all(bytes(v) == bytes([i]) * 50_000 for i, v in zip(keys, views)))
        self.assertEqual(self.handles[1].get_many(keys), [b"new" * 20_000] * 60)

    def test_waiting_for_a_key_of_another_node(self):
        for n in range(3):
            key = next(("w", i) for i in range(1000) if self.d.owner(("w", i)) % 3 == n)
            got = []
            threads = [threading.Thread(target=lambda d=d: got.append(d.get(key, wait=True, timeout=20))) for d in self.handles]
            for t in threads:
                t.start()
            time.sleep(0.3)
            self.handles[n]["other"] = 1
            self.handles[n][key] = "came"
            for t in threads:
                t.join(20)
            self.assertEqual(got, ["came"] * 3)
        with self.assertRaises(ddict.TimeoutError):
            self.handles[1].get("never", wait=True, timeout=0.3)

    def test_threads_of_all_nodes_pop_each_key_once(self):
        self.d.put_many((i, i) for i in range(900))
        popped = [[], [], []]

        def pop(n):
            for i in range(900):
                try:
                    popped[n].append(self.handles[n].pop(i))
                except KeyError:
                    pass
        threads = [threading.Thread(target=pop, args=(n,)) for n in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        self.assertEqual(sorted(sum(popped, [])), list(range(900)))


if __name__ == "__main__":
    unittest.main()
