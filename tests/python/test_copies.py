# SPDX-License-Identifier: Apache-2.0
"""Copies between dictionaries: clone(), copy(name), synchronize() and `ddict copy`, of several that are there at once."""

import array
import json
import os
import pickle
import select
import signal
import subprocess
import tempfile
import time
import unittest

import ddict
from harness import Dictionary, python

COMMAND = os.environ["DDICT_TEST_COMMAND"]
WAIT_S = 60


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(child) for child in f.read().split()]


def managers(dictionary):
    """The processes of its managers"""
    found = []
    for node in dictionary.nodes:
        for child in children(node.process.pid):
            with open(f"/proc/{child}/comm") as f:
                if f.read().strip().rsplit(":", 1)[-1].isdigit():
                    found.append(child)
    return found


class Copies(unittest.TestCase):
    """Two dictionaries on two nodes with different managers, and one with a node and little memory."""

    @classmethod
    def setUpClass(cls):
        cls.first = Dictionary(managers=4, mem=256 << 20, nodes=2)
        cls.second = Dictionary(managers=3, mem=256 << 20, nodes=2, beside=cls.first)
        cls.small = Dictionary(managers=1, mem=8 << 20, beside=cls.first)
        cls.a, cls.b, cls.c = (it.attach() for it in (cls.first, cls.second, cls.small))

    @classmethod
    def tearDownClass(cls):
        for d in (cls.a, cls.b, cls.c):
            d.detach()
        codes = [code for it in (cls.first, cls.second, cls.small) for code in it.stop()]
        if any(codes):
            raise AssertionError(f"ddictd ended with {codes}")

    def setUp(self):
        os.environ["DDICT_NODE"] = self.first.nodes[0].node
        for d in (self.a, self.b, self.c):
            d.clear()

    def command(self, *words, code=0, stderr=subprocess.PIPE):
        p = subprocess.run([COMMAND, "copy", *words], stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=WAIT_S)
        self.assertEqual(p.returncode, code, p.stderr)
        return p

    def test_all_kinds_of_values_arrive_in_place_of_what_was_there(self):
        content = {"str": "ä", b"bytes": b"\0\1", 7: 1 << 70, ("t", 1): {"a": [1, None]}, "array": array.array("d", [1.5, 2.5]), "empty": b"", "big": os.urandom(9 << 20)}
        self.a.update(content)
        self.a.update({("k", i): bytes([i % 256]) * (i % 3000) for i in range(3000)})
        self.b["old"] = 1
        said = self.a.clone([self.b], progress=False)
        self.assertEqual((said["items"], said["nodes"]), (3007, 1))
        self.assertEqual(said["bytes"], sum(self.a.view(key).nbytes for key in self.a))
        self.assertTrue(dict(self.b.items()) == dict(self.a.items()))  # not assertEqual(), which would print all
        for key in content:
            with self.a.view(key) as here, self.b.view(key) as there:
                self.assertEqual((there.tag, hash(bytes(there))), (here.tag, hash(bytes(here))), key)

    def test_several_at_once_by_name_and_handle(self):
        self.a.update({i: i for i in range(100)})
        self.assertEqual(self.a.clone([self.b.name, self.c])["items"], 100)
        self.assertEqual((len(self.b), len(self.c), self.c[99]), (100, 100, 99))

    def test_a_set_works_in_the_copy(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("x/1", "x/2", "y/1"):
                os.makedirs(os.path.join(folder, name[0]), exist_ok=True)
                with open(os.path.join(folder, name), "w") as f:
                    f.write(name)
            ddict.load(folder, set="files", prefix="f/", d=self.a, here=True, progress=False)
        self.a.clone([self.b])
        copied = self.b.open_set("files")
        self.assertEqual(([bytes(v) for v in copied], list(copied.labels), copied.classes), ([b"x/1", b"x/2", b"y/1"], [0, 0, 1], ["x", "y"]))

    def test_who_holds_what_is_not_copied(self):
        lock, queue = ddict.Lock("l", self.a), ddict.Queue("q", d=self.a)
        ddict.Counter("n", self.a).add(5)
        ddict.Event("e", self.a).set()
        queue.put(1)
        queue.put(2)
        with lock:
            self.a.clone([self.b])
        self.assertFalse(ddict.Lock("l", self.b).locked())
        self.assertEqual((ddict.Queue("q", d=self.b).qsize(), ddict.Counter("n", self.b).value, ddict.Event("e", self.b).is_set()), (0, 5, True))
        self.assertEqual(queue.qsize(), 2)

    def test_what_does_not_fit_is_said_with_the_name(self):
        self.a.update({i: bytes(1 << 20) for i in range(20)})
        with self.assertRaisesRegex(ddict.Error, f"{self.small.name}: cannot store all: .* is full"):
            self.a.clone([self.c])
        self.assertLess(len(self.c), 20)
        self.assertEqual(len(self.a), 20)

    def test_wrong_arguments(self):
        self.b["stays"] = 1
        for others, error in (([], ValueError), (self.b, TypeError), (self.b.name, TypeError), ([1], TypeError)):
            with self.assertRaises(error):
                self.a.clone(others)
        for others, words in (([self.a], "is the dictionary that is copied"), (["no.such.one"], "no.such.one"), ([self.b, "no.such.one"], "no.such.one")):
            with self.assertRaisesRegex(ddict.Error, words):
                self.a.clone(others)
        self.assertEqual(dict(self.b.items()), {"stays": 1})

    def test_a_frozen_one_takes_nothing(self):
        self.a["k"] = 1
        self.b.freeze()
        try:
            with self.assertRaisesRegex(ddict.Error, self.second.name):
                self.a.clone([self.b])
        finally:
            self.b.unfreeze()
        self.a.freeze()  # reading is all that a copy does here
        try:
            self.a.clone([self.b])
        finally:
            self.a.unfreeze()
        self.assertEqual(self.b["k"], 1)

    def test_synchronize_fills_what_is_empty(self):
        self.assertEqual(ddict.synchronize([self.a, self.b, self.c]), [])
        self.b.update({i: i for i in range(50)})
        self.assertEqual(ddict.synchronize([self.a, self.b, self.c.name]), [self.a.name, self.c.name])
        self.assertEqual(dict(self.a.items()), dict(self.b.items()))
        self.assertEqual(len(self.c), 50)
        self.assertEqual(ddict.synchronize([self.a, self.b, self.c]), [])
        self.assertTrue(self.a.attached)
        for wrong in ([], self.a, self.a.name):
            with self.assertRaises(ValueError):
                ddict.synchronize(wrong)

    def test_synchronize_says_what_differs(self):
        for change, words in ((lambda d: d.__setitem__(3, 4), "3: has another value"), (lambda d: d.__delitem__(3), "3: is not there"),
                              (lambda d: d.__setitem__(3, 3.0), "3: has another value"), (lambda d: d.__setitem__("more", 1), "11 keys, not 10")):
            with self.subTest(words):
                self.a.update({i: i for i in range(10)})
                self.a.clone([self.b])
                self.c.clear()
                change(self.b)
                with self.assertRaisesRegex(ddict.SyncError, f"{self.second.name}: .*{words}") as caught:
                    ddict.synchronize([self.a, self.b, self.c])
                self.assertEqual(caught.exception.differ, [self.a.name, self.b.name])
                self.assertEqual(pickle.loads(pickle.dumps(caught.exception)).differ, caught.exception.differ)
                self.assertEqual(len(self.c), 0)

    def test_the_command(self):
        self.a.update({"a/1": 1, "a/2": 2, "b": 3, 4: 4})
        self.b.update({"a/1": "old", "c": 5})
        said = json.loads(self.command("--json", "--keep", "--prefix", "a/", self.a.name, self.b.name).stdout)
        self.assertEqual((said["items"], said["there_already"], dict(self.b.items())), (2, 1, {"a/1": "old", "a/2": 2, "c": 5}))
        self.assertIn("copied 4 items", self.command(self.a.name, self.b.name).stderr)
        self.assertEqual(dict(self.b.items()), {"a/1": 1, "a/2": 2, "b": 3, 4: 4, "c": 5})
        self.assertIn("it has 5 keys, not 4", self.command("--compare", self.a.name, self.b.name, code=1).stderr)
        self.assertEqual(self.command("-q", "--clear", self.a.name, self.b.name).stderr, "")
        self.assertIn("compared 4 items", self.command("--compare", self.a.name, self.b.name).stderr)
        for words in ([], ["a"], ["--compare", "--keep", "a", "b"], ["a", *"bcdefghij"]):
            self.assertIn("ddict copy", self.command(*words, code=2).stderr)
        self.assertIn("cannot write to stdout", subprocess.run(["sh", "-c", f"exec {COMMAND} copy --json {self.a.name} {self.b.name} >/dev/full"], stderr=subprocess.PIPE,
                                                               text=True, timeout=WAIT_S).stderr)


class Ended(unittest.TestCase):
    def test_a_signal_ends_it_and_a_terminal_shows_how_far_it_is(self):
        with Dictionary(managers=1, mem=256 << 20) as first, Dictionary(managers=1, mem=256 << 20, beside=first) as second:
            a, b = first.attach(), second.attach()
            a.update({i: bytes(100) for i in range(400000)})
            shown, stopped = self.interrupted(a, b, managers(second))
            self.assertRegex(shown, rb"\rddict copy: \d+ items|\x1b\[Kddict copy: \d+ items")
            self.assertEqual((len(a), stopped), (400000, "interrupted\n"))
            self.assertTrue(0 < len(b) < 400000, len(b))
            a.detach()
            b.detach()

    def interrupted(self, a, b, pids):
        """What a terminal shows of a copy that Ctrl-C ends, and what its program says then"""
        code = f"""
import ddict, sys
try:
    ddict.attach({a.name!r}).clone([{b.name!r}])
    print("done")
except KeyboardInterrupt:
    print("interrupted")
"""
        leader, follower = os.openpty()
        with python(code, stdout=subprocess.PIPE, stderr=follower, text=True) as maker:
            try:
                end, shown = time.monotonic() + WAIT_S, b""
                while b.local_len() == 0 and time.monotonic() < end:
                    pass
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP)  # so that it does not end before the signal
                end = time.monotonic() + 5  # a manager that stands still for 10 s is lost
                while b"items" not in shown and select.select([leader], [], [], max(0, end - time.monotonic()))[0]:
                    shown += os.read(leader, 4096)
                command = children(maker.pid)
                maker.send_signal(signal.SIGINT)
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
            said = maker.communicate(timeout=WAIT_S)[0]
        os.close(leader)
        os.close(follower)
        self.assertEqual((len(command), [pid for pid in command if os.path.exists(f"/proc/{pid}")]), (1, []))
        return shown, said


