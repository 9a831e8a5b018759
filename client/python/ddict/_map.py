# SPDX-License-Identifier: Apache-2.0
"""Run a function over many items, in processes of this node."""

import contextlib
import functools
import heapq
import itertools
import os
import pickle
import sys
import threading
import time

from . import _ddict

_CHUNK = 32       # keys that a worker takes at once, at most
_ABSENT = object()
_work = None      # of a worker: what it does with each of its tasks


class MapError(_ddict.Error):
    """The function of map() or filter() has raised an exception for an item: .key is the item's key (of filter(): the manager's number), and the exception is
    the __cause__, or if that cannot be pickled a RuntimeError with its text. Or a process that ran the function was killed; .key is None then."""

    def __init__(self, message, key=None):
        super().__init__(message)
        self.key = key

    def __reduce__(self):
        return MapError, (self.args[0], self.key)


def _portable(e):
    """e, or what says the same and can be pickled"""
    try:
        pickle.loads(pickle.dumps(e))
        return e
    except Exception:
        return RuntimeError(f"{type(e).__name__}: {e}")


def _end_with(parent):
    from multiprocessing.connection import wait
    wait([parent.sentinel])
    os._exit(1)


def _begin(work):
    global _work
    import multiprocessing
    _work = work
    threading.Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()


def _run(task):
    return _work(task)


def _ended(executor, tasks, ahead):
    """The results as the tasks end; so many are handed out at once."""
    from concurrent.futures import FIRST_COMPLETED, wait
    from concurrent.futures.process import BrokenProcessPool

    tasks, waiting = iter(tasks), set()
    try:
        while True:
            waiting.update(executor.submit(_run, task) for task in itertools.islice(tasks, ahead - len(waiting)))
            if not waiting:
                return
            ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ended:
                yield future.result()
    except BrokenProcessPool as e:
        raise MapError("a process that ran the function ended before it was done: it was killed (was there enough memory?), or the function ended it") from e


@contextlib.contextmanager
def _pool(work, tasks, workers):
    """An iterator over work(task) of all tasks, as they end, by so many processes."""
    import multiprocessing  # not with `import ddict`: it takes a while
    from concurrent.futures import ProcessPoolExecutor

    workers = max(1, min(workers, len(tasks)))
    executor = ProcessPoolExecutor(workers, multiprocessing.get_context(), _begin, (work,))
    try:
        yield _ended(executor, tasks, 4 * workers)
    except BaseException:
        for process in list((executor._processes or {}).values()):
            process.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _into(into, key):
    """The key of the result of an item"""
    if isinstance(into, tuple):
        return into + (key if isinstance(key, tuple) else (key,))
    if isinstance(key, tuple):
        return (into, *key)
    return into + key if type(into) is type(key) else (into, key)


def _map_chunk(d, fn, into, keys):
    """(number of items, pairs of results, None), or at an exception (.., .., (key, exception))"""
    done, results = 0, []
    for key in keys:
        value = d.get(key, _ABSENT)
        if value is _ABSENT:  # removed meanwhile
            continue
        try:
            result = fn(key, value)
        except (Exception, SystemExit) as e:
            return done, results, (key, _portable(e))
        done += 1
        if into is None:
            results.append((key, result))
        else:
            d[_into(into, key)] = result
    return done, results, None


class _Progress:
    """A line on stderr, if that is a terminal"""

    def __init__(self, total):
        self.total, self.shown, self.on = total, 0, sys.stderr.isatty()

    def show(self, done, end=False):
        if self.on and (end or time.monotonic() - self.shown > 0.2):
            self.shown = time.monotonic()
            print(f"\rddict.map: {done} of {self.total}", end="\n" if end else "", file=sys.stderr, flush=True)


def map_items(d, fn, prefix, into, workers):
    if into is not None and not isinstance(into, (str, bytes, tuple)):
        raise TypeError(f"into is a str, bytes or a tuple, as a prefix, not {type(into).__name__}")
    workers = len(os.sched_getaffinity(0)) if workers is None else workers
    if workers < 1:
        raise ValueError(f"{workers} workers: one at least")
    keys = list(d.local_keys(prefix))
    size = max(1, min(_CHUNK, len(keys) // (4 * workers)))
    chunks = [keys[i:i + size] for i in range(0, len(keys), size)]
    done, results, progress = 0, {}, _Progress(len(keys))
    if not chunks:
        return results if into is None else 0
    with _pool(functools.partial(_map_chunk, d, fn, into), chunks, workers) as ended:
        for n, pairs, failed in ended:
            if failed:
                key, e = failed
                raise MapError(f"item {key!r}: {type(e).__name__}: {e}", key) from e
            done += n
            results.update(pairs)
            progress.show(done)
    progress.show(done, True)
    return results if into is None else done


def _filter_manager(d, fn, args, number):
    try:
        return number, list(fn(d.manager(number), *args)), None
    except (Exception, SystemExit) as e:
        return number, None, _portable(e)


@contextlib.contextmanager
def filter_items(d, fn, args, comparator, workers):
    info = d.info
    owners = [m for m in range(info["managers"]) if m % info["nodes"] < info["keyed_nodes"]]
    workers = len(os.sched_getaffinity(0)) if workers is None else workers
    lists = []
    with _pool(functools.partial(_filter_manager, d, fn, tuple(args)), owners, workers) as ended:
        for number, found, e in ended:
            if e is not None:
                raise MapError(f"manager {number}: {type(e).__name__}: {e}", number) from e
            lists.append((number, found))
    lists.sort(key=lambda entry: entry[0])
    # of two that are equal neither comes first: heapq asks "less than" alone, and takes the earlier manager's
    order = functools.cmp_to_key(lambda a, b: -1 if comparator(a, b) else 1 if comparator(b, a) else 0)
    yield heapq.merge(*(found for _, found in lists), key=order)
