# SPDX-License-Identifier: Apache-2.0
"""The exceptions of Dragon's DDict."""

import functools
import re

import ddict as _ddict


class DDictError(Exception):
    """What a dictionary could not do. Its __cause__ is ddict's own exception, which has a code."""


class DDictSyncError(DDictError):
    """Copies could not be made equal."""


class DDictFullError(DDictError):
    """There is no room for the value."""


class DDictTimeoutError(DDictError, TimeoutError):
    """There was no answer in time, or the key was not there in time."""


class DDictPersistCheckpointError(DDictError):
    """The checkpoint is not on disk."""


class DDictKeyError(DDictError, KeyError):
    """The key is not there."""

    @property
    def key(self):
        return self.args[-1]


class DDictCheckpointSyncError(DDictError):
    """The handle's checkpoint was retired: sync_to_newest_checkpoint() takes the handle to one that is there."""


class DDictUnableToCreateError(DDictError):
    """The dictionary could not be made."""


class DDictFutureCheckpointError(DDictError):
    """The handle's checkpoint is newer than all that are there."""


_THEIRS = (
    (_ddict.KeyLostError, DDictError),
    (_ddict.FullError, DDictFullError),
    (_ddict.ValueSizeError, DDictFullError),
    (_ddict.TimeoutError, DDictTimeoutError),
    (_ddict.SaveError, DDictPersistCheckpointError),
    (getattr(_ddict, "RetiredError", ()), DDictCheckpointSyncError),
)


_WORDS = {"mem": "total_mem", "managers": "managers_per_node", "nodes": "n_nodes", "working-set": "working_set_size", "persist": "persist_path"}
_OPTION = re.compile(r"--(?:ddict-)?(" + "|".join(_WORDS) + r")\b(?!-)")


def said(e):
    """What an exception of ours says, with the arguments of Dragon's DDict for our options"""
    return _OPTION.sub(lambda found: _WORDS[found[1]], str(e))


def theirs(e):
    """The exception of Dragon's for one of ours"""
    for ours, cls in _THEIRS:
        if isinstance(e, ours):
            return cls(said(e))
    return DDictError(said(e))


def raises_theirs(method):
    """The method, with Dragon's exceptions in place of ours"""
    @functools.wraps(method)
    def call(*args, **named):
        try:
            return method(*args, **named)
        except _ddict.Error as e:
            raise theirs(e) from e
    return call
