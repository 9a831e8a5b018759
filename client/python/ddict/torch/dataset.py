# SPDX-License-Identifier: Apache-2.0
"""DDictDataset: samples in the dictionary."""

import operator
import threading
from array import array
from collections.abc import Sequence
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch.utils.data

from .. import DDict, RawKey, Set, key_bytes
from . import _batch, _fill, _sets

AT_ONCE = 64  # samples that iteration fetches together


class DDictDataset(torch.utils.data.Dataset):
    """DDictDataset(dataset, *, keys=None, transform=None, target_transform=None, name=None, d=None, timeout=None)

    A map-style data set whose samples are in a dictionary. dataset is

    - a DDict that has the samples, and keys says which are used, in this order (None: all, sorted by their stored form);
    - a str: the name of a set, put there by `ddict load`, srun --ddict-load or another process; or a ddict.Set. Its samples are values, or pairs (value, label) where
      the set has labels;
    - any other iterable: its samples are put into the dictionary d (None: the job's) as a set called name. All processes that make the same one share the work, and
      return when all samples are there; nothing is read again where the set is there already. One that can be indexed is put in parallel, another
      iterable by whoever comes first. Without a name it is a set of this group of ranks alone.

    transform is called with each value, target_transform with each label. timeout: seconds after which another process is taken for dead that loads and makes
    no progress (None: 120).

    A sample belongs to the caller; those of one batch share a block of memory.
    """

    def __init__(self, dataset: Any, *, keys: Optional[Any] = None, transform: Optional[Callable] = None, target_transform: Optional[Callable] = None,
                 name: Optional[str] = None, d: Optional[DDict] = None, timeout: Optional[float] = None) -> None:
        self.transform, self.target_transform = transform, target_transform
        self.name, self.classes = name, None
        self.labels: Any = None  # an array of one for each sample, or None
        self.found: Dict[str, Any] = {}
        if isinstance(dataset, DDict):
            if d is not None or name is not None:
                raise TypeError("name and d are for data sets that are put into a dictionary")
            self.dict = dataset
            self.keys: Any = keys if isinstance(keys, Sequence) or hasattr(keys, "__getitem__") else (
                sorted(_plain_keys(dataset), key=key_bytes) if keys is None else list(keys))
            return
        if keys is not None:
            raise TypeError("keys are for a DDict that has the samples already")
        self.dict = dataset.d if isinstance(dataset, Set) else _fill.dictionary(d)
        if isinstance(dataset, Set):
            self.name = dataset.name
        elif isinstance(dataset, str):
            self.name = dataset
        else:
            self.name = _fill.fresh_name() if name is None else name
            if _sets.find(self.dict, self.name) is None:
                _put(self.dict, self.name, dataset, timeout)
        self._open()

    def _open(self) -> None:
        found = _sets.find(self.dict, self.name)  # type: ignore[arg-type]
        if found is None:
            have = _sets.names(self.dict)
            raise KeyError(f"the dictionary has no set {self.name!r}; it has {', '.join(map(repr, have)) if have else 'none'}")
        self.found = found
        self.keys = _sets.keys_of(self.dict, found)
        self.classes = found.get("classes")
        self.labels = _sets.labels_of(self.dict, found) if found.get("parts") else None

    def stop(self) -> None:
        """stop() -- remove the set and its samples from the dictionary; of several processes one does it. Not for data sets over a DDict"""
        if not self.found:
            raise ValueError("this data set is over a dictionary of yours: remove what is yours there")
        _sets.remove(self.dict, self.name)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.keys)

    def _index(self, i: Any) -> int:
        n = len(self.keys)
        try:
            i = operator.index(i)
        except TypeError:
            raise TypeError(f"samples are asked for by their number, not by {i!r}") from None
        if not -n <= i < n:
            raise IndexError(f"sample {i} of {n}")
        return i + n if i < 0 else i

    def _samples(self, indices: List[int]) -> List[Any]:
        keys, labels = self.keys, self.labels
        if len(indices) > 4 and isinstance(keys, _sets.Numbered):  # as Numbered does it
            prefix = keys.prefix
            wanted = [f"{prefix}{i}" for i in indices]
        else:
            wanted = [keys[i] for i in indices]
        mine = None if labels is None else [labels[i] for i in indices]
        if self._as_stored and self.transform is None and self.target_transform is None:
            return _batch.read(self.dict, wanted, mine)
        values = self._values(wanted)
        return list(values) if mine is None else list(zip(values, map(self._label, mine)))

    def _values(self, keys: List[Any]) -> Iterator[Any]:
        return map(self._value, keys, _batch.read(self.dict, keys))

    _as_stored = True  # but for transform and target_transform; else _value() does more

    def _value(self, key: Any, value: Any) -> Any:
        return value if self.transform is None else self.transform(value)

    def _label(self, label: int) -> Any:
        return label if self.target_transform is None else self.target_transform(label)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return self._part(range(*i.indices(len(self))))
        if isinstance(i, (list, tuple)):
            return self.__getitems__(i)
        i = self._index(i)
        key = self.keys[i]
        value = self._value(key, self.dict[key])
        return value if self.labels is None else (value, self._label(self.labels[i]))

    def __getitems__(self, indices: Any) -> List[Any]:
        """__getitems__(indices) -- the samples, by one request for all of them; a DataLoader calls it for each batch"""
        n = len(self.keys)
        indices = [i if type(i) is int and 0 <= i < n else self._index(i) for i in indices]
        return self._samples(indices) if indices else []

    def _part(self, indices: range) -> "DDictDataset":
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__)
        part.keys, part.found = [self.keys[i] for i in indices], {}
        if self.labels is not None:
            part.labels = array("q", [self.labels[i] for i in indices])
        return part

    def __iter__(self) -> Iterator[Any]:
        for at in range(0, len(self), AT_ONCE):
            yield from self._samples(list(range(at, min(at + AT_ONCE, len(self)))))

    def owners(self) -> List[int]:
        """owners() -- for each sample the node whose managers have it"""
        owner, nodes = self.dict.owner, self.dict.info["nodes"]
        return [0] * len(self) if nodes == 1 else [owner(key) % nodes for key in self.keys]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} samples{f', {self.name!r}' if self.name else ''}>"


