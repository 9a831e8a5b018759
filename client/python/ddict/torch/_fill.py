# SPDX-License-Identifier: Apache-2.0
"""Put a set into the dictionary once, by all processes that want it at about the same time.

The work is cut into chunks. A chunk's mark in the dictionary is a text while a process is at it (who, and how far), then bytes: its result. Who finds no chunk left
waits for the others, and takes over one whose mark has not changed for a while: its process may be dead, and putting the same once more does no
harm. A process that fails takes away what it has put, and then its mark, so the next one to come meets the same error. The set's own entry is written last.
"""

import contextlib
import itertools
import os
import random
import socket
import time
from typing import Any, Callable, Dict, List, Optional

from .. import Error, attach
from ._sets import MARK, discard, find, remove

CHUNKS = 1024       # at most in a set: each costs every process a question
CHUNK_MIN = 64      # samples
POLL_S = (0.01, 0.3)  # first and longest pause between two looks at what the others do
BEAT_S = 1.0        # a mark is renewed so often
TAKE_OVER_S = 120   # and belongs to nobody when it was not for so long
LOCK, LOOK, ALONE = -3, -4, -2  # marks beside those of chunks: a set is being removed; what its data looks like; its keys are nobody else's, or a plan

_counter = itertools.count()
_calls = itertools.count()
_handle: Any = None


def dictionary(d: Any = None) -> Any:
    """d, or the job's dictionary, attached once a process"""
    global _handle
    if d is not None:
        return d
    if _handle is None or not _handle.attached:
        _handle = attach()
    return _handle


def group() -> Any:
    """(rank, size, a text that only this group has): torch.distributed's group, or the one that ddict.runtime finds"""
    from .. import runtime
    import torch.distributed as dist
    if dist.is_available() and dist.is_initialized():
        rank, size = dist.get_rank(), dist.get_world_size()
        if size == runtime.size:
            return rank, size, runtime.group
        place = [os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT")]
        return rank, size, ":".join(map(str, place)) if all(place) else None
    return runtime.rank, runtime.size, runtime.group


def fresh_name() -> str:
    """A name that all ranks of the group come to, when they make their sets in the same order"""
    _, _, text = group()
    if text is None:
        raise ValueError("the ranks of this group have no name in common: give the data set one (name=)")
    return f"{text}.{next(_counter)}"


def call_name() -> Optional[str]:
    """What only this call has, and the same one of all ranks of the group; None where they have no name in common"""
    _, _, text = group()
    return None if text is None else f"{text}.{next(_calls)}"


class Fill:
    """One process's part in filling the set called name"""

    def __init__(self, d: Any, name: str, timeout: Optional[float]) -> None:
        self.d, self.name, self.timeout = d, name, TAKE_OVER_S if timeout is None else timeout
        self.who = f"{socket.gethostname()} pid {os.getpid()}"
        self.beaten = 0.0
        self.undo: Optional[Callable[[int], None]] = None  # take away what this process has put of a chunk
        self.begun: Dict[int, int] = {}  # chunks of this process: how many of its samples it took

    def there(self) -> Optional[Dict[str, Any]]:
        return find(self.d, self.name)

    def key(self, chunk: int) -> Any:
        return MARK, self.name, "load", chunk

    def beat(self, chunk: int, done: int) -> None:
        if time.monotonic() - self.beaten > BEAT_S:
            self.beaten = time.monotonic()
            self.d[self.key(chunk)] = f"{self.who}: {done}"

    def put(self, chunk: int, pairs: Any) -> int:
        """put_many() that renews the chunk's mark"""
        def beating() -> Any:
            for done, pair in enumerate(pairs):
                self.beat(chunk, done)
                self.begun[chunk] = done + 1
                yield pair

        return self.d.put_many(beating())

    def _do(self, chunk: int, work: Callable[[int], bytes]) -> None:
        self.beaten = time.monotonic()
        self.begun[chunk] = 0
        try:
            result = work(chunk)
        except BaseException:
            with contextlib.suppress(Error):  # the first error is the one to tell
                self._undo(chunk)
                discard(self.d, self.key(chunk))
            raise
        self.d[self.key(chunk)] = result

    def _undo(self, failed: int) -> None:
        """Nobody can take the set for complete meanwhile: the mark of the chunk that failed is still there"""
        if self.undo is None:
            return
        for chunk in self.begun:
            if chunk != failed:
                discard(self.d, self.key(chunk))
            self.undo(chunk)
        self.begun = {}

    def clear(self, marks: Any) -> None:
        for chunk in marks:
            discard(self.d, self.key(chunk))

    def replace(self, other: Callable[[Dict[str, Any]], Any]) -> None:
        """Remove the set when other(its entry); by one process, and all that come wait until it is gone"""
        pause, seen, since = POLL_S[0], None, time.monotonic()
        while True:
            found = self.there()
            mark = self.d.get(self.key(LOCK))
            if mark is None and (found is None or not other(found)):
                return
            if mark is None or time.monotonic() - since > self.timeout:
                if mark is not None:
                    discard(self.d, self.key(LOCK))
                if self.d.put_new(self.key(LOCK), self.who):
                    try:
                        found = self.there()
                        if found is not None and other(found):
                            remove(self.d, self.name, lambda: self.beat(LOCK, 0))
                    finally:
                        discard(self.d, self.key(LOCK))
                continue
            if mark != seen:
                seen, since = mark, time.monotonic()
            time.sleep(pause)
            pause = min(2 * pause, POLL_S[1])

    def settle(self) -> None:
        """Until nobody removes a set of this name"""
        self.replace(lambda found: False)

    def _try(self, chunk: int, work: Callable[[int], bytes]) -> bool:
        if not self.d.put_new(self.key(chunk), self.who):
            return False
        if (MARK, self.name) in self.d:  # finished and cleaned up meanwhile
            discard(self.d, self.key(chunk))
        else:
            self._do(chunk, work)
        return True

    def _wait(self, chunks: List[int], work: Callable[[int], bytes]) -> bool:
        """Until all of them are done; False when the whole set is"""
        pause, seen, since = POLL_S[0], None, time.monotonic()
        while True:
            marks = dict(zip(chunks, self.d.get_many([self.key(c) for c in chunks])))
            left = [c for c, mark in marks.items() if not isinstance(mark, bytes)]
            if not left:
                return True
            if (MARK, self.name) in self.d:
                return False
            now = [marks[c] for c in left]
            if now != seen:
                seen, since = now, time.monotonic()
            free = next((c for c in left if marks[c] is None), None)
            if free is not None:
                self._try(free, work)
            elif time.monotonic() - since > self.timeout:
                self._do(random.choice(left), work)
            else:
                time.sleep(pause)
                pause = min(2 * pause, POLL_S[1])

    def once(self, chunk: int, work: Callable[[int], bytes]) -> bool:
        """work(chunk), by one process; returns when it is done: False when the whole set is"""
        self._try(chunk, work)
        return self._wait([chunk], work)

    def run(self, chunks: int, work: Callable[[int], bytes], finish: Callable[[List[bytes]], None]) -> None:
        """work(chunk) for all of them, then finish(results): each once, whoever does it, but for what had to be taken over"""
        order = list(range(chunks))
        first = random.randrange(chunks) if chunks else 0
        for chunk in order[first:] + order[:first]:
            self._try(chunk, work)
        if self._wait(order, work):
            def last(_: int) -> bytes:
                finish(self.d.__getitems__([self.key(c) for c in order]) if order else [])
                return b""

            self.once(-1, last)
        self.clear([*order, -1])


def chunk_size(count: int) -> int:
    return max(CHUNK_MIN, -(-count // CHUNKS))
