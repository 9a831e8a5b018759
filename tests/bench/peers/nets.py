# SPDX-License-Identifier: Apache-2.0
"""Two hosts on one machine: network namespaces joined by a veth pair. Needs root, and removes everything at the end."""
import os
import subprocess


def ip(*args):
    subprocess.run(["ip", *args], check=True, stdin=subprocess.DEVNULL)


class Pair:
    """names[i] has address[i]; prefix(i) makes a command run there; apart: each host has half of this machine's cores to itself."""

    def __init__(self, kind="peers", tag="", net=199):
        self.names = ["ddict-%s-%d-%s%d" % (kind, os.getpid(), tag, i) for i in (0, 1)]
        self.address = ["10.%d.%d.%d" % (net, os.getpid() % 250, i + 1) for i in (0, 1)]
        self.apart = False

    def prefix(self, i):
        argv, cores = ["ip", "netns", "exec", self.names[i]], sorted(os.sched_getaffinity(0))
        half = len(cores) // 2
        return argv + ["taskset", "-c", ",".join(map(str, cores[half:] if i else cores[:half]))] if self.apart and half else argv

    def __enter__(self):
        try:
            for name in self.names:
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
            self.join()
            for name, address in zip(self.names, self.address):
                ip("-n", name, "address", "add", address + "/24", "dev", "eth0")
                ip("-n", name, "link", "set", "eth0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def join(self):
        ip("-n", self.names[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", self.names[1])

    def __exit__(self, *error):
        for name in self.names:
            if os.path.exists("/run/netns/" + name):
                ip("netns", "del", name)
