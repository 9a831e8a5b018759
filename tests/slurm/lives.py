# SPDX-License-Identifier: Apache-2.0
"""Two ranks, each on a node of its own, put, read and wait while the manager of one node is killed, and then that of the other: nothing fails, nothing is lost.

In each rank one thread puts keys of both managers over and over, one reads values of its own node, in place, and of the other one, and requests wait for keys
that come when the manager has died. At the end each key has the value that was put last, and the statistics count the deaths.
"""
import os
import signal
import sys
import threading
import time

import ddict

rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
KEYS, WAITS, LIMIT = 200, 8, 60
stop, wrong = threading.Event(), []
last = [0] * KEYS  # turn of the last value of each key that was acknowledged
done = {"puts": 0, "reads": 0}
d = ddict.attach()


def check(ok, what):
    if not ok:
        sys.exit("rank %d: %s" % (rank, what))


def wait_for(what, fn):
    end = time.monotonic() + LIMIT
    while not fn():
        check(not wrong, wrong)
        check(time.monotonic() < end, "not within %d s: %s" % (LIMIT, what))
        time.sleep(0.01)


def value(r, i, turn):
    return (b"%d.%d.%d " % (r, i, turn)) * (1 + i * 5)


def write():
    while not stop.is_set():
        for i in range(KEYS):
            d["k", rank, i] = value(rank, i, last[i] + 1)
            last[i] += 1
            done["puts"] += 1


def read():
    while not stop.is_set():
        for r in range(size):
            for i in range(KEYS):
                if bytes(d["fixed", r, i]) != value(r, i, 0):
                    raise AssertionError("another value of (%d, %d)" % (r, i))
                done["reads"] += 1


def thread(fn):
    def run():
        try:
            fn()
        except Exception as e:
            wrong.append("%s: %s: %s" % (fn.__name__, type(e).__name__, e))
    t = threading.Thread(target=run, daemon=True)
    t.start()
    return t


def meet(where):
    d["met", where, rank] = True
    for r in range(size):
        check(d.get(("met", where, r), wait=True, timeout=LIMIT), "rank %d has not come to %s" % (r, where))


def death(n):
    """Of the manager on the node of rank n."""
    waits = [d.get_async(("after", n, i), wait=True, timeout=LIMIT) for i in range(WAITS)]
    before = dict(done)
    wait_for("puts and reads", lambda: all(done[what] > before[what] + KEYS for what in done))
    meet("death %d" % n)
    if rank == n:
        os.kill(next(s["pid"] for s in d.stats if s["node"] == os.environ["SLURMD_NODENAME"]), signal.SIGKILL)
    wait_for("the next life", lambda: sum(s["restarts"] for s in d.stats) == n + 1)
    if rank == n:
        for i in range(WAITS):
            d["after", n, i] = n
    check([w.result(LIMIT) for w in waits] == [n] * WAITS, "who waited has another value")
    before = dict(done)
    wait_for("more puts and reads", lambda: all(done[what] > before[what] + KEYS for what in done))


for i in range(KEYS):
    d["fixed", rank, i] = value(rank, i, 0)
meet("begin")
threads = [thread(write), thread(read)]
for n in range(size):
    death(n)
stop.set()
for t in threads:
    t.join(LIMIT)
    check(not t.is_alive(), "a call does not end")
check(not wrong, wrong)
for i in range(KEYS):
    check(bytes(d["k", rank, i]) == value(rank, i, last[i]), "key %d has not the value that was put last" % i)
print("rank %d: no error, %d puts, %d reads, %d deaths" % (rank, done["puts"], done["reads"], size), flush=True)
meet("end")
