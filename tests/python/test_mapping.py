# SPDX-License-Identifier: Apache-2.0
"""A DDict is a mapping: CPython's own tests of mappings, and what the binding adds."""

import collections.abc
import gc
import os
import subprocess
import sys
import threading
import time
import unittest
import weakref

import ddict
from harness import Dictionary, DictTest

try:
    from test import mapping_tests
except ImportError:
    mapping_tests = None

free = []  # dictionaries that no mapping of the tests below uses now
running = []


def setUpModule():
    for _ in range(4):
        running.append(Dictionary(managers=2, mem=16 << 20))
    free.extend(running)


def tearDownModule():
    gc.collect()
    codes = [dictionary.stop() for dictionary in running]
    if any(any(c) for c in codes):
        raise AssertionError(f"ddictd ended with {codes}")


class Mapping(ddict.DDict):
    """A DDict that is made as a dict is: each gets a whole dictionary and gives it back when it is collected."""

    def __init__(self, *args, **kw):
        if not free:
            gc.collect()
        dictionary = free.pop()
        weakref.finalize(self, free.append, dictionary)
        os.environ["DDICT_NODE"] = dictionary.nodes[0].node
        super().__init__(dictionary.name, 30)
        self.clear()
        self.update(*args, **kw)

    def copy(self):
        return type(self)(self)

    @classmethod
    def fromkeys(cls, keys, value=None):
        self = cls()
        for key in keys:
            self[key] = value
        return self


if mapping_tests:
    class Cpython(mapping_tests.TestMappingProtocol):
        type2test = Mapping

        def test_setdefault(self):
            d = self._empty_mapping()
            self.assertIsNone(d.setdefault("key0"))
            d.setdefault("key0", [])
            self.assertIsNone(d.setdefault("key0"))
            d.setdefault("key", []).append(3)  # of a copy: this is where a DDict differs from a dict
            self.assertEqual(d["key"], [])
            self.assertEqual(d.setdefault("key", [4]), [])
            self.assertRaises(TypeError, d.setdefault)
else:
    class Cpython(unittest.TestCase):
        def test_mapping_protocol(self):
            self.skipTest("no module test.mapping_tests; on Debian: apt install libpython3.11-testsuite")


class Picky:
    """Unpickles only where that is allowed."""
    refuse = None
    made = 0

    def __init__(self, n=0):
        self.n = n

    def __setstate__(self, state):
        if Picky.refuse is not None:
            raise Picky.refuse
        Picky.made += 1
        self.__dict__.update(state)


