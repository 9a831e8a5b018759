# SPDX-License-Identifier: Apache-2.0
"""The dictionary as a store of zarr, version 3 (pip install zarr).

    import ddict.zarr, xarray, zarr
    zarr.create_array(ddict.zarr.Store(prefix="run7"), name="t", shape=(1000, 1000), chunks=(100, 100), dtype="f4")
    xarray.open_zarr(ddict.zarr.Store(prefix="climate", read_only=True))   # also what `ddict load` has read from a folder
"""

import asyncio

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store as _Store, SuffixByteRequest
from zarr.core.buffer import Buffer, default_buffer_prototype

from . import _files
from ._ddict import KeyLostError, ViewsError

_INLINE = 64 << 10  # bytes of a value that are put to a manager of this node in the event loop: longer ones are awaited


def _part(data, byte_range):
    """The part of a memoryview that zarr asks for"""
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

    def get_sync(self, key, *, prototype=None, byte_range=None):
        try:
            data = _part(_files.content(self._d, self._at(key)), byte_range)
        except KeyLostError:
            raise
        except KeyError:
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    async def get(self, key, prototype=None, byte_range: ByteRequest | None = None):
        d, at = self._d, self._at(key)
        if self._is_near(d, at):
            return self.get_sync(key, prototype=prototype, byte_range=byte_range)
        try:
            data = memoryview(await d.view_async(at))
        except ViewsError:
            return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)
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
        buffer = await self.get(key)
        if buffer is None:
            raise FileNotFoundError(key)
        return len(buffer)

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
