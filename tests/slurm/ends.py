# SPDX-License-Identifier: Apache-2.0
"""ends.py WORD - what a task does while its job ends.

work [SECONDS]  put and get without end (or so long); the first error ends it with exit code 3 and one line that says when it came
full            put until the dictionary is full; the error must say so: exit code 4
eat             take memory until the kernel ends it
"""
import os
import sys
import time

import ddict

rank, size, job = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"]), os.environ["SLURM_JOB_ID"]


def say(text):
    print(text, flush=True)


def work(seconds=600):
    d = ddict.attach()
    for i in range(64):
        d["k", rank, i] = bytes([i]) * 1000
    say(f"begun {job}")
    begin = last = time.monotonic()
    slowest, n, silent = 0.0, 0, d.get(("k", (rank + 1) % size, 63), wait=30)
    if silent is None:
        sys.exit(f"rank {rank}: the other task's key never came")
    try:
        while last - begin < float(seconds):
            i = n % 64
            d["k", rank, i] = bytes([i]) * 1000
            if bytes(d["k", (rank + 1) % size, i]) != bytes([i]) * 1000:
                sys.exit(f"rank {rank}: key {i} has bytes that nobody put")
            n += 1
            now = time.monotonic()
            slowest, last = max(slowest, now - last), now
            if n % 200 == 0:
                time.sleep(0.01)
                last = time.monotonic()
    except Exception as e:
        say(f"rank {rank}: an error {time.monotonic() - last:.1f} s after the last answer: {type(e).__name__}: {e}")
        sys.exit(3)
    say(f"rank {rank}: no error, {n} rounds, the slowest {slowest:.1f} s")


def full():
    d = ddict.attach()
    say(f"begun {job}")
    try:
        for i in range(10000):
            d["k", rank, i] = bytes(100000)
    except Exception as e:
        say(f"rank {rank}: {type(e).__name__}: {e}")
        sys.exit(4)


def eat():
    d = ddict.attach() if "DDICT_NAME" in os.environ else {}
    d["k", rank] = b"v"
    say(f"begun {job}")
    time.sleep(0.5)
    if rank == 1:
        kept = [os.urandom(1 << 20) * 4 for _ in range(1000)]
        say(f"rank {rank}: {len(kept)} pieces fitted")
    time.sleep(4)


if __name__ == "__main__":
    {"work": work, "full": full, "eat": eat}[sys.argv[1]](*sys.argv[2:])
