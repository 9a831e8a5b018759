# SPDX-License-Identifier: Apache-2.0
"""The exceptions of Dragon's DDict."""

import functools

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


def theirs(e):
    """The exception of Dragon's for one of ours"""
    for ours, cls in _THEIRS:
        if isinstance(e, ours):
            return cls(str(e))
    return DDictError(str(e))


def raises_theirs(method):
    """The method, with Dragon's exceptions in place of ours"""
    @functools.wraps(method)
    def call(*args, **named):
        try:
            return method(*args, **named)
        except _ddict.Error as e:
            raise theirs(e) from e
    return call
