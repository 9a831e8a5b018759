# SPDX-License-Identifier: Apache-2.0
"""init_method="ddict://": the ranks of a process group meet in the dictionary.

Their key says which round of this name they are in, and who has come. A rank that comes begins a new round where the last one is complete, has this rank already, or
has a rank that is dead: so a program may make group after group, and may run again in the same dictionary, and no rank reads what those of an earlier group left.
"""

import os
import random
from urllib.parse import parse_qs, unquote, urlsplit

import torch.distributed as dist

from .. import DDict
from .._ddict import LostError, TimeoutError
from .._holders import Named
from .store import Store

_ASKED = 8     # ranks of a round that is not complete are asked for, whether they live
_ANSWER_S = 5  # for the answer; who does not answer lives
_WORDS = {"rank", "world_size", "dict"}


class _Meeting(Named):
    _kind = "torch"

    def _lives(self, who):
        try:
            return self._d._alive(*who[:2], _ANSWER_S)
        except (TimeoutError, LostError):  # nobody knows
            return True

    def _is_over(self, there, rank):
        """Whether this rank can't join the round that is there"""
        ranks = there["ranks"]
        return (len(ranks) == there["size"] or str(rank) in ranks
                or not all(map(self._lives, random.sample(list(ranks.values()), min(_ASKED, len(ranks))))))

    def join(self, rank, size):
        """The number of the round that this rank is in, from 1 on"""
        me, version, there = self._me(), *self._read()
        while there is None or there["ranks"].get(str(rank)) != me:
            if there is None or self._is_over(there, rank):
                there = {"round": there["round"] + 1 if there else 1, "size": size, "ranks": {}}
            if there["size"] != size:
                raise ValueError(f"ddict://{self.name}: {len(there['ranks'])} of {there['size']} ranks are there, and rank {rank} says that the world has {size}")
            self._swap(version, {**there, "ranks": {**there["ranks"], str(rank): me}})
            version, there = self._read()
        return there["round"]


def _number(word, query, environment):
    """What the URL says, else the environment; None: neither does."""
    text = query.get(word, "-1")
    if text == "-1":
        text = os.environ.get(environment)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"ddict://: {word} is {text!r}, which is no number") from None


def _place(query):
    """(rank, size) of this process"""
    rank, size = _number("rank", query, "RANK"), _number("world_size", query, "WORLD_SIZE")
    if rank is None or size is None:
        from .. import runtime
        rank, size = runtime.rank if rank is None else rank, runtime.size if size is None else size
    if not 0 <= rank < size:
        raise ValueError(f"ddict://: rank {rank} of {size}: ranks are 0 to world_size - 1")
    return rank, size


def _group(size):
    """What only these ranks have, if they were started together; else a name for all that meet without one"""
    if "TORCHELASTIC_RUN_ID" in os.environ:  # not runtime.group, in which one agent's restarts count: here a round begins when it must
        return ".".join(["torchrun", *(os.environ.get(word, "-") for word in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "DDICT_TORCH_ROUND"))])
    from .. import runtime
    return runtime.group if runtime.size == size else "default"


def rendezvous(url, timeout=None, **_):
    """As torch.distributed.register_rendezvous_handler() wants it: yields (store, rank, size).

    ddict://[NAME][?rank=R&world_size=W&dict=DICTIONARY]. NAME: the same in all ranks that meet; without one those that were started together do. rank, world_size:
    otherwise $RANK and $WORLD_SIZE, or what ddict.runtime finds. dict: the name of the dictionary, otherwise the job's.
    """
    parts = urlsplit(url)
    query = {word: values[-1] for word, values in parse_qs(parts.query, keep_blank_values=True).items()}
    if query.keys() - _WORDS:
        raise ValueError(f"{url}: {', '.join(sorted(query.keys() - _WORDS))}: no such word; there are rank, world_size and dict")
    rank, size = _place(query)
    d = DDict(query["dict"]) if "dict" in query else None
    name = unquote(parts.netloc + parts.path) or _group(size)
    yield Store(f"{name}#{_Meeting(name, d).join(rank, size)}", timeout, d), rank, size
    raise RuntimeError("ddict://: a group meets once; for another one call init_process_group() again")


def register():
    """Tell torch of ddict://, once."""
    try:
        dist.register_rendezvous_handler("ddict", rendezvous)
    except RuntimeError:  # it is there, as after a reload of this module
        pass
