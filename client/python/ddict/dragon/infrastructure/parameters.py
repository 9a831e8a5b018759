# SPDX-License-Identifier: Apache-2.0
"""What Dragon tells a process about itself."""

import os
import random

_VARIABLE = "DDICT_DRAGON_PUID"  # of a program that a Process is, also on another node
_FIRST = 1 << 32                 # of the process that a program begins with
_own = None
_random = random.SystemRandom()  # a fork gives other numbers


def new_puid():
    """A number that no other process of the program has"""
    return _random.randrange(_FIRST + 1, 1 << 62)


def become(puid, is_program=False):
    """This process is the one of this number. is_program: what it executes next, too"""
    global _own
    _own = puid
    if is_program:
        os.environ[_VARIABLE] = str(puid)


class _ThisProcess:
    """this_process.my_puid: the number of this process, as ProcessGroup.puids and Process.puid have it"""

    @property
    def my_puid(self):
        return int(os.environ.get(_VARIABLE, _FIRST)) if _own is None else _own

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"this_process.{name}: here it has my_puid alone; Slurm's variables (SLURM_PROCID, SLURM_NODEID, ...) say the rest")


this_process = _ThisProcess()
