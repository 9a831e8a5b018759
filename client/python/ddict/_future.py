# SPDX-License-Identifier: Apache-2.0
"""Futures over requests under way.

Normally no thread serves them: a thread that waits for a future polls for all futures of its handle, one thread at a time (Driver.turn); an event loop
polls when the descriptor of the set is readable. Some waits of concurrent.futures do not call us (a callback, wait(), as_completed()); only for these
a thread is started, which sleeps in poll() until no request is under way any more.
"""

import atexit
import concurrent.futures
import os
import sys
import threading
import time
import warnings
from concurrent.futures import InvalidStateError

from . import _ddict
from ._ends import child_ends

_SLICE = 0.2  # most seconds asleep in poll(), between checks for Ctrl-C and for a future that another thread has completed
_make = threading.Lock()
_puts = set()  # futures of puts under way; the end of the program waits for them
_base = concurrent.futures.Future


class _Waiters(list):
    """concurrent.futures.wait() and as_completed() add themselves to this list, and sleep."""

    def __init__(self, driver):
        super().__init__()
        self.driver = driver

    def append(self, waiter):
        super().append(waiter)
        self.driver.serve()


class Future(_base):
    """The result of get_async(), put_async() and the like: a concurrent.futures.Future that can also be awaited.

    result() and await give the value, or raise what the call without _async would raise. Awaiting works in any event loop that has add_reader(), in any number
    of loops and threads at once; cancelling the task cancels the request. A cancelled put may or may not have taken effect. A put whose result nobody asks
    for is finished at the end of the program at the latest, and a warning reports its failure.
    """

    _put = None     # of a put: (key,)
    _asked = False  # the caller has asked for the result, so no warning is needed

    def __init__(self, driver, d, count, many=False):
        super().__init__()
        self._waiters = _Waiters(driver)
        self._driver = driver
        self._d = d  # keeps the handle until the request is answered
        self._left = count
        self._many = many
        self._value = [None] * count if many else None
        self._failed = None
        self._tickets = []

    def _take(self, index, ok, value):
        """Take the answer to one of its requests."""
        with self._condition:
            if not ok:
                if self._failed is None or index < self._failed[0]:
                    self._failed = index, value
            elif self._many:
                self._value[index] = value
            else:
                self._value = value
            self._left -= 1
            if self._left:
                return
        _puts.discard(self)
        failed, value, self._failed, self._value, self._d = self._failed, self._value, None, None, None
        try:
            if failed:
                self.set_exception(failed[1])
            else:
                self.set_result(value)
        except InvalidStateError:  # cancelled
            pass

    def done(self):
        if not super().done():
            self._driver.look()
        return super().done()

    def _over(self):
        return super().done()

    def cancel(self):
        with self._condition:
            if not super().cancel():
                return False
            if self._state == "CANCELLED":
                self.set_running_or_notify_cancel()  # wakes waiters in concurrent.futures.wait()
        _puts.discard(self)
        for ticket in self._tickets:
            self._driver.cancel(ticket)
        self._tickets = []
        self._driver.look()
        return True

    def result(self, timeout=None):
        self._asked = True
        self._driver.run(self, timeout)
        return super().result(0)

    def exception(self, timeout=None):
        self._asked = True
        self._driver.run(self, timeout)
        return super().exception(0)

    def add_done_callback(self, fn):
        self._asked = True
        super().add_done_callback(fn)
        if not super().done():
            self._driver.serve()

    def __await__(self):
        self._asked = True
        if not self.done():
            yield from self._wait().__await__()
        return super().result(0)

    def __del__(self):
        if self._put is not None and not self._asked and self._state == "FINISHED" and self._exception is not None:
            warnings.warn(f"put_async({self._put[0]!r}, ...) failed, and nobody asked: {type(self._exception).__name__}: {self._exception}", RuntimeWarning, stacklevel=2)

    async def _wait(self):
        import asyncio  # not before it is needed: it is half of what `import ddict` costs
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        thread = threading.get_ident()

        def wake():
            if not waiter.done():
                waiter.set_result(None)

        def over(_):
            if threading.get_ident() == thread:
                wake()
            else:
                try:
                    loop.call_soon_threadsafe(wake)
                except RuntimeError:  # the loop was closed
                    pass

        self._driver.watch(loop)
        try:
            _base.add_done_callback(self, over)
            await waiter
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            self._driver.unwatch(loop)


