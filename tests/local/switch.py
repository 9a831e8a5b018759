# SPDX-License-Identifier: Apache-2.0
"""Some hosts on one machine: network namespaces on a bridge that is in one more. Needs root, and removes everything at the end."""
import os
import subprocess


def ip(*args):
    subprocess.run(["ip", *args], check=True, stdin=subprocess.DEVNULL)


class Switch:
    """prefix(i) makes a command run on host i; up(i, False) takes its link from the bridge, so that no kernel is told; between(i, j, False) cuts two of them from each other."""

    def __init__(self, hosts):
        self.names = ["ddict-switch-%d-%d" % (os.getpid(), i) for i in range(hosts)]
        self.bridge = "ddict-switch-%d-b" % os.getpid()
        self.address = ["10.196.%d.%d" % (os.getpid() % 250, i + 1) for i in range(hosts)]

    def prefix(self, i):
        return ["ip", "netns", "exec", self.names[i]]

    def up(self, i, up):
        ip("-n", self.bridge, "link", "set", "p%d" % i, *(["master", "br0"] if up else ["nomaster"]))

    def between(self, i, j, up):
        """The way between two hosts alone, both ways: to an Ethernet address that nobody has."""
        for a, b in ((i, j), (j, i)):
            if up:
                ip("-n", self.names[a], "neigh", "del", self.address[b], "dev", "eth0")
            else:
                ip("-n", self.names[a], "neigh", "replace", self.address[b], "lladdr", "02:00:00:00:00:01", "dev", "eth0", "nud", "permanent")

    def __enter__(self):
        try:
            ip("netns", "add", self.bridge)
            ip("-n", self.bridge, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
            ip("-n", self.bridge, "link", "set", "br0", "up")
            for i, (name, address) in enumerate(zip(self.names, self.address)):
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "p%d" % i, "netns", self.bridge)
                ip("-n", name, "address", "add", address + "/24", "dev", "eth0")
                ip("-n", name, "link", "set", "eth0", "up")
                ip("-n", self.bridge, "link", "set", "p%d" % i, "up")
                self.up(i, True)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        for name in [*self.names, self.bridge]:
            if os.path.exists("/run/netns/" + name):
                ip("netns", "del", name)
