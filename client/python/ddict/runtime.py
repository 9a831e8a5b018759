# SPDX-License-Identifier: Apache-2.0
"""The rank and node of this process among the processes started with it, and how to reach them.

    from ddict import runtime

    runtime.rank, runtime.size          # among all ranks
    runtime.local_rank                  # on this node
    runtime.host_of(0)                  # name of the node of rank 0
    everybody = runtime.exchange(b"my address")
    runtime.barrier(timeout=30)
    gpu = runtime.bind_gpu("closest")   # before the first use of a GPU

Found by the variables of Slurm, mpirun, torchrun or `ddict run`, or through PMIx; otherwise the process is alone. The first use of anything here
looks; init() does so earlier. The rules about forks, ends and deaths in ddict_runtime.h (libddict-runtime(3)) also hold here; an uncaught
exception and sys.exit() are clean ends; call leave() before os._exit().

Attributes: rank, size, local_rank, local_size; node_id and nodes (None if not known); node, the name of this node; how and peers, the way in which
this was found and in which other ranks are reached; group, a text that only the ranks of this group have; map, whether the node of every rank is
known; trouble, why PMIx was passed over, or "".
"""

import os
import threading
from typing import Any, Dict, List, NamedTuple, Optional

from . import _runtime

__all__ = ["Gpu", "barrier", "bind_gpu", "exchange", "finalize", "host_of", "init", "leave", "node_name", "node_of", "ranks_of"]

rank: int
size: int
local_rank: int
local_size: int
node_id: Optional[int]
nodes: Optional[int]
node: str
how: str
peers: str
group: str
map: bool
trouble: str

_NAMES = ("rank", "size", "local_rank", "local_size", "node_id", "nodes", "node", "how", "peers", "group", "map", "trouble")
_lock = threading.Lock()
_info: Dict[str, Any] = {}


def init(pmix: bool = True) -> None:
    """init(pmix=True) -- find rank and node; pmix=False does not use PMIx. A second call does nothing"""
    with _lock:
        if not _info:
            _runtime.init(0 if pmix else _runtime.NO_PMIX)
            _info.update(_runtime.info())


def finalize() -> None:
    """finalize() -- leave the dictionary before the end of the process; the next use looks again"""
    with _lock:
        if _info:
            _runtime.finalize()
            _info.clear()


def leave() -> None:
    """leave() -- leave PMIx, too, for good: before os._exit() and os.exec*(). MPI cannot be initialised after it"""
    with _lock:
        _runtime.leave()
        _info.clear()


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    init()
    return _info[name]


def __dir__() -> List[str]:
    return sorted([*__all__, *_NAMES])


def exchange(data: Any, timeout: Optional[float] = None) -> List[bytes]:
    """exchange(data, timeout=None) -- every rank gives bytes, and gets the list of all ranks' bytes in order of rank

    All ranks have to call it. timeout: seconds, None for $DDICT_TIMEOUT or 60; ddict.TimeoutError if a rank did not call it in time.
    """
    init()
    return _runtime.exchange(data, timeout)


def barrier(timeout: Optional[float] = None) -> None:
    """barrier(timeout=None) -- wait until all ranks have called it"""
    init()
    _runtime.barrier(timeout)


def node_of(rank: int) -> int:
    """node_of(rank) -- the number of the rank's node; ddict.Error if that is not certain"""
    init()
    return _runtime.node_of(rank)


def host_of(rank: int) -> str:
    """host_of(rank) -- the name of the rank's node; ddict.Error if that is not certain"""
    init()
    return _runtime.host_of(rank)


def node_name(node: int) -> str:
    """node_name(node) -- the name of the node with this number"""
    init()
    return _runtime.node_name(node)


def ranks_of(node: int) -> List[int]:
    """ranks_of(node) -- the ranks on the node with this number; ddict.Error if that is not certain"""
    init()
    return _runtime.ranks_of(node)


class Gpu(NamedTuple):
    """The result of bind_gpu()"""

    variable: str  #: the variable that was set: "CUDA_VISIBLE_DEVICES", ...
    value: str  #: its value
    device: int  #: this rank's device, for torch.cuda.set_device()
    devices: int  #: number of visible devices
    shared: int  #: most ranks on one GPU; 1 while there are no more ranks than GPUs
    numa: Optional[int]  #: the NUMA node nearest to the rank's GPU
    pci: Optional[str]  #: the GPU's PCI address, "0000:84:00.0"


#: Why the last bind_gpu() bound nothing, or "".
gpu_trouble = ""


def bind_gpu(how: str = "closest") -> Optional[Gpu]:
    """bind_gpu(how="closest") -- order the GPUs of this process to fit the cores of all ranks of its node; None: nothing to bind

    "closest": all ranks have the same order, and a rank's GPU is device LOCAL_RANK (modulo the number of devices). "rotate": its GPU is device 0, the others
    follow. Sets CUDA_VISIBLE_DEVICES or the vendor's equivalent: call it before the first use of a GPU. The GPUs that Slurm granted stay visible, and no
    others become so. With mpirun and torchrun all ranks have to call it. ddict.Error: the variable cannot be parsed, and is unchanged.
    """
    global gpu_trouble
    init()
    got, more = _runtime.bind_gpu(how)
    gpu_trouble = more if got is None else ""
    if got is None:
        return None
    if more:
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ[got["variable"]] = got["value"]
    return Gpu(**got)
