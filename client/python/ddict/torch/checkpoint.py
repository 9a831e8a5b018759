# SPDX-License-Identifier: Apache-2.0
"""torch.save() and torch.load() with a key of the dictionary in place of a file."""

import io
from typing import Any, Optional

import torch

from .. import DDict, _ddict
from ._fill import dictionary


class _ViewFile(io.RawIOBase):
    """A stored value as a file. It is read in place, so that a tensor's elements are copied only once, to their destination."""

    def __init__(self, view: Any) -> None:
        super().__init__()
        self.data, self.at = memoryview(view), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + (0 if whence == io.SEEK_SET else self.at if whence == io.SEEK_CUR else len(self.data))
        if at < 0:
            raise ValueError(f"position {at}")
        self.at = at
        return at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: Any) -> int:
        to = memoryview(buffer).cast("B")
        part = self.data[self.at:self.at + len(to)]
        to[:len(part)] = part
        self.at += len(part)
        return len(part)

    def close(self) -> None:
        self.data.release()
        super().close()


class _Sink:
    """A file for torch to write to: in memory, or without memory, to learn its length."""

    def __init__(self, memory: Optional[memoryview] = None) -> None:
        self.memory, self.at = memory, 0

    def write(self, data: Any) -> int:
        n = len(data)
        if self.memory is not None:
            self.memory[self.at:self.at + n] = data
        self.at += n
        return n

    def flush(self) -> None:
        """Nothing is buffered."""


def save(obj: Any, key: Any, d: Optional[DDict] = None, **kwds: Any) -> int:
    """save(obj, key, d=None, **kwds) -- torch.save() to key of d, the job's dictionary by default; the bytes stored

    The file is written in place, so this process needs no memory for it. When save() returns, all ranks see the complete file; until then they see the old value of
    key. The value consists of the file's bytes, which `ddict get` writes to a file. obj must not change meanwhile.
    """
    size = _Sink()
    torch.save(obj, size, **kwds)  # type: ignore[arg-type]
    with dictionary(d).reserve(key, size.at) as memory:
        place = _Sink(memory)
        torch.save(obj, place, **kwds)  # type: ignore[arg-type]
        if place.at != size.at:
            raise RuntimeError(f"the object changed while it was saved: {size.at} bytes, then {place.at}")
    return size.at


def load(key: Any, d: Optional[DDict] = None, *, wait: bool = False, timeout: Optional[float] = None, **kwds: Any) -> Any:
    """load(key, d=None, *, wait=False, timeout=None, **kwds) -- torch.load() of what save() stored, read in place

    wait: whether to wait for key, at most timeout seconds. Further arguments are torch.load()'s: map_location, weights_only. ValueError if the value is no file of
    torch.save().
    """
    with dictionary(d).view(key, wait=wait, timeout=timeout) as view:
        if view.tag:
            raise ValueError(f"the value of key {key!r} is no checkpoint of ddict.torch.save() but an object of its own: d[{key!r}] gives it")
        with _ViewFile(view) as raw:
            try:
                return torch.load(raw, **kwds)  # type: ignore[arg-type]
            except KeyError as e:  # torch takes unknown bytes for a file of the old format, a pickle
                raise ValueError(f"the value of key {key!r} is no checkpoint: torch.load() raises {e!r}") from e
            except Exception as e:
                named = _ddict._named(e, key)
                if named is e:
                    raise
                raise named from e
