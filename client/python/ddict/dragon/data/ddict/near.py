# SPDX-License-Identifier: Apache-2.0
"""Managers, and what is on this node."""

from .errors import raises_theirs
from .views import DDictItemsView, DDictKeysView, DDictValuesView, Local


class Near:
    """The part of a DDict about where things are. Managers have Dragon's numbers: those without keys, of nodes beyond n_nodes, have none."""

    @property
    def _numbers(self):
        """ddict's number of each manager"""
        info = self.ddict.info
        return [m for m in range(info["managers"]) if m % info["nodes"] < info["keyed_nodes"]]

    @raises_theirs
    def manager(self, manager_id):
        """manager(manager_id) -- a handle whose puts and gets go to one manager: what is put there is found by d.manager(manager_id) alone, on every node. With a
        working set it is part of checkpoints, and d lists it, too."""
        numbers = self._numbers
        if not 0 <= manager_id < len(numbers):
            raise ValueError(f"there is no manager {manager_id}: they are 0 to {len(numbers) - 1}")
        return self._like(numbers[manager_id], self._forms)

    @raises_theirs
    def which_manager(self, key):
        """which_manager(key) -- the manager that has the key"""
        return self._numbers.index(self.ddict.owner(self._forms.key(key)))

    @property
    @raises_theirs
    def local_managers(self):
        """the managers of this node"""
        here = set(self.ddict.local_managers)
        return [i for i, number in enumerate(self._numbers) if number in here]

    @property
    def local_manager(self):
        """a manager of this node; None: it has none"""
        here = self.local_managers
        return here[0] if here else None

    @property
    @raises_theirs
    def main_manager(self):
        """the manager of this handle, or one of this node, or one"""
        numbers = self._numbers
        if self._number is not None:
            return numbers.index(self._number)
        here = self.local_manager
        return self.ddict.info["node_id"] % len(numbers) if here is None else here

    @property
    @raises_theirs
    def manager_nodes(self):
        """the Node of each manager"""
        from ...native.machine import Node
        names = self.ddict.manager_nodes
        return [Node(names[number]) for number in self._numbers]

    @property
    def empty_managers(self):
        """[]: a manager that has lost its keys does not go on"""
        return []

    @raises_theirs
    def local_len(self):
        """local_len() -- the number of keys on this node"""
        return len(self._there) if self._number is not None else self.ddict.local_len()

    def _local(self, pairs):
        """(key, value) of this node, or (key, None)"""
        if self._number is not None:
            yield from self._pairs() if pairs else ((key, None) for key in self)
        elif pairs:
            for key, value in self.ddict.local_items():
                yield self._forms.given(key), self._forms.load(value)
        else:
            for key in self.ddict.local_keys():
                yield self._forms.given(key), None

    def local_keys(self):
        """local_keys() -- the keys of this node, as a live view"""
        return DDictKeysView(Local(self))

    def local_values(self):
        """local_values() -- the values of this node, as a live view"""
        return DDictValuesView(Local(self))

    def local_items(self):
        """local_items() -- the (key, value) pairs of this node, as a live view"""
        return DDictItemsView(Local(self))
