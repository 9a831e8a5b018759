# SPDX-License-Identifier: Apache-2.0
"""Queues between the processes of a job, in its dictionary."""

import operator
import queue as _queue
import time

from ._ddict import KeyLostError, TimeoutError
from ._holders import Named, Wait, at_least_0, check_name


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
        return _again, (type(self), self.name, self._asked, self._given)

    def __repr__(self):
        return f"<ddict.Queue {self.name!r}>"


class _Tasks(Named):
    """The processes that take values of a joinable queue: a list of clients, and for each the number of values that it has taken, or is about to."""

    _kind = "tasks"

    def __init__(self, name, d):
        super().__init__(name, d)
        self._own = None

    def _count_key(self, client):
        return (*self._key, *client)

    def add(self, n, sums):
        """Add n to what this process has taken; the sum goes to the list sums, also if Ctrl-C comes right behind."""
        own = list(self._d._self())
        if self._own != own:
            version, there = self._read()
            while own not in (there or []) and not self._swap(version, [*(there or []), own]):
                version, there = self._read()
            self._own = own
        sums.extend(map(self._d.add, (self._count_key(own),), (n,)))  # no line of Python between the two

    def _count(self, client):
        """The version of a count, and what it is"""
        try:
            with self._d.view(self._count_key(client)) as view:
                return view.version, view.load()
        except KeyError:
            return 0, 0

    def look(self):
        """The processes that have taken something; and the versions of all that was read for that"""
        version, there = self._read()
        counts = [self._count(client) for client in there or []]
        return [client for client, (_, n) in zip(there or [], counts) if n > 0], [version, *(v for v, _ in counts)]

    def forget(self, gone):
        """These are dead, and what they had taken is gone with them."""
        version, there = self._read()
        if self._swap(version, [client for client in there or [] if tuple(client) not in gone]):
            for client in gone:
                self._d.pop(self._count_key(client), None)


class JoinableQueue(Queue):
    """JoinableQueue(name, maxsize=0, d=None)

    A Queue with task_done() and join(), as multiprocessing.JoinableQueue. What a process has taken that dies before its task_done() is gone with it: join() does not
    wait for it. All processes that take values of the queue have to make it a JoinableQueue; each get() and task_done() costs one more question to a manager.
    """

    def _set(self, name, asked, d):
        super()._set(name, asked, d)
        check_name(type(self), name)
        self._taken = None

    @property
    def _tasks(self):
        if self._taken is None:
            self._taken = _Tasks(self.name, self._d)
        return self._taken

    def get(self, block=True, timeout=None):
        """get(block=True, timeout=None) -- as Queue.get(); task_done() says that the value needs nothing more"""
        until = None if timeout is None or not block else time.monotonic() + at_least_0(timeout)
        while True:
            counted = []
            try:
                self._tasks.add(1, counted)  # before it is taken: join() may look in between
                return super().get(False)
            except BaseException as e:
                if counted:
                    self._tasks.add(-1, [])
                left = 0 if not block else 0.5 if until is None else until - time.monotonic()
                if not isinstance(e, _queue.Empty) or left <= 0:
                    raise
            self._d._wait_change(self._key, 0, min(left, 0.5))

    def task_done(self):
        """task_done() -- a value that this process took needs nothing more; ValueError if there is none"""
        self._tasks.add(-1, left := [])
        if left[0] < 0:
            self._tasks.add(1, [])
            raise ValueError("task_done() called too many times")

    def _look(self):
        """(who has taken something, None: nobody knows, because there are values; the versions of what was read)"""
        return (None, None) if self.qsize() else self._tasks.look()

    def _is_done(self, versions):
        """Whether nobody had taken anything, and there was no value, at the moment between two looks at all counts. A look alone reads one after another, and what
        one process has done meanwhile may have given values to another one."""
        return self._look() == ([], versions)

    def join(self, timeout=None):
        """join(timeout=None) -- wait until every value that was put is taken and done; ddict.TimeoutError after timeout seconds, None: the handle's"""
        wait = Wait(self._tasks, self._d._seconds if timeout is None else at_least_0(timeout))
        while True:
            busy, versions = self._look()
            if busy == [] and self._is_done(versions):
                return
            gone = wait.dead(busy or [], len(busy or []))
            if gone:
                self._tasks.forget(gone)
            elif wait.is_over():
                raise TimeoutError(f"{self!r}: values are left")
            else:
                time.sleep(0.02)

    def __repr__(self):
        return f"<ddict.JoinableQueue {self.name!r}>"


def _again(cls, name, asked, d):
    """Make a Queue that was pickled; it attaches at its first use."""
    q = cls.__new__(cls)
    q._set(name, asked, d)
    return q
