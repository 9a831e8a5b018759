# SPDX-License-Identifier: Apache-2.0
"""The dictionary as a store of zarr, version 3 (pip install zarr).

    import ddict.zarr, xarray, zarr
    zarr.create_array(ddict.zarr.Store(prefix="run7"), name="t", shape=(1000, 1000), chunks=(100, 100), dtype="f4")
    xarray.open_zarr(ddict.zarr.Store(prefix="climate", read_only=True))   # also what `ddict load` has read from a folder
"""

import asyncio
import functools
import os
import threading
from time import monotonic

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store as _Store, SuffixByteRequest
from zarr.core.buffer import Buffer, default_buffer_prototype

from . import _files
from ._ddict import GoneError, KeyLostError, ViewsError
from ._folder import Folder
from .sets import LoadError

_INLINE = 64 << 10  # bytes of a value that are put to a manager of this node in the event loop: longer ones are awaited


def _part(data, byte_range):
    """The part of a memoryview, or of a range, that zarr asks for"""
    if byte_range is None:
        return data
    if isinstance(byte_range, RangeByteRequest):
        return data[byte_range.start:byte_range.end]
    if isinstance(byte_range, OffsetByteRequest):
        return data[byte_range.offset:]
    if isinstance(byte_range, SuffixByteRequest):
        return data[max(0, len(data) - byte_range.suffix):]
    raise ValueError(f"Unexpected byte_range, got {byte_range}.")


def _bytes_of(value):
    if not isinstance(value, Buffer):
        raise TypeError(f"a zarr Buffer is stored, not {type(value).__name__}")
    return value.as_buffer_like()


