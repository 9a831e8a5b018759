#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several connections between two managers: how many there are, that they are one peer, and what the loss of one of them does.

Invariants: nothing but large values opens more than the first; when one ends everything under way to that peer is answered with an error, where nothing is asked
again (--restarts 0), and the next request finds a peer that is whole again.
"""
import os

from cluster import Dictionary, check, main, wait_for

LARGE, SMALL = 300000, 3000


def established(pid):
    """TCP connections that a process has, their ends on this host counted one by one."""
    inodes = set()
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            inodes.add(os.readlink("/proc/%d/fd/%s" % (pid, fd))[8:-1])
        except OSError:
            pass
    n = 0
    for name in ("tcp", "tcp6"):
        with open("/proc/%d/net/%s" % (pid, name)) as f:
            n += sum(w[3] == "01" and w[9] in inodes for w in (line.split() for line in list(f)[1:]))
    return n


def used(connections, want):
    env = {}
    if connections is not None:
        env["DDICT_CONNECTIONS"] = str(connections)
    with Dictionary(nodes=2, managers=2, env=env) as d:
        asking, owner = d.nodes[0].managers[0], d.nodes[1].managers[0]
        d.run("fill", "s", 50, SMALL)
        d.run("verify", "s", 50, SMALL)
        check(established(asking) == 1 and established(owner) == 1, "small values: %d and %d" % (established(asking), established(owner)))
        d.run("fill", "l", 20, LARGE)
        wait_for("%d connections" % want, lambda: established(asking) == want and established(owner) == want)
        for how in ("verify", "view"):
            d.run(how, "l", 20, LARGE)
            d.run(how, "l", 20, LARGE, node=1)
        d.run("fill", "l", 20, LARGE, node=1)
        d.run("verify", "l", 20, LARGE)
        wait_for("those of both directions", lambda: established(asking) == established(owner) == 2 * want)
        check("can not be opened" not in d.nodes[0].stderr() + d.nodes[1].stderr(), "stderr: %s" % d.nodes[0].stderr())
        d.end()


def large_values_have_connections_of_their_own():
    used(None, 3)


def one_connection_is_enough():
    used(1, 1)


def many_connections_are_one_peer():
    used(9, 9)


def numbers_that_make_no_sense_are_refused():
    for wrong in ("0", "17", "many"):
        d = Dictionary(env={"DDICT_CONNECTIONS": wrong}, ready=False)
        with d:
            code = d.nodes[0].wait()
            line = d.nodes[0].line("error")
            check(code != 0 and "DDICT_CONNECTIONS=%s: want a number from 1 to 16" % wrong in line, "%d: %s" % (code, line))


def the_loss_of_one_is_the_loss_of_the_peer():
    for nth in (1, 2, 4):  # a header, a piece, that of another value
        with Dictionary(nodes=2, managers=2, args=("--restarts", "0"), env={"DDICT_TEST_CUT": str(nth), "DDICT_TEST_MANAGER": "1"}) as d:
            d.run("fill", "s", 50, SMALL)
            before = d.stats()
            out = d.run("fill", "l", 200, LARGE, code=1)
            check("is lost" in out, "client: %r" % out)
            wait_for("no connection", lambda: "is lost" in d.nodes[0].stderr())
            d.run("verify", "s", 50, SMALL)
            d.run("fill", "l", 20, LARGE)
            d.run("verify", "l", 20, LARGE)
            wait_for("all connections", lambda: established(d.nodes[0].managers[0]) == 3)
            check(d.stats()[1]["num_keys"] >= before[1]["num_keys"], "keys are gone")
            d.end()


main([large_values_have_connections_of_their_own, one_connection_is_enough, many_connections_are_one_peer, numbers_that_make_no_sense_are_refused,
      the_loss_of_one_is_the_loss_of_the_peer])
