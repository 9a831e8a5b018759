# SPDX-License-Identifier: Apache-2.0
"""keys(), values() and items(), as live views."""

from collections.abc import ItemsView, KeysView, ValuesView
from types import MappingProxyType


class _View:
    """of: the handle, or what it has on this node"""
    __slots__ = ()

    @property
    def mapping(self):
        """The dictionary, read-only"""
        return MappingProxyType(self._mapping)


class DDictKeysView(_View, KeysView):
    __slots__ = ()


class DDictValuesView(_View, ValuesView):
    __slots__ = ()

    def __iter__(self):
        return (value for _, value in self._mapping._pairs())


class DDictItemsView(_View, ItemsView):
    __slots__ = ()

    def __iter__(self):
        return self._mapping._pairs()


class Local:
    """What a handle has on this node, as a mapping"""

    def __init__(self, handle):
        self._handle = handle

    def __len__(self):
        return self._handle.local_len()

    def __iter__(self):
        return (key for key, _ in self._handle._local(False))

    def __contains__(self, key):
        return key in self._handle and self._handle.which_manager(key) in self._handle.local_managers

    def __getitem__(self, key):
        if key not in self:
            raise KeyError(key)
        return self._handle[key]

    def _pairs(self):
        return self._handle._local(True)
