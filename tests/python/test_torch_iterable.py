# SPDX-License-Identifier: Apache-2.0
"""
The stream of ddict.torch: the same batches in the same order as a DataLoader with a DistributedSampler gives, whatever the number of workers and how many are fetched
ahead; each sample of an epoch once over all ranks, also where others go on; and nothing of it remains when a loop ends early.
"""

import gc
import itertools
import json
import pickle
import threading
import time
import unittest
from collections import Counter

from harness import DictTest, module_or_skip

COUNT = 203


class Slow:
    """transform: notes when it is called, and by which thread."""

    def __init__(self):
        self.calls = []

    def __call__(self, value):
        self.calls.append(threading.current_thread().name)
        return value


class Bad:
    def __call__(self, sample):
        if sample[1] == 150:
            raise ArithmeticError("150 is bad")
        return sample


class Stream(DictTest):
    managers, nodes = 4, 2

    @classmethod
    def setUpClass(cls):
        cls.torch = module_or_skip("torch")
        cls.torch.set_num_threads(1)
        super().setUpClass()

    def setUp(self):
        super().setUp()
        from ddict.torch import DDictDataset
        self.data = DDictDataset([(self.torch.arange(300) + i, i) for i in range(COUNT)], name="stream", d=self.d)

    def labels(self, batches):
        """The labels of each batch, whose images have to be those that were put."""
        lists = []
        for images, labels in batches:
            self.assertTrue(self.torch.equal(images, self.torch.arange(300) + labels[:, None]))
            lists.append(labels.tolist())
        return lists

    def test_the_batches_of_a_sampler_by_any_number_of_workers(self):
        from ddict.torch import DataLoader, DDictIterableDataset, DistributedSampler
        for world, batch, drop_last, shuffle in itertools.product((1, 3), (1, 7, 64, 500), (False, True), (False, True)):
            words = dict(seed=3, drop_last=drop_last, shuffle=shuffle, num_replicas=world, rank=world - 1)
            sampler = DistributedSampler(self.data, **words)
            stream = DDictIterableDataset(self.data, batch, **words)
            sampler.set_epoch(2)
            stream.set_epoch(2)
            wanted = self.labels(self.torch.utils.data.DataLoader(self.data, batch_size=batch, sampler=sampler, drop_last=drop_last))
            with self.subTest(world=world, batch=batch, drop_last=drop_last, shuffle=shuffle):
                self.assertEqual(len(stream), len(wanted))
                self.assertEqual(self.labels(stream), wanted)
                if batch > 1:
                    for workers in (1, 2) if batch == 7 and shuffle else (0,):
                        loader = DataLoader(stream, batch_size=None, num_workers=workers)
                        self.assertEqual((len(loader), self.labels(loader)), (len(wanted), wanted))

    def test_how_far_ahead_is_no_matter(self):
        from ddict.torch import DDictIterableDataset
        wanted = self.labels(DDictIterableDataset(self.data, 10, ahead=0))
        self.assertEqual(sorted(i for one in wanted for i in one), list(range(COUNT)))
        for ahead in (1, 2, 50):
            self.assertEqual(self.labels(DDictIterableDataset(self.data, 10, ahead=ahead)), wanted)
        self.assertRaises(ValueError, DDictIterableDataset, self.data, 10, ahead=-1)
        self.assertRaises(ValueError, DDictIterableDataset, self.data, 0)

    def test_the_next_are_fetched_while_the_loop_is_busy(self):
        from ddict.torch import DDictDataset, DDictIterableDataset
        slow = Slow()
        data = DDictDataset("stream", d=self.d, transform=slow)
        batches = iter(DDictIterableDataset(data, 10, ahead=3))
        next(batches)
        end = time.monotonic() + 30
        while len(slow.calls) < 40 and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(len(slow.calls), 40)
        self.assertNotIn(threading.current_thread().name, slow.calls)
        batches.close()
        self.assertEqual([t.name for t in threading.enumerate() if t.name.startswith("ddict-ahead")], [])

    def test_single_samples(self):
        from ddict.torch import DataLoader, DDictIterableDataset
        stream = DDictIterableDataset(self.data, seed=1)
        self.assertEqual([label for _, label in stream], stream._sampler.order().tolist())
        self.assertEqual(len(stream), COUNT)
        for workers in (0, 2):
            loader = DataLoader(stream, batch_size=8, num_workers=workers)
            self.assertEqual(sorted(i for one in self.labels(loader) for i in one), list(range(COUNT)))
            self.assertRaises(TypeError, loader.state_dict)

    def test_each_sample_once_over_ranks(self):
        from ddict.torch import DDictIterableDataset
        for world in (2, 5):
            times = Counter()
            for rank in range(world):
                for one in self.labels(DDictIterableDataset(self.data, 6, num_replicas=world, rank=rank)):
                    times.update(one)
            self.assertEqual(len(times), COUNT)
            self.assertLess(sum(times.values()), COUNT + world)

    def test_workers_that_persist_learn_the_epoch(self):
        from ddict.torch import DataLoader, DDictIterableDataset
        stream = DDictIterableDataset(self.data, 20)
        for context, workers in (("fork", 2), ("spawn", 1)):
            loader = DataLoader(stream, batch_size=None, num_workers=workers, persistent_workers=True, multiprocessing_context=context)
            orders = []
            for epoch in (1, 2, 2):
                stream.set_epoch(epoch)
                orders.append([i for one in self.labels(loader) for i in one])
                stream._order()
                self.assertEqual(orders[-1], stream._sampler.order().tolist())
            self.assertNotEqual(orders[0], orders[1])
            del loader
            gc.collect()
        from multiprocessing import resource_tracker
        resource_tracker._resource_tracker._stop()

    def test_others_go_on_in_the_middle(self):
        from ddict.torch import DataLoader, DDictIterableDataset
        for workers, before, after in ((0, 2, 3), (2, 3, 1), (2, 1, 2)):
            given, states = Counter(), []
            for rank in range(before):
                stream = DDictIterableDataset(self.data, 8, seed=5, num_replicas=before, rank=rank)
                loader = DataLoader(stream, batch_size=None, num_workers=workers)
                stream.set_epoch(7)
                self.assertEqual(loader.state_dict()["done"], 0)
                for one in self.labels(itertools.islice(loader, 3)):  # the workers are ahead of that
                    given.update(one)
                states.append(loader.state_dict())
            self.assertEqual(states, [states[0]] * before)
            self.assertEqual(states[0]["done"], 24 * before)
            for rank in range(after):
                stream = DDictIterableDataset(self.data, 5, num_replicas=after, rank=rank)
                loader = DataLoader(stream, batch_size=None, num_workers=workers)
                loader.load_state_dict(json.loads(json.dumps(states[0])))
                stream.set_epoch(7)
                left, lists, lengths = len(loader), [], set()
                for one in loader:
                    lists += self.labels([one])
                    lengths.add(len(loader))
                self.assertEqual((len(lists), lengths), (left, {left}))
                self.assertEqual(len(loader), -(-(-(-COUNT // after)) // 5))  # of the next one, which is whole
                for one in lists:
                    given.update(one)
                self.assertEqual(loader.state_dict()["done"], COUNT)
                stream.set_epoch(8)
                self.assertEqual(loader.state_dict()["done"], 0)
                self.assertEqual(sum(map(len, self.labels(stream))), -(-COUNT // after))
            self.assertEqual(len(given), COUNT)
            self.assertLess(sum(given.values()), COUNT + after)

    def test_without_a_loader_it_knows_by_itself(self):
        from ddict.torch import DDictIterableDataset
        stream = DDictIterableDataset(self.data, 10)
        first = self.labels(itertools.islice(stream, 4))
        state = stream.state_dict()
        self.assertEqual(state["done"], 40)
        stream.load_state_dict(state)
        rest = self.labels(stream)
        self.assertEqual(sorted(i for one in first + rest for i in one), list(range(COUNT)))
        self.assertRaises(ValueError, DDictIterableDataset(self.data[:9], 3).load_state_dict, state)

    def test_what_fails_ends_the_loop(self):
        from ddict.torch import DDictDataset, DDictIterableDataset
        stream = DDictIterableDataset(DDictDataset("stream", d=self.d, transform=Bad()), 10, shuffle=False)
        seen = []
        with self.assertRaises(ArithmeticError):
            for _, labels in stream:
                seen += labels.tolist()
        self.assertEqual(seen, list(range(150)))
        self.d.pop(self.data.keys[25])
        seen = []
        with self.assertRaises(KeyError):
            for _, labels in DDictIterableDataset(self.data, 10, shuffle=False):
                seen += labels.tolist()
        self.assertEqual(seen, list(range(20)))

    def test_it_travels(self):
        from ddict.torch import DDictIterableDataset
        stream = DDictIterableDataset(self.data, 10, seed=9)
        stream.set_epoch(4)
        other = pickle.loads(pickle.dumps(stream))
        self.assertEqual(self.labels(other), self.labels(stream))
        other.set_epoch(5)
        self.assertEqual(stream.epoch, 4)


if __name__ == "__main__":
    unittest.main()
