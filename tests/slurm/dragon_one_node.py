# SPDX-License-Identifier: Apache-2.0
"""A dictionary on one of two nodes, read from the other one; and what cannot be."""

import socket

import ddict.dragon as dragon
from ddict.dragon import DDict, DDictError, Policy, Process, System


def read(d):
    d["from"] = socket.gethostname(), d.local_managers, d.main_manager


def fail():
    raise SystemExit(7)


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
    try:
        DDict(1, 3, 1 << 20)
    except DDictError as e:
        print("refused:", e)
    d.destroy()


if __name__ == "__main__":
    main()
