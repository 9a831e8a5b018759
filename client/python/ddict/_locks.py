# SPDX-License-Identifier: Apache-2.0
"""Locks and semaphores between the processes of a job."""

import threading

from ._holders import Named, Wait, seconds_of


class Lock(Named):
    """Lock(name, d=None)

    A lock of the job: all processes that make a Lock with this name share it, on any node. It works like threading.Lock, with these differences: it is given back
    when the process that holds it dies, or detaches the handle d; only the process that holds it, by this object, may release it; and acquire() without a timeout
    raises ddict.TimeoutError when the handle's is over. Once it has passed to another process nothing that the dead one had asked of the dictionary takes effect
    any more. d: the dictionary, None for the job's. Can be pickled; what is unpickled does not hold it.
    """

    _kind = "lock"

    def __init__(self, name, d=None):
        super().__init__(name, d)
        self._held, self._version = None, 0  # who we are, while we hold it, and where that stands

    def acquire(self, blocking=True, timeout=None):
        """acquire(blocking=True, timeout=None) -- True when it is held; False if it was not free within timeout seconds, or at once if not blocking"""
        wait, me = Wait(self, seconds_of(blocking, timeout, 0)), self._me()
        try:
            version = self._take(wait, me)
            if version:
                self._got(me, version)
            return bool(version)
        except BaseException:  # Ctrl-C behind the change
            if self._held is me:
                self._held = None
            self._give(me, *self._read())
            raise

    def _got(self, me, version):
        self._version, self._held = version, me

    def _take(self, wait, me):
        """The version in which it is held; 0: it was not free in time"""
        version, free = 0, True
        while wait.answers():
            if free and (taken := self._swap(version, me)):
                return taken
            version, there = self._read()
            if there == me:
                return version
            free = there is None or bool(wait.dead([there]))
            if (there is None and wait.is_over()) or (not free and not wait.go_on(version)):
                break
        return 0

    def _give(self, me, version, there):
        while there == me and not self._swap(version, None):
            version, there = self._read()

    def release(self):
        """release() -- give it back; RuntimeError if this process does not hold it by this object"""
        me, version = self._held, self._version
        if me is None or me[:2] != list(self._d._self()):
            raise RuntimeError(f"{self!r} is not held by this process")
        try:
            self._held = None  # before another thread may hold it
            self._give(me, version, me)
        except BaseException:  # nobody knows whether it is given back, so it can be released again
            if self._held is None:
                self._failed(me)
            raise

    def _failed(self, me):
        self._held = me

    def locked(self):
        """locked() -- whether a process that lives holds it"""
        there = self._read()[1]
        return there is not None and not Wait(self, 0).dead([there])

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *exc):
        self.release()

    def __reduce__(self):
        return type(self), (self.name, self._given)


class RLock(Lock):
    """RLock(name, d=None)

    A Lock that the thread that holds it may acquire() again, by the same object; it is given back with the last release(). A thread that does not hold it may not
    release it. A Lock of the same name is another one.
    """

    _kind = "rlock"

    def __init__(self, name, d=None):
        super().__init__(name, d)
        self._thread, self._depth, self._doubt = None, 0, False  # doubt: a release failed, so it may be given back

    def _is_ours(self):
        return self._thread == threading.get_ident() and self._held is not None and self._held[:2] == list(self._d._self())

    def _is_still(self):
        """Whether it is held after a release that failed, which has no effect any more then"""
        me = self._held
        version, there = self._read()
        while there == me:
            if now := self._swap(version, me):
                self._version, self._doubt = now, False
                return True
            version, there = self._read()
        self._held = None
        return False

    def acquire(self, blocking=True, timeout=None):
        """acquire(blocking=True, timeout=None) -- as Lock.acquire()"""
        seconds_of(blocking, timeout, 0)
        if self._is_ours() and (not self._doubt or self._is_still()):
            self._depth += 1
            return True
        return super().acquire(blocking, timeout)

    def _got(self, me, version):
        self._thread, self._depth, self._doubt = threading.get_ident(), 1, False
        super()._got(me, version)

    def release(self):
        """release() -- give it back once; RuntimeError if this thread does not hold it"""
        if not self._is_ours():
            raise RuntimeError(f"{self!r} is not held by this thread")
        if self._depth > 1:
            self._depth -= 1
        else:
            super().release()

    def _failed(self, me):
        self._doubt = True
        super()._failed(me)


class Semaphore(Named):
    """Semaphore(name, value=1, d=None)

    A semaphore of the job, for at most value holders at a time: as threading.BoundedSemaphore, with the differences that a Lock has. What a process that dies
    held is given back. value belongs to the semaphore: the first process sets it; a different one is a ValueError, and None takes the semaphore's.
    """

    _kind = "semaphore"

    def __init__(self, name, value=1, d=None):
        super().__init__(name, d)
        if value is not None and value < 1:
            raise ValueError("a ddict.Semaphore has a value of 1 or more")
        self._asked, self._mine = value, []
        self._open()

    def _open(self):
        """The version and what is there, which is made where it is missing."""
        while True:
            version, there = self._read()
            if there is None and self._asked is None:
                raise ValueError(f"there is no {self!r} yet, and nobody says for how many it is")
            if there is None:
                version = self._swap(version, there := {"value": self._asked, "held": []})
            if version:
                break
        if self._asked is not None and there["value"] != self._asked:
            raise ValueError(f"{self!r} is for {there['value']} holders, not {self._asked}")
        return version, there

    def acquire(self, blocking=True, timeout=None):
        """acquire(blocking=True, timeout=None) -- True when one of it is held; False as Lock.acquire()"""
        wait, me = Wait(self, seconds_of(blocking, timeout)), self._me()
        try:
            taken = self._take(wait, me)
            if taken:
                self._mine.append(me)
            return taken
        except BaseException:  # Ctrl-C behind the change
            if me in self._mine:
                self._mine.remove(me)
            self._give([me])
            raise

    def _take(self, wait, me):
        while wait.answers():
            version, there = self._open()
            held = there["held"]
            if me in held:
                return True
            gone = wait.dead(held) if len(held) >= there["value"] else ()
            left = [h for h in held if tuple(h[:2]) not in gone]
            if len(left) < there["value"]:
                if self._swap(version, {**there, "held": [*left, me]}):
                    return True
            elif not wait.go_on(version):
                break
        return False

    def _give(self, mine):
        while True:
            version, there = self._read()
            if there is None or not any(h in there["held"] for h in mine):
                return
            if self._swap(version, {**there, "held": [h for h in there["held"] if h not in mine]}):
                return

    def release(self, n=1):
        """release(n=1) -- give n of it back; ValueError if this process does not hold so many by this object"""
        if n < 1:
            raise ValueError("n must be one or more")
        own, mine = list(self._d._self()), []
        try:
            for h in [h for h in reversed(self._mine) if h[:2] == own]:
                mine.append(h)
                try:
                    self._mine.remove(h)
                except ValueError:  # another thread was faster
                    mine.remove(h)
                if len(mine) == n:
                    break
            if len(mine) < n:
                raise ValueError(f"{self!r} is released too many times")
            self._give(mine)
        except BaseException:  # as in Lock
            self._mine.extend(h for h in mine if h not in self._mine)
            raise

    @property
    def value(self):
        """how many more may hold it now; what processes hold that died since somebody waited counts as held"""
        there = self._open()[1]
        return there["value"] - len(there["held"])

    def get_value(self):
        """get_value() -- value, as multiprocessing calls it"""
        return self.value

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *exc):
        self.release()

    def __reduce__(self):
        return type(self), (self.name, self._asked, self._given)
