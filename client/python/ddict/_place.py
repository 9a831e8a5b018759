# SPDX-License-Identifier: Apache-2.0
"""Arrays that are built in place: the head in front of their elements (FORMAT, section 4)."""

import struct

_TAG_BYTES, _TAG_ARRAY = 0, 7


def _laid(kind, code, shape):
    head = struct.pack("<BBBB12s", 1, kind, len(shape), 0, code.encode()) + struct.pack(f"<{len(shape)}Q", *shape)
    return head + bytes(-len(head) % 64)


def reserve(d, key, nbytes, shape, dtype):
    if shape is None:
        if nbytes is None or dtype is not None:
            raise TypeError("reserve() takes nbytes, or shape and dtype")
        return d._reserve(key, nbytes, _TAG_BYTES, b"", None)
    if nbytes is not None:
        raise TypeError("reserve() takes nbytes, or shape and dtype")
    shape = tuple(shape) if hasattr(shape, "__len__") else (int(shape),)
    if type(dtype).__module__ == "torch":
        return _torch_array(d, key, shape, dtype)
    import numpy
    dtype = numpy.dtype(dtype)
    code = dtype.str
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None or len(code) > 12 or not dtype.itemsize:
        raise TypeError(f"elements of type {dtype} can not be built in place")
    n = dtype.itemsize
    for k in shape:
        n *= k
    return d._reserve(key, n, _TAG_ARRAY, _laid(0, code, shape), lambda memory: numpy.frombuffer(memory, dtype).reshape(shape))


def _torch_array(d, key, shape, dtype):
    import torch
    code = {torch.bfloat16: "<bf2", torch.float16: "<f2", torch.float32: "<f4", torch.float64: "<f8", torch.uint8: "|u1", torch.int8: "|i1",
            torch.int16: "<i2", torch.int32: "<i4", torch.int64: "<i8", torch.bool: "|b1", torch.complex64: "<c8", torch.complex128: "<c16"}.get(dtype)
    if code is None:
        raise TypeError(f"elements of type {dtype} can not be built in place")
    n = torch.empty(0, dtype=dtype).element_size()
    for k in shape:
        n *= k

    def made(memory):
        return torch.frombuffer(memory, dtype=dtype).reshape(shape) if n else torch.empty(shape, dtype=dtype)

    return d._reserve(key, n, _TAG_ARRAY, _laid(1, code, shape), made)
