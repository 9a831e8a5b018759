# SPDX-License-Identifier: Apache-2.0
"""Samplers: which rank reads which samples, and when.

An epoch has one global order: a permutation that depends only on seed, epoch and the number of samples. Ranks take turns: of W ranks, rank r gets
the elements r, r + W, r + 2 W and so on. So for any number of ranks and workers, the first k samples that all ranks together have read are the first k of
that order; if ranks times batch size is the same, so is the set of samples of each step. A state says how far the ranks were, and any number of
ranks can go on from there.
"""

import base64
import zlib
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
from torch.utils.data import Sampler

from . import _fill

VERSION = 1   # version of a state
CHUNK = 4096  # indices converted to Python's integers at a time


def _place(rank: Optional[int], world: Optional[int]) -> Tuple[int, int]:
    if rank is None or world is None:
        found_rank, found_world, _ = _fill.group()
        rank, world = found_rank if rank is None else rank, found_world if world is None else world
    if not 0 <= rank < world:
        raise ValueError(f"rank {rank} of {world}")
    return rank, world


class DistributedSampler(Sampler):
    """DistributedSampler(dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False)

    As torch's sampler of this name, with the same arguments, order and rules: without drop_last the first samples of the order are read
    again at its end, so that all ranks read the same number; with drop_last the last samples are left out. rank and num_replicas come from
    torch.distributed, or else from ddict.runtime. Call set_epoch() before each epoch.

    state_dict() and load_state_dict() continue in the middle of an epoch, on any number of ranks. taken of state_dict(taken) is the number of samples
    of the epoch that this rank has used; without it, the number of samples handed out counts, which for a DataLoader with workers includes
    prefetched ones. ddict.torch.DataLoader knows the right number: use its state_dict().
    """

    def __init__(self, dataset: Any, num_replicas: Optional[int] = None, rank: Optional[int] = None, shuffle: bool = True, seed: int = 0,
                 drop_last: bool = False) -> None:
        self.rank, self.num_replicas = _place(rank, num_replicas)
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.count, self.epoch = len(dataset), 0
        self._given = 0      # samples of the running pass that this rank was given
        self._over = False   # the pass has ended
        self._reset()

    def _reset(self) -> None:
        """Make the next pass whole."""
        self._done = 0  # samples of the global order that were read before the pass
        self._over = self._loaded_over = False

    def set_epoch(self, epoch: int) -> None:
        """set_epoch(epoch) -- set the epoch of the next pass. If it is the epoch that load_state_dict() left in the middle, that one goes on; if it had ended, the pass is empty"""
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
        """The samples of each rank if `left` samples are left."""
        return left // self.num_replicas if self.drop_last else -(-left // self.num_replicas)

    def _mine(self) -> torch.Tensor:
        """The indices of this rank from the beginning of the pass."""
        order = self.order()
        rest = order[self._done:]
        total = self._share(len(rest)) * self.num_replicas
        if total > len(rest):  # repeat some from the front of the whole order, as torch does
            more = total - len(rest)
            rest = torch.cat([rest, order.repeat(-(-more // len(order)))[:more]])
        return rest[self.rank:total:self.num_replicas]

    def _left(self) -> int:
        """Samples of the global order in the running pass until it has ended, else in the next one."""
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
        """state_dict(taken=None) -- the state of the pass after every rank has used `taken` samples of it"""
        taken = self._given if taken is None else taken
        return {"version": VERSION, "seed": self.seed, "epoch": self.epoch, "count": self.count, "shuffle": self.shuffle,
                "done": min(self._done + taken * self.num_replicas, self.count)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """load_state_dict(state) -- continue from state with the next pass. If the state is of the end of a pass, the next one is whole, unless set_epoch() sets the
        same epoch again: then it is empty"""
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
    """For each rank the number of its node in the dictionary."""
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

    As DistributedSampler, but each rank first gets the samples of its own node, in the global order, and after them samples of other nodes. All
    ranks read the same number of samples, and together they read every sample once, by the same rules. The samples of a step depend on where the samples are;
    therefore a state has a bit for each sample.

    dataset: a DDictDataset. All ranks have to make the sampler. nodes: for each rank the number of its node in the dictionary (None: the ranks exchange them);
    owners: for each sample the number of the node that has it (None: dataset.owners()). .stats counts the samples handed out: {"local": n, "remote": n}.
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
        self._mask = torch.zeros(self.count, dtype=torch.bool)  # samples read before the pass

    def _plan(self) -> List[Tuple[torch.Tensor, torch.Tensor]]:
        """For each rank the samples of its own node, and the others it reads after them."""
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