def _plain_keys(d: DDict) -> Iterator[Any]:
    for key in d:
        if not (type(key) is tuple and key and type(key[0]) is str and key[0].startswith("ddict.")) and not isinstance(key, RawKey):
            yield key


_lock = threading.Lock()


def _put(d: DDict, name: str, dataset: Any, timeout: Optional[float]) -> None:
    """Put the samples of an iterable as the set called name; returns when it is there, whoever put it."""
    fill, prefix = _fill.Fill(d, name, timeout), f"{name}/"
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        count = len(dataset)
        size = _fill.chunk_size(count)
        many = getattr(dataset, "__getitems__", None)

        def pairs(chunk: int) -> Iterator[Any]:
            mine = range(chunk * size, min((chunk + 1) * size, count))
            for at in range(mine.start, mine.stop, AT_ONCE):
                some = range(at, min(at + AT_ONCE, mine.stop))
                yield from ((f"{prefix}{i}", s) for i, s in zip(some, many(list(some)) if many else map(dataset.__getitem__, some)))

        chunks = -(-count // size)
    else:
        chunks = 1

        def pairs(chunk: int) -> Iterator[Any]:
            return ((f"{prefix}{i}", sample) for i, sample in enumerate(dataset))

    def finish(results: List[bytes]) -> None:
        _sets.write(d, {"name": name, "sources": [type(dataset).__name__], "kind": "samples", "prefix": prefix, "items": sum(map(int, results)),
                        "numbered": True})

    with _lock:  # threads of one process: one after another
        fill.run(chunks, lambda chunk: b"%d" % fill.put(chunk, pairs(chunk)), finish)
