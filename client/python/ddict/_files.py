# SPDX-License-Identifier: Apache-2.0
"""Items as files: their bytes in place, for ddict.fsspec and ddict.zarr."""

from ._ddict import GoneError, LostError, ViewsError
from ._holders import _shared

_ROOM = 64           # items that are looked at together
_ROOM_BYTES = 8 << 20  # and about so many bytes, once their size is known


def handle(name):
    """This process's handle of the dictionary (None: the job's). If that one has ended, another one of the name is attached to: ddict.NoDictError where none is."""
    return _shared(name, _serves)


def _serves(d):
    try:
        d._self()  # asks no manager
    except (GoneError, LostError):
        return False
    return True


def content(d, key):
    """A memoryview of the item's bytes as they are stored, in place: they stay as they are while it is there. KeyError"""
    try:
        return memoryview(d.view(key))
    except ViewsError:  # this process holds as many views as it may, but it can still copy
        value = d[key]
        if isinstance(value, str):
            value = value.encode("utf-8", "surrogateescape")
        elif not isinstance(value, (bytes, bytearray)):
            raise
        return memoryview(value)


def views(d, keys):
    """(key, View, or None where it is absent) of each key. A view is released when the next is asked for."""
    keys, at, room = list(keys), 0, 4
    while at < len(keys):
        chunk = keys[at:at + room]
        at += room
        found = d._view_many(chunk)
        largest = max((v.nbytes for v in found if v is not None), default=0)
        room = max(1, min(_ROOM, _ROOM_BYTES // (largest + 1)))
        found.reverse()
        for key in chunk:
            view = found.pop()
            yield key, view
            if view is not None:
                view.release()
