# SPDX-License-Identifier: Apache-2.0
"""
Data sets and files from Python. A set that was loaded has the items, keys, labels and sizes of its source, in its order, for whoever opens it by name; a load that fails
says what and leaves no set; what was saved comes back as it was.
"""

import errno
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile
from array import array

import ddict
from harness import DictTest, python

module = sys.modules["ddict.sets"]  # the name in ddict is the function's
MANY = 70000  # items: more than a part of the lists holds


def idx_write(path, shape, data):
    with open(path, "wb") as f:
        f.write(bytes([0, 0, 8, len(shape)]) + struct.pack(">%dI" % len(shape), *shape) + data)


class Evil:
    """Whoever unpickles it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


class Sets(DictTest):
    managers, nodes = 2, 2

    @classmethod
    def setUpClass(cls):
        command = os.environ["DDICT_TEST_COMMAND"]
        if not any(os.path.exists(os.path.join(os.path.dirname(command), place)) for place in ("ddict-load", "../libexec/ddict-load")):
            raise unittest.SkipTest("this build has no ddict load")
        super().setUpClass()

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = lambda *names: os.path.join(self.folder, *names)

    def tree(self):
        for c in "ba":
            os.mkdir(self.path(c))
            for i in range(3):
                with open(self.path(c, f"{i}.x"), "wb") as f:
                    f.write(c.encode() * (10 + i))

    def test_a_folder_of_classes(self):
        self.tree()
        s = ddict.load(self.folder, prefix="t/", set="tree", d=self.d, here=True)
        values = [c.encode() * (10 + i) for c in "ab" for i in range(3)]
        keys = [f"t/{c}/{i}.x" for c in "ab" for i in range(3)]
        self.assertEqual((s.summary["items"], s.summary["bytes"], s.summary["skipped"]), (6, 66, 0))
        for one in (s, ddict.open_set("tree", self.d), pickle.loads(pickle.dumps(s))):
            self.assertEqual((one.name, one.kind, one.prefix, one.sources, len(one)), ("tree", "dir", "t/", [self.folder], 6))
            self.assertEqual((list(one.keys), list(one)), (keys, values))
            self.assertEqual([self.d[k] for k in one.keys], values)
            self.assertEqual((one[0], one[-1], one[1:5:2], one.keys[1:3], one.keys[-1]), (values[0], values[5], values[1:5:2], keys[1:3], keys[5]))
            self.assertEqual(one.__getitems__([5, 0, 5]), [values[5], values[0], values[5]])
            self.assertEqual((one.classes, one.class_to_idx, one.counts), (["a", "b"], {"a": 0, "b": 1}, [3, 3]))
            self.assertEqual((one.labels, one.sizes), (array("q", [0, 0, 0, 1, 1, 1]), array("Q", [10, 11, 12] * 2)))
            self.assertEqual((one.bytes, one.skipped, one.dtype, one.shape, one.info["items"]), (66, 0, None, None, 6))
            self.assertRaises(IndexError, one.__getitem__, 6)
            self.assertRaises(IndexError, one.keys.__getitem__, -7)
            self.assertRaisesRegex(TypeError, "by their number, not by 'a'; their keys are in its .keys", one.__getitem__, "a")
        self.assertEqual(repr(s), "<ddict.Set 'tree': 6 items, 66 bytes, dir, 2 classes>")

    def test_images_with_labels(self):
        pixels = bytes(range(24))
        idx_write(self.path("x-images-idx3-ubyte"), (6, 2, 2), pixels)
        idx_write(self.path("x-labels-idx1-ubyte"), (6,), bytes([5, 4, 3, 2, 1, 0]))
        files = [self.path("x-images-idx3-ubyte"), self.path("x-labels-idx1-ubyte")]
        for prefix, keys in (("", list(range(6))), ("p/", [f"p/{i}" for i in range(6)])):
            s = ddict.load(files, prefix=prefix, set="x" + prefix, d=self.d, here=True)
            self.assertEqual((s.kind, s.dtype, s.shape, len(s)), ("idx", "|u1", (2, 2), 6))
            self.assertEqual((list(s.keys), list(s.labels), s.classes), (keys, [5, 4, 3, 2, 1, 0], None))
            self.assertEqual(b"".join(bytes(memoryview(image).cast("B")) for image in s), pixels)
            self.assertEqual((s.keys[-1], s.keys[2:4]), (keys[5], keys[2:4]))
            self.assertRaises(IndexError, s.keys.__getitem__, 6)

    def test_more_items_than_a_part_holds(self):
        with open(self.path("many.fasta"), "w") as f:
            f.writelines(f">s{i}\n{'ACGT'[i % 4] * (1 + i % 3)}\n" for i in range(MANY))
        s = ddict.load(self.path("many.fasta"), d=self.d, here=True)
        self.assertEqual((s.kind, len(s), s.labels, s.name), ("fasta", MANY, None, s.info["name"]))
        for i in (0, 65535, 65536, MANY - 1, 1, -1):
            self.assertEqual(s.keys[i], f"s{i % MANY}")
        self.assertEqual(s[65536], "ACGT"[65536 % 4] * (1 + 65536 % 3))
        self.assertEqual(list(s.sizes), [1 + i % 3 for i in range(MANY)])
        self.assertEqual(sum(1 for i, k in enumerate(s.keys) if k == f"s{i}"), MANY)

    def test_names(self):
        self.assertEqual(ddict.sets(self.d), [])
        with self.assertRaisesRegex(KeyError, "no set 'none'"):
            ddict.open_set("none", self.d)
        with open(self.path("l.txt"), "w") as f:
            f.write("one\ntwo\n")
        for name in ("z", "a"):
            self.assertEqual(list(ddict.load(self.path("l.txt"), prefix=name, set=name, d=self.d, kind="lines", here=True)), ["one", "two"])
        self.d["ddict.set", "z", "keys", 0] = b""  # is none
        self.assertEqual(ddict.sets(self.d), ["a", "z"])

    def test_the_description_is_hidden(self):
        self.tree()
        load = lambda: ddict.load(self.folder, set="t", prefix="p/", d=self.d, here=True)
        with self.d.subscribe(timeout=60) as events, self.d.subscribe(hidden=True, there=True) as all_events:
            s = load()
            seen = {next(events).key for _ in range(6)}
            self.assertIsNone(events.next_event(0.3))
            self.assertIn(("ddict.set", "t"), iter(lambda: next(all_events).key, None))
        items = set(s.keys)
        self.assertEqual((len(self.d), set(self.d), seen), (6, items, items))
        self.assertEqual((len(list(self.d.values())), set(dict(self.d.items())), set(self.d.copy())), (6, items, items))
        self.assertEqual({k for k in self.d.keys(hidden=True) if k not in items}, set(self.d.keys(("ddict.set",))))
        self.assertGreater(len(set(self.d.keys(("ddict.set",)))), 1)
        self.assertEqual(set(self.d.keys("p/")), items)
        self.assertEqual(dict(self.d.items(prefix="p/", hidden=True)), dict(self.d.items()))
        self.assertEqual(sorted(self.d.values(prefix="p/")), sorted(self.d.values()))
        self.assertIn(("ddict.set", "t"), self.d)
        self.assertEqual(sum(m["num_keys"] - m["hidden_keys"] for m in self.d.stats), 6)
        queue = ddict.Queue("q", d=self.d)
        queue.put(1)
        self.assertEqual((len(self.d), [k for k in self.d if k not in items]), (6, []))
        self.d["p"] = 1
        self.d.clear(prefix="p/")  # the items alone
        self.assertEqual((list(self.d), ddict.sets(self.d), len(queue)), (["p"], ["t"], 1))
        self.assertEqual(self.d.popitem(), ("p", 1))
        self.assertRaises(KeyError, self.d.popitem)
        load()
        self.d.clear()  # their description goes with them
        self.assertEqual((list(self.d.keys(hidden=True)), ddict.sets(self.d), len(queue)), ([], [], 0))

    def test_once_and_again(self):
        self.tree()
        load = lambda **words: ddict.load(self.folder, set="t", d=self.d, here=True, **words)
        load()
        with open(self.path("a", "0.x"), "wb") as f:
            f.write(b"other")
        self.assertEqual(load()[0], b"a" * 10)  # it is there: not read again
        self.assertEqual(load(replace=True)[0], b"other")

    def test_two_at_once(self):
        self.tree()
        got = []
        threads = [threading.Thread(target=lambda: got.append(ddict.load(self.folder, set="t", d=self.d, here=True))) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        self.assertEqual([len(s) for s in got], [6, 6])
        self.assertEqual(ddict.sets(self.d), ["t"])

    def test_what_fails_is_said(self):
        with self.assertRaisesRegex(ddict.LoadError, "nowhere.*No such file"):
            ddict.load(self.path("nowhere"), d=self.d, here=True)
        with zipfile.ZipFile(self.path("bad.zip"), "w") as z:
            z.writestr("good", b"good" * 100)
            z.writestr("bad", b"bad!" * 100)
        with open(self.path("bad.zip"), "r+b") as f:
            f.seek(f.read().index(b"bad!") + 20)
            f.write(b"?")
        with self.assertRaisesRegex(ddict.LoadError, "bad") as caught:
            ddict.load(self.path("bad.zip"), d=self.d, here=True)
        self.assertIsInstance(caught.exception, ddict.Error)
        self.assertIn(caught.exception.code, (-errno.EIO, -errno.EBADMSG))
        self.assertEqual(ddict.sets(self.d), [])
        s = ddict.load(self.path("bad.zip"), set="bad", d=self.d, here=True, on_error="skip")
        self.assertEqual((list(s.keys), s.skipped, s.summary["skipped"]), (["good"], 1, 1))

    def test_an_interrupt_ends_what_it_started(self):
        class Interrupt(BaseException):
            pass

        def interrupt(*_):
            raise Interrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            script = 'trap "echo ended >%s; exit 0" TERM; echo >%s; while :; do sleep 0.05; done' % (self.path("ended"), self.path("began"))

            def alarm():
                end = time.monotonic() + 30
                while not os.path.exists(self.path("began")) and time.monotonic() < end:
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGALRM)

            threading.Thread(target=alarm).start()
            self.assertRaises(Interrupt, module._run, ["sh", "-c", script], False)
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertTrue(os.path.exists(self.path("ended")))

    def test_saved_and_restored(self):
        values = {"m/1": b"one" * 1000, "m/2": "two", "other": [1, 2], 7: 1.5, ("t", 1): None}
        for k, v in values.items():
            self.d[k] = v
        said = ddict.save(self.path("all"), d=self.d)
        self.assertEqual((said["items"], os.path.isdir(self.path("all"))), (5, True))
        self.assertEqual(ddict.save(self.path("part.ddict"), "m/", d=self.d)["items"], 2)
        self.assertTrue(os.path.isfile(self.path("part.ddict")))
        self.d["../out"] = b"of the folder"
        said = ddict.save(self.path("files"), files=True, d=self.d)
        self.assertEqual((said["items"], said["left_out"]), (5, 1))
        with open(self.path("files", "m", "1"), "rb") as f:
            self.assertEqual(f.read(), values["m/1"])
        self.d.clear()
        self.d["m/2"] = "newer"
        self.assertEqual(ddict.restore(self.path("part.ddict"), keep=True, d=self.d)["items"], 2)
        self.assertEqual((self.d["m/1"], self.d["m/2"], len(self.d)), (values["m/1"], "newer", 2))
        self.assertEqual(ddict.restore(self.path("all"), "m/", d=self.d)["items"], 2)
        self.assertEqual((self.d["m/2"], len(self.d)), ("two", 2))
        self.assertEqual(ddict.restore(self.path("all"), d=self.d)["items"], 5)
        self.assertEqual({k: self.d[k] for k in self.d}, values)

    def test_pickles_are_left_out_of_what_others_saved(self):
        evil = self.path("evil ran")
        self.d["evil"] = Evil(evil)
        self.d["large"] = [Evil(evil), pickle.PickleBuffer(bytearray(300000))]
        self.d["plain"] = "text"
        self.d["bytes"] = b"x" * 100
        self.assertEqual(ddict.save(self.path("theirs"), d=self.d)["items"], 4)
        self.d.clear()
        said = ddict.restore(self.path("theirs"), pickles=False, d=self.d)
        self.assertEqual((said["items"], said["left_out"]), (2, 2))
        self.assertEqual(sorted(self.d), ["bytes", "plain"])
        self.assertEqual(ddict.restore(self.path("theirs"), d=self.d)["items"], 4)
        self.assertFalse(os.path.exists(evil))
        self.d["evil"]
        self.assertTrue(os.path.exists(evil))

    def test_what_cannot_be_saved_or_restored_is_said(self):
        self.d["x"] = 1
        with self.assertRaisesRegex(ddict.SaveError, "nowhere"):
            ddict.save(self.path("nowhere", "deep"), d=self.d)
        with self.assertRaisesRegex(ddict.SaveError, "nothing"):
            ddict.restore(self.path("nothing"), d=self.d)
        ddict.save(self.path("all"), d=self.d)
        part = next(os.path.join(root, n) for root, _, names in os.walk(self.path("all")) for n in sorted(names) if not n.endswith(".json"))
        with open(part, "r+b") as f:
            f.truncate(os.path.getsize(part) - 1)
        with self.assertRaises(ddict.SaveError):
            ddict.restore(self.path("all"), d=self.d)

    def test_the_job_s_dictionary_is_the_default(self):
        self.tree()
        code = "import ddict, sys; s = ddict.load(sys.argv[1], set='t', here=True); print(len(s), ddict.sets(), ddict.open_set('t').counts, ddict.save(sys.argv[2])['items'])"
        with python(code, self.folder, self.path("saved"), environment=self.dictionary.environment(), stdout=subprocess.PIPE) as p:
            out = p.communicate(timeout=60)[0].decode()
        self.assertEqual((p.returncode, out), (0, f"6 ['t'] [3, 3] {len(list(self.d.keys(hidden=True)))}\n"))


if __name__ == "__main__":
    unittest.main()
