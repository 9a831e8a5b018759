# SPDX-License-Identifier: Apache-2.0
"""DataLoader: torch's, with batches made by collate(), and with a state from which to go on."""

from typing import Any, Dict, Iterator, Optional

import torch.utils.data

from ._batch import collate
from .iterable import DDictIterableDataset
from .samplers import DistributedSampler

_COLLATE_FN = 5  # its position among the arguments after dataset


class DataLoader(torch.utils.data.DataLoader):
    """DataLoader(dataset, batch_size=1, ..., collate_fn=ddict.torch.collate, ...)

    torch's DataLoader with all its arguments. With a sampler of ddict.torch, or a DDictIterableDataset of batches, state_dict() tells which samples were used: those of
    all batches that the loop was given, not those that workers have prefetched.
    """

    def __init__(self, dataset: Any, *args: Any, **kwds: Any) -> None:
        batched = (args[0] if args else kwds.get("batch_size", 1)) is not None or kwds.get("batch_sampler") is not None
        if batched and len(args) <= _COLLATE_FN and kwds.get("collate_fn") is None:
            kwds["collate_fn"] = collate
        self._passed, self._epoch = 0, None
        self._running: Optional[int] = None  # batches of the pass under way
        self._turn: Any = None  # the iterator of that pass
        super().__init__(dataset, *args, **kwds)

    def _pass(self, batches: Iterator[Any], length: Optional[int]) -> Iterator[Any]:
        order = self._order()
        turn = self._turn = object()
        over, self._running = False, length
        try:
            for batch in batches:
                self._passed += 1
                yield batch
            over = True
        finally:
            if self._turn is turn:
                self._running = None
                if isinstance(order, (DDictIterableDataset, DistributedSampler)):  # they cannot tell themselves, because workers read ahead
                    order._over = over

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        order = self._order()
        if isinstance(order, DDictIterableDataset):
            order._begin()
        self._passed, self._epoch = 0, getattr(order, "epoch", None)
        length = super().__len__() if hasattr(order, "load_state_dict") else None
        return self._pass(super().__iter__(), length)

    def __len__(self) -> int:
        """The number of batches of the pass under way, else of the next one"""
        return super().__len__() if self._running is None else self._running

    def _order(self) -> Any:
        return self.dataset if isinstance(self.dataset, DDictIterableDataset) else self.sampler

    def state_dict(self) -> Dict[str, Any]:
        """state_dict() -- the state after the batch that was given last"""
        order = self._order()
        batch = 1 if order is self.dataset and order.batch_size else self.batch_size  # state_dict() of the order counts batches or samples
        if not hasattr(order, "load_state_dict") or not batch or (order is self.dataset and not order.batch_size):
            raise TypeError("a state is known of batches of a sampler of ddict.torch, and of a DDictIterableDataset with a batch_size")
        passed = self._passed if order.epoch == self._epoch else 0
        return order.state_dict(passed * batch)

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """load_state_dict(state) -- continue from state with the next pass. If the state is of the end of a pass, the next one is whole, unless set_epoch() sets the
        same epoch again: then it is empty"""
        self._order().load_state_dict(state)
        self._passed, self._running, self._turn = 0, None, None
