#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The load of the benchmark with Dragon's dictionary, for comparison on the same machine: in an environment with `pip install dragonhpc`,

  dragon -s dragon_load.py seq0.125gb.txt [MANAGERS] [MEMORY] [LINES]

Prints DDict_Timer as Dragon's example does (create the dictionary, read the file, put line after line from one process), and the time to get each line once.
"""
import sys
import time

import dragon  # noqa: F401
import multiprocessing
from dragon.data.ddict import DDict


def main():
    path, managers, memory, lines = (sys.argv[1:] + ["4", str(1 << 30), ""][len(sys.argv) - 2:])[:4]
    multiprocessing.set_start_method("dragon")
    began = time.perf_counter()
    d = DDict(int(managers), 1, int(memory))
    with open(path) as f:
        count = 0
        for line in f:
            if lines and count == int(lines):
                break
            d[count] = line.strip()
            count += 1
    took = time.perf_counter() - began
    print("DDict_Timer", took)
    print("%d lines put by one process, %s managers, %.0f a second" % (count, managers, count / took), flush=True)
    began = time.perf_counter()
    for i in range(count):
        d[i]
    took = time.perf_counter() - began
    print("Read alone: %d sequences in %.2f s, %.1f a second" % (count, took, count / took), flush=True)
    d.destroy()


if __name__ == "__main__":
    main()
