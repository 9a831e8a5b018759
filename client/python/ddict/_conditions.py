# SPDX-License-Identifier: Apache-2.0
"""Flags, counters and conditions between the processes of a job. Nobody holds them, so they stay when who changed them dies."""

from time import monotonic

from ._ddict import LostError, TimeoutError
from ._holders import Named, Wait, no_nan
from ._locks import RLock

_ALIVE_S = 1    # a manager that does not say whether its client lives counts it as living
_LONG_S = 3600  # for the lock, again and again


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


class Condition(Named):
    """Condition(name, lock=None, d=None)

    A condition of the job: all processes that make a Condition with this name share it, on any node. As threading.Condition: wait() gives the lock back until
    another process calls notify(), and takes it again, for which it waits as long as the dictionary lives. wait() without a timeout raises ddict.TimeoutError when
    the handle's is over. A process that has died is not notified. lock: a ddict.Lock or RLock that all use with it, None: an RLock of its own. d: the dictionary,
    None for the job's. Can be pickled; what is unpickled does not hold the lock.
    """

    _kind = "condition"

    def __init__(self, name, lock=None, d=None):
        super().__init__(name, d)
        self._lock = RLock(("condition", name), d) if lock is None else lock

    def acquire(self, blocking=True, timeout=None):
        """acquire(blocking=True, timeout=None) -- take its lock"""
        return self._lock.acquire(blocking, timeout)

    def release(self):
        """release() -- give its lock back"""
        self._lock.release()

    def _depth(self):
        """How often the lock is held; RuntimeError: it is not"""
        is_again = isinstance(self._lock, RLock)
        if not (self._lock._is_ours() if is_again else self._lock._held):
            raise RuntimeError(f"{self!r}: its lock is not held")
        return self._lock._depth if is_again else 1

    def _change(self, new_of):
        """Let them wait that new_of(those who wait) gives: those who did before"""
        while True:
            version, there = self._read()
            waits = there or []
            new = new_of(waits)
            if new == waits or self._swap(version, new or None):
                return waits

    def wait(self, timeout=None):
        """wait(timeout=None) -- wait until it is notified, without the lock meanwhile: True, or False when it was not within timeout seconds"""
        depth, wait, me = self._depth(), Wait(self, no_nan(timeout)), self._me()
        self._change(lambda waits: waits if me in waits else [*waits, me])
        notified = False
        try:
            for _ in range(depth):
                self._lock.release()
            while True:
                version, there = self._read()
                if me not in (there or []) or not wait.go_on(version):
                    break
        except BaseException:
            self._take_again(depth)
            if self._leave(me):  # the notification is for another one
                self.notify()
            raise
        self._take_again(depth)
        return self._leave(me)

    def _take_again(self, depth):
        while not self._lock.acquire(timeout=_LONG_S):
            pass
        for _ in range(depth - 1):
            self._lock.acquire()

    def _leave(self, me):
        """Whether it was notified, with the lock held"""
        return me not in self._change(lambda waits: [w for w in waits if w != me])

    def wait_for(self, predicate, timeout=None):
        """wait_for(predicate, timeout=None) -- wait until predicate() is true, which is looked at after each notification: what it gave last"""
        until = None if timeout is None else monotonic() + no_nan(timeout)
        while not (result := predicate()):
            left = None if until is None else until - monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, n=1):
        """notify(n=1) -- let n of those go on that wait; RuntimeError if the lock is not held"""
        self._depth()
        self._change(lambda waits: self._without(waits, n))

    def _without(self, waits, n):
        """Those who go on waiting: without n that live, and without the dead ones before them"""
        left = list(waits)
        while left and n > 0:
            n -= self._lives(left.pop(0))
        return left

    def _lives(self, who):
        try:
            return self._d._alive(*who[:2], _ALIVE_S)
        except (TimeoutError, LostError):  # nobody knows
            return True

    def notify_all(self):
        """notify_all() -- let all go on that wait; RuntimeError if the lock is not held"""
        self._depth()
        self._change(lambda waits: [])

    def __enter__(self):
        return self._lock.__enter__()

    def __exit__(self, *exc):
        self._lock.__exit__(*exc)

    def __reduce__(self):
        return type(self), (self.name, self._lock, self._given)
