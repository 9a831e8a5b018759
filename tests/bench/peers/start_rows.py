# SPDX-License-Identifier: Apache-2.0
"""
Starting and idling: two ddictds on this host without Slurm, so without the time to create a step; and a step of a real Slurm on two nodes
(contrib/devcluster) that asks for 16 GiB.
"""
import json
import os
import re
import subprocess
import time

from cluster import BUILD, Dictionary

DEVCLUSTER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "contrib", "devcluster", "devcluster")
CLUSTER = "peers"       # its id
CLUSTER_SECONDS = 120
STEP_SECONDS = 60
STEP_MEM = "16G"
NODE_MB = 9000          # memory of each of Slurm's nodes: half of the dictionary, and room for the step
LEAST_GIB = 12          # free memory of this host: pages are populated while the dictionary runs

IDLE_SECONDS = 1.0
IDLE_NS = 500000


def private_kib(pid):
    """Private memory of the process, without memfds (the arena, lanes and lease pages)."""
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
    """Least processor time within a second. The process is not idle yet while a thread populates pages."""
    least = None
    for _ in range(tries):
        before = cpu_ns(pid)
        time.sleep(IDLE_SECONDS)
        used = cpu_ns(pid) - before
        if used < 0:  # the thread that populates pages has ended, so its time is not counted any more
            continue
        least = used if least is None else min(least, used)
        if least < IDLE_NS:
            break
    return least


def installed():
    """The prefix where this build is installed, or None. Below /tmp does not count, because nodes have their own /tmp."""
    with open(os.path.join(BUILD, "Makefile")) as f:
        prefix = re.search(r"^prefix = (.*)$", f.read(), re.M).group(1)
    there = os.access(os.path.join(prefix, "bin", "ddictd"), os.X_OK) and not prefix.startswith("/tmp")
    return prefix if there else None


def devcluster(*words, seconds=CLUSTER_SECONDS):
    return subprocess.run([DEVCLUSTER, "--id", CLUSTER, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=seconds, check=True).stdout


def step(*words):
    """Nanoseconds that an srun on both nodes took, and its output."""
    began = time.monotonic_ns()
    text = devcluster("run", "--", "srun", "-Q", "-N2", "-n2", "--mem=0", *words, seconds=STEP_SECONDS)
    return time.monotonic_ns() - began, text


def slurm(row, args, missing):
    """The row of a start by Slurm. The time until ready counts from the start of ddictd, as the record has it: just after the step was created."""
    prefix = installed()
    with open("/proc/meminfo") as f:
        free = int(re.search(r"MemAvailable:\s+(\d+)", f.read())[1]) >> 20
    why = ("this build is not installed (make install, in a prefix outside of /tmp)" if prefix is None else "Slurm's nodes need root" if os.geteuid() != 0 else
           "only %d GiB are free" % free if free < LEAST_GIB else None)
    if why is not None:
        missing.append("a start by Slurm: " + why)
        return None
    with_it, without, ready, rate = [], [], [], []
    look = "n=$SLURM_PROCID; [ $n = 1 ] || { sleep 1; ddict stats --json; }"
    try:
        devcluster("up", "-n", "2", "--prefix", prefix, "--mem-per-node", str(NODE_MB))
        log = devcluster("run", "--", "sh", "-c", "echo $HOME/start.jsonl").strip()
        for _ in range(args.reps):
            ns, _ = step("true")
            without.append(ns)
            ns, _ = step("--ddict-mem=" + STEP_MEM, "--ddict-record=" + log, "true")
            with_it.append(ns)
        _, text = step("--ddict-mem=" + STEP_MEM, "--ddict-record=" + log, "sh", "-c", look)
        for line in devcluster("run", "--", "cat", log).splitlines():
            event = json.loads(line) if line.strip() else {}
            if event.get("event") == "start":
                ready.append(event["ready_ms"] * 1e6)
        stats = json.loads(text[text.index("["):text.rindex("]") + 1])
        rate = [s["populated_bytes"] / s["populate_us"] / 1e3 for s in stats if s["populate_us"] > 0]
    except subprocess.CalledProcessError as e:
        raise RuntimeError((e.stderr or e.stdout).strip()[-200:]) from None
    finally:
        subprocess.run([DEVCLUSTER, "--id", CLUSTER, "down"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=CLUSTER_SECONDS)
    n = min(len(ready), len(with_it))
    sides = {name: {"batch": 1, "ns": values[:n], "cpu": values[:n]} for name, values in (("ready", ready), ("srun with it", with_it), ("srun without", without))}
    return {"row": row, "seconds": args.seconds, "sides": sides, "notes": {"populate_gb_a_second": min(rate)} if rate else {}}


def run(row, args, missing):
    if row == "start_slurm":
        return slurm(row, args, missing)
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
