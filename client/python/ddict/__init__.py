# SPDX-License-Identifier: Apache-2.0
"""The distributed dictionary of a Slurm job.

    import ddict

    d = ddict.attach()              # the job's dictionary, found through the environment
    d["weights", 3] = array         # every process of the job sees it
    array = d["weights", 3]         # a private copy
    view = d.view("sample")         # read-only, in place

    with ddict.up(mem="8G") as d:   # a dictionary of this program's own

Keys are str (or a path of pathlib, which is its text), bytes, int (anything with __index__; True is 1) and tuples of these; 1, "1" and b"1" are different keys.
Values are any objects that pickle, or cloudpickle where that is installed; bytes, bytearray, memoryview, str, int, float and arrays are stored without either.
"""

import os
from collections.abc import ItemsView, KeysView, Mapping, MutableMapping, ValuesView
from itertools import count, islice
from types import MappingProxyType

from . import _atomic, _copies, _ddict, _future, _place, _up
from ._atomic import ABSENT
from ._copies import SyncError
from ._events import KeyEvent, Subscription, subscribe as _subscribe, wait_for_prefix as _wait_for_prefix
from ._barrier import Barrier, BrokenBarrierError
from ._conditions import Condition, Counter, Event
from ._future import Future
from ._locks import Lock, RLock, Semaphore
from ._manager import Manager
from ._map import MapError, filter_items as _filter_items, map_items as _map_items
from ._publish import Follower
from ._queue import JoinableQueue, Queue
from ._persist import PersistFuture, advance as _advance, option as _persist_option, persist as _persist, restore as _restore_state
from .sets import LoadError, SaveError, Set, load, open_set, restore, save, sets  # hides the module `sets`, which `import` still finds
from ._ddict import (AuthError, CredError, Error, FrozenError, FullError, GoneError, KeyLostError, KeySizeError, LostError, NoDictError, Place, ProtocolError,
                     RawKey, RetiredError, SealedError, TimeoutError, ValueSizeError, VersionError, View, ViewsError, __version__, bytes_key, key_bytes, NotIntError)
from ._up import down

__all__ = ["ABSENT", "attach", "AuthError", "bytes_key", "CredError", "DDict", "Error", "FrozenError", "FullError", "Future", "GoneError",
           "KeyLostError", "KeySizeError", "LostError", "Manager", "MapError", "NoDictError", "NotIntError", "ProtocolError", "RawKey",
           "RetiredError", "SealedError", "TimeoutError", "ValueSizeError", "VersionError", "View", "ViewsError",
           "down", "key_bytes", "Place", "Queue", "Subscription", "LoadError", "SaveError", "Set", "load", "open_set", "restore",
           "save", "sets", "SyncError", "synchronize", "up"]
__all__ += ["Barrier", "BrokenBarrierError", "Condition", "Counter", "Event", "Follower", "JoinableQueue", "KeyEvent", "Lock", "PersistFuture", "RLock", "Semaphore"]

_ABSENT = object()
_RUN = os.urandom(8).hex()  # of this process and its forks: what stands for a __main__ without a file (a notebook, python -c) in _cloud.py
_CHUNK_KEYS = 64        # values that iteration fetches at once: enough to hide the network's latency
_CHUNK_BYTES = 8 << 20  # limit of their total size, once their size is known


def _pairs(d, keys):
    """The (key, value) pairs of these keys of d; keys that are removed meanwhile are left out."""
    room = 4
    while True:
        chunk = list(islice(keys, room))
        if not chunk:
            return
        try:
            views = d._view_many(chunk)
        except ViewsError:  # this process holds as many views as it may, but it can still copy
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
        """The dictionary of this view, read-only"""
        return MappingProxyType(self._mapping)


class _Keys(KeysView, _Mapping):
    __slots__ = ()


class _Items(ItemsView, _Mapping):
    __slots__ = ()

    def __iter__(self):
        return _pairs(self._mapping, iter(self._mapping))


class _Values(ValuesView, _Mapping):
    __slots__ = ()

    def __iter__(self):
        return (value for _, value in _pairs(self._mapping, iter(self._mapping)))

    def __contains__(self, value):
        return any(v is value or v == value for v in self)


