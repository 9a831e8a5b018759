# SPDX-License-Identifier: Apache-2.0
"""A dictionary on one of two nodes, read from the other one; and what cannot be."""

import os
import socket
import time

import ddict.dragon as dragon
from ddict.dragon import DDict, DDictError, Node, Policy, Process, ProcessGroup, ProcessTemplate, System


def read(d):
    d["from"] = socket.gethostname(), d.local_managers, d.main_manager


def fail():
    raise SystemExit(7)


def figures(d):
    d["figures"] = sorted(os.sched_getaffinity(0)), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def fail_twice(d):
    if d.fetch_add("runs") < 2:
        raise SystemExit(9)
    d["stays on"] = socket.gethostname()
    time.sleep(600)


def main():
    d = DDict(2, 1, 32 * 1024 * 1024)
    first, second = System().hostname_policies()
    d["a"] = 1
    process = Process(target=read, args=(d,), policy=second)
    process.start()
    print("code", process.join())
    host, here, main_manager = d["from"]
    print("read on the other", host != socket.gethostname(), here, main_manager in (0, 1))
    print("managers", [s.manager_id for s in d.stats], len({s.hostname for s in d.stats}))
    print("which", {d.which_manager(i) for i in range(100)})
    process = Process(target=fail, policy=second)
    process.start()
    print("failed with", process.join(), process.node)
    process = Process(target="sleep", args=["600"], policy=second)
    process.start()
    process.kill()
    print("killed", process.join(60) not in (None, 0))
    process = Process(target=figures, args=(d,), policy=second)
    process.start()
    process.join()
    other = Node(1)
    print("figures", (other.cpus, other.physical_mem) == d["figures"], other.num_cpus > 0, other.gpus)
    with ProcessGroup(restart=True, policy=second) as group:
        group.add_process(1, ProcessTemplate(target=fail_twice, args=(d,)))
        group.init()
        group.start()
        end = time.monotonic() + 60
        while "stays on" not in d and time.monotonic() < end:
            time.sleep(0.1)
    print("restarted", d["stays on"] == host, [code for _, code in group.exit_status[:2]], d["runs"])
    try:
        DDict(1, 3, 1 << 20)
    except DDictError as e:
        print("refused:", e)
    d.destroy()


if __name__ == "__main__":
    main()
