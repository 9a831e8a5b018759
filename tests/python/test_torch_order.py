# SPDX-License-Identifier: Apache-2.0
"""
Orders of ddict.torch: its samplers give what torch's give; every sample of an epoch is read once, by any number of ranks, also by those that go on where others
stopped, and the sampler that prefers the own node does as it says, over two nodes.
"""

import itertools
import json
import random
import unittest
from collections import Counter

from harness import DictTest, module_or_skip


class Count:
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return i


class Order(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.torch = module_or_skip("torch")
        cls.torch.set_num_threads(1)
        import torch.utils.data

    def ranks(self, cls, count, world, **words):
        return [cls(Count(count), world, rank, **words) for rank in range(world)]

    def read_once(self, given, count, world, drop_last=False):
        """given: indices of the whole epoch"""
        times = Counter(given)
        if drop_last:
            self.assertLessEqual(max(times.values(), default=0), 1)
            self.assertGreater(len(times), count - world)
        else:
            self.assertEqual(len(times), count)
            self.assertLess(sum(times.values()), count + world)

    def test_the_same_as_torch_s(self):
        from ddict.torch import DistributedSampler
        for count, world, drop_last, shuffle, epoch in itertools.product((1, 2, 5, 10, 101), (1, 2, 3, 7, 11), (0, 1), (0, 1), (0, 1)):
            words = dict(seed=5, drop_last=bool(drop_last), shuffle=bool(shuffle))
            for rank in range(world):
                a = self.torch.utils.data.DistributedSampler(Count(count), world, rank, **words)
                b = DistributedSampler(Count(count), world, rank, **words)
                a.set_epoch(epoch)
                b.set_epoch(epoch)
                self.assertEqual((list(a), len(a)), (list(b), len(b)))
        self.assertRaises(ValueError, DistributedSampler, Count(3), 2, 2)

    def test_any_number_of_ranks_reads_one_order(self):
        from ddict.torch import DistributedSampler
        for world in (1, 2, 3, 6):
            samplers = self.ranks(DistributedSampler, 600, world, seed=3)
            order = samplers[0].order().tolist()
            lists = [list(s) for s in samplers]
            for k in (0, 1, 7, 100):
                self.assertEqual(sorted(i for one in lists for i in one[:k]), sorted(order[:k * world]))

    def test_others_go_on_in_the_middle(self):
        from ddict.torch import DistributedSampler, LocalSampler
        random.seed(2)
        for count, before, after, drop_last, local in itertools.product((7, 100, 1001), (1, 3, 4), (1, 2, 5), (False, True), (False, True)):
            with self.subTest(count=count, before=before, after=after, drop_last=drop_last, local=local):
                owners = [random.randrange(3) for _ in range(count)]
                cls, words = LocalSampler if local else DistributedSampler, lambda world: dict(nodes=[r % 2 for r in range(world)], owners=owners) if local else {}
                given, taken = [], count // before // 3
                first = self.ranks(cls, count, before, seed=1, drop_last=drop_last, **words(before))
                states = []
                for s in first:
                    s.set_epoch(4)
                    passes = iter(s)
                    given += itertools.islice(passes, taken)
                    states.append(s.state_dict())
                    self.assertEqual(states[-1], s.state_dict(taken))
                self.assertEqual([states[0]] * before, states)
                state = json.loads(json.dumps(states[0]))
                then, handed = self.ranks(cls, count, after, drop_last=drop_last, **words(after)), []
                for s in then:
                    s.load_state_dict(state)
                    s.set_epoch(4)
                    length = len(s)
                    mine = list(s)
                    self.assertEqual(len(mine), length)
                    handed.append(length)
                    given += mine
                self.assertEqual(len(set(handed)), 1)
                self.read_once(given, count, after, drop_last)
                for s in then:  # the next pass is whole, of the same epoch or another
                    self.assertEqual(len(list(s)), count // after if drop_last else -(-count // after))
                    s.load_state_dict(state)
                    s.set_epoch(5)
                    self.assertEqual(len(s), count // after if drop_last else -(-count // after))

    def test_a_state_of_something_else_is_refused(self):
        from ddict.torch import DistributedSampler, LocalSampler
        state = DistributedSampler(Count(9), 1, 0).state_dict()
        self.assertRaises(ValueError, DistributedSampler(Count(8), 1, 0).load_state_dict, state)
        self.assertRaises(ValueError, LocalSampler(Count(9), 1, 0, nodes=[0], owners=[0] * 9).load_state_dict, state)
        self.assertRaises(ValueError, DistributedSampler(Count(9), 1, 0).load_state_dict, {})

    def test_the_own_node_first(self):
        from ddict.torch import LocalSampler
        random.seed(1)
        for count, nodes, drop_last, shuffle in itertools.product((0, 1, 7, 100, 1001), ([0], [0, 0], [0, 1], [0, 0, 1], [0, 1, 2, 2, 2], [3, 3]),
                                                                  (False, True), (False, True)):
            owners = [random.choice([0, 0, 1, 2]) for _ in range(count)]
            given = []
            for s in self.ranks(LocalSampler, count, len(nodes), seed=3, nodes=nodes, owners=owners, drop_last=drop_last, shuffle=shuffle):
                mine = list(s)
                self.assertEqual(len(mine), len(s))
                own = [owners[i] == nodes[s.rank] for i in mine]
                local = s.stats["local"]
                self.assertEqual(s.stats["remote"], len(mine) - local)
                self.assertTrue(all(own[:local]))
                given += mine
                if count % len(nodes) == 0:  # all that the node has, shared by its ranks, as far as that is theirs to read
                    before = nodes[:s.rank].count(nodes[s.rank])
                    self.assertEqual(local, min(len(mine), -(-(owners.count(nodes[s.rank]) - before) // nodes.count(nodes[s.rank]))))
            self.read_once(given, count, len(nodes), drop_last)

    def test_a_loader_knows_what_was_used(self):
        from ddict.torch import DataLoader, DistributedSampler
        for workers in (0, 2):
            samplers = self.ranks(DistributedSampler, 100, 2)
            loaders = [DataLoader(Count(100), batch_size=8, sampler=s, num_workers=workers) for s in samplers]
            given, states = [], []
            for loader in loaders:
                loader.sampler.set_epoch(1)
                self.assertEqual(loader.state_dict()["done"], 0)
                for batch in itertools.islice(loader, 3):  # the workers are ahead of that
                    given += batch.tolist()
                states.append(loader.state_dict())
            self.assertEqual(states[0], states[1])
            self.assertEqual(states[0]["done"], 48)
            loader = DataLoader(Count(100), 10, sampler=DistributedSampler(Count(100), 1, 0), num_workers=workers)
            loader.load_state_dict(states[0])
            self.assertEqual(len(loader), 6)
            for batch in loader:
                given += batch.tolist()
            self.assertEqual(sorted(given), list(range(100)))
            self.assertEqual(loader.state_dict()["done"], 100)
            loader.sampler.set_epoch(2)
            self.assertEqual((loader.state_dict()["done"], len(loader)), (0, 10))
        self.assertRaises(TypeError, DataLoader(Count(9)).state_dict)
        whole = DataLoader(Count(9), batch_size=None, sampler=range(4))
        self.assertEqual(list(whole), [0, 1, 2, 3])


class TwoNodes(DictTest):
    managers, nodes = 4, 2

    @classmethod
    def setUpClass(cls):
        cls.torch = module_or_skip("torch")
        cls.torch.set_num_threads(1)
        import torch.utils.data
        super().setUpClass()

    def gets(self, d):
        """Values read on their own node, and those that a manager sent to another."""
        return sum(s["gets_local"] for s in d.stats), sum(s["gets_remote"] for s in d.stats)

    def test_batches_from_both_nodes(self):
        from ddict.torch import DDictDataset, DataLoader, LocalSampler
        torch = self.torch
        images = torch.randint(0, 256, (400, 28, 28), dtype=torch.uint8)
        data = DDictDataset([(image, i) for i, image in enumerate(images)], name="both", d=self.d)
        owners = data.owners()
        self.assertEqual(set(owners), {0, 1})
        self.assertEqual([self.d.owner(key) % 2 for key in data.keys], owners)
        for workers in (0, 2):
            seen = []
            for got, labels in DataLoader(data, batch_size=64, shuffle=True, num_workers=workers):
                self.assertTrue(torch.equal(got, images[labels]))
                seen += labels.tolist()
            self.assertEqual(sorted(seen), list(range(400)))
        sampler = LocalSampler(data, 1, 0, nodes=[0])
        before = self.gets(self.d)
        loader = DataLoader(data, batch_size=50, sampler=sampler)
        for got, labels in itertools.islice(loader, owners.count(0) // 50):
            self.assertTrue(torch.equal(got, images[labels]))
        self.assertEqual([b - a for a, b in zip(before, self.gets(self.d))], [owners.count(0) // 50 * 50, 0])
        self.assertEqual(sampler.stats, {"local": owners.count(0) // 50 * 50, "remote": 0})
        before = self.gets(self.d)
        sampler = LocalSampler(data, 1, 0, nodes=[0])
        for got, labels in DataLoader(data, batch_size=50, sampler=sampler):
            self.assertTrue(torch.equal(got, images[labels]))
        self.assertEqual(sampler.stats, {"local": owners.count(0), "remote": owners.count(1)})
        self.assertEqual([b - a for a, b in zip(before, self.gets(self.d))], [owners.count(0), owners.count(1)])

    def test_both_nodes_put_and_read(self):
        from ddict.torch import DDictDataset
        other = self.dictionary.attach(1)
        try:
            DDictDataset([self.torch.ones(100) * i for i in range(200)], name="put", d=other)
            data = DDictDataset("put", d=self.d)
            self.assertEqual([int(t[99]) for t in data], list(range(200)))
            data.stop()
            self.assertEqual(len(other), 0)
        finally:
            other.detach()


if __name__ == "__main__":
    unittest.main()
