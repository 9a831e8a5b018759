# SPDX-License-Identifier: Apache-2.0
"""Views: in place, read-only, unchanged while anything made from them lives; and then the memory is free again."""

import gc
import sys
import threading
import unittest
import weakref

import ddict
from harness import DictTest, module_or_skip, python


class Views(DictTest):
    managers, mem = 1, 64 << 20

    def leased(self):
        return sum(s["leased_bytes"] for s in self.d.stats)

    def churn(self):
        """Overwrite so much that every block that may be used again is used again."""
        for i in range(40):
            self.d["churn"] = bytes([i]) * (4 << 20)

    def test_a_view_is_the_value(self):
        self.d["a"] = b"0123456789"
        view = self.d.view("a")
        self.assertEqual((bytes(view), len(view), view.nbytes, view.tag, view.released), (b"0123456789", 10, 10, 0, False))
        self.assertEqual((view.load(), view.copy()), (b"0123456789",) * 2)
        with self.assertRaises(TypeError):
            memoryview(view)[0] = 1
        with self.assertRaises(KeyError):
            self.d.view("b")
        self.assertIn("10 bytes", repr(view))
        version = view.version
        self.d["a"] = b""
        self.assertGreater(self.d.view("a").version, version)
        self.assertEqual(bytes(self.d.view("a")), b"")
        with self.assertRaises(TypeError):
            ddict.View()

    def test_a_view_stays_while_the_key_changes(self):
        value = b"v" * 1_000_000
        self.d["a"] = value
        view = self.d.view("a")
        del self.d["a"]
        self.churn()
        self.assertEqual(bytes(view), value)

    def test_many_views_stay_while_other_threads_release(self):
        """More than a thread's leases come at a time, some of them released elsewhere, amid get_many() of many keys."""
        keys = [f"many-{i:06}" for i in range(700)]

        def value(i, n):
            return (b"%08d" % (i * 1000 + n)) * 300

        self.d.put_many((key, value(i, 0)) for i, key in enumerate(keys))
        wrong, held = [], []

        def check(data, expected=None):
            if data != (expected or data[:8] * 300):
                wrong.append(f"{data[:8]!r} in place of {expected[:8]!r}" if expected else f"torn: {sorted({data[i:i + 8] for i in range(0, 2400, 8)})[:3]}")

        def release(pairs):
            for view, data in pairs:
                check(bytes(view), data)
                view.release()

        def overwrite():
            for n in range(1, 200):
                self.d.put_many((key, value(i, n)) for i, key in enumerate(keys))

        writer = threading.Thread(target=overwrite)
        writer.start()
        for n in range(100):
            for data in self.d.get_many(keys):
                check(data)
            for key in keys[n * 7 % 500 :][:150]:
                view = self.d.view(key)
                held.append((view, bytes(view)))
                check(held[-1][1])
            old, held = held[:-900], held[-900:]
            thread = threading.Thread(target=release, args=(old,))
            thread.start()
            thread.join()
        writer.join()
        release(held)
        self.assertEqual(wrong, [])

    def test_whatever_was_made_from_it_keeps_it(self):
        np = module_or_skip("numpy")
        self.d["a"] = np.arange(200_000)
        self.d["b"] = b"b" * 1_000_000
        loaded = self.d.view("a").load()
        part = loaded[1000:2000]
        del loaded
        array = np.asarray(self.d.view("b"))[10:]
        memory = memoryview(self.d.view("b"))[5:10]
        with self.d.view("b") as view:
            late = memoryview(view)
        view.release()
        for use in (lambda: memoryview(view), view.load, view.copy, view.__enter__):
            self.assertRaises(ValueError, use)
        self.assertTrue(view.released)
        del view
        gc.collect()
        self.d.clear()
        self.churn()
        self.assertTrue((part == np.arange(1000, 2000)).all())
        self.assertTrue((array == ord("b")).all())
        self.assertEqual((bytes(memory), bytes(late[:5])), (b"bbbbb", b"bbbbb"))

    def test_memory_is_free_again_when_the_last_is_gone(self):
        np = module_or_skip("numpy")
        size = self.d.info["total_bytes"] // 4
        for way in ("view", "array", "memoryview", "with", "loaded", "cycle"):
            for _ in range(12):  # three times of what there is room for
                self.d["a"] = np.zeros(size, np.uint8)
                view = self.d.view("a")
                keep = {"view": lambda: view, "array": lambda: np.asarray(view), "memoryview": lambda: memoryview(view)[1:], "with": lambda: view.__enter__(),
                        "loaded": view.load, "cycle": lambda: [view]}[way]()
                del self.d["a"]
                if way == "with":
                    view.__exit__(None, None, None)
                if way == "cycle":
                    keep.append(keep)
                    del keep, view
                    gc.collect()
                else:
                    del view, keep

    def test_views_outlive_the_handle(self):
        d = self.dictionary.attach()
        d["a"] = b"a" * 100_000
        view = d.view("a")
        d.detach()
        del d, self.d["a"]
        self.churn()
        self.assertEqual(bytes(view), b"a" * 100_000)

    def test_a_view_released_in_another_thread(self):
        self.d["a"] = b"a" * 1000
        views = [self.d.view("a") for _ in range(2000)]
        thread = threading.Thread(target=views.clear)
        thread.start()
        thread.join()
        views = [self.d.view("a") for _ in range(2000)]
        self.assertEqual(bytes(views[-1]), b"a" * 1000)

    def test_many_views_at_once(self):
        self.d.update((i, i) for i in range(1000))
        views = [self.d.view(i) for _ in range(30) for i in range(1000)]
        self.assertEqual([v.load() for v in views], list(range(1000)) * 30)

    def test_more_views_than_there_may_be(self):
        """In a process of its own: a thread that has had them all keeps their slots from other threads."""
        self.d["a"] = b"a" * 10_000
        code = """
import ddict
d = ddict.attach()
views = []
try:
    while len(views) <= 1 << 20:
        views.append(d.view("a"))
except ddict.ViewsError:
    pass
assert 1_000_000 < len(views) < 1 << 20, len(views)
value = b"a" * 10_000  # copies can still be had
assert d["a"] == d.get("a") == value
d["b"] = [1]
assert d["b"] == [1]
assert d.get_many(["b", "a", "none"]) == [[1], value, None]
assert dict(d.items()) == {"a": value, "b": [1]}
assert d.pop("b") == [1]
del views[-1]
assert bytes(d.view("a")) == value
"""
        with python(code, environment=self.dictionary.environment()) as p:
            self.assertEqual(p.wait(60), 0)

    def test_weak_references(self):
        self.d["a"] = 1
        view = self.d.view("a")
        ref = weakref.ref(view)
        self.assertIs(ref(), view)
        del view
        self.assertIsNone(ref())

    def test_readers_in_threads_while_a_writer_overwrites(self):
        stop, bad, reads = threading.Event(), [], [0] * 4

        def read(n):
            while not stop.is_set():
                view = self.d.view(n % 2)
                b = bytes(view)
                copy = self.d[n % 2]
                if b != b[:1] * len(b) or copy != copy[:1] * len(copy):
                    bad.append(b)
                reads[n] += 1
        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        sys.setswitchinterval(interval / 50)
        self.d[0] = self.d[1] = b"s" * 5000
        threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for i in range(3000):
            self.d[i % 2] = bytes([i % 256]) * (5000 + i)
        stop.set()
        for t in threads:
            t.join()
        self.assertFalse(bad)
        self.assertTrue(all(reads))


if __name__ == "__main__":
    unittest.main()
