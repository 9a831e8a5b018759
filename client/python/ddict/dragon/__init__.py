# SPDX-License-Identifier: Apache-2.0
"""Dragon's names, on top of ddict: a program runs with its import lines changed.

    from ddict.dragon.data.ddict import DDict           # was: from dragon.data.ddict import DDict
    from ddict.dragon.native.machine import System      # was: from dragon.native.machine import System
    from ddict.dragon import mp                         # was: import multiprocessing as mp

or all from here: from ddict.dragon import DDict, DragonDataset, Queue, Policy. It is started by srun, sbatch or python. doc/from-dragon.md has the table of names.
"""

import importlib

_WHERE = {
    ".mp": ("mp",),
    ".data.ddict": ("DDict", "DDictError", "DDictKeyError", "DDictFullError", "DDictTimeoutError", "DDictSyncError", "DDictCheckpointSyncError",
                    "DDictFutureCheckpointError", "DDictPersistCheckpointError", "DDictUnableToCreateError", "DDictManagerStats", "FilterContextManager",
                    "CheckpointPersister", "NULLCheckpointPersister", "PosixCheckpointPersister", "DAOSCheckpointPersister"),
    ".ai.collective_group": ("CollectiveGroup", "RankInfo"),
    ".ai.torch": ("DragonDataset",),
    ".infrastructure.policy": ("Policy",),
    ".native.barrier": ("Barrier", "BrokenBarrierError"),
    ".native.event": ("Event",),
    ".native.lock": ("Lock",),
    ".native.machine": ("Node", "System"),
    ".native.process": ("Popen", "Process", "ProcessTemplate"),
    ".native.process_group": ("ProcessGroup",),
    ".native.queue": ("Queue",),
    ".native.semaphore": ("Semaphore",),
}
_MODULE = {name: module for module, names in _WHERE.items() for name in names}
__all__ = sorted(_MODULE)


def __getattr__(name):
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"ddict.dragon has no {name}: doc/from-dragon.md says what there is instead")
    found = importlib.import_module(module, __name__)
    value = globals()[name] = found if module == "." + name else getattr(found, name)
    return value


def __dir__():
    return __all__
