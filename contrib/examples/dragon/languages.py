# SPDX-License-Identifier: Apache-2.0
"""One dictionary for three languages: programs in C and in C++ on each node put and get, Python reads what they have put."""

import pathlib

import numpy as np

from ddict.dragon.data.ddict import DDict
from ddict.dragon.infrastructure.policy import Policy
from ddict.dragon.native.machine import System
from ddict.dragon.native.process import Popen

HERE = pathlib.Path(__file__).resolve().parent
ROWS, COLUMNS = 40, 50


def run(d, program):
    """The program once on each node, with the dictionary and its number as words"""
    processes = [Popen(executable=str(HERE / program), args=[d.serialize(), node], policy=Policy(placement=Policy.Placement.HOST_ID, host_id=node))
                 for node in System().nodes]
    for process in processes:
        process.wait()
        assert process.returncode == 0, f"{program} ended with {process.returncode}"


def main():
    nodes = System().nnodes
    d = DDict(1, nodes, nodes * 64 * 1024 * 1024, timeout=100)
    d["name"] = "three languages"
    d["scale"] = 0.5
    d["weights"] = np.arange(ROWS * COLUMNS, dtype=np.float64).reshape(ROWS, COLUMNS)
    run(d, "worker_c")
    run(d, "worker_cpp")
    for node in range(nodes):
        for language in "c", "c++":
            scaled, host = d[language, node], d["host", language, node]
            print(f"{language} {node} on {host}: {scaled.shape} {scaled.dtype}, right {np.array_equal(scaled, d['weights'] * d['scale'] * (node + 1))}")
        print(f"c++ has read what c wrote: {d['sum', node]:.1f} of {float(d['c', node].sum()):.1f}")
    print("programs", d["programs"], "of", 2 * nodes)
    d.destroy()


if __name__ == "__main__":
    main()
