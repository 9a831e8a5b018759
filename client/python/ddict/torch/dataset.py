# SPDX-License-Identifier: Apache-2.0
"""DDictDataset: samples in the dictionary."""

import contextlib
import functools
import json
import operator
import sys
import threading
import time
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch.utils.data

from .. import DDict, Error, RawKey, Set, key_bytes
from . import _batch, _fill, _print, _sets

AT_ONCE = 64  # samples that iteration fetches together
UNDO_S = 3.0  # seconds for failed processes to remove the samples that they had put
_FETCH = torch.utils.data._utils.fetch._MapDatasetFetcher.fetch.__code__


class DDictDataset(torch.utils.data.Dataset):
    """DDictDataset(dataset, *, keys=None, transform=None, target_transform=None, name=None, d=None, timeout=None, overwrite=False)

    A map-style data set whose samples are in a dictionary. dataset is

    - a DDict that holds the samples; keys lists the ones to use, in this order (None: all, sorted by their stored form);
    - a str: the name of a set, put there by `ddict load`, srun --ddict-load or another process; or a ddict.Set. Its samples are values, or pairs (value, label) if
      the set has labels;
    - any other iterable: its samples are put into the dictionary d (None: the job's) as a set called name. All processes that make the same set share the work, and
      return when all samples are there. An indexable data set is put in parallel, another iterable by the first process. Without a name the set belongs to this
      group of ranks alone. If the set exists already, only a few samples of the data are read, to check that it is the same: its length, the names of its classes,
      the form and content of four samples (of the first sample if it cannot be indexed; of an iterator only its form). Different data raises ValueError, or replaces
      the set with overwrite=True; so does a key of yours that a sample would overwrite. If putting fails, no sample is left.

    transform is called with each value, and target_transform with each label of sets that have labels; for a set that was put from pairs transform gets the pair.
    timeout: seconds without progress after which another loading process is taken for dead (None: 120). If a subclass has its own __getitem__, batches are made by
    that one, too.

    A sample belongs to the caller; the samples of one batch share a block of memory.
    """

    def __init__(self, dataset: Any, *, keys: Optional[Any] = None, transform: Optional[Callable] = None, target_transform: Optional[Callable] = None,
                 name: Optional[str] = None, d: Optional[DDict] = None, timeout: Optional[float] = None, overwrite: bool = False) -> None:
        self.transform, self.target_transform = transform, target_transform
        self.name, self.classes = name, None
        self.labels: Any = None  # an array with one label for each sample, or None
        self.found: Dict[str, Any] = {}
        if isinstance(dataset, DDict):
            if d is not None or name is not None:
                raise TypeError("name and d are for data sets that are put into a dictionary")
            self.dict = dataset
            self.keys: Any = sorted(_plain_keys(dataset), key=key_bytes) if keys is None else _in_order(keys)
            self._see_who_takes_labels()
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
            _put(self.dict, self.name, dataset, timeout, overwrite)
        self._open()
        self._see_who_takes_labels()

    def _open(self) -> None:
        text = self.dict.get((_sets.MARK, self.name))  # or KeyLostError
        if text is None:
            have = _sets.names(self.dict)
            raise KeyError(f"the dictionary has no set {self.name!r}; it has {', '.join(map(repr, have)) if have else 'none'}")
        self.found = found = json.loads(text)
        self.keys = _sets.keys_of(self.dict, found)
        self.classes = found.get("classes")
        self.labels = _sets.labels_of(self.dict, found) if found.get("parts") else None

    def _see_who_takes_labels(self) -> None:
        if self.target_transform is not None and self.labels is None:
            raise TypeError("target_transform is for sets with labels, which `ddict load` and ImageFolder make: here transform gets each sample as it was put, a pair as a pair")

    def stop(self) -> None:
        """stop() -- remove the set and its samples from the dictionary; if several processes call it, one does the work. Not for data sets over a DDict"""
        if not self.found:
            raise ValueError("this data set is over a dictionary of yours: remove what is yours there")
        if self.dict.info["refill"] and "refill" in self.found:
            _fill.Fill(self.dict, self.name, None).replace(self._is_mine)  # type: ignore[arg-type]
        else:
            _sets.remove(self.dict, self.name)  # type: ignore[arg-type]

    def _is_mine(self, found: Dict[str, Any]) -> bool:
        """Whether the entry is that of this set, also where it is half removed, and no later one of the same name"""
        return {**found, "load": ""} == {**self.found, "load": ""}

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

    def _samples(self, indices: List[int], whole: bool = False) -> Any:
        """whole: the result goes to collate() only"""
        keys, labels = self.keys, self.labels
        if len(indices) > 4 and isinstance(keys, _sets.Numbered):  # as Numbered does
            prefix = keys.prefix
            wanted = [f"{prefix}{i}" for i in indices]
        else:
            wanted = [keys[i] for i in indices]
        mine = None if labels is None else [labels[i] for i in indices]
        if self._as_stored and self.transform is None and self.target_transform is None:
            return _batch.read(self.dict, wanted, mine, whole)
        values = self._values(wanted)
        return list(values) if mine is None else list(zip(values, map(self._label, mine)))

    def _values(self, keys: List[Any]) -> Iterator[Any]:
        return map(self._value, keys, _batch.read(self.dict, keys))

    _as_stored = True  # samples differ from the stored values only by transform and target_transform; else _value() changes them

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
        """__getitems__(indices) -- the samples, fetched together; a DataLoader calls it for each batch"""
        n = len(self.keys)
        indices = [i if type(i) is int and 0 <= i < n else self._index(i) for i in indices]
        if not indices or own_way(type(self)) == "__getitem__":
            return [self[i] for i in indices]
        return self._samples(indices, _asked_for_collate(self))  # type: ignore[no-any-return]

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
        """owners() -- for each sample the node whose manager has it"""
        owner, nodes = self.dict.owner, self.dict.info["nodes"]
        return [0] * len(self) if nodes == 1 else [owner(key) % nodes for key in self.keys]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} samples{f', {self.name!r}' if self.name else ''}>"


