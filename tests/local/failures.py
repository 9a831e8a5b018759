#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What dies, and who goes on.

A client that dies or goes wrong at any moment leaves nothing behind and disturbs nobody: the managers' figures are the same before and after.
A ddictd that dies, or a manager that is not started again, ends the dictionary on all nodes within two seconds (four on a busy machine), with a sentence that names it.
"""
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import time

from cluster import BUILD, TRANSPORT, Dictionary, alive, check, children, main, managers_of, memory_cgroup, wait_for


def figures(d):
    """What must be the same before and after."""
    names = ("num_keys", "total_used_bytes", "retired_bytes", "leased_bytes", "clients_now")
    return {i: {n: s[n] for n in names} for i, s in d.stats().items()}


def same_figures(d, before, growth=0):
    """growth: bytes by which the page map may have grown."""
    def same():
        now = figures(d)
        for i, b in before.items():
            if b["total_used_bytes"] <= now[i]["total_used_bytes"] <= b["total_used_bytes"] + growth:
                now[i]["total_used_bytes"] = b["total_used_bytes"]
        return now == before
    wait_for("figures as before: %r, now %r" % (before, figures(d)), same, 5)


def kill(p, line):
    check(p.stdout.readline() == line + "\n", "probe did not say " + line)
    p.kill()
    p.wait()


def ready(p, line):
    check(p.stdout.readline().startswith(line), "probe did not say " + line)


def done(p, seconds=60):
    """Tell it to end."""
    return p.communicate(timeout=seconds)[0]


def ended(p, seconds=60):
    """It ends by itself."""
    p.wait(seconds)
    return p.communicate()[0]


def warm(d):
    """Used bytes hold what the index and the page map have grown to: let them grow first."""
    for n in range(2):
        d.run("fill", "warm%d" % n, 2, 20 << 20)
    d.run("fill", "warm", 200, 100)
    d.run("clear")


# --- clients ---
def a_reader_killed_in_its_views_200_times_leaks_nothing():
    with Dictionary(managers=2) as d:
        d.run("fill", "k", 300, 1000)
        before = figures(d)
        for n in range(200):
            p = d.probe("hold", "k", 300)
            ready(p, "holding")
            if n % 20 == 0:
                d.run("fill", "k", 300, 1000)  # its views are of replaced values now
            p.kill()
            p.wait()
        same_figures(d, before)
        d.run("verify", "k", 300, 1000)
        d.end()


def a_reader_of_remote_views_killed_leaks_nothing():
    with Dictionary(nodes=2, managers=2, mem="128M") as d:
        d.run("fill", "k", 100, 20000)
        before = figures(d)
        for n in range(40):
            kill(d.probe("hold", "k", 100, node=n % 2), "holding")
        same_figures(d, before)
        d.end()


def a_writer_killed_in_a_stream_leaks_nothing():
    with Dictionary(nodes=2, managers=2, mem="256M") as d:
        warm(d)
        before = figures(d)
        for n in range(20):
            kill(d.probe("half", "k%d" % n, 20 << 20, node=n % 2), "half")
        same_figures(d, before)
        d.run("self")
        d.end()


def a_client_that_takes_no_answers_stops_nobody():
    with Dictionary(nodes=2, managers=2, mem="400M") as d:
        for n in range(4):
            d.run("fill", "big%d" % n, 1, 40 << 20)
        before = figures(d)
        slow = [d.probe("greedy", "big%d-0" % (n % 4), 20 + 500 * (n > 3), node=n % 2) for n in range(8)]
        for p in slow:
            ready(p, "asked")
        began = time.monotonic()
        for n in range(4):
            d.run("verify", "big%d" % n, 1, 40 << 20, node=n % 2)
        d.run("fill", "k", 500, 1000, node=1)
        d.run("verify", "k", 500, 1000, node=0)
        check(time.monotonic() - began < 60, "others were slow: %.1f s" % (time.monotonic() - began))
        for p in slow:
            p.kill()
            p.wait()
        d.run("clear")
        for n in range(4):
            d.run("fill", "big%d" % n, 1, 40 << 20)
        same_figures(d, before)
        d.end()


def a_waiting_client_killed_leaves_no_waiter():
    with Dictionary(nodes=2, managers=2, mem="200M") as d:
        warm(d)
        before = figures(d)
        for n in range(10):
            kill(d.probe("wait", "w-%d" % n, 60000, node=n % 2), "waiting")
        d.run("fill", "w", 10, 10)
        d.run("verify", "w", 10, 10)
        d.run("clear")
        same_figures(d, before)
        d.end()


def nonsense_in_a_lane_drops_that_client_only():
    with Dictionary(nodes=2, managers=4) as d:
        d.run("fill", "k", 50, 1000)
        before = {i: s["num_keys"] for i, s in d.stats().items()}
        stay = d.probe("stay")
        ready(stay, "attached")
        for seed in range(42):
            p = d.probe("hostile", seed, node=seed % 2)
            done(p, 20)
        d.run("verify", "k", 50, 1000, node=1)
        check(stay.poll() is None, "another client was dropped")
        done(stay)
        after = d.stats()
        check({i: s["num_keys"] for i, s in after.items()} == before or all(after[i]["num_keys"] - n <= 20 for i, n in before.items()), "keys %r" % after)
        check(all(s["clients_now"] <= 1 for s in after.values()), "clients are left: %r" % after)
        d.end()


def listening_ports(pids):
    inodes = set()
    for pid in pids:
        for fd in os.listdir("/proc/%d/fd" % pid):
            try:
                link = os.readlink("/proc/%d/fd/%s" % (pid, fd))
            except OSError:
                continue
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
    ports = set()
    for name in ("tcp", "tcp6"):
        with open("/proc/net/" + name) as f:
            for line in list(f)[1:]:
                w = line.split()
                if w[3] == "0A" and w[9] in inodes:
                    ports.add(int(w[1].split(":")[1], 16))
    return ports


def nonsense_over_tcp_is_refused_and_counted():
    with Dictionary(nodes=2, managers=2) as d:
        d.run("fill", "k", 100, 1000)
        ports = listening_ports(d.pids)
        ofi = 2 if TRANSPORT else 0  # libfabric's own, not on this address
        check(len(ports) == 4 + ofi, "ports %r" % ports)  # two managers, two ddictds
        rng = random.Random(1)
        for n in range(30):
            for port in ports:
                try:
                    s = socket.create_connection(("127.0.0.1", port), 5)
                except ConnectionRefusedError:
                    check(ofi, "port %d does not listen" % port)
                    continue
                s.settimeout(8)
                s.sendall(rng.randbytes(rng.choice((1, 63, 64, 128, 4096, 100000))) if n % 3 else b"")
                if n % 3:
                    s.close()
                else:
                    s.shutdown(socket.SHUT_WR)
                    try:
                        check(s.recv(1) == b"", "an answer to nothing")
                    except ConnectionResetError:
                        pass
                    s.close()
        d.run("verify", "k", 100, 1000, node=1)
        wait_for("refusals to be counted", lambda: all(s["refused_connections"] > 0 for s in d.stats().values()), 10)
        d.end()


def streams_that_stand_still_are_given_up():
    """After 30 s: the half of a put, and the value that is sent to who does not take it. The clients stay attached."""
    with Dictionary(nodes=2, managers=2, mem="256M") as d:
        warm(d)
        for n in range(2):
            d.run("fill", "big%d" % n, 1, 10 << 20)
        slow = [d.probe("greedy", "big%d-0" % n, 3, node=m) for n in range(2) for m in range(2)]
        half = [d.probe("half", "h%d" % n, 20 << 20, node=m) for n in range(2) for m in range(2)]
        for p in slow:
            ready(p, "asked")
        for p in half:
            ready(p, "half")
        d.run("clear")
        held = figures(d)
        check(sum(f["retired_bytes"] for f in held.values()) >= 20 << 20, "the values are not held: %r" % held)
        check(sum(f["total_used_bytes"] for f in held.values()) >= 100 << 20, "the blocks are not reserved: %r" % held)
        wait_for("streams to be given up: %r" % held, lambda: all(f["retired_bytes"] == 0 and f["total_used_bytes"] < 1 << 20 for f in figures(d).values()), 45)
        check(all(p.poll() is None for p in slow + half), "a client was sent away")
        for p in slow + half:
            p.communicate()
        d.end()


def views_of_a_forked_child_outlive_their_parent():
    for nodes in (1, 2):
        with Dictionary(nodes=nodes, managers=2, mem="128M") as d:
            d.run("fill", "k", 200, 20000)
            d.run("verify", "k", 200, 20000)
            before = figures(d)
            for end in ("quit", "kill"):
                p = d.probe("forked", "k", 200, 20000)
                pid = int(p.stdout.readline().split()[1])
                p.wait(60)
                for n in range(5):
                    d.run("fill", "other", 300, 20000)
                    d.run("fill", "k", 200, 20000)
                d.run("clear")
                held = sum(s["leased_bytes"] for s in d.stats().values())
                check(held >= 200 * 20000 * (1 if nodes == 1 else 0.9), "%d bytes are held" % held)
                p.stdin.write("x\n")
                p.stdin.flush()
                said = p.stdout.readline()
                check(said == "same\n", said)
                if end == "kill":
                    os.kill(pid, signal.SIGKILL)
                p.communicate()
                wait_for("the child to end", lambda: not alive(pid))
                d.run("fill", "k", 200, 20000)
                same_figures(d, before, 65536)
            d.end()


def a_hold_page_that_could_shrink_is_not_taken():
    with Dictionary() as d:
        d.run("fill", "k", 5, 100)
        check("no HELD" in d.run("forked_unsealed", "k", 5, 100, code=1), "it was taken")
        d.run("verify", "k", 5, 100)
        d.end()


# --- managers and ddictd ---
FOR_GOOD = ("--restarts", "0")  # a manager that dies is not started again


def lost(d, sentence, reporter=0, gone=()):
    """All nodes say LOST and end with 1, before a node could be missed by its silence (DD_PEER_LOST_MS)."""
    began = time.monotonic()
    for i, node in enumerate(d.nodes):
        code = node.wait(5)
        check(code == (-9 if i in gone else 1), "node %d: exit code %d" % (i, code))
    check(time.monotonic() - began < 8, "it took %.1f s" % (time.monotonic() - began))
    if reporter not in gone:
        line = d.nodes[reporter].line("error", 1)
        check(sentence in line, "error line: %r" % line)


def a_manager_killed_ends_all_nodes_with_its_name():
    for victim in (0, 1, 4):
        with Dictionary(nodes=3, managers=5, mem="100M", args=FOR_GOOD) as d:
            d.run("fill", "k", 100, 1000)
            stay = [d.probe("stay", node=n) for n in range(3)]
            for p in stay:
                ready(p, "attached")
            pid = d.manager_pid(victim)
            os.kill(pid, signal.SIGKILL)
            name = "manager %d on node %s died (signal 9)" % (victim, d.node_name(victim % 3))
            for p in stay:
                out = ended(p)
                check(out == "status 5 %s\n" % name, "client saw %r" % out)
            lost(d, name)
            report = d.report()
            # Its counters outlive it.
            check(not any("lost" in m for m in report["managers"]), "report: %r" % report["managers"])
            check(sum(m["puts"] for m in report["managers"]) == 100 and report["managers"][victim]["puts"] > 0, "report: %r" % report)
            check(report["total"]["num_keys"] == 100 and report["total"]["lost_managers"] == 0, "report: %r" % report["total"])
            d.check_nothing_left()


def a_manager_that_ends_by_a_fault_says_where():
    with Dictionary(nodes=2, managers=2, args=FOR_GOOD) as d:
        os.kill(d.manager_pid(1), signal.SIGSEGV)
        lost(d, "manager 1 on node %s died (signal 11" % d.node_name(1))
        said = d.nodes[1].stderr()
        check("ddict: manager 1 on %s: ends by SIGSEGV, which was sent to it\n" % d.node_name(1) in said or "AddressSanitizer" in said, "said %r" % said)
        check(re.search(r"^\S*ddictd\(.*\) ?\[0x[0-9a-f]+\]$", said, re.M) or "AddressSanitizer" in said, "said %r" % said)
        d.check_nothing_left()


def a_fault_whose_core_was_dumped_says_so():
    with tempfile.TemporaryDirectory(prefix="ddict-core-", dir=BUILD) as folder:
        via = ["env", "-C", folder, "prlimit", "--core=unlimited"]
        pid = os.posix_spawnp("env", [*via, "sh", "-c", "kill -SEGV $$"], os.environ)
        if not os.WCOREDUMP(os.waitpid(pid, 0)[1]):
            print("# no core is dumped here")
            return
        with Dictionary(mem="16M", via=[via], args=["--restarts", "0"]) as d:
            os.kill(d.manager_pid(0), signal.SIGSEGV)
            lost(d, "manager 0 on node %s died (" % d.node_name(0))
            line = d.nodes[0].line("error", 1)
            check("died (signal 11, core dumped; the managers' log says where)" in line or "AddressSanitizer" in d.nodes[0].stderr(), line)
            d.check_nothing_left()


def restarts_said(node):
    while node.read(0):
        pass
    return [line for line in node.lines if "was started again" in line]


def a_third_death_within_10_s_ends_it():
    with Dictionary(nodes=2, managers=2) as d:
        d.run("fill", "k", 100, 1000)
        first = time.monotonic()
        for n in range(3):
            check(d.nodes[1].proc.poll() is None, "it has ended at death %d" % n)
            os.kill(d.manager_pid(1), signal.SIGKILL)
            if n < 2:
                wait_for("life %d" % (n + 2), lambda: len(restarts_said(d.nodes[1])) > n)
                d.run("verify", "k", 100, 1000)
        if time.monotonic() - first > 9:
            print("# this machine is too slow for three deaths in 10 s")
            return
        lost(d, "manager 1 on node %s died (signal 9), 2 times before within 10 s" % d.node_name(1))
        check(d.report()["total"]["restarts"] == 2, "%r" % d.report()["total"])
        d.check_nothing_left()


class Cgroup:
    """What ddictd and its managers see instead of their cgroup's folder, in a mount namespace of their own: the kernel has killed nobody there, but for whom we say."""

    def __init__(self, folder, v2):
        self.folder, self.counter, self.killed = folder, "memory.events" if v2 else "memory.oom_control", 0
        files = ["memory.max 1099511627776", "memory.current 0", "memory.events oom_kill 0"] if v2 else ["memory.limit_in_bytes 1099511627776", "memory.usage_in_bytes 0", "memory.oom_control oom_kill 0"]
        script = "mount -t tmpfs none $0 && cd $0 && : >memory.stat" + "".join(" && echo %s >%s" % tuple(reversed(f.split(" ", 1))) for f in files) + ' && cd / && exec "$@"'
        self.prefix = ["unshare", "-m", "sh", "-c", script, folder]

    def kill(self, d, m, memory):
        """A manager of the first node dies; memory: as if the kernel had ended it for want of that."""
        self.killed += memory
        with open("/proc/%d/root%s/%s" % (d.nodes[0].proc.pid, self.folder, self.counter), "w") as f:
            f.write("oom_kill %d\n" % self.killed)
        os.kill(d.manager_pid(m), signal.SIGKILL)


