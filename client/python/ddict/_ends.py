# SPDX-License-Identifier: Apache-2.0
"""The end of a process that multiprocessing forked: it goes without atexit."""
import os
import sys

_ended = {}  # function: the process that multiprocessing ends by it


def child_ends(function):
    """Have this process end by function(), where multiprocessing ends it. Asked again it does nothing."""
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and _ended.get(function) != os.getpid() and process.parent_process() is not None:
        _ended[function] = os.getpid()
        util.Finalize(None, function, exitpriority=0)
