# SPDX-License-Identifier: Apache-2.0
"""Two ranks on two nodes: each puts values of all sizes, the other one reads them by get and by view."""
import hashlib
import os
import sys

import ddict

rank, sizes = int(os.environ["SLURM_PROCID"]), [int(s) for s in sys.argv[1:]]


def value(size, r):
    return hashlib.shake_128(b"%d.%d" % (size, r)).digest(size)


d = ddict.attach()
for size in sizes:
    for writer in (0, 1):
        key = ("size", size, writer)
        if rank == writer:
            d[key] = value(size, writer)
            if d.get(("read", size, writer), wait=True, timeout=60) != 1:
                sys.exit(f"rank {rank}: nobody read the value of {size} bytes")
            del d[key]
        else:
            want, got = value(size, writer), d.get(key, wait=True, timeout=60)
            if got is None or bytes(got) != want:
                sys.exit(f"rank {rank}: get of {size} bytes differs ({'nothing' if got is None else len(got)})")
            del got
            view = d.view(key)
            with memoryview(view) as m:
                if m.nbytes != size or m != want:
                    sys.exit(f"rank {rank}: view of {size} bytes differs ({m.nbytes})")
            del view
            d[("read", size, writer)] = 1
            print(f"equal: {size} bytes put by rank {writer} on {os.environ['SLURM_NODELIST']}, read by rank {rank} "
                  f"on {os.environ['SLURMD_NODENAME']}", flush=True)