def managers_for_which_there_was_no_memory_come_back_until_they_die_too_often():
    found = memory_cgroup()
    if found is None or os.getuid() != 0 or subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        print("# not run: no cgroup of memory, or no mount namespace of our own")
        return
    group = Cgroup(*found)
    with Dictionary(managers=2, via=[group.prefix]) as d:
        node, sentence = d.nodes[0], "manager 0 on node %s was killed because memory ran out" % d.node_name(0)
        d.run("fill", "k", 100, 1000)
        first = time.monotonic()
        for n, (manager, memory) in enumerate(((0, True), (1, False), (0, True))):  # a kill that is none of the kernel's is not taken for one
            group.kill(d, manager, memory)
            how = sentence if memory else "manager 1 on node %s died (signal 9)" % d.node_name(0)
            wait_for("line %d" % n, lambda: len(restarts_said(node)) > n)
            check(restarts_said(node)[n].startswith("ddict1 warn %s and was started again within " % how), "%r" % restarts_said(node))
            d.run("verify", "k", 100, 1000)
        node.managers = managers_of(node.proc.pid)
        d.pids.update(node.managers)
        group.kill(d, 0, True)
        if time.monotonic() - first > 9:
            print("# this machine is too slow for three deaths in 10 s")
            return
        line = node.line("error")
        check(line.startswith("error cause=memory %s: the memory limit of cgroup " % sentence), line)
        check(node.wait(10) == 1, "exit code")


