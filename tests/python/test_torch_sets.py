# SPDX-License-Identifier: Apache-2.0
"""A set is that of the data it is made of: other data under its name is refused or replaces it, keys of others are left alone, what fails leaves nothing, an order is kept."""

import collections
import multiprocessing
import os
import random
import tempfile
import unittest

import ddict
from harness import DictTest, module_or_skip


class Indexed:
    def __init__(self, samples, bad=None, classes=None):
        self.samples, self.bad, self.reads = samples, bad, 0
        if classes:
            self.classes = classes

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        self.reads += 1
        if i == self.bad:
            raise ArithmeticError("bad")
        return self.samples[i]


class Series:
    """As pandas.Series: by its label, not by its place."""

    def __init__(self, values, index):
        self.values, self.index = values, index
        self.iloc = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, label):
        return self.values[self.index.index(label)]

    def __iter__(self):
        return iter(self.values)


def make_many(d, samples, name, overwrite, out):
    import torch
    torch.set_num_threads(1)
    from ddict.torch import DDictDataset
    try:
        data = DDictDataset(samples, name=name, d=d, overwrite=overwrite)
        out.put([data[0], data[len(data) - 1], len(data)])
    except Exception as e:
        out.put(type(e).__name__)


class Sets(DictTest):
    @classmethod
    def setUpClass(cls):
        cls.torch = module_or_skip("torch")
        cls.torch.set_num_threads(1)
        import torch.utils.data
        super().setUpClass()

    def make(self, data, **kwds):
        from ddict.torch import DDictDataset
        return DDictDataset(data, **{"d": self.d, "name": "train", **kwds})

    def refused(self, data, said, **kwds):
        with self.assertRaisesRegex(ValueError, f"has a set 'train' of other data: .*{said}.*overwrite=True"):
            self.make(data, **kwds)

    def test_other_data_is_refused_or_replaces_it(self):
        torch = self.torch
        first = [(torch.full((5, 20), i), i) for i in range(50)]
        self.make(Indexed(first, classes=["a", "b"]))
        self.assertEqual(len(self.make(Indexed(first, classes=["a", "b"]))), 50)
        self.assertEqual(len(self.make(list(first))), 50)  # the same in another container
        self.refused(first[:49], "it has 50 samples, this data has 49")
        self.refused([(x + 1, y) for x, y in first], "what is in its samples differs")
        self.refused([(x, y + 1) for x, y in first], "what is in its samples differs")
        self.refused([(x.float(), y) for x, y in first], "the form of its samples .* differs")
        self.refused([(x.view(-1), y) for x, y in first], "the form of its samples .* differs")
        self.refused(Indexed(first, classes=["a", "c"]), "the names of its classes differ")
        self.refused([x for x, y in first], "form")
        self.refused((s for s in [7]), "form")
        self.assertEqual([y for _, y in self.make("train")], list(range(50)))
        other = self.make([7, 8], overwrite=True)
        self.assertEqual(list(other), [7, 8])
        self.assertEqual((len(self.d), len(list(self.d.keys(hidden=True)))), (2, 3))
        same_looks = [i if i != 3 else "not looked at" for i in range(10)]
        self.make(list(range(10)), overwrite=True)
        self.assertEqual(list(self.make(same_looks, overwrite=True)), same_looks)

    def test_what_is_random_is_only_compared_by_its_form(self):
        torch = self.torch

        class Noise(Indexed):
            def __getitem__(self, i):
                return torch.rand(5, 20), i

        self.make(Noise(range(20)))
        self.assertEqual(len(self.make(Noise(range(20)))), 20)
        self.refused([(torch.rand(5, 21), i) for i in range(20)], "form")
        self.refused([(torch.rand(5, 20, dtype=torch.float64), i) for i in range(20)], "form")

    def test_of_iterables(self):
        class Again:
            def __init__(self, *samples):
                self.samples = samples

            def __iter__(self):
                return iter(self.samples)

        self.make(Again(1, 2, 3))
        self.assertEqual(list(self.make(Again(1, 2, 3))), [1, 2, 3])
        self.refused(Again(9, 2, 3), "what is in its samples differs")
        self.refused(Again("1"), "form")
        self.assertEqual(list(self.make(iter([5, 6]), name="once")), [5, 6])
        self.assertEqual(list(self.make(iter([7, 8]), name="once")), [5, 6])  # an iterator is read but once: by its form
        with self.assertRaises(ValueError):
            self.make(iter(["x"]), name="once")

    def test_a_set_of_ddict_load_is_other_data(self):
        from ddict.torch import _sets
        self.d["l/0"] = b"x"
        _sets.write(self.d, {"name": "train", "sources": ["x.tar"], "kind": "tar", "prefix": "l/", "items": 1, "numbered": False}, keys=["l/0"])
        self.refused([b"x"], "it was loaded from x.tar")

    def test_after_save_and_restore(self):
        self.make(list(range(30)))
        with tempfile.TemporaryDirectory() as folder:
            self.d.clear()
            self.make(list(range(30)))
            os.environ.update(self.dictionary.environment())
            ddict.save(folder + "/saved", d=self.d)
            self.d.clear()
            ddict.restore(folder + "/saved", d=self.d)
        self.assertEqual(list(self.make(list(range(30)))), list(range(30)))
        self.refused(list(range(1, 31)), "what is in its samples differs")

    def test_many_at_once(self):
        context = multiprocessing.get_context("fork")
        self.make(list(range(100, 600)))
        out = context.Queue()
        for overwrite, samples, got in ((False, list(range(100, 600)), [100, 599, 500]), (False, list(range(500)), "ValueError"), (True, list(range(400)), [0, 399, 400])):
            processes = [context.Process(target=make_many, args=(self.d, samples, "train", overwrite, out)) for _ in range(4)]
            for p in processes:
                p.start()
            self.assertEqual([out.get(timeout=60) for _ in processes], [got] * 4)
            for p in processes:
                p.join()
        self.assertEqual((len(self.d), len(list(self.d.keys(hidden=True)))), (400, 401))

    def test_keys_of_others_are_left_alone(self):
        for key in ("train/0", "train/7"):
            self.d.clear()
            self.d[key] = "mine"
            for data in (list(range(10)), iter(range(10))):
                with self.assertRaisesRegex(ValueError, f"has a key '{key}', which the set 'train' would put over"):
                    self.make(data)
                self.assertEqual(dict(self.d.items()), {key: "mine"})
        self.d.clear()
        self.d["train/readme"] = "mine"
        self.assertEqual(list(self.make([1, 2])), [1, 2])

    def test_what_fails_leaves_nothing(self):
        def generator():
            yield from range(300)
            raise ArithmeticError("bad")

        class Unpicklable(Indexed):
            def __getitem__(self, i):
                return (x for x in ()) if i == self.bad else super().__getitem__(i)

        for data in (Indexed(list(range(1000)), bad=500), Indexed(list(range(1000)), bad=999), Indexed(list(range(1000)), bad=0), generator(), Unpicklable(list(range(1000)), bad=700)):
            with self.assertRaises(Exception) as caught:
                self.make(data)
            self.assertIn("bad" if type(data) is not Unpicklable else "'train/700'", str(caught.exception))
            self.assertEqual(list(self.d), [])
        self.assertEqual(list(self.make(list(range(1000)))), list(range(1000)))

    def test_an_iterable_data_set_with_a_length(self):
        torch = self.torch
        from ddict.torch import DDictIterableDataset

        class Stream(torch.utils.data.IterableDataset):
            def __len__(self):
                return 7

            def __iter__(self):
                return iter(range(7))

        self.assertEqual(list(self.make(Stream())), list(range(7)))
        stream = DDictIterableDataset(self.make("train", name=None), shuffle=False)
        self.assertEqual(list(self.make(stream, name="again")), list(range(7)))

    def test_an_order_is_that_of_places(self):
        from ddict.torch import DDictDataset
        self.d.update(a="A", b="B", c="C")
        series = [Series(["c", "a", "b"], [2, 0, 1])]
        try:
            import pandas
            series.append(pandas.Series(["c", "a", "b"], index=[2, 0, 1]))
        except ImportError:
            pass
        for keys in [*series, ["c", "a", "b"], iter("cab"), {"c": 0, "a": 1, "b": 2}]:
            self.assertEqual(list(DDictDataset(self.d, keys=keys)), ["C", "A", "B"])
        for i, data in enumerate(series):
            self.assertEqual(list(self.make(data, name=f"s{i}")), ["c", "a", "b"])
        for keys in ({"a", "b"}, "abc", b"ab"):
            with self.assertRaises(TypeError):
                DDictDataset(self.d, keys=keys)

    def test_what_is_no_data_set_is_told_so(self):
        class Frame(Series):
            columns = ["x"]

        for data, said in (({"a": 1}, "a dict are not known by numbers.*list"), (collections.OrderedDict(a=1), "not known by numbers"), (Frame([1], [0]), "Frame has columns.*to_dict"),
                           (5, "neither be indexed"), (object(), "neither be indexed")):
            with self.assertRaisesRegex(TypeError, said):
                self.make(data)
        self.assertEqual(len(self.d), 0)

    def test_labels_have_a_transform_where_there_are_labels(self):
        pairs = [(i, i) for i in range(5)]
        self.assertEqual(list(self.make(pairs, transform=lambda pair: (pair[0] * 2, pair[1]))), [(i * 2, i) for i in range(5)])
        with self.assertRaisesRegex(TypeError, "target_transform is for sets with labels"):
            self.make(pairs, target_transform=str)

    def test_a_folder_of_other_images(self):
        from ddict.torch import ImageFolder
        with tempfile.TemporaryDirectory() as root:
            for folder in ("one", "two"):
                os.makedirs(f"{root}/{folder}/cat")
                with open(f"{root}/{folder}/cat/{folder}.png", "w") as f:
                    f.write(folder)
            first = ImageFolder(f"{root}/one", loader=lambda f: f.read(), name="images", d=self.d)
            self.assertEqual(first[0][0], b"one")
            self.assertEqual(len(ImageFolder(f"{root}/one", loader=lambda f: f.read(), name="images", d=self.d)), 1)
            with self.assertRaisesRegex(ValueError, "has a set 'images' of other data: .*one.*overwrite=True"):
                ImageFolder(f"{root}/two", loader=lambda f: f.read(), name="images", d=self.d)
            second = ImageFolder(f"{root}/two", loader=lambda f: f.read(), name="images", d=self.d, overwrite=True)
            self.assertEqual(second[0][0], b"two")

    def test_a_value_that_is_no_checkpoint(self):
        from ddict.torch import load, save
        for value in ([1, 2], "text", b"no checkpoint", self.torch.ones(1000)):
            self.d["k"] = value
            with self.assertRaises(ValueError if value != b"no checkpoint" else Exception) as caught:
                load("k", self.d)
            self.assertNotIsInstance(caught.exception, KeyError)
            self.assertIn("'k'", str(caught.exception))
        with self.assertRaises(KeyError):
            load("none", self.d)
        save([1], "k", self.d)
        self.assertEqual(load("k", self.d), [1])

    def test_memory_that_tensors_share_and_their_order_come_back(self):
        torch = self.torch
        weight = torch.rand(300, 300)
        self.d["tied"] = {"a": weight, "b": weight.detach(), "c": weight.view(300, 300), "d": weight[:100], "e": weight.t()}
        back = self.d["tied"]
        self.assertEqual(len({back[k].data_ptr() for k in "abc"}), 1)
        for k, t in (("a", weight), ("d", weight[:100]), ("e", weight.t())):
            self.assertTrue(torch.equal(back[k], t))
        self.assertLess(self.d.view("tied").nbytes, 2.5 * 360000)
        model = torch.nn.Sequential(torch.nn.Linear(200, 200), torch.nn.Linear(200, 200))
        model[1].weight = model[0].weight
        self.d["state"] = model.state_dict()
        self.assertLess(self.d.view("state").nbytes, 1.1 * 160000)
        back = self.d["state"]
        self.assertEqual(back["0.weight"].data_ptr(), back["1.weight"].data_ptr())
        for shape, form in (((4, 3, 8, 8), torch.channels_last), ((2, 3, 4, 8, 8), torch.channels_last_3d)):
            t = torch.rand(shape).to(memory_format=form)
            for value in (t, [t, t.clone()], {"x": t.clone().requires_grad_()}):
                self.d["last"] = value
                back = self.d["last"]
                back = back if isinstance(back, torch.Tensor) else back[0] if isinstance(back, list) else back["x"]
                self.assertTrue(torch.equal(back, t))
                self.assertTrue(back.is_contiguous(memory_format=form))
                self.assertEqual(back.stride(), t.stride())
            batch = self.make([t, t], name=f"last{len(shape)}").__getitems__([0, 1])
            self.assertTrue(all(torch.equal(b, t) for b in batch))

    def test_passes_after_a_state(self):
        torch = self.torch
        from ddict.torch import DataLoader, DDictIterableDataset, DistributedSampler, LocalSampler
        data = self.make(list(range(20)))

        def loaders():
            for workers in (0, 2):
                for kind in (DistributedSampler, LocalSampler):
                    yield lambda: DataLoader(data, 4, sampler=kind(data, 1, 0), num_workers=workers)
                yield lambda: DataLoader(DDictIterableDataset(data, 4, num_replicas=1, rank=0), batch_size=None, num_workers=workers)

        for new in loaders():
            loader = new()
            states = []
            for batch in loader:
                self.assertEqual(len(loader), 5)
                states.append(loader.state_dict())
            for taken in range(1, 6):  # the last is the end of the pass
                loader = new()
                loader.load_state_dict(states[taken - 1])
                left = 5 - taken or 5
                for passes in (left, 5, 5):
                    self.assertEqual(len(loader), passes)
                    seen = []
                    for batch in loader:
                        self.assertEqual(len(loader), passes)
                        seen += batch.tolist()
                    self.assertEqual(len(seen), 4 * passes)
                    self.assertEqual(len(set(seen)), len(seen))
            loader = new()
            loader.load_state_dict(states[-1])
            loader._order().set_epoch(0)  # named again: nothing is left of it
            self.assertEqual((len(loader), list(loader)), (0, []))
            self.assertEqual((len(loader), len(list(loader))), (5, 5))
            loader.load_state_dict(states[-1])
            loader._order().set_epoch(1)
            self.assertEqual((len(loader), len(list(loader))), (5, 5))
            loader.load_state_dict(states[1])
            for batch in loader:
                break  # left early: it goes on from the state again
            self.assertEqual((len(loader), len(list(loader)), len(loader)), (3, 3, 5))


if __name__ == "__main__":
    unittest.main()