class DDict(_ddict.Handle, MutableMapping):
    """DDict(name=None, timeout=None)

    A handle that is attached to a dictionary. name: None for $DDICT_NAME, or else the job's dictionary. timeout: seconds that a call may take, None for
    $DDICT_TIMEOUT or 60 (1800 with --ddict-refill, where the call does not wait for a key); a call without an answer by then raises ddict.TimeoutError. The timeout argument of a call, in seconds, replaces it; None means the
    handle's. Calls with timeout None wait for ever only where Python's own interfaces do: a Queue's get() and put(), a Subscription, a Future's result().

    d[key] is a copy that shares nothing with the dictionary: changing the copy does not change the stored value.
    Any number of threads may use a handle; a forked child may use it, too, and a pickled handle attaches where it is
    unpickled. Iteration, keys(), values() and items() are live: a key that is present all the time is visited exactly once.
    """

    __slots__ = ("__weakref__", "_driver")

    def __init__(self, *args, **named):
        if len(args) > 2 or args and not (args[0] is None or isinstance(args[0], str)) or not named.keys() <= {"name", "timeout"}:
            raise TypeError(_up.instead(args, named))
        super().__init__(*args, **named)

    def persist(self, id=None, *, wait=True, timeout=None):
        """persist(id=None, *, wait=True, timeout=None) -- save the dictionary as state id (None: 0) below the folder of up(persist=DIR); the number

        The state is the folder DIR/id in the form of ddict.save(), complete or not there; one of that number is replaced. Each value is saved as of the moment it
        is read. wait=False: a ddict.PersistFuture; the program goes on, and its end waits for it. ddict.SaveError: it was not saved, and DIR is as it was.
        """
        return _persist(self, id, wait, timeout)

    def restore(self, id, *, timeout=None):
        """restore(id, *, timeout=None) -- give the dictionary exactly state id: all else is removed, and so are states with higher numbers (not if read-only)

        All that was saved is checked before anything is removed. Who reads meanwhile finds a part of it. ddict.SaveError: there is no such state, or it is damaged.
        """
        _restore_state(self, id, timeout)

    def advance(self, *, timeout=None):
        """advance(*, timeout=None) -- of a read-only dictionary: restore the next state, the present one's number + persist_freq, or the next that is there; its number

        ddict.SaveError: there is no further one, and nothing has changed.
        """
        return _advance(self, timeout)

    def __reduce__(self):
        cls, given = super().__reduce__()
        return _again, (cls, *given, self._node)

    def keys(self, prefix=None, *, hidden=False):
        """keys(prefix=None, *, hidden=False) -- the keys, as a live view; with a prefix or hidden an iterator over the keys

        A str or bytes prefix selects keys of that type, a tuple selects tuples that begin with these parts. The managers do the selection. hidden: also
        the keys of the project's own bookkeeping, which begin with "ddict." or are tuples that begin with such a str (sets, queues, results). As dot
        files they are there for who names them, also as a prefix, and are in neither len(d) nor iteration.
        """
        return _Keys(self) if prefix is None and not hidden else self._keys(prefix, hidden, -1)

    def subscribe(self, prefix=None, *, dels=False, values=True, there=False, hidden=False, timeout=None):
        """subscribe(prefix=None, *, dels=False, values=True, there=False, hidden=False, timeout=None) -- an iterator over events of keys with the prefix

        Every put that begins after this call has returned gives a ddict.KeyEvent with .key and .value; events of one manager's keys are in order. prefix as in keys();
        None: all keys. dels: events of removed keys, too. values: events carry small values. there: first an event for each present key. hidden: as in keys(). timeout: seconds without an
        event after which iteration raises ddict.TimeoutError. Writers do not wait for subscribers: one that does not read for long gets an event of kind "missed",
        and has to list the keys again.
        """
        return _subscribe(self, prefix, dels=dels, values=values, there=there, hidden=hidden, timeout=timeout)

    def wait_for_prefix(self, prefix, n=1, timeout=None):
        """wait_for_prefix(prefix, n=1, timeout=None) -- wait until n keys have the prefix; the set of these keys

        ddict.TimeoutError after timeout seconds, None: the handle's, as in get().
        """
        return _wait_for_prefix(self, prefix, n, timeout)

    def values(self, *, prefix=None, hidden=False):
        """values(*, prefix=None, hidden=False) -- the values, as a live view; with a prefix or hidden an iterator over those of keys()"""
        return _Values(self) if prefix is None and not hidden else (value for _, value in _pairs(self, self._keys(prefix, hidden, -1)))

    def items(self, *, prefix=None, hidden=False):
        """items(*, prefix=None, hidden=False) -- the (key, value) pairs, as a live view; with a prefix or hidden an iterator over those of keys()"""
        return _Items(self) if prefix is None and not hidden else _pairs(self, self._keys(prefix, hidden, -1))

    def local_keys(self, prefix=None, *, hidden=False):
        """local_keys(prefix=None, *, hidden=False) -- an iterator over the keys of this node's managers, whose values are read in place; as keys()"""
        return self._keys(prefix, hidden, -2)

    def local_values(self, prefix=None, *, hidden=False):
        """local_values(prefix=None, *, hidden=False) -- an iterator over the values of local_keys()"""
        return (value for _, value in self.local_items(prefix, hidden=hidden))

    def local_items(self, prefix=None, *, hidden=False):
        """local_items(prefix=None, *, hidden=False) -- an iterator over the (key, value) pairs of local_keys()"""
        return _pairs(self, self._keys(prefix, hidden, -2))

    def manager(self, number):
        """manager(number) -- a mapping of what this manager has, a ddict.Manager: what is put there lies on that manager, and is found there from every node"""
        return Manager(self, number)

    def map(self, fn, *, prefix=None, into=None, workers=None):
        """map(fn, *, prefix=None, into=None, workers=None) -- {key: fn(key, value)} of the items of this node

        The items of local_items(prefix) are divided among so many processes, None: one a core of this process. To go over the whole dictionary, one process of
        each node calls it. into: the results are put instead, under into + key (a tuple gets one more first part; a str with a key of another type is the
        tuple of both), and the call gives their number. If fn raises an exception, ddict.MapError names the key; the other processes are ended, and what was put stays.
        The processes are those of multiprocessing's start method: with "spawn" and "forkserver" fn must be one that pickles. On a terminal it shows how
        far it is.
        """
        return _map_items(self, fn, prefix, into, workers)

    def filter(self, fn, args, comparator, *, workers=None):
        """filter(fn, args, comparator, *, workers=None) -- a context manager: an iterator over what fn finds at each manager, in order

            def largest(manager, n):                    # manager: a ddict.Manager, a mapping of what one manager has
                return sorted(manager.items(), key=lambda item: item[1], reverse=True)[:n]

            with d.filter(largest, (10,), lambda a, b: a[1] > b[1]) as found:
                for key, value in found:

        fn(manager, *args) gives its results in order, and comparator(a, b) says whether a comes before b. fn runs in processes of this node, as in map(), one call
        for each manager of the dictionary; values of other nodes come over the network. ddict.MapError: it has raised an exception.
        """
        return _filter_items(self, fn, args, comparator, workers)

    def key_tag(self, manager=None):
        """key_tag(manager=None) -- a tag: keys that contain it are on this manager; None: on local_manager, so on this node

            d[d.key_tag() + "/weights"] = w         # here, for example as "{3}/weights"
            d[d.key_tag(d.local_managers[1]), 7] = w

        Such keys are plain keys in every way. The same manager has the same tag in every process, and the part between the braces alone says where a key is, so
        nobody has to look for it. No brace may stand in front of the tag.
        """
        if manager is None and (manager := self.local_manager) is None:
            raise ValueError("this node has no manager that has keys")
        Manager(self, manager)  # refuses one that has none
        return next(tag for tag in map("{{{}}}".format, count()) if self.owner(tag) == manager)

    @property
    def local_managers(self):
        """The managers of this node, by their numbers; info["local_managers"] says how many"""
        info = self.info
        return list(range(info["node_id"], info["managers"], info["nodes"]))

    @property
    def local_manager(self):
        """The first manager of this node that has keys; None: none has (--ddict-nodes)"""
        info = self.info
        return info["node_id"] if info["node_id"] < info["keyed_nodes"] else None

    @property
    def manager_nodes(self):
        """The name of each manager's node; asks the managers"""
        return [manager["node"] for manager in self.stats]

    def clear(self, *, prefix=None):
        """clear(*, prefix=None) -- remove all keys, manager by manager; hidden keys, too, because they describe what is removed

        With a prefix: the keys that keys(prefix) gives, one after another. Those that are put meanwhile may stay.
        """
        if prefix is None:
            return super().clear()
        for key in self._keys(prefix, False, -1):
            try:
                del self[key]
            except KeyError:  # another process was faster
                pass

    def popitem(self):
        """popitem() -- remove some key and return (key, last value); KeyError when empty. A value that cannot be unpickled here stays, as with pop()"""
        while True:
            for key in self:
                try:
                    return key, self.pop(key)
                except KeyError:  # another process was faster
                    break
            else:
                raise KeyError("popitem(): dictionary is empty")

    def compare_and_set(self, key, old=_atomic.NOT_GIVEN, new=_atomic.NOT_GIVEN, *, version=None):
        """compare_and_set(key, old, new, *, version) -- store new only while key has the value old; whether it was stored

        ddict.ABSENT as old: only while key is absent; as new: remove it. Values are compared as they are stored: 1 and 1.0 differ, and so may two pickles of equal
        objects. With version= in place of old (compare_and_set(key, new=value, version=v)): only while key has this version, of View.version or version(key); 0: it
        is absent. Of several callers with the same old value, or version, one gets True.
        """
        return _atomic.compare_and_set(self, key, old, new, version)

    def wait_for(self, key, value, timeout=None):
        """wait_for(key, value, timeout=None) -- wait until key has this value, or ddict.ABSENT: none; compared as in compare_and_set()

        ddict.TimeoutError after timeout seconds, None: the handle's. A value that another one follows at once may be missed.
        """
        _atomic.wait_for(self, key, value, timeout)

    def __getitems__(self, keys):
        """__getitems__(keys) -- [d[key] for key in keys], fetched together; KeyError names the first absent key

        torch's DataLoader calls it for a whole batch if the dataset has it: use a DDict as the dataset (sampler=keys), or call
        self.d.__getitems__([("sample", i) for i in indices]) in your own dataset.
        """
        keys = keys if isinstance(keys, (str, bytes)) else list(keys)  # get_many() refuses str and bytes
        values = self.get_many(keys, _ABSENT)
        for key, value in zip(keys, values):
            if value is _ABSENT:
                raise KeyError(key)
        return values

    def get_async(self, key, *, wait=False, timeout=None):
        """get_async(key, *, wait=False, timeout=None) -- a Future of d[key]; of a list of keys: of the list of their values. A tuple is one key

        The call does not wait: future.result(), or await future in any event loop, gives the value or raises as d[key] does. A value of this node is
        there at once. wait: whether to wait for the key, at most timeout seconds, after which ddict.TimeoutError is raised. Many requests may be under way.
        """
        many = isinstance(key, list)
        return _future.begin(self, key if many else [key], many, wait, timeout, False)

    def view_async(self, key, *, wait=False, timeout=None):
        """view_async(key, *, wait=False, timeout=None) -- as get_async(), a Future of view(key)"""
        many = isinstance(key, list)
        return _future.begin(self, key if many else [key], many, wait, timeout, True)

    def follow(self, name, *, timeout=None, alias_tensors=False):
        """follow(name, *, timeout=None, alias_tensors=False) -- an iterator over (version, value): what is published under name

            for version, weights in d.follow("weights"):
                ...

        First the newest version, then newer ones as they come. Who is slower than the publisher does not get all: each step gives the newest. Arrays are in place,
        read-only, without a copy, and stay as long as they are used; tensors with alias_tensors=True, as View.load() says. A large value is on each node once, for
        all its processes. ddict.TimeoutError if nothing newer came for timeout seconds; None waits. The loop ends when what it gave is removed by unpublish() or
        clear(), and when the dictionary ends.
        """
        return Follower(self, name, timeout, alias_tensors)

    def bput(self, key, value):
        """bput(key, value) -- publish(key, value): a value for all nodes, which bget() reads from its own node"""
        self.publish(key, value)

    def bget(self, key, *, wait=False, timeout=None):
        """bget(key, *, wait=False, timeout=None) -- a copy of the newest value of bput() or publish(), from this node; KeyError when there is none

        wait: whether to wait for the first one, at most timeout seconds, after which ddict.TimeoutError is raised.
        """
        with self._bview(key, wait, timeout) as view:
            return view.copy()

    def put_async(self, key, value):
        """put_async(key, value) -- a Future of d[key] = value, whose result is None

        value must not be changed until the future is done. Large values are sent while a thread waits for a future of this handle, at the latest at the end of the
        program, which finishes all puts; a warning reports failed puts whose result nobody asked for.
        """
        return _future.begin_put(self, key, value)

    def reserve(self, key, nbytes=None, *, shape=None, dtype=None):
        """reserve(key, nbytes=None, *, shape=None, dtype=None) -- build a value in place, which saves a copy

            with d.reserve(("batch", 3), shape=(64, 3, 224, 224), dtype="float32") as array:
                for i, sample in enumerate(samples):
                    array[i] = decode(sample)

        With nbytes, `with` gives a writable memoryview, and d[key] is bytes afterwards; with shape and dtype (numpy's or torch's) it gives a numpy array or a
        torch tensor, and so does d[key] afterwards. The value is stored at the end of the block, or not at all if the block raises. Its first content is
        undefined. Arrays over the memory stay valid afterwards, but belong to this process alone.
        """
        return _place.reserve(self, key, nbytes, shape, dtype)

    def detach(self):
        """detach() -- close this handle

        The dictionary stays, and views stay valid. Calls of other threads are finished first; futures end with ddict.Error.
        """
        super().detach()
        driver = getattr(self, "_driver", None)
        if driver is not None:
            driver.finish()

    close = detach

    def down(self, timeout=None):
        """down(timeout=None) -- end the dictionary, for all its processes: ddict.down(d.name)"""
        _up.down(self.name, timeout)
        self.detach()

    def __exit__(self, type, value, traceback):
        if not _up.is_made(self):
            self.detach()
            return
        try:
            self.down()
        except Error:
            if type is None:  # else the block's own exception says more
                raise

    def put_many(self, pairs, *, persistent=False):
        """put_many(pairs, *, persistent=False) -- store all pairs of a mapping or an iterable; their number

        The pairs travel together, which is several times faster than single puts. If a pair is refused, or cannot be pickled, the pairs gathered with it are
        stored nevertheless and the rest is not tried. The exception's .failed lists the keys that are not known to be stored; .unknown lists those of
        them that were sent but not answered, so they may be stored now or later; .stored is the number of stored pairs. persistent: as pput().
        """
        if isinstance(pairs, Mapping):
            pairs = pairs.items()
        elif hasattr(pairs, "keys"):
            source = pairs
            pairs = ((key, source[key]) for key in source.keys())
        return self._put_pairs(pairs, persistent)

    def update(self, other=(), /, **kwds):
        """update(other=(), /, **kwds) -- as dict.update(), many at a time"""
        self.put_many(other)
        if kwds:
            self._put_pairs(kwds.items(), False)

    def __ior__(self, other):
        self.update(other)
        return self

    def copy(self, name=None, *, keep=False, timeout=None, **options):
        """copy(name=None, *, keep=False, timeout=None, **options) -- the present content as an ordinary dict; with a name a new dictionary with this content, a DDict

            with d.copy("before") as before:

        The options are those of ddict.up(), which makes it; without them it has as many managers, nodes and as much memory as this one. It ends as those of
        up() do. $DDICT_NAME stays as it is. If the content cannot be copied, it is ended again.
        """
        if name is None and not options and not keep:
            return dict(self.items())
        return _copies.copy(type(self), self, name, timeout, keep, options)

    def clone(self, others, *, progress=None):
        """clone(others, *, progress=None) -- put this content into other dictionaries of the job, in place of theirs; a dict of items, bytes, seconds, nodes

        others: a list of DDicts or names. They may have other numbers of managers and nodes. All their keys are removed first. What is put here or there
        meanwhile may be in the copies or not. Kinds of values and hidden keys are copied, too, so data sets, events and counters work there; locks,
        semaphores, barriers, conditions and queues are not, and of a key with several values the first one is. If it fails, with ddict.Error, a part stays there.
        Runs `ddict copy`. progress: show it on stderr; None: if that is a terminal.
        """
        return _copies.clone(self, others, progress)

    def __or__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        return {**dict(self.items()), **dict(other.items())}

    def __ror__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        return {**dict(other.items()), **dict(self.items())}

    def sets(self):
        """sets() -- the names of the data sets in the dictionary, sorted; see open_set(name), ddict.load()"""
        return sets(self)

    def open_set(self, name):
        """open_set(name) -- the data set of this name, as a ddict.Set; KeyError when there is none"""
        return Set(name, self)


