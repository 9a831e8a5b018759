#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""More than memory: values beyond it are read like all others, from any node, and nothing is left on disk however it ends."""
import os
import signal
import subprocess
import tempfile

from cluster import BUILD, DDICTD, Dictionary, check, main, wait_for

MIB = 1 << 20


class Disk:
    """A folder of ours on the disk of the build; None where that is memory."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="ddict-spill-", dir=BUILD)
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.path], stdout=subprocess.PIPE, text=True).stdout.strip()
        return self.path if kind not in ("tmpfs", "ramfs") else None

    def __exit__(self, *a):
        os.rmdir(self.path)  # fails when something is in it


def held(path):
    """Who has a file of this folder open, or mapped."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += [pid for fd in os.listdir("/proc/%s/fd" % pid) if os.readlink("/proc/%s/fd/%s" % (pid, fd)).startswith(path + "/")]
        except OSError:
            pass
    return found


def values_beyond_memory_are_read_from_every_node():
    with Disk() as disk:
        if disk is None:
            return
        with Dictionary(nodes=2, managers=3, mem="12M", args=["--spill", disk, "--spill-size", "192M"]) as d:
            d.run("fill", "k", 600, 100000)
            check(os.listdir(disk) == [], "a file has a name: %r" % os.listdir(disk))
            check(held(disk) != [], "nobody has a file there")
            for node in (0, 1):
                d.run("verify", "k", 600, 100000, node=node)
                d.run("view", "k", 600, 100000, node=node)
            stats = d.stats()
            for s in stats.values():
                check(s["spill_total_bytes"] == 64 * MIB and s["total_used_bytes"] <= 4 * MIB, "%r" % s)
                check(s["spill_items"] > 100 and s["spill_used_bytes"] > s["spill_items"] * 100000, "%r" % s)
            check(sum(s["num_keys"] for s in stats.values()) == 600, "%r" % stats)
            d.run("clear")
            wait_for("the spill to be free", lambda: all(s["spill_used_bytes"] == 0 for s in d.stats().values()))
            report = d.end()
            check(report["total"]["spilled_bytes"] > 40 * MIB, "%r" % report["total"])
            check("in the spill" in d.nodes[0].line("summary", 1), "%r" % d.nodes[0].lines)
        check(held(disk) == [], "still open: %r" % held(disk))


def a_value_for_which_there_is_no_room_on_disk_either_is_refused():
    with Disk() as disk:
        if disk is None:
            return
        with Dictionary(mem="4M", args=["--spill", disk, "--spill-size", "8M"]) as d:
            out = d.run("fill", "k", 600, 100000, code=None)
            check("is full" in out and "its spill in " + disk in out, out)
            n = sum(s["num_keys"] for s in d.stats().values())
            check(n > 100, "%d values" % n)
            d.run("verify", "k", n, 100000)
            d.end()


def nothing_is_left_when_it_is_killed():
    with Disk() as disk:
        if disk is None:
            return
        for victim in ("manager", "ddictd"):
            with Dictionary(managers=2, mem="8M", args=["--spill", disk]) as d:
                d.run("fill", "k", 300, 100000)
                os.kill(d.nodes[0].managers[0] if victim == "manager" else d.nodes[0].proc.pid, signal.SIGKILL)
                d.nodes[0].wait()
                d.check_nothing_left()
            wait_for("the files to be closed", lambda: held(disk) == [])
            check(os.listdir(disk) == [], "%r is left" % os.listdir(disk))


def a_folder_that_can_not_be_used_ends_the_start():
    for folder, why in (("/nowhere", "/nowhere can not be used: No such file"), ("/dev/null", "is no folder"), ("/dev/shm", "is memory (tmpfs)"), ("/proc", "no file can be made in /proc")):
        p = subprocess.run([DDICTD, "--name", "0.local.spill%d" % os.getpid(), "--managers", "2", "--mem", "16M", "--wireup", "none", "--node", "here", "--spill", folder],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=60)
        check(p.returncode == 1 and "ddict1 error no spill on node here: " in p.stdout and why in p.stdout, p.stdout)
    with Disk() as disk:
        if disk is None:
            return
        with Dictionary(nodes=2, mem="16M", args=["--spill", disk, "--spill-size", "900T"], ready=False) as d:
            text = d.nodes[0].line("error")
            check("of spill are wanted and " + disk + " has" in text, text)
            for node in d.nodes:
                node.wait()


main([values_beyond_memory_are_read_from_every_node, a_value_for_which_there_is_no_room_on_disk_either_is_refused, nothing_is_left_when_it_is_killed,
      a_folder_that_can_not_be_used_ends_the_start])
