# SPDX-License-Identifier: Apache-2.0
"""Dragon's Lock."""

import ddict as _ddict

from .._home import Handle, new_name


class _Unnamed:
    def __init__(self, name=None):
        super().__init__(name or new_name(), Handle())

    def __reduce__(self):
        return type(self), (self.name,)

    def acquire(self, block=True, timeout=None, *, blocking=None):
        """acquire(block=True, timeout=None) -- True when it is held"""
        block = block if blocking is None else blocking
        if block and timeout is None:  # as long as it takes
            while not super().acquire(True, _LONG_S):
                pass
            return True
        return super().acquire(block, timeout)


_LONG_S = 3600


class PlainLock(_Unnamed, _ddict.Lock):
    """A lock that the process that holds it gives back"""

    def is_recursive(self):
        return False


class RLock(_Unnamed, _ddict.RLock):
    """A lock that its holder may take again"""

    def is_recursive(self):
        return True


def Lock(m_uid=None, recursive=False):
    """Lock(recursive=False) -- a lock of the job that is given to other processes as an argument"""
    return RLock() if recursive else PlainLock()
