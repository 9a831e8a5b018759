#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A dictionary that watches a batch script (--script) ends with it, and with nothing else."""
import os
import subprocess
import time

from cluster import DDICTD, Dictionary, check, main, wait_for


class Script:
    """The process that is watched."""

    def __init__(self):
        self.proc = subprocess.Popen(["sleep", "600"])
        with open("/proc/%d/stat" % self.proc.pid) as f:
            self.began = int(f.read().rsplit(")", 1)[1].split()[19])

    def end(self):
        self.proc.kill()
        self.proc.wait()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.end()


class Watching(Dictionary):
    """node: the id of the one that watches."""

    def __init__(self, pid, began, node=0, **kw):
        self.names = "%d.%x" % (os.getpid(), time.monotonic_ns())
        Dictionary.__init__(self, args=("--stay", "--script", "%s/%d/%d" % (self.node_name(node), pid, began)), **kw)

    def node_name(self, i):
        return "n%d-%s" % (i, self.names)

    def ends(self, seconds=10):
        for node in self.nodes:
            check(node.wait(seconds) == 0, "exit code, stderr %s" % node.stderr())
        check(self.nodes[0].has("report") and self.nodes[0].has("end"), "%r" % self.nodes[0].lines)


def it_ends_with_the_script():
    for nodes, node in ((1, 0), (2, 0), (3, 2)):
        with Script() as script, Watching(script.proc.pid, script.began, node, nodes=nodes, managers=3) as d:
            check(("script=watched" in d.ready) == (node == 0), d.ready)  # who says ready knows of itself
            d.run("fill", "k", 100, 1000)
            script.end()
            d.ends()


def who_is_attached_has_a_moment():
    with Script() as script, Watching(script.proc.pid, script.began, nodes=2) as d:
        p = d.probe("stay", node=1)
        check(p.stdout.readline() == "attached\n", "stay")
        began = time.monotonic()
        script.end()
        d.ends()
        check(time.monotonic() - began >= 0.4, "it is gone at once")
        p.kill()
        p.communicate()


def another_process_is_not_the_script():
    with Script() as script:
        gone = subprocess.Popen(["true"])
        gone.wait()
        for pid, began in ((script.proc.pid, script.began + 1), (gone.pid, script.began), (2**31 - 1, 0)):
            with Watching(pid, began) as d:
                check("script=" not in d.ready, d.ready)
                if pid == script.proc.pid:
                    script.end()
                    time.sleep(0.3)
                d.run("self")
                d.nodes[0].proc.terminate()
                d.ends()


def wrong_words_are_refused():
    for text in ("n1", "n1/1", "n1/1/", "/1/1", "n1/x/1", "n1/1/1x", "n1/0/1", "n1/99999999999/1", "n1/1/1/1", "n" * 300 + "/1/1"):
        p = subprocess.run([DDICTD, "--name", "1.1.1", "--managers", "1", "--mem", "64M", "--script", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                           timeout=20)
        check(p.returncode == 1 and "want NODE/PID/TICKS" in p.stdout, "%s: %d %s" % (text, p.returncode, p.stdout))


main([it_ends_with_the_script, who_is_attached_has_a_moment, another_process_is_not_the_script, wrong_words_are_refused])
