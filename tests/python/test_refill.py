# SPDX-License-Identifier: Apache-2.0
"""With --refill a key that may have been lost with a node is told from one that is not there, waits are as long as they are meant to be, and what was loaded is sealed."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import ddict
from harness import DDICTD, Dictionary, module_or_skip

REFILL_S = 16  # that a refill takes
COMMAND = os.environ["DDICT_TEST_COMMAND"]


def wait_for(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise AssertionError("it did not come")
        time.sleep(0.02)


def written(name, to):
    try:
        with open(os.path.join(to, "run", name), "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


class Results(unittest.TestCase):
    """Of four nodes one after the other is lost, and lines of a file with it."""

    def test_what_a_file_had_is_kept_once_for_each_loss(self):
        with tempfile.TemporaryDirectory(prefix="ddict-refill-") as to, Dictionary(4, 96 << 20, 4, ["--refill"]) as dictionary, dictionary.attach(0, 60) as d:
            parts = [next(k for k in (f"ddict.results/run/log\0{m}{i}" for i in range(2000)) if d.owner(k) == m) for m in range(3)]
            lines = [b'{"loss": %d}\n' % m for m in range(3)]
            for key, line in zip(parts, lines):
                d[key] = line
            writer = subprocess.Popen([COMMAND, "results", "--follow", "--to", to], env={**os.environ, **dictionary.environment()}, stderr=subprocess.DEVNULL)

            def grow(m, line, *there):
                lines[m] += line
                d[parts[m]] = lines[m]
                wait_for(lambda: written("log", to) == b"".join(lines))
                self.assertEqual(sorted(os.listdir(os.path.join(to, "run"))), ["log", *there])

            try:
                grow(2, b'{"loss": 4}\n')
                first = b"".join(lines)
                dictionary.lose(1)
                lines[1] = b""
                grow(0, b'{"loss": 5}\n', "log.before-loss")  # it grows by what the next part begins with, too
                grow(0, b'{"loss": 2}\n', "log.before-loss")
                grow(1, b'{"loss": 6}\n', "log.before-loss")
                grow(1, b'{"loss": 2}\n', "log.before-loss")
                self.assertEqual(written("log.before-loss", to), first)
                second = b"".join(lines)
                node = d.stats[1]["node_id"]  # where what was lost began anew
                lines[1] = b""
                if node == 2:
                    lines[2] = b""
                self.assertIn(node, (2, 3))
                dictionary.lose(node - 1)
                grow(0, b'{"loss": 7}\n', "log.before-loss", "log.before-loss-2")
                grow(0, lines[2][:1] or b"{", "log.before-loss", "log.before-loss-2")
                self.assertEqual([written(n, to) for n in ("log.before-loss", "log.before-loss-2")], [first, second])
            finally:
                writer.terminate()
                self.assertEqual(writer.wait(60), 0)


class Refill(unittest.TestCase):
    """Of three nodes one was lost; these keys are of its manager."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="ddict-refill-")
        os.mkdir(os.path.join(cls.folder, "in"))
        for i in range(60):
            with open(os.path.join(cls.folder, "in", f"{i}"), "wb") as f:
                f.write(b"%d" % i)
        # ddictd finds its command beside itself
        program = shutil.copy(DDICTD, cls.folder)
        with open(os.path.join(cls.folder, "ddict"), "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\nsleep {REFILL_S}\nexec '{COMMAND}' \"$@\"\n")
        os.chmod(os.path.join(cls.folder, "ddict"), 0o700)
        cls.dictionary = Dictionary(3, 96 << 20, 3, ["--refill"], program)
        cls.d = d = cls.dictionary.attach(0, None)
        cls.load("set")
        cls.load("gone")
        cls.lost = [k for k in (f"key{i}" for i in range(200)) if d.owner(k) == 1]
        for key in cls.lost:
            d[key] = key
        # a set and a plan of no source, and lines of a file, which are of the lost node
        cls.kept = next(n for n in (f"kept{i}" for i in range(200)) if d.owner(("ddict.set", n)) == 1)
        d["ddict.set", cls.kept] = "{}"
        cls.listed = next(n for n in (f"list{i}" for i in range(2000)) if d.owner(("ddict.set", n, "keys", 0)) == 1 and d.owner(("ddict.set", n)) != 1)
        d["ddict.set", cls.listed] = json.dumps({"name": cls.listed, "prefix": "", "items": 1, "numbered": False, "parts": 1})
        d["ddict.set", cls.listed, "keys", 0] = b"\x05\0\0\0sitem"
        cls.planned = next(n for n in (f"plan{i}" for i in range(2000)) if d.owner(("ddict.set", n, "plan")) == 1 and
                           all(d.owner(key) != 1 for key in (("ddict.set", n), ("ddict.set", n, "load", -2))))
        d["ddict.set", cls.planned, "load", -2] = b""
        d["ddict.set", cls.planned, "plan"] = ((), ())
        cls.lines = [next(k for k in (f"ddict.results/run/log\0{letter}{i}" for i in range(200)) if (d.owner(k) == 1) == (letter == "a")) for letter in "ab"]
        for key in cls.lines:
            d[key] = key[-2:].encode() + b"\n"
        cls.old = b"".join(d[key] for key in cls.lines)
        cls.to = os.path.join(cls.folder, "out")
        cls.writer = subprocess.Popen([COMMAND, "results", "--follow", "--to", cls.to], env={**os.environ, **cls.dictionary.environment()}, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: cls.written("log") == cls.old)
        cls.dictionary.lose(1)
        d[cls.lines[1]] = cls.new = d[cls.lines[1]] + b"more\n"
        began = time.monotonic()
        try:
            cls.said = d.get(cls.lost[0], "none", wait=True, timeout=2)
        except ddict.Error as e:
            cls.said = e
        cls.took = time.monotonic() - began
        began = time.monotonic()
        try:
            cls.in_time = d.get(cls.lost[0], timeout=1.5)
        except ddict.Error as e:
            cls.in_time = e
        cls.in_time_took = time.monotonic() - began
        cls.interrupted = cls.interrupt()
        cls.during = cls.written("log")
        began = time.monotonic()
        try:  # waits until all is read
            cls.without = d.get(cls.lost[0], "none")
        except ddict.Error as e:
            cls.without = e

    @classmethod
    def written(cls, name, to=None):
        return written(name, to or cls.to)

    @classmethod
    def load(cls, name, *more):
        subprocess.run([COMMAND, "load", "--quiet", f"--prefix={name}/", f"--set={name}", *more, os.path.join(cls.folder, "in")], check=True, timeout=100,
                       env={**os.environ, **cls.dictionary.environment()}, stdout=subprocess.DEVNULL)

    @classmethod
    def interrupt(cls):
        """Seconds after which each call was ended, and the exception of a signal's handler that came after 0.3 s"""
        class Ended(Exception):
            pass

        def handler(*_):
            raise Ended

        d, key = cls.d, cls.lost[7]
        queue = ddict.Queue(next(n for n in (f"none{i}" for i in range(200)) if d.owner(ddict.Queue(n, d=d)._key) == 1), d=d)
        calls = {"[]": lambda: d[key], "view": lambda: d.view(key), "pop": lambda: d.pop(key, 5), "in": lambda: key in d, "del": lambda: d.__delitem__(key),
                 "put_new": lambda: d.put_new(key, 5), "put_existing": lambda: d.put_existing(key, 5), "get_many": lambda: d.get_many(cls.lost[7:9]),
                 "get_nowait": queue.get_nowait}
        took = {}
        before = signal.signal(signal.SIGALRM, handler)
        for name, call in calls.items():
            began = time.monotonic()
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.3)
                    took[name] = call()
                except ddict.Error as e:
                    took[name] = e
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Ended:
                took[name] = time.monotonic() - began
        signal.signal(signal.SIGALRM, before)
        return took

    def test_a_call_ends_at_a_signal_while_it_is_read_again(self):
        self.assertEqual(len(self.interrupted), 9)
        for name, took in self.interrupted.items():
            self.assertIsInstance(took, float, name)
            self.assertLess(took, 3, name)

    def test_a_call_ends_in_time_while_it_is_read_again(self):
        self.assertRegex(str(self.in_time), "no answer within 1.5 s")
        self.assertIsInstance(self.in_time, ddict.TimeoutError)
        self.assertTrue(1.4 < self.in_time_took < 4, self.in_time_took)

    def of_set(self, name):
        """Its keys, and those of its description and of its marks"""
        return [k for k in self.d if name in k or (isinstance(k, str) and k.startswith(name + "/"))]

    @classmethod
    def tearDownClass(cls):
        cls.d.detach()
        cls.writer.terminate()
        said = cls.writer.communicate(timeout=60)[1]
        codes = cls.dictionary.stop()
        shutil.rmtree(cls.folder)
        if any(codes):
            raise AssertionError(f"ddictd ended with {codes}")
        if said.count("run/log: it is not written while keys that were lost with a node are read again\n") != 1:
            raise AssertionError(f"ddict results said {said}")

    def test_a_wait_ends_in_time_while_it_is_read_again(self):
        self.assertIsInstance(self.said, ddict.TimeoutError)
        self.assertLess(self.took, REFILL_S)
        self.assertEqual(self.d._seconds, 60)  # of a wait that is given no time

    def test_a_lost_key_is_an_error_of_its_own(self):
        self.assertIsInstance(self.without, ddict.KeyLostError)
        self.assertTrue(issubclass(ddict.KeyLostError, KeyError) and issubclass(ddict.KeyLostError, ddict.Error))
        self.assertEqual(self.without.code, -4017)
        self.assertIn("-n1", str(self.without))
        key = self.lost[1]
        for call in (lambda: self.d[key], lambda: self.d.get(key, 5), lambda: key in self.d, lambda: self.d.pop(key, 5), lambda: self.d.view(key),
                     lambda: self.d.get_many([key]), lambda: self.d.setdefault(key, 5), lambda: self.d.put_existing(key, 5), lambda: self.d.__delitem__(key)):
            self.assertRaises(ddict.KeyLostError, call)
        self.assertTrue(self.d.put_new(key, 1))
        self.assertEqual(self.d.pop(key), 1)
        self.assertIsNone(self.d.get(key))  # that it was removed is known

    def test_a_lost_key_is_waited_for(self):
        for call in (lambda key: self.d.get(key, 5, wait=True, timeout=1), lambda key: self.d.view(key, wait=True, timeout=1),
                     lambda key: self.d.pop(key, 5, wait=True, timeout=1)):
            began = time.monotonic()
            self.assertRaises(ddict.KeyLostError, call, self.lost[2])
            self.assertGreater(time.monotonic() - began, 0.9)
        for key, call in zip(self.lost[3:], (lambda key: self.d.get(key, wait=True, timeout=20), lambda key: bytes(self.d.view(key, wait=True, timeout=20)),
                                             lambda key: self.d.pop(key, wait=True, timeout=20))):
            timer = threading.Timer(0.7, self.d.__setitem__, (key, b"here"))
            timer.start()
            self.assertEqual(call(key), b"here")
            timer.join()

    def test_the_value_of_a_lost_key_is_waited_for(self):
        key, began, busy = self.lost[6], time.monotonic(), time.process_time()
        self.assertRaises(ddict.KeyLostError, self.d.wait_for, key, 5, timeout=1)
        self.assertGreater(time.monotonic() - began, 0.9)
        self.assertLess(time.process_time() - busy, 0.2)  # it waits, and does not ask again and again
        self.assertRaises(ddict.KeyLostError, self.d._wait_change, key, 7, 20)
        timer = threading.Timer(0.7, self.d.__setitem__, (key, 5))
        timer.start()
        self.d.wait_for(key, 5, timeout=20)
        timer.join()

    def test_a_lost_queue_says_so_and_goes_on(self):
        name = next(n for n in (f"queue{i}" for i in range(200)) if self.d.owner(ddict.Queue(n, d=self.d)._key) == 1)
        q = ddict.Queue(name, d=self.d)
        began = time.monotonic()
        self.assertRaises(ddict.KeyLostError, q.get, timeout=1)
        self.assertGreater(time.monotonic() - began, 0.9)
        with self.dictionary.attach(0, 2) as d:  # without a time of its own it has that of the handle
            timer = threading.Timer(30, q.put, (5,))
            timer.start()
            self.assertRaises(ddict.KeyLostError, ddict.Queue(name, d=d).get)
            timer.cancel()
        q.put(7)
        self.assertEqual(q.get(timeout=20), 7)
        q = ddict.Queue(name, d=self.d)  # now it is known to be empty
        timer = threading.Timer(3, q.put, (8,))
        timer.start()
        with self.dictionary.attach(0, 1) as d:
            self.assertEqual(ddict.Queue(name, d=d).get(), 8)

    def test_lines_that_a_file_has_stay(self):
        self.assertEqual(self.during, self.old)  # while keys are read again nothing is known
        wait_for(lambda: self.written("log") == self.new)
        self.assertEqual(self.written("log.before-loss"), self.old)
        self.d[self.lines[1]] = self.new + b"last\n"
        wait_for(lambda: self.written("log") == self.new + b"last\n")
        self.assertEqual(sorted(os.listdir(os.path.join(self.to, "run"))), ["log", "log.before-loss"])
        # a writer that never saw the keys: another file, of another loss, has its name already
        to = os.path.join(self.folder, "again")
        os.makedirs(os.path.join(to, "run"))
        for name, data in (("log", self.old), ("log.before-loss", b"first\n")):
            with open(os.path.join(to, "run", name), "wb") as f:
                f.write(data)
        subprocess.run([COMMAND, "results", "--to", to], check=True, timeout=100, env={**os.environ, **self.dictionary.environment()}, stderr=subprocess.DEVNULL)
        self.assertEqual([self.written(n, to) for n in ("log", "log.before-loss", "log.before-loss-2")], [self.new + b"last\n", b"first\n", self.old])
        for n in range(2, 100):
            shutil.copy(os.path.join(to, "run", "log.before-loss"), os.path.join(to, "run", f"log.before-loss-{n}"))
        with open(os.path.join(to, "run", "log"), "wb") as f:
            f.write(self.old)
        subprocess.run([COMMAND, "results", "--to", to], check=True, timeout=100, env={**os.environ, **self.dictionary.environment()}, stderr=subprocess.DEVNULL)
        self.assertEqual([self.written(n, to) for n in ("log", "log.before-loss-100")], [self.new + b"last\n", self.old])

    def test_a_set_that_may_be_lost_is_no_missing_one(self):
        self.assertRaises(ddict.KeyLostError, ddict.open_set, self.kept, self.d)
        name = next(n for n in (f"none{i}" for i in range(200)) if self.d.owner(("ddict.set", n)) != 1)
        with self.assertRaises(KeyError) as e:
            ddict.open_set(name, self.d)
        self.assertNotIsInstance(e.exception, ddict.KeyLostError)
        module_or_skip("torch")
        from ddict.torch import DDictDataset
        self.assertRaises(ddict.KeyLostError, DDictDataset, self.kept, d=self.d)

    def test_a_list_of_files_that_was_lost_is_made_again(self):
        module_or_skip("torch")
        from ddict.torch import ImageFolder
        root = os.path.join(self.folder, "images")
        os.makedirs(os.path.join(root, "cat"))
        with open(os.path.join(root, "cat", "1.png"), "wb") as f:
            f.write(b"purr")
        images = ImageFolder(root, loader=lambda file: file.read(), name=self.planned, d=self.d)
        self.assertEqual(images[0], (b"purr", 0))

    def test_what_was_loaded_is_sealed(self):
        keys = [f"set/{i}" for i in range(60)]
        self.assertEqual(self.d.get_many(keys), [b"%d" % i for i in range(60)])  # read again
        for key in keys[:20]:
            for call in (lambda: self.d.__setitem__(key, 1), lambda: self.d.__delitem__(key), lambda: self.d.pop(key), lambda: self.d.put_existing(key, 1)):
                self.assertRaises(ddict.SealedError, call)
        self.assertEqual(len(ddict.open_set("set", self.d)), 60)

    def test_a_set_is_put_where_its_marks_may_have_been_lost(self):
        module_or_skip("torch")
        from ddict.torch import DDictDataset
        for n in range(4):
            data = DDictDataset([b"%d" % i for i in range(200)], name=f"new{n}", d=self.d)
            self.assertEqual([data[0], data[199]], [b"0", b"199"])
        data = DDictDataset([b"other"] * 200, name="new0", d=self.d, overwrite=True)
        self.assertEqual(data[7], b"other")

    def test_a_loaded_set_is_removed_with_its_copies(self):
        module_or_skip("torch")
        from ddict.torch import DDictDataset, _sets
        self.assertTrue(_sets.remove(self.d, "gone"))
        self.assertFalse(_sets.remove(self.d, "gone"))
        self.assertEqual(self.of_set("gone"), [])
        self.load("gone")
        self.assertEqual(self.d["gone/7"], b"7")
        with self.dictionary.attach() as other:
            first, second = (DDictDataset("gone", d=d) for d in (self.d, other))
            thread = threading.Thread(target=second.stop)
            thread.start()
            first.stop()
            thread.join()
        self.assertEqual(self.of_set("gone"), [])
        self.load("gone")
        first.stop()  # this is another one
        self.assertEqual(self.d["gone/7"], b"7")
        DDictDataset([b"other"], name="gone", d=self.d, overwrite=True)
        self.assertEqual([k for k in self.of_set("gone") if isinstance(k, str)], ["gone/0"])

    def test_a_removal_that_is_broken_off_can_be_done_again(self):
        module_or_skip("torch")
        from ddict.torch import _sets

        def beat():
            raise KeyboardInterrupt

        self.load("torn")
        self.assertRaises(KeyboardInterrupt, _sets.remove, self.d, "torn", beat)
        p = subprocess.run([COMMAND, "rm", "--set=torn"], timeout=100, env={**os.environ, **self.dictionary.environment()}, stderr=subprocess.DEVNULL)
        self.assertIn(p.returncode, (0, 3))
        self.assertEqual(self.of_set("torn"), [])

    def test_a_removal_that_cannot_be_says_why(self):
        module_or_skip("torch")
        from ddict.torch import _sets
        self.d.freeze()
        try:
            with self.assertRaises(ddict.Error) as e:
                _sets.remove(self.d, "set")
        finally:
            self.d.unfreeze()
        self.assertIn("the dictionary is frozen", str(e.exception))

    def test_of_a_set_whose_keys_were_lost_the_rest_is_removed(self):
        module_or_skip("torch")
        from ddict.torch import _sets
        self.assertRaises(ddict.KeyLostError, lambda: self.d["ddict.set", self.listed, "keys", 0])
        self.assertTrue(_sets.remove(self.d, self.listed))
        self.assertNotIn(("ddict.set", self.listed), self.d)
