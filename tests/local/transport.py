#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Messages between managers by libfabric, on its tcp provider: the same tests as by TCP give the same results, what is in use is said, and what is not there is an error and not something else."""
import json
import os
import subprocess
import sys
import tempfile

from cluster import Dictionary, Failed, check, main

HERE = os.path.dirname(os.path.realpath(__file__))
OFI = ("--transport", "ofi:tcp")


def again(script, *tests):
    """Tests of another file, with all dictionaries of several nodes on libfabric."""
    p = subprocess.run([sys.executable, os.path.join(HERE, script), *tests], env=dict(os.environ, DDICT_TEST_TRANSPORT="ofi:tcp"), stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)
    check(p.returncode == 0, p.stdout)
    check(p.stdout.count("\nok ") == len(tests), p.stdout)


def requests_are_answered_the_same():
    again("basics.py", "three_nodes_with_five_managers_answer_every_request")


def values_of_all_sizes_are_whole():
    with Dictionary(nodes=2, managers=2, mem="256M", args=OFI) as d:
        for size in (0, 1, 4096, 131008, 131009, (5 << 20) + 3, 32 << 20):
            d.run("fill", "v%d" % size, 2, size, node=0)
            d.run("verify", "v%d" % size, 2, size, node=1)
            d.run("view", "v%d" % size, 2, size, node=0)
        check(all(m["retired_bytes"] == 0 for m in d.stats().values()), "retired bytes are left: %r" % d.stats())
        d.end()


def idle_managers_are_idle():
    again("basics.py", "idle_managers_use_no_cpu")


def clients_that_die_or_take_nothing_stop_nobody():
    again("failures.py", "a_client_that_takes_no_answers_stops_nobody", "a_writer_killed_in_a_stream_leaks_nothing")


def the_death_of_a_manager_or_node_is_noticed_as_by_tcp():
    again("failures.py", "a_manager_killed_ends_all_nodes_with_its_name", "ddictd_killed_takes_its_managers_along",
          "nonsense_over_tcp_is_refused_and_counted")


def start_line(folder, args):
    """The record's `start` of a dictionary of two nodes, and the transports in its figures."""
    log = os.path.join(folder, "record")
    with Dictionary(nodes=2, managers=2, args=("--log", log, *args)) as d:
        d.run("fill", "k", 100, 1000)
        d.run("verify", "k", 100, 1000, node=1)
        now = {s["transport"] for s in d.stats().values()}
        report = d.end()
    with open(log) as f:
        lines = {line["event"]: line for line in map(json.loads, filter(str.strip, f))}
    check({m["transport"] for m in lines["job_end"]["managers"]} == now, "job_end: %r" % lines["job_end"])
    check(report["total"]["transport"] in now, "report: %r" % report["total"])
    os.unlink(log)
    return lines["start"], now


def what_is_in_use_is_said_and_why():
    devices = [name for kind in ("infiniband", "cxi") if os.path.isdir("/sys/class/" + kind) for name in os.listdir("/sys/class/" + kind)]
    with tempfile.TemporaryDirectory() as folder:
        start, now = start_line(folder, OFI)
        check(start["transport"].startswith("ofi:tcp") and now == {start["transport"]} and start["transport_why"] == "asked for", "%r %r" % (start, now))
        start, now = start_line(folder, ("--transport", "tcp"))
        check(start["transport"] == "tcp" and now == {"tcp"} and start["transport_why"] == "asked for", "%r %r" % (start, now))
        if not devices:
            start, now = start_line(folder, ())
            check(start["transport"] == "tcp" and now == {"tcp"} and "no device of an HPC network" in start["transport_why"], "%r %r" % (start, now))


def what_is_not_there_is_an_error_before_ready():
    for which, words in (("ofi:nosuch", ("ofi:nosuch", "no provider nosuch", "there are:", "tcp")), ("ofi:shm", ("ofi:shm", "descriptor"))):
        with Dictionary(nodes=2, managers=2, args=("--transport", which), ready=False) as d:
            line = d.nodes[0].line("error")
            check(all(w in line for w in words), line)
            for node in d.nodes:
                check(node.wait() == 1, "node %s ended well" % node.name)
    with Dictionary(nodes=1, args=("--transport", "pigeon"), ready=False) as d:
        check("--transport=pigeon" in d.nodes[0].line("error"), d.nodes[0].lines)
        d.nodes[0].wait()


def nodes_that_differ_do_not_start():
    """One that has not what the other has: only the word of it can be had here, so node 1 has another path to the library."""
    with Dictionary(nodes=2, managers=2, args=OFI, node_env={1: {"FI_PROVIDER": "shm"}}, ready=False) as d:
        line = d.nodes[0].line("error")
        check(d.node_name(1) in line and "no provider tcp" in line, line)
        for node in d.nodes:
            check(node.wait() == 1, "node %s ended well" % node.name)


def built_in():
    with Dictionary(nodes=1, args=OFI, ready=False) as d:
        try:
            d.nodes[0].line("ready", 10)
        except Failed:
            said = " ".join(d.nodes[0].lines)
            if "no libfabric" in said or "cannot be opened" in said:
                print("skipped:", said)
                return False
            raise
        d.end()
    return True


if not built_in():
    sys.exit(77)
main([requests_are_answered_the_same, values_of_all_sizes_are_whole, idle_managers_are_idle, clients_that_die_or_take_nothing_stop_nobody,
      the_death_of_a_manager_or_node_is_noticed_as_by_tcp, what_is_in_use_is_said_and_why, what_is_not_there_is_an_error_before_ready, nodes_that_differ_do_not_start], 300)
