#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wire-up by stdio (STARTUP 2): real ddictds, and this test as their starter. Invariants: with any number of nodes all are ready; strangers do no harm; where
a node cannot be reached, is gone, stopped or deceived, the start ends with a sentence that says which node and why, on every node, and in time.
"""
import base64
import os
import signal
import socket
import struct
import time

from cluster import Dictionary, Failed, check, gather_line, main, wait_for

SECRET = os.urandom(32)
PORT = 22  # of a node info: the port of its ddictd


def changed(card, at, value):
    """A card with other bytes."""
    info = bytearray(base64.b64decode(card))
    info[at:at + len(value)] = value
    return base64.b64encode(info).decode()


def port_of(card):
    return struct.unpack_from("<H", base64.b64decode(card), PORT)[0]


def with_port(card, port):
    return changed(card, PORT, struct.pack("<H", port))


def start(nodes, **how):
    return Dictionary(nodes=nodes, managers=nodes, mem=nodes * (8 << 20), ready=False, **how)


def same_secret(d, i):
    return gather_line(d.cards, secret=SECRET)


def error_of(d, i, *words):
    """Node i says one error line with these words, and ends with 1."""
    check(d.nodes[i].wait(20) == 1, "node %d: exit code" % i)
    errors = [line[13:] for line in d.nodes[i].lines if line.startswith("ddict1 error ")]
    check(len(errors) == 1, "node %d: %r" % (i, d.nodes[i].lines))
    check(all(w in errors[0] for w in words), "node %d: %r without one of %r" % (i, errors[0], words))
    return errors[0]


def in_time(began, seconds):
    check(time.monotonic() - began < 4 * seconds, "it took %g s" % (time.monotonic() - began))


def any_number_of_nodes_is_ready():
    for n in (2, 3, 17, 18):  # 17: the last one that gets all from node 0
        with start(n, says=same_secret) as d:
            d.wait_ready()
            d.run("self", node=n - 1)
            d.end()


def strangers_do_no_harm():
    held = []

    def knock(d):
        for card in d.cards[:2]:
            for i in range(80):
                s = socket.create_connection(("127.0.0.1", port_of(card)), 10)
                if i % 2:
                    s.sendall(os.urandom(300))
                held.append(s)

    with start(20, says=same_secret, meanwhile=knock) as d:
        d.wait_ready()
        d.end()
    for s in held:
        s.close()


def a_node_with_another_secret_is_refused():
    began = time.monotonic()
    with start(3, says=lambda d, i: gather_line(d.cards, secret=os.urandom(32) if i == 2 else SECRET)) as d:
        error_of(d, 2, "node %s can not be reached from node %s: " % (d.node_name(0), d.node_name(2)))
        text = error_of(d, 0, "1 of 3 nodes did not connect to node %s within 8 s" % d.node_name(0), "the ddictd with node id 2", "ports=")
        check(text in error_of(d, 1), "node 1 says why")
    in_time(began, 15)


def a_forged_node_info_ends_the_start():
    """Node 0 gets another one than the starter did."""
    def says(d, i):
        return gather_line([*d.cards[:2], with_port(d.cards[2], 1)], secret=SECRET)

    with start(3, says=says) as d:
        for i in range(3):
            error_of(d, i, "the node infos that the nodes gave node %s are not those" % d.node_name(0), "start again")


def a_node_that_is_given_others_ends_the_start():
    """Its digest is not that of node 0: below node 0, and two steps below it."""
    for wrong in (2, 18):
        def says(d, i):
            return gather_line(d.cards, digest=os.urandom(32) if i == wrong else None, secret=SECRET)

        with start(19, says=says) as d:
            above = d.node_name((wrong - 1) // 16)
            error_of(d, wrong, "the node infos that node %s gave node %s are not those" % (above, d.node_name(wrong)))


def a_node_0_that_cannot_be_reached_is_said():
    with socket.socket() as closed:
        closed.bind(("0.0.0.0", 0))

        def says(d, i):
            return gather_line([with_port(d.cards[0], closed.getsockname()[1]), *d.cards[1:]] if i else d.cards, secret=SECRET)

        with start(2, says=says) as d:
            error_of(d, 1, "node %s can not be reached from node %s: Connection refused" % (d.node_name(0), d.node_name(1)))


def a_node_that_is_stopped_is_said():
    """Node 0 misses it; or it is node 0, whose kernel takes connections that nobody answers."""
    for stopped, who in ((1, 0), (0, 1)):
        began = time.monotonic()
        with start(2, says=same_secret, meanwhile=lambda d: d.nodes[stopped].proc.send_signal(signal.SIGSTOP)) as d:
            if who == 0:
                error_of(d, 0, "1 of 2 nodes did not connect to node %s" % d.node_name(0), "node id 1")
            else:
                error_of(d, 1, "node %s can not be reached from node %s: no answer within 7 s. Are the ports of ddictd (ports=) closed"
                         % (d.node_name(0), d.node_name(1)))
        in_time(began, 15)


def the_end_of_stdin_ends_the_start():
    """While node 1 keeps all waiting, for up to 400 s: of node 0, and of a node that waits for its word, with a line before."""
    for who in (0, 2):
        with start(3, says=same_secret, meanwhile=lambda d: d.nodes[1].proc.send_signal(signal.SIGSTOP), args=("--ready-ms", "500000")) as d:
            began = time.monotonic()
            if who == 2:
                d.nodes[who].write("drain\n")
            d.nodes[who].close_stdin()
            error_of(d, who, "node %s: stdin ended before all nodes knew each other" % d.node_name(who))
            in_time(began, 5)


def a_node_that_dies_meanwhile_is_said():
    """While node 2 keeps all waiting: an inner node, then node 0."""
    for dies in (1, 0):
        with start(18, says=same_secret, meanwhile=lambda d: d.nodes[2].proc.send_signal(signal.SIGSTOP)) as d:
            ports = "%04X" % port_of(d.cards[0])

            def all_are_there():
                with open("/proc/net/tcp") as f4, open("/proc/net/tcp6") as f6:
                    rows = [line.split() for line in [*f4, *f6]]
                return sum(r[1].endswith(":" + ports) and r[3] == "01" for r in rows) >= 16

            wait_for("16 connections to node 0", all_are_there)
            time.sleep(0.2)  # and their node infos
            d.nodes[dies].proc.kill()
            for i in (3, 17):
                error_of(d, i, "node %s is lost: its ddictd ended during the start" % d.node_name(dies))


def an_error_of_a_node_is_said_by_all():
    """Of node 0, of a node with others below it, of one without."""
    for bad in (0, 1, 17):
        via = [("sh", "-c", 'exec "$@" --transport ofi:nosuch', "sh") if i == bad else () for i in range(18)]
        with start(18, says=same_secret, via=via) as d:
            for i in range(18):
                error_of(d, i, "transport=ofi:nosuch", *(["node %s: " % d.node_name(bad)] if i != bad else []))


def a_line_that_is_wrong_is_said():
    for line, words in (("cards a b\n", "a line `gather` was expected"), ("gather a b c\n", "malformed"), ("gather %s\n" % base64.b64encode(SECRET).decode(), "malformed"),
                        (gather_line(["rubbish"]), "not base64"), (gather_line([base64.b64encode(b"rubbish").decode()]), "malformed")):
        with start(2, says=lambda d, i: line) as d:
            for i in range(2):
                error_of(d, i, words)


main([any_number_of_nodes_is_ready, strangers_do_no_harm, a_node_with_another_secret_is_refused, a_forged_node_info_ends_the_start,
      a_node_that_is_given_others_ends_the_start, a_node_0_that_cannot_be_reached_is_said, a_node_that_is_stopped_is_said, the_end_of_stdin_ends_the_start,
      a_node_that_dies_meanwhile_is_said, an_error_of_a_node_is_said_by_all, a_line_that_is_wrong_is_said], limit=240, at_once=3)
