# SPDX-License-Identifier: Apache-2.0
"""States of a dictionary on disk, by number: DDict.persist(), restore(), advance()."""

import concurrent.futures
import os
import threading
import time
import warnings

from . import _ddict
from .sets import SaveError

_SLICE_MS = 200  # between two looks at signals, the timeout and cancelled futures


def _checked(begin, *args):
    """begin(*args); what is no failure of a kind of its own is a SaveError"""
    try:
        return begin(*args)
    except _ddict.Error as e:
        if type(e) is not _ddict.Error:
            raise
        error = SaveError(str(e))
        error.code = e.code
        raise error from None


def _finish(state, timeout, is_cancelled=lambda: False):
    """Wait for the end; False: it was cancelled"""
    end = None if timeout is None else time.monotonic() + timeout
    try:
        while not _checked(_ddict._state_wait, state, _SLICE_MS):
            if is_cancelled():
                _ddict._state_cancel(state)
                return False
            if end is not None and time.monotonic() > end:
                _ddict._state_cancel(state)
                raise _ddict.TimeoutError(f"not done within {timeout} s, and ended")
    except BaseException:  # what a signal's handler raises, too
        try:
            _ddict._state_cancel(state)
        except ValueError:  # it had ended
            pass
        raise
    return True


class PersistFuture(concurrent.futures.Future):
    """What persist(wait=False) gives: a concurrent.futures.Future, which can also be awaited. result() is the number of the state. cancel() ends the save."""

    _asked = False

    def __init__(self, id):
        super().__init__()
        self._id = id

    def result(self, timeout=None):
        self._asked = True
        return super().result(timeout)

    def exception(self, timeout=None):
        self._asked = True
        return super().exception(timeout)

    def __await__(self):
        import asyncio  # not before it is needed
        self._asked = True
        return asyncio.wrap_future(self).__await__()

    def __del__(self):
        if not self._asked and self._exception is not None:
            warnings.warn(f"persist({self._id}) failed, and nobody asked: {self._exception}", RuntimeWarning, stacklevel=2)


def _serve(future, state):
    try:
        if _finish(state, None, future.cancelled):
            future.set_result(future._id)
        else:
            future.set_running_or_notify_cancel()
    except concurrent.futures.InvalidStateError:  # cancelled at the last moment
        future.set_running_or_notify_cancel()
    except BaseException as e:
        if not future.cancelled():
            future.set_exception(e)
        else:
            future.set_running_or_notify_cancel()


def persist(d, id, wait, timeout):
    if id is None:
        id = d._persist_number()
    state = _checked(d._persist, id)
    if wait:
        _finish(state, timeout)
        return id
    future = PersistFuture(id)
    # no daemon: the end of the program waits for it
    try:
        threading.Thread(target=_serve, args=(future, state), name="ddict-persist").start()
    except BaseException:
        _ddict._state_cancel(state)
        raise
    return future


def restore(d, id, timeout):
    _finish(_checked(d._restore, id), timeout)
    d._restored(id)


def advance(d, timeout):
    id, state = _checked(d._advance)
    _finish(state, timeout)
    d._restored(id)
    return id


def option(folder, freq, count, read_only):
    """The value of --persist; None: there is none"""
    if folder is None:
        if freq is not None or count is not None or read_only:
            raise TypeError("persist_freq, persist_count and read_only go with persist=DIR")
        return None
    words = [os.fspath(folder)]
    words += [f"freq={freq}"] if freq else []
    words += [f"count={count}"] if count is not None and count >= 0 else []
    words += ["read-only"] if read_only else []
    return ",".join(words)
