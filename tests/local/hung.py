#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A manager that stands still: it is named in the promised time, and a short stop loses nothing."""
import os
import signal
import time

from cluster import Dictionary, check, main

LOST = 10  # DD_MANAGER_LOST_MS, seconds


def a_manager_that_is_stopped_is_named_and_lost():
    for nodes, victim in ((1, 0), (3, 1)):
        with Dictionary(nodes=nodes, managers=2 if nodes == 1 else 3) as d:
            d.run("fill", "k", 30, 1000)
            pid = d.manager_pid(victim)
            stay = d.probe("stay")
            check(stay.stdout.readline().startswith("attached"), "no client")
            os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            stay.wait(60)
            took = time.monotonic() - began
            out = stay.communicate()[0]
            what = "manager %d on node %s (pid %d) has not answered for" % (victim, d.node_name(victim % nodes), pid)
            check(what in out and "it is stopped" in out, "client saw %r" % out)
            check(took > LOST - 2, "given up after %.1f s" % took)
            for node in d.nodes:
                check(node.wait(10) == 1, "exit code")
            line = d.nodes[0].line("error", 1)
            check(what in line, "error line: %r" % line)
            check(what in d.nodes[victim % nodes].stderr(), "stderr %r" % d.nodes[victim % nodes].stderr())


def short_stops_lose_nothing():
    with Dictionary(nodes=2, managers=2) as d:
        d.run("fill", "k", 100, 1000)
        for seconds in (0.2, 1, 5):
            for pid in (d.manager_pid(0), d.manager_pid(1)):
                os.kill(pid, signal.SIGSTOP)
                p = d.probe("fill", "k", 100, 1000)
                time.sleep(seconds)
                os.kill(pid, signal.SIGCONT)
                out = p.communicate(timeout=60)[0]
                check(p.returncode == 0, "client: %r" % out)
                d.run("verify", "k", 100, 1000, node=1)
        check("has not answered for 3 s" in d.nodes[0].stderr() + d.nodes[1].stderr(), "the stop of 5 s was not said")
        d.end()


def a_manager_that_only_starves_is_not_given_up():
    """Nothing but moments of a core: it is stopped for 90 of 100 ms, for longer than a stopped one is waited for."""
    with Dictionary(managers=1) as d:
        d.run("fill", "k", 30, 1000)
        pid = d.manager_pid(0)
        end = time.monotonic() + LOST + 4
        while time.monotonic() < end:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.09)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.01)
        d.run("verify", "k", 30, 1000)
        d.end()


main([a_manager_that_is_stopped_is_named_and_lost, short_stops_lose_nothing, a_manager_that_only_starves_is_not_given_up], at_once=3)
