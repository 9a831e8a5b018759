# SPDX-License-Identifier: Apache-2.0
"""Dragon's Event."""

import ddict as _ddict

from .._home import Handle, new_name


class Event(_ddict.Event):
    """Event() -- a flag of the job that is given to other processes as an argument"""

    def __init__(self, m_uid=None):
        super().__init__(new_name(), Handle())

    def wait(self, timeout=None):
        """wait(timeout=None) -- wait until it is set; None: as long as it takes"""
        if timeout is not None:
            return super().wait(timeout)
        while not super().wait(_LONG_S):
            pass
        return True

    def destroy(self):
        """destroy() -- as clear()"""
        self.clear()

    def __enter__(self):
        self.set()

    def __exit__(self, *exc):
        self.clear()

    def __reduce__(self):
        return _again, (type(self), self.name)


_LONG_S = 3600


def _again(cls, name):
    event = cls.__new__(cls)
    _ddict.Event.__init__(event, name, Handle())
    return event
