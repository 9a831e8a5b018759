# SPDX-License-Identifier: Apache-2.0
"""Batches straight from the dictionary's memory.

The arrays of all samples of a batch are copied once, into one block of memory for each field. The samples are views of the blocks,
and so is the collated batch. So ddict.torch.collate() only checks that the samples are unchanged: each field is the same object, and
arrays have the same shape and memory. What the program wrote into an array is in the block, too. If a DataLoader passes the samples to
collate() only, the samples are not even made. Inside DataLoader workers the blocks are shared memory, as torch wants it.
"""

import io
import pickle
from operator import is_
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch.utils.data import default_collate, get_worker_info

from .. import _ddict
from .._torch import _DTYPES, rebuild

LIMIT = 4096        # most keys that _gather() takes, and most forms that are cached
_ARRAY = 7          # the tag of arrays: doc/FORMAT.md

_NUMPY_BUFFER = {("numpy.core.numeric", "_frombuffer"), ("numpy._core.numeric", "_frombuffer")}
_PLAIN = (int, float, str, bytes)


class _Buffer(int):
    """Stands for the column of this number while the form of a pickle is analysed."""


class _Slot(NamedTuple):
    """An array of a sample: one row of a column."""
    column: int
    dtype: Any  # torch's dtype
    shape: Tuple[int, ...]
    numpy: bool


class _Form(NamedTuple):
    """How a stored sample is made. kind: type of the container of the fields (None: the sample is a single field); samples with the same layout make a batch."""
    kind: Optional[type]
    names: Tuple[Any, ...]
    layout: Tuple[Any, ...]  # a _Slot, or the type of a constant
    values: Tuple[Any, ...]  # the constants


class _Unfit(Exception):
    """The sample cannot be made field by field."""


def _numpy_slot(buffer: Any, dtype: Any, shape: Any, order: str) -> Any:
    if not isinstance(buffer, _Buffer):
        import numpy
        return numpy.frombuffer(buffer, dtype=dtype).reshape(shape, order=order).copy()
    if order != "C" or dtype.str not in _DTYPES:
        raise _Unfit
    return _Slot(int(buffer), _DTYPES[dtype.str], tuple(shape), True)


def _torch_slot(buffer: Any, dtype: Any, shape: Any, requires_grad: bool) -> Any:
    if requires_grad:
        raise _Unfit
    if not isinstance(buffer, _Buffer):
        return rebuild(buffer, dtype, shape, False)
    return _Slot(int(buffer), dtype, tuple(shape), False)


