# SPDX-License-Identifier: Apache-2.0
"""ddict.torch.collate and DataLoader give what torch's give of the samples as they are now, whatever was done to them on the way."""

import copy
import random
import unittest

from harness import DictTest, module_or_skip


def of_wrapper(cls, data, change):
    class Wrap(cls):
        def __len__(self):
            return len(data)

        def __getitems__(self, indices):
            batch = data.__getitems__(indices)
            change(batch)
            return batch

        def __getitem__(self, i):
            return self.__getitems__([i])[0]

    return Wrap()


class Changed(DictTest):
    @classmethod
    def setUpClass(cls):
        cls.torch = module_or_skip("torch")
        cls.numpy = module_or_skip("numpy")
        cls.torch.set_num_threads(1)
        import torch.utils.data
        super().setUpClass()

    def same(self, a, b, why):
        torch = self.torch
        self.assertIs(type(a), type(b), why)
        if isinstance(b, torch.Tensor):
            self.assertEqual((a.dtype, a.shape, a.requires_grad), (b.dtype, b.shape, b.requires_grad), why)
            self.assertTrue(torch.equal(a, b), why)
        elif isinstance(b, dict):
            self.assertEqual(list(a), list(b), why)
            for k in b:
                self.same(a[k], b[k], why)
        elif isinstance(b, (list, tuple)):
            self.assertEqual(len(a), len(b), why)
            for x, y in zip(a, b):
                self.same(x, y, why)
        else:
            self.assertEqual(a, b, why)

    def sources(self):
        torch, numpy = self.torch, self.numpy
        from ddict.torch import DDictDataset
        for name, make in (("tensor", lambda i: torch.arange(120.) * i), ("array", lambda i: numpy.arange(240, dtype=numpy.int16).reshape(12, 20) + i),
                           ("pair", lambda i: (torch.arange(120.).view(10, 12) * i, i)), ("small", lambda i: (torch.ones(3) * i, i * 1.5)),
                           ("dict", lambda i: {"x": torch.arange(120.).view(10, 12) * i, "y": i, "z": "abc"[i % 3]}),
                           ("list", lambda i: [numpy.arange(300.) + i, numpy.arange(3) + i, i % 2 == 0])):
            yield name, DDictDataset([make(i) for i in range(40)], d=self.d, name=name)

    def changes(self):
        """What can be done to a batch of samples: of each kind to some of them"""
        torch = self.torch

        def field(s):
            return s if not isinstance(s, (dict, list, tuple)) else s["x"] if isinstance(s, dict) else s[0]

        def each(do):
            return lambda batch: [do(s) for s in batch]

        yield "nothing", lambda batch: None
        yield "pop and append", lambda batch: batch.append(batch[0]) if batch.pop() is not None else None
        yield "insert", lambda batch: batch.insert(0, batch.pop())
        yield "remove the first", lambda batch: batch.append(batch.pop(0))
        yield "swap", lambda batch: batch.__setitem__(slice(0, 2), [batch[1], batch[0]])
        yield "sort", lambda batch: batch.sort(key=str, reverse=True)
        yield "reverse", lambda batch: batch.reverse()
        yield "one fewer", lambda batch: batch.pop()
        yield "one twice", lambda batch: batch.extend(batch[:1])
        yield "+=", lambda batch: batch.__iadd__(batch[1:2])
        yield "written into", each(lambda s: field(s).__setitem__(0, 7))
        yield "another dict value", each(lambda s: s.update(x=s["x"] * 3, y=-1) if isinstance(s, dict) else None)
        yield "a field more", each(lambda s: s.update(more=5) if isinstance(s, dict) else s.append(5) if isinstance(s, list) else None)
        yield "a field fewer", each(lambda s: s.pop("y") if isinstance(s, dict) else s.pop() if isinstance(s, list) else None)
        yield "fields in another order", each(lambda s: s.update(x=s.pop("x")) if isinstance(s, dict) else None)
        yield "one field of one", lambda batch: batch[-1].__setitem__("z", "new") if isinstance(batch[-1], dict) else None
        yield "a list's part", each(lambda s: s.__setitem__(0, s[0] * 2) if isinstance(s, list) else None)
        yield "another shape", each(lambda s: field(s).unsqueeze_(0) if isinstance(field(s), torch.Tensor) else setattr(field(s), "shape", (-1,)))
        yield "turned over", each(lambda s: field(s).t_() if isinstance(field(s), torch.Tensor) and field(s).dim() == 2 else None)
        yield "other data", each(lambda s: setattr(field(s), "data", field(s).data * 2) if isinstance(field(s), torch.Tensor) else None)
        yield "a gradient", each(lambda s: field(s).requires_grad_() if isinstance(field(s), torch.Tensor) else None)
        yield "of another type", lambda batch: batch.__setitem__(slice(None), [list(s) if isinstance(s, tuple) else s for s in batch])

    def test_collate_gives_the_samples_as_they_are_now(self):
        from torch.utils.data import default_collate
        from ddict.torch import Batch, collate
        for name, data in self.sources():
            for what, change in self.changes():
                batch = data.__getitems__(list(range(3, 19)))
                self.assertIs(type(batch), list if name == "small" else Batch)
                change(batch)
                wanted = default_collate(copy.copy([x for x in batch]))
                self.same(collate(batch), wanted, (name, what))

    def test_loaders_give_what_a_wrapper_made(self):
        from ddict.torch import DataLoader, collate
        torch = self.torch
        for name, data in self.sources():
            for what, change in self.changes():
                if what == "a gradient":
                    continue
                wrapped = of_wrapper(torch.utils.data.Dataset, data, change)
                wanted = list(torch.utils.data.DataLoader(wrapped, batch_size=8))
                for loader in (DataLoader(wrapped, batch_size=8), torch.utils.data.DataLoader(wrapped, batch_size=8, collate_fn=collate)):
                    self.same(list(loader), wanted, (name, what))

    def test_loaders_of_the_data_itself(self):
        from ddict.torch import DataLoader, collate
        torch = self.torch
        for name, data in self.sources():
            wanted = list(torch.utils.data.DataLoader(data, batch_size=7))
            for loader in (DataLoader(data, batch_size=7), DataLoader(data, batch_size=7, num_workers=2), torch.utils.data.DataLoader(data, batch_size=7, collate_fn=collate),
                           DataLoader(torch.utils.data.Subset(data, range(40)), batch_size=7), DataLoader(data, batch_sampler=torch.utils.data.BatchSampler(range(40), 7, False))):
                self.same(list(loader), wanted, name)
                self.assertEqual(len(loader), 6)

    def test_a_subclass_with_a_getitem_of_its_own_is_asked_by_it(self):
        from ddict.torch import DataLoader, DDictDataset, DDictIterableDataset
        torch = self.torch

        class Doubled(DDictDataset):
            def __getitem__(self, i):
                x, y = super().__getitem__(i)
                return x * 2, y

        class Both(Doubled):
            def __getitems__(self, indices):
                return [(x * 3, y) for x, y in DDictDataset.__getitems__(self, indices)]

        data = [(torch.ones(100), i) for i in range(10)]
        for cls, times in ((Doubled, 2), (Both, 3)):
            mine = cls(data, d=self.d, name="doubled")
            for loader in (DataLoader(mine, 5), torch.utils.data.DataLoader(mine, 5), DDictIterableDataset(mine, 5)):
                self.assertEqual({float(x.max()) for x, _ in loader}, {times})

    def test_what_was_given_is_no_longer_shared_with_a_second_batch(self):
        from ddict.torch import collate
        for name, data in self.sources():
            batch = data.__getitems__(range(5))
            self.same(collate(batch), collate(batch), name)

    def test_numpy_numbers_and_arrays_without_dimensions_stay_what_they_are(self):
        numpy = self.numpy
        from ddict.torch import DDictDataset
        samples = [(numpy.arange(300.) + i, numpy.array(i * 1.5), numpy.float32(i), numpy.arange(3) + i) for i in range(8)]
        data = DDictDataset(samples, d=self.d, name="zero")
        for made in (data[0:8], data.__getitems__(range(8))):
            for a, b in zip(made, samples):
                self.assertEqual([type(x) for x in a], [type(x) for x in b])
                self.assertEqual([x.tolist() for x in a], [x.tolist() for x in b])

    def test_any_changes_in_any_order(self):
        """At random, until one that collate() can not take raises in torch as well."""
        from torch.utils.data import default_collate
        from ddict.torch import collate
        chance, changes = random.Random(11), dict(self.changes())
        for name, data in self.sources():
            for _ in range(60):
                batch = data.__getitems__([chance.randrange(40) for _ in range(chance.randrange(1, 12))])
                whats = [chance.choice(list(changes)) for _ in range(chance.randrange(4))]
                for what in whats:
                    try:
                        changes[what](batch)
                    except (IndexError, KeyError, RuntimeError, AttributeError, TypeError, ValueError):
                        pass  # not of these samples
                try:
                    wanted = default_collate(list(batch))
                except Exception as e:
                    with self.assertRaises(type(e)):
                        collate(batch)
                else:
                    self.same(collate(batch), wanted, (name, whats))


if __name__ == "__main__":
    unittest.main()
