# SPDX-License-Identifier: Apache-2.0
"""What a program puts on a manager of its choice, in a dictionary with a working set."""

import itertools

from ddict import Manager

MARK = "ddict-dragon-at"  # a key that is the tuple (MARK, manager, n, key) is that key on a manager that does not own it; n is the least that this one owns


def undirected(key):
    """The key that was put"""
    return key[3] if type(key) is tuple and len(key) == 4 and key[0] == MARK else key


class Directed(Manager):
    """A Manager whose keys are all part of checkpoints: those that it does not own by their hash have another name, by which it does. The dictionary lists them."""

    __slots__ = ()

    def _at(self, key):
        owner, number = self.d.owner, self.number
        if owner(key) == number:
            return key
        return next(at for n in itertools.count() for at in ((MARK, number, n, key),) if owner(at) == number)

    def pput(self, key, value):
        """pput(key, value) -- as that of a DDict"""
        self.d.pput(self._at(key), value)

    def put_many(self, pairs, *, persistent=False):
        """put_many(pairs, *, persistent=False) -- as that of a DDict"""
        self.d.put_many(((self._at(key), value) for key, value in pairs), persistent=persistent)

    def __iter__(self):
        return map(undirected, self.d._keys(None, False, self.number))
