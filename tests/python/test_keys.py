# SPDX-License-Identifier: Apache-2.0
"""Which objects are keys, and that each has bytes of its own."""

import datetime
import enum
import os
import unittest
import uuid
from pathlib import Path, PureWindowsPath

import ddict
from harness import DictTest, module_or_skip

KEYS = ["", "a", "1", 1, b"1", b"", 0, -1, 10**17, -10**18, 2**63 - 1, -2**63, 2**63, -10**40, (), ("a",), (1,), ("1",), (b"1",), ((),),
        ("a", 1, b"x", (2, ("\u00e9", -3))), "\u00e9", "e\u0301", "\U0001f600", "\udcff", "nul\0nul", b"\0\xff", "x" * 300, b"y" * 60000,
        ("x" * 500,), (("a", "b"), "c"), ("a", ("b", "c")), ("a", "b", "c"), ("ab", "c"), ("a", "bc")]


class Plain(enum.Enum):
    A = "a"


class Keys(DictTest):
    def test_every_key_comes_back_equal_and_of_its_type(self):
        for i, key in enumerate(KEYS):
            self.d[key] = i
        self.assertEqual(len(self.d), len(KEYS))
        for i, key in enumerate(KEYS):
            self.assertEqual(self.d[key], i)
            self.assertIn(key, self.d)
        back = list(self.d)
        self.assertEqual(len(back), len(KEYS))
        self.assertEqual({(type(k), k) for k in back}, {(type(k), k) for k in KEYS})

    def test_every_key_has_one_form(self):
        stored = [ddict.key_bytes(k) for k in KEYS]
        self.assertEqual(len(set(stored)), len(KEYS))
        self.assertEqual([ddict.bytes_key(s) for s in stored], KEYS)

    def test_the_form_is_the_one_of_FORMAT(self):
        for key, stored in [("a", b"sa"), (b"a", b"ba"), (7, b"i7"), (-7, b"i-7"), (2**70, b"i1180591620717411303424"),
                            ((1, "x"), b"t\2\0\0\0i1\2\0\0\0sx"), ("\u00e9", b"s\xc3\xa9"), ((), b"t")]:
            self.assertEqual(ddict.key_bytes(key), stored)

    def test_what_equals_an_int_is_the_same_key(self):
        class Colour(enum.IntEnum):
            RED = 7
        self.d[7], self.d[1] = "seven", "one"
        self.assertEqual(self.d[Colour.RED], "seven")
        self.assertEqual(self.d[True], "one")
        numpy = module_or_skip("numpy")
        for t in (numpy.int8, numpy.int64, numpy.uint64):
            self.used_everywhere(t(7), 7)
            self.used_everywhere(("a", (t(7),)), ("a", (7,)))

    def used_everywhere(self, key, plain):
        """As plain, in every call that takes keys"""
        d = self.d
        self.assertEqual(ddict.key_bytes(key), ddict.key_bytes(plain))
        d.clear()
        d.put_many([(key, "many")])
        self.assertEqual(list(d), [plain])
        self.assertIs(type(next(iter(d))), type(plain))
        self.assertEqual(d.get_many([key, plain]), ["many"] * 2)
        self.assertIn(key, d)
        self.assertEqual((d[key], d.get(key), bytes(d.view(key)), d.get_async(key).result(10)), ("many", "many", b"many", "many"))
        self.assertEqual(d.owner(key), d.owner(plain))
        self.assertFalse(d.put_new(key, 1))
        d[key] = "set"
        self.assertEqual((d.pop(key), len(d)), ("set", 0))
        d[plain] = 1
        del d[key]
        self.assertNotIn(plain, d)
        with d.subscribe(timeout=10) as events:
            d.put_async(key, 5).result(10)
            self.assertEqual(next(events).key, plain)

    def test_paths_are_their_text(self):
        self.used_everywhere(Path("a/b"), "a/b")
        self.used_everywhere(PureWindowsPath("a/b"), "a\\b")
        self.used_everywhere((1, (Path("x"),)), (1, ("x",)))
        self.used_everywhere(Path(os.fsdecode(b"\xff")), "\udcff")
        self.d["data/1"], self.d["data/2"], self.d["other"] = 1, 2, 3
        self.assertEqual(set(self.d.keys(Path("data"))), {"data/1", "data/2"})

        class Odd:
            def __fspath__(self):
                return 7
        with self.assertRaises(TypeError):
            self.d[Odd()] = 1

    def test_other_types_are_refused(self):
        for key in (1.0, None, [1], {1}, bytearray(b"a"), ("a", 1.0), (None,), object(), memoryview(b"a"), (ddict.RawKey(b"a"),)):
            for use in (self.d.__getitem__, self.d.__delitem__, self.d.pop, self.d.view, self.d.put_new):
                with self.assertRaises(TypeError):
                    use(key)
            with self.assertRaises(TypeError):
                self.d[key] = 1
            with self.assertRaises(TypeError):
                self.d.get_many([key])
        self.assertEqual(len(self.d), 0)

    def test_what_can_be_no_key_is_not_there(self):
        for key in (1.5, None, ("a", 1.0), object(), Plain.A, uuid.uuid4(), frozenset(), datetime.date(2026, 1, 1)):
            self.assertIs(key in self.d, False)
            self.assertIsNone(self.d.get(key))
            self.assertEqual(self.d.get(key, 5), 5)
            self.assertEqual(self.d.pop(key, 6), 6)
            with self.assertRaises(TypeError):
                self.d.get(key, wait=True, timeout=1)
        for key in ([1], {}, bytearray(b"a"), ({},)):  # of which a dict says so, too
            for use in (self.d.__contains__, self.d.get, lambda k: self.d.pop(k, None)):
                with self.assertRaises(TypeError):
                    use(key)

    def test_the_error_says_which_part_and_what_to_do(self):
        for key, said in ((Plain.A, "not Plain; its .value may be one"), (uuid.uuid4(), "not UUID; str() of it is one"),
                          (("a", 1.5), r"not float, which is key\[1\] of the key \('a', 1.5\); int\(\) or str\(\) of it is one"), (None, "not NoneType$"),
                          (("a", (1, None)), r"not NoneType, which is key\[1\]\[1\] of the key \('a', \(1, None\)\)$"), ([1], r"not list; tuple\(\) of it may be one"),
                          ({}, "not dict$")):
            with self.assertRaisesRegex(TypeError, said.replace("str()", r"str\(\)")):
                self.d[key] = 1
        for keys in ("abc", b"abc"):
            for use in (self.d.get_many, self.d.__getitems__):
                with self.assertRaisesRegex(TypeError, "several keys are a list of them"):
                    use(keys)

    def test_key_of_64_KiB_is_the_longest(self):
        key = b"k" * (65536 - 1)
        self.d[key] = "longest"
        self.assertEqual(self.d[key], "longest")
        for long in (key + b"k", "s" * 65536, (key,), "\u00e9" * 32768, b"x" * 10_000_000, ddict.RawKey(b""), ddict.RawKey(b"x" * 65537)):
            with self.assertRaises(ddict.KeySizeError) as e:
                self.d[long] = 1
            self.assertIsInstance(e.exception, ValueError)
        self.assertEqual(len(self.d), 1)

    def test_nesting_without_end_is_an_error(self):
        key = ()
        for _ in range(100000):
            key = (key,)
        with self.assertRaises((RecursionError, ddict.KeySizeError)):
            ddict.key_bytes(key)
        stored = b"t"
        for _ in range(5000):
            stored = b"t" + len(stored).to_bytes(4, "little") + stored
        try:  # how deep C may go is up to the interpreter
            self.assertIs(type(ddict.bytes_key(stored)), tuple)
        except RecursionError:
            pass

    def test_keys_of_other_programs(self):
        for stored in (b"index7", b"i007", b"i-0", b"i", b"i+1", b"i1 ", b"zz", b"\0", b"t\1", b"t\5\0\0\0a", b"t\1\0\0\0z", b"t\xff\xff\xff\xff"):
            key = ddict.bytes_key(stored)
            self.assertIs(type(key), ddict.RawKey)
            self.assertEqual(ddict.key_bytes(key), stored)
        self.d[ddict.RawKey(b"sample")] = 1   # the bytes of "ample"
        self.d[ddict.RawKey(b"?")] = 2
        self.assertEqual(self.d["ample"], 1)
        self.assertEqual(set(self.d), {"ample", ddict.RawKey(b"?")})
        self.assertEqual(ddict.key_bytes(ddict.bytes_key(b"s\xff\xfe")), b"s\xff\xfe")

    def test_owner_is_a_manager_and_does_not_change(self):
        owners = {self.d.owner(i) for i in range(100)}
        self.assertEqual(owners, {0, 1})
        self.assertEqual(self.d.owner("k"), self.d.owner("k"))


if __name__ == "__main__":
    unittest.main()
