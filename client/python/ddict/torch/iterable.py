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

_EPOCH, _DONE, _SEED, _SHUFFLE = range(4)  # indices of _where


class DDictIterableDataset(IterableDataset):
    """DDictIterableDataset(dataset, batch_size=None, *, shuffle=True, seed=0, drop_last=False, collate_fn=collate, ahead=2, num_replicas=None, rank=None)

    The samples of a DDictDataset, or of data that one can be made of, as an iterable of this rank's batches: for DataLoader(it, batch_size=None, num_workers=N), or for
    direct iteration. Order, shares and rules are those of DistributedSampler and batch_size: the batches and their order are the same for any number of workers, each of
    which reads a share of the batches. A thread fetches and collates `ahead` batches while the loop works on another. drop_last leaves out incomplete shares of ranks
    and incomplete batches.

    With batch_size None it gives single samples, which workers read in turn: for a DataLoader that makes the batches.

    Call set_epoch() before each epoch; persistent workers learn of it, too. state_dict() and load_state_dict() continue in the middle of an epoch, on any number of ranks
    and workers; ddict.torch.DataLoader has both, and knows how many batches were used.
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
        self._where = torch.tensor([0, 0, seed, shuffle], dtype=torch.int64).share_memory_()  # shared, so that persistent workers see changes
        self._given = 0  # batches that this process's pass has given
        self._over = self._loaded_over = False  # the pass has ended; the loaded state was of an ended pass

    def _begin(self) -> None:
        """Begin a pass, in the process that asks for batches. After a pass that has ended, the next one is whole."""
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
        """the epoch of the next pass"""
        return int(self._where[_EPOCH])

    def set_epoch(self, epoch: int) -> None:
        """set_epoch(epoch) -- set the epoch of the next pass. If it is the epoch that load_state_dict() left in the middle, that one goes on"""
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
        """The result of _read() for each part; a thread reads `ahead` parts in advance"""
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
        finally:  # also if the loop ends early
            thread.shutdown(cancel_futures=True)

    def _pass(self, parts: Any) -> Iterator[Any]:
        for ready in self._fetched(parts):
            given: List[Any] = [ready] if self.batch_size is not None else ready
            for one in given:
                self._given += 1
                yield one
        self._over = True

    def state_dict(self, taken: Optional[int] = None) -> Dict[str, Any]:
        """state_dict(taken=None) -- the state of the pass after every rank has used `taken` batches of it (or samples, without batch_size); None: the number that this
        process's own loop was given. If a DataLoader with workers makes the batches, samples come in another order, which no state can describe"""
        taken = self._given if taken is None else taken
        return self._order().state_dict(taken * (self.batch_size or 1))

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """load_state_dict(state) -- continue from state with the next pass; the one after it is whole. As DistributedSampler's"""
        self._sampler.load_state_dict(state)
        self._where.copy_(torch.tensor([state["epoch"], state["done"], state["seed"], state["shuffle"]], dtype=torch.int64))
        self._given = 0
        self._over = self._loaded_over = len(self._order()) == 0 < len(self.dataset)
