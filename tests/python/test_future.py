# SPDX-License-Identifier: Apache-2.0
"""Futures: values of this node and of another, waited for by threads, event loops and concurrent.futures; ends of all kinds."""

import asyncio
import concurrent.futures
import gc
import multiprocessing
import os
import subprocess
import threading
import time
import unittest
import weakref

import ddict
from harness import Dictionary, python


class Futures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dictionary = Dictionary(nodes=2)

    @classmethod
    def tearDownClass(cls):
        cls.dictionary.stop()

    def setUp(self):
        self.d = self.dictionary.attach()
        self.d.clear()

    def tearDown(self):
        self.d.detach()

    def keys(self, node, n=1, name="k"):
        """n keys of that node."""
        out, i = [], 0
        while len(out) < n:
            if self.d.owner((name, i)) % 2 == node:
                out.append((name, i))
            i += 1
        return out

    def test_values_of_both_nodes(self):
        for node in (0, 1):
            key, = self.keys(node)
            f = self.d.put_async(key, {"a": node, "b": bytearray(300000)})
            self.assertIsNone(f.result(30))
            value = self.d.get_async(key).result(30)
            self.assertEqual(value, {"a": node, "b": bytearray(300000)})
            with self.d.view_async(key).result(30) as view:
                self.assertEqual(view.load()["a"], node)
            with self.assertRaises(KeyError) as e:
                self.d.get_async((key, "none")).result(30)
            self.assertEqual(e.exception.args, ((key, "none"),))
        with self.assertRaises(TypeError):
            self.d.get_async(1.5)

    def test_here_is_done_at_once(self):
        key, = self.keys(0)
        self.d[key] = "here"
        f = self.d.get_async(key)
        self.assertTrue(concurrent.futures.Future.done(f))
        self.assertEqual(f.result(0), "here")
        self.assertFalse(f.cancel())

    def test_lists(self):
        self.d.put_many((i, i * 3) for i in range(500))
        self.assertEqual(self.d.get_async(list(range(500))).result(30), [i * 3 for i in range(500)])
        self.assertEqual(self.d.get_async([]).result(0), [])
        self.assertEqual([v.load() for v in self.d.view_async([3, 4]).result(30)], [9, 12])
        with self.assertRaises(KeyError) as e:
            self.d.get_async([1, "x", 2, "y"]).result(30)
        self.assertEqual(e.exception.args, ("x",))

    def test_many_under_way_end_in_any_order(self):
        puts = [self.d.put_async(("p", i), i) for i in range(2000)]
        for f in reversed(puts):
            self.assertIsNone(f.result(30))
        gets = [self.d.get_async(("p", i)) for i in range(2000)]
        self.assertEqual([f.result(30) for f in gets], list(range(2000)))

    def test_wait(self):
        futures = [self.d.get_async(key, wait=True, timeout=60) for node in (0, 1) for key in self.keys(node, 20, "w")]
        self.assertFalse(futures[0].done())
        with self.assertRaises(concurrent.futures.TimeoutError):
            futures[0].result(0.05)
        other = self.dictionary.attach(1)
        other.put_many((key, key[1]) for node in (0, 1) for key in self.keys(node, 20, "w"))
        self.assertEqual([f.result(30) for f in futures], [key[1] for node in (0, 1) for key in self.keys(node, 20, "w")])
        other.detach()
        with self.assertRaises(ddict.TimeoutError):
            self.d.get_async("never", wait=True, timeout=0.1).result(30)

    def test_cancel(self):
        f = self.d.get_async("never", wait=True, timeout=60)
        self.assertTrue(f.cancel())
        self.assertTrue(f.cancel())
        self.assertTrue(f.cancelled())
        with self.assertRaises(concurrent.futures.CancelledError):
            f.result(1)
        f = self.d.get_async(["never", "never2"], wait=True, timeout=60)
        self.assertTrue(f.cancel())
        done, _ = concurrent.futures.wait([f], 10)
        self.assertEqual(done, {f})

    def test_await(self):
        far, = self.keys(1)
        self.d[far] = "far"

        async def run():
            self.assertEqual(await self.d.get_async(far), "far")
            await asyncio.gather(*(self.d.put_async(("g", i), i) for i in range(300)))
            self.assertEqual(await asyncio.gather(*(self.d.get_async(("g", i)) for i in range(300))), list(range(300)))
            waits = asyncio.ensure_future(self.d.get_async("late", wait=True, timeout=60))
            start = time.monotonic()
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.d.get_async("never", wait=True, timeout=60), 0.1)
            self.assertLess(time.monotonic() - start, 20)
            self.assertFalse(waits.done())
            await self.d.put_async("late", "came")
            self.assertEqual(await waits, "came")
            del self.d["late"]
            with self.assertRaises(KeyError):
                await self.d.get_async((far, "none"))
            self.assertEqual(await asyncio.wrap_future(self.d.get_async(far)), "far")

        for _ in range(2):  # one loop after another
            asyncio.run(run(), debug=False)

    def test_loops_and_threads_at_once(self):
        self.d.put_many((i, i) for i in range(200))
        failed = []

        def loop():
            async def run():
                for _ in range(5):
                    assert await asyncio.gather(*(self.d.get_async(i) for i in range(200))) == list(range(200))
            asyncio.run(run())

        def plain():
            for _ in range(5):
                assert [f.result(30) for f in [self.d.get_async(i) for i in range(200)]] == list(range(200))

        def guarded(f):
            try:
                f()
            except BaseException as e:
                failed.append(e)

        threads = [threading.Thread(target=guarded, args=(f,)) for f in (loop, plain, loop, plain)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
            self.assertFalse(t.is_alive())
        self.assertEqual(failed, [])

    def test_result_in_another_thread_than_the_loop(self):
        got = []

        async def run():
            f = self.d.get_async("late2", wait=True, timeout=60)
            t = threading.Thread(target=lambda: got.append(f.result(30)))
            t.start()
            await asyncio.sleep(0.05)
            await self.d.put_async("late2", 5)
            got.append(await f)
            while t.is_alive():
                await asyncio.sleep(0.01)

        asyncio.run(run())
        self.assertEqual(got, [5, 5])

    def test_concurrent_futures(self):
        key, = self.keys(1)
        called = threading.Event()
        f = self.d.get_async("cb", wait=True, timeout=60)
        f.add_done_callback(lambda f: called.set())
        waits = [self.d.get_async(("c", i), wait=True, timeout=60) for i in range(5)]
        self.d["cb"] = 1
        self.assertTrue(called.wait(30))
        threading.Timer(0.05, lambda: self.d.put_many((("c", i), i) for i in range(5))).start()
        done, rest = concurrent.futures.wait(waits, 30)
        self.assertEqual(({f.result(0) for f in done}, rest), (set(range(5)), set()))
        self.d[key] = 2
        self.assertEqual([f.result(0) for f in concurrent.futures.as_completed([self.d.get_async(key) for _ in range(5)], 30)], [2] * 5)
        end = time.monotonic() + 30
        while any(t.name == "ddict-futures" for t in threading.enumerate()):  # it ends with the last
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def child(self, f, key, queue):
        try:
            f.result(5)
            queue.put("the parent's future went on")
        except ddict.Error:
            queue.put(self.d.get_async(key).result(30) + self.d.get_async([key, key]).result(30)[1])

    def test_fork(self):
        context = multiprocessing.get_context("fork")
        key, = self.keys(1)
        self.d[key] = "x"
        f = self.d.get_async("never", wait=True, timeout=60)
        queue = context.Queue()
        children = [context.Process(target=self.child, args=(f, key, queue)) for _ in range(2)]
        for p in children:
            p.start()
        self.assertEqual([queue.get(timeout=60) for _ in children], ["xx", "xx"])
        for p in children:
            p.join(60)
            self.assertEqual(p.exitcode, 0)
        self.assertFalse(f.done())
        self.d["never"] = 1
        self.assertEqual(f.result(30), 1)
        queue.close()
        queue.join_thread()

    def test_detach(self):
        d = self.dictionary.attach()
        f = d.get_async("never3", wait=True, timeout=60)
        got = []
        t = threading.Thread(target=lambda: got.append(f.exception(30)))
        t.start()
        time.sleep(0.05)
        d.detach()
        t.join(30)
        self.assertIsInstance(f.exception(5), ddict.Error)
        self.assertIs(got[0], f.exception(0))
        with self.assertRaises(ValueError):
            d.get_async("x")

    def test_the_end_of_the_program_finishes_puts(self):
        code = "import ddict, sys\nd = ddict.attach()\nfor i in range(4): d.put_async(('end', i), b'x' * 20_000_000)\nd = None"
        done = python(code, environment=self.dictionary.environment(), stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.communicate(timeout=120)[1], done.returncode), ("", 0))
        self.assertEqual([len(self.d.get(("end", i), b"")) for i in range(4)], [20_000_000] * 4)
        self.d.clear()
        code = "import ddict, sys, multiprocessing\nd = ddict.attach()\ndef child(): d.put_async('child', b'x' * 20_000_000)\n" \
               "p = multiprocessing.get_context('fork').Process(target=child); p.start(); p.join()"
        done = python(code, environment=self.dictionary.environment(), stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.communicate(timeout=120)[1], done.returncode), ("", 0))
        self.assertEqual(len(self.d.get("child", b"")), 20_000_000)
        self.d.clear()

    def test_a_put_that_failed_and_nobody_asked_is_told(self):
        code = "import ddict\nd = ddict.attach()\nd.put_async('big', b'x' * (200 << 20))\n%s"
        for more, said in (("", "ddict: put_async('big', ...) failed, and nobody asked: "), ("f = d.put_async('e', b'x' * (200 << 20)); f.done()\nwhile not f.done(): pass\ndel f", "put_async('e', ...) failed"),
                           ("f = d.put_async('g', b'x' * (200 << 20))\nprint(repr(f.exception()))", "put_async('big', ...) failed")):
            done = python(code % more, environment=self.dictionary.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            out, err = done.communicate(timeout=120)
            self.assertIn(said, err)
            self.assertNotIn("put_async('g'", err)

    def test_nothing_is_left(self):
        fds = len(os.listdir("/proc/self/fd"))
        d = self.dictionary.attach()
        gone = [weakref.ref(d.get_async("never4", wait=True, timeout=60)) for _ in range(3)]  # nobody waits for these
        self.assertEqual(self.dictionary.attach().get_async(self.keys(1)[0]).exception(30).__class__, KeyError)
        self.assertEqual(self.dictionary.attach().get_async(self.keys(1)[0], wait=True, timeout=0).exception(30).__class__, ddict.TimeoutError)
        array = bytearray(5 << 20)
        d.put_async("large", array).result(30)
        array.extend(b"x")  # nobody holds its buffer any more
        del d
        gc.collect()
        self.assertEqual([r() for r in gone], [None] * 3)
        self.assertEqual(len(os.listdir("/proc/self/fd")), fds)

    def test_large(self):
        for node in (0, 1):
            key, = self.keys(node, name="large")
            value = os.urandom(1 << 20) * 20

            async def run():
                await self.d.put_async(key, value)
                self.assertTrue(await self.d.get_async(key) == value)

            asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
