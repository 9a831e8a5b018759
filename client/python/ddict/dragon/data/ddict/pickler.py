# SPDX-License-Identifier: Apache-2.0
"""Keys and values that a program's own pickler writes and reads."""

import io

from . import keys
from .directed import undirected


class _Read(io.BytesIO):
    """What load(file) reads: a read() at the end is an EOFError, by which picklers of Dragon programs know the end"""

    def read(self, size=-1):
        data = super().read(size)
        if not data and size != 0:
            raise EOFError
        return data


class Forms:
    """How a handle's keys and values are stored: by ddict, or by picklers with dumps(key) and loads(bytes), dump(value, file) and load(file)"""

    __slots__ = ("keys", "values")

    def __init__(self, key_pickler=None, value_pickler=None):
        for pickler, calls in (key_pickler, ("dumps", "loads")), (value_pickler, ("dump", "load")):
            missing = [call for call in calls if pickler is not None and not callable(getattr(pickler, call, None))]
            if missing:
                raise TypeError(f"{pickler!r} has no {missing[0]}()")
        self.keys, self.values = key_pickler, value_pickler

    def key(self, key):
        return keys.stored(key) if self.keys is None else bytes(self.keys.dumps(key))

    def given(self, key):
        key = undirected(key)
        if self.keys is None:
            return keys.given(key)
        return self.keys.loads(key) if type(key) is bytes else key

    def value(self, value):
        if self.values is None:
            return value
        stream = io.BytesIO()
        self.values.dump(value, file=stream)
        return stream.getvalue()

    def load(self, value):
        """What the stored value stands for; those that this pickler has not written are as they are"""
        return value if self.values is None or not isinstance(value, bytes) else self.values.load(file=_Read(value))
