# SPDX-License-Identifier: Apache-2.0
"""One value on every node: who follows what is published."""

from ._ddict import GoneError, KeyLostError, TimeoutError


class _Closed(ValueError):
    pass


class Follower:
    """An iterator over (version, value), of DDict.follow(). It ends when what it has given is removed by unpublish() or clear(), when the dictionary ends, or when
    any thread closes it. `with` closes it. One thread at a time waits."""

    def __init__(self, d, name, timeout, alias_tensors):
        self.name, self._timeout, self._alias = name, timeout, alias_tensors
        self._follow = d._follow(name)

    def next_view(self, timeout=None):
        """next_view(timeout=None) -- (version, View) of the newest version that was not given yet, or None if there was none within timeout seconds (timeout
        None: wait until close() in another thread; 0: look). ValueError if the follower is closed; KeyError, once, if the version that was given last is removed:
        the next call waits for another one"""
        found = self._follow.next(timeout)
        if found is False:
            raise _Closed("the follower is closed")
        return found

    def next_version(self, timeout=None):
        """next_version(timeout=None) -- as next_view(), with the value"""
        found = self.next_view(timeout)
        return found and (found[0], found[1].load(alias_tensors=self._alias))

    def __iter__(self):
        return self

    def __next__(self):
        try:
            found = self.next_view(self._timeout)
        except (GoneError, KeyError, _Closed) as end:
            if isinstance(end, KeyLostError):
                raise
            raise StopIteration from None
        if found is None:
            raise TimeoutError(f"nothing newer than before was published under {self.name!r} for {self._timeout} s")
        return found[0], found[1].load(alias_tensors=self._alias)

    def close(self):
        """close() -- end it. A thread that waits is woken within half a second: its loop ends, its next_version() raises ValueError"""
        self._follow.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
