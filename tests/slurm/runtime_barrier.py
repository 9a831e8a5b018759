# SPDX-License-Identifier: Apache-2.0
"""runtime_barrier.py DIR ROUNDS - in each round another rank comes late to a barrier; whoever leaves it counts the files of those that came.

DIR is on all nodes. A rank makes its file before the barrier, so a barrier that holds leaves `size` of them to be seen. Prints a line for each that is not
held, and "held" when all were.
"""

import os
import sys
import time

from ddict import runtime

folder, rounds = sys.argv[1], int(sys.argv[2])
os.makedirs(folder, exist_ok=True)
early = 0
for n in range(rounds):
    if runtime.rank == (2 * n + 1) % runtime.size:
        time.sleep(0.7)
    open(os.path.join(folder, f"{n}.{runtime.rank}"), "x").close()
    runtime.barrier(30)
    came = sum(name.startswith(f"{n}.") for name in os.listdir(folder))
    if came != runtime.size:
        print(f"rank {runtime.rank} of {runtime.node} left barrier {n} when {came} of {runtime.size} had come", flush=True)
        early += 1
if not early:
    print(f"{runtime.peers}: held", flush=True)
