# SPDX-License-Identifier: Apache-2.0
"""Copies from the dictionary's memory to a GPU. Without CUDA the functions do no harm, and copy to the CPU."""

import ctypes
import mmap
import re
import warnings
from collections import deque
from typing import Any, Deque, Dict, Iterator, Optional, Tuple

import torch

from .. import DDict
from ._fill import dictionary

_READ_ONLY = 8   # cudaHostRegisterReadOnly
_RUN = 2 << 20   # bytes; if only parts of the memory have pages, whole pieces of this size are registered
_registered: Dict[int, int] = {}
_under_way: Deque[Tuple[Any, Any]] = deque()  # (event, View): the lease is held until the copy is over


def _arenas() -> Iterator[Tuple[int, int]]:
    """Address and length of the arenas of this node's managers that are mapped here."""
    with open("/proc/self/maps") as f:
        for low, high in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) r--s .*/memfd:ddict-arena\b", f.read(), re.MULTILINE):
            yield int(low, 16), int(high, 16) - int(low, 16)


def _filled(address: int, size: int) -> Iterator[Tuple[int, int]]:
    """The parts that have pages. Registering the others would populate them, and use memory that is not needed yet."""
    libc, page = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
    there = ctypes.create_string_buffer(-(-size // page))
    if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), there):
        return
    pages, run, start = there.raw.translate(bytes(i & 1 for i in range(256))), b"\1" * (_RUN // page), -1
    for at in range(0, len(pages), len(run)):
        whole = pages[at:at + len(run)] == run
        if whole and start < 0:
            start = at
        elif not whole and start >= 0:
            yield address + start * page, (at - start) * page
            start = -1
    if start >= 0:
        yield address + start * page, (len(pages) // len(run) * len(run) - start) * page


def _new(address: int, size: int) -> Iterator[Tuple[int, int]]:
    """The parts that are not registered yet: CUDA refuses a range that overlaps a registered one."""
    end = address + size
    for start, length in sorted(_registered.items()):
        if address < start + length and start < end:
            if address < start:
                yield address, start - address
            address = start + length
    if address < end:
        yield address, end - address


def _refused(code: Any) -> int:
    """The error code, or 0. CUDA keeps the thread's last error, and torch would raise it after its next kernel; so a kernel is run here."""
    code = int(code)
    if code:
        try:
            torch.ones(1, device="cuda")
        except RuntimeError:
            pass
    return code


def register(d: Optional[DDict] = None) -> int:
    """register(d=None) -- let the GPU read the memory of this node's managers directly; returns the bytes registered, 0 without CUDA

    Copies to the device then need no pinned memory in between. Only memory that has pages already is registered: call it when the data is there, and
    again after more data was put. If CUDA refuses, a warning says so, and copies work as before.
    """
    if not torch.cuda.is_available():
        return 0
    d = dictionary(d)
    len(d)  # attaches if needed, so that the arenas are mapped
    torch.cuda.init()
    for address, size in [new for arena in _arenas() for part in _filled(*arena) for new in _new(*part)]:
        failed = _refused(torch.cuda.cudart().cudaHostRegister(address, size, _READ_ONLY))
        if failed:
            warnings.warn(f"CUDA does not register the dictionary's memory (error {failed}): copies go through pinned memory")
            break
        _registered[address] = size
    return sum(_registered.values())


def unregister() -> None:
    """unregister() -- undo register(); before the last handle is detached"""
    while _registered:
        _refused(torch.cuda.cudart().cudaHostUnregister(_registered.popitem()[0]))


def _to(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if type(value) in (tuple, list):
        return type(value)(_to(v, device) for v in value)
    return {k: _to(v, device) for k, v in value.items()} if type(value) is dict else value


def get_to(key: Any, device: Any, d: Optional[DDict] = None) -> Any:
    """get_to(key, device, d=None) -- the value of key with its tensors on device, copied there from the dictionary's memory

    The copies run on the current stream; a lease keeps the value until they are over.
    """
    d, device = dictionary(d), torch.device(device)
    if device.type != "cuda":
        return _to(d[key], device)
    while _under_way and _under_way[0][0].query():
        _under_way.popleft()[1].release()
    view = d.view(key)
    value = _to(view.load(alias_tensors=True), device)
    event = torch.cuda.Event()
    event.record()
    _under_way.append((event, view))
    return value
