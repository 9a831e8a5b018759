# SPDX-License-Identifier: Apache-2.0
"""Puts between start_batch_put() and end_batch_put()."""

import copy

_PAIRS = 256         # are sent at once, at most
_BYTES = 8 << 20     # or fewer, once so many bytes wait
_CONSTANT = frozenset((str, bytes, int, float, complex, bool, type(None)))


class Batch:
    """Pairs that wait to be put together. A value is kept as it is when it comes: a program may change its array, and put it again under another key."""

    def __init__(self, put_many, persist=False):
        self._put_many, self._pairs, self._bytes = put_many, [], 0
        self._failed, self.persist = None, bool(persist)

    def put(self, key, value):
        if type(value) not in _CONSTANT:
            value = copy.deepcopy(value)
        self._pairs.append((key, value))
        self._bytes += getattr(value, "nbytes", 0) or (len(value) if isinstance(value, (str, bytes)) else 64)
        if len(self._pairs) >= _PAIRS or self._bytes >= _BYTES:
            self._send()

    def _send(self):
        pairs, self._pairs, self._bytes = self._pairs, [], 0
        if pairs and self._failed is None:
            try:
                self._put_many(pairs)
            except Exception as e:  # end_batch_put() says it
                self._failed = e

    def flush(self):
        self._send()
        if self._failed is not None:
            raise self._failed
