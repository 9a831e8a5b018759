# SPDX-License-Identifier: Apache-2.0
"""
Data sets of ddict.torch. A sample that comes back is the one that was put, alone, in a batch and collated, by every way that a DataLoader has workers; and a set
that many processes make at once is read once, also when one of them dies.
"""

import collections
import io
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import unittest
import warnings
from array import array
from pathlib import Path
from unittest import mock

import ddict
from harness import DictTest, module_or_skip

COUNT = 300


class Numbers:
    """A data set of pairs: an image that follows from its number, and the number. Its reads are counted in a file's length, of all processes."""

    def __init__(self, count=COUNT, log=None, bad=-1, die=-1):
        self.count, self.log, self.bad, self.die = count, log, bad, die

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        import torch
        if self.log:
            with open(self.log, "ab") as f:
                f.write(b".")
        if i == self.bad:
            raise ArithmeticError(f"sample {i} is bad")
        if i == self.die:
            os.kill(os.getpid(), signal.SIGKILL)
        return (torch.arange(400, dtype=torch.int32) + i).view(20, 20), i


def make(d, source, name, queue, timeout=None):
    import torch
    torch.set_num_threads(1)
    from ddict.torch import DDictDataset
    try:
        made = DDictDataset(source, name=name, d=d, timeout=timeout)
        queue.put((os.getpid(), len(made), sum(int(image[0, 0]) + label for image, label in made)))
    except ArithmeticError as e:
        queue.put((os.getpid(), str(e), 0))


def first_byte(file):
    return file.name, file.read()[0]