def a_put_that_kills_its_manager_is_an_error_not_a_hang():
    with Dictionary(nodes=2, managers=2, args=FOR_GOOD, env={"DDICT_TEST_DIE_AFTER_PUTS": "50", "DDICT_TEST_MANAGER": "1"}) as d:
        p = d.probe("fill", "k", 1000, 100)
        out = ended(p)
        check(p.returncode == 1 and ("status 5" in out or "lost" in out), "client: %r" % out)
        lost(d, "manager 1 on node %s died (signal 9)" % d.node_name(1))


def the_switches_of_the_tests_do_what_they_say():
    os.environ["PROBE_MS"] = "400"
    try:
        with Dictionary(env={"DDICT_TEST_DROP": "GET:1"}) as d:
            d.run("fill", "k", 1, 10)
            check("GET: no answer within 400 ms" in d.run("verify", "k", 1, 10, code=1), "nothing was dropped")
            d.run("verify", "k", 1, 10)
            d.end()
        with Dictionary(env={"DDICT_TEST_DELAY": "PUT:150"}) as d:
            began = time.monotonic()
            d.run("fill", "k", 4, 10)
            check(time.monotonic() - began > 0.6, "no delay")
            d.end()
        with Dictionary(managers=2, env={"DDICT_TEST_DELAY": "GET:60000", "DDICT_TEST_MANAGER": "1"}) as d:
            out = d.run("fill", "k", 20, 10) + d.run("verify", "k", 20, 10, code=1)
            check("no answer" in out, "manager 1 answered")
    finally:
        del os.environ["PROBE_MS"]


