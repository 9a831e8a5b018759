# SPDX-License-Identifier: Apache-2.0
"""Queues between the processes of a job, in its dictionary."""

import operator
import queue as _queue

from ._ddict import KeyLostError


class Queue:
    """Queue(name, maxsize=0, d=None)

    A queue of the job: all processes that make a Queue with this name share it, on any node. It works like multiprocessing.Queue and raises queue.Empty and
    queue.Full, with these differences: it has a name; there is no feeder thread, so put() returns when the value is stored; qsize() and empty() are exact at
    the moment of the call. Each value is given to exactly one get(). Values come out in the order in which they were stored, those of one process in its order.
    The queue ends with the dictionary. d: the dictionary, None for the job's. Can be pickled.
    maxsize belongs to the queue: the first Queue that gives one sets it for all processes; a different one is a ValueError, and 0 takes the queue's.
    """

    def __init__(self, name, maxsize=0, d=None):
        if isinstance(name, float) or hasattr(type(name), "__index__"):
            raise TypeError(f"a ddict.Queue is found by its name: ddict.Queue('some name', maxsize={name!r})")
        self._set(name, max(0, operator.index(maxsize)), d)
        if self._asked:
            self._d._queue(self._key, self._asked)

    def _set(self, name, asked, d):
        self.name, self._asked = name, asked
        self._key = ("ddict.Queue", name)
        self._given, self._attached, self._closed = d, None, False

    @property
    def maxsize(self):
        """the most values that the queue may hold; 0: any number"""
        return self._d._queue(self._key, 0)

    @property
    def _d(self):
        if self._closed:
            raise ValueError(f"Queue {self.name!r} is closed")
        if self._given is not None:
            return self._given
        if self._attached is None:
            from . import attach
            self._attached = attach()
        return self._attached

    def put(self, obj, block=True, timeout=None):
        """put(obj, block=True, timeout=None) -- store obj behind the others; queue.Full if the queue has maxsize values and none is taken in time"""
        if not self._d._push(self._key, obj, self._asked, timeout if block else 0):
            raise _queue.Full

    def get(self, block=True, timeout=None):
        """get(block=True, timeout=None) -- take the first value; queue.Empty if none came in time; ddict.KeyLostError if they may have been lost,
        without a timeout once the handle's is over

        A value that cannot be unpickled here is put back, behind the others, for a process that can; if that fails, the exception's .value has its bytes.
        """
        try:
            return self._d._take(self._key, timeout if block else 0)
        except KeyLostError:  # with the values that it had
            raise
        except KeyError:
            raise _queue.Empty from None

    def put_nowait(self, obj):
        """put_nowait(obj) -- put(obj, False)"""
        self.put(obj, False)

    def get_nowait(self):
        """get_nowait() -- get(False)"""
        return self.get(False)

    def qsize(self):
        """qsize() -- the number of values in the queue"""
        return self._d._queued(self._key)

    def empty(self):
        """empty() -- whether the queue has no value now"""
        return self.qsize() == 0

    def full(self):
        """full() -- whether the queue has maxsize values now"""
        return 0 < self.maxsize <= self.qsize()

    def close(self):
        """close() -- this process stops using the queue: every call is a ValueError; the values stay for other processes"""
        self._closed = True
        if self._attached is not None:
            self._attached.detach()
            self._attached = None

    def join_thread(self):
        """join_thread() -- does nothing: a value is stored when put() returns"""

    def cancel_join_thread(self):
        """cancel_join_thread() -- does nothing, as join_thread()"""

    def __len__(self):
        return self.qsize()

    def __bool__(self):
        return True

    def __reduce__(self):
        return _again, (self.name, self._asked, self._given)

    def __repr__(self):
        return f"<ddict.Queue {self.name!r}>"


def _again(name, asked, d):
    """Make a Queue that was pickled; it attaches at its first use."""
    q = Queue.__new__(Queue)
    q._set(name, asked, d)
    return q
