# SPDX-License-Identifier: Apache-2.0
"""The dictionary that queues, locks and other things without a dictionary of their own are in."""

import atexit
import os
import threading
import uuid

import ddict as _ddict

VARIABLE = "DDICT_DRAGON"  # its name, for processes that are started from here
_MEM_NODE = 64 << 20
_lock = threading.Lock()
_found = {}                # pid: the handle


def _child():
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_child)


def home():
    """The handle. The first process of a program makes the dictionary, over the nodes of its job, and it ends with that process."""
    with _lock:
        d = _found.get(os.getpid())
        if d is None:
            name = os.environ.get(VARIABLE)
            d = _found[os.getpid()] = _make() if name is None else _ddict.attach(name)
        return d


def _make():
    from .native.machine import hosts
    before = os.environ.get("DDICT_NAME")
    d = _ddict.up("dragon" + uuid.uuid4().hex[:8], mem=_MEM_NODE * len(hosts()), managers=len(hosts()), record="none")
    os.environ[VARIABLE] = d.name
    if before is None:  # it is no dictionary that attach() should find
        del os.environ["DDICT_NAME"]
    else:
        os.environ["DDICT_NAME"] = before
    atexit.register(_end, os.getpid())
    return d


def _end(pid):
    d = _found.pop(os.getpid(), None) if pid == os.getpid() else None
    if d is not None and d.attached:
        os.environ.pop(VARIABLE, None)
        d.down()


def new_name():
    """A name that nothing else has, in a dictionary that is there: processes that are started from now on know it"""
    home()
    return "dragon-" + uuid.uuid4().hex


class Handle:
    """What an object of home() has in place of the dictionary: where it is unpickled, that process' handle"""

    def __reduce__(self):
        return Handle, ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(home(), name)

    def __contains__(self, key):
        return key in home()

    def __getitem__(self, key):
        return home()[key]

    def __setitem__(self, key, value):
        home()[key] = value