@functools.lru_cache(None)
def own_way(cls: type) -> str:
    """The method that a subclass overrides: "__getitems__"; or "__getitem__" alone, which our __getitems__ would bypass; or neither: "\""""
    for c in cls.__mro__:
        if c is DDictDataset:
            break
        for name in ("__getitems__", "__getitem__"):
            if name in vars(c):
                return name
    return ""


def _asked_for_collate(dataset: DDictDataset) -> bool:
    """Whether torch's DataLoader called __getitems__() and passes the result only to its collate_fn, and this is collate(): then no other code sees the samples."""
    frame = sys._getframe(2)
    if frame.f_code is not _FETCH:
        return False
    fetcher = frame.f_locals["self"]
    return fetcher.dataset is dataset and fetcher.collate_fn is _batch.collate and not own_way(type(dataset))


def _plain_keys(d: DDict) -> Iterator[Any]:
    for key in d:
        if not isinstance(key, RawKey):
            yield key


_lock = threading.Lock()


def _in_order(keys: Any) -> Any:
    """keys as a sequence whose first element is [0]: in a pandas.Series, [0] is the element with the label 0."""
    if isinstance(keys, (str, bytes)):
        raise TypeError(f"keys is a list of keys, not one {type(keys).__name__}")
    if isinstance(keys, (set, frozenset)):
        raise TypeError("keys have an order, which a set has not: sorted() of it has")
    return keys if isinstance(keys, Sequence) else list(keys)


def _to_be_put(dataset: Any) -> Any:
    """dataset, after a check that its samples can be put"""
    kind = type(dataset).__name__
    if hasattr(dataset, "iloc"):
        if hasattr(dataset, "columns"):
            raise TypeError(f"a {kind} has columns, not samples: give a list of samples, such as df.to_dict('records') or list(df.itertuples(index=False, name=None))")
        return list(dataset)
    if isinstance(dataset, Mapping):
        raise TypeError(f"the samples of a {kind} are not known by numbers: put it with d.put_many() and give DDictDataset(d, keys=[...]), or give list({kind}.values())")
    if not hasattr(dataset, "__iter__") and not _print.indexed(dataset):
        raise TypeError(f"{kind} is no data set: it can neither be indexed, with a length, nor iterated over")
    return dataset