class Plain(DictTest):
    @classmethod
    def setUpClass(cls):
        cls.torch = module_or_skip("torch")
        cls.torch.set_num_threads(1)
        import torch.utils.data
        super().setUpClass()

    def same(self, a, b):
        torch = self.torch
        if isinstance(b, torch.Tensor):
            self.assertEqual((type(a), a.dtype, a.shape), (type(b), b.dtype, b.shape))
            self.assertTrue(torch.equal(a, b))
        elif type(b).__module__ == "numpy":
            self.assertEqual((type(a), a.dtype, a.shape, a.tolist()), (type(b), b.dtype, b.shape, b.tolist()))
        elif isinstance(b, dict):
            self.assertEqual(list(a), list(b))
            self.same(list(a.values()), list(b.values()))
        elif isinstance(b, (list, tuple)):
            self.assertEqual((type(a), len(a)), (type(b), len(b)))
            for x, y in zip(a, b):
                self.same(x, y)
        else:
            self.assertEqual((type(a), a), (type(b), b))

    def forms(self):
        torch = self.torch
        import numpy as np
        yield "tensor", lambda i: torch.arange(100.) * i
        yield "tensor and int", lambda i: (torch.full((3, 9, 11), i, dtype=torch.uint8), i % 10)
        yield "tensor and tensor", lambda i: (torch.randn(64), torch.tensor(i))
        yield "many types", lambda i: (torch.randn(180).half(), torch.randn(170).bfloat16(), torch.arange(390) > i, torch.randn(100) * 1j)
        yield "array and label", lambda i: (np.full((8, 9, 10), i, np.float64), np.int64(i % 7))
        yield "arrays in a list", lambda i: [np.arange(300, dtype=np.uint8).reshape(15, 20) * 0 + i, float(i), "name", i % 2 == 0]
        yield "array and small array", lambda i: (np.full(300, i, np.int16), np.arange(3) + i)
        yield "dict", lambda i: {"x": torch.randn(5, 50), "y": i, "name": f"n{i % 3}"}
        yield "small", lambda i: (i, torch.ones(3) * i)
        yield "numbers", lambda i: i * 1.5
        yield "nested", lambda i: {"x": (torch.ones(200) * i, [np.zeros(100) + i, i])}
        yield "several lengths", lambda i: (torch.arange(100 + i % 3), i)
        yield "orders of numpy", lambda i: np.asfortranarray(np.arange(600.).reshape(20, 30) + i)
        yield "big endian", lambda i: (np.arange(100, dtype=">i4") + i).astype(">i4")
        yield "gradients", lambda i: (torch.ones(100) * i).requires_grad_()
        yield "dates", lambda i: np.arange(i, i + 50).astype("M8[D]")
        yield "objects", lambda i: collections.OrderedDict(a=torch.ones(100) * i)

    def test_every_form_of_sample_comes_back(self):
        from ddict.torch import Batch, DDictDataset, collate
        from torch.utils.data import default_collate
        batches = 0
        for name, form in self.forms():
            with self.subTest(name):
                samples = [form(i) for i in range(70)]
                data = DDictDataset(samples, d=self.d, name=name)
                self.assertEqual(len(data), 70)
                self.same(data[3], samples[3])
                self.same(list(data), samples)
                order = [5, 0, 69, 5, 33]
                got, wanted = data.__getitems__(order), [samples[i] for i in order]
                batches += type(got) is Batch
                self.same(list(got), wanted)
                try:
                    whole = default_collate(wanted)
                except (TypeError, ValueError, RuntimeError) as e:  # what torch cannot collate is refused the same way
                    self.assertRaises(type(e), collate, got)
                    continue
                self.same(collate(data.__getitems__(order)), whole)
                self.same(default_collate(data.__getitems__(order)), whole)
        self.assertGreaterEqual(batches, 8)

    def test_a_sample_belongs_to_its_reader(self):
        from ddict.torch import DDictDataset, collate
        data = DDictDataset(Numbers(), d=self.d, name="own")
        batch = data.__getitems__([1, 2, 3])
        batch[1][0].zero_()
        self.assertEqual(int(data[2][0].sum()), sum(range(400)) + 400 * 2)
        self.assertEqual(int(batch[0][0][0, 0]), 1)
        self.assertEqual(collate(batch)[0][1].sum(), 0)
        batch[0] = data[7]
        self.assertEqual(collate(batch)[1].tolist(), [7, 2, 3])
        self.same(pickle.loads(pickle.dumps(batch)), list(batch))

    def test_indices_as_of_a_list(self):
        from ddict.torch import DDictDataset
        data, plain = DDictDataset(Numbers(), d=self.d, name="list"), list(range(COUNT))
        for i in (0, 7, -1, -COUNT, COUNT - 1):
            self.assertEqual(data[i][1], plain[i])
        for i in (COUNT, -COUNT - 1, 10**9):
            self.assertRaises(IndexError, data.__getitem__, i)
            self.assertRaises(IndexError, data.__getitems__, [0, i])
        for s in (slice(3, 9), slice(None, None, -50), slice(290, 999), slice(5, 5)):
            self.assertEqual([label for _, label in data[s]], plain[s])
        self.assertEqual([label for _, label in data[[4, -2]]], [4, 298])
        self.assertEqual(data[2:90][3:5][-1][1], 6)
        self.assertEqual(data.__getitems__([]), [])
        self.assertEqual(data[self.torch.tensor(5)][1], 5)
        for i in ("a", 1.5, None, ("a",), self.torch.tensor(0.5)):
            self.assertRaisesRegex(TypeError, "by their number, not by ", data.__getitem__, i)
        self.assertRaisesRegex(TypeError, "not by 'a'", data.__getitems__, [1, "a"])

    def test_a_dictionary_that_is_there(self):
        from ddict.torch import DDictDataset
        self.d.put_many((("x", i), i * i) for i in range(50))
        self.d["ddict.not"] = 1
        data = DDictDataset(self.d, keys=[("x", i) for i in range(9, 0, -2)], transform=str)
        self.assertEqual((len(data), list(data), data[0]), (5, ["81", "49", "25", "9", "1"], "81"))
        self.assertEqual(sorted(DDictDataset(self.d)), sorted(i * i for i in range(50)))
        self.assertEqual(list(DDictDataset(self.d)), list(DDictDataset(self.d)))
        self.assertRaises(ValueError, data.stop)
        self.assertRaises(KeyError, DDictDataset(self.d, keys=["absent"]).__getitem__, 0)
        self.assertRaises(KeyError, DDictDataset(self.d, keys=["absent", ("x", 1)]).__getitems__, [0, 1])
        self.assertRaises(TypeError, DDictDataset, [1], keys=[1], d=self.d)
        with self.assertRaisesRegex(KeyError, "no set 'nowhere'; it has none"):
            DDictDataset("nowhere", d=self.d)

    def test_every_way_of_workers(self):
        # pin_memory without a GPU: torch goes on without, and its newer versions warn. That shows that our batches and the word go together in a loader, and
        # nothing of pinned memory; with a GPU the batches are seen to be pinned.
        from ddict.torch import DDictDataset, collate
        data, cuda = DDictDataset(Numbers(), d=self.d, name="ways"), self.torch.cuda.is_available()
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.filterwarnings("ignore", ".*pin_memory")
        for words in (dict(), dict(num_workers=2, multiprocessing_context="fork", persistent_workers=True, prefetch_factor=3),
                      dict(num_workers=2, multiprocessing_context="spawn", persistent_workers=True, pin_memory=True),
                      dict(num_workers=1, multiprocessing_context="forkserver", prefetch_factor=1, drop_last=True)):
            for collate_fn in (collate, None, list):
                if collate_fn is not collate and words.get("multiprocessing_context") in ("spawn", "forkserver"):
                    continue
                with self.subTest(words=words, collate=collate_fn):
                    loader = self.torch.utils.data.DataLoader(data, batch_size=32, shuffle=True, collate_fn=collate_fn, **words)
                    for epoch in range(2):
                        seen = []
                        for batch in loader:
                            images, labels = zip(*batch) if collate_fn is list else batch
                            if cuda and "pin_memory" in words:
                                self.assertTrue(images.is_pinned() and labels.is_pinned())
                            for image, label in zip(images, map(int, labels)):
                                self.assertTrue(self.torch.equal(image, Numbers()[label][0]))
                                seen.append(label)
                        self.assertEqual(len(set(seen)), COUNT // 32 * 32 if words.get("drop_last") else COUNT)
                    del loader
        from multiprocessing import forkserver, resource_tracker
        forkserver._forkserver._stop()
        resource_tracker._resource_tracker._stop()

    def processes(self, sources, timeout=None, name="together"):
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        all_ = [context.Process(target=make, args=(self.d, source, name, queue, timeout)) for source in sources]
        for p in all_:
            p.start()
        said = [queue.get(timeout=60) for source in sources if getattr(source, "die", -1) < 0]
        for p in all_:
            p.join(60)
        queue.close()
        queue.join_thread()
        return said, [p.exitcode for p in all_]

    def test_many_processes_put_a_set_once(self):
        with tempfile.NamedTemporaryFile() as log:
            said, codes = self.processes([Numbers(log=log.name)] * 4)
            self.assertEqual(codes, [0] * 4)
            self.assertEqual({s[1:] for s in said}, {(COUNT, COUNT * (COUNT - 1))})
            looks = os.path.getsize(log.name) - COUNT  # each looks at four samples; who puts first does so twice
            self.assertTrue(4 * 4 <= looks <= 2 * 4 * 4, looks)
        self.assertEqual([k for k in self.d.keys(hidden=True) if type(k) is tuple], [("ddict.set", "together")])
        self.assertEqual((len(self.d), len(list(self.d.keys(hidden=True)))), (COUNT, COUNT + 1))

    def test_others_take_over_from_one_that_died(self):
        said, codes = self.processes([Numbers(die=10), Numbers(), Numbers(die=200), Numbers()], timeout=1)
        self.assertEqual({s[1:] for s in said}, {(COUNT, COUNT * (COUNT - 1))})
        self.assertEqual((codes[1], codes[3]), (0, 0))
        self.assertLessEqual(set(codes), {0, -signal.SIGKILL})
        self.assertEqual((len(self.d), len(list(self.d.keys(hidden=True)))), (COUNT, COUNT + 1))

    def test_a_bad_sample_fails_all_and_leaves_no_set(self):
        from ddict.torch import DDictDataset
        said, _ = self.processes([Numbers(bad=100)] * 3)
        self.assertEqual({s[1] for s in said}, {"sample 100 is bad"})
        self.assertRaises(KeyError, DDictDataset, "together", d=self.d)
        self.assertEqual(list(self.d), [])
        self.assertEqual(len(DDictDataset(Numbers(), name="together", d=self.d)), COUNT)
        self.assertEqual((len(self.d), len(list(self.d.keys(hidden=True)))), (COUNT, COUNT + 1))

    def test_what_cannot_be_indexed_is_put_by_the_first(self):
        from ddict.torch import DDictDataset
        data = DDictDataset((Numbers()[i] for i in range(100)), d=self.d, name="generator")
        self.assertEqual([label for _, label in data], list(range(100)))
        again = DDictDataset((Numbers()[i] for i in range(100)), d=self.d, name="generator")
        self.assertEqual(len(again), 100)
        self.assertEqual(len(DDictDataset([], d=self.d, name="empty")), 0)
        a, b = DDictDataset([1], d=self.d), DDictDataset([2], d=self.d)
        self.assertEqual((a[0], b[0]), (1, 2))
        for data in (a, b, again):
            data.stop()
            data.stop()
        self.assertEqual(list(self.d.keys(hidden=True)), [("ddict.set", "empty")])

    def test_a_set_as_ddict_load_writes_it(self):
        import json
        import struct
        import numpy as np
        from ddict.torch import DDictDataset, collate
        images = np.arange(40 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(40, 28, 28)
        self.d.put_many(enumerate(images))
        self.d["ddict.set", "mnist", "labels", 0] = array("q", range(40, 80)).tobytes()
        self.d["ddict.set", "mnist"] = json.dumps({"version": 1, "name": "mnist", "sources": ["a"], "kind": "idx", "prefix": "", "items": 40, "parts": 1,
                                                   "numbered": True, "bytes": 40 * 784, "dtype": "|u1", "shape": [28, 28]})
        data = DDictDataset("mnist", d=self.d)
        self.same(data[5], (images[5], 45))
        self.same(collate(data.__getitems__([3, 1])), [self.torch.from_numpy(images[[3, 1]]), self.torch.tensor([43, 41])])
        data = DDictDataset("mnist", d=self.d, transform=np.max, target_transform=str)
        self.assertEqual(data[5], (images[5].max(), "45"))
        keys = [f"c{i % 2}/{i}.txt" for i in range(10)]
        self.d.put_many((k, k.encode()) for k in keys)
        self.d["ddict.set", "files", "keys", 0] = b"".join(struct.pack("<I", len(k) + 1) + b"s" + k.encode() for k in keys)
        self.d["ddict.set", "files"] = json.dumps({"version": 1, "name": "files", "sources": ["b"], "kind": "tar", "prefix": "", "items": 10, "parts": 1,
                                                   "numbered": False, "bytes": 1})
        data = DDictDataset("files", d=self.d)
        self.assertEqual((data.labels, data[-1], list(data.keys)), (None, b"c1/9.txt", keys))
        self.assertEqual(pickle.loads(pickle.dumps(data)).__getitems__([0, 9]), [b"c0/0.txt", b"c1/9.txt"])
        with self.assertRaisesRegex(KeyError, "it has 'files', 'mnist'"):
            DDictDataset("Mnist", d=self.d)

    def test_image_folder(self):
        from ddict.torch import ImageFolder
        with tempfile.TemporaryDirectory() as root:
            names = []
            for label, c in enumerate(("ant", "bee", "cat")):
                os.makedirs(f"{root}/{c}/more")
                for i in range(40):
                    path = f"{c}/{'more/' if i % 4 == 0 else ''}{i}.{'JPG' if i % 3 else 'png'}"
                    names.append((path, label))
                    with open(f"{root}/{path}", "wb") as f:
                        f.write(bytes([i]) * 1000)
                open(f"{root}/{c}/notes.txt", "w").close()
            open(f"{root}/readme", "w").close()
            wanted = sorted(((f"{root}/{n}", label) for n, label in names), key=lambda s: (s[1], os.path.dirname(s[0]), s[0]))
            data = ImageFolder(root, loader=first_byte, d=self.d, target_transform=lambda label: label * 10)
            self.assertEqual((data.classes, data.class_to_idx), (["ant", "bee", "cat"], {"ant": 0, "bee": 1, "cat": 2}))
            self.assertEqual((data.samples, data.targets), (wanted, [label for _, label in wanted]))
            self.assertEqual(list(data), [((path, int(os.path.basename(path).split(".")[0])), label * 10) for path, label in wanted])
            self.assertEqual(data[-1], data.__getitems__([119])[0])
            self.assertEqual(self.d["ddict.set", root, "sizes", 0], array("Q", [1000] * 120).tobytes())
            texts = ImageFolder(root, is_valid_file=lambda path: path.endswith(".txt"), loader=lambda f: f.read(), name="texts", d=self.d)
            self.assertEqual(list(texts), [(b"", 0), (b"", 1), (b"", 2)])
            os.mkdir(f"{root}/dog")
            self.assertRaisesRegex(FileNotFoundError, "dog", ImageFolder, root, name="other", d=self.d)
            self.assertEqual(len(ImageFolder(root, name="other", allow_empty=True, d=self.d)), 120)
            self.assertRaisesRegex(FileNotFoundError, "no folder", ImageFolder, f"{root}/dog", d=self.d)
        self.assertEqual(len(ImageFolder(root, d=self.d)), 120)  # gone from the disk, and still there
        self.assertRaisesRegex(FileNotFoundError, "class dog", ImageFolder, "other", d=self.d)
        for name in (root, "texts", "other"):
            ImageFolder(name, allow_empty=True, d=self.d).stop()
        self.assertEqual([k for k in self.d if k[2:] != ("load", -2)], [])

    def test_an_image_folder_that_fails_leaves_nothing(self):
        from ddict.torch import ImageFolder
        with tempfile.TemporaryDirectory() as root:
            for c in ("ant", "bee"):
                os.makedirs(f"{root}/{c}")
                for i in range(200):
                    with open(f"{root}/{c}/{i}.png", "wb") as f:
                        f.write(bytes([i]) * 1000)
            os.symlink("nothing", f"{root}/bee/x.png")
            self.d[f"{root}/ant/7.png"] = b"mine"
            for _ in range(5):  # it begins anywhere
                self.assertRaises(FileNotFoundError, ImageFolder, root, d=self.d)
                self.assertEqual(list(self.d), [f"{root}/ant/7.png"])
            kept = ImageFolder(root, is_valid_file=lambda path: path.endswith("1.png"), loader=first_byte, name="kept", d=self.d)
            wanted = list(kept)
            self.assertRaises(FileNotFoundError, ImageFolder, root, d=self.d)
            self.assertEqual(list(kept), wanted)
            os.unlink(f"{root}/bee/x.png")
            self.assertEqual(len(ImageFolder(root, d=self.d)), 400)

    def needs_load(self):
        command = os.environ["DDICT_TEST_COMMAND"]
        if not any(os.path.exists(os.path.join(os.path.dirname(command), place)) for place in ("ddict-load", "../libexec/ddict-load")):
            self.skipTest("built without ddict load")

    def test_image_folder_in_a_tar(self):
        import tarfile
        from ddict.torch import DDictDataset, ImageFolder
        self.needs_load()
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(f"{folder}/x.tar", "w") as tar:
                for name in ("b/2.jpg", "a/1.png", "b/0.JPG", "a/note.txt"):
                    info = tarfile.TarInfo(name)
                    info.size = 500
                    tar.addfile(info, io.BytesIO(name.encode() * 100))
            path = f"{folder}/x.tar"
            data = ImageFolder(path, loader=lambda f: (f.name, f.read(7)), d=self.d)
            self.assertEqual(list(data), [((f"{path}/{n}", n.encode()), label) for n, label in (("a/1.png", 0), ("b/0.JPG", 1), ("b/2.jpg", 1))])
            self.assertEqual(data.classes, ["a", "b"])
            for words in (dict(), dict(name="again")):  # the set that is there, and the tar read anew: no class may be empty
                with self.assertRaisesRegex(FileNotFoundError, "no file in it is an image of the class b; allow_empty"):
                    ImageFolder(path, is_valid_file=lambda p: "/a/" in p, d=self.d, **words)
                some = ImageFolder(path, is_valid_file=lambda p: "/a/" in p, allow_empty=True, loader=len, d=self.d, **words)
                self.assertEqual((some.classes, some.targets), (["a", "b"], [0, 0]))
            self.assertEqual(len(DDictDataset(self.d.open_set(path))), 4)
            self.assertRaises(FileNotFoundError, ImageFolder, f"{folder}/absent.tar", d=self.d)
            with open(path, "r+b") as f:
                f.truncate(1000)
            self.assertRaises(ddict.LoadError, ImageFolder, path, name="cut", d=self.d)

    def test_image_folder_in_a_bucket(self):
        from ddict.torch import ImageFolder, S3ImageFolder
        self.needs_load()
        sys.path.append(str(Path(__file__).resolve().parents[1] / "local"))
        self.addCleanup(sys.path.pop)
        from s3_server import Server
        names = [f"{c}/{i}.png" for c in ("ant", "bee") for i in range(30)]
        objects = {f"set/{n}": n.encode() * (i + 1) for i, n in enumerate(names)}
        objects["set/bee/readme"] = objects["other/x/0.png"] = b"not to be seen"
        with Server(objects, page=20) as server:
            before = dict(os.environ)
            os.environ.update(server.environment(), HOME="/nonexistent")
            try:
                data = S3ImageFolder("s3://bucket/set", loader=lambda f: f.read(), d=self.d)
            finally:
                os.environ.clear()
                os.environ.update(before)
        names.sort()
        self.assertEqual(list(data), [(objects[f"set/{n}"], int(n[0] == "b")) for n in names])
        self.assertEqual(data.samples[0], ("s3://bucket/set/ant/0.png", 0))
        again = S3ImageFolder(s3_bucket="bucket", s3_prefix="set", loader=len, d=self.d)  # is there: the server is gone
        self.assertEqual((len(again), again.classes, again.class_to_idx), (60, ["ant", "bee"], {"ant": 0, "bee": 1}))
        self.assertEqual(len(ImageFolder("s3://bucket/set", d=self.d)), 60)
        again.loader = lambda f: len(f.read())
        theirs = S3ImageFolder("bucket", "set", transform=lambda n: -n, loader=lambda f: len(f.read()), d=self.d)  # as dask-pytorch-ddp's is called
        self.assertEqual(theirs[3], (-again[3][0], again[3][1]))
        theirs = S3ImageFolder("bucket", "set", None, lambda label: label + 10, loader=lambda f: len(f.read()), d=self.d)
        self.assertEqual(theirs[3], (again[3][0], again[3][1] + 10))
        self.assertRaises(TypeError, S3ImageFolder, d=self.d)
        self.assertRaisesRegex(FileNotFoundError, "class ant", S3ImageFolder, "s3://bucket/set", is_valid_file=lambda p: "/bee/" in p, d=self.d)
        self.assertRaises(ValueError, S3ImageFolder, "/a/folder")

    def test_a_public_bucket_is_read_without_credentials(self):
        from ddict.torch import S3ImageFolder
        self.needs_load()
        sys.path.append(str(Path(__file__).resolve().parents[1] / "local"))
        self.addCleanup(sys.path.pop)
        from s3_server import Server
        with Server({"open/a/1.png": b"1", "open/b/2.png": b"22"}, signed=False) as server, mock.patch.dict(os.environ, {**server.environment(), "HOME": "/nonexistent"}):
            data = S3ImageFolder("bucket", "open", None, None, True, loader=lambda f: len(f.read()), d=self.d)
            self.assertEqual((list(data), set(server.sent)), ([(1, 0), (2, 1)], {""}))

    def test_the_class_of_an_object_is_its_last_folder(self):
        from ddict.torch import S3ImageFolder
        self.needs_load()
        sys.path.append(str(Path(__file__).resolve().parents[1] / "local"))
        self.addCleanup(sys.path.pop)
        from s3_server import Server
        objects = {f"set/{name}.png": b"x" for name in ("day/bee/1", "day/ant/2", "night/bee/3", "cow/4")}
        with Server(objects, signed=False) as server, mock.patch.dict(os.environ, {**server.environment(), "HOME": "/nonexistent"}):
            data = S3ImageFolder("bucket", "set", anon=True, loader=lambda f: f.name.rsplit("/", 1)[1], d=self.d)
        self.assertEqual((data.classes, data.class_to_idx["bee"]), (["ant", "bee", "cow"], 1))
        self.assertEqual(sorted(data), [("1.png", 1), ("2.png", 0), ("3.png", 1), ("4.png", 2)])
        self.assertEqual(sorted(data.targets), [0, 1, 1, 2])

    def test_images_are_decoded(self):
        from ddict.torch import ImageFolder
        image = module_or_skip("PIL.Image").Image
        with tempfile.TemporaryDirectory() as root:
            for c in "ab":
                os.mkdir(f"{root}/{c}")
                image.new("L", (5, 4), ord(c)).save(f"{root}/{c}/0.png")
            data = ImageFolder(root, d=self.d, transform=lambda im: (im.mode, im.size, im.getpixel((0, 0))))
            self.assertEqual(list(data), [(("RGB", (5, 4), (97, 97, 97)), 0), (("RGB", (5, 4), (98, 98, 98)), 1)])

    def test_checkpoints(self):
        from ddict.torch import load, save
        torch = self.torch
        state = {"model": torch.nn.Linear(200, 100).state_dict(), "step": 7}
        n = save(state, ("run", 1), self.d)
        for words in (dict(), dict(weights_only=True), dict(map_location="cpu")):
            got = load(("run", 1), self.d, **words)
            self.assertEqual(got["step"], 7)
            for name, t in state["model"].items():
                self.same(got["model"][name], t)
        with torch.serialization._open_zipfile_reader(io.BytesIO(self.d["run", 1])):
            self.assertEqual(len(self.d["run", 1]), n)
        save(state, "old", self.d, _use_new_zipfile_serialization=False)
        self.same(load("old", self.d)["model"]["bias"], state["model"]["bias"])
        self.assertRaises(ddict.Error, save, torch.zeros(160 << 20, dtype=torch.uint8), "large", self.d)
        self.assertNotIn("large", self.d)
        self.assertRaises(Exception, save, [state, lambda: 0], "old", self.d)
        self.assertEqual(load("old", self.d)["step"], 7)
        self.assertRaises(KeyError, load, "absent", self.d)
        self.assertRaises(ddict.TimeoutError, load, "absent", self.d, wait=True, timeout=0.05)
        self.d["evil"] = pickle.dumps(os.getcwd)
        self.assertRaises(pickle.UnpicklingError, load, "evil", self.d, weights_only=True)

    def test_no_gpu_no_harm(self):
        from ddict.torch import get_to, register, unregister
        if self.torch.cuda.is_available():
            self.skipTest("there is a GPU")
        self.d["x"] = {"t": self.torch.ones(1000), "n": 1}
        self.assertEqual(register(self.d), 0)
        self.same(get_to("x", "cpu", self.d), {"t": self.torch.ones(1000), "n": 1})
        unregister()

    def test_batches_keep_no_memory(self):
        from ddict.torch import DDictDataset
        data = DDictDataset(Numbers(), d=self.d, name="leases")
        kept = [data.__getitems__(range(100)) for _ in range(5)]
        self.d.put_many((key, b"") for key in data.keys)
        end = time.monotonic() + 20
        while sum(s["leased_bytes"] for s in self.d.stats) and time.monotonic() < end:
            self.d["again"] = bytes(1 << 20)  # makes the managers look
        self.assertEqual(sum(s["leased_bytes"] for s in self.d.stats), 0)
        self.assertEqual(len(kept[4]), 100)

    def test_a_broken_value_is_said_to_be_one(self):
        from ddict.torch import DDictDataset
        import struct
        for what in (struct.pack("<IIQQQ", 1, 1, 10, 1 << 40, 400), struct.pack("<IIQ", 4000, 1, 0), b"\1", struct.pack("<IIQQQ", 1, 1, 1 << 60, 0, 1)):
            self.d["good"] = (self.torch.ones(100), 1)
            put_tagged(self.d, "bad", what)
            self.assertRaises(ddict.Error, DDictDataset(self.d, keys=["bad", "good"]).__getitems__, [0, 1])
            self.assertRaises(ddict.Error, DDictDataset(self.d, keys=["bad"]).__getitems__, [0])


def put_tagged(d, key, data):
    """A value with the tag of pickles with buffers and other bytes, as another program could store it."""
    import ctypes
    lib = ctypes.CDLL(ddict._ddict.__file__)
    handle = ctypes.c_void_p()
    text = ddict.key_bytes(key)
    lib.ddict_attach.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p, ctypes.c_int]
    if lib.ddict_attach(ctypes.byref(handle), d.name.encode(), 30000):
        raise OSError("attach")
    lib.ddict_put.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int]
    rc = lib.ddict_put(handle, text, len(text), data, len(data), 3 << 16, -1)
    lib.ddict_detach.argtypes = [ctypes.c_void_p]
    lib.ddict_detach(handle)
    if rc:
        raise OSError(rc)


if __name__ == "__main__":
    unittest.main()
