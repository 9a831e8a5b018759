# SPDX-License-Identifier: Apache-2.0
"""runtime_end.py STEPS [RANK STEPS] - a rank that does these steps, one letter each, in their order; RANK does the second ones.

    r  initialise the runtime library     R  finalize it      L  leave PMIx, too
    m  initialise MPI                     M  finalize it      a  MPI exchanges, and both agree on the ranks
    x  exchange                           b  meet, 60 s       B  meet, 1 s: TimeoutError is what is wanted
    f  fork a child that is refused       F  a child that knows nothing yet forks and ends
    e  an exception nobody catches        X  sys.exit(3)      _  os._exit(4)   k  kill -9   d  kill -9 in a second   E  exec `true`   s  sleep 60 s
    n  sleep 60 s but on node 0
"""

import os
import sys
import time

from ddict import TimeoutError as DictTimeoutError
from ddict import runtime


def child_is_refused():
    try:
        runtime.exchange(b"x", 5)
    except Exception as e:
        return getattr(e, "code", None) == -1
    return False


def fork(check):
    pid = os.fork()
    if pid == 0:
        if not check():
            os._exit(1)
        sys.exit(0)  # by way of atexit handlers, which must not touch the parent's PMIx
    assert os.waitpid(pid, 0)[1] == 0, "the child is not refused"


def die_soon():
    if os.fork() == 0:
        time.sleep(1)
        os.kill(os.getppid(), 9)
        os._exit(0)


def mpi():
    import mpi4py
    mpi4py.rc.initialize = mpi4py.rc.finalize = False
    from mpi4py import MPI
    return MPI


def exchange():
    for n in (0, 1, 1000):
        assert runtime.exchange(b"%d" % runtime.rank * n, 60) == [b"%d" % r * n for r in range(runtime.size)]


def meet_in_vain():
    begin = time.monotonic()
    try:
        runtime.barrier(1)
    except DictTimeoutError:
        assert time.monotonic() - begin < 30
        try:
            runtime.barrier(1)
        except Exception as e:
            assert "failed before" in str(e), e
            return
    raise SystemExit("the barrier did not fail")


def mpi_agrees():
    ranks = mpi().COMM_WORLD.allgather((runtime.rank, runtime.size))
    assert ranks == [(r, runtime.size) for r in range(runtime.size)], ranks


def fail():
    raise RuntimeError("nobody catches this")


steps = {
    "r": runtime.init, "R": runtime.finalize, "L": runtime.leave,
    "m": lambda: mpi().Init(), "M": lambda: mpi().Finalize(), "a": mpi_agrees,
    "x": exchange, "b": lambda: runtime.barrier(60), "B": meet_in_vain,
    "f": lambda: fork(child_is_refused), "F": lambda: fork(lambda: True),
    "e": fail, "X": lambda: sys.exit(3), "_": lambda: os._exit(4), "k": lambda: os.kill(os.getpid(), 9), "d": die_soon,
    "E": lambda: os.execvp("true", ["true"]), "s": lambda: time.sleep(60),
    "n": lambda: runtime.node_id == 0 or time.sleep(60),
}
letters = sys.argv[1]
if len(sys.argv) > 2 and sys.argv[2] in (os.environ.get("SLURM_PROCID"), os.environ.get("OMPI_COMM_WORLD_RANK")):
    letters = sys.argv[3]
for letter in letters:
    steps[letter]()
