# SPDX-License-Identifier: Apache-2.0
"""Flags and counters between the processes of a job. Nobody holds them, so they stay when who changed them dies."""

from ._ddict import TimeoutError
from ._holders import Named, no_nan


class Event(Named):
    """Event(name, d=None)

    A flag of the job: all processes that make an Event with this name share it, on any node. As threading.Event, but that wait() without a timeout raises
    ddict.TimeoutError when the handle's is over. It stays as it is when the process that set it ends. d: the dictionary, None for the job's. Can be pickled.
    """

    _kind = "event"

    def is_set(self):
        """is_set() -- whether it is set"""
        return self._key in self._d

    def set(self):
        """set() -- set it: who waits goes on"""
        self._d[self._key] = 1

    def clear(self):
        """clear() -- set it back"""
        self._d.pop(self._key, None)

    def wait(self, timeout=None):
        """wait(timeout=None) -- wait until it is set: True, or False when it was not within timeout seconds"""
        try:
            self._d.get(self._key, wait=True, timeout=no_nan(timeout))
        except TimeoutError:
            if timeout is None:
                raise TimeoutError(f"{self!r}: not set within {self._d._seconds:g} s") from None
            return False
        except KeyError:  # ddict.KeyLostError: it may have been set, before a node was lost
            if timeout is None:
                raise
            return False
        return True

    def __init__(self, name, d=None):
        super().__init__(name, d)

    def __reduce__(self):
        return type(self), (self.name, self._given)


class Counter(Named):
    """Counter(name, d=None)

    An integer of the job, of 64 bits: all processes that make a Counter with this name share it, on any node. It is 0 at first. d: the dictionary, None for the
    job's. Can be pickled.
    """

    _kind = "counter"

    def __init__(self, name, d=None):
        super().__init__(name, d)

    def add(self, delta=1):
        """add(delta=1) -- add delta to it; the sum. No two calls see the same one in between. OverflowError if the sum has more than 64 bits"""
        return self._d.add(self._key, delta)

    @property
    def value(self):
        """its value"""
        return self._d.get(self._key, 0)

    @value.setter
    def value(self, value):
        self._d[self._key] = value

    def __reduce__(self):
        return type(self), (self.name, self._given)
