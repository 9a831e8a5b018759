#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One dictionary, however many start it (--stay): the others find it, wait until it is ready, and end with 0."""
import os
import re
import signal
import subprocess
import time

import cluster
from cluster import DDICTD, Dictionary, check, main, wait_for


class Again(Dictionary):
    """Another start of the dictionary d."""

    def __init__(self, d, **kw):
        self.of = d
        bits, cluster.random.getrandbits = cluster.random.getrandbits, lambda n: int(d.tag.split(".")[1], 16)
        try:
            Dictionary.__init__(self, args=("--stay",), ready=False, **kw)
        finally:
            cluster.random.getrandbits = bits

    def check_nothing_left(self):
        wait_for("processes to end", lambda: not any(cluster.alive(p) for p in self.pids), 5)


def stay(**kw):
    return Dictionary(args=("--stay",), **kw)


def exists(again, d):
    line = again.nodes[0].line("exists", 30)
    for node in again.nodes:
        check(node.wait(10) == 0, "exit code of one that came second; stderr %s" % node.stderr())
    check(again.nodes[0].lines[-1] == "ddict1 end", "%r" % again.nodes[0].lines)
    check(not any(n.has("exists") or n.has("end") for n in again.nodes[1:]), "another node said it too")
    check(line.split(None, 1)[1] == d.nodes[0].line("ready").split(None, 1)[1], "%r, but ready was %r" % (line, d.nodes[0].line("ready")))


def down(d):
    d.run("down")
    for node in d.nodes:
        check(node.wait(10) == 0, "exit code, stderr %s" % node.stderr())


def a_second_start_finds_the_first():
    for nodes in (1, 3):
        with stay(nodes=nodes, managers=4) as d:
            d.run("fill", "k", 100, 1000)
            began = time.monotonic()
            with Again(d, nodes=nodes, managers=7, mem="1G") as again:
                exists(again, d)
            check(time.monotonic() - began < 20, "it took %.1f s" % (time.monotonic() - began))
            check(all(s["clients_now"] <= 1 for s in d.stats().values()), "the second start counts as a client")
            d.run("verify", "k", 100, 1000)
            down(d)


def a_second_start_waits_until_the_first_is_ready():
    with stay(nodes=2, managers=2, env={"DDICT_TEST_READY_MS": "1500"}, ready=False) as d:
        wait_for("its managers", lambda: all(cluster.children(n.proc.pid) for n in d.nodes))
        with Again(d, nodes=2, managers=2) as again:  # its node 0 gives its card away when the first is ready
            check(d.nodes[0].has("ready"), "its card came too early")
            exists(again, d)
        d.wait_ready()
        down(d)


def of_eight_at_once_one_is_the_dictionary():
    with stay(ready=False, managers=2) as d:
        others = [Again(d, managers=2) for n in range(7)]
        all_nodes = [d.nodes[0]] + [o.nodes[0] for o in others]
        ids = set()
        ready = []
        for node in all_nodes:
            wait_for("a line", lambda: node.has("ready") or node.has("exists"), 30)
            line = node.line("ready" if node.has("ready") else "exists")
            ids.add(re.search("id=([0-9a-f]{32})", line).group(1))
            if node.has("ready"):
                ready.append(node)
        check(len(ready) == 1 and len(ids) == 1, "%d are ready; ids %r" % (len(ready), ids))
        d.run("self")
        d.run("down")
        for node in all_nodes:
            check(node.wait(10) == 0, "exit code, stderr %s" % node.stderr())
        for o in others:
            o.__exit__(None, None, None)


def a_winner_killed_while_it_starts_is_replaced():
    for nodes in (1, 2):
        with stay(nodes=nodes, managers=2, env={"DDICT_TEST_READY_MS": "60000"}, ready=False) as d:
            wait_for("the names", lambda: len(d.sockets()) >= nodes)
            wait_for("its managers", lambda: all(cluster.children(n.proc.pid) for n in d.nodes))
            if nodes == 1:
                again = Again(d)
                time.sleep(0.3)
                d.nodes[0].proc.kill()
            else:  # cards of the second start go through us, so its node 0 must come first
                d.nodes[0].proc.kill()
                again = Again(d, nodes=nodes)
            with again:
                again.wait_ready()
                again.run("self", node=nodes - 1)
                down(again)
            for node in d.nodes:
                node.proc.kill()


def a_start_whose_starter_dies_is_no_dictionary():
    with stay(nodes=2, managers=2, env={"DDICT_TEST_READY_MS": "3000"}, ready=False) as d:
        wait_for("both names", lambda: len(d.sockets()) == 2)
        for node in d.nodes:
            node.close_stdin()
        for node in d.nodes:
            check(node.wait(20) == 0, "exit code")
        check(not d.nodes[0].has("ready"), "it became ready: %r" % d.nodes[0].lines)


def a_name_that_is_being_given_up_is_taken_over():
    with stay(nodes=2, managers=2, drain_ms=1500) as d:
        p = d.probe("stay", node=1)
        check(p.stdout.readline() == "attached\n", "probe")
        d.run("down")
        first = d.nodes[0].line("ready")
        with Again(d, nodes=2, managers=2) as again:
            again.wait_ready()
            check(again.ready.split()[1] != first.split()[1], "the same id")
            again.run("self", node=1)
            down(again)
        p.communicate(timeout=30)


def without_stay_a_taken_name_is_an_error():
    with stay() as d:
        env = dict(os.environ, DDICT_NODE=d.node_name(0))
        p = subprocess.run([DDICTD, "--name", d.name, "--mem", "16M"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        check(p.returncode == 1 and "already" in p.stdout, "%d %r" % (p.returncode, p.stdout))
        down(d)


def the_name_of_another_user_is_named():
    if os.getuid() != 0:
        return
    with stay() as d:
        argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", DDICTD, "--name", d.name, "--mem", "16M", "--stay", "--node", d.node_name(0)]
        p = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, cwd="/")
        if p.returncode in (126, 127):  # the build folder is closed to others
            print("# not run: %s" % p.stderr.strip())
        else:
            check(p.returncode == 1 and "taken by another user" in p.stdout and "uid %d" % os.getuid() in p.stdout, "%d %r" % (p.returncode, p.stdout))
        down(d)


def sigterm_ends_one_that_waits():
    with stay(env={"DDICT_TEST_READY_MS": "60000"}, ready=False) as d:
        wait_for("the name", lambda: d.sockets())
        with Again(d) as again:
            again.nodes[0].line("start")
            time.sleep(0.3)
            again.nodes[0].proc.send_signal(signal.SIGTERM)
            check(again.nodes[0].wait(3) == 0, "exit code")
        d.nodes[0].proc.kill()


main([a_second_start_finds_the_first, a_second_start_waits_until_the_first_is_ready, of_eight_at_once_one_is_the_dictionary,
      a_winner_killed_while_it_starts_is_replaced,
      a_start_whose_starter_dies_is_no_dictionary, a_name_that_is_being_given_up_is_taken_over, without_stay_a_taken_name_is_an_error,
      the_name_of_another_user_is_named, sigterm_ends_one_that_waits])