class _Finder(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("ddict._torch", "rebuild"):
            return _torch_slot
        if (module, name) in _NUMPY_BUFFER:
            return _numpy_slot
        return super().find_class(module, name)


def _layout_of(value: Any) -> Any:
    if isinstance(value, _Slot):
        if value.numpy and not value.shape:
            raise _Unfit
        return value
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray" and not value.shape:
        raise _Unfit  # a row of its column would be a number, not an array
    if type(value) in _PLAIN or type(value) is bool:
        return type(value)
    if type(value) is torch.Tensor:
        return ("tensor", value.dtype, tuple(value.shape))
    if type(value).__module__ == "numpy" and hasattr(value, "dtype") and value.dtype.str in _DTYPES:
        return (type(value).__name__, value.dtype.str, tuple(value.shape))
    raise _Unfit


def _form(head: bytes) -> Optional[_Form]:
    """The form that head describes, or None if samples like this are loaded one by one."""
    if head[0] == _ARRAY:
        code, dims = head[5:17].rstrip(b"\0").decode("ascii", "replace"), head[3]
        if code not in _DTYPES or head[2] > 1:
            return None
        shape = tuple(int.from_bytes(head[17 + 8 * i:25 + 8 * i], "little") for i in range(dims))
        sample: Any = _Slot(0, _DTYPES[code], shape, head[2] == 0)
    else:
        try:
            sample = _Finder(io.BytesIO(head[1:]), buffers=map(_Buffer, range(LIMIT))).load()
        except Exception:  # loading the sample itself gives a better error
            return None
    try:
        if type(sample) in (tuple, list):
            return _Form(type(sample), (), tuple(map(_layout_of, sample)), tuple(sample))
        if type(sample) is dict:
            return _Form(dict, tuple(sample), tuple(map(_layout_of, sample.values())), tuple(sample.values()))
        return _Form(None, (), (_layout_of(sample),), (sample,))
    except _Unfit:
        return None


_forms: Dict[bytes, Optional[_Form]] = {}
_shared = False  # collate() has got a batch of this process: in a DataLoader's worker the next ones use shared memory


def _form_of(head: bytes) -> Optional[_Form]:
    try:
        return _forms[head]
    except KeyError:
        if len(_forms) >= LIMIT:
            _forms.clear()
        form = _forms[head] = _form(head)
        return form


def _memory(nbytes: int) -> torch.Tensor:
    if _shared and nbytes and get_worker_info() is not None:
        return torch.empty(0, dtype=torch.uint8).set_(torch.UntypedStorage._new_shared(nbytes))
    return torch.empty(nbytes, dtype=torch.uint8)


def _collated(values: List[Any], layout: Any) -> Any:
    """Collate the values of a field that is no column, as default_collate does."""
    if layout is float:
        return torch.tensor(values, dtype=torch.float64)
    if layout in (int, bool):
        return torch.tensor(values)
    if layout in (str, bytes):
        return values
    return torch.stack([torch.as_tensor(v) for v in values])


class Whole:
    """A batch for collate() only, whose samples were never made"""

    __slots__ = ("parts",)

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


def _joined(kind: Optional[type], names: Tuple[Any, ...], fields: List[Tuple[Any, Any]]) -> Any:
    """The collated batch"""
    made = [column if layout is None else _collated(column, layout) for column, layout in fields]
    if kind is not dict:  # default_collate() transposes such samples by zip()
        made = [tuple(column) if type(column) is list else column for column in made]
    return made[0] if kind is None else dict(zip(names, made)) if kind is dict else made


_address, _stride = torch.Tensor.data_ptr, torch.Tensor.stride
_shape, _dtype, _gradient = (getattr(torch.Tensor, name).__get__ for name in ("shape", "dtype", "requires_grad"))


def _rows_intact(column: torch.Tensor, rows: Any) -> bool:
    """Whether the arrays of a field are still the rows of their column, with the same memory, shape and type"""
    n, shape = len(rows), column.shape[1:]
    if type(rows[0]) is torch.Tensor:
        step = column.stride(0) * column.element_size()
        return (list(map(_address, rows)) == [column.data_ptr() + i * step for i in range(n)] and list(map(_shape, rows)) == [shape] * n
                and list(map(_stride, rows)) == [column.stride()[1:]] * n and list(map(_dtype, rows)) == [column.dtype] * n
                and not any(map(_gradient, rows)) and list(map(type, rows)) == [torch.Tensor] * n)
    if not shape:  # numbers are immutable
        return True
    whole = column.numpy()
    for a, b in zip(rows, whole):
        if a.shape != b.shape or a.strides != b.strides or a.dtype != b.dtype or a.__array_interface__["data"] != b.__array_interface__["data"]:
            return False
    return True


class Batch(list):
    """The samples of a batch. collate() does not copy them again if they are unchanged"""

    __slots__ = ("_parts",)

    def __init__(self, samples: Any, kind: Optional[type], names: Tuple[Any, ...], fields: List[Tuple[Any, Any]], rows: List[Any]) -> None:
        super().__init__(samples)
        self._parts: Any = (kind, names, fields, rows)  # fields: (tensor, None), or (values, layout); rows: the objects that the samples hold

    def _intact(self, kind: Optional[type], names: Tuple[Any, ...], fields: List[Tuple[Any, Any]], rows: List[Any]) -> bool:
        if len(self) != len(rows[0]):
            return False
        now: Any = [self]
        if kind is dict:
            if list(map(type, self)) != [dict] * len(self) or list(map(tuple, self)) != [names] * len(self):
                return False
            now = zip(*[s.values() for s in self])
        elif kind is not None:
            if list(map(type, self)) != [kind] * len(self) or list(map(len, self)) != [len(rows)] * len(self):
                return False
            now = zip(*self)
        return all(all(map(is_, mine, row)) and (layout is not None or _rows_intact(column, row)) for mine, row, (column, layout) in zip(now, rows, fields))

    def whole(self) -> Any:
        """The collated batch, or None if a sample was changed. Works only once, because the result is not a copy"""
        parts, self._parts = self._parts, None
        if parts is None or not self._intact(*parts):
            return None
        return _joined(*parts[:3])

    def __reduce__(self) -> Any:
        return list, (list(self),)


def _one_by_one(heads: List[bytes], columns: List[torch.Tensor], keys: Any) -> List[Any]:
    n, samples = len(heads), []
    sizes = [c.numel() // n for c in columns]
    memory = [memoryview(_ddict.borrow(c, c.data_ptr(), c.numel())) for c in columns]
    for i, head in enumerate(heads):
        rows = [m[i * size:(i + 1) * size] for m, size in zip(memory, sizes)]
        try:
            samples.append(pickle.loads(head[1:], buffers=rows))
        except Exception as e:
            named = _ddict._named(e, keys[i])
            if named is e:
                raise
            raise named from e
    return samples


def _make(heads: List[bytes], columns: List[torch.Tensor], keys: Any, labels: Optional[List[int]], whole: bool) -> Any:
    """The batch, or None if the values have no form that is known here"""
    n = len(heads)
    forms = list(map(_form_of, heads))
    form = forms[0]
    if form is None or any(f is not form and (f is None or f.layout != form.layout or f.names != form.names or f.kind is not form.kind)
                           for f in forms) or (labels is not None and form.kind is not None):
        if any(head[0] == _ARRAY for head in heads):
            return None
        samples = _one_by_one(heads, columns, keys)
        return samples if labels is None else list(zip(samples, labels))
    fields: List[Tuple[Any, Any]] = []
    rows: List[Any] = []
    for k, layout in enumerate(form.layout):
        if isinstance(layout, _Slot):
            column = columns[layout.column].view(layout.dtype).view(n, *layout.shape)
            fields.append((column, None))
            rows.append(None if whole else list(column.numpy()) if layout.numpy else column.unbind(0))
        else:
            values = [f.values[k] for f in forms]  # type: ignore[union-attr]
            if type(layout) is tuple:  # small arrays: not the cached ones
                column = _collated(values, layout)
                fields.append((column, None))
                rows.append(None if whole else column.unbind(0) if layout[0] == "tensor" else list(column.numpy()))
            else:
                fields.append((values, layout))
                rows.append(values)
    kind, names = form.kind, form.names
    if labels is not None:
        kind, fields, rows = tuple, [*fields, (labels, int)], [*rows, labels]
    if whole:
        return Whole(kind, names, fields)
    if kind is None:
        return Batch(rows[0], kind, names, fields, rows)
    made = zip(*rows)
    return Batch(made if kind is tuple else map(list, made) if kind is list else (dict(zip(names, s)) for s in made), kind, names, fields, rows)


def read(d: Any, keys: Any, labels: Optional[List[int]] = None, whole: bool = False) -> Any:
    """The samples of keys, fetched together; with labels each is a pair (value, label). KeyError names an absent key. whole: the result is for collate() only, so
    return a Whole if possible"""
    if 0 < len(keys) <= LIMIT:
        columns: List[torch.Tensor] = []

        def alloc(nbytes: int) -> Any:
            columns.append(_memory(nbytes))
            return _ddict.borrow(columns[-1], columns[-1].data_ptr(), nbytes)

        got = d._gather(keys, alloc)
        if type(got) is tuple:
            got = _make(got[0], columns, keys, labels, whole)
            if got is not None:
                return got
    else:
        got = None
    if got is None:
        got = d.__getitems__(keys)
    return got if labels is None else list(zip(got, labels))


def collate(batch: List[Any]) -> Any:
    """collate(batch) -- as torch's default_collate, for a DataLoader's collate_fn; a batch of a DDictDataset with unchanged samples is not copied again"""
    global _shared
    if type(batch) is Whole:
        _shared = True
        return _joined(*batch.parts)
    if type(batch) is Batch:
        _shared = True
        whole = batch.whole()
        if whole is not None:
            return whole
    return default_collate(batch)
