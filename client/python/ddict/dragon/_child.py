# SPDX-License-Identifier: Apache-2.0
"""A process on another node, which srun starts: python -m ddict.dragon._child, with what it is to do on its standard input."""

import os
import pickle
import sys
from multiprocessing import spawn

_MAIN = "__mp_main__"


def _named_main():
    """The program's classes have the names that they have where the program began: a key that is one of their objects is the same."""
    main = sys.modules.get(_MAIN)
    for thing in list(vars(main).values()) if main is not None else ():
        if getattr(thing, "__module__", None) == _MAIN:
            try:
                thing.__module__ = "__main__"
            except (AttributeError, TypeError):
                pass


def main():
    with os.fdopen(os.dup(0), "rb") as stdin:
        prepared = pickle.load(stdin)
        spawn.prepare(prepared)
        _named_main()
        process = pickle.load(stdin)
    process._parent_pid = os.getppid()
    code = process._bootstrap()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
