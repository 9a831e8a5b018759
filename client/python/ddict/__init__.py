# SPDX-License-Identifier: Apache-2.0
"""The distributed dictionary of a Slurm job.

    import ddict

    d = ddict.attach()              # the job's dictionary, found through the environment
    d["weights", 3] = array         # seen by every process of the job
    array = d["weights", 3]         # a copy of one's own
    view = d.view("sample")         # read-only, in place

Keys are str, bytes, int (anything with __index__; True is 1) and tuples of these; 1, "1" and b"1" are different keys.
Values are any objects that pickle; bytes, bytearray, memoryview, str, int and float are stored as they are.
"""

from collections.abc import ItemsView, KeysView, Mapping, MutableMapping, ValuesView
from itertools import islice
from types import MappingProxyType

from . import _ddict, _future, _place
from ._events import Event, Subscription, subscribe as _subscribe, wait_for_prefix as _wait_for_prefix
from ._future import Future
from ._queue import Queue
from .sets import LoadError, SaveError, Set, load, open_set, restore, save, sets  # the function; the module is reached by import as ever
from ._ddict import (AuthError, CredError, Error, FrozenError, FullError, GoneError, KeySizeError, LostError, NoDictError, Place, ProtocolError, RawKey,
                     TimeoutError, ValueSizeError, VersionError, View, ViewsError, __version__, bytes_key, down, key_bytes)

__all__ = ["AuthError", "CredError", "DDict", "Error", "Event", "FrozenError", "FullError", "Future", "GoneError", "KeySizeError", "LostError", "NoDictError",
           "ProtocolError", "RawKey", "TimeoutError", "ValueSizeError", "VersionError", "View", "ViewsError", "attach", "bytes_key",
           "down", "key_bytes", "Place", "Queue", "Subscription", "LoadError", "SaveError", "Set", "load", "open_set", "restore",
           "save", "sets"]

_ABSENT = object()
_CHUNK_KEYS = 64        # values under way at once while iterating: enough to hide the network
_CHUNK_BYTES = 8 << 20  # and no more than this of them, once their size is known


