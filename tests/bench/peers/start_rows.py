# SPDX-License-Identifier: Apache-2.0
"""The row of starting and idling: two ddictds on this host, without Slurm, so without what the creation of a step takes."""
import os
import time

from cluster import Dictionary

IDLE_SECONDS = 1.0
IDLE_NS = 500000


def private_kib(pid):
    """Memory of the process alone: what lies in no memfd, which are the arena, lanes and lease pages."""
    kib, shared = 0, False
    with open("/proc/%d/smaps" % pid) as f:
        for line in f:
            words = line.split()
            if not words[0].endswith(":"):
                shared = "memfd:" in line
            elif not shared and words[0] in ("Private_Clean:", "Private_Dirty:"):
                kib += int(words[1])
    return kib


def cpu_ns(pid):
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
            total += int(f.read().split()[0])
    return total


def quiet(pid, tries=20):
    """Least processor time of a second; it is not yet idle while pages are populated behind the service."""
    least = None
    for _ in range(tries):
        before = cpu_ns(pid)
        time.sleep(IDLE_SECONDS)
        used = cpu_ns(pid) - before
        if used < 0:  # the thread that populates pages has ended, and its account is gone
            continue
        least = used if least is None else min(least, used)
        if least < IDLE_NS:
            break
    return least


def run(row, args):
    ready, private, idle = [], [], []
    for _ in range(args.reps):
        began = time.monotonic_ns()
        with Dictionary(nodes=2, managers=2, mem=args.mem) as d:
            ready.append(time.monotonic_ns() - began)
            manager = d.nodes[0].managers[0]
            if len(idle) < 2:
                idle.append(quiet(manager))
            private.append(private_kib(manager))
            d.end()
    return {"row": row, "seconds": args.seconds, "sides": {"ready": {"batch": 1, "ns": ready, "cpu": ready}},
            "notes": {"idle_cpu_ms_a_second": min(idle) / 1e6, "private_mib": max(private) / 1024}}
