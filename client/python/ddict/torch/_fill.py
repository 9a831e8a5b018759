# SPDX-License-Identifier: Apache-2.0
"""Put a set into the dictionary once; all processes that want it at about the same time share the work.

The work is cut into chunks. A chunk has a mark in the dictionary: a text while a process works on it (which process, and how far it is), then bytes, its result.
A process that finds no free chunk waits for the others, and takes over a chunk whose mark has not changed for a while: its process may be dead, and putting the
same values again does no harm. A process that fails removes the samples that it has put, and then its marks, so that the next process meets the same error. The
set's own entry is written last.
"""

import contextlib
import itertools
import os
import random
import socket
import time
from typing import Any, Callable, Dict, Iterable, List, Optional

from .. import Error, KeyLostError, attach
from ._sets import MARK, discard, find, is_absent, look, remove

CHUNKS = 1024       # most chunks of a set: every process asks for each mark
CHUNK_MIN = 64      # least samples of a chunk
POLL_S = (0.01, 0.3)  # first and longest pause between two looks at the marks
BEAT_S = 1.0        # seconds after which a mark is renewed
TAKE_OVER_S = 120   # seconds without renewal after which a chunk is taken over
LOCK, LOOK, ALONE = -3, -4, -2  # further marks: the set is being removed; what its data looks like; its keys belong to no other set, or a plan

_counter = itertools.count()
_calls = itertools.count()
_handle: Any = None


def dictionary(d: Any = None) -> Any:
    """d, or the job's dictionary, to which a process attaches once"""
    global _handle
    if d is not None:
        return d
    if _handle is None or not _handle.attached:
        _handle = attach()
    return _handle


def group() -> Any:
    """(rank, size, a text that only this group has), of torch.distributed's group or the one that ddict.runtime finds"""
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
    """A name that is the same in all ranks of the group if they make their sets in the same order"""
    _, _, text = group()
    if text is None:
        raise ValueError("the ranks of this group have no name in common: give the data set one (name=)")
    return f"{text}.{next(_counter)}"


def call_name() -> Optional[str]:
    """A name of this call, the same in all ranks of the group; None if the group has no name"""
    _, _, text = group()
    return None if text is None else f"{text}.{next(_calls)}"


class Fill:
    """The part of one process in filling the set `name`"""

    def __init__(self, d: Any, name: str, timeout: Optional[float]) -> None:
        self.d, self.name, self.timeout = d, name, TAKE_OVER_S if timeout is None else timeout
        self.who = f"{socket.gethostname()} pid {os.getpid()}"
        self.beaten = 0.0
        self.undo: Optional[Callable[[int], None]] = None  # removes the samples of a chunk that this process has put
        self.begun: Dict[int, int] = {}  # chunk of this process: number of samples it has begun to put

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
            with contextlib.suppress(Error):  # report the first error only
                self._undo(chunk)
                discard(self.d, self.key(chunk))
            raise
        self.d[self.key(chunk)] = result

    def _undo(self, failed: int) -> None:
        """Remove all samples of this process. The mark of the failed chunk goes last, so no process takes the set for complete meanwhile"""
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
        """Remove the set if other(its entry) is true. One process removes it, the others wait until it is gone"""
        pause, seen, since = POLL_S[0], None, time.monotonic()
        while True:
            found = self.there()
            mark = look(self.d, self.key(LOCK))
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
        """Wait until no process removes a set of this name"""
        self.replace(lambda found: False)

    def _try(self, chunk: int, work: Callable[[int], bytes]) -> bool:
        if not self.d.put_new(self.key(chunk), self.who):
            return False
        if not is_absent(self.d, (MARK, self.name)):  # finished and cleaned up meanwhile
            discard(self.d, self.key(chunk))
        else:
            self._do(chunk, work)
        return True

    def marks(self, chunks: Iterable[int]) -> List[Any]:
        """Their marks; None: it has none, or it was lost with a node"""
        keys = [self.key(c) for c in chunks]
        try:
            return list(self.d.get_many(keys))
        except KeyLostError:
            return [look(self.d, key) for key in keys]

    def _wait(self, chunks: List[int], work: Callable[[int], bytes]) -> bool:
        """Wait until all chunks are done; False if the whole set is"""
        pause, seen, since = POLL_S[0], None, time.monotonic()
        while True:
            marks = dict(zip(chunks, self.marks(chunks)))
            left = [c for c, mark in marks.items() if not isinstance(mark, bytes)]
            if not left:
                return True
            if not is_absent(self.d, (MARK, self.name)):
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
        """Have one process do work(chunk), and wait until it is done; False if the whole set is"""
        self._try(chunk, work)
        return self._wait([chunk], work)

    def run(self, chunks: int, work: Callable[[int], bytes], finish: Callable[[List[bytes]], None]) -> None:
        """Do work(chunk) for all chunks, then finish(results): some process does each once, unless it had to be taken over"""
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
