# SPDX-License-Identifier: Apache-2.0
"""Dragon's Semaphore."""

import queue

import ddict as _ddict

from .._home import Handle, new_name


class Semaphore:
    """Semaphore(value=1, *, bounded=False) -- a semaphore of the job that is given to other processes as an argument

    A queue of value tokens: any process may release() it, and what a process has that dies is gone. ddict.Semaphore gives it back.
    """

    def __init__(self, value=1, *, m_uid=None, bounded=False):
        if value < 0:
            raise ValueError("a semaphore has a value of 0 or more")
        self._begin(new_name(), value, bounded)
        for _ in range(value):
            self._tokens.put(True)

    def _begin(self, name, value, bounded):
        self.name, self._value, self._bounded = name, value, bounded
        self._tokens = _ddict.Queue(name, 0, Handle())

    def acquire(self, blocking=True, timeout=None, *, block=None):
        """acquire(blocking=True, timeout=None) -- True when one of it is taken; False if none was free in time"""
        try:
            return self._tokens.get(blocking if block is None else block, timeout)
        except queue.Empty:
            return False

    def release(self, n=1):
        """release(n=1) -- give n of it back"""
        if n < 1:
            raise ValueError("n must be one or more")
        if self._bounded and self.get_value() + n > self._value:
            raise ValueError("Semaphore released too many times")
        for _ in range(n):
            self._tokens.put(True)

    def get_value(self):
        """get_value() -- how many more may take it now"""
        return self._tokens.qsize()

    def destroy(self):
        """destroy() -- does nothing: it ends with the program"""

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *exc):
        self.release()

    def __reduce__(self):
        return _again, (type(self), self.name, self._value, self._bounded)


def _again(cls, name, value, bounded):
    semaphore = cls.__new__(cls)
    semaphore._begin(name, value, bounded)
    return semaphore
