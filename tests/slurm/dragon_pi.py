# SPDX-License-Identifier: Apache-2.0
"""Pi by throwing darts: a head process gives out seeds by a queue, and workers on all nodes answer by another one."""

import random
import socket

import ddict.dragon as dragon
from ddict.dragon.native.lock import Lock
from ddict.dragon.native.process import ProcessTemplate
from ddict.dragon.native.process_group import ProcessGroup
from ddict.dragon.native.queue import Queue

WORKERS, ROUNDS, DARTS = 4, 12, 20000


def throw(tasks, answers, lock, log):
    while True:
        seed = tasks.get()
        if seed is None:
            break
        rng = random.Random(seed)
        hits = sum(rng.random() ** 2 + rng.random() ** 2 <= 1 for _ in range(DARTS))
        answers.put((seed, hits))
    with lock:
        with open(log, "a") as f:
            f.write(socket.gethostname() + "\n")


def main():
    tasks, answers, lock = Queue(), Queue(), Lock()
    group = ProcessGroup()
    group.add_process(nproc=WORKERS, template=ProcessTemplate(target=throw, args=(tasks, answers, lock, "dragon_pi.log")))
    group.init()
    group.start()
    for seed in range(ROUNDS):
        tasks.put(seed)
    hits = sum(answers.get(timeout=120)[1] for _ in range(ROUNDS))
    for _ in range(WORKERS):
        tasks.put(None)
    group.join()
    group.close()
    print(f"pi {4 * hits / (ROUNDS * DARTS):.2f}")
    with open("dragon_pi.log") as f:
        hosts = f.read().split()
    print("workers", len(hosts), "hosts", len(set(hosts)))


if __name__ == "__main__":
    main()
