# SPDX-License-Identifier: Apache-2.0
"""Values built in place: bytes, numpy arrays, torch tensors; exceptions; memory that outlives the block, the handle, a fork."""

import gc
import multiprocessing
import os
import unittest

import ddict
from harness import DictTest, module_or_skip


class Places(DictTest):
    def test_bytes(self):
        for n in (0, 1, 1000, 20000, 3 << 20):
            data = os.urandom(n)
            with self.d.reserve("k", n) as buf:
                self.assertEqual((len(buf), buf.readonly), (n, False))
                buf[:] = data
                self.assertNotIn("k", self.d)
            self.assertEqual(self.d["k"], data)
            with self.assertRaises(ValueError):
                buf[:0]
            del self.d["k"]

    def test_an_exception_gives_it_up(self):
        self.d["k"] = "old"
        with self.assertRaises(ZeroDivisionError):
            with self.d.reserve("k", 100000) as buf:
                buf[0] = 1 // 0
        self.assertEqual(self.d["k"], "old")

    def test_by_hand(self):
        place = self.d.reserve("k", 5)
        memoryview(place)[:] = b"12345"
        place.commit()
        self.assertEqual(self.d["k"], b"12345")
        place.abort()
        with self.assertRaises(ValueError):
            place.commit()
        with self.assertRaises(ValueError):
            memoryview(place)
        self.d.reserve("k", 5).abort()
        self.assertEqual(self.d["k"], b"12345")
        del place

    def test_refusals(self):
        with self.assertRaises(ddict.ValueSizeError):
            self.d.reserve("k", 1 << 40)
        with self.assertRaises(TypeError):
            self.d.reserve("k")
        with self.assertRaises(TypeError):
            self.d.reserve("k", 5, shape=(1,))
        with self.assertRaises(ValueError):
            self.d.reserve("k", -1)
        with self.assertRaises(TypeError):
            self.d.reserve(1.5, 1)

    def test_numpy(self):
        numpy = module_or_skip("numpy")
        for shape, dtype in (((64, 3, 10, 10), "float32"), ((5,), "u1"), ((), "f8"), ((0, 3), "int64"), ((3, 4), ">i2")):
            want = numpy.arange(numpy.prod(shape, dtype=int)).reshape(shape).astype(dtype)
            with self.d.reserve("a", shape=shape, dtype=dtype) as array:
                array[...] = want
            got = self.d["a"]
            self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
            self.assertTrue((got == want).all())
            array[...] = 1  # ours; the value does not change
            self.assertTrue((self.d["a"] == want).all())
            kept = array
            with self.d.reserve("b", shape=shape, dtype=dtype) as other:
                other[...] = want
            self.assertTrue((kept == 1).all())
            self.assertTrue((self.d["b"] == want).all())
        with self.assertRaises(TypeError):
            self.d.reserve("a", shape=3, dtype=object)

    def test_torch(self):
        torch = module_or_skip("torch")
        for dtype in (torch.float32, torch.int64, torch.uint8, torch.bool, torch.bfloat16):
            want = (torch.arange(1200) % 2).reshape(30, 40).to(dtype)
            with self.d.reserve("t", shape=(30, 40), dtype=dtype) as tensor:
                tensor.copy_(want)
            got = self.d["t"]
            self.assertEqual((got.dtype, got.shape), (dtype, want.shape))
            self.assertTrue(torch.equal(got, want))

    def test_detach_waits_for_the_memory(self):
        d = self.dictionary.attach()
        place = d.reserve("k", 100000)
        buf = memoryview(place)
        d.detach()
        buf[:] = b"x" * 100000  # still there
        place.commit()
        buf[0] = 0
        buf.release()
        self.assertEqual(self.d["k"], b"x" * 100000)

    def child(self, place, queue):
        try:
            place.commit()
            queue.put("stored")
        except ddict.Error:
            with self.d.reserve("child", 3) as buf:
                buf[:] = b"abc"
            queue.put(self.d["child"])

    def test_fork(self):
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        place = self.d.reserve("k", 100000)
        memoryview(place)[:] = b"p" * 100000
        p = context.Process(target=self.child, args=(place, queue))
        p.start()
        self.assertEqual(queue.get(timeout=60), b"abc")
        p.join(60)
        self.assertEqual(p.exitcode, 0)
        place.commit()
        self.assertEqual(self.d["k"], b"p" * 100000)
        queue.close()
        queue.join_thread()

    def test_one_that_is_entered_and_forgotten_goes(self):
        def reserve(i):
            place = self.d.reserve(("forgotten", i), 1 << 20) if i % 2 else self.d.reserve(("forgotten", i), shape=(1 << 18,), dtype=float)
            return place.__enter__()

        module_or_skip("numpy")
        used = sum(s["used_bytes"] for s in self.d.stats) if "used_bytes" in self.d.stats[0] else None
        before = len(gc.get_objects())
        for i in range(300):  # more than there is room for at once
            reserve(i)
            if i % 20 == 19:
                gc.collect()
        gc.collect()
        self.assertLess(len(gc.get_objects()) - before, 100)
        self.assertFalse([o for o in gc.get_objects() if type(o).__name__ == "Place"])
        if used is not None:
            self.assertLess(sum(s["used_bytes"] for s in self.d.stats) - used, 8 << 20)
        self.assertEqual(len(self.d), 0)

    def test_nothing_is_left(self):
        fds = len(os.listdir("/proc/self/fd"))
        d = self.dictionary.attach()
        places = [d.reserve(("n", i), 100000) for i in range(10)]
        buf = memoryview(places[0])
        del places, d
        gc.collect()
        buf[0] = 1
        del buf
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), fds)


if __name__ == "__main__":
    unittest.main()
