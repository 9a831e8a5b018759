# SPDX-License-Identifier: Apache-2.0
"""DDictIterableDataset: an epoch as a stream, read ahead in the background."""

import itertools
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional

import torch
from torch.utils.data import IterableDataset, get_worker_info

from ._batch import collate
from .dataset import AT_ONCE, DDictDataset, own_way
from .samplers import DistributedSampler

_EPOCH, _DONE, _SEED, _SHUFFLE = range(4)  # of _where


class DDictIterableDataset(IterableDataset):
    """DDictIterableDataset(dataset, batch_size=None, *, shuffle=True, seed=0, drop_last=False, collate_fn=collate, ahead=2, num_replicas=None, rank=None)

    The samples of a DDictDataset, or of what one can be made of, as an iterable of this rank's batches: for DataLoader(it, batch_size=None, num_workers=N), or to be
    iterated over as it is. Order, shares and rules are those of DistributedSampler and batch_size: the batches are the same, and come in the same order,
    whatever the number of workers, each of which reads its share of them. A thread has `ahead` of them fetched and collated while the loop is busy with another. drop_last leaves out
    what would not be whole, of the ranks' shares and of batches.

    With batch_size None it gives single samples, and workers take turns in them: for a DataLoader that makes the batches.

    set_epoch() before each epoch, which persistent workers learn, too. state_dict() and load_state_dict() go on in the middle of an epoch, on any number of ranks and
    workers; ddict.torch.DataLoader has both and knows how many batches were used.
    """

    def __init__(self, dataset: Any, batch_size: Optional[int] = None, *, shuffle: bool = True, seed: int = 0, drop_last: bool = False,
                 collate_fn: Optional[Callable] = None, ahead: int = 2, num_replicas: Optional[int] = None, rank: Optional[int] = None) -> None:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"a batch of {batch_size} samples")
        if ahead < 0:
            raise ValueError(f"{ahead} batches ahead")
        self.dataset = dataset if isinstance(dataset, DDictDataset) else DDictDataset(dataset)
        self.batch_size, self.drop_last, self.ahead = batch_size, drop_last, ahead
        self.collate_fn = collate if collate_fn is None else collate_fn
        self._sampler = DistributedSampler(self.dataset, num_replicas, rank, shuffle, seed, drop_last)
        self._where = torch.tensor([0, 0, seed, shuffle], dtype=torch.int64).share_memory_()  # workers that persist see it change
        self._given = 0  # of this process's pass
        self._over = self._loaded_over = False  # the pass gave all that it had; the state that was loaded says so

    def _begin(self) -> None:
        """A pass begins, in the process that asks for batches: after one that is over the next is whole."""
        if self._over:
            self._where[_DONE] = 0
        self._over = self._loaded_over = False

    def _order(self) -> DistributedSampler:
        s, where = self._sampler, self._where.tolist()
        s.epoch, s._done, s.seed, s.shuffle = where[_EPOCH], where[_DONE], where[_SEED], bool(where[_SHUFFLE])
        s._over = False
        return s

    @property
    def epoch(self) -> int:
        """the epoch that the next pass is of"""
        return int(self._where[_EPOCH])

    def set_epoch(self, epoch: int) -> None:
        """set_epoch(epoch) -- of which the next pass is. One that load_state_dict() left in its middle goes on when it is named again"""
        if epoch != self.epoch:
            self._where[_EPOCH], self._where[_DONE] = epoch, 0
            self._over = self._loaded_over = False
        elif self._loaded_over:
            self._over = self._loaded_over = False

    def __len__(self) -> int:
        order = self._order()
        samples = order._share(order.count) if self._over else len(order)
        return self._count(samples)

    def _count(self, samples: int) -> int:
        if self.batch_size is None:
            return samples
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is None:
            self._begin()
        mine = self._order()._mine()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        self._given = 0
        if self.batch_size is None:
            return self._pass(mine[number::workers].split(AT_ONCE))
        return self._pass(mine.split(self.batch_size)[:self._count(len(mine))][number::workers])

    def _read(self, indices: torch.Tensor) -> Any:
        if self.batch_size is None:
            return self.dataset.__getitems__(indices.tolist())
        ours = self.collate_fn is collate and not own_way(type(self.dataset))
        return self.collate_fn(self.dataset._samples(indices.tolist(), True) if ours else self.dataset.__getitems__(indices.tolist()))

    def _fetched(self, parts: Any) -> Iterator[Any]:
        """What _read() makes of each part, by a thread that is `ahead` of it"""
        if self.ahead == 0:
            yield from map(self._read, parts)
            return
        rest, under_way = iter(parts), deque()  # type: Any, Deque[Any]
        thread = ThreadPoolExecutor(1, "ddict-ahead")
        try:
            under_way.extend(thread.submit(self._read, part) for part in itertools.islice(rest, self.ahead))
            while under_way:
                ready = under_way.popleft().result()
                under_way.extend(thread.submit(self._read, part) for part in itertools.islice(rest, 1))
                yield ready
        finally:  # also where the loop ends early
            thread.shutdown(cancel_futures=True)

    def _pass(self, parts: Any) -> Iterator[Any]:
        for ready in self._fetched(parts):
            given: List[Any] = [ready] if self.batch_size is not None else ready
            for one in given:
                self._given += 1
                yield one
        self._over = True

    def state_dict(self, taken: Optional[int] = None) -> Dict[str, Any]:
        """state_dict(taken=None) -- where the pass stands after this rank, and each other one, has used so many batches of it (or samples, without batch_size); None: those that this
        process's own loop was given. With workers the samples of a DataLoader that makes the batches come in another order, and no state tells them"""
        taken = self._given if taken is None else taken
        return self._order().state_dict(taken * (self.batch_size or 1))

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """load_state_dict(state) -- the next pass goes on from there; the one after it is whole. As DistributedSampler's"""
        self._sampler.load_state_dict(state)
        self._where.copy_(torch.tensor([state["epoch"], state["done"], state["seed"], state["shuffle"]], dtype=torch.int64))
        self._given = 0
        self._over = self._loaded_over = len(self._order()) == 0 < len(self.dataset)
