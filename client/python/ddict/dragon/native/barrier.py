# SPDX-License-Identifier: Apache-2.0
"""Dragon's Barrier."""

from threading import BrokenBarrierError

import ddict as _ddict

from .._home import Handle, new_name

_LONG_S = 86400


class Barrier(_ddict.Barrier):
    """Barrier(parties=2, action=None, timeout=None) -- a barrier of the job that is given to other processes as an argument"""

    def __init__(self, parties=2, action=None, timeout=None, m_uid=None, *, name=None):
        super().__init__(name or new_name(), parties, action, _LONG_S if timeout is None else timeout, Handle())

    def destroy(self):
        """destroy() -- does nothing: it ends with the program"""

    def __reduce__(self):
        return _again, (type(self), self.name, self._parties, self._action, self._timeout)


def _again(cls, name, parties, action, timeout):
    return cls(parties, action, timeout, name=name)


__all__ = ["Barrier", "BrokenBarrierError"]
