# SPDX-License-Identifier: Apache-2.0
"""What pickle can't store, or stores by a name that other programs don't know: by cloudpickle, where that is installed. Imported when a value needs it.

pickle stores functions and classes as their names. Lambdas and local classes have none, and names of __main__ mean something only in processes
that run the same program. Of those a value has both here: the name, and the definition by cloudpickle. A process of the same program takes its own
class, so that isinstance() and members of an Enum hold; any other makes the class of its definition. The globals that a class or function uses, such
as a data set or a model, are part of its definition, and would be part of every value: a value has the name alone where the definition is large.
"""

import functools
import io
import os
import pickle
import sys
import types
import weakref

from . import _RUN

_MAIN = ("__main__", "__mp_main__")  # the second: in children of multiprocessing
_LARGEST = 64 << 10  # bytes of a definition
_defined = weakref.WeakKeyDictionary()  # definitions of classes: (the members that they are of, bytes); and functions whose definition is too large
_pickler = None                      # the class, once cloudpickle is imported
_looked = False                      # whether it was looked for


class _Large(Exception):
    pass


class _Limited(io.BytesIO):
    def write(self, data):
        if self.tell() + memoryview(data).nbytes > _LARGEST:
            raise _Large
        return super().write(data)


_real = functools.lru_cache(8)(os.path.realpath)  # multiprocessing gives its children another spelling of the path


def _program():
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return _real(file) if file else _RUN


def _named(name):
    """What this name means in __main__, or None"""
    obj = sys.modules.get("__main__")
    for part in name.split("."):
        obj = getattr(obj, part, None)
    return obj


def find(program, name, definition):
    """A class or function of the __main__ of a program. This name and these arguments are part of the stored form."""
    own = _named(name) if program == _program() or not definition else None
    if own is None and not definition:
        raise AttributeError(f"{name} of {program} was stored by its name alone, because with the globals that it uses its definition is more than {_LARGEST} bytes, "
                             f"and this program's __main__ has no {name}: move it into a module that both import")
    return pickle.loads(definition) if own is None else own


def _definition_make(obj):
    """Empty: it is too large."""
    import cloudpickle
    stream = _Limited()
    try:
        cloudpickle.Pickler(stream, 5).dump(obj)
    except _Large:
        return b""
    return stream.getvalue()


def _definition(obj):
    known = _defined.get(obj)
    if not isinstance(obj, type):
        if known is None:
            definition = _definition_make(obj)  # anew each time: the globals that it uses may have changed
            if not definition:
                _defined[obj] = (), definition
            return definition
        return known[1]
    members = tuple(vars(obj).values())
    if known is None or len(known[0]) != len(members) or any(a is not b for a, b in zip(known[0], members)):
        known = _defined[obj] = members, _definition_make(obj)
    return known[1]


def _of_main(obj):
    if not isinstance(obj, (type, types.FunctionType)) or getattr(obj, "__module__", None) not in _MAIN:
        return None
    name = obj.__qualname__
    return (find, (_program(), name, _definition(obj))) if _named(name) is obj else None


def _pickler_make():
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def __init__(self, file, buffer_callback):
            super().__init__(file, 5, buffer_callback=buffer_callback)
            self.seen = {}
            if sys.modules.get("torch") is not None:
                from ._torch import reduce_tensor
                self.tensor = reduce_tensor
            else:
                self.tensor = lambda obj, seen: NotImplemented

        def reducer_override(self, obj):
            reduced = _of_main(obj)
            if reduced is None:
                reduced = self.tensor(obj, self.seen)
            return super().reducer_override(obj) if reduced is NotImplemented else reduced

    return Pickler


def _advised(failure):
    """The failure of pickle, with what would help if that is cloudpickle"""
    text = str(failure)
    if type(failure) not in (pickle.PicklingError, AttributeError, TypeError) or not (text.startswith("Can't ") or "'module' object" in text):
        return failure
    return type(failure)(f"{text}. cloudpickle could, were it installed: pip install cloudpickle")


def dumps(obj, buffer_callback, failure):
    """The pickle stream of obj. failure: why pickle can't; None: it can, and the stream names __main__. Then the result may be None: there is nothing better.

    Else it may be the exception to raise. To raise it here would tie it, and with it obj, to this call's frame.
    """
    global _pickler, _looked
    if _pickler is None:
        if failure is None and _looked:
            return None
        _looked = True
        try:
            _pickler = _pickler_make()
        except ImportError:
            if failure is None:
                return None
            return _advised(failure)
    stream = io.BytesIO()
    try:
        _pickler(stream, buffer_callback).dump(obj)
    except Exception as e:
        return None if failure is None else e.with_traceback(None)
    return stream.getbuffer()
