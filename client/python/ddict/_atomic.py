# SPDX-License-Identifier: Apache-2.0
"""Changes that depend on what a key has: DDict.compare_and_set() and wait_for()."""

from time import monotonic

from ._ddict import KeyLostError, TimeoutError


class _Absent:
    __slots__ = ()

    def __repr__(self):
        return "ddict.ABSENT"

    def __reduce__(self):
        return "ABSENT"

    def __bool__(self):
        return False


ABSENT = _Absent()
NOT_GIVEN = object()


def _version_if(d, key, value):
    """The version of key if it has this value, else None; 0: it has none, as it should"""
    try:
        with d.view(key) as view:
            return view.version if value is not ABSENT and d._is(view, value) else None
    except KeyLostError:
        raise
    except KeyError:
        return 0 if value is ABSENT else None


def compare_and_set(d, key, old, new, version):
    if new is NOT_GIVEN or (old is NOT_GIVEN) == (version is None):
        raise TypeError("compare_and_set() takes a new value, and either an old one or version=")
    if new is ABSENT and (old is ABSENT or version == 0):
        raise ValueError("a key that is absent cannot be removed")
    what = () if new is ABSENT else (new,)
    if version is not None:
        return bool(d._put_if(key, version, *what))
    if old is ABSENT:
        return bool(d._put_if(key, 0, *what))
    while (found := _version_if(d, key, old)) is not None:
        if d._put_if(key, found, *what):
            return True
    return False


def wait_for(d, key, value, timeout):
    seconds = d._seconds if timeout is None else timeout
    if not seconds >= 0:
        raise ValueError("a timeout is a number of seconds, 0 or more")
    until = monotonic() + seconds
    while True:
        version, lost = 0, None
        try:
            version = d.version(key)
            if _version_if(d, key, value) is not None:
                return
        except KeyLostError as e:  # it may be put again
            version, lost = 0, e
        try:
            now = d._wait_change(key, version, max(0.0, until - monotonic()))
        except KeyLostError:
            if monotonic() >= until:
                raise
            continue
        if now is None:
            raise lost or TimeoutError(f"{key!r} did not get the value within {seconds:.3g} s")
