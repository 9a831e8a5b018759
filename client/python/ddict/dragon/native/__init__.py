# SPDX-License-Identifier: Apache-2.0
"""Dragon's package dragon.native."""

import importlib

_MODULES = {"Barrier": "barrier", "Event": "event", "Lock": "lock", "Popen": "process", "Process": "process", "Queue": "queue", "Semaphore": "semaphore", "cpu_count": "machine"}


def __getattr__(name):
    module = ".." + "mp" if name == "Pool" else "." + _MODULES.get(name, "")
    if module == ".":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module, __name__), name)
