# SPDX-License-Identifier: Apache-2.0
"""Puts between start_batch_put() and end_batch_put()."""

import copy

_PAIRS = 256         # are sent at once, at most
_BYTES = 8 << 20     # or fewer, once so many bytes wait
_CONSTANT = frozenset((str, bytes, int, float, complex, bool, type(None)))


class Batch:
    """Pairs that wait to be put together. A value is kept as it is when it comes: a program may change its array, and put it again under another key."""

    def __init__(self, put_many):
        self._put_many, self._pairs, self._bytes = put_many, [], 0

    def put(self, key, value):
        if type(value) not in _CONSTANT:
            value = copy.deepcopy(value)
        self._pairs.append((key, value))
        self._bytes += getattr(value, "nbytes", 0) or (len(value) if isinstance(value, (str, bytes)) else 64)
        if len(self._pairs) >= _PAIRS or self._bytes >= _BYTES:
            self.flush()

    def flush(self):
        pairs, self._pairs, self._bytes = self._pairs, [], 0
        if pairs:
            self._put_many(pairs)
