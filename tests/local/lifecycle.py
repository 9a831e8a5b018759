#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How a dictionary begins and ends: the lines of the handshake, exit codes, draining, refusals, and what is said when it is full."""
import os
import re
import signal
import subprocess
import time

from cluster import BUILD, DDICTD, Dictionary, check, main, wait_for


def ready(p, line):
    check(p.stdout.readline() == line + "\n", "probe did not say " + line)


def refused(args, sentence, code=1, stdin=subprocess.DEVNULL):
    p = subprocess.run([DDICTD, *args], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    errors = [line for line in p.stdout.splitlines() if line.startswith("ddict1 error ")]
    check(p.returncode == code, "%r: exit code %d" % (args, p.returncode))
    check(len(errors) == 1 and sentence in errors[0], "%r: %r" % (args, p.stdout))


def wrong_options_are_refused_in_one_line():
    name = ["--name", "0.local.x%d" % os.getpid()]
    refused([], "--name is missing")
    refused(name + ["--managers", "0"], "--managers=0")
    refused(name + ["--managers", "99999999"], "--managers=99999999")
    refused(name + ["--managers", "-1"], "--managers=-1")
    refused(name + ["--mem", "16Q"], "--mem=16Q")
    refused(name + ["--mem", "0"], "--mem=0")
    refused(name + ["--managers", "4", "--mem", "8M"], "8.0 MiB is too little for 4 managers")
    refused(name + ["--managers", "300", "--mem", "8G"], "at most 256")
    refused(name + ["--wireup", "smoke"], "--wireup=smoke")
    refused(name + ["--nodes", "2"], "go with --wireup=stdio")
    refused(name + ["--wireup", "stdio", "--nodes", "2", "--node-id", "2"], "there are 2 nodes")
    refused(name + ["--dict-id", "abc"], "--dict-id=abc")
    refused(name + ["extra"], "unexpected argument extra")
    refused(["--name", "a/b"], "--name=a/b")
    refused(["--name", "x" * 64], "at most 63 letters")


def the_lines_come_in_order_and_say_what_is():
    with Dictionary(managers=3, mem="30M", args=("--dict-id", "00112233445566778899aabbccddeeff")) as d:
        d.end()
        lines = [line for line in d.nodes[0].lines if line.startswith("ddict1 ")]
        check(lines[0] == "ddict1 start node=0 step=-", lines[0])
        check(lines[1] == "ddict1 ready id=00112233445566778899aabbccddeeff managers=3 nodes=1 mem=%d" % (10485760 * 3), lines[1])
        check(lines[2].startswith("ddict1 report {"), lines[2])
        check(lines[3].startswith("ddict1 summary 3 managers on 1 node, 30.0 MiB: 0 keys, "), lines[3])
        check(lines[4:] == ["ddict1 end"], "%r" % lines[4:])


def a_second_dictionary_of_the_same_name_is_refused():
    with Dictionary() as d:
        env = dict(os.environ, DDICT_NODE=d.node_name(0))
        p = subprocess.run([DDICTD, "--name", d.name, "--mem", "16M"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10)
        check(p.returncode == 1 and "is on node %s already" % d.node_name(0) in p.stdout, "%d %r" % (p.returncode, p.stdout))
        d.run("self")
        d.end()


def an_error_of_one_node_is_told_by_all():
    with Dictionary() as squatter:
        class Clash(Dictionary):
            def node_name(self, i):
                return squatter.node_name(0) if i == 1 else Dictionary.node_name(self, i)
        # The second node of the new dictionary finds its name taken: same name, same node.
        import cluster
        saved, cluster.random.getrandbits = cluster.random.getrandbits, lambda n: int(squatter.tag.split(".")[1], 16)
        try:
            with Clash(nodes=2, managers=2, ready=False) as d:
                for node in d.nodes:
                    line = node.line("error")
                    check("already" in line, line)
                    check(node.wait(5) == 1, "exit code")
                d.sockets = lambda: []
        finally:
            cluster.random.getrandbits = saved
        squatter.end()


def fewer_managers_than_nodes_are_raised():
    with Dictionary(nodes=3, managers=1, mem="64M") as d:
        check("managers=3 nodes=3" in d.ready, d.ready)
        d.run("self", node=2)
        d.end()


def draining_waits_for_clients_at_most_its_time():
    with Dictionary(nodes=2, managers=2, drain_ms=3000) as d:
        stay = d.probe("stay", node=1)
        ready(stay, "attached")
        began = time.monotonic()
        d.nodes[0].close_stdin()
        time.sleep(0.3)
        p = d.probe("self", node=0)  # no new clients, on no node
        out = p.communicate(timeout=30)[0]
        check(p.returncode == 3 and "refused -4005 the dictionary is ending" in out, "%d %r" % (p.returncode, out))
        p = d.probe("self", node=1)
        out = p.communicate(timeout=30)[0]
        check(p.returncode == 3, "%d %r" % (p.returncode, out))
        check(stay.poll() is None, "the client was sent away early")
        stay.wait(20)
        took = time.monotonic() - began
        check(2.9 < took < 15, "gone after %.2f s" % took)
        check(stay.communicate()[0].startswith("status 4 the dictionary has ended: who started it went without a word"), "status page")
        for node in d.nodes:
            check(node.wait(5) == 0, "exit code")
        check(d.nodes[0].has("end"), "no end")


def draining_ends_when_the_last_client_has_left():
    with Dictionary(nodes=3, managers=3, mem="60M", drain_ms=60000) as d:
        stay = [d.probe("stay", node=n) for n in range(3)]
        for p in stay:
            ready(p, "attached")
        d.nodes[0].write("drain\n")
        for p in stay:
            time.sleep(0.1)
            check(all(n.proc.poll() is None for n in d.nodes), "ended too early")
            p.communicate(timeout=30)
        began = time.monotonic()
        for node in d.nodes:
            check(node.wait(5) == 0, "exit code")
        check(time.monotonic() - began < 30, "it took %.1f s" % (time.monotonic() - began))


def draining_serves_who_is_attached():
    with Dictionary(nodes=2, managers=2, drain_ms=60000) as d:
        p = d.probe("wait", "late-0", 20000)
        q = d.probe("fill", "late", 3000, 1000, node=1)
        ready(p, "waiting")
        # Draining serves who is attached, and no one else: the writer must be in before it begins.
        wait_for("the writer is attached", lambda: q.poll() is not None or d.stats(node=1)[1]["clients_peak"] > 1)
        d.nodes[1].close_stdin()
        check(p.communicate(timeout=20)[0] == "0 \n", "the waiting get")
        check(q.communicate(timeout=20)[0] == "" and q.returncode == 0, "the writer")
        for node in d.nodes:
            check(node.wait(5) == 0, "exit code")


def sigterm_ends_it_at_once_with_exit_code_0():
    for target in (0, 1):
        with Dictionary(nodes=2, managers=2, drain_ms=60000) as d:
            stay = d.probe("stay", node=1 - target)
            ready(stay, "attached")
            began = time.monotonic()
            for sig in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGTSTP):
                d.nodes[target].proc.send_signal(sig)
            time.sleep(0.1)
            check(all(n.proc.poll() is None for n in d.nodes), "a signal that is none of its business ended it")
            for pid in [n.proc.pid for n in d.nodes][target:target + 1] + d.nodes[target].managers:
                os.kill(pid, signal.SIGTERM)  # as Slurm: to every process of the step
            stay.wait(60)
            check(stay.communicate()[0].startswith("status 4"), "status page")
            for node in d.nodes:
                check(node.wait(10) == 0, "exit code, stderr %s" % node.stderr())
            # A node that alone gets it asks node 0, whose own time to drain counts... but not for ever.
            check(time.monotonic() - began < 15, "it took %.1f s" % (time.monotonic() - began))
            check(d.nodes[0].has("report") and d.nodes[0].has("end"), "no report")


def down_from_any_node_ends_all():
    with Dictionary(nodes=2, managers=2, drain_ms=5000) as d:
        d.run("down", node=1)
        for node in d.nodes:
            check(node.wait(4) == 0, "exit code")


def stay_ignores_the_end_of_stdin():
    with Dictionary(nodes=2, managers=2, args=("--stay",)) as d:
        for node in d.nodes:
            node.close_stdin()
        time.sleep(0.3)
        d.run("self", node=1)
        d.run("down")
        for node in d.nodes:
            check(node.wait(4) == 0, "exit code")


def stdin_that_is_dev_null_ends_at_once():
    p = subprocess.run([DDICTD, "--name", "0.local.null%d" % os.getpid(), "--mem", "16M"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10)
    check(p.returncode == 0 and p.stdout.endswith("ddict1 end\n"), "%d %r" % (p.returncode, p.stdout))


def a_full_manager_names_itself_and_keeps_what_it_has():
    with Dictionary(nodes=2, managers=2, mem="32M") as d:
        for size, word in ((1 << 20, "1.0 MiB"), (1000, "1000 B"), (200 << 10, "200")):
            prefix = "f%d" % size
            out = d.run("full", prefix, size).split(None, 1)
            check(out[1].startswith("manager ") and " is full: " in out[1] and " used of 16.0 MiB (value of " in out[1] and "does not fit" in out[1], out[1])
            m = int(out[1].split()[1])
            check(" on %s is full" % d.node_name(m % 2) in out[1], out[1])
            d.run("verify", prefix, int(out[0]), size, node=1)
            check(d.stats()[m]["full_errors"] >= 1, "full_errors")
        d.run("clear")
        d.run("fill", "again", 12, 1 << 20)
        d.run("verify", "again", 12, 1 << 20, node=1)
        d.end()


def free_bytes():
    with open("/proc/meminfo") as f:
        return int(re.search(r"MemTotal: *(\d+) kB", f.read()).group(1)) << 10


def memory_that_is_not_there_is_refused_by_node_and_figures():
    """Here it is that of the machine that does not suffice, or that of our own cgroup."""
    each = 2 * free_bytes() >> 20
    refused(["--name", "0.local.m%d" % os.getpid(), "--managers", "2", "--mem", "%dM" % (2 * each), "--node", "nodeX"], "2 managers on node nodeX want ")
    with Dictionary(nodes=2, managers=3, mem="%dM" % (3 * each), ready=False) as d:
        for node in d.nodes:
            line = node.line("error")
            check(re.search("%s want [0-9.]+ [GT]iB of memory, but [0-9.]+ [KMGT]?i?B can be had until " % d.node_name(0), line) or
                  re.search("1 manager on node %s want " % d.node_name(1), line), line)
            check(node.wait(5) == 1, "exit code")


def a_value_larger_than_a_manager_is_never_stored():
    with Dictionary(managers=1, mem="16M") as d:
        out = d.run("fill", "k", 1, 17 << 20, code=1)
        check("-4013 value of 17.0 MiB can not be stored: manager 0 on %s has 16.0 MiB in all" % d.node_name(0) in out, out)
        d.run("self")
        d.end()


def an_early_client_waits_until_it_is_ready():
    with Dictionary(nodes=2, managers=2, env={"DDICT_TEST_READY_MS": "700"}, ready=False) as d:
        wait_for("the socket", lambda: len(d.sockets()) == 2, 5)
        began = time.monotonic()
        p = d.probe("self", node=0)
        check(p.communicate(timeout=20)[0] == "" and p.returncode == 0, "early client")
        check(time.monotonic() - began > 0.3, "it did not wait")
        d.wait_ready()
        d.end()


def managers_that_are_late_end_the_start():
    with Dictionary(nodes=2, managers=2, node_env={1: {"DDICT_TEST_READY_MS": "60000"}}, ready=False) as d:
        check("not ready within 10 s" in d.nodes[0].line("error", 15), "error")
        for node in d.nodes:
            check(node.wait(5) == 1, "exit code")


def what_is_said_of_the_start_moves_its_deadlines():
    with Dictionary(nodes=2, managers=2, args=("--ready-ms", "2000"), node_env={1: {"DDICT_TEST_READY_MS": "60000"}}, ready=False) as d:
        check("not ready within 2 s" in d.nodes[0].line("error", 8), "error")
        for node in d.nodes:
            check(node.wait(5) == 1, "exit code")
    p = subprocess.run([os.path.join(BUILD, "ddict"), "run", "--local", "--record=none", "--mem=16M", "--start-timeout=11", "--", "true"],
                       env={**os.environ, "DDICT_TEST_READY_MS": "60000"}, capture_output=True, text=True, timeout=60)
    check(p.returncode != 0 and "not ready within 11 s" in p.stderr, p.stderr)


def a_starter_that_goes_away_ends_the_start():
    with Dictionary(nodes=2, managers=2, ready=False, env={"DDICT_TEST_READY_MS": "300"}) as d:
        for node in d.nodes:
            node.close_stdin()
        for node in d.nodes:
            node.wait(10)


main([wrong_options_are_refused_in_one_line, the_lines_come_in_order_and_say_what_is, a_second_dictionary_of_the_same_name_is_refused,
      an_error_of_one_node_is_told_by_all, fewer_managers_than_nodes_are_raised, draining_waits_for_clients_at_most_its_time,
      draining_ends_when_the_last_client_has_left, draining_serves_who_is_attached, sigterm_ends_it_at_once_with_exit_code_0,
      down_from_any_node_ends_all, stay_ignores_the_end_of_stdin, stdin_that_is_dev_null_ends_at_once,
      memory_that_is_not_there_is_refused_by_node_and_figures, a_full_manager_names_itself_and_keeps_what_it_has, a_value_larger_than_a_manager_is_never_stored,
      an_early_client_waits_until_it_is_ready, managers_that_are_late_end_the_start,
      what_is_said_of_the_start_moves_its_deadlines, a_starter_that_goes_away_ends_the_start], at_once=3)
