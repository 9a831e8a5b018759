# SPDX-License-Identifier: Apache-2.0
"""torch tensors: stored as arrays, and pickled with their elements out of band. Imported only if the program has imported torch, or a value needs it.

torch's own pickling writes a tensor's whole storage into the stream. Here the elements of a plain tensor are stored contiguously in one buffer,
and the tensor is made again over that buffer. Tensors of a GPU are stored as CPU tensors. Other tensors than plain strided ones (sparse, quantized,
subclasses, with attributes of their own) are pickled by torch.
"""

import io
import pickle

import torch

from . import _ddict

_has_names = getattr(torch.Tensor, "has_names", None)  # torch 2.13 has no named tensors any more


def rebuild(buffer, dtype, shape, requires_grad):
    """A tensor over buffer. This name and these arguments are part of the stored form."""
    memory = memoryview(buffer)
    if memory.nbytes == 0:
        t = torch.empty(shape, dtype=dtype)
    else:
        if memory.readonly:  # memory of the dictionary; torch has no read-only tensors
            alias = getattr(buffer, "alias", False)
            buffer = _ddict.borrow(buffer, buffer.address, memory.nbytes) if alias else bytearray(memory)
        t = torch.frombuffer(buffer, dtype=dtype).reshape(shape)
    return t.requires_grad_() if requires_grad else t


def rebuild_last(buffer, dtype, shape, requires_grad):
    """As rebuild(), for a tensor in torch's channels_last format (four or five dimensions), whose elements are stored in that order. Part of the stored form, too."""
    t = rebuild(buffer, dtype, (shape[0], *shape[2:], shape[1]), False).movedim(-1, 1)
    return t.requires_grad_() if requires_grad else t


def again(tensor, requires_grad):
    """A tensor that shares the memory of an earlier tensor of the same value (tied weights). Part of the stored form, too."""
    t = tensor.detach()
    return t.requires_grad_() if requires_grad else t


def _last(t):
    """Whether t is in the channels_last format, but not also in the usual one"""
    if t.dim() not in (4, 5) or t.is_contiguous():
        return False
    return t.is_contiguous(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d)


_DTYPES = {"<f2": torch.float16, "<f4": torch.float32, "<f8": torch.float64, "<bf2": torch.bfloat16, "|u1": torch.uint8, "|i1": torch.int8,
           "<i2": torch.int16, "<i4": torch.int32, "<i8": torch.int64, "|b1": torch.bool, "<c8": torch.complex64, "<c16": torch.complex128}
_DTYPES.update((name, getattr(torch, t)) for name, t in (("<u2", "uint16"), ("<u4", "uint32"), ("<u8", "uint64")) if hasattr(torch, t))
_NAMES = {t: name for name, t in _DTYPES.items()}


def plain(t):
    """(tensor that owns the elements in C order, their address, bytes, type, shape) of a plain tensor, else None"""
    name = _NAMES.get(t.dtype)
    if (name is None or t.layout is not torch.strided or t.device.type != "cpu" or t.requires_grad or t.__dict__
            or (_has_names is not None and _has_names(t)) or getattr(t, "is_nested", False) or _last(t)):
        return None
    c = t.detach().resolve_conj().resolve_neg().contiguous()
    return c, c.data_ptr(), c.numel() * c.element_size(), name, tuple(c.shape)


def make(name, shape):
    """A new tensor of that type and shape, and the memory for its elements; None for another type."""
    if name not in _DTYPES:
        return None
    t = torch.empty(shape, dtype=_DTYPES[name])
    return t, t.data_ptr()


def rebuild_named(memory, name, shape):
    """A tensor over memory, read-only or not; None for another type."""
    return rebuild(memory, _DTYPES[name], shape, False) if name in _DTYPES else None


def _reduce(tensor):
    if (tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta" or tensor.__dict__
            or (_has_names is not None and _has_names(tensor)) or getattr(tensor, "is_nested", False)):
        return NotImplemented
    t = tensor.detach().resolve_conj().resolve_neg().cpu()
    last = _last(t)
    t = t.movedim(1, -1) if last else t.contiguous()
    buffer = pickle.PickleBuffer(_ddict.borrow(t, t.data_ptr(), t.numel() * t.element_size()))
    return rebuild_last if last else rebuild, (buffer, t.dtype, tuple(tensor.shape), tensor.requires_grad)


def reduce_tensor(obj, seen):
    """As reducer_override() of a pickler. seen: its tensors so far, by memory and layout; kept alive until the pickle is done."""
    if type(obj) is not torch.Tensor:
        return NotImplemented
    reduced = _reduce(obj)
    if reduced is NotImplemented or obj.numel() == 0:
        return reduced
    same = seen.setdefault((obj.data_ptr(), obj.dtype, obj.device, obj.shape, obj.stride(), obj.is_conj(), obj.is_neg()), obj)
    return reduced if same is obj else (again, (same, obj.requires_grad))


class _Pickler(pickle.Pickler):
    def __init__(self, *args, **kwds):
        super().__init__(*args, **kwds)
        self.seen = {}

    def reducer_override(self, obj):
        return reduce_tensor(obj, self.seen)


def dumps(obj, buffer_callback):
    """dumps(obj, buffer_callback) -- the pickle stream of obj, as a buffer"""
    stream = io.BytesIO()
    _Pickler(stream, 5, buffer_callback=buffer_callback).dump(obj)
    return stream.getbuffer()
