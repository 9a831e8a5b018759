# SPDX-License-Identifier: Apache-2.0
"""ends.py WORD - what a task does while its job ends.

work [SECONDS]  put and get without end (or so long); the first error ends it with exit code 3 and one line that says when it came
full            put until the dictionary is full; the error must say so: exit code 4
eat             take memory until the kernel ends it
eat_first       rank 1 takes back that it goes first, and takes memory
eat_beside HOW  rank 1 does so, HOW the dictionary is (full or empty); the other one puts and gets as before, and says so
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
    slowest, n, silent = 0.0, 0, d.get(("k", (rank + 1) % size, 63), wait=True, timeout=30)
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


def taken_ahead(mib):
    """Whether a process of the dictionary has so much of its memory. It takes it ahead of use, a while after the start."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as cmdline, open(f"/proc/{pid}/status") as status:
                ours = f"\0--name\0{os.environ['DDICT_NAME']}\0" in cmdline.read()
                if ours and any(line.startswith("RssShmem:") and int(line.split()[1]) >= mib << 10 for line in status):
                    return True
        except OSError:
            pass
    return False


def eat_first():
    d = ddict.attach()
    d["k", rank] = b"v"
    if rank == 1:
        end = time.monotonic() + 30
        while not taken_ahead(250) and time.monotonic() < end:
            time.sleep(0.2)
        with open("/proc/self/oom_score_adj", "w") as f:
            f.write("0")
        kept = []
        while True:
            kept.append(os.urandom(1 << 20) * 4)
    try:
        while True:
            d["k"] = d["k", 0]
            time.sleep(0.01)
    except ddict.Error as e:
        sys.exit(f"rank 0: {e}")


def eat_beside(how):
    d = ddict.attach()
    d["k", rank] = b"v"
    say(f"begun {job}")
    filled = 0
    try:
        while how == "full" and rank == 1 and filled < 2000:
            d["fill", filled] = bytes(1 << 20)
            filled += 1
    except ddict.FullError:
        pass
    time.sleep(3)  # what was not used yet is populated meanwhile
    if rank == 1:
        d["filled"] = filled
        kept = []
        while True:
            kept.append(os.urandom(1 << 20) * 4)
    d.get("filled", wait=True, timeout=80)
    end = time.monotonic() + 12
    n = 0
    while time.monotonic() < end:
        for i in range(64):
            d["k", rank, i] = n
            if d["k", rank, i] != n:
                sys.exit("rank 0: another value")
        n += 1
        time.sleep(0.01)
    say("rank 0: no error")


if __name__ == "__main__":
    {"work": work, "full": full, "eat": eat, "eat_beside": eat_beside, "eat_first": eat_first}[sys.argv[1]](*sys.argv[2:])
