# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's key-value store over the dictionary.

torch's own code reaches a store of Python through C++, which knows some methods by other names than Python does: getNumKeys, deleteKey. Queues and list_keys() it
does not know there, so these are for who has the Store itself, not a PrefixStore of it.
"""

import functools
from datetime import timedelta
from time import monotonic

import torch.distributed as dist

from .. import _holders
from .._ddict import Error, KeyLostError, NotIntError, TimeoutError

#: What torch's own stores raise: since torch 2 a DistStoreError, which is a RuntimeError.
StoreError = getattr(dist, "DistStoreError", RuntimeError)
_QueueEmptyError = getattr(dist, "QueueEmptyError", StoreError)
_MAX, _MIN = (1 << 63) - 1, -1 << 63

_kept = set()  # C++ holds a store, but not the Python object that does its work: without it torch says "Not implemented"


def _told(method):
    """The method, whose ddict.Error is raised as torch's own."""
    @functools.wraps(method)
    def call(self, *args, **kwds):
        try:
            return method(self, *args, **kwds)
        except Error as e:
            raise StoreError(f"{self!r}: {method.__name__}: {e}") from e
        except OverflowError as e:
            raise StoreError(f"{self!r}: {method.__name__}: {e}") from e
    return call


def _bytes(value):
    if type(value) is bytes:
        return value
    if isinstance(value, list):  # what C++ of torch 1.13 gives to compare_set()
        return bytes(value)
    return value.encode() if isinstance(value, str) else bytes(memoryview(value))


def _text(key):
    if isinstance(key, (bytes, str)):
        return key.decode() if isinstance(key, bytes) else str(key)
    raise TypeError(f"a key is a str, not {key!r}")


def _stored(value):
    """The bytes of a value that was read; what add() made is an int."""
    return value if type(value) is bytes else b"%d" % value


