# SPDX-License-Identifier: Apache-2.0
"""Dragon's DDict, on a dictionary of ddict."""

import functools
from collections.abc import MutableMapping

import ddict as _ddict

from ...native.machine import Node
from . import making, stats as _stats
from .batch import Batch
from .directed import Directed
from .errors import (DDictCheckpointSyncError, DDictError, DDictFullError, DDictFutureCheckpointError, DDictKeyError, DDictPersistCheckpointError, DDictSyncError,
                     DDictTimeoutError, DDictUnableToCreateError, raises_theirs, theirs)
from .filter import FilterContextManager
from .near import Near
from .persister import CheckpointPersister, DAOSCheckpointPersister, NULLCheckpointPersister, PosixCheckpointPersister
from .pickler import Forms
from .stats import DDictManagerStats
from .views import DDictItemsView, DDictKeysView, DDictValuesView
from .window import Window

_ABSENT = object()
_OWN = {"persist_freq": 0, "persist_count": 0, "persist_path": "", "restore_from": None, "read_only": False}  # of one dictionary alone


def _again(cls, d, about, number, forms, checkpoint):
    made = cls._of(d, about, number, forms)
    made._set_checkpoint(checkpoint)
    return made


class DDict(Window, Near, MutableMapping):
    """DDict(managers_per_node=1, n_nodes=1, total_mem=3145728, *, working_set_size=1, wait_for_keys=False, wait_for_writers=False, policy=None,
    managers_per_policy=1, persist_freq=0, name="", timeout=None, restore_from=None, read_only=False, persist_count=0, persist_path="", persister_class=...)

    A dictionary with the names and rules of Dragon's DDict. This makes one, as ddict.up() does, over n_nodes of the job's nodes, with total_mem bytes in all;
    DDict.attach(serialized) finds one. It ends with destroy(), or with the process that made it. timeout: seconds that a call may take, None: a day.
    doc/from-dragon.md has each name and what differs. d.ddict is the same dictionary as a ddict.DDict.
    """

    def __init__(self, managers_per_node=1, n_nodes=1, total_mem=3 * 1024**2, *, working_set_size=1, wait_for_keys=False, wait_for_writers=False, policy=None,
                 managers_per_policy=1, orc_policy=None, persist_freq=0, name="", timeout=None, trace=False, restart=False, read_only=False, restore_from=None,
                 persist_count=0, persist_path="", persister_class=NULLCheckpointPersister, streams_per_manager=5, manager_pool_full_thresh=0.9):
        d, about = making.make(dict(
            managers_per_node=managers_per_node, n_nodes=n_nodes, total_mem=total_mem, working_set_size=working_set_size, wait_for_keys=wait_for_keys,
            wait_for_writers=wait_for_writers, policy=policy, managers_per_policy=managers_per_policy, persist_freq=persist_freq, name=name, timeout=timeout,
            restart=restart, read_only=read_only, restore_from=restore_from, persist_count=persist_count, persist_path=persist_path, persister_class=persister_class))
        self._begin(d, about, None, Forms())
        if restore_from is not None:
            self._plain_checkpoint = restore_from

    def _begin(self, d, about, number, forms):
        self.ddict, self._about, self._number, self._forms = d, about, number, forms
        self._there = d if number is None else Directed(d, number) if about["is_window"] else d.manager(number)  # where its keys are
        self._plain_checkpoint, self._batch = 0, None

    @classmethod
    def _of(cls, d, about, number=None, forms=None):
        made = cls.__new__(cls)
        made._begin(d, about, number, forms or Forms())
        return made

    def _like(self, number, forms):
        """Another handle, which begins at the same checkpoint, with an attachment of its own"""
        attach, given = self.ddict.__reduce__()
        return _again(type(self), attach(*given), self._about, number, forms, self.checkpoint_id)

    # --- handles ---

    def serialize(self):
        """serialize() -> str -- its name: DDict.attach() of it, ddict_attach() of C and ddict::DDict of C++ find this dictionary, in any process of its job"""
        return self.ddict.name

    @classmethod
    @raises_theirs
    def attach(cls, serialized_dict, *, timeout=None, trace=False):
        """attach(serialized_dict, *, timeout=None) -- a handle for the dictionary of this serialize(), or of this name (as of srun --ddict-name)"""
        d = _ddict.attach(serialized_dict, making.FOREVER_S if timeout is None else timeout)
        return cls._of(d, making.about(d))

    def __reduce__(self):
        return _again, (type(self), self.ddict, self._about, self._number, self._forms, self.checkpoint_id)

    @raises_theirs
    def detach(self):
        """detach() -- close this handle; the dictionary stays"""
        self.ddict.detach()

    @raises_theirs
    def destroy(self, allow_restart=False):
        """destroy() -- end the dictionary, for all; nothing if another handle has ended it"""
        if allow_restart:
            raise NotImplementedError("destroy(allow_restart=True): managers keep nothing after their end; persist() keeps the content, and DDict(..., restore_from=...) "
                                      "reads it")
        if self.ddict.attached:  # else it was ended
            try:
                self.ddict.down()
            except (_ddict.NoDictError, _ddict.GoneError):
                self.ddict.detach()

    def get_name(self):
        """get_name() -- its name"""
        arguments = self._about["arguments"]
        return arguments["name"] if arguments else self.ddict.name

    __eq__, __hash__ = object.__eq__, object.__hash__  # a handle is no value

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def __repr__(self):
        return f"<ddict.dragon.DDict {self.ddict.name!r}{'' if self._number is None else f', manager {self.main_manager}'}>"

    def __bool__(self):
        return True

    def pickler(self, key_pickler=None, value_pickler=None):
        """pickler(key_pickler=None, value_pickler=None) -- a handle whose keys key_pickler.dumps(key) and .loads(bytes) write and read, and whose values
        value_pickler.dump(value, file=) and .load(file=)"""
        return self._like(self._number, Forms(key_pickler, value_pickler))

    # --- the mapping ---

    def __getitem__(self, key):
        forms = self._forms
        try:
            value = self._there.get(forms.key(key), _ABSENT)
        except _ddict.Error as e:
            raise theirs(e) from e
        if value is _ABSENT:
            missing = getattr(type(self), "__missing__", None)
            if missing is None:
                raise DDictKeyError(key)
            return missing(self, key, err=DDictKeyError(key))
        return forms.load(value)

    def get(self, key, default=None):
        """get(key, default=None) -- the value, or default"""
        try:
            return self[key]
        except DDictKeyError:
            return default

    @raises_theirs
    def get_many(self, keys):
        """get_many(keys) -- [d[key] for key in keys], fetched together, which Dragon's does not have"""
        if self._number is not None:
            return [self[key] for key in keys]
        keys = list(keys)
        values = self.ddict.get_many(map(self._forms.key, keys), _ABSENT)
        return [self[key] if value is _ABSENT else self._forms.load(value) for key, value in zip(keys, values)]

    def __setitem__(self, key, value):
        forms = self._forms
        if self._batch is not None:
            self._batch.put(forms.key(key), forms.value(value))
            return
        try:
            self._there[forms.key(key)] = forms.value(value)
        except _ddict.Error as e:
            raise theirs(e) from e

    def __delitem__(self, key):
        try:
            del self._there[self._forms.key(key)]
        except _ddict.Error as e:
            raise theirs(e) from e
        except KeyError:
            raise DDictKeyError(key) from None

    @raises_theirs
    def __contains__(self, key):
        return self._forms.key(key) in self._there

    @raises_theirs
    def __len__(self):
        return len(self._there)

    def __iter__(self):
        try:
            for key in self._there:
                yield self._forms.given(key)
        except _ddict.Error as e:
            raise theirs(e) from e

    def _pairs(self):
        try:
            for key, value in self._there.items():
                yield self._forms.given(key), self._forms.load(value)
        except _ddict.Error as e:
            raise theirs(e) from e

    def keys(self):
        """keys() -- the keys, as a live view"""
        return DDictKeysView(self)

    def values(self):
        """values() -- the values, as a live view"""
        return DDictValuesView(self)

    def items(self):
        """items() -- the (key, value) pairs, as a live view"""
        return DDictItemsView(self)

    @raises_theirs
    def pop(self, key, default=None):
        """pop(key, default=None) -- remove the key and give its value; without it default, or DDictKeyError if that is None"""
        try:
            return self._forms.load(self._there.pop(self._forms.key(key)))
        except _ddict.Error:
            raise
        except KeyError:
            if default is None:
                raise DDictKeyError(key) from None
            return default

    @raises_theirs
    def clear(self):
        """clear() -- remove all keys"""
        if self._number is None and not self._about["is_window"]:
            self.ddict.clear()
            self.ddict[making.KEY] = {"arguments": self._about["arguments"]}
            return
        for key in list(self._there):
            self._there.pop(key, None)

    def update(self, other=(), /, **named):
        """update(other) -- put all pairs, many at a time, which Dragon's does not do"""
        self._put_many((self._forms.key(key), self._forms.value(value)) for key, value in dict(other, **named).items())

    @raises_theirs
    def _put_many(self, pairs, persistent=False):
        if persistent and self._about["is_window"]:
            self._there.put_many(pairs, persistent=True)
        elif self._number is not None:
            self._there.update(dict(pairs))
        else:
            self.ddict.put_many(pairs)

    def start_batch_put(self, persist=False):
        """start_batch_put(persist=False) -- d[key] = value from now on sends many pairs at once, until end_batch_put(); persist: as pput()"""
        if self._batch is not None:
            raise DDictError("start_batch_put() was called already: end_batch_put() first")
        self._batch = Batch(functools.partial(self._put_many, persistent=persist), persist)

    def end_batch_put(self):
        """end_batch_put() -- put what waits; all pairs of the batch are there when it returns"""
        if self._batch is None:
            raise DDictError("end_batch_put() without start_batch_put()")
        batch, self._batch = self._batch, None
        batch.flush()

    @raises_theirs
    def fetch_add(self, key, val=1):
        """fetch_add(key, val=1) -- add to an integer, which is 0 at first, and give what it was, at once for all"""
        return self.ddict.add(self._at(key), val) - val

    @raises_theirs
    def wait_for(self, key, value, timeout=None):
        """wait_for(key, value, timeout=None) -- wait until the key has this value; DDictTimeoutError"""
        self.ddict.wait_for(self._at(key), self._forms.value(value), timeout)

    def _at(self, key):
        key = self._forms.key(key)
        return key if self._number is None else self._there._at(key)

    @raises_theirs
    def bput(self, key, value):
        """bput(key, value) -- put it on every node, from where bget(key) takes it"""
        self._on_all("bput")
        self.ddict.bput(self._forms.key(key), self._forms.value(value))

    @raises_theirs
    def bget(self, key):
        """bget(key) -- what bput() put, from this node"""
        self._on_all("bget")
        try:
            return self._forms.load(self.ddict.bget(self._forms.key(key)))
        except _ddict.Error:
            raise
        except KeyError:
            raise DDictKeyError(key) from None

    def _on_all(self, name):
        if self._number is not None:
            raise NotImplementedError(f"{name}() of a manager: it is of the whole dictionary, on all nodes; for one manager use d[key]")

    @raises_theirs
    def freeze(self):
        """freeze() -- nothing may be changed until unfreeze(); reading is faster"""
        self.ddict.freeze()

    @raises_theirs
    def unfreeze(self):
        """unfreeze() -- it may be changed again; not where it was made read-only"""
        if self._about["read_only"]:
            raise DDictError("unfreeze(): it was made with read_only=True; advance() and restore() give it another state")
        self.ddict.unfreeze()

    @property
    @raises_theirs
    def is_frozen(self):
        """whether it is frozen"""
        return self.ddict.is_frozen

    # --- copies ---

    @raises_theirs
    def clone(self, clone_ddicts):
        """clone(list of serialize()) -- make these dictionaries have what this one has"""
        self.ddict.clone([self.attach(s).ddict for s in clone_ddicts])

    def copy(self, name=""):
        """copy(name="") -- a new dictionary with the same content"""
        arguments = self._about["arguments"]
        if arguments is None:
            raise DDictError("copy(): this dictionary was not made by DDict(...), so nobody knows its arguments: make one, and clone() into it")
        made = type(self)(**{**arguments, **_OWN, "name": name})
        self.clone([made.serialize()])
        return made

    @classmethod
    def synchronize_ddicts(cls, serialized_ddicts):
        """synchronize_ddicts(list of serialize()) -- copies of each other get what one of them has lost"""
        try:
            _ddict.synchronize([cls.attach(s).ddict for s in serialized_ddicts])
        except _ddict.Error as e:
            raise DDictSyncError(str(e)) from e

    # --- what it says about itself ---

    @property
    def dstats(self):
        """{number of the manager: DDictManagerStats}"""
        return {s.manager_id: s for s in self.stats}

    @property
    @raises_theirs
    def stats(self):
        """a list of DDictManagerStats, one a manager; of manager(i) the one of it. With a working set num_keys are the keys at the handle's checkpoint."""
        there = self.ddict.stats
        return [_stats.of(i, there[number], self._keys_at(number)) for i, number in enumerate(self._numbers) if self._number in (None, number)]

    def _keys_at(self, number):
        """The number of keys of a manager, None: as its statistics say"""
        return len(self.ddict.manager(number)) if self._about["is_window"] else None

    def profile(self):
        """profile() -- what the managers' operations took, as a text"""
        return "\n".join(f"manager {s.manager_id}: " + ", ".join(f"{name} {seconds:.6f} s" for name, seconds in s.timekeeper_stats.items()) for s in self.stats)

    def profile_reset(self):
        """profile_reset() -- refused: `ddict stats` and the record of the job have the figures over time"""
        raise NotImplementedError("profile_reset(): managers count from their start; the record of the job has the figures over time (ddict report)")

    def sync(self, timeout=None):
        """sync() -- does nothing: a put is done when it returns"""

    def filter(self, mgr_code, mgr_code_args, comparator, branching_factor=5):
        """filter(mgr_code, mgr_code_args, comparator) -- a context manager: an iterator over what mgr_code(dd, out_queue, *mgr_code_args) puts into out_queue, best
        first, for each manager's dd; comparator(a, b) says whether a is better. It runs in processes of this node."""
        bind = functools.partial(_bound, type(self), self._about, self._forms, self.checkpoint_id)
        return FilterContextManager(self.ddict, bind, mgr_code, mgr_code_args, comparator)


def _bound(cls, about, forms, checkpoint, manager):
    made = cls._of(manager.d, about, manager.number, forms)
    made._set_checkpoint(checkpoint)
    return made


__all__ = ["CheckpointPersister", "DAOSCheckpointPersister", "DDict", "DDictCheckpointSyncError", "DDictError", "DDictFullError", "DDictFutureCheckpointError",
           "DDictKeyError", "DDictManagerStats", "DDictPersistCheckpointError", "DDictSyncError", "DDictTimeoutError", "DDictUnableToCreateError",
           "FilterContextManager", "NULLCheckpointPersister", "Node", "PosixCheckpointPersister"]