class Driver:
    """The requests under way of one handle in one process."""

    def __init__(self, d):
        self.pid = os.getpid()
        self.requests = _ddict.Requests(d)
        self.turn = threading.Lock()          # held by the thread that polls
        self.changed = threading.Condition()  # notified after each poll
        self.loops = {}                       # event loop: number of waiters
        self.thread = None

    def poll(self, seconds):
        """Poll. The caller holds self.turn."""
        got = self.requests.poll(seconds)
        raised = None
        if type(got) is tuple:
            got, raised = got
        for future, index, ok, value in got:
            future._take(index, ok, value)
        if raised is not None:
            raise raised

    def release(self):
        self.turn.release()
        with self.changed:
            self.changed.notify_all()

    def look(self):
        """Take the answers that have arrived. Does nothing if another thread polls."""
        if self.pid == os.getpid() and self.turn.acquire(blocking=False):
            try:
                self.poll(0)
            finally:
                self.release()

    def run(self, future, timeout):
        """Poll until future is done, at most timeout seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while not future._over():
            left = _SLICE if end is None else min(_SLICE, end - time.monotonic())
            if self.pid != os.getpid():
                raise _ddict.Error("this request is of the process that this one was forked from")
            if left <= 0:
                self.look()
                return
            if self.turn.acquire(blocking=False):
                try:
                    self.poll(left)
                finally:
                    self.release()
            else:
                with self.changed:
                    if self.turn.locked() and not future._over():
                        self.changed.wait(left)

    def cancel(self, ticket):
        if self.pid == os.getpid():
            self.requests.cancel(ticket)

    # --- event loops ---

    def watch(self, loop):
        with self.changed:
            n = self.loops.get(loop, 0)
            self.loops[loop] = n + 1
        if n == 0:
            loop.add_reader(self.requests.fileno(), self.look)

    def unwatch(self, loop):
        with self.changed:
            n = self.loops[loop] - 1
            if n:
                self.loops[loop] = n
            else:
                del self.loops[loop]
        if n == 0 and not loop.is_closed():
            loop.remove_reader(self.requests.fileno())

    # --- the thread for waits that do not call us ---

    def serve(self):
        with self.changed:
            if self.pid != os.getpid() or (self.thread is not None and self.thread.is_alive()):
                return
            self.thread = threading.Thread(target=self.serve_all, name="ddict-futures", daemon=True)
            self.thread.start()

    def serve_all(self):
        while True:
            with self.turn:
                self.poll(_SLICE)
            with self.changed:
                self.changed.notify_all()
                if len(self.requests) == 0:
                    self.thread = None
                    return

    def finish(self):
        """The handle is detached: end the requests under way."""
        before = None
        while self.pid == os.getpid() and len(self.requests) not in (0, before):
            before = len(self.requests)
            self.look()


def driver_of(d):
    if not d.attached:
        raise ValueError("the handle is detached")
    driver = getattr(d, "_driver", None)
    if driver is not None and driver.pid == os.getpid():
        return driver
    with _make:
        driver = getattr(d, "_driver", None)
        if driver is None or driver.pid != os.getpid():
            driver = d._driver = Driver(d)
    return driver


def _began(future, index, answer):
    if type(answer) is int:
        future._tickets.append(answer)
    else:
        future._take(index, *answer)


def begin(d, keys, many, wait, timeout, view):
    """A future of the values (or views) of keys: with many a list of all, else the only one."""
    driver = driver_of(d)
    future = Future(driver, d, len(keys), many)
    if not keys:
        future.set_result([])
    try:
        for index, key in enumerate(keys):
            _began(future, index, driver.requests.get(future, index, key, wait, timeout, view))
    except BaseException:
        future.cancel()
        raise
    return future


def begin_put(d, key, value):
    driver = driver_of(d)
    future = Future(driver, d, 1)
    future._put = (key,)
    child_ends(_finish_puts)
    _puts.add(future)
    try:
        _began(future, 0, driver.requests.put(future, key, value))
    except BaseException:
        _puts.discard(future)
        raise
    return future


@atexit.register
def _finish_puts():
    """Finish the puts that nobody waited for. Each may take as long as a call of its handle."""
    while _puts:
        future = _puts.pop()
        if future._driver.pid != os.getpid():
            continue
        try:
            future._driver.run(future, None)
            failed = None if future._asked or future.cancelled() else future.exception()
        except BaseException as e:
            failed = e
        if failed is not None:
            future._asked = True
            print(f"ddict: put_async({future._put[0]!r}, ...) failed, and nobody asked: {type(failed).__name__}: {failed}", file=sys.stderr)


def _forked():
    global _make
    _make = threading.Lock()
    _puts.clear()


os.register_at_fork(after_in_child=_forked)