class NewCopies(unittest.TestCase):
    """copy(name), which makes a dictionary"""

    def test_a_copy_is_a_dictionary_of_its_own(self):
        name = f"copy{os.getpid()}"
        with ddict.up(name, managers=2, mem="64M") as d:
            d["a"] = {"b": 1}
            self.assertIs(type(d.copy()), dict)
            with d.copy(name + ".b") as copy:
                self.assertEqual((type(copy), copy.name, dict(copy.items())), (ddict.DDict, name + ".b", {"a": {"b": 1}}))
                self.assertEqual((copy.info["managers"], copy.info["total_bytes"]), (2, d.info["total_bytes"]))
                self.assertEqual(os.environ["DDICT_NAME"], name)
                copy["a"] = 2
                self.assertEqual(d["a"], {"b": 1})
            self.assertFalse(copy.attached)
            with d.copy(managers=1, mem="32M") as copy:
                self.assertEqual((copy.info["managers"], copy["a"]), (1, {"b": 1}))
            d.update({i: bytes(1 << 20) for i in range(20)})
            with self.assertRaisesRegex(ddict.Error, "cannot store all: .* is full"):
                d.copy(name + ".c", managers=1, mem="8M")
            with self.assertRaises(ddict.NoDictError):
                ddict.attach(name + ".c")
        self.assertNotIn("DDICT_NAME", os.environ)

    def test_the_newest_checkpoint_of_a_working_set(self):
        name = f"copy{os.getpid()}w"
        with ddict.up(name, managers=2, mem="64M", working_set=2) as d:
            for at in range(4):  # checkpoint 0 is retired, so a handle that is new could not read
                d.checkpoint_id = at
                d["step"], d["at", at] = at, at
            with d.copy(name + ".p", managers=3) as plain:
                self.assertEqual(dict(plain.items()), {"step": 3, **{("at", at): at for at in range(4)}})
                plain["step"] = 4
                d.checkpoint_id = 2
                plain.clone([d])
                self.assertEqual(d["step"], 2)
                d.checkpoint_id = 3
                self.assertEqual(dict(d.items()), {"step": 4, **{("at", at): at for at in range(4)}})
