# SPDX-License-Identifier: Apache-2.0
"""Dragon's Queue."""

import queue as _queue

import ddict as _ddict

from .._home import Handle, new_name

Empty, Full = _queue.Empty, _queue.Full


class QueueError(Exception):
    """What a queue could not do"""


class Queue(_ddict.JoinableQueue):
    """Queue(maxsize=100, *, joinable=False, ...) -- a ddict.Queue that has no name: other processes get it as an argument, or out of a dictionary

    The other arguments of Dragon's (pool, block_size, policy, buffered, custom_pickler, ...) are accepted and mean nothing.
    """

    def __init__(self, maxsize=100, *, joinable=False, **ignored):
        self._is_joinable = joinable
        self._set(new_name(), max(0, maxsize), Handle())
        if self._asked:
            self._d._queue(self._key, self._asked)

    def _counted(self):
        if not self._is_joinable:
            raise QueueError("Queue(joinable=True) has task_done() and join()")

    def get(self, block=True, timeout=None, **ignored):
        """get(block=True, timeout=None) -- take the first value; queue.Empty"""
        return super().get(block, timeout) if self._is_joinable else _ddict.Queue.get(self, block, timeout)

    def task_done(self):
        """task_done() -- a value that this process took needs nothing more"""
        self._counted()
        super().task_done()

    def join(self, timeout=None):
        """join(timeout=None) -- wait until every value is taken and done"""
        self._counted()
        super().join(timeout)

    def size(self):
        """size() -- the number of values in it"""
        return self.qsize()

    def poll(self, timeout=0):
        """poll(timeout=0) -- whether it has a value, within timeout seconds"""
        if not self.empty():
            return True
        self._d._wait_change(self._key, 0, timeout or 0)
        return not self.empty()

    def destroy(self):
        """destroy() -- as close()"""
        self.close()

    def __reduce__(self):
        return _again, (type(self), self.name, self._asked, self._is_joinable)


def _again(cls, name, asked, joinable):
    q = cls.__new__(cls)
    q._is_joinable = joinable
    q._set(name, asked, Handle())
    return q
