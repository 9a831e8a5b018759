# SPDX-License-Identifier: Apache-2.0
"""Keys and labels of the data sets in a dictionary (doc/SETS.md)."""

import contextlib
import json
import struct
from array import array
from collections.abc import Sequence
from typing import Any, Dict, Iterable, List, Optional

from .. import Error, KeyLostError, bytes_key, key_bytes
from ..sets import _command, _run

MARK = "ddict.set"
PART = 65536  # items in one part of a list
NO_SET = 3  # `ddict rm --set`: there is none


class Numbered(Sequence):
    """The keys prefix + "0", prefix + "1" and so on; without a prefix the keys are the numbers"""

    def __init__(self, prefix: str, count: int) -> None:
        self.prefix, self.total = prefix, count

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(self.total))]
        if not -self.total <= i < self.total:
            raise IndexError(i)
        i = int(i) % self.total
        return f"{self.prefix}{i}" if self.prefix else i


class Listed(Sequence):
    """The keys that the set lists. They are fetched part by part and kept as bytes, so that millions of keys need little memory"""

    def __init__(self, d: Any, name: str, count: int) -> None:
        self.d, self.name, self.total = d, name, count
        self.parts: Dict[int, Any] = {}

    def __len__(self) -> int:
        return self.total

    def _part(self, p: int) -> Any:
        data = self.d[MARK, self.name, "keys", p]
        ends, at = array("Q", [0]), 0
        while at < len(data):
            at += 4 + struct.unpack_from("<I", data, at)[0]
            ends.append(at)
        return data, ends

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(self.total))]
        if not -self.total <= i < self.total:
            raise IndexError(i)
        p, at = divmod(int(i) % self.total, PART)
        if p not in self.parts:
            self.parts[p] = self._part(p)
        data, ends = self.parts[p]
        return bytes_key(data[ends[at] + 4:ends[at + 1]])

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "parts": {}}


def look(d: Any, key: Any) -> Any:
    """The value of a key of ours, or None if it is absent, also where it may have been lost with a node"""
    try:
        return d.get(key)
    except KeyLostError:
        return None


def is_absent(d: Any, key: Any) -> bool:
    """Whether nobody has put a key of ours, also where it may have been lost with a node"""
    try:
        return key not in d
    except KeyLostError:
        return True


def find(d: Any, name: str) -> Optional[Dict[str, Any]]:
    """The entry of the set `name`, or None"""
    text = look(d, (MARK, name))
    return None if text is None else json.loads(text)


def names(d: Any) -> List[str]:
    """The names of all sets, sorted"""
    return sorted(k[1] for k in d.keys((MARK,)) if type(k) is tuple and len(k) == 2)


def keys_of(d: Any, found: Dict[str, Any]) -> Any:
    """The keys of the set's items, in order"""
    if found.get("numbered"):
        return Numbered(found["prefix"], found["items"]) if found["prefix"] else range(found["items"])
    return Listed(d, found["name"], found["items"])


def labels_of(d: Any, found: Dict[str, Any]) -> Optional["array[int]"]:
    """The labels of the set's items, in order; None if it has none"""
    if not found.get("labels", True):
        return None
    labels = array("q")
    for p in range(-(-found["items"] // PART)):
        part = d.get((MARK, found["name"], "labels", p))
        if part is None:
            return None
        labels.frombytes(part)
    return labels if len(labels) == found["items"] else None


def _parts(d: Any, name: str, what: str, items: Sequence, pack: Any) -> None:
    for p in range(-(-len(items) // PART)):
        d[MARK, name, what, p] = pack(items[p * PART:(p + 1) * PART])


def _pack_keys(keys: Iterable[Any]) -> bytes:
    return b"".join(struct.pack("<I", len(k)) + k for k in map(key_bytes, keys))


def write(d: Any, found: Dict[str, Any], *, keys: Optional[Sequence] = None, sizes: Any = None, labels: Any = None) -> None:
    """Write the set's lists and then its entry, with which other processes can open it"""
    name = found["name"]
    if keys is not None:
        _parts(d, name, "keys", keys, _pack_keys)
    for what, code, values in (("sizes", "Q", sizes), ("labels", "q", labels)):
        if values is not None:
            _parts(d, name, what, values, lambda part, code=code: array(code, part).tobytes())
    d[MARK, name] = json.dumps({"version": 1, "parts": -(-found["items"] // PART), "labels": labels is not None, **found})


def discard(d: Any, key: Any) -> None:
    """Remove key if it exists, without reading its value"""
    try:
        del d[key]
    except KeyError:
        pass


def remove(d: Any, name: str, beat: Any = None) -> bool:
    """Remove the set and its items; False if there was none, or another process was faster. beat is called now and then

    One that is read again when a node is lost is sealed: the command removes it, and can do that again where it was broken off (SETS 4)."""
    if d.info["refill"] and "refill" in (find(d, name) or {}):
        code, _, err = _run([_command(), "rm", "--name", d.name, f"--set={name}"], False, beat)
        if code not in (0, NO_SET):
            raise Error(err.removeprefix("ddict rm: ") or f"ddict rm ended with {code}")
        return code == 0
    text = d.pop((MARK, name), None)
    if text is None:
        return False
    found = json.loads(text)
    mine = [(MARK, name, what, p) for what in ("keys", "sizes", "labels") for p in range(found["parts"])]
    for keys in (keys_of(d, found), mine):
        with contextlib.suppress(KeyLostError):  # which items it had was lost: they stay
            for key in keys:
                discard(d, key)
                if beat is not None:
                    beat()
    return True
