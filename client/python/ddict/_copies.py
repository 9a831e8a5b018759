# SPDX-License-Identifier: Apache-2.0
"""Copies between dictionaries of one job, by the command `ddict copy`, which runs on all nodes."""

import os
import sys
from itertools import islice

from . import _ddict, _up
from .sets import _command, _run

_MOST = 8  # that `ddict copy` copies to at once


class SyncError(_ddict.Error):
    """synchronize() has found dictionaries with different contents: .differ are their names"""

    def __init__(self, message, differ=()):
        super().__init__(message)
        self.differ = list(differ)

    def __reduce__(self):
        return SyncError, (self.args[0], self.differ)


def _name(d):
    """The name of a dictionary that is given by its handle or its name"""
    name = getattr(d, "name", d)
    if not isinstance(name, str):
        raise TypeError(f"a DDict or the name of a dictionary is wanted, not {d!r}")
    return name


def _names(others):
    if isinstance(others, (str, _ddict.Handle)):
        raise TypeError("a list of dictionaries is wanted, not one")
    return [_name(d) for d in others]


def _copy(words, progress):
    """What `ddict copy` says, and its exit code; raises ddict.Error if it did nothing"""
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty()
    code, summary, err = _run([_command(), "copy", "--json", *["--quiet"] * (not progress), *words], progress)
    if "items" not in summary:
        raise _ddict.Error(err.removeprefix("ddict copy: ") or f"ddict copy ended with {code}")
    return summary


def clone(d, others, progress=None):
    names = iter(_names(others))
    summary = {}
    while some := list(islice(names, _MOST)):
        said = _copy(["--clear", "--", d.name, *some], progress)
        summary = {key: said[key] + (summary.get(key, 0) if key == "seconds" else 0) for key in ("items", "bytes", "seconds", "nodes")}
    if not summary:
        raise ValueError("there is no dictionary to copy to in the list")
    return summary


def copy(cls, d, name, timeout, keep, options):
    info = d.info
    same = {"managers": info["managers"], "mem": info["total_bytes"], "nodes": info["nodes"] if info["nodes"] > 1 else None}
    before = os.environ.get("DDICT_NAME")
    new = _up.up(cls, name, timeout, keep, {**same, **options})
    if before is None:  # the job's dictionary is the same as before
        del os.environ["DDICT_NAME"]
    else:
        os.environ["DDICT_NAME"] = before
    try:
        clone(d, [new])
    except BaseException:
        if not keep:
            _up.down(new.name)
        raise
    return new


def synchronize(attach, dictionaries):
    if isinstance(dictionaries, (str, _ddict.Handle)) or not (dictionaries := list(dictionaries)):
        raise ValueError("a list of dictionaries is wanted")
    handles = {_name(d): d for d in dictionaries}
    full, empty = [], []
    for name, d in handles.items():
        handle = attach(name) if d is name else d
        try:
            if d is name and handle.working_set:
                handle.sync_to_newest_checkpoint()
            (full if len(handle) else empty).append(name)
        finally:
            if d is name:
                handle.detach()
    differ = {}
    for name in full[1:]:
        said = _copy(["--compare", "--", full[0], name], None)
        if said["differ"]:
            differ[name] = said["such_as"]
    if differ:
        raise SyncError(f"not all have the content of {full[0]}: " + "; ".join(f"{name}: {such}" for name, such in differ.items()), [full[0], *differ])
    if not full:
        return []
    for i in range(0, len(empty), _MOST):
        _copy(["--clear", "--", full[0], *empty[i:i + _MOST]], None)
    return empty
