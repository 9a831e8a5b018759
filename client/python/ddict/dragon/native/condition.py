# SPDX-License-Identifier: Apache-2.0
"""multiprocessing's Condition."""

import ddict as _ddict

from .._home import Handle, new_name
from .lock import PlainLock, RLock


class Condition(_ddict.Condition):
    """Condition(lock=None) -- a condition of the job that is given to other processes as an argument; lock: a Lock or RLock of the job, None: an RLock of its own"""

    def __init__(self, lock=None, *, name=None):
        if not isinstance(lock, (PlainLock, RLock, type(None))):
            raise TypeError(f"Condition({lock!r}): its lock is a Lock or an RLock of ddict.dragon")
        super().__init__(name or new_name(), RLock() if lock is None else lock, Handle())

    def acquire(self, block=True, timeout=None):
        """acquire(block=True, timeout=None) -- take its lock; None: as long as it takes"""
        return self._lock.acquire(block, timeout)

    def wait(self, timeout=None):
        """wait(timeout=None) -- wait until it is notified; None: as long as it takes"""
        if timeout is not None:
            return super().wait(timeout)
        while not super().wait(_LONG_S):
            pass
        return True

    def __reduce__(self):
        return _again, (type(self), self._lock, self.name)


_LONG_S = 3600


def _again(cls, lock, name):
    return cls(lock, name=name)
