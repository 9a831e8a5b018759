# SPDX-License-Identifier: Apache-2.0
"""Dictionaries that this program makes: ddict.up(), ddict.down()."""

import os
import weakref

from . import _ddict, _holders

_made = {}  # name: (its handle, weakly; $DDICT_NAME before) of what this process has made and not ended, the last one behind
os.register_at_fork(after_in_child=_made.clear)  # a forked child is no maker


def _word(option, value):
    """The words of `ddict up` for an option of this value"""
    option = "--" + option.replace("_", "-")
    if value is None or value is False and option != "--refill":
        return []
    if value is True:
        return [option]
    if value is False:
        return [option + "=no"]
    if isinstance(value, (list, tuple)):
        values = [os.fspath(v) if isinstance(v, os.PathLike) else str(v) for v in value]
        return [f"{option}={v}" for v in values] if option == "--site" else [f"{option}={','.join(values)}"]
    return [f"{option}={os.fspath(value) if isinstance(value, os.PathLike) else value}"]


def working_set(size, wait_for_keys, wait_for_writers):
    """The value of --working-set"""
    waits = [word for word, wanted in (("wait-for-keys", wait_for_keys), ("wait-for-writers", wait_for_writers)) if wanted]
    if size is None and waits:
        raise ValueError(f"{waits[0].replace('-', '_')}=True goes with working_set=K, the number of checkpoints that are kept")
    return size if size is None else ",".join([str(size), *waits])


def up(cls, name, timeout, keep, options, restore_from=None):
    if keep not in (True, False):
        raise TypeError(f"keep={keep!r}: keep is True or False")
    words = [word for option, value in {"name": name, "keep": keep, **options}.items() for word in _word(option, value)]
    name, d = _ddict._up(words), None
    try:
        d = cls(name, timeout)
        if restore_from is not None:
            d.restore(restore_from)
    except BaseException:
        if d is not None:
            d.detach()  # else the end waits for it
        if not keep:
            _ddict._end(name, None)
        raise
    if not keep:
        _made[name] = weakref.ref(d), os.environ.get("DDICT_NAME")
    os.environ["DDICT_NAME"] = name
    return d


def is_made(d):
    """Whether d is the handle that up() gave to this process, of a dictionary that is there"""
    handle, _ = _made.get(d.name, (lambda: None, None))
    return handle() is d


def down(name=None, timeout=None):
    """down(name=None, timeout=None) -- end a dictionary; None: the last one that this process made by up(), else that of attach()

    One that this process made has ended when this returns: its processes have had up to 5 s (drain_ms) to detach. Any other one is told to end, and this
    returns when its managers have taken the order. ddict.TimeoutError after timeout seconds; None: as long as it takes, for another one's order 60 s.
    """
    if name is None and _made:
        name = next(reversed(_made))
    handle, before = _made.get(name, (None, None))
    _holders.leave(name)
    if handle is None:
        return _ddict.down(name, timeout)
    d = handle()
    if d is not None:
        d.detach()
    try:
        _ddict._end(name, timeout)
    except (_ddict.TimeoutError, KeyboardInterrupt):  # it goes on to end
        raise
    except BaseException:
        _forget(name, before)
        raise
    _forget(name, before)


def _forget(name, before):
    _made.pop(name, None)
    for other, (handle, remembered) in _made.items():
        if remembered == name:  # it is not there any more when the other one ends
            _made[other] = handle, before
    if os.environ.get("DDICT_NAME") == name:
        if before is None:
            del os.environ["DDICT_NAME"]
        else:
            os.environ["DDICT_NAME"] = before


# --- arguments of Dragon's DDict ---

_DRAGON = ("managers_per_node", "n_nodes", "total_mem")
_ALIKE = ("name", "timeout", "persist_freq", "persist_count", "restore_from", "read_only")
_INSTEAD = {
    "name": None,  # an option here, too
    "restart": "up(name=..., keep=True) makes one that stays, and attach(name) finds it",
    "wait_for_keys": "get(key, wait=True) waits for a key",
    "read_only": None,
    "persist_path": "up(persist=DIR) is the folder of persist() and restore()",
    "persister_class": "states are folders in the form of ddict.save(); there is no other form",
    "persist_freq": None,
    "persist_count": None,
    "restore_from": None,
    "trace": "DDICT_LOG=debug in the environment",
    "policy": "Slurm's options place the job, up(nodes=...) chooses of its nodes",
    "managers_per_policy": "up(managers=...) is the number of all managers",
}


def _size(n):
    for unit, letter in ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if n and n % unit == 0:
            return f'"{n // unit}{letter}"'
    return str(n)


def _number(value):
    try:
        return value.__index__()
    except AttributeError:
        return None


def instead(args, named):
    """What to write instead of DDict(*args, **named), whose arguments are Dragon's"""
    given = dict(zip(("name", "timeout") if args and isinstance(args[0], str) else _DRAGON, args))
    given.update(named)
    shown = ", ".join([repr(a) for a in args] + [f"{k}={v!r}" for k, v in named.items()])
    each, nodes, mem = (_number(given.pop(key, default)) for key, default in zip(_DRAGON, (1, 1, 0)))
    if each is None or nodes is None or mem is None or len(args) > len(_DRAGON):
        return f"DDict({shown}): DDict(name, timeout) attaches to a dictionary; ddict.up(managers=..., nodes=..., mem=...) makes one"
    options = [f"managers={each * nodes}", f"nodes={nodes}"] + ([f"mem={_size(mem)}"] if mem else [])
    options += [f"{key}={given.pop(key)!r}" for key in _ALIKE if given.get(key)]
    notes = [f"; {key}: {_INSTEAD.get(key) or 'there is no such option'}" for key, value in given.items() if value and (key, value) != ("working_set_size", 1)]
    return f"DDict({shown}): DDict(name, timeout) attaches to a dictionary; to make this one write ddict.up({', '.join(options)}){''.join(notes)}"
