# SPDX-License-Identifier: Apache-2.0
"""Pickling of torch tensors with their elements out of band. Imported only where torch already is.

torch's own pickling writes a tensor's whole storage into the stream, byte by byte. Here a plain tensor becomes its elements,
contiguous, as one buffer, and is made over that buffer again. Tensors of a GPU are stored as CPU tensors. What is not a
plain strided tensor (sparse, quantized, subclasses, with attributes of its own) goes torch's way.
"""

import io
import pickle

import torch

from . import _ddict


def rebuild(buffer, dtype, shape, requires_grad):
    """A tensor over buffer. This name and these arguments are part of the stored form."""
    memory = memoryview(buffer)
    if memory.nbytes == 0:
        t = torch.empty(shape, dtype=dtype)
    else:
        if memory.readonly:  # in the dictionary's memory; torch knows only writable tensors
            alias = getattr(buffer, "alias", False)
            buffer = _ddict.borrow(buffer, buffer.address, memory.nbytes) if alias else bytearray(memory)
        t = torch.frombuffer(buffer, dtype=dtype).reshape(shape)
    return t.requires_grad_() if requires_grad else t


def _reduce(tensor):
    if (tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta" or tensor.__dict__ or tensor.has_names()
            or getattr(tensor, "is_nested", False)):
        return NotImplemented
    t = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    buffer = pickle.PickleBuffer(_ddict.borrow(t, t.data_ptr(), t.numel() * t.element_size()))
    return rebuild, (buffer, t.dtype, tuple(t.shape), tensor.requires_grad)


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj):
        return _reduce(obj) if type(obj) is torch.Tensor else NotImplemented


def dumps(obj, buffer_callback):
    """dumps(obj, buffer_callback) -- the pickle stream of obj, as a buffer"""
    stream = io.BytesIO()
    _Pickler(stream, 5, buffer_callback=buffer_callback).dump(obj)
    return stream.getbuffer()
