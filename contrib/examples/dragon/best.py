# SPDX-License-Identifier: Apache-2.0
"""filter(): code that looks through what each manager has, and the best of all in order."""

import argparse
import random

from ddict.dragon.data.ddict import DDict
from ddict.dragon.native.machine import System
from ddict.dragon.native.process import ProcessTemplate
from ddict.dragon.native.process_group import ProcessGroup


class Molecule:
    def __init__(self, name, energy, weight):
        self.name, self.energy, self.weight = name, energy, weight


def screen(d, worker, n):
    rng = random.Random(worker)
    for i in range(n):
        name = f"m{worker}.{i}"
        d[name] = Molecule(name, -rng.random() * 12, rng.randrange(100, 600))


def candidates_of(dd, out, heaviest, n):
    """Those of one manager, best first: dd has no other keys"""
    light = [molecule for molecule in dd.values() if molecule.weight <= heaviest]
    for molecule in sorted(light, key=lambda molecule: molecule.energy)[:n]:
        out.put((molecule.energy, molecule.name))


def is_better(a, b):
    return a[0] < b[0]


def main():
    options = argparse.ArgumentParser(description="The molecules that bind best")
    options.add_argument("--molecules", type=int, default=500, help="of each worker")
    options.add_argument("--workers", type=int, default=4)
    options.add_argument("--heaviest", type=int, default=300)
    options.add_argument("--best", type=int, default=10)
    args = options.parse_args()

    nodes = System().nnodes
    d = DDict(2, nodes, nodes * 64 * 1024 * 1024, timeout=100)
    group = ProcessGroup()
    for worker in range(args.workers):
        group.add_process(nproc=1, template=ProcessTemplate(target=screen, args=(d, worker, args.molecules)))
    group.init()
    group.start()
    group.join()
    group.close()
    print("molecules", len(d), "on managers", sum(s.num_keys > 0 for s in d.stats))

    best = []
    with d.filter(candidates_of, (args.heaviest, args.best), is_better) as candidates:
        for energy, name in candidates:
            best.append((energy, name))
            if len(best) == args.best:
                break
    for energy, name in best:
        print(f"{name} {energy:.3f}")
    light = sorted((molecule.energy, molecule.name) for molecule in d.values() if molecule.weight <= args.heaviest)
    print("the best", best == light[:args.best], "of", len(light))
    d.destroy()


if __name__ == "__main__":
    main()