def _again(cls, name, timeout, node):
    """Attach a handle that was pickled

    A process of multiprocessing's forkserver, the default since Python 3.14, has the environment in which that server began. If $DDICT_NODE was another then,
    the dictionary is looked for under the name of the node where the handle was pickled, which the process keeps.
    """
    try:
        return cls(name, timeout)
    except NoDictError as e:
        before, error = os.environ.get("DDICT_NODE"), e
    if before != node:
        os.environ["DDICT_NODE"] = node
        try:
            return cls(name, timeout)
        except NoDictError:
            if before is None:
                del os.environ["DDICT_NODE"]
            else:
                os.environ["DDICT_NODE"] = before
    raise error


def attach(name=None, timeout=None):
    """attach(name=None, timeout=None) -- the job's dictionary, or the one called name, as a DDict

    Waits until its managers are ready, at most timeout seconds; each later call on the handle may take as long. Raises ddict.NoDictError
    if there is no dictionary.
    """
    return DDict(name, timeout)


def synchronize(dictionaries):
    """synchronize(dictionaries) -- make them replicas of each other: those that are empty get the content of one that is not; the names of these

    dictionaries: a list of DDicts or names, of one job. Where several have keys, all their keys and values are compared, and ddict.SyncError says which of them
    differ; .differ has their names, and nothing is copied then. If all are empty nothing is done. Otherwise as clone().
    """
    return _copies.synchronize(attach, dictionaries)


