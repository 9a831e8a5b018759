# SPDX-License-Identifier: Apache-2.0
"""checkpoint.py - the time that a checkpoint takes from the training: to the dictionary, to a file, and as a mere copy in memory, in turn.

    ddict run --managers=2 --mem=2G -- python3 tests/bench/checkpoint.py FOLDER [--mib 256] [--rounds 7]

submit: time of submit_checkpoint(), during which the training waits. stored: time until the checkpoint is in the dictionary. file: torch.save() to FOLDER with fsync.
clone: a copy of the tensors. Each begins after the one before has ended. Prints medians, and the median of the rounds' ratios.
"""
import argparse
import os
import statistics
import time

import torch

from ddict.results import ResultsHandler


def clocked(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def to_file(state, path):
    with open(path, "wb") as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--mib", type=int, default=256)
    p.add_argument("--rounds", type=int, default=7)
    args = p.parse_args()
    torch.set_num_threads(1)
    state = {f"layer{i}": torch.randn(args.mib << 14) for i in range(16)}
    path, rounds, load = os.path.join(args.folder, "checkpoint.pt"), [], [os.getloadavg()[0]]
    with ResultsHandler("bench") as results:
        for i in range(args.rounds + 1):  # the first round is not counted, because its memory is not populated yet
            submit = clocked(lambda: results.submit_checkpoint("model.pt", state))
            behind = clocked(results.flush)
            file = clocked(lambda: to_file(state, path))
            clone = clocked(lambda: {name: t.clone() for name, t in state.items()})
            rounds.append({"submit": submit, "stored": submit + behind, "file": file, "clone": clone})
            load.append(os.getloadavg()[0])
    os.unlink(path)
    print(f"torch {torch.__version__}: {args.mib} MiB, {args.rounds} rounds, {os.cpu_count()} cores, load {min(load):.1f} to {max(load):.1f}")
    for name in rounds[0]:
        times, ratios = [r[name] for r in rounds[1:]], [r[name] / r["submit"] for r in rounds[1:]]
        print(f"{name:8} {statistics.median(times):7.3f} s ({min(times):.3f} to {max(times):.3f})  {statistics.median(ratios):6.2f} x submit")


main()
