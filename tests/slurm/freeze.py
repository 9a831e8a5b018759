# SPDX-License-Identifier: Apache-2.0
"""freeze.py whole|killed - two ranks a node on one dictionary that is frozen. Ranks meet by files of the shared folder: a frozen dictionary takes no keys."""
import os
import signal
import subprocess
import sys
import time

import ddict

rank, size, local = (int(os.environ["SLURM_" + n]) for n in ("PROCID", "NTASKS", "LOCALID"))
tag = "freeze.%s.%s" % (os.environ["SLURM_JOB_ID"], os.environ["SLURM_STEP_ID"])
COUNT, LIMIT = 150, 60


def wait_for(what, fn):
    end = time.monotonic() + LIMIT
    while not fn():
        if time.monotonic() > end:
            sys.exit("rank %d: not within %d s: %s" % (rank, LIMIT, what))
        time.sleep(0.01)


def meet(where):
    open("%s.%s.%d" % (tag, where, rank), "w").close()
    wait_for("all at " + where, lambda: all(os.path.exists("%s.%s.%d" % (tag, where, r)) for r in range(size)))


def check(ok, what):
    if not ok:
        sys.exit("rank %d: %s" % (rank, what))


def value(r, i, turn):
    return (b"%d.%d.%d " % (r, i, turn)) * (1 + i * 20)


def put_own(d, turn):
    d.put_many(((r, i), value(r, i, turn)) for r in (rank,) for i in range(COUNT))


def read_all(d, turn, how):
    for r in range(size):
        for i in range(COUNT):
            check(bytes(how((r, i))) == value(r, i, turn), "value (%d, %d) of turn %d" % (r, i, turn))


def refused(write, what):
    try:
        write()
    except ddict.FrozenError:
        return
    sys.exit("rank %d: %s was not refused" % (rank, what))


def command(*words):
    return subprocess.run(["ddict", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=LIMIT)


def total(d, field):
    return sum(s[field] for s in d.stats)


def frozen(d):
    """Frozen by rank 0, seen by all."""
    meet("put")
    if rank == 0:
        d.freeze()
    wait_for("frozen", lambda: d.is_frozen)
    meet("frozen")


def whole(d):
    put_own(d, 1)
    frozen(d)
    if local == 0:
        read_all(d, 1, d.__getitem__)
    meet("first")
    before = {k: total(d, k) for k in ("gets_remote", "cache_hits", "cached_items")} if rank == 0 else {}
    meet("counted")
    if local == 1:
        read_all(d, 1, d.view)
    meet("second")
    if rank == 0:
        far = before["cached_items"]  # of each key one of two nodes is not the owner
        check(far == size * COUNT, "%d values of other nodes are kept, not %d" % (far, size * COUNT))
        check(total(d, "gets_remote") == before["gets_remote"], "%d remote gets by second readers" % (total(d, "gets_remote") - before["gets_remote"]))
        hits = total(d, "cache_hits") - before["cache_hits"]
        check(hits == far, "%d reads of kept values, not %d" % (hits, far))
        check(all(s["frozen"] == 1 for s in d.stats), "not all managers are frozen")
        print("second readers had %d values in place" % hits, flush=True)
    meet("looked")  # a pop that is refused reads its value first, which counts as a read
    refused(lambda: d.__setitem__((rank, 0), b"x"), "a put")
    refused(lambda: d.pop((rank, 0)), "a pop")
    refused(lambda: d.__delitem__((rank, 0)), "a deletion")
    refused(lambda: d.update({("new", rank, i): b"x" for i in range(50)}), "an update")
    refused(d.clear, "a clear")
    check(len(d) == size * COUNT and len(list(d)) == size * COUNT, "%d keys" % len(d))
    meet("refused")
    if rank == size - 1:  # of the other node
        put = command("put", "a", "b")
        check(put.returncode != 0 and "frozen" in put.stdout, "ddict put: " + put.stdout)
        again = command("freeze")
        check(again.returncode == 0 and d.is_frozen, "ddict freeze: " + again.stdout)
        thaw = command("unfreeze")
        check(thaw.returncode == 0, "ddict unfreeze: " + thaw.stdout)
    meet("open again")  # not is_frozen, which is over when an unfreeze begins: it can be written when that has returned
    check(not d.is_frozen, "still frozen")
    put_own(d, 2)
    meet("put again")
    read_all(d, 2, d.view if local else d.__getitem__)
    meet("read again")
    if rank == 0:
        check(total(d, "cached_items") == 0, "%d values of other nodes are still kept" % total(d, "cached_items"))
        check(command("freeze").returncode == 0, "ddict freeze")
    wait_for("frozen again", lambda: d.is_frozen)
    read_all(d, 2, d.__getitem__)
    print("rank %d read all, frozen and not" % rank, flush=True)


def killed(d):
    put_own(d, 1)
    frozen(d)
    read_all(d, 1, d.__getitem__)
    view = d.view((size - 1 - rank, 7))
    meet("read")
    if rank == 0:
        os.kill(next(s["pid"] for s in d.stats if s["node"] == os.environ["SLURMD_NODENAME"]), signal.SIGKILL)
    began = time.monotonic()
    try:
        while time.monotonic() < began + LIMIT:
            read_all(d, 1, d.__getitem__)
            if rank == 0:
                d.unfreeze()
                d.freeze()
    except (ddict.LostError, ddict.GoneError) as e:
        check(bytes(view) == value(size - 1 - rank, 7, 1), "a view changed")
        print("rank %d was told after %s: %s" % (rank, "less than 10 s" if time.monotonic() - began < 10 else "long", e), flush=True)
        return
    sys.exit("rank %d: nobody said that a manager is dead" % rank)


{"whole": whole, "killed": killed}[sys.argv[1]](ddict.attach())