class Unpicklable(DictTest):
    """A value that this process cannot unpickle stays for those that can."""
    nodes = 2
    managers = 4

    def tearDown(self):
        Picky.refuse = None

    def refusing(self, error):
        Picky.refuse = error
        return self.assertRaises(ddict.Error if isinstance(error, KeyError) else type(error))

    def test_pop_leaves_it(self):
        for error in (AttributeError("no class"), ModuleNotFoundError("no module"), KeyError("x"), KeyboardInterrupt()):
            for i in range(8):  # on either node, small and large
                value = [Picky(i), b"x" * (i * 100_000)]
                self.d["k", i] = value
                Picky.refuse = None
                version = self.d.view(("k", i)).version
                with self.refusing(error) as caught:
                    self.d.pop(("k", i), None)
                if not isinstance(error, KeyboardInterrupt):
                    self.assertIn(repr(("k", i)), str(caught.exception))
                self.assertEqual(self.d.view(("k", i)).version, version)  # as it was, not put back
                Picky.refuse, Picky.made = None, 0
                self.assertEqual(self.d.pop(("k", i))[0].n, i)
                self.assertEqual(Picky.made, 1)
                self.assertNotIn(("k", i), self.d)
        self.assertEqual(len(self.d), 0)

    def test_popitem_leaves_it(self):
        self.d["k"] = Picky(7)
        for error in (AttributeError("no class"), KeyError("x")):
            with self.refusing(error):
                self.d.popitem()
        Picky.refuse = None
        key, value = self.d.popitem()
        self.assertEqual((key, value.n), ("k", 7))

    def test_one_that_came_in_its_place_is_put_back(self):
        d, other = self.d, self.dictionary.attach()
        self.addCleanup(other.detach)

        class Replacing(Picky):
            def __setstate__(self, state):
                if state["n"] == 0:
                    other["k"] = Replacing(1)  # between the look and the removal
                else:
                    super().__setstate__(state)

        globals()["Replacing"] = Replacing
        Replacing.__qualname__ = "Replacing"
        d["k"] = Replacing(0)
        with self.refusing(AttributeError("no class")):
            d.pop("k")
        Picky.refuse = None
        self.assertEqual(d.pop("k").n, 1)

    def test_exactly_one_pops(self):
        n, got = 400, []
        for i in range(n):
            self.d[i] = Picky(i)

        def take():
            for i in range(n):
                value = self.d.pop(i, None)
                if value is not None:
                    got.append(value.n)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(got), list(range(n)))

    def test_the_error_names_the_key(self):
        self.d["the key"] = Picky()
        for use in (lambda: self.d["the key"], lambda: self.d.get("the key"), lambda: self.d.get_many(["the key"]), lambda: list(self.d.items()), lambda: list(self.d.values()),
                    lambda: self.d.setdefault("the key", 1), lambda: self.d.get_async("the key").result()):
            for error in (AttributeError("no class"), ModuleNotFoundError("no module"), KeyError("x")):
                with self.refusing(error) as caught:
                    use()
                self.assertIn("'the key'", str(caught.exception))
        out = subprocess.run([sys.executable, "-c", "import sys\nsys.modules['cloudpickle'] = None\nimport ddict\nclass DC: pass\nddict.attach()['of main'] = DC()"], env={**os.environ, **self.dictionary.environment()})
        self.assertEqual(out.returncode, 0)
        with self.assertRaisesRegex(AttributeError, "DC.*'of main'"):
            self.d["of main"]

    def test_put_many_names_the_key(self):
        for bad, error in (((x for x in ()), TypeError), (threading.Lock(), TypeError)):
            self.d.clear()
            with self.assertRaises(error) as caught:
                self.d.put_many([(i, i) for i in range(3000)] + [("the key", bad), ("after", 1)])
            self.assertIn("'the key'", str(caught.exception))
            self.assertEqual((caught.exception.failed, caught.exception.stored), (["the key"], 3000))
            self.assertEqual(len(self.d), 3000)
        with self.assertRaises(TypeError) as caught:
            self.d.update({"a": 1, 1.5: 2})
        self.assertEqual((caught.exception.failed, caught.exception.stored), ([1.5], 1))


