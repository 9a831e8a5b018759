# SPDX-License-Identifier: Apache-2.0
"""Events of keys with a prefix."""

import time

from ._ddict import GoneError, TimeoutError

_PUT, _DEL, _CLEAR, _MISSED = 1, 2, 3, 4
_KINDS = {_PUT: "put", _DEL: "del", _CLEAR: "clear", _MISSED: "missed"}


class KeyEvent:
    """An event: .kind is "put", "del", "clear" (a manager has removed all its keys) or "missed" (.missed events came too fast for this
    subscriber: list the keys again); .key; .version and .size of a put (0 for keys that were present before)."""

    __slots__ = ("kind", "key", "version", "size", "missed", "_value", "_known", "_d")

    def __init__(self, d, kind, key, value, version, size, extra):
        self.kind, self.key, self.version, self.size = _KINDS[kind], key, version, size
        self.missed = extra if kind == _MISSED else 0
        self._known = kind == _PUT and bool(extra)
        self._value, self._d = value, d

    @property
    def value(self):
        """The value that the event carries. If it carries none (the value is large, or was replaced meanwhile), d[key], which raises KeyError if the key is gone."""
        if not self._known:
            if self.kind != "put":
                raise KeyError(self.key)
            self._value = self._d[self.key]
            self._known = True
        return self._value

    def __repr__(self):
        return f"<{self.kind} {self.key!r}>" if self.kind != "missed" else f"<missed {self.missed}>"


class _Closed(ValueError):
    pass


class Subscription:
    """An iterator over events; it ends when the dictionary ends, or when any thread closes it. next_event(timeout) waits for timeout seconds and returns None
    if there was no event. `with` closes it."""

    def __init__(self, d, prefix, flags, timeout):
        self._d, self._timeout = d, timeout
        self._sub = d._subscribe(prefix, flags)

    def next_event(self, timeout=None):
        """next_event(timeout=None) -- the next event, or None if none came within timeout seconds (timeout None: wait until close() in another thread).
        ValueError if the subscription is closed"""
        t = self._sub.next(timeout)
        if t is False:
            raise _Closed("the subscription is closed")
        return None if t is None else KeyEvent(self._d, *t)

    def __iter__(self):
        return self

    def __next__(self):
        try:
            event = self.next_event(self._timeout)
        except (GoneError, _Closed):
            raise StopIteration from None
        if event is None:
            raise TimeoutError(f"nothing happened for {self._timeout} s")
        return event

    def close(self):
        """close() -- end the subscription. A thread that waits for its events is woken within 0.2 s: its loop ends, its next_event() raises ValueError"""
        self._sub.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def subscribe(d, prefix=None, *, dels=False, values=True, there=False, hidden=False, timeout=None):
    return Subscription(d, prefix, (1 if dels else 0) | (2 if values else 0) | (4 if there else 0) | (8 if hidden else 0), timeout)


def wait_for_prefix(d, prefix, n=1, timeout=None):
    timeout = d._seconds if timeout is None else timeout
    end = time.monotonic() + timeout
    with subscribe(d, prefix, dels=True, values=False) as events:
        keys = set(d.keys(prefix))
        while len(keys) < n:
            event = events.next_event(max(0, end - time.monotonic()))
            if event is None:
                raise TimeoutError(f"{len(keys)} of {n} keys with prefix {prefix!r} came within {timeout} s")
            if event.kind == "put":
                keys.add(event.key)
            elif event.kind == "del":
                keys.discard(event.key)
            else:
                keys = set(d.keys(prefix))
        return keys