def _pairs(d):
    """(key, value) of the keys of d; those that are removed meanwhile are left out."""
    keys = iter(d)
    room = 4
    while True:
        chunk = list(islice(keys, room))
        if not chunk:
            return
        try:
            views = d._view_many(chunk)
        except ViewsError:  # this process holds as many as it may; copies can still be had
            yield from ((key, value) for key in chunk if (value := d.get(key, _ABSENT)) is not _ABSENT)
            continue
        largest = max((len(v) for v in views if v is not None), default=0)
        room = max(1, min(_CHUNK_KEYS, _CHUNK_BYTES // (largest + 1)))
        views.reverse()
        for key in chunk:
            view = views.pop()
            if view is not None:
                with view:
                    try:
                        value = view.copy()
                    except Exception as e:
                        named = _ddict._named(e, key)
                        if named is e:
                            raise
                        raise named from e
                yield key, value


class _Mapping:
    __slots__ = ()

    @property
    def mapping(self):
        """The dictionary it is a view of, to be read"""
        return MappingProxyType(self._mapping)


class _Keys(KeysView, _Mapping):
    __slots__ = ()


class _Items(ItemsView, _Mapping):
    __slots__ = ()

    def __iter__(self):
        return _pairs(self._mapping)


class _Values(ValuesView, _Mapping):
    __slots__ = ()

    def __iter__(self):
        return (value for _, value in _pairs(self._mapping))

    def __contains__(self, value):
        return any(v is value or v == value for v in self)


class DDict(_ddict.Handle, MutableMapping):
    """DDict(name=None, timeout=None)

    A handle to a dictionary, attached. name: None for $DDICT_NAME or else the job's own. timeout: seconds that a call may take, None for
    $DDICT_TIMEOUT or 60; every call then gives an answer or ddict.TimeoutError. Calls that have a timeout of their own take it instead, in seconds; None is the
    handle's. Only where Python's own interfaces wait for ever with None do ours: a Queue's get() and put(), a Subscription, a Future's result().

    d[key] is a copy that shares nothing with the dictionary: changing it changes nothing there until it is stored again.
    Any number of threads may use a handle; a forked child may use it too, and a pickled one attaches where it is
    unpickled. Iteration, keys(), values() and items() are live: a key present throughout comes exactly once.
    """

    __slots__ = ("__weakref__", "_driver")

    def keys(self, prefix=None):
        """keys(prefix=None) -- the keys, as a live view; with a prefix an iterator over those that begin with it

        A str or bytes prefix is one of keys of that type, a tuple one of tuples that begin with these parts. The managers pick them out.
        """
        return _Keys(self) if prefix is None else self._keys(prefix)

    def subscribe(self, prefix=None, *, dels=False, values=True, there=False, timeout=None):
        """subscribe(prefix=None, *, dels=False, values=True, there=False, timeout=None) -- an iterator over what happens to keys with the prefix

        Every put that begins after this returned comes as a ddict.Event with .key and .value, in order for keys of one manager. prefix as in keys(); None: all keys.
        dels: also of keys that are removed. values: small values come along. there: first the keys that are there. timeout: seconds without an event after which
        iteration raises ddict.TimeoutError. Nobody waits for a subscriber: who does not read for long gets an event of kind "missed" and lists the keys again.
        """
        return _subscribe(self, prefix, dels=dels, values=values, there=there, timeout=timeout)

    def wait_for_prefix(self, prefix, n=1, timeout=None):
        """wait_for_prefix(prefix, n=1, timeout=None) -- wait until n keys have the prefix; the set of those there are

        ddict.TimeoutError after timeout seconds, None: the handle's, as in get().
        """
        return _wait_for_prefix(self, prefix, n, timeout)

    def values(self):
        """values() -- the values, as a live view"""
        return _Values(self)

    def items(self):
        """items() -- the (key, value) pairs, as a live view"""
        return _Items(self)

    def popitem(self):
        """popitem() -- remove some key and return (key, last value); KeyError when empty. A value that does not unpickle here stays, as with pop()"""
        while True:
            for key in self:
                try:
                    return key, self.pop(key)
                except KeyError:  # another process was faster
                    break
            else:
                raise KeyError("popitem(): dictionary is empty")

    def __getitems__(self, keys):
        """__getitems__(keys) -- [d[key] for key in keys], fetched together; KeyError names the first that is absent

        torch's DataLoader calls it for a whole batch where a dataset has it: for a DDict itself (sampler=keys), or in a dataset of your own as
        self.d.__getitems__([("sample", i) for i in indices]).
        """
        keys = keys if isinstance(keys, (str, bytes)) else list(keys)  # which get_many() refuses
        values = self.get_many(keys, _ABSENT)
        for key, value in zip(keys, values):
            if value is _ABSENT:
                raise KeyError(key)
        return values

    def get_async(self, key, *, wait=False, timeout=None):
        """get_async(key, *, wait=False, timeout=None) -- a Future of d[key]; of a list of keys: of the list of their values. A tuple is one key

        It waits for nothing: future.result(), or await future in any event loop, gives the value or raises as d[key] does. What is on this node is
        there at once. wait: whether to wait for the key, at most timeout seconds; ddict.TimeoutError when it did not come. Many may be under way.
        """
        many = isinstance(key, list)
        return _future.begin(self, key if many else [key], many, wait, timeout, False)

    def view_async(self, key, *, wait=False, timeout=None):
        """view_async(key, *, wait=False, timeout=None) -- as get_async(), a Future of view(key)"""
        many = isinstance(key, list)
        return _future.begin(self, key if many else [key], many, wait, timeout, True)

    def put_async(self, key, value):
        """put_async(key, value) -- a Future of d[key] = value, whose result is None

        value must not be changed until then. Large values are sent while somebody waits for a future of this handle, at last the end of the program, which finishes all
        puts; a warning tells of those that failed without being asked for.
        """
        return _future.begin_put(self, key, value)

    def reserve(self, key, nbytes=None, *, shape=None, dtype=None):
        """reserve(key, nbytes=None, *, shape=None, dtype=None) -- a value that is built in place, with one copy fewer

            with d.reserve(("batch", 3), shape=(64, 3, 224, 224), dtype="float32") as array:
                for i, sample in enumerate(samples):
                    array[i] = decode(sample)

        With nbytes, with gives a writable memoryview, and d[key] is bytes afterwards; with shape and dtype (numpy's or torch's) a numpy array or a
        torch tensor, which d[key] is then. It is stored at the end of the block, or not at all when that ends with an exception. What it holds at
        first is not defined. Arrays over the memory may live on; they are the process's own then.
        """
        return _place.reserve(self, key, nbytes, shape, dtype)

    def detach(self):
        """detach() -- end this handle

        The dictionary and the views taken from it stay. Calls of other threads that are under way are finished first, futures end with ddict.Error.
        """
        super().detach()
        driver = getattr(self, "_driver", None)
        if driver is not None:
            driver.finish()

    close = detach

    def __exit__(self, type, value, traceback):
        self.detach()

    def put_many(self, pairs):
        """put_many(pairs) -- store all pairs of a mapping or an iterable; their number

        They travel together, which is several times faster than one by one. When one is refused, or does not pickle, those gathered with it are
        stored all the same, the rest is not tried, and the exception's .failed lists the keys that are not known to be stored, .unknown
        those of them that were sent and not answered, which may be stored all the same, or still be; .stored is the number of pairs stored.
        """
        if isinstance(pairs, Mapping):
            pairs = pairs.items()
        elif hasattr(pairs, "keys"):
            source = pairs
            pairs = ((key, source[key]) for key in source.keys())
        return self._put_pairs(pairs)

    def update(self, other=(), /, **kwds):
        """update(other=(), /, **kwds) -- as dict.update(), many at a time"""
        self.put_many(other)
        if kwds:
            self._put_pairs(kwds.items())

    def __ior__(self, other):
        self.update(other)
        return self

    def copy(self):
        """copy() -- all that is there now, as an ordinary dict"""
        return dict(self.items())

    def __or__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        return {**self.copy(), **dict(other.items())}

    def __ror__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        return {**dict(other.items()), **self.copy()}

    def sets(self):
        """sets() -- the names of the data sets in it, sorted: open_set(name), ddict.load()"""
        return sets(self)

    def open_set(self, name):
        """open_set(name) -- the data set of this name, as a ddict.Set; KeyError when there is none"""
        return Set(name, self)


def attach(name=None, timeout=None):
    """attach(name=None, timeout=None) -- the job's dictionary, or the one called name, as a DDict

    Waits until its managers are ready, at most timeout seconds; each later call on the handle may take as long. ddict.NoDictError
    when there is none.
    """
    return DDict(name, timeout)