class Shared(DictTest):
    nodes = 2
    managers = 4

    def test_an_iterator_of_several_threads(self):
        """In a process of its own: it crashed."""
        n = 30000
        self.d.put_many((i, i) for i in range(n))
        self.d.put_many(((("long" * 300), i), i) for i in range(100))
        code = """
import ddict, threading, sys
sys.setswitchinterval(1e-5)
d = ddict.attach()
for round in range(5):
    it, got, errors = iter(d), [], []
    def take():
        mine = []
        try:
            for key in it:
                mine.append(key)
        except Exception as e:
            errors.append(e)
        got.extend(mine)
    threads = [threading.Thread(target=take) for _ in range(8)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert not errors, errors
    assert len(got) == len(set(got)) == len(d), (len(got), len(set(got)), len(d))
"""
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **self.dictionary.environment()}, stderr=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Added(DictTest):
    def test_copies_and_unions_are_dicts(self):
        self.d.update(a=1, b=[2])
        self.assertEqual(self.d.copy(), {"a": 1, "b": [2]})
        self.assertIs(type(self.d.copy()), dict)
        self.assertEqual(self.d | {"b": 3, "c": 4}, {"a": 1, "b": 3, "c": 4})
        self.assertEqual({"b": 3, "c": 4} | self.d, {"a": 1, "b": [2], "c": 4})
        with self.assertRaises(TypeError):
            self.d | [("a", 1)]
        for view in (self.d.keys(), self.d.values(), self.d.items()):
            self.assertEqual(view.mapping["a"], 1)
            with self.assertRaises(TypeError):
                view.mapping["a"] = 2

    def test_is_a_mutable_mapping(self):
        self.assertIsInstance(self.d, collections.abc.MutableMapping)
        self.assertIsInstance(self.d.keys(), collections.abc.KeysView)
        self.assertIsInstance(self.d.items(), collections.abc.ItemsView)
        self.assertIsInstance(self.d.values(), collections.abc.ValuesView)
        with self.assertRaises(TypeError):
            hash(self.d)

    def test_equals_any_mapping_with_the_same_items(self):
        self.assertEqual(self.d, {})
        self.d.update(a=1, b=[2])
        self.assertEqual(self.d, {"a": 1, "b": [2]})
        self.assertNotEqual(self.d, {"a": 1})
        self.assertNotEqual(self.d, 5)

    def test_views_are_live_and_sets(self):
        keys, items, values = self.d.keys(), self.d.items(), self.d.values()
        self.d.update({1: "a", 2: "b"})
        self.assertEqual((len(keys), set(keys), set(items), sorted(values)), (2, {1, 2}, {(1, "a"), (2, "b")}, ["a", "b"]))
        self.assertIn(1, keys)
        self.assertIn((1, "a"), items)
        self.assertNotIn((1, "b"), items)
        self.assertIn("b", values)
        self.assertNotIn("c", values)
        self.assertEqual(keys & {1, 5}, {1})
        self.assertEqual(keys | {5}, {1, 2, 5})
        self.assertEqual(items - {(1, "a")}, {(2, "b")})

    def test_items_skip_what_is_removed_meanwhile(self):
        self.d.update((i, i) for i in range(500))
        seen = {}
        for key, value in self.d.items():
            seen[key] = value
            self.d.pop(key + 1, None)
        self.assertTrue(all(k == v for k, v in seen.items()))
        self.assertTrue(250 <= len(seen) <= 500)

    def test_items_of_large_values(self):
        self.d.update((i, bytes([i]) * (3 << 20)) for i in range(20))
        self.assertEqual({k: (len(v), v[0], v[-1]) for k, v in self.d.items()}, {i: (3 << 20, i, i) for i in range(20)})

    def test_iteration_gives_every_key_once(self):
        self.d.update((("k", i), i) for i in range(20_000))
        keys = list(self.d)
        self.assertEqual(len(keys), 20_000)
        self.assertEqual(set(keys), {("k", i) for i in range(20_000)})
        self.assertEqual(len(self.d), 20_000)

    def test_iteration_while_others_are_stored(self):
        self.d.update((i, i) for i in range(3000))
        seen, other = [], 0
        for key in self.d:
            seen.append(key)
            if other < 5000:  # the iterator meets some of them too
                for _ in range(5):
                    self.d["new", other] = 0
                    other += 1
        old = [k for k in seen if isinstance(k, int)]
        self.assertEqual((len(old), set(old)), (3000, set(range(3000))))
        self.assertEqual(len(seen), len(set(seen)))

    def test_get(self):
        self.d["a"] = None
        self.assertIsNone(self.d.get("a", 5))
        self.assertIsNone(self.d.get("b"))
        self.assertEqual(self.d.get("b", 5), 5)
        self.assertEqual(self.d.get("b", default=5), 5)
        for bad in (lambda: self.d.get(), lambda: self.d.get("a", 1, 2), lambda: self.d.get("a", wrong=1), lambda: self.d.get("a", 1, default=1),
                    lambda: self.d.get("a", wait=True, timeout="x"), lambda: self.d.view(), lambda: self.d.view("a", 1),
                    lambda: self.d.get("a", wait=30), lambda: self.d.view("a", wait=None), lambda: self.d.pop("a", wait=1), lambda: self.d.get_async("a", wait=30)):
            with self.assertRaises(TypeError):
                bad()
        with self.assertRaises(ValueError):
            self.d.get("a", wait=True, timeout=-1)

    def test_put_modes(self):
        self.assertFalse(self.d.put_existing("a", 1))
        self.assertNotIn("a", self.d)
        self.assertTrue(self.d.put_new("a", 1))
        self.assertFalse(self.d.put_new("a", 2))
        self.assertEqual(self.d["a"], 1)
        self.assertTrue(self.d.put_existing("a", 3))
        self.assertEqual(self.d["a"], 3)

    def test_pop_waits_for_a_value(self):
        got = []
        threads = [threading.Thread(target=lambda: got.append(self.d.pop("late", None, wait=True, timeout=2))) for _ in range(3)]
        for t in threads:
            t.start()
        time.sleep(0.1)
        self.d["late"] = [1, 2]
        for t in threads:
            t.join()
        self.assertEqual((got.count([1, 2]), got.count(None)), (1, 2))
        self.assertRaises(ddict.TimeoutError, self.d.pop, "late", wait=True, timeout=0.05)
        self.assertEqual(self.d.pop("late", "none", wait=True, timeout=0.05), "none")

    def test_pop(self):
        self.d["a"] = [1]
        self.assertEqual(self.d.pop("a"), [1])
        self.assertEqual(self.d.pop("a", 7), 7)
        with self.assertRaises(KeyError) as e:
            self.d.pop("a")
        self.assertEqual(e.exception.args, ("a",))
        with self.assertRaises(KeyError):
            del self.d["a"]
        self.assertRaises(KeyError, self.d.popitem)
        self.d.update((i, str(i)) for i in range(1000))
        self.assertEqual(dict(self.d.popitem() for _ in range(1000)), {i: str(i) for i in range(1000)})
        self.assertEqual(len(self.d), 0)

    def test_many(self):
        n = self.d.put_many((i, i * i) for i in range(5000))
        self.assertEqual((n, len(self.d)), (5000, 5000))
        self.assertEqual(self.d.put_many({"a": 1}), 1)
        self.assertEqual(self.d.put_many([]), 0)
        self.assertEqual(self.d.get_many(range(4990, 5010), "none"), [i * i for i in range(4990, 5000)] + ["none"] * 10)
        self.assertEqual(self.d.get_many([]), [])
        self.assertEqual(self.d.get_many(["a", "a", "b"]), [1, 1, None])
        self.assertEqual(self.d.get_many(iter([3, 2]), default=0), [9, 4])
        self.assertEqual(self.d.__getitems__([7, "a", 7]), [49, 1, 49])
        self.assertEqual(self.d.__getitems__(iter([])), [])
        self.d["none"] = None
        self.assertEqual(self.d.__getitems__(["none"]), [None])
        with self.assertRaises(KeyError) as caught:
            self.d.__getitems__([1, "absent", "too"])
        self.assertEqual(caught.exception.args, ("absent",))

    def test_many_keeps_the_order_of_puts_to_one_key(self):
        numpy_like = bytearray(200_000)
        import pickle
        pairs = []
        for i in range(3000):
            pairs.append(("k", [i, pickle.PickleBuffer(numpy_like)] if i % 100 == 50 else i))
        self.d.put_many(pairs)
        self.assertEqual(self.d["k"], 2999)

    def test_many_of_every_size(self):
        sizes = [0, 1, 1000, 100_000, 3_000_000] * 8
        pairs = {i: bytes([i]) * size for i, size in enumerate(sizes)}
        self.d.update(pairs)
        self.assertEqual(self.d.get_many(pairs), list(pairs.values()))
        self.assertEqual(self.d, pairs)

    def test_update_stores_what_came_before_an_error(self):
        def pairs():
            yield 1, "a"
            yield 2, "b"
            raise RuntimeError("end")
        self.assertRaises(RuntimeError, self.d.update, pairs())
        self.assertRaises(ValueError, self.d.update, [(3, "c"), (4, "d", "e")])
        self.assertRaises(TypeError, self.d.update, [(5, "e"), 6])
        self.assertRaises(TypeError, self.d.update, [(7, "g"), (8.0, "h")])
        self.assertEqual(self.d, {1: "a", 2: "b", 3: "c", 5: "e", 7: "g"})
        self.d |= {9: "i"}
        self.assertEqual(self.d[9], "i")

    def test_stats_and_info(self):
        info = self.d.info
        self.assertEqual((info["name"], info["managers"], info["nodes"], info["node_id"]), (self.dictionary.name, 2, 1, 0))
        self.assertEqual(len(info["id"]), 32)
        before = self.d.stats
        self.d.update((i, bytes(1000)) for i in range(1000))
        stats = self.d.stats
        self.assertEqual([s["manager_id"] for s in stats], [0, 1])
        self.assertEqual(sum(s["num_keys"] for s in stats), 1000)
        self.assertEqual(sum(s["puts"] for s in stats) - sum(s["puts"] for s in before), 1000)
        for s in stats:
            self.assertTrue(0 < s["total_used_bytes"] < s["total_bytes"])
            self.assertTrue(s["free_blocks"] and all(size & (size - 1) == 0 for size in s["free_blocks"]))
            self.assertEqual(set(s["latency"]), {"put", "get", "del", "fetch"})
            self.assertTrue(s["turns"] and all(us & (us - 1) == 0 for us in s["turns"]) and s["turn_max_us"] >= max(s["turns"]) // 2)
            self.assertEqual(s["state"], 0)
        end = time.monotonic() + 20  # managers hear of other handles' ends from ddictd
        while any(s["clients_now"] != 1 for s in self.d.stats) and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual([s["clients_now"] for s in self.d.stats], [1, 1])

    def test_repr(self):
        self.assertEqual(repr(self.d), f"<DDict '{self.dictionary.name}', 2 managers on 1 nodes>")
        with self.dictionary.attach() as d:
            pass
        self.assertEqual(repr(d), f"<DDict '{self.dictionary.name}', detached>")


if __name__ == "__main__":
    unittest.main()
