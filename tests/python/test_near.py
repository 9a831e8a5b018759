# SPDX-License-Identifier: Apache-2.0
"""What is near: the keys of this node and those of one manager are found where they are, from each node."""

import contextlib
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import unittest

import ddict
from harness import DictTest


def length(key, value):
    return len(value)


def fails_at_seven(key, value):
    if key == ("k", 7):
        raise Odd(key)
    return os.getpid()


def exits(key, value):
    sys.exit(3)


def is_killed(key, value):
    os.kill(os.getpid(), signal.SIGKILL)


class Odd(Exception):
    """It cannot be pickled."""

    def __init__(self, key):
        super().__init__("odd")
        self.at = lambda: key


@contextlib.contextmanager
def started_by(method):
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method(method, force=True)
    try:
        yield
    finally:
        multiprocessing.set_start_method(before, force=True)


def largest(manager, n, sign):
    return sorted(manager.items(), key=lambda item: sign * item[1])[:n]


def fails(manager):
    return [1 // (manager.number - 2)]


class Near(DictTest):
    managers, nodes = 4, 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.handles = [cls.d, cls.dictionary.attach(1)]

    @classmethod
    def tearDownClass(cls):
        cls.handles[1].detach()
        del cls.handles
        super().tearDownClass()

    def test_local_is_this_node(self):
        self.d.update({("k", i): i for i in range(300)})
        self.d["other"] = "x"
        self.d["ddict.x"] = 1
        for node, d in enumerate(self.handles):
            keys = set(d.local_keys())
            self.assertEqual(keys, {k for k in self.d if self.d.owner(k) % 2 == node})
            self.assertEqual((d.local_len(), set(d.local_items())), (len(keys), {(k, self.d[k]) for k in keys}))
            self.assertEqual(sorted(d.local_values(("k",))), sorted(k[1] for k in keys if k != "other"))
            self.assertEqual(set(d.local_keys(("k",))), keys - {"other"})
            self.assertEqual("ddict.x" in set(d.local_keys(hidden=True)), self.d.owner("ddict.x") % 2 == node)
            self.assertEqual((d.local_managers, d.local_manager, d.info["local_managers"]), ([node, node + 2], node, 2))
            self.assertEqual(d.manager_nodes, [self.dictionary.nodes[m % 2].node for m in range(4)])
        self.assertEqual(sum(d.local_len() for d in self.handles), len(self.d))

    def test_a_tag_keeps_keys_together(self):
        for i in range(40):
            tag = "{sample%d}" % i
            keys = [tag, tag + "/image", ("x", tag, 7), f"long/path/to/{tag}/label", tag.encode()]
            self.d.update(dict.fromkeys(keys, i))
            self.assertEqual({self.d.owner(k) for k in keys}, {self.handles[1].owner(tag)})
            for d in self.handles:
                self.assertEqual(d.get_many(keys), [i] * 5)
                self.assertEqual([d.get_async(k).result(30) for k in keys], [i] * 5)
                for k in keys:
                    with d.view(k) as view:
                        self.assertEqual(view.load(), i)
        self.assertEqual({self.d.owner("{sample%d}" % i) for i in range(40)}, {0, 1, 2, 3})

    def test_a_tag_of_this_node_keeps_keys_near(self):
        for node, d in enumerate(self.handles):
            self.assertEqual(d.key_tag(), d.key_tag(node))
            keys = [d.key_tag() + "/w", ("x", d.key_tag(), 7), d.key_tag(node + 2)]
            d.update(dict.fromkeys(keys, node))
            self.assertEqual([self.d.owner(k) for k in keys], [node, node, node + 2])
            self.assertEqual(set(d.local_keys()), set(keys))
            self.assertEqual([h.get_many(keys) for h in self.handles], [[node] * 3] * 2)
            self.assertEqual([d.get(k, timeout=0) for k in keys], [node] * 3)  # without a message
        self.assertEqual(len(self.d), 6)
        self.assertEqual([self.d.key_tag(m) for m in range(4)], [self.handles[1].key_tag(m) for m in range(4)])
        self.assertRaises(ValueError, self.d.key_tag, 4)

    def test_what_is_put_through_a_manager_is_on_it(self):
        self.assertRaises(ValueError, self.d.manager, 4)
        self.assertRaises(ValueError, self.d.manager, -1)
        keys = ["a", 7, b"b", ("t", 1), "x" * 100]
        for m in range(4):
            here = self.handles[m % 2].manager(m)
            here.update({key: (m, key) for key in keys[1:]})
            here[keys[0]] = (m, keys[0])
        self.assertEqual((len(self.d), set(self.d)), (5, set(keys)))  # each is owned by one of them
        for m in range(4):
            for d in self.handles:
                there = pickle.loads(pickle.dumps(d.manager(m)))
                self.assertEqual((dict(there), len(there), set(there.keys())), ({key: (m, key) for key in keys}, 5, set(keys)))
                self.assertEqual([there.get(key) for key in keys], [(m, key) for key in keys])
                with there.view(7) as view:
                    self.assertEqual(view.load(), (m, 7))
                self.assertIn("a", there)
                self.assertNotIn("b", there)
                self.assertIsNone(there.get("b"))
                with self.assertRaisesRegex(KeyError, "^'none'$"):
                    there["none"]
                there.d.detach()
        for key in keys:
            self.assertEqual(self.d[key], (self.d.owner(key), key))
        self.assertEqual([s["num_keys"] for s in self.d.stats], [5] * 4)
        other = next(m for m in range(4) if m != self.d.owner("a"))
        self.assertEqual(self.d.manager(other).pop("a"), (other, "a"))
        with self.assertRaisesRegex(KeyError, "^'a'$"):
            del self.handles[1].manager(other)["a"]
        self.assertEqual((self.d["a"], len(self.d.manager(other))), ((self.d.owner("a"), "a"), 4))
        self.d.manager(other).clear()
        self.assertEqual(self.d.stats[other]["num_keys"], 0)

    def test_map_goes_over_the_items_of_this_node(self):
        self.d.update({("k", i): "x" * i for i in range(200)})
        self.d.update({"s": "abc", b"b": "ab", 5: ""})
        self.assertEqual(self.d.map(length, prefix=("none",)), {})
        self.assertEqual(self.d.map(length, prefix=("none",), into="p/"), 0)
        for method in ("fork", "spawn"):
            with started_by(method):
                found = [d.map(length, prefix=("k",), workers=2) for d in self.handles]
                self.assertEqual([set(f) for f in found], [set(d.local_keys(("k",))) for d in self.handles])
                self.assertEqual({**found[0], **found[1]}, {("k", i): i for i in range(200)})
        for prefix, n in ((("k",), 200), ("s", 1), (b"b", 1)):
            self.assertEqual(sum(d.map(length, prefix=prefix, into="done/", workers=3) for d in self.handles), n)
        self.assertEqual({k: self.d[k] for k in (("done/", "k", 9), "done/s", ("done/", b"b"))}, {("done/", "k", 9): 9, "done/s": 3, ("done/", b"b"): 2})
        self.assertEqual(len(self.d), 203 + 202)
        self.assertEqual(self.handles[self.d.owner("s") % 2].map(length, prefix="s", into=("t", 1)), 1)
        self.assertEqual(self.d["t", 1, "s"], 3)

    def test_what_map_and_filter_raise_names_the_item(self):
        self.d.update({("k", i): i for i in range(100)})
        d = self.handles[self.d.owner(("k", 7)) % 2]
        with self.assertRaises(ddict.MapError) as caught:
            d.map(fails_at_seven, workers=2)
        self.assertEqual((caught.exception.key, type(caught.exception.__cause__)), (("k", 7), RuntimeError))
        self.assertRegex(str(caught.exception), r"item \('k', 7\): RuntimeError: Odd: odd")
        pids = set(d.map(lambda key, value: os.getpid(), prefix=("k",), workers=2).values())
        self.assertTrue(1 <= len(pids) <= 2 and os.getpid() not in pids, pids)
        with self.assertRaisesRegex(ddict.MapError, "manager 2: ZeroDivisionError") as caught:
            with d.filter(fails, (), None):
                pass
        self.assertEqual((caught.exception.key, type(caught.exception.__cause__)), (2, ZeroDivisionError))
        self.assertRaises(ValueError, d.map, length, workers=0)
        self.assertRaises(TypeError, d.map, length, into=7)

    def test_a_function_that_ends_its_process(self):
        self.d.update({("k", i): i for i in range(100)})
        for method in ("fork", "spawn"):
            with started_by(method):
                with self.assertRaisesRegex(ddict.MapError, "SystemExit: 3") as caught:
                    self.d.map(exits, workers=2)
                self.assertIn(caught.exception.key, set(self.d.local_keys(("k",))))
                with self.assertRaisesRegex(ddict.MapError, "a process that ran the function ended before it was done") as caught:
                    self.d.map(is_killed, workers=2)
                self.assertIsNone(caught.exception.key)
        with self.assertRaisesRegex(ddict.MapError, "manager [01]: SystemExit: 3"):
            with self.d.filter(lambda manager: sys.exit(3), (), None, workers=1):
                pass
        with self.assertRaisesRegex(ddict.MapError, "a process that ran the function ended"):
            with self.d.filter(is_killed, (1,), None):
                pass

    def test_filter_merges_in_order(self):
        values = list(range(300))
        random.Random(4).shuffle(values)
        self.d.update(dict(zip((f"k{i}" for i in range(300)), values)))
        for sign in (1, -1):
            with self.handles[1].filter(largest, (5, sign), lambda a, b: sign * a[1] < sign * b[1], workers=2) as found:
                got = list(found)
            self.assertEqual(len(got), 20)
            self.assertEqual([v for _, v in got][:5], sorted(values, key=lambda v: sign * v)[:5])
            self.assertEqual([v for _, v in got], sorted((v for _, v in got), key=lambda v: sign * v))
            self.assertTrue(all(self.d[k] == v for k, v in got))

    def apply(self, node, *words, **env):
        env = {**os.environ, "DDICT_NAME": self.d.name, "DDICT_NODE": self.dictionary.nodes[node].node, **env}
        p = subprocess.run([os.environ["DDICT_TEST_COMMAND"], "apply", *words], env=env, capture_output=True, text=True, timeout=60)
        return p.returncode, p.stdout, p.stderr

    def test_the_command_apply_goes_over_the_items_of_this_node(self):
        keys = [f"in/{i}" for i in range(60)] + [("t", 1), "x y"]
        self.d.update({key: f"value of {key}" for key in keys})
        self.d["ddict.x"] = "hidden"
        big = next(k for k in (f"big{i}" for i in range(100)) if self.d.owner(k) % 2 == 0)
        self.d[big] = b"z" * (3 << 20)
        shown = lambda key: key if type(key) is str else repr(key)
        for node, d in enumerate(self.handles):
            code, out, err = self.apply(node, "-j", "3", "--", "sh", "-c", 'echo "$DDICT_KEY=$(head -c 40)"')
            self.assertEqual((code, err), (0, ""))
            wanted = {f"{shown(k)}=value of {k}" for k in keys if k in set(d.local_keys())} | ({f"{big}={'z' * 40}"} if node == 0 else set())
            self.assertEqual(set(out.splitlines()), wanted)
            mine = [k for k in keys if k in set(d.local_keys("in/"))]
            code, out, err = self.apply(node, "--prefix=in/", "sh", "-c", "exit $(expr ${#DDICT_KEY} - 4)")
            longer = [k for k in mine if len(k) > 4]
            self.assertEqual((code, out, len(err.splitlines())), (1, "", len(longer)))
            self.assertIn(f"'{longer[0]}': sh ended with 1", err)
        self.assertEqual(self.apply(0, "-p", big, "wc", "-c")[1].strip(), str(3 << 20))
        self.assertEqual(self.apply(0, "-p", big, "sh", "-c", "kill -9 $$")[::2], (1, f"ddict apply: '{big}': sh ended by signal 9\n"))
        self.assertEqual(self.apply(0, "-p", "none", "false"), (0, "", ""))
        code, out, err = self.apply(0, "-p", "in/", "/nowhere/none")
        self.assertEqual((code, out), (1, ""))
        self.assertRegex(err, "/nowhere/none: No such file")
        for words in ((), ("-j", "0", "true"), ("-j", "x", "true"), ("--int", "-p", "x", "true")):
            self.assertEqual(self.apply(0, *words)[0], 2, words)


class PutNear(DictTest):
    managers, nodes = 4, 2

    def setUp(self):
        super().setUp()
        self.here, self.there = self.d, self.dictionary.attach(1)

    def tearDown(self):
        self.there.detach()
        super().tearDown()

    def used(self, node):
        return sum(s["total_used_bytes"] for s in self.here.stats if s["manager_id"] % 2 == node)

    def key_of(self, manager):
        return next(k for k in ("near %d" % i for i in range(1000)) if self.here.owner(k) == manager)

    def test_the_value_lies_on_the_node_and_each_finds_it(self):
        key, value = self.key_of(0), os.urandom(1 << 20)
        before = [self.used(0), self.used(1)]
        self.there.put(key, value, near=True)
        self.assertGreaterEqual(self.used(1) - before[1], len(value))
        self.assertLess(self.used(0) - before[0], len(value) // 10)
        for d in (self.here, self.there):
            self.assertEqual(d[key], value)
            self.assertEqual(d.get(key), value)
            self.assertIn(key, d)
            self.assertEqual(list(d), [key])
            self.assertEqual(list(d.items()), [(key, value)])
            self.assertEqual(d.get_many([key]), [value])
            self.assertEqual(len(d), 1)
        self.assertEqual(list(self.here.local_items()), [(key, value)])
        self.assertEqual(list(self.there.local_keys()), [])
        self.assertEqual(self.here.pop(key), value)
        self.assertNotIn(key, self.there)
        self.assertLess(self.used(1) - before[1], len(value) // 10)

    def test_each_change_is_as_of_any_key(self):
        key = self.key_of(0)
        for d in (self.here, self.there):
            self.there.put(key, [1], near=True)
            self.assertFalse(d.put_new(key, 2))
            self.assertTrue(d.put_existing(key, [2]))
            self.there.put(key, [3], near=True)
            d[key] = [4]
            self.assertEqual([x[key] for x in (self.here, self.there)], [[4], [4]])
            self.there.put(key, 5, near=True)
            self.assertEqual(d.add(key, 2), 7)
            self.there.put(key, b"a", near=True)
            d.append(key, b"b")
            self.assertEqual(d[key], b"ab")
            self.there.put(key, "x", near=True)
            self.assertTrue(d.compare_and_set(key, "x", "y"))
            self.assertEqual(d.setdefault(key, 0), "y")
            self.there.put(key, "z", near=True)
            self.assertEqual(d.get_async(key).result(), "z")
            d.put_async(key, "w").result()
            self.assertEqual(d[key], "w")
            self.there.put(key, "z", near=True)
            del d[key]
            self.assertEqual(list(d.keys(hidden=True)), [])

    def command(self, *words):
        env = dict(os.environ, **self.dictionary.environment(0))
        return subprocess.run([os.environ["DDICT_TEST_COMMAND"], *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)

    def test_the_command_finds_saves_and_restores_it(self):
        key, value = self.key_of(0), "x" * 300000
        self.there.put(key, value, near=True)
        ls = self.command("ls", "-l")
        self.assertEqual(ls.returncode, 0, ls.stderr)
        self.assertEqual(len(ls.stdout.splitlines()), 2, ls.stdout)  # with the head
        self.assertIn(b"293.0 KiB", ls.stdout)
        got = self.command("get", key)
        self.assertEqual((got.returncode, got.stdout.strip()), (0, value.encode()))
        with tempfile.TemporaryDirectory() as where:
            saved = self.command("save", where + "/s")
            self.assertEqual(saved.returncode, 0, saved.stderr)
            self.here.clear()
            self.assertEqual(list(self.there.keys(hidden=True)), [])
            restored = self.command("restore", where + "/s")
            self.assertEqual(restored.returncode, 0, restored.stderr)
        self.assertEqual(self.there[key], value)
        self.assertEqual([k for k in self.here.keys(hidden=True) if "near" in repr(k)], [key])

    def test_its_arguments(self):
        self.here.put("a", 1)
        self.here.put(key="a", value=2, near=0)
        self.assertEqual(self.here["a"], 2)
        for bad in ((), ("a",), ("a", 1, True)):
            self.assertRaises(TypeError, self.here.put, *bad)
        self.assertRaises(TypeError, self.here.put, "a", 1, far=True)
        self.assertRaises(TypeError, self.here.put, value=1)

if __name__ == "__main__":
    unittest.main()
