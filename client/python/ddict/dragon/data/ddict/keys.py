# SPDX-License-Identifier: Apache-2.0
"""Keys of any type: what is no key of ddict's is stored as its pickle."""

import io
import operator
import pickle

MARK = "ddict-dragon-pickle"  # a key that is the tuple (MARK, bytes) stands for what the bytes are the pickle of
_PLAIN = frozenset((str, bytes, int, bool))


def _is_plain(key):
    return type(key) in _PLAIN or type(key) is tuple and all(map(_is_plain, key))


def pickled(key):
    """The pickle of a key, the same for equal keys: without the memo, which says what is one object and not only equal"""
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, 4)
    pickler.fast = True
    pickler.dump(key)
    return stream.getvalue()


def stored(key):
    """The key of ddict's that stands for this one"""
    if type(key) in _PLAIN or _is_plain(key):
        return key
    if hasattr(type(key), "__index__"):
        return operator.index(key)
    return MARK, pickled(key)


def given(key):
    """The key that was stored as this one"""
    if type(key) is tuple and len(key) == 2 and key[0] == MARK:
        return pickle.loads(key[1])
    return key
