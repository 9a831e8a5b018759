# SPDX-License-Identifier: Apache-2.0
"""A handle that is bound to one manager."""

import struct
from collections.abc import MutableMapping

from ._ddict import RawKey, bytes_key, key_bytes

_HEAD = b"\0ddict.at/"  # of a directed key, FORMAT 6
_HIDDEN = b"\0ddict."  # of the project's own bookkeeping
_ABSENT = object()


class Manager(MutableMapping):
    """Manager(d, number) -- what one manager of d has; d.manager(number) makes it

    All calls go to this manager: what is put here lies on it, whatever its key, and is found here from every node. Of a key that the manager owns anyway it is
    d[key]; another is found through this handle alone, and is not in len(d) and iteration over d. Iteration gives both kinds.
    """

    __slots__ = ("d", "number", "_head")

    def __init__(self, d, number):
        info = d.info
        if not 0 <= number < info["managers"] or number % info["nodes"] >= info["keyed_nodes"]:
            raise ValueError(f"there is no manager {number} that has keys")
        self.d, self.number = d, number
        self._head = _HEAD + struct.pack("<I", number)

    def __reduce__(self):
        return Manager, (self.d, self.number)

    def _at(self, key):
        return key if self.d.owner(key) == self.number else RawKey(self._head + key_bytes(key))

    def __getitem__(self, key):
        value = self.d.get(self._at(key), _ABSENT)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def get(self, key, default=None, *, wait=False, timeout=None):
        """get(key, default=None, *, wait=False, timeout=None) -- as that of a DDict"""
        return self.d.get(self._at(key), default, wait=wait, timeout=timeout)

    def view(self, key, *, wait=False, timeout=None):
        """view(key, *, wait=False, timeout=None) -- as that of a DDict"""
        return self.d.view(self._at(key), wait=wait, timeout=timeout)

    def __setitem__(self, key, value):
        self.d[self._at(key)] = value

    def __delitem__(self, key):
        try:
            del self.d[self._at(key)]
        except KeyError:
            raise KeyError(key) from None

    def __contains__(self, key):
        return self._at(key) in self.d

    def update(self, other=(), /, **kwds):
        """update(other=(), /, **kwds) -- as dict.update(), many at a time"""
        self.d.put_many((self._at(key), value) for key, value in dict(other, **kwds).items())

    def __iter__(self):
        yield from self.d._keys(None, False, self.number)
        for key in self.d._keys(RawKey(self._head), False, self.number):
            at = bytes(key)[len(self._head):]
            if not at.startswith(_HIDDEN):
                yield bytes_key(at)

    def __len__(self):
        return sum(1 for _ in self)

    def __repr__(self):
        return f"<manager {self.number} of {self.d!r}>"