class Store(_Store):
    """Store(name=None, *, prefix="", read_only=False)

    name: the dictionary's, or a DDict; None for the job's. The keys of the store are str keys of the dictionary that begin with prefix and a slash. What is on
    this node is read in place: zarr's buffers are the item's memory, and keep it. The event loop waits for other nodes, but is not held up by them. It pickles.
    When the dictionary has ended, the next call attaches to another one of the name, or raises ddict.NoDictError.
    """

    supports_writes = supports_deletes = supports_listing = True

    def __init__(self, name=None, *, prefix="", read_only=False):
        super().__init__(read_only=read_only)
        self.name = name if name is None or isinstance(name, str) else name.name
        self.prefix = prefix.rstrip("/")
        self._start = f"{self.prefix}/" if self.prefix else ""
        self._near = None  # the handle, its nodes and the number of this one

    def __getstate__(self):
        return {**self.__dict__, "_near": None}

    def with_read_only(self, read_only=False):
        return type(self)(self.name, prefix=self.prefix, read_only=read_only)

    def __eq__(self, other):
        return isinstance(other, type(self)) and (self.name, self.prefix, self.read_only) == (other.name, other.prefix, other.read_only)

    __hash__ = None

    def __str__(self):
        return f"ddict://{self.name or ''}/{self.prefix}"

    def __repr__(self):
        return f"ddict.zarr.Store('{self}')"

    @property
    def _d(self):
        return _files.handle(self.name)

    def _at(self, key):
        if not isinstance(key, str):
            raise TypeError(f"a key of a store is a str, not {type(key).__name__}")
        self._is_open = True
        return self._start + key

    def _is_near(self, d, key):
        """Whether a manager of this node has the key, so that it is read in place"""
        near = self._near
        if near is None or near[0] is not d:
            info = d.info
            near = self._near = d, info["nodes"], info["node_id"]
        return near[1] == 1 or d.owner(key) % near[1] == near[2]

    # --- reading ---

    def _read(self, key, prototype, byte_range):
        try:
            data = _part(_files.content(self._d, self._at(key)), byte_range)
        except KeyLostError:
            raise
        except KeyError:
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    def get_sync(self, key, *, prototype=None, byte_range=None):
        return self._read(key, prototype, byte_range)

    async def get(self, key, prototype=None, byte_range: ByteRequest | None = None):
        d, at = self._d, self._at(key)
        if self._is_near(d, at):
            return self._read(key, prototype, byte_range)
        try:
            data = memoryview(await d.view_async(at))
        except ViewsError:
            return await asyncio.to_thread(self._read, key, prototype, byte_range)
        except KeyLostError:
            raise
        except KeyError:
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(_part(data, byte_range))

    async def get_partial_values(self, prototype, key_ranges):
        return list(await asyncio.gather(*(self.get(key, prototype, byte_range) for key, byte_range in key_ranges)))

    async def _get_many(self, requests):
        requests = list(requests)
        for request, buffer in zip(requests, await asyncio.gather(*(self.get(*request) for request in requests))):
            yield request[0], buffer

    async def exists(self, key):
        d, at = self._d, self._at(key)
        return at in d if self._is_near(d, at) else await asyncio.to_thread(d.__contains__, at)

    async def getsize(self, key):
        d, at = self._d, self._at(key)
        try:
            return d.size(at) if self._is_near(d, at) else await asyncio.to_thread(d.size, at)
        except KeyLostError:
            raise
        except KeyError:
            raise FileNotFoundError(key) from None

    # --- writing ---

    def set_sync(self, key, value):
        self._check_writable()
        self._d[self._at(key)] = _bytes_of(value)

    async def set(self, key, value):
        self._check_writable()
        data, d, at = _bytes_of(value), self._d, self._at(key)
        if data.nbytes <= _INLINE and self._is_near(d, at):
            d[at] = data
        else:
            await d.put_async(at, data)

    async def set_if_not_exists(self, key, value):
        self._check_writable()
        await asyncio.to_thread(self._d.put_new, self._at(key), _bytes_of(value))

    def delete_sync(self, key):
        self._check_writable()
        try:
            del self._d[self._at(key)]
        except KeyLostError:
            raise
        except KeyError:
            pass

    async def delete(self, key):
        self._check_writable()
        await asyncio.to_thread(self.delete_sync, key)

    async def delete_dir(self, prefix):
        self._check_writable()
        prefix = f"{prefix.rstrip('/')}/" if prefix else ""
        await asyncio.to_thread(self._d.clear, prefix=self._at(prefix))

    # --- listing ---

    async def list(self):
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix):
        for key in await asyncio.to_thread(self._keys, prefix):
            yield key

    async def list_dir(self, prefix):
        for name in await asyncio.to_thread(self._names, prefix.rstrip("/")):
            yield name

    def _keys(self, prefix):
        return [key[len(self._start):] for key in self._d.keys(self._at(prefix))]

    def _names(self, prefix):
        start = f"{prefix}/" if prefix else ""
        return sorted({key[len(start):].partition("/")[0] for key in self._keys(start)})


