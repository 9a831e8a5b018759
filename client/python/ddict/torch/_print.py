# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of data sets: they tell the data of one set from other data without reading all of it.

The fingerprint of an indexable data set has its length, and the form (types, names, shapes) and content of four samples: the first, the last and two between
them. Of another iterable it has the first sample, of an iterator only the form of the first sample, which can be read only once. It includes the names of classes,
if any. The process that puts the set, and a process that finds a difference, read the samples twice: properties that differ then are random, and are not compared.
Of large arrays only the beginning and the end count. Objects other than arrays, numbers, texts, images and containers of these are compared by class only.
"""

import hashlib
import itertools
from typing import Any, Dict, Iterable, List, Optional

import torch
import torch.utils.data

VERSION = 1
SAMPLES = 4
ENDS = 1 << 16  # bytes at each end of an array that are compared


def indexed(dataset: Any) -> bool:
    """Whether samples can be read by number. torch's Dataset has a __getitem__ that only raises."""
    if isinstance(dataset, torch.utils.data.IterableDataset) or not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        return False
    return getattr(type(dataset), "__getitem__", None) is not torch.utils.data.Dataset.__getitem__


class _Digest:
    def __init__(self) -> None:
        self.form, self.content = (hashlib.blake2b(digest_size=8) for _ in range(2))

    def _shape(self, *words: Any) -> None:
        self.form.update(repr(words).encode())

    def _bytes(self, data: Any) -> None:
        data = memoryview(data).cast("B")
        self.content.update(b"%d:" % len(data))
        self.content.update(data if len(data) <= 2 * ENDS else bytes(data[:ENDS]) + bytes(data[-ENDS:]))

    def add(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, torch.Tensor):
            self._shape("tensor", str(value.dtype), tuple(value.shape))
            if value.layout is torch.strided and value.numel():
                flat = value.detach().resolve_conj().resolve_neg().cpu().contiguous().view(-1)
                few = max(1, ENDS // flat.element_size())
                for part in (flat,) if len(flat) <= 2 * few else (flat[:few], flat[-few:]):
                    self._bytes(part.view(torch.uint8).numpy() if not part.is_quantized else part.int_repr().numpy())
        elif kind.__module__ == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes"):
            self._shape(kind.__name__, value.dtype.str, value.shape)
            if not value.dtype.hasobject:
                flat = value.reshape(-1)
                few = max(1, ENDS // max(1, flat.itemsize))
                self._bytes(flat.tobytes() if len(flat) <= 2 * few else flat[:few].tobytes() + flat[-few:].tobytes())
        elif isinstance(value, (bool, int, float, complex, type(None))):
            self._shape(kind.__name__)
            self._bytes(repr(value).encode())
        elif isinstance(value, (str, bytes, bytearray, memoryview)):
            self._shape(kind.__name__)
            self._bytes(value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value)
        elif isinstance(value, dict):
            self._shape("dict", len(value))
            for key in value:
                self.form.update(repr(key).encode() if isinstance(key, (str, bytes, int)) else type(key).__name__.encode())
                self.add(value[key])
        elif isinstance(value, (list, tuple)):
            self._shape(kind.__name__, len(value))
            for item in value:
                self.add(item)
        else:
            self._shape(kind.__module__, kind.__qualname__)
            if kind.__module__.partition(".")[0] == "PIL" and hasattr(value, "tobytes"):
                self._shape(value.mode, value.size)
                self._bytes(value.tobytes())


def _digests(samples: Iterable[Any]) -> List[str]:
    digest = _Digest()
    for sample in samples:
        digest.add(sample)
    return [digest.form.hexdigest(), digest.content.hexdigest()]


class Look:
    """The fingerprint of some data"""

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.told = dataset, {"version": VERSION}  # type: Any, Dict[str, Any]
        self.samples = dataset  # all samples; for an iterator including the one that was read already
        self.steady = False
        classes = getattr(dataset, "classes", None)
        if isinstance(classes, (list, tuple)) and all(isinstance(c, str) for c in classes):
            self.told["classes"] = hashlib.blake2b("\0".join(classes).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        if indexed(dataset):
            self.told["items"] = len(dataset)
            self.told["form"], self.told["content"] = self._read()
        elif iter(dataset) is dataset:
            begin = list(itertools.islice(dataset, 1))
            self.told["form"], self.steady = _digests(begin)[0], True
            self.samples = itertools.chain(begin, dataset)
        else:
            self.told["form"], self.told["content"] = self._read()

    def _read(self) -> List[str]:
        if not indexed(self.dataset):
            return _digests(itertools.islice(iter(self.dataset), 1))
        n = self.told["items"]
        return _digests(self.dataset[i] for i in sorted({i * (n - 1) // (SAMPLES - 1) for i in range(SAMPLES if n else 0)}))

    def again(self) -> None:
        """Read the samples again, and drop the properties that differ this time"""
        if not self.steady:
            for name, seen in zip(("form", "content"), self._read()):
                if self.told[name] != seen:
                    del self.told[name]
            self.steady = True

    def difference(self, found: Dict[str, Any]) -> Optional[str]:
        """How this data differs from the set with the entry found; None if it does not"""
        what = _difference(found, self.told)
        if what and not self.steady:
            self.again()
            what = _difference(found, self.told)
        return what


_WORDS = {"classes": "the names of its classes", "form": "the form of its samples (types, names, shapes)",
          "content": "what is in its samples"}


def _difference(found: Dict[str, Any], told: Dict[str, Any]) -> Optional[str]:
    if found.get("kind", "samples") != "samples":
        return f"it was loaded from {', '.join(map(str, found.get('sources', [])))}"
    if "items" in told and "items" in found and told["items"] != found["items"]:
        return f"it has {found['items']} samples, this data has {told['items']}"
    have = found.get("print") or {}
    for name in ("classes", "form", "content"):
        if have.get("version") == told["version"] and name in have and name in told and have[name] != told[name]:
            return f"{_WORDS[name]} differ{'' if name == 'classes' else 's'}"
    return None
