# SPDX-License-Identifier: Apache-2.0
"""A rank of tests/slurm/59-results.t: RUN FOLDER [SECONDS]. All submit; with SECONDS they go on so long, else rank 0 sees the files and rank 1 hears of it."""

import json
import os
import signal
import sys
import time

import ddict
from ddict.results import PREFIX, ResultsHandler

rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
run, folder = sys.argv[1:3]
seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 0


def wait_for(true, what):
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > 60:
            sys.exit(f"rank {rank}: {what} did not come")
        time.sleep(0.05)
    return time.monotonic() - began


def on_disk(path):
    try:
        with open(os.path.join(folder, run, path), "rb") as f:
            return f.read()
    except FileNotFoundError:
        return b""


def stop(*_):
    """The last word: submitted after SIGTERM, on disk when the job is over."""
    results.submit_result(f"last/{rank}", f"rank {rank} after {step} steps", append=False)
    results.close()
    os._exit(0)


d = ddict.attach()
results = ResultsHandler(run, d)
step = 0
if seconds:
    signal.signal(signal.SIGTERM, stop)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        results.submit_result(f"metrics/{rank}.json", {"step": step, "rank": rank})
        results.submit_result("model", bytes([step % 256]) * 1000000)
        step += 1
        time.sleep(0.1)
    sys.exit("nobody stopped it")
events = d.subscribe(PREFIX + run + "/", timeout=60) if rank == 1 else None
d["ready", rank] = True
d.wait_for_prefix(("ready",), size, timeout=60)
for step in range(20):
    results.submit_result(f"metrics/{rank}.json", {"step": step, "loss": 1 / (step + 1 + rank)})
results.submit_checkpoint(f"checkpoint/{rank}", {"w": list(range(1000))})
results.flush()
if rank == 0:
    took = wait_for(lambda: all(on_disk(f"metrics/{r}.json").count(b"\n") == 20 for r in range(size)), "the metrics")
    print(f"all metrics are on disk, {'within 5 s' if took < 5 else f'after {took} s'}", flush=True)
if rank == 1:
    lines = {}
    while len(lines) < size or any(v.count(b"\n") < 20 for v in lines.values()):
        e = next(events)
        if "metrics/" in e.key:
            lines[e.key.split("\0")[0]] = e.value
    print("rank 1 heard of", sorted(json.loads(v.splitlines()[-1])["step"] for v in lines.values()), flush=True)
    events.close()
q = ddict.Queue("results-test", d=d)
q.put(rank)
if rank == size - 1:
    print("through a queue:", sorted(q.get(timeout=60) for _ in range(size)), flush=True)
results.submit_result("end", f"rank {rank}\n")
results.close()