def ddictd_killed_takes_its_managers_along():
    for victim in (0, 1):
        with Dictionary(nodes=3, managers=3, mem="60M") as d:
            d.run("fill", "k", 30, 1000)
            managers = d.nodes[victim].managers
            stay = d.probe("stay", node=2)
            ready(stay, "attached")
            d.nodes[victim].proc.kill()
            wait_for("managers to die", lambda: not any(alive(p) for p in managers), 2)
            out = ended(stay)
            check(out == "status 5 node %s is lost: its ddictd ended\n" % d.node_name(victim), "client saw %r" % out)
            lost(d, "node %s is lost" % d.node_name(victim), reporter=0 if victim else 1, gone=(victim,))


def a_silent_node_is_found_out():
    with Dictionary(nodes=2, managers=2) as d:
        d.nodes[1].proc.send_signal(signal.SIGSTOP)
        line = d.nodes[0].line("error", 20)
        check("silent for 10 s" in line, line)
        check(d.nodes[0].wait(5) == 1, "exit code")
        d.nodes[1].proc.send_signal(signal.SIGCONT)
        check(d.nodes[1].wait(5) == 1, "exit code of the one that was stopped")


def a_stopped_manager_does_not_stop_the_end():
    with Dictionary(nodes=2, managers=2) as d:
        pid = d.manager_pid(1)
        os.kill(pid, signal.SIGSTOP)
        d.nodes[0].close_stdin()
        for node in d.nodes:
            check(node.wait(10) == 0, "exit code")
        report = d.report()
        check([m["manager_id"] for m in report["managers"]] == [0, 1] and report["total"]["lost_managers"] == 0, "report %r" % report)


main([a_reader_killed_in_its_views_200_times_leaks_nothing, a_reader_of_remote_views_killed_leaks_nothing,
      a_writer_killed_in_a_stream_leaks_nothing, a_client_that_takes_no_answers_stops_nobody, a_waiting_client_killed_leaves_no_waiter,
      streams_that_stand_still_are_given_up, views_of_a_forked_child_outlive_their_parent, a_hold_page_that_could_shrink_is_not_taken, nonsense_in_a_lane_drops_that_client_only, nonsense_over_tcp_is_refused_and_counted, a_manager_killed_ends_all_nodes_with_its_name,
      a_manager_that_ends_by_a_fault_says_where, a_fault_whose_core_was_dumped_says_so, a_third_death_within_10_s_ends_it,
      managers_for_which_there_was_no_memory_come_back_until_they_die_too_often, a_put_that_kills_its_manager_is_an_error_not_a_hang,
      the_switches_of_the_tests_do_what_they_say,
      ddictd_killed_takes_its_managers_along, a_silent_node_is_found_out,
      a_stopped_manager_does_not_stop_the_end], at_once=3)