class FolderStore(Store):
    """FolderStore(path, prefix, name=None, *, loaders=4, read_only=False)

    A folder that zarr has written, path, which comes into memory behind the program: so many threads (loaders) of the first process that makes the store of this
    prefix load it. All others that make it, on any node, have the same one. Reads work at once: what is not here yet is read from its file. What is set is not
    replaced by its file. Nothing can be removed until all is here. If that process ends before, or cannot read a file, the rest is read from the files as before.
    """

    def __init__(self, path, prefix, name=None, *, loaders=4, read_only=False):
        super().__init__(name, prefix=prefix, read_only=read_only)
        if not self.prefix:
            raise ValueError("FolderStore(): a prefix, under which the files are in the dictionary")
        if loaders < 1:
            raise ValueError(f"{loaders} loaders: one at least")
        self.show_gets = False  # print the name of each key that is read
        self.folder = Folder(path)
        self._whole = None  # the handle by which all was seen to be here
        self._seconds, self._lock = [0.0], threading.Lock()  # with_read_only() shares them
        self._begin(loaders)

    def _begin(self, loaders):
        d, path = self._d, self.folder.path
        if self._own("loads") not in d:
            if not os.path.isdir(path):
                raise NotADirectoryError(f"{path} is no folder of zarr")
            if d.put_new(self._own("loads"), path):
                threading.Thread(target=self._load, args=(d, loaders), daemon=True).start()
                return
        if (other := d[self._own("loads")]) != path:
            raise ValueError(f"{self.prefix} is the folder {other} already, not {path}")

    def _own(self, what):
        return "ddict.zarr", self.prefix, what

    def __reduce__(self):
        return functools.partial(type(self), self.folder.path, self.prefix, self.name, read_only=self.read_only), (), {"show_gets": self.show_gets}

    def with_read_only(self, read_only=False):
        store = type(self).__new__(type(self))
        store.__dict__.update(self.__dict__, _read_only=read_only, _is_open=False)
        return store

    def __repr__(self):
        return f"ddict.zarr.FolderStore('{self.folder.path}', '{self}')"

    # --- loading ---

    def _load(self, d, loaders):
        failed = self.folder.for_each(functools.partial(self._keep, d), loaders)
        try:
            d[self._own("said")] = f"cannot load {self.folder.path}: {failed}" if failed else "done"
        except (GoneError, ValueError):  # it has ended, or was detached: nobody waits
            pass

    def _keep(self, d, key, data):
        if d.put_new(self._start + key, data):
            d.add(self._own("bytes"), len(data))

    def load_complete(self):
        """load_complete() -- whether the whole folder is here"""
        d = self._d
        if self._whole is not d and d.get(self._own("said")) == "done":
            self._whole = d
        return self._whole is d

    def wait_on_load(self, timeout=None):
        """wait_on_load(timeout=None) -- wait until the whole folder is here: its bytes. ddict.LoadError: it could not be read; ddict.TimeoutError"""
        said = self._d.get(self._own("said"), wait=True, timeout=timeout)
        if said != "done":
            raise LoadError(said)
        return self.loaded_bytes

    @property
    def loaded_bytes(self):
        """the bytes that were loaded up to now"""
        return self._d.get(self._own("bytes"), 0)

    def _check_whole(self):
        if not self.load_complete():
            raise ValueError(f"{self!r}: it is loaded, and nothing can be removed until wait_on_load()")

    # --- reading ---

    @property
    def get_timer(self):
        """seconds that reads have taken, of all threads, since reset_get_timer()"""
        return self._seconds[0]

    def reset_get_timer(self):
        """reset_get_timer() -- count from 0"""
        self._seconds[0] = 0.0

    def _began(self, key):
        if self.show_gets:
            print(f"ddict.zarr: {key}", flush=True)
        return monotonic()

    def _ended(self, began):
        with self._lock:
            self._seconds[0] += monotonic() - began

    def _of_file(self, key, prototype, byte_range):
        """What was not here: from its file, or it has come in between"""
        data = None if self.load_complete() else self.folder.read(key, functools.partial(_part, byte_range=byte_range))
        if data is None:
            return self._read(key, prototype, byte_range)
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    def get_sync(self, key, *, prototype=None, byte_range=None):
        began, whole = self._began(key), self._whole is self._d
        try:
            buffer = self._read(key, prototype, byte_range)
            return buffer if buffer is not None or whole else self._of_file(key, prototype, byte_range)
        finally:
            self._ended(began)

    async def get(self, key, prototype=None, byte_range: ByteRequest | None = None):
        began, whole = self._began(key), self._whole is self._d
        try:
            buffer = await super().get(key, prototype, byte_range)
            return buffer if buffer is not None or whole else await asyncio.to_thread(self._of_file, key, prototype, byte_range)
        finally:
            self._ended(began)

    async def exists(self, key):
        whole = self._whole is self._d
        return await super().exists(key) or not whole and (await asyncio.to_thread(self._has_file, key) or await super().exists(key))

    def _has_file(self, key):
        return not self.load_complete() and self.folder.has(key)

    # --- writing ---

    async def set_if_not_exists(self, key, value):
        self._check_writable()
        if not await asyncio.to_thread(self._has_file, key):
            await super().set_if_not_exists(key, value)

    def delete_sync(self, key):
        self._check_writable()
        self._check_whole()
        super().delete_sync(key)

    async def delete_dir(self, prefix):
        self._check_writable()
        await asyncio.to_thread(self._check_whole)
        await super().delete_dir(prefix)

    # --- listing ---

    def _keys(self, prefix):
        files = [] if self.load_complete() else self.folder.keys(prefix)
        return list({**dict.fromkeys(files), **dict.fromkeys(super()._keys(prefix))})