def up(name=None, *, managers=None, mem=None, nodes=None, replicas=None, refill=None, working_set=None, wait_for_keys=False,
       wait_for_writers=False, load=None, restore=None, save=None, spill=None, record=None, results=None, persist=None,
       persist_freq=None, persist_count=None, restore_from=None, read_only=False, chdir=None, transport=None, wire=None, mpi=None, site=None,
       local=False, jobid=None, step=None, start_timeout=None, drain_ms=None, srun=None, ddictd=None,
       keep=False, timeout=None):
    """up(name=None, *, managers=None, mem=None, ..., keep=False, timeout=None) -- make a dictionary; a DDict that is attached to it

        with ddict.up(managers=4, mem="8G") as d:
            d["a"] = 1

    In a Slurm job its managers run on the job's nodes, elsewhere on this machine. It ends with the block, by d.down() or ddict.down(), or with this process,
    however that ends. keep=True: it lives on until `ddict down`, or until the job ends; and if there is one of that name already, that one is attached to.
    Meanwhile $DDICT_NAME of this process names it, so that ddict.attach() finds it, here and in processes that are started from here.

    The options are those of the command `ddict up` (ddict-up(1)), with _ for -; True for an option without a value; a list for several values. timeout: seconds
    that a call on the handle may take, as in attach(). ddict.NoDictError: it did not start; the text says why.

    persist: the folder of d.persist() and d.restore(). persist_freq: each checkpoint whose id is a multiple is saved when it is retired; persist_count: so many
    of the newest states are kept (None: all). read_only: only restore() and advance() change the dictionary. restore_from: the state that it begins with.
    """
    if restore_from is not None and persist is None:
        raise TypeError("restore_from goes with persist=DIR")
    options = dict(managers=managers, mem=mem, nodes=nodes, replicas=replicas, refill=refill, load=load,
                   working_set=_up.working_set(working_set, wait_for_keys, wait_for_writers), restore=restore, save=save, spill=spill, record=record,
                   results=results, chdir=chdir, transport=transport, wire=wire, mpi=mpi, site=site, local=local, jobid=jobid, step=step,
                   start_timeout=start_timeout, drain_ms=drain_ms, srun=srun, ddictd=ddictd,
                   persist=_persist_option(persist, persist_freq, persist_count, read_only))
    return _up.up(DDict, name, timeout, keep, options, restore_from)
