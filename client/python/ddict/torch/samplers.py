# SPDX-License-Identifier: Apache-2.0
"""Which rank reads which samples, and when.

An epoch has one global order: a permutation that follows from seed, epoch and the number of samples alone. Ranks take turns in it: of W ranks, rank r gets
the elements r, r + W, r + 2 W and so on. So whatever the number of ranks, and of their workers, the first k samples that all ranks together have read
are the first k of that order; where ranks times batch size is the same, so is each step's set of samples. A state says how far the ranks
had come, and any number of ranks can go on from there.
"""

import base64
import zlib
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
from torch.utils.data import Sampler

from . import _fill

VERSION = 1   # of a state
CHUNK = 4096  # indices made to Python's integers at a time


def _place(rank: Optional[int], world: Optional[int]) -> Tuple[int, int]:
    if rank is None or world is None:
        found_rank, found_world, _ = _fill.group()
        rank, world = found_rank if rank is None else rank, found_world if world is None else world
    if not 0 <= rank < world:
        raise ValueError(f"rank {rank} of {world}")
    return rank, world


class DistributedSampler(Sampler):
    """DistributedSampler(dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False)

    As torch's own of this name, with the same arguments, order and rules: without drop_last the first samples of the order are read
    again at its end, so that all ranks have as many; with drop_last the last ones are left out. rank and num_replicas come from torch.distributed
    or else ddict.runtime. set_epoch() before each epoch.

    state_dict() and load_state_dict() go on in the middle of an epoch, on any number of ranks. state_dict(taken) wants to be told how many samples
    this rank has used of the epoch's; without, it takes those that were handed out, of which a DataLoader with workers is ahead by what it
    has prefetched. ddict.torch.DataLoader knows: use its state_dict().
    """

    def __init__(self, dataset: Any, num_replicas: Optional[int] = None, rank: Optional[int] = None, shuffle: bool = True, seed: int = 0,
                 drop_last: bool = False) -> None:
        self.rank, self.num_replicas = _place(rank, num_replicas)
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.count, self.epoch = len(dataset), 0
        self._given = 0      # by this rank, of the running pass
        self._over = False   # the pass gave all that it had
        self._reset()

    def _reset(self) -> None:
        """The next pass is whole."""
        self._done = 0  # of the global order, when the pass begins
        self._over = self._loaded_over = False

    def set_epoch(self, epoch: int) -> None:
        """set_epoch(epoch) -- of which the next pass is. One that load_state_dict() left in its middle goes on when it is named again, and is empty when it was left at its end"""
        if epoch != self.epoch:
            self.epoch = epoch
            self._reset()
        elif self._loaded_over:
            self._over = self._loaded_over = False

    def order(self) -> torch.Tensor:
        """order() -- the epoch's global order, as a tensor of indices"""
        if not self.shuffle:
            return torch.arange(self.count)
        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        return torch.randperm(self.count, generator=generator)

    def _share(self, left: int) -> int:
        """Samples for each rank where so many are left."""
        return left // self.num_replicas if self.drop_last else -(-left // self.num_replicas)

    def _mine(self) -> torch.Tensor:
        """The indices of this rank, from where the pass begins."""
        order = self.order()
        rest = order[self._done:]
        total = self._share(len(rest)) * self.num_replicas
        if total > len(rest):  # some once more, from the front: of the whole order, as torch does it
            more = total - len(rest)
            rest = torch.cat([rest, order.repeat(-(-more // len(order)))[:more]])
        return rest[self.rank:total:self.num_replicas]

    def _left(self) -> int:
        """Samples of the global order that the next pass has; or the running one, until all of it was given."""
        return self.count if self._over else self.count - self._done

    def __len__(self) -> int:
        return self._share(self._left())

    def _give(self, mine: torch.Tensor) -> Iterator[int]:
        for at in range(0, len(mine), CHUNK):
            for i in mine[at:at + CHUNK].tolist():
                self._given += 1
                yield i
        self._over = True

    def __iter__(self) -> Iterator[int]:
        if self._over:
            self._reset()
        self._given, self._loaded_over = 0, False
        return self._give(self._mine())

    def state_dict(self, taken: Optional[int] = None) -> Dict[str, Any]:
        """state_dict(taken=None) -- where the pass stands after this rank, and each other one, has used taken samples of it"""
        taken = self._given if taken is None else taken
        return {"version": VERSION, "seed": self.seed, "epoch": self.epoch, "count": self.count, "shuffle": self.shuffle,
                "done": min(self._done + taken * self.num_replicas, self.count)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """load_state_dict(state) -- the next pass goes on from there. Where the state is of the end of a pass the next one is whole, unless set_epoch() names that epoch
        again: then nothing of it is left"""
        self._check(state)
        self.seed, self.epoch, self.shuffle, self._done = state["seed"], state["epoch"], state["shuffle"], state["done"]
        self._loaded()

    def _loaded(self) -> None:
        self._given, self._over = 0, False
        self._over = self._loaded_over = len(self) == 0 < self._share(self.count)

    def _check(self, state: Dict[str, Any]) -> None:
        if state.get("version") != VERSION or ("mask" in state) != isinstance(self, LocalSampler):
            raise ValueError("this is no state of such a sampler")
        if state["count"] != self.count:
            raise ValueError(f"the state is of a data set of {state['count']} samples, this one has {self.count}")


def _nodes(d: Any, rank: int, world: int) -> List[int]:
    """For each rank the node of the dictionary on which it runs."""
    mine = d.info["node_id"]
    if world == 1 or d.info["nodes"] == 1:
        return [mine] * world
    import torch.distributed as dist
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() == world:
        all_nodes: List[Any] = [None] * world
        dist.all_gather_object(all_nodes, mine)
        return all_nodes
    from .. import runtime
    if runtime.size == world and runtime.rank == rank:
        return [int(n) for n in runtime.exchange(b"%d" % mine)]
    raise ValueError("the ranks cannot tell each other on which node they are: give nodes=, for each rank a node of the dictionary")


class LocalSampler(DistributedSampler):
    """LocalSampler(dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False, *, nodes=None, owners=None)

    As DistributedSampler, but each rank first gets samples that its own node has, in the global order, and those of other nodes when there are none left. All
    ranks have as many, and together they read every sample once, by the same rules. Which samples make a step depends on where they lie; so does
    what a state holds: a bit for each sample.

    dataset: a DDictDataset. All ranks have to make it. nodes: for each rank the node of the dictionary on which it runs (None: they ask each other); owners: for each
    sample the node that has it (None: dataset.owners()). .stats counts the samples handed out: {"local": n, "remote": n}.
    """

    def __init__(self, dataset: Any, num_replicas: Optional[int] = None, rank: Optional[int] = None, shuffle: bool = True, seed: int = 0,
                 drop_last: bool = False, *, nodes: Optional[List[int]] = None, owners: Optional[List[int]] = None) -> None:
        super().__init__(dataset, num_replicas, rank, shuffle, seed, drop_last)
        self.nodes = list(nodes) if nodes is not None else _nodes(dataset.dict, self.rank, self.num_replicas)
        self.owners = torch.tensor(dataset.owners() if owners is None else owners, dtype=torch.int32)
        if len(self.nodes) != self.num_replicas or len(self.owners) != self.count:
            raise ValueError(f"{len(self.nodes)} nodes for {self.num_replicas} ranks, {len(self.owners)} owners for {self.count} samples")
        self.stats = {"local": 0, "remote": 0}

    def _reset(self) -> None:
        super()._reset()
        self._mask = torch.zeros(self.count, dtype=torch.bool)  # read before the pass begins

    def _plan(self) -> List[Tuple[torch.Tensor, torch.Tensor]]:
        """For each rank its own node's samples, and then the others."""
        order = self.order()
        rest = order[~self._mask[order]]
        share = self._share(len(rest))
        more = share * self.num_replicas - len(rest)
        rest = torch.cat([rest, order.repeat(-(-more // len(order)))[:more]]) if more > 0 else rest[:share * self.num_replicas]
        owner, taken = self.owners[rest], torch.zeros(len(rest), dtype=torch.bool)
        near: List[Any] = [None] * self.num_replicas
        for node in sorted(set(self.nodes)):
            ranks = [r for r, n in enumerate(self.nodes) if n == node]
            at = (owner == node).nonzero().flatten()[:share * len(ranks)]
            taken[at] = True
            for k, r in enumerate(ranks):
                near[r] = rest[at[k::len(ranks)]]
        left, plan, start = rest[~taken], [], 0
        for mine in near:
            end = start + share - len(mine)
            plan.append((mine, left[start:end]))
            start = end
        return plan

    def _mine(self) -> torch.Tensor:
        near, far = self._plan()[self.rank]
        self._near = len(near)
        return torch.cat([near, far])

    def _give(self, mine: torch.Tensor) -> Iterator[int]:
        near = self._near
        for i in super()._give(mine):
            self.stats["local" if self._given <= near else "remote"] += 1
            yield i

    def _left(self) -> int:
        return self.count if self._over else self.count - int(self._mask.sum())

    def state_dict(self, taken: Optional[int] = None) -> Dict[str, Any]:
        state = super().state_dict(taken)
        mask = self._mask.clone()
        for near, far in self._plan():
            mask[torch.cat([near, far])[:self._given if taken is None else taken]] = True
        bits = torch.zeros(-(-self.count // 8) * 8, dtype=torch.uint8)
        bits[:self.count] = mask
        packed = (bits.view(-1, 8) << torch.arange(8, dtype=torch.uint8)).sum(1)
        state["mask"] = base64.b64encode(zlib.compress(bytes(packed.tolist()))).decode()
        del state["done"]
        return state

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._check(state)
        self.seed, self.epoch, self.shuffle = state["seed"], state["epoch"], state["shuffle"]
        packed = torch.tensor(list(zlib.decompress(base64.b64decode(state["mask"]))), dtype=torch.uint8)
        self._mask = (packed[:, None] >> torch.arange(8, dtype=torch.uint8) & 1).flatten()[:self.count].bool()
        self._loaded()
