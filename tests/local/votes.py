#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--replicas=2: the node that decides is lost, and another takes its place (PROTOCOL 13)."""
import re
import signal
import time

from cluster import check, main, shadows_of, wait_for
from losses import InPlace, Replicated, linked

# From the loss of who decides to an answer: WAIT until it is missed, an election, WAIT for all leases, a beat or two, and a busy machine.
ANSWERED_MS = 18000
DECIDES = "decides for all from now on"


def deciders(d):
    return [i for i in d.left() if DECIDES in d.nodes[i].stderr()]


def goes_on(nodes, lose, who=0, managers=None):
    """lose(d) takes node `who`; what was acknowledged before and meanwhile is there."""
    with Replicated(nodes=nodes, managers=managers) as d:
        loads = d.loads(1)
        d.go_on(loads, 1.5)
        began = time.monotonic()
        lose(d)
        wait_for("another one that decides", lambda: deciders(d), 15)
        print("# another decides after %.1f s" % (time.monotonic() - began))
        d.wait_promoted(who)
        print("# the keys are served after %.1f s" % (time.monotonic() - began))
        d.go_on(loads, 1)
        d.judge(loads, ANSWERED_MS)
        check(len(deciders(d)) == 1, "nodes %r decide" % deciders(d))
        d.end()


def three_nodes_node_0_is_lost_under_load():
    goes_on(3, lambda d: d.lose(0))


def four_nodes_node_0_is_lost_under_load():
    goes_on(4, lambda d: d.lose(0))


def its_ddictd_alone_is_killed():
    def lose(d):
        d.pids_of(0)
        d.lost.add(0)
        d.nodes[0].proc.kill()
    goes_on(3, lose)


def four_nodes_lose_the_second_one_that_decides_too():
    """When all keys have two copies again."""
    with Replicated(nodes=4) as d:
        loads = d.loads(1)
        who = 0
        for again in (True, False):
            d.go_on(loads, 1)
            d.lose(who)
            wait_for("another one that decides", lambda: deciders(d), 15)
            d.wait_promoted(who)
            if again:
                wait_for("second copies of all keys", lambda: sum("have a second copy again" in text for text in d.said()) >= 2, 30)
                who = deciders(d)[0]  # node 1, but on a busy machine
        d.go_on(loads, 1)
        d.stop_loads(loads)
        d.verify(loads)
        d.end()


def a_shadow_dies_with_it():
    """That of manager 1, whose node lives: its changes in flight are sent to the next life, and acknowledged."""
    def lose(d):
        d.signal(shadows_of(d.nodes[2].proc.pid), signal.SIGKILL)
        d.lose(0)
    goes_on(3, lose)


def it_stands_still_and_serves_nothing_when_it_goes_on():
    """Its ddictd and managers; its clients read on, or wait, and are told."""
    with Replicated(nodes=3) as d:
        loads = d.loads(1)
        key = InPlace(d, 0)
        d.go_on(loads, 1)
        pids = d.pids_of(0)
        d.signal(pids, signal.SIGSTOP)
        d.lost.add(0)
        wait_for("another one that decides", lambda: deciders(d), 15)
        d.wait_promoted(0)
        d.go_on([c for c in loads if c.node != 0], 2)
        d.signal(pids, signal.SIGCONT)
        for c in (key.reader, loads[0]):
            text = c.end(code=3)
            check(re.search("cut off|took its place|took their place", text), "a client of node 0 was told %r" % text)
        check("cut off" in d.nodes[0].line("error", 15), "its ddictd: %r" % d.nodes[0].lines)
        check(d.nodes[0].wait(15) != 0, "exit code")
        d.stop_loads(loads)
        key.nothing_old()
        d.verify(loads)
        check(deciders(d) in ([1], [2]), "nodes %r decide" % deciders(d))
        d.end()


def it_stands_still_for_2_s_and_goes_on_deciding():
    with Replicated(nodes=3) as d:
        loads = d.loads(1)
        d.go_on(loads, 1)
        pids = d.pids_of(0)
        d.signal(pids, signal.SIGSTOP)
        time.sleep(2)
        d.signal(pids, signal.SIGCONT)
        d.go_on(loads, 5)
        d.stop_loads(loads)
        d.verify(loads)
        check(deciders(d) == [], "nodes %r decide" % deciders(d))
        d.end()


@linked(3)
def it_is_cut_off_and_reads_nothing_old(d, switch):
    loads = d.loads(1)
    key = InPlace(d, 0)
    d.go_on(loads, 1)
    switch.up(0, False)
    d.lost.add(0)
    wait_for("another one that decides", lambda: deciders(d), 15)
    d.wait_promoted(0)
    switch.up(0, True)
    d.ends_cut_off(0, [key.reader, loads[0]], 20)
    d.judge(loads, ANSWERED_MS)
    key.nothing_old()
    d.end()


@linked(4)
def two_of_four_hear_two_and_all_are_lost(d, switch):
    """Nobody has a majority: nothing is served, and all say so in the end."""
    d.run("fill", "k", 50, 100)
    for i in (0, 1):
        for j in (2, 3):
            switch.between(i, j, False)
    d.ends_lost("no majority|lost|cut off", 40)
    check(deciders(d) == [], "nodes %r decide" % deciders(d))


def three_nodes_two_are_lost_at_once():
    with Replicated(nodes=3) as d:
        d.run("fill", "k", 50, 100)
        d.lost.add(1)
        d.lose(0)
        d.lose(1)
        d.ends_lost("no majority|lost", 40)


def four_nodes_two_below_are_lost_at_once():
    """All keys are there, but no map without the two can count."""
    with Replicated(nodes=4) as d:
        d.run("fill", "k", 50, 100)
        pids = d.pids_of(1) + d.pids_of(3)
        d.lost.update((1, 3))
        d.signal(pids, signal.SIGSTOP)
        d.signal(pids, signal.SIGKILL)
        d.ends_lost("no majority|lost", 40)


def two_nodes_node_0_is_lost_and_so_is_all():
    with Replicated(nodes=2) as d:
        d.run("fill", "k", 50, 100)
        d.lose(0)
        d.ends_lost("lost")


if __name__ == "__main__":
    main([three_nodes_node_0_is_lost_under_load, four_nodes_node_0_is_lost_under_load, its_ddictd_alone_is_killed,
          four_nodes_lose_the_second_one_that_decides_too, a_shadow_dies_with_it, it_stands_still_and_serves_nothing_when_it_goes_on,
          it_stands_still_for_2_s_and_goes_on_deciding, it_is_cut_off_and_reads_nothing_old, two_of_four_hear_two_and_all_are_lost, three_nodes_two_are_lost_at_once,
          four_nodes_two_below_are_lost_at_once,
          two_nodes_node_0_is_lost_and_so_is_all], limit=180, at_once=3)
