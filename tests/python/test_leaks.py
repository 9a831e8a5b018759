# SPDX-License-Identifier: Apache-2.0
"""Nothing is kept that nobody holds: references, memory of the process, memory of the managers."""

import gc
import pickle
import sys
import time
import tracemalloc
import unittest
from pathlib import Path

import ddict
from harness import DictTest

VALUE = {"list": [1, "x"], "buffer": bytearray(5000)}
KEY = ("key", "of some length", 12345)


def every_call(d):
    """Everything a handle can do, with its errors."""
    for value in (b"bytes" * 100, "text", "\u00e9", 5, 2.5, None, VALUE, [pickle.PickleBuffer(VALUE["buffer"])] * 3, memoryview(b"abcdef")[::2],
                  ["__main__", VALUE]):  # the last one pickled twice: as it may name a class of the program
        d[KEY] = value
        d[KEY]
        view = d.view(KEY)
        memory = memoryview(view)
        view.load()
        view.copy()
        view.release()
        del view, memory
    d.get(KEY), d.get("none"), d.get("none", VALUE), d.get("none", VALUE, wait=True, timeout=0.001)
    d[Path("a/b")], d[("a", Path("b"))] = VALUE, VALUE
    KEY in d, "none" in d, Path("a/b") in d, len(d), d.owner(KEY), d.info, d.stats, repr(d)
    d.setdefault(KEY, VALUE), d.setdefault("new", VALUE), d.put_new(KEY, VALUE), d.put_existing("none", VALUE)
    d.put_many({i: VALUE for i in range(50)}), d.put_many([("big", [pickle.PickleBuffer(bytearray(100_000))])])
    d.get_many([KEY, "none", 1, 2], VALUE)
    list(d), list(d.items()), list(d.values()), next(iter(d)), d == {}
    d.pop(KEY), d.pop("none", VALUE), d.popitem()
    for bad in (lambda: d["none"], lambda: d[1.5], lambda: d.__setitem__("f", [VALUE, lambda: 0]), lambda: d.__setitem__("f", [VALUE, iter(d)]), lambda: d.__setitem__(2.5, VALUE), lambda: d.view("none"),
                lambda: d.pop("none"), lambda: d.__delitem__("none"), lambda: d.get("none", wait=True, timeout=0.001), lambda: d.put_many([(1, VALUE), (2.5, VALUE)]),
                lambda: d.put_many([(1, VALUE, 3)]), lambda: d.get_many([KEY, 1.5]), lambda: d.put_many(5), lambda: d.get(KEY, VALUE, wrong=1),
                lambda: d.__setitem__("k" * 70000, VALUE), lambda: d.get_many(["k" * 70000]), lambda: ddict.attach("none such", 1), lambda: d.view(1, wait=True, timeout=-1)):
        try:
            bad()
        except Exception:
            pass
    ddict.bytes_key(ddict.key_bytes(KEY)), ddict.bytes_key(b"zz")
    again = pickle.loads(pickle.dumps(d))
    it = iter(again)
    next(it)
    again.detach()
    d.clear()


def memory():
    """KiB that are this process's own, and how many regions are mapped. What it has touched of the managers' memory is theirs: more, where they free later."""
    with open("/proc/self/status") as f:
        own = next(int(line.split()[1]) for line in f if line.startswith("RssAnon:"))
    with open("/proc/self/maps") as f:
        return own, len(f.readlines())


class Leaks(DictTest):
    def test_references(self):
        held = [KEY, VALUE, VALUE["buffer"], VALUE["list"], None, ddict.View, ddict.RawKey, ddict.TimeoutError, ddict.DDict]
        every_call(self.d)
        gc.collect()
        before = [sys.getrefcount(x) for x in held]
        for _ in range(40):
            every_call(self.d)
        gc.collect()
        after = [sys.getrefcount(x) for x in held]
        for x, b, a in zip(held, before, after):
            self.assertLess(abs(a - b), 20, f"references to {x!r:.60}")
        del VALUE["buffer"][1:2]  # would be BufferError when an export were left
        VALUE["buffer"].append(0)

    def test_memory_of_python(self):
        for _ in range(3):
            every_call(self.d)
        gc.collect()
        tracemalloc.start()
        every_call(self.d)
        grown = []
        for _ in range(2):  # Python's table of interned strings, of 400 KB, is replaced now and then; a leak is there each time
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(30):
                every_call(self.d)
            gc.collect()
            grown.append(tracemalloc.get_traced_memory()[0] - before)
        tracemalloc.stop()
        self.assertLess(min(grown), 20_000, f"bytes over 30 rounds: {grown}")

    def test_memory_of_the_process(self):
        for _ in range(20):
            every_call(self.d)
        own, regions = memory()
        for _ in range(60):
            every_call(self.d)
        own2, regions2 = memory()
        self.assertLess(own2 - own, 1024, "KiB over 60 rounds")
        self.assertLess(regions2 - regions, 30, "regions over 60 rounds")

    def test_memory_of_the_managers(self):
        def used():
            for _ in range(3):  # retired blocks are looked at every MiB
                self.d["settle"] = bytes(12 << 20)
                del self.d["settle"]
            return [(s["num_keys"], s["leased_bytes"], s["clients_now"]) for s in self.d.stats], sum(s["total_used_bytes"] for s in self.d.stats)
        for _ in range(5):
            every_call(self.d)
        exact, size = used()
        for _ in range(30):
            every_call(self.d)
        end = time.monotonic() + 60
        while True:  # that a client has left is told, and leases are looked at, when there is time
            exact2, size2 = used()
            if (exact == exact2 and abs(size2 - size) < 3 << 20) or time.monotonic() > end:
                break
        self.assertEqual(exact, exact2)
        self.assertLess(abs(size2 - size), 3 << 20)


if __name__ == "__main__":
    unittest.main()
