# SPDX-License-Identifier: Apache-2.0
"""What locks, semaphores and barriers are made of: a key whose value says who holds it.

The value is changed only in place of the version that was read, so of several processes that take it one gets it. A holder is [node, number, word]: a client of
the dictionary, which is never named so again, and a word that is new each time. Who waits, waits for the key to change, and every 0.1 to 0.25 s asks whether the
holders live. What a dead one held is taken over, again in place of the version that named it. So nothing has to be told when a process dies.
"""

import json
import math
import os
import random
import threading
import time

from ._ddict import GoneError, KeyLostError, LostError, TimeoutError

_LOOK_S = 0.1, 0.25  # between two looks whether the holders live
_LOOK_N = 16         # so many of them are asked for at most
_SLICE_S = 0.25      # of waiting; between two, Ctrl-C is heard
_ANSWER_S = 1        # a manager has at least for its answer, also to who does not wait
_NOBODY = 1 << 62    # the number of no client
_ALIVE_S = 5         # a manager that does not say whether its client lives is asked again

_lock = threading.Lock()
_own = {}  # the handles of all objects that were given none, or a name, by _where() when they were attached


def _child():
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_child)


def _where(name=None):
    """What says which dictionary it is; None: the job's"""
    return name or os.environ.get("DDICT_NAME"), os.environ.get("DDICT_NODE")


def _is_there(d):
    """Whether the handle's dictionary may be there still"""
    try:
        d._wait_change("ddict.there", 1, 0.05)  # no key has version 1 and this name, so it is answered at once
    except (GoneError, LostError):
        return False
    return True


def _shared(name=None, is_there=_is_there):
    with _lock:
        where = _where(name)
        d = _own.get(where)
        if d is None or not d.attached or not is_there(d):
            from . import attach
            d = _own[where] = attach(name)
        return d


def leave(name):
    """Detach the handles of the objects that were given none whose dictionary has this name; None: that of the job's."""
    with _lock:
        for where, d in list(_own.items()):
            if d.name == name or (name is None and where == _where()):
                del _own[where]
                d.detach()


def check_name(cls, name):
    if not isinstance(name, (str, bytes, tuple)):
        raise TypeError(f"a ddict.{cls.__name__} is found by its name, a str, bytes or tuple, not {name!r}")


class Named:
    """An object that all processes share that make one with its name."""

    _kind = None

    def __init__(self, name, d):
        check_name(type(self), name)
        self.name, self._given, self._pinned = name, d, d
        self._key = ("ddict." + self._kind, name)

    @property
    def _d(self):
        if self._pinned is None:
            self._pinned = _shared()
        return self._pinned  # for good: what it holds is in this dictionary

    def _read(self):
        """The version and what is there; 0 and None where nothing is."""
        try:
            with self._d.view(self._key) as view:
                return view.version, json.loads(view.load())
        except KeyError:
            return 0, None

    def _swap(self, version, state):
        """Put state (None: nothing) in place of this version: the new version, or True, or False if something else is there, or nobody knows: read it then."""
        try:
            if state is not None:
                return self._d._put_if(self._key, version, json.dumps(state, separators=(",", ":")))
            return self._d._put_if(self._key, version)
        except (LostError, KeyLostError):  # of its manager's end, or its node's; where the dictionary has ended reading raises, too
            return False

    def _me(self):
        """A new holder"""
        return [*self._d._self(), os.urandom(8).hex()]

    def __repr__(self):
        return f"<ddict.{type(self).__name__} {self.name!r}>"


def at_least_0(timeout):
    """A timeout in seconds, as the queue module takes it"""
    if not timeout >= 0:
        raise ValueError("'timeout' must be a non-negative number")
    return timeout


def no_nan(timeout):
    """A timeout of threading's: None stays, and less than 0 is 0"""
    if timeout is None:
        return None
    if timeout != timeout:
        raise ValueError("Invalid value NaN (not a number)")
    return max(0, timeout)


def seconds_of(blocking, timeout, least=-math.inf):
    """The timeout of acquire(), None for the handle's; -1 means that, too, as it does nothing in threading. Others below least are a ValueError."""
    if not blocking and timeout is not None and timeout != -1:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if not blocking or timeout is None or timeout == -1:
        return None if blocking else 0
    if timeout < least:
        raise ValueError("timeout value must be a non-negative number")
    return no_nan(timeout)


class Wait:
    """One call that waits, at most seconds; None: as long as any call of the handle, and then it raises ddict.TimeoutError."""

    def __init__(self, named, seconds):
        self._named, self._raises = named, seconds is None
        self._until = time.monotonic() + (named._d._seconds if seconds is None else seconds)
        self._looked, self._gone = False, set()
        self._rest()

    def _rest(self):
        self._look_at = time.monotonic() + random.uniform(*_LOOK_S)

    def _left(self):
        return self._until - time.monotonic()

    def dead(self, holders, most=_LOOK_N):
        """Those of the clients [node, number, ...] that are known to be dead. When it is time to look, which is also at the end of the call, most of them are
        asked for: where many wait for many, all together see all."""
        clients = {tuple(h[:2]) for h in holders}
        if time.monotonic() >= self._look_at or (not self._looked and self._left() <= 0):
            self._looked = True
            asked = sorted(clients - self._gone)
            self._gone.update(who for who in random.sample(asked, min(most, len(asked))) if not self._lives(*who))
            self._rest()
        return clients & self._gone

    def _lives(self, node, number):
        try:
            return self._named._d._alive(node, number, max(0.05, min(_ALIVE_S, self._left())))
        except (TimeoutError, LostError):  # nobody knows
            return True

    def answers(self):
        """Whether the managers of the key's node answer in time. Who does not is asked for no change, which it might make when nobody waits any more."""
        if self._raises:
            return True
        d = self._named._d
        try:
            d._alive(d.owner(self._named._key) % d.info["nodes"], _NOBODY, max(_ANSWER_S, self._left()))  # reads may be made in place
        except TimeoutError:
            return False
        except (LostError, KeyLostError):  # as in _swap()
            pass
        return True

    def is_over(self):
        """Whether the time of the call is over"""
        if self._left() > 0:
            return False
        if self._raises:
            raise TimeoutError(f"{self._named!r}: not within {self._named._d._seconds:g} s")
        return True

    def go_on(self, version):
        """Wait until the key has another version, or it is time to look at it again; False: the time of the call is over."""
        if self.is_over():
            return False
        rest = max(0.001, min(self._left(), _SLICE_S, self._look_at - time.monotonic()))
        try:
            self._named._d._wait_change(self._named._key, version, rest)
        except (LostError, KeyLostError):  # as in _swap()
            pass
        return True