class Store(dist.Store):
    """Store(name, timeout=None, d=None)

    A torch.distributed.Store whose keys lie in the dictionary: all processes that make one with this name share it, on any node, and nobody is its server.

        dist.init_process_group("gloo", store=Store("train"), rank=rank, world_size=size)

    As torch.distributed.TCPStore, with these differences: no process has to be the first one or stay to the last, num_keys() counts no key of the store's own, and
    what is in it stays until close(), or until the dictionary ends. Where TCPStore raises a DistStoreError (before torch 2 a RuntimeError), so does this, whatever
    failed. timeout: seconds or a timedelta, None for torch's 300 s. d: the dictionary, None for the job's. Any number of threads may use it, and children made by fork.
    Can be pickled. The object lives until close(), as torch's process groups need it.
    """

    def __init__(self, name, timeout=None, d=None):
        _holders.check_name(type(self), name)
        super().__init__()
        self._name, self._given = name, d
        self._d = _holders._shared() if d is None else d
        if timeout is not None:
            self.set_timeout(timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout))
        _kept.add(self)

    @property
    def name(self):
        """its name"""
        return self._name

    def _key(self, key):
        return "ddict.torch", self._name, key if type(key) is str else _text(key)

    def _seconds(self, timeout=None):
        return (self.timeout if timeout is None else timeout).total_seconds()

    def _late(self, what, keys, seconds):
        shown = ", ".join(map(str, keys[:4])) + (f", and {len(keys) - 4} more" if len(keys) > 4 else "")
        return StoreError(f"{self!r}: {what}: timeout after {seconds:.3g} s, keys: {shown}")

    def _look(self, key):
        """The version and the bytes of a key; 0 and None where it is absent."""
        try:
            with self._d.view(key) as view:
                return view.version, bytes(view)
        except KeyLostError:
            raise
        except KeyError:
            return 0, None

    def _change(self, key, change):
        """Put change(bytes that are there, or None) in their place, once."""
        while True:
            version, there = self._look(key)
            new = change(there)
            if self._d._put_if(key, version, new):
                return new

    @_told
    def set(self, key, value):
        """set(key, value) -- store a str or bytes in place of what is there"""
        self._d[self._key(key)] = _bytes(value)

    @_told
    def get(self, key):
        """get(key) -- the bytes of a key; waits until it is there, at most the store's timeout"""
        k = self._key(key)
        value = self._d.get(k)
        if value is None:
            seconds = self._seconds()
            try:
                value = self._d.get(k, wait=True, timeout=seconds)
            except TimeoutError as e:
                raise self._late("get", [key], seconds) from e
        return _stored(value)

    @_told
    def add(self, key, amount):
        """add(key, amount) -- add to the number that a key has, 0 where it is absent; the sum. What set() stored as text is a number, too"""
        k = self._key(key)
        try:
            return self._d.add(k, amount)
        except NotIntError:  # it was stored by set(): a number from now on
            return self._change(k, lambda there: self._sum(key, there, amount))

    def _sum(self, key, there, amount):
        try:
            new = int(there or 0) + amount
        except ValueError:
            raise StoreError(f"{self!r}: add: {key} has {there[:40]!r}, which is no number") from None
        if not _MIN <= new <= _MAX:
            raise OverflowError(f"{key}: the sum has more than 64 bits")
        return new

    @_told
    def compare_set(self, key, expected, desired):
        """compare_set(key, expected, desired) -- put desired in place of expected, or of nothing if that is empty; the bytes that the key has then. Where the key is
        absent and expected is not empty: expected"""
        k, expected, desired = self._key(key), _bytes(expected), _bytes(desired)
        while True:
            version, there = self._look(k)
            if version == 0 and expected:
                return expected
            if version and there != expected:
                return there
            if self._d._put_if(k, version, desired):
                return desired

    @_told
    def append(self, key, value):
        """append(key, value) -- put a str or bytes behind what the key has"""
        k, value = self._key(key), _bytes(value)
        try:
            self._d.append(k, value)
        except TypeError:  # what add() made is an int
            self._change(k, lambda there: (there or b"") + value)

    @_told
    def delete_key(self, key):
        """delete_key(key) -- remove a key; whether it was there"""
        try:
            del self._d[self._key(key)]
        except KeyLostError:
            raise
        except KeyError:
            return False
        return True

    @_told
    def list_keys(self):
        """list_keys() -- the keys, in no order"""
        return [key[2] for key in self._d.keys(("ddict.torch", self._name)) if len(key) == 3]

    @_told
    def num_keys(self):
        """num_keys() -- the number of keys"""
        return len(self.list_keys())

    @_told
    def check(self, keys):
        """check(keys) -- whether all these keys are there"""
        return None not in self._d.get_many([self._key(key) for key in keys])

    @_told
    def wait(self, keys, timeout=None):
        """wait(keys, timeout=None) -- wait until all these keys are there; timeout: a timedelta, None: the store's"""
        asked = [self._key(key) for key in keys]
        absent = [k for k, value in zip(asked, self._d.get_many(asked)) if value is None]
        if absent:
            self._await(absent, self._seconds(timeout))

    def _await(self, keys, seconds):
        until = monotonic() + seconds
        while keys:
            try:
                came = self._d._wait_change(keys[-1], 0, max(0.0, until - monotonic()))
            except KeyLostError:  # it may be put again
                came = None
            if came is None and monotonic() >= until:
                raise self._late("wait", [k[2] for k in keys], seconds)
            if came is not None:
                keys.pop()

    @_told
    def multi_get(self, keys):
        """multi_get(keys) -- the bytes of these keys, which are waited for as by wait()"""
        asked, until = [self._key(key) for key in keys], None
        while None in (values := self._d.get_many(asked)):
            until = until or monotonic() + self._seconds()
            self._await([k for k, value in zip(asked, values) if value is None], max(0.0, until - monotonic()))
        return [_stored(value) for value in values]

    @_told
    def multi_set(self, keys, values):
        """multi_set(keys, values) -- store all these values at once"""
        if len(keys) != len(values):
            raise StoreError(f"{self!r}: multi_set: {len(keys)} keys and {len(values)} values")
        self._d.put_many((self._key(key), _bytes(value)) for key, value in zip(keys, values))

    @_told
    def queue_push(self, key, value):
        """queue_push(key, value) -- put a str or bytes behind the others of a queue, a key with several values: wait() and check() see it while it has any"""
        self._d._push(self._key(key), _bytes(value), 0, None)

    @_told
    def queue_pop(self, key, block=True):
        """queue_pop(key, block=True) -- take the first bytes of a queue; waits for them at most the store's timeout. block=False: does not, and raises torch's
        QueueEmptyError"""
        seconds = self._seconds() if block else 0
        try:
            return self._d._take(self._key(key), seconds)
        except KeyLostError:
            raise
        except KeyError:
            if block:
                raise self._late("queue_pop", [key], seconds) from None
            raise _QueueEmptyError(f"{self!r}: queue_pop: queue {key} is empty") from None

    @_told
    def queue_len(self, key):
        """queue_len(key) -- how many values a queue has"""
        return self._d._queued(self._key(key))

    def has_extended_api(self):
        """has_extended_api() -- True: there are append, multi_get and multi_set"""
        return True

    def clone(self):
        """clone() -- another object for the same store, with a timeout of its own"""
        return type(self)(self._name, self.timeout, self._d)

    @_told
    def close(self):
        """close() -- remove all that is in the store, for all its processes: one of them calls it when the others need it no more. This object keeps nothing alive then"""
        _kept.discard(self)
        self._d.clear(prefix=("ddict.torch", self._name))

    getNumKeys, deleteKey = num_keys, delete_key  # as C++ calls them

    def __reduce__(self):
        return type(self), (self._name, self.timeout, self._given)

    def __repr__(self):
        return f"<ddict.torch.Store {self._name!r}>"
