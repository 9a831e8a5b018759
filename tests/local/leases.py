#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--replicas=2: a node whose lease is over (PROTOCOL 13). Its ddictd is not answered, because that of node 0 stands still; its managers and clients run.

Whatever its clients ask waits, also what they read in place; no call takes longer than its time, and all goes on when node 0 does.
"""
import signal
import time

from cluster import check, main, wait_for
from losses import ETIMEDOUT, Replicated, keys_of

SUSPENDED = "serves nothing until it does"


class Held:
    """Node 0's ddictd stands still, and node 1 knows."""

    def __init__(self, d):
        self.d, self.said = d, d.nodes[1].stderr().count(SUSPENDED)

    def __enter__(self):
        self.d.signal([self.d.nodes[0].proc.pid], signal.SIGSTOP)
        wait_for("the end of the lease", lambda: self.d.nodes[1].stderr().count(SUSPENDED) > self.said, 6)
        return self

    def __exit__(self, *a):
        self.d.signal([self.d.nodes[0].proc.pid], signal.SIGCONT)


def a_dictionary_that_becomes_ready_has_its_leases():
    with Replicated(nodes=3) as d:
        time.sleep(2.5)
        for i in (1, 2):
            check(SUSPENDED not in d.nodes[i].stderr(), "node %d: %s" % (i, d.nodes[i].stderr()))
        d.end()


def all_calls_keep_their_time_meanwhile():
    with Replicated(nodes=2) as d:
        key = keys_of(d, 1, 1)[0]
        a = d.ask(1)
        a.does("put", key, 5)
        a.has(key, 5)
        a.has(key, 5, verb="view")
        with Held(d):
            for verb in ("get", "view", "has", "len", "put", "get"):
                code, ms, rest = a.call(verb, key, 5, ms=400)
                check(code == ETIMEDOUT and 300 < ms < 3000, "%s: %r after %r ms: %s" % (verb, code, ms, rest))
        a.has(key, 5)
        a.does("put", key, 6)
        a.has(key, 6, verb="view")
        d.end()


def a_read_waits_and_is_answered():
    with Replicated(nodes=2) as d:
        key = keys_of(d, 1, 1)[0]
        asks = [d.ask(1) for _ in range(4)]
        asks[0].does("put", key, 5)
        with Held(d):
            for a, verb in zip(asks, ("get", "view", "has", "len")):
                a.say(verb, key)
            time.sleep(0.5)
        got = [a.answer() for a in asks]
        check([g[0] for g in got] == [0, 0, 1, 1], "answers %r" % got)
        check(all(g[1] > 400 for g in got), "answers %r" % got)
        check(got[0][2] == got[1][2] == "5 8", "answers %r" % got)
        d.end()


def an_end_that_begins_meanwhile_is_not_a_lease():
    """DRAINING does not clear the bit, and what is stored is read only when the lease is back."""
    with Replicated(nodes=2, drain_ms=20000) as d:
        key = keys_of(d, 1, 1)[0]
        a = d.ask(1)
        a.does("put", key, 5)
        with Held(d):
            d.nodes[1].proc.send_signal(signal.SIGTERM)
            time.sleep(0.5)  # it may begin to drain, or not: there is nobody to tell
            code, ms, rest = a.call("get", key, ms=400)
            check(code == ETIMEDOUT, "get: %r after %r ms: %s" % (code, ms, rest))
        a.has(key, 5)
        d.end()


if __name__ == "__main__":
    main([a_dictionary_that_becomes_ready_has_its_leases, all_calls_keep_their_time_meanwhile, a_read_waits_and_is_answered, an_end_that_begins_meanwhile_is_not_a_lease], at_once=3)
