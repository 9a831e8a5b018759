# SPDX-License-Identifier: Apache-2.0
from typing import Any, ItemsView, Iterable, Mapping, MutableMapping, Optional, Tuple, Union, ValuesView

from ._ddict import AuthError as AuthError, CredError as CredError, Error as Error, FullError as FullError, GoneError as GoneError
from ._ddict import Handle, Key
from ._ddict import KeySizeError as KeySizeError, LostError as LostError, NoDictError as NoDictError, ProtocolError as ProtocolError
from ._ddict import RawKey as RawKey, TimeoutError as TimeoutError, ValueSizeError as ValueSizeError, VersionError as VersionError
from ._ddict import View as View, ViewsError as ViewsError, bytes_key as bytes_key, down as down, key_bytes as key_bytes

__version__: str

class DDict(Handle, MutableMapping[Key, Any]):
    def values(self) -> ValuesView[Any]: ...
    def items(self) -> ItemsView[Key, Any]: ...
    def popitem(self) -> Tuple[Key, Any]: ...
    def put_many(self, pairs: Union[Mapping[Key, Any], Iterable[Tuple[Key, Any]]]) -> int: ...
    def update(self, other: Union[Mapping[Key, Any], Iterable[Tuple[Key, Any]]] = (), /, **kwds: Any) -> None: ...  # type: ignore[override]
    def __ior__(self, other: Union[Mapping[Key, Any], Iterable[Tuple[Key, Any]]]) -> DDict: ...

def attach(name: Optional[str] = None, timeout: Optional[float] = None) -> DDict: ...