def refusal(name: str, what: str) -> ValueError:
    return ValueError(f"the dictionary has a set {name!r} of other data: {what}. DDictDataset({name!r}) opens it; give this data another name=, or overwrite=True to replace it")


def _put(d: DDict, name: str, dataset: Any, timeout: Optional[float], overwrite: bool) -> None:
    """Put the samples of an iterable as the set `name`; returns when the set is complete, whichever process put it."""
    fill, prefix = _fill.Fill(d, name, timeout), f"{name}/"
    look = _print.Look(_to_be_put(dataset))
    data = look.samples
    mark = fill.key(_fill.LOOK)
    by = _fill.call_name() if overwrite else None
    if overwrite:  # except a set that another rank has put by this same call
        fill.replace(lambda found: found.get("by") != by if by is not None else look.difference(found))
    else:
        fill.settle()
    while True:
        found = fill.there()
        if found is not None:
            different = look.difference(found)
            if different:
                raise refusal(name, different)
            return
        text = _sets.look(d, mark)
        if text is None:
            look.again()
            if d.put_new(mark, json.dumps(look.told)):
                break
        else:  # other processes are putting it
            other = json.loads(text)
            different = look.difference({"items": other["items"] if "items" in other else look.told.get("items"), "print": other})
            if not different:
                break
            if not overwrite:
                raise ValueError(f"other processes put other data as the set {name!r}, or did so and died: {different}. Give this data another name=, "
                                 "or overwrite=True when they are gone")
            _forget(d, name, prefix)
    if _print.indexed(data):
        count = len(data)
        size = _fill.chunk_size(count)
        many = getattr(data, "__getitems__", None)

        def pairs(chunk: int) -> Iterator[Any]:
            mine = range(chunk * size, min((chunk + 1) * size, count))
            for at in range(mine.start, mine.stop, AT_ONCE):
                some = range(at, min(at + AT_ONCE, mine.stop))
                yield from ((f"{prefix}{i}", s) for i, s in zip(some, many(list(some)) if many else map(data.__getitem__, some)))

        chunks = -(-count // size)
    else:
        chunks, size = 1, 0

        def pairs(chunk: int) -> Iterator[Any]:
            return ((f"{prefix}{i}", sample) for i, sample in enumerate(data))

    def alone(_: int) -> bytes:
        until = time.monotonic() + UNDO_S  # failed processes may still be removing their samples
        while True:
            key = next((k for k in d.keys(prefix) if k[len(prefix):].isdecimal()), None)
            if key is None:
                return b""
            if time.monotonic() > until:
                raise ValueError(f"the dictionary has a key {key!r}, which the set {name!r} would put over: give the set another name=")
            time.sleep(0.02)

    def undo(chunk: int) -> None:
        for i in range(chunk * size, chunk * size + fill.begun[chunk]) if chunk >= 0 else ():
            _sets.discard(d, f"{prefix}{i}")

    def finish(results: List[bytes]) -> None:
        _sets.write(d, {"name": name, "sources": [type(dataset).__name__], "kind": "samples", "prefix": prefix, "items": sum(map(int, results)),
                        "numbered": True, "print": look.told, **({} if by is None else {"by": by})})

    with _lock:  # one thread of the process at a time
        try:
            if fill.once(_fill.ALONE, alone):
                fill.undo = undo
                fill.run(chunks, lambda chunk: b"%d" % fill.put(chunk, pairs(chunk)), finish)
        except BaseException:
            with contextlib.suppress(Error):
                if all(m is None for m in fill.marks(range(-1, chunks))):  # no other process works on it any more
                    fill.clear([_fill.ALONE, _fill.LOOK])
            raise
        fill.clear([_fill.ALONE, _fill.LOOK])


def _forget(d: DDict, name: str, prefix: str) -> None:
    """Remove the leftovers of processes that died while they put a set of this name."""
    for key in list(d.keys((_sets.MARK, name, "load"))):
        _sets.discard(d, key)
    for key in list(d.keys(prefix)):
        if key[len(prefix):].isdecimal():
            _sets.discard(d, key)
