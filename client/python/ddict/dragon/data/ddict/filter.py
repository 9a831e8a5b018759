# SPDX-License-Identifier: Apache-2.0
"""filter(): a program's code for each manager, whose results are merged in order."""

from ddict import MapError

from .errors import DDictError


class _OutQueue:
    """Takes what the code finds, best first."""

    def __init__(self):
        self.found = []

    def put(self, item, *args, **named):
        self.found.append(item)


def _at_manager(manager, bind, mgr_code, mgr_code_args):
    queue = _OutQueue()
    mgr_code(bind(manager), queue, *mgr_code_args)
    return queue.found


class FilterContextManager:
    """with d.filter(...) as candidates: for candidate in candidates: ..."""

    def __init__(self, d, bind, mgr_code, mgr_code_args, comparator):
        self._filter = d.filter(_at_manager, (bind, mgr_code, tuple(mgr_code_args)), comparator)

    def __enter__(self):
        try:
            return iter(self._filter.__enter__())
        except MapError as e:
            raise DDictError(str(e)) from (e.__cause__ or e)

    def __exit__(self, *exc):
        return self._filter.__exit__(*exc)
