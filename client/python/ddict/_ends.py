# SPDX-License-Identifier: Apache-2.0
"""The end of a process that multiprocessing forked, which does not run atexit functions."""
import os
import sys

_ended = {}  # function: pid of the process for which it is registered


def child_ends(function):
    """If this is a child of multiprocessing, have function() called at its end. A second call does nothing."""
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and _ended.get(function) != os.getpid() and process.parent_process() is not None:
        _ended[function] = os.getpid()
        util.Finalize(None, function, exitpriority=0)
