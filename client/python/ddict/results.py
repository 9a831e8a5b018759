# SPDX-License-Identifier: Apache-2.0
"""Results of a run: any rank submits them, and they become files while the job runs.

    from ddict.results import ResultsHandler

    results = ResultsHandler("run7")                                # the same in every rank
    results.submit_result(f"metrics/rank{rank}.json", {"step": step, "loss": loss})
    results.submit_checkpoint(f"checkpoints/{epoch}.pt", model.state_dict())
    results.close()

Files appear below the folder of --ddict-results=DIR, or of `ddict results --to DIR --follow`, as DIR/RUN/PATH; results.process_results("s3://bucket/prefix") writes them to
S3. DaskResultsHandler is the same class, under the name that dask-pytorch-ddp's has.
"""

import atexit
import functools
import io
import json
import os
import pickle
import queue
import sys
import threading
import time

from . import attach
from ._ends import child_ends

__all__ = ["PREFIX", "DaskResultsHandler", "ResultsHandler"]

PREFIX = "ddict.results/"
_APPEND, _REPLACE, _CHECKPOINT, _FLUSH, _STOP = range(5)
_PART = 256 << 10  # size at which a new part begins, because each append stores the whole part again
_LOOK_S = 1  # seconds between checks that the thread still runs


def _rank():
    for name in ("RANK", "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def _own_name():
    return "job-" + os.environ.get("SLURM_JOB_ID", "0")


def _check(path):
    path = os.fspath(path)
    parts = path.split("/")
    if not isinstance(path, str) or any(p in ("", ".", "..") or p.startswith(".ddict-") or "\0" in p or len(os.fsencode(p)) > 240 for p in parts):
        raise ValueError(f"{path!r}: the path of a result is relative, without '.' and '..'")
    return path


class _Snapshot:
    """A copy of obj as of now, made at the speed of memory, because training goes on to change the original. It consists of obj's pickle and the tensors' storages, each
    copied once to CPU memory even if tensors share it. The file made from it later equals that of torch.save(obj), except for the device."""

    def __init__(self, obj):
        torch = sys.modules.get("torch")
        self.storages, out = [], io.BytesIO()
        if torch is None:
            pickle.Pickler(out, 5).dump(obj)
        else:
            _copier(torch)(out, self.storages).dump(obj)
        self.data = out.getbuffer()
        self.size = len(self.data) + sum(s.nbytes() for s in self.storages)

    def serialise(self):
        torch = sys.modules.get("torch")
        if torch is None:
            return self.data
        obj, out = _loader(torch)(io.BytesIO(self.data), self.storages).load(), io.BytesIO()
        torch.save(obj, out)
        return out.getbuffer()


@functools.lru_cache(None)
def _copier(torch):
    class Copier(pickle.Pickler):
        def __init__(self, out, storages):
            super().__init__(out, 5)
            self.storages, self.there = storages, {}

        def persistent_id(self, obj):
            if not torch.is_storage(obj):
                return None
            untyped = obj._untyped_storage if hasattr(obj, "_untyped_storage") else obj._storage if hasattr(obj, "_storage") else obj
            if untyped.device.type == "meta":
                return None
            at = self.there.get(untyped._cdata)
            if at is None:
                at = self.there[untyped._cdata] = len(self.storages)
                self.storages.append(untyped.clone() if untyped.device.type == "cpu" else untyped.cpu())
            return at, obj.dtype if isinstance(obj, torch.storage.TypedStorage) else None

    return Copier


@functools.lru_cache(None)
def _loader(torch):
    class Loader(pickle.Unpickler):
        def __init__(self, file, storages):
            super().__init__(file)
            self.storages = storages

        def persistent_load(self, pid):
            at, dtype = pid
            if dtype is None:
                return self.storages[at]
            try:
                return torch.storage.TypedStorage(wrap_storage=self.storages[at], dtype=dtype, _internal=True)
            except TypeError:  # torch 1.13
                return torch.storage.TypedStorage(wrap_storage=self.storages[at], dtype=dtype)

    return Loader


class _Part:
    def __init__(self, number):
        self.number, self.data, self.stored = number, bytearray(), 0


class ResultsHandler:
    """ResultsHandler(run=None, d=None, *, rank=None, max_bytes=1 << 30)

    Stores the results of a run in the dictionary d (None: the job's), in the background: calls return at once, unless max_bytes are waiting to be stored. The next
    call raises an error of the background thread. A path is one file; results appended to it are grouped by process: first all of rank 0, then of rank 1, and so on,
    each in its order. Without a run its name is "job-" and the number of the Slurm job. close(), or the end of the program, waits until everything is stored. A forked child may use it, too.
    """

    def __init__(self, run=None, d=None, *, rank=None, max_bytes=1 << 30):
        self.run = _check(str(run) if run is not None else _own_name())
        if "/" in self.run:
            raise ValueError(f"{run!r}: the name of a run has no '/'")
        self._given, self._d, self._rank, self._max = d, None, _rank() if rank is None else int(rank), max_bytes
        self._begin()
        _handlers.add(self)

    def _begin(self):
        self._pid, self._closed, self._error, self._thread = os.getpid(), False, None, None
        self._part = f"{self._rank:08d}.{time.time_ns():020d}.{self._pid}"
        self._queue, self._parts, self._bytes, self._room = queue.Queue(), {}, 0, threading.Condition()

    # --- submission ---

    def submit_result(self, path, data, append=None):
        """submit_result(path, data, append=None) -- make data the file of this path, or append it

        str and objects that json.dumps() takes are appended as a line; bytes replace the file. append=True or False overrides that. bytes are not copied before they
        are stored.
        """
        path = _check(path)
        if append is None:
            append = not isinstance(data, (bytes, bytearray, memoryview))
        if not isinstance(data, (str, bytes, bytearray, memoryview)):
            data = json.dumps(data, default=_number)
        if isinstance(data, str):
            data = data.encode("utf-8", "surrogateescape")
            if append and not data.endswith(b"\n"):
                data += b"\n"
        elif not isinstance(data, bytes):
            data = bytes(data)
        self._submit(_APPEND if append else _REPLACE, path, data, len(data))

    def submit_checkpoint(self, path, obj):
        """submit_checkpoint(path, obj) -- copy obj now, and write the copy to the file of this path: by torch.save() if torch is loaded, else as a pickle

        Tensors are copied at the speed of memory, shared memory once; torch.save() and the disk work in the background. The file is that of torch.save(obj), with
        tensors of a GPU saved as CPU tensors. An object that cannot be pickled raises its error here.
        """
        path = _check(path)
        copy = _Snapshot(obj)
        self._submit(_CHECKPOINT, path, copy, copy.size)

    def _submit(self, kind, path, data, size):
        self._ready()
        with self._room:
            while self._bytes > 0 and self._bytes + size > self._max and self._error is None:
                self._room.wait(1)
            self._bytes += size
        self._queue.put((kind, path, data, size))

    def flush(self, timeout=None):
        """flush(timeout=None) -- wait until everything submitted is in the dictionary; ddict.TimeoutError after timeout seconds"""
        self._ready()
        self._wait(_FLUSH, timeout)
        self._raise()

    def close(self, timeout=None):
        """close(timeout=None) -- flush() and end"""
        if self._closed or self._pid != os.getpid():
            return
        if self._thread is not None:
            self._wait(_STOP, timeout)
            self._thread.join()
        self._closed = True
        _handlers.discard(self)
        if self._given is None and self._d is not None:
            self._d.detach()
        self._raise()

    def _wait(self, kind, timeout):
        done, end = threading.Event(), None if timeout is None else time.monotonic() + timeout
        self._queue.put((kind, None, done, 0))
        while not done.wait(_LOOK_S if end is None else max(0, min(_LOOK_S, end - time.monotonic()))):
            if not self._thread.is_alive():  # it ended after an earlier close() had timed out
                return
            if end is not None and time.monotonic() >= end:
                from . import TimeoutError
                raise TimeoutError(f"results were not stored within {timeout} s")

    def _raise(self):
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _ready(self):
        if self._pid != os.getpid():  # a forked child has no thread yet, and submits its own results
            self._begin()
        if self._closed:
            raise ValueError(f"the results of {self.run!r} are closed")
        self._raise()
        if self._thread is None or not self._thread.is_alive():
            child_ends(_close_all)
            self._d = self._given if self._given is not None else attach()
            self._thread = threading.Thread(target=_work, args=(self,), name="ddict.results", daemon=True)
            self._thread.start()

    def process_results(self, prefix, futures=(), raise_errors=True, *, timeout=None):
        """process_results(prefix, futures=(), raise_errors=True, *, timeout=None) -- write the results of all ranks that are there below prefix; how many files were written

        prefix: a folder, or s3://bucket/prefix with the credentials, region and endpoint of the AWS tools; files are prefix/PATH. One process calls this, such as rank 0
        when the others have closed their handlers. futures (with done() and result()): go on, with what is new, until all are done, and then raise the first of their
        errors, unless raise_errors is False. ddict.TimeoutError after timeout seconds.
        """
        from ._collect import Writer
        self.flush(timeout)
        writer, futures, end = Writer(self._d, PREFIX + self.run + "/", prefix, _check), list(futures), None if timeout is None else time.monotonic() + timeout
        done, written = False, 0
        while not done:
            done = all(f.done() for f in futures)
            written += writer.write()
            if not done and end is not None and time.monotonic() >= end:
                from . import TimeoutError
                raise TimeoutError(f"futures were not done within {timeout} s")
            if not done:
                time.sleep(_LOOK_S)
        for f in futures if raise_errors else ():
            f.result()
        return written

    # --- the background thread ---

    def _store(self, first):
        """Store one submission together with all that are waiting, so that a part with several appends is stored once."""
        batch, stop, dones = [first], False, []
        while True:
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
        touched = {}
        for kind, path, data, size in batch:
            if kind in (_FLUSH, _STOP):
                stop |= kind == _STOP
                dones.append(data)
                continue
            try:
                key = PREFIX + self.run + "/" + path
                if kind == _APPEND:
                    part = self._parts.get(key)
                    if part is None or part.stored >= _PART:
                        part = self._parts[key] = _Part(0 if part is None else part.number + 1)
                    part.data.extend(data)
                    touched[f"{key}\0{self._part}.{part.number:06d}"] = part
                else:
                    self._d[key] = memoryview(data if kind == _REPLACE else data.serialise())
            except BaseException as e:
                self._error = self._error or e
            finally:
                with self._room:
                    self._bytes -= size
                    self._room.notify_all()
        for key, part in touched.items():
            try:
                self._d[key] = bytes(part.data)
                part.stored = len(part.data)
            except BaseException as e:
                self._error = self._error or e
        for done in dones:
            done.set()
        return not stop

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __reduce__(self):
        return ResultsHandler, (self.run, self._given)

    def __repr__(self):
        return f"<ddict.results.ResultsHandler {self.run!r}>"


def _work(handler):
    while handler._store(handler._queue.get()):
        pass


def _number(obj):
    """Convert numpy's and torch's numbers for JSON."""
    if hasattr(obj, "item"):
        return obj.item()
    if hasattr(obj, "tolist"):
        return obj.tolist()
    raise TypeError(f"{type(obj).__name__} is nothing for JSON: submit bytes, or submit_checkpoint()")


DaskResultsHandler = ResultsHandler

_handlers = set()  # keeps handlers until they are closed, so that their results are stored even if the program drops them


@atexit.register
def _close_all():
    for handler in list(_handlers):
        try:
            handler.close(60)
        except BaseException as e:
            print(f"ddict.results: {handler.run}: {e}", file=sys.stderr)
