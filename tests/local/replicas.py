#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--replicas=2: a node is lost, and the others have all that was acknowledged (PROTOCOL 13).

A node is a ddictd with its managers and shadows; its loss is the SIGKILL of all of them, and of its clients, at once. Loads (replicas_client.c) judge each answer: a change that is lost or happens twice is seen
by who made it, and what a killed one had acknowledged is in its file.

    DDICT_TEST_REPLICAS=1 tests/local/replicas.py      without replicas: what rests on them must fail
"""
import json
import os
import re
import signal
import subprocess
import tempfile
import time

import cluster
from cluster import BUILD, Disk, check, main, memory_cgroup, owners_of, shadows_of, wait_for
from losses import ANSWERED_MS, EFROZEN, ENOKEY, ETIMEDOUT, WAIT_S, InPlace, Replicated, keys_of, linked

MIB = 1 << 20


# --- without a loss ---
def all_calls_work_with_two_copies():
    for nodes in (2, 3):
        with Replicated(nodes=nodes) as d:
            for i in range(nodes):
                d.run("self", node=i, seconds=120)
            loads = d.loads(each=1, most=300000)
            d.go_on(loads, 1.5)
            d.stop_loads(loads)
            d.verify(loads)
            d.end()


# --- a node is lost ---
def loss(nodes, who, most=4096, each=2, managers=None, **kw):
    with Replicated(nodes=nodes, managers=managers, **kw) as d:
        loads = d.loads(each, most)
        d.go_on(loads, 1.5)
        d.lose(who)
        d.go_on(loads, WAIT_S + 1)
        d.wait_promoted(who)
        d.go_on(loads, 1)
        d.judge(loads)
        check(any("lost" in text and d.node_name(who) in text for text in d.said()), "nobody says that node %d is lost: %r" % (who, d.said()))
        d.end()


def two_nodes_one_is_lost_under_load():
    loss(2, 1)


def three_nodes_one_is_lost_under_load():
    loss(3, 1)


def three_nodes_the_last_is_lost_with_two_managers_each():
    loss(3, 2, managers=6, each=1)


@linked(3)
def a_node_loses_its_power_while_others_ask_it(d, switch):
    """Its link goes first: what it has sent has not arrived, and its clients may not be told that it has."""
    loads = d.loads(2)
    d.go_on(loads, 1)
    switch.up(1, False)
    d.go_on(loads, 0.3)
    d.lose(1)
    d.wait_promoted(1)
    d.go_on(loads, 1)
    d.judge(loads)
    d.end()


def large_values_are_there_after_a_loss():
    loss(3, 1, most=3 * MIB, each=1, mem="512M")


def values_on_disk_are_there_after_a_loss():
    with Disk() as disk:
        if not disk:
            print("# no disk here")
            return
        with Replicated(nodes=2, mem="24M", args=["--spill", disk, "--spill-size", "256M"]) as d:
            d.run("fill", "ballast", 1500, 30000)
            loads = d.loads(1, 60000)
            d.go_on(loads, 1)
            d.lose(1)
            d.wait_promoted(1)
            d.go_on(loads, 1)
            d.stop_loads(loads)
            d.run("verify", "ballast", 1500, 30000)
            d.verify(loads)
            d.end()


def a_value_of_64_mib_survives_its_owner_and_one_on_its_way_arrives():
    with Replicated(nodes=3, mem="1G") as d:
        here, big = d.ask(0), keys_of(d, 1, 2, "big")
        here.does("put", big[0], 7, 64 * MIB)
        here.say("put", big[1], 8, 64 * MIB)
        time.sleep(0.02)  # some of it is on its way; whatever has happened, it is answered
        d.lose(1)
        code, ms, rest = here.answer()
        check(code == 0, "the put that was on its way: %r after %d ms" % (rest, ms))
        other = d.ask(2)
        for a in (here, other):
            a.has(big[0], 7, 64 * MIB)
            a.has(big[1], 8, 64 * MIB, "view")
        d.end()


def calls_that_wait_are_answered_by_who_took_the_place():
    with Replicated(nodes=3) as d:
        keys = keys_of(d, 1, 4, "w")
        waits = []
        for node, verb, key in ((0, "wait", keys[0]), (2, "wait", keys[0]), (0, "popwait", keys[1]), (2, "popwait", keys[1])):
            a = d.ask(node)
            a.say(verb, key)
            waits.append(a)
        time.sleep(0.3)
        d.lose(1)
        a = d.ask(2)
        a.say("put", keys[0], 5)  # in flight when there is no owner
        check(a.answer()[0] == 0, "a put to an owner that is lost")
        for number in (11, 12):
            a.does("push", keys[1], number)
        got = [w.answer() for w in waits]
        check(all(g[0] == 0 for g in got), "answers %r" % got)
        check([g[2] for g in got[:2]] == ["5 8"] * 2 and sorted(g[2] for g in got[2:]) == ["11 8", "12 8"], "answers %r" % got)
        a.does("pop", keys[1], code=ENOKEY)
        d.end()


def a_call_with_a_short_time_ends_in_time():
    with Replicated(nodes=3) as d:
        keys, a = keys_of(d, 1, 2, "t"), d.ask(0)
        a.does("put", keys[0], 1)
        d.lose(1)
        for verb in ("put", "get", "pop"):
            code, ms, _ = a.call(verb, keys[0], 2, ms=300)
            check(code == ETIMEDOUT and ms < 3000, "%s: %d after %d ms" % (verb, code, ms))
        d.wait_promoted(1)
        code, _, rest = a.call("get", keys[0])
        # the pop may be made late, behind the put
        check((code, rest) in ((0, "1 8"), (0, "2 8"), (ENOKEY, rest)), "get: %d %s" % (code, rest))
        a.does("put", keys[0], 3)
        d.end()


def clients_of_a_lost_node_are_told():
    with Replicated(nodes=3) as d:
        load = d.load(1)
        reader = d.ask(1)
        d.go_on([load], 0.5)
        d.lose(1, clients=False)
        text = load.end(code=3)
        check(text.startswith("lost ") and len(text) > 20, "a load was told %r" % text)
        code, ms, text = reader.call("put", "k", 1, ms=10000)
        check(code in (-4005, -4006) and text, "a call: %d %r" % (code, text))
        d.wait_promoted(1)
        d.verify([load])
        d.end()


# --- a node stands still ---
def a_node_that_stands_still_for_2_s_loses_nothing():
    with Replicated(nodes=3) as d:
        loads = d.loads(1)
        d.go_on(loads, 1)
        pids = d.pids_of(1)
        d.signal(pids, signal.SIGSTOP)
        d.go_on(loads, 2)
        d.signal(pids, signal.SIGCONT)
        d.go_on(loads, 3)
        d.stop_loads(loads)
        check({s["pid"] for m, s in d.stats().items() if m == 1} <= set(pids), "another process serves for node 1")
        d.verify(loads)
        d.end()


def a_node_that_stands_still_for_15_s_is_replaced():
    """Its clients stand still, too, and go on when its ddictd and managers have had a turn."""
    with Replicated(nodes=3) as d:
        loads = d.loads(1)
        key = InPlace(d, 1)
        d.go_on(loads, 1)
        mine = [c for c in d.clients if c.node == 1]
        pids = d.pids_of(1)
        d.signal([c.proc.pid for c in mine] + pids, signal.SIGSTOP)
        stopped = time.monotonic()
        d.lost.add(1)
        others = [c for c in loads if c.node != 1]
        d.go_on(others, WAIT_S + 1)
        d.wait_promoted(1)
        d.go_on(others, max(0, 15 - (time.monotonic() - stopped)))
        d.signal(pids, signal.SIGCONT)
        time.sleep(0.1)
        d.signal([c.proc.pid for c in mine], signal.SIGCONT)
        for c in mine:
            if c.args[0] in ("load", "read"):
                text = c.end(code=3)
                check(re.search("cut off|took its place|took their place", text), "a client of node 1 was told %r" % text)
        line = d.nodes[1].line("error", 10)
        check(re.search("cut off|took its place|took their place", line), "its ddictd said %r" % line)
        check(d.nodes[1].wait(15) != 0, "exit code")
        d.judge(loads)
        key.nothing_old()
        d.end()


@linked(3)
def a_node_that_is_cut_off_reads_nothing_old(d, switch):
    """All of it goes on, but for its link; who reads in place there sees what others write, or waits, or is told."""
    loads = d.loads(1)
    key = InPlace(d, 1)
    d.go_on(loads, 1)
    switch.up(1, False)
    d.lost.add(1)
    others = [c for c in loads if c.node != 1]
    d.go_on(others, WAIT_S + 4)
    d.wait_promoted(1)
    d.go_on(others, 3)
    switch.up(1, True)
    d.ends_cut_off(1, [c for c in d.clients if c.node == 1 and c.args[0] in ("load", "read")])
    d.judge(loads)
    key.nothing_old()
    d.end()


@linked(3)
def a_node_that_is_cut_off_from_node_0_alone_ends_alone(d, switch):
    """It asks the other one to write the record: that one still hears node 0, and tells it."""
    d.run("fill", "k", 100, 100)
    switch.between(0, 2, False)
    d.lost.add(2)
    d.nodes[2].line("error", 20)
    code = d.nodes[2].wait(30)
    check(code != 0, "exit code %d" % code)
    time.sleep(3)
    for i in (0, 1):
        check(d.nodes[i].proc.poll() is None, "node %d ended: %s" % (i, d.nodes[i].stderr()))
        d.run("verify", "k", 100, 100, node=i)
    check("writes the record" not in d.nodes[2].stderr(), "node 2: %s" % d.nodes[2].stderr())
    d.end()


@linked(3)
def a_link_that_is_cut_for_2_s_loses_nothing(d, switch):
    loads = d.loads(1)
    d.go_on(loads, 1)
    switch.up(1, False)
    d.go_on(loads, 2)
    switch.up(1, True)
    d.go_on(loads, 4)
    d.stop_loads(loads)
    d.verify(loads)
    d.end()


def still_beside_clients(managers):
    """ddictd of node 1 stands still, with its managers or alone, so nobody there says that the lease is over; clients go on."""
    with Replicated(nodes=3) as d:
        key = InPlace(d, 1)
        time.sleep(1)
        pids = d.pids_of(1) if managers else [d.nodes[1].proc.pid]
        d.pids_of(1)
        d.signal(pids, signal.SIGSTOP)
        d.lost.add(1)
        d.wait_promoted(1)
        time.sleep(3)
        d.signal(pids, signal.SIGCONT)
        text = key.reader.end(code=3)
        check("cut off" in text, "a client of node 1 was told %r" % text)
        check("cut off" in d.nodes[1].line("error", 10), "its ddictd")
        check(d.nodes[1].wait(15) != 0, "exit code")
        key.nothing_old()
        d.end()


def a_ddictd_that_stands_still_alone_is_replaced_and_its_clients_read_nothing_old():
    still_beside_clients(False)


def a_ddictd_and_managers_that_stand_still_beside_clients_leave_nothing_old():
    still_beside_clients(True)


# --- parts of it die ---
def writes_go_on_when_the_backup_was_dropped():
    """Of manager 0 the shadow is on node 1."""
    with Replicated(nodes=2) as d:
        keys, a = keys_of(d, 0, 2, "b"), d.ask(0)
        a.does("put", keys[0], 1)
        d.lose(1)
        code, ms, rest = a.call("put", keys[0], 2)
        check(code == 0 and ms < ANSWERED_MS, "a put: %d after %d ms %s" % (code, ms, rest))
        for n in range(100):
            code, ms, rest = a.call("put", keys[1], n)
            check(code == 0 and ms < 2000, "a later put: %d after %d ms %s" % (code, ms, rest))
        a.has(keys[0], 2)
        d.end()


def a_shadow_that_is_killed_comes_back_and_is_not_dropped():
    with Replicated(nodes=3) as d:
        loads = d.loads(1)
        d.go_on(loads, 1)
        for round in range(3):
            for i in (0, 2, 1):
                shadows = shadows_of(d.nodes[i].proc.pid)
                check(len(shadows) == 1, "node %d has shadows %r" % (i, shadows))
                d.signal(shadows, signal.SIGKILL)
                wait_for("the next life of a shadow", lambda: len(shadows_of(d.nodes[i].proc.pid)) == 1 and shadows_of(d.nodes[i].proc.pid) != shadows)
                d.go_on(loads, 0.3)
        longest = d.stop_loads(loads)
        check(longest < 3000, "a call took %d ms" % longest)
        print("# the longest call took %d ms" % longest)
        more = d.loads(1)
        d.go_on(more, 0.5)
        d.lose(1)  # what was written meanwhile is in the shadows
        d.wait_promoted(1)
        d.stop_loads(more)
        d.verify(loads + more)
        d.end()


def managers_that_are_killed_under_load_and_then_their_node():
    with Replicated(nodes=3) as d:
        loads = d.loads(1, 20000)
        d.go_on(loads, 0.5)
        for round in range(4):
            for m in (1, 0, 2):
                d.signal([d.manager_pid(m)], signal.SIGKILL)
                d.go_on(loads, 0.4)
        d.go_on(loads, 1)
        d.lose(1)
        d.wait_promoted(1)
        d.go_on(loads, 1)
        d.judge(loads)
        d.end()


def who_took_the_place_is_killed_and_comes_back():
    with Replicated(nodes=3) as d:
        loads = d.loads(1)
        d.go_on(loads, 0.5)
        d.lose(1)
        d.wait_promoted(1)
        for round in range(3):
            d.signal([d.manager_pid(1)], signal.SIGKILL)
            d.go_on(loads, 0.5)
        d.judge(loads)
        d.end()


# --- a new second copy ---
def ends_well(d, loads):
    d.go_on(loads, 0.5)
    d.judge(loads)
    d.end()


def four_nodes_lose_one_after_the_other():
    with Replicated(nodes=4) as d:
        d.run("fill", "k", 400, 20000)
        loads = d.loads(1)
        d.go_on(loads, 0.5)
        for i in (1, 2):
            d.lose(i)
            d.wait_whole(i)
            d.go_on(loads, 0.5)
            d.run("verify", "k", 400, 20000)
        d.lose(3)
        d.wait_promoted(3)
        d.run("verify", "k", 400, 20000)
        said = [text for text in d.said() if "second copy again, on node" in text]
        check(len(said) >= 5 and all(re.search(r"after \d+ s$", text) for text in said), "%r" % said)
        ends_well(d, loads)


def two_managers_each_and_a_node_without_keys():
    """The copies of a lost node go to the node that has none, first."""
    with Replicated(nodes=4, managers=6, args=["--keyed-nodes", "3"], mem="144M") as d:
        d.run("fill", "k", 300, 20000)
        loads = d.loads(1)
        d.go_on(loads, 0.5)
        d.lose(1)
        d.wait_whole(1)
        check(len(shadows_of(d.nodes[3].proc.pid)) >= 2, "the node without keys has shadows: %r" % shadows_of(d.nodes[3].proc.pid))
        d.lose(2)
        d.wait_whole(2)
        d.run("verify", "k", 300, 20000)
        ends_well(d, loads)


def begun(d, loads):
    """Node 1 is lost, and a shadow in place of one there is stopped before it has all."""
    d.run("fill", "k", 400, 20000)
    d.go_on(loads, 0.5)
    d.lose(1)
    return d.filled()


def a_new_shadow_that_is_killed_while_it_is_filled():
    for lives in ("16", "0"):
        with Replicated(nodes=4, args=["--restarts", lives]) as d:
            loads = d.loads(1)
            node, owner, pid = begun(d, loads)
            os.kill(pid, signal.SIGKILL)
            d.wait_whole(1)
            d.lose(2)
            d.wait_promoted(2)
            d.run("verify", "k", 400, 20000)
            ends_well(d, loads)


def the_node_of_a_new_shadow_is_lost_while_it_is_filled():
    """It is on the node without keys, so nothing else is lost with that."""
    with Replicated(nodes=4, managers=3, args=["--keyed-nodes", "3"], mem="72M") as d:
        loads = d.loads(1)
        node, owner, pid = begun(d, loads)
        check(node == 3 and owner in (0, 1), "of owner %d on node %d" % (owner, node))
        copies = {m: s["copies"] for m, s in d.stats(d.left()[0]).items()}
        check(copies.get(owner) == 1 and copies.get(3, 0) == 0, "copies of owner %d: %r" % (owner, copies))
        said = subprocess.run([os.path.join(BUILD, "ddict"), "stats"], env=d.env(d.left()[0]), stdout=subprocess.PIPE, text=True, timeout=60).stdout
        check("manager %d: its keys have no whole second copy" % owner in said, "ddict stats: %r" % said)
        d.lose(3)
        wait_for("two copies of all keys: %r" % d.copies(), lambda: d.copies().get(0) and d.copies().get(1), 30, pace=0.05)
        d.lose(2)
        wait_for("promotion", lambda: d.copies().get(2) is False and d.copies().get(1) is False, 20, pace=0.05)
        d.run("verify", "k", 400, 20000)
        ends_well(d, loads)


def a_node_without_keys_is_lost_and_nobody_waits_for_it():
    """Calls to all managers leave it out; `ddict stats` says that it is lost."""
    command = os.path.join(BUILD, "ddict")
    with Replicated(nodes=4, managers=3, args=["--keyed-nodes", "3"], mem="72M") as d:
        d.run("fill", "k", 50, 100)
        asked = d.ask(1)
        watch = [subprocess.Popen([command, "watch", "--count=1", "--timeout=30"], env=d.env(1), stdout=subprocess.PIPE, text=True)]
        d.run("verify", "k", 50, 100, node=3)
        d.lose(3)
        wait_for("the loss", lambda: any("node %s is lost" % d.node_name(3) in text for text in d.said()), 20)
        wait_for("that it is known on node 1", lambda: "(lost)" in subprocess.run([command, "stats"], env=d.env(1), stdout=subprocess.PIPE, text=True, timeout=60).stdout, 20)
        watch.append(subprocess.Popen([command, "watch", "--count=1", "--timeout=30"], env=d.env(1), stdout=subprocess.PIPE, text=True))
        for words in (("stats", "--json"), ("ls", "-a")):
            p = subprocess.run([command, *words], env=d.env(1), stdout=subprocess.PIPE, text=True, timeout=10)
            check(p.returncode == 0 and len(p.stdout.splitlines()) >= 1, "ddict %r: %d, %r" % (words, p.returncode, p.stdout))
        code, ms, rest = asked.call("len", ms=8000)
        check(code == 50, "%d keys after %d ms" % (code, ms))
        asked.does("clear", ms=8000)
        asked.does("put", "one", 1)
        for w in watch:
            check(w.wait(30) == 0, "ddict watch: %d" % w.returncode)
        asked.proc.stdin.close()
        asked.proc.wait(30)
        d.end()


def a_primary_is_killed_while_its_new_backup_is_filled():
    with Replicated(nodes=4) as d:
        loads = d.loads(1)
        node, owner, pid = begun(d, loads)
        d.signal([d.manager_pid(owner)], signal.SIGKILL)
        d.go_on(loads, 0.3)
        os.kill(pid, signal.SIGCONT)
        d.wait_whole(1)
        d.lose(2)
        d.wait_promoted(2)
        d.run("verify", "k", 400, 20000)
        ends_well(d, loads)


def a_backup_that_is_lost_for_good_is_made_again():
    """On two nodes: on the same one."""
    with Replicated(nodes=2, args=["--restarts", "0"]) as d:
        d.run("fill", "k", 400, 20000)
        check([s["copies"] for s in d.stats().values()] == [2, 2], "copies: %r" % d.stats())
        loads = d.loads(1)
        d.go_on(loads, 0.5)
        d.signal(shadows_of(d.nodes[1].proc.pid), signal.SIGKILL)
        wait_for("two copies", lambda: d.copies().get(0), 20)
        d.lose(1)
        d.wait_promoted(1)
        d.run("verify", "k", 400, 20000)
        ends_well(d, loads)


def a_node_without_room_gets_no_new_shadow():
    found = memory_cgroup()
    if found is None or os.getuid() != 0 or subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        print("# not run: no cgroup of memory, or no mount namespace of our own")
        return
    folder, v2 = found
    limit = "memory.max" if v2 else "memory.limit_in_bytes"
    used = "memory.current" if v2 else "memory.usage_in_bytes"
    script = "mount -t tmpfs none $0 && cd $0 && : >memory.stat && echo %d >%s && echo 0 >%s && cd / && exec \"$@\"" % (60 * MIB, limit, used)
    small = ["unshare", "-m", "sh", "-c", script, folder]
    with Replicated(nodes=4, via=[[], [], small, []]) as d:
        with open("/proc/%d/root%s/%s" % (d.nodes[2].proc.pid, folder, used), "w") as f:
            f.write("%d\n" % (48 * MIB))  # as if both of its arenas were filled
        d.run("fill", "k", 400, 20000)
        d.lose(1)
        d.wait_whole(1)
        said = [t for t in d.said() if "can be made on node %s" % d.node_name(2) in t]
        check(len(said) == 1 and re.search(r"the shadow of manager 0 on node \S+ wants 24.0 MiB of memory, and others there up to .* more, but .* can be had", said[0]), "%r" % said)
        check(len(shadows_of(d.nodes[2].proc.pid)) == 1, "shadows of node 2")
        d.lose(3)
        d.wait_promoted(3)
        d.run("verify", "k", 400, 20000)
        d.end()


def dies_too_often(d, pid_of):
    """Twice, where --restarts is 1."""
    pid = pid_of()
    os.kill(pid, signal.SIGKILL)
    second = wait_for("a next life", lambda: pid_of() not in (None, pid) and pid_of(), 10)
    d.pids.add(second)
    os.kill(second, signal.SIGKILL)


def a_manager_that_dies_too_often_takes_its_node_along():
    with Replicated(nodes=4, args=["--restarts", "1"]) as d:
        d.run("fill", "k", 400, 20000)
        loads = d.loads(1)
        d.go_on(loads, 0.5)
        dies_too_often(d, lambda: next(iter(cluster.managers_of(d.nodes[1].proc.pid)), None))
        check(d.nodes[1].wait(20) == 1, "exit code")
        line = d.nodes[1].line("error", 1)
        check(re.search(r"manager 1 on node \S+ died \(signal 9\), 1 times before within 10 s: the others go on without node", line), line)
        d.lost.add(1)
        text = loads[1].end(code=3)
        check("the others go on without node" in text, "its client was told %r" % text)
        d.wait_whole(1)
        d.run("verify", "k", 400, 20000)
        ends_well(d, loads)


def who_took_the_place_dies_too_often_and_another_takes_it():
    with Replicated(nodes=4, args=["--restarts", "1"]) as d:
        d.run("fill", "k", 400, 20000)
        loads = d.loads(1)
        d.go_on(loads, 0.5)
        d.lose(1)
        d.wait_whole(1)
        before = d.manager_pid(1)
        dies_too_often(d, lambda: dict(owners_of(d.nodes[2].proc.pid)).get(1))
        wait_for("two copies of all keys", lambda: any("the shadow of manager 1 on node" in t and "are served by" in t for t in d.said()) and all(d.copies().values()), 30, pace=0.05)
        d.pids.update(p for k in d.left() for p in d.pids_of(k))
        check(d.manager_pid(1) != before and d.manager_pid(1) not in d.pids_of(2), "who serves manager 1")
        d.run("verify", "k", 400, 20000)
        ends_well(d, loads)


def a_frozen_dictionary_gets_new_copies():
    """And what took a place there is frozen, too."""
    with Replicated(nodes=4) as d:
        d.run("fill", "k", 400, 20000)
        a = d.ask(0)
        a.does("freeze")
        for i in (1, 2):
            d.lose(i)
            d.wait_whole(i)
            d.run("verify", "k", 400, 20000)
        key = keys_of(d, 1, 1)[0]
        check(a.call("put", key, 1)[0] == EFROZEN, "a put while it is frozen")
        a.does("unfreeze")
        a.does("put", key, 1)
        d.run("verify", "k", 400, 20000, node=3)
        d.end()


# --- what is too much ---
def a_loss_before_the_next_copy_is_whole_ends_it():
    with Replicated(nodes=4) as d:
        loads = d.loads(1)
        d.go_on(loads, 0.5)
        d.lose(1)
        d.lose(2)
        texts = [c.end(code=3) for c in loads if c.node in d.left()]
        check(all(t.startswith("lost ") for t in texts), "told %r" % texts)
        d.ends_lost(r"lost")
        print("# said: %s" % d.nodes[0].line("error", 1))


def a_loss_of_node_0_ends_two_nodes():
    with Replicated(nodes=2) as d:
        d.run("fill", "k", 50, 100)
        d.lose(0)
        d.ends_lost("lost")


# --- the whole dictionary ---
def a_frozen_dictionary_outlives_a_loss():
    with Replicated(nodes=3) as d:
        d.run("fill", "k", 200, 1000)
        a = d.ask(0)
        a.does("freeze")
        d.lose(1)
        d.wait_promoted(1)
        check(a.call("frozen")[0] == 1, "it is not frozen any more")
        for i in d.left():
            d.run("verify", "k", 200, 1000, node=i)
        for key in keys_of(d, 1, 2, "f") + keys_of(d, 0, 2, "f"):
            a.does("put", key, 1, code=EFROZEN)
        a.does("unfreeze")
        for key in keys_of(d, 1, 2, "f") + keys_of(d, 0, 2, "f"):
            a.does("put", key, 1)
        a.does("freeze")
        a.does("put", "k-0", 1, code=EFROZEN)
        a.does("unfreeze")
        d.end()


def clear_and_keys_work_after_a_loss():
    with Replicated(nodes=3) as d:
        d.run("fill", "k", 300, 100)
        d.lose(1)
        d.wait_promoted(1)
        for i in d.left():
            check(len(d.run("keys", node=i).split()) == 300, "keys of node %d" % i)
        a = d.ask(2)
        check(a.call("len")[0] == 300, "len")
        a.does("clear")
        check(a.call("len")[0] == 0, "len after a clear")
        d.run("fill", "k", 300, 100, node=2)
        d.run("self", seconds=120)
        d.end()


def figures_and_record_know_of_the_loss():
    with Replicated(nodes=3) as d:
        d.run("fill", "k", 60, 100)
        before = sum(s["num_keys"] for s in d.stats().values())
        check(before == 60, "%d keys" % before)
        d.lose(1)
        d.wait_promoted(1)
        stats = d.stats(2)
        check(sorted(stats) == [0, 1, 2] and sum(s["num_keys"] for s in stats.values()) == 60, "figures %r" % stats)
        check(stats[1]["pid"] in d.pids_of(2) and stats[1]["node"] == d.node_name(2), "manager 1 is said to be %r" % stats[1])
        report = d.end()
        check(any("node %s is lost" % d.node_name(1) in text and "goes on without it" in text for text in d.said()), "lines %r" % d.said())
        check(any("keys of manager 1 are served by node %s" % d.node_name(2) in text for text in d.said()), "lines %r" % d.said())
        keys = {m["manager_id"]: m.get("num_keys") for m in report["managers"]}
        check(sorted(keys) == [0, 1, 2] and sum(n or 0 for n in keys.values()) == 60, "a report of %r" % report["managers"])


def hidden_directed_and_tagged_keys_outlive_a_loss():
    """The backup counts hidden keys apart as its primary did, and serves what was directed to it."""
    command = lambda node, *words: subprocess.run([os.path.join(BUILD, "ddict"), *words], env=d.env(node), stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    with Replicated(nodes=3) as d:
        d.run("fill", "k", 60, 100)
        directed = ["\\x00ddict.at/\\x01\\x00\\x00\\x00key%d" % i for i in range(4)]
        for i, key in enumerate(directed):
            command(i % 3, "put", "--raw-key", key, "at 1")
            command(i % 3, "put", "{tag}/%d" % i, "tagged")
            command(i % 3, "put", "ddict.x%d" % i, "hidden")
        managers = {k["manager"] for k in json.loads(command(0, "ls", "--json", "--prefix={tag}"))}
        check(len(managers) == 1, "a tag is on managers %r" % managers)
        at_one = d.stats()[1]["hidden_keys"]
        check(at_one >= 4 and sum(s["hidden_keys"] for s in d.stats().values()) == 8, "%r hidden keys" % at_one)
        d.lose(1)
        d.wait_promoted(1)
        for node in d.left():
            for i, key in enumerate(directed):
                check(command(node, "get", "--raw-key", key) == "at 1", "a directed key on node %d" % node)
                check(command(node, "get", "{tag}/%d" % i) == "tagged" and command(node, "get", "ddict.x%d" % i) == "hidden", "keys on node %d" % node)
            check((len(command(node, "ls").splitlines()), len(command(node, "ls", "-a").splitlines())) == (64, 72), "keys of node %d" % node)
        stats = d.stats(2)
        check(stats[1]["hidden_keys"] == at_one and sum(s["num_keys"] for s in stats.values()) == 72, "figures %r" % stats)
        check(d.ask(2).call("len")[0] == 64, "len")
        d.end()


def the_record_and_report_tell_of_the_loss_once():
    with tempfile.TemporaryDirectory(prefix="ddict-replicas-", dir=BUILD) as folder:
        log = os.path.join(folder, "log")
        with Replicated(nodes=3, args=["--record", log]) as d:
            d.run("fill", "k", 60, 100)
            d.lose(1)
            d.wait_whole(1)
            d.end()
        lines = [json.loads(x) for x in open(log)]
        events = [x["event"] for x in lines]
        check(events == ["start", "node_lost", "copies", "copies", "copies", "copies", "job_end"], "%r" % events)
        check(lines[0]["replicas"] == 2 and lines[1]["node"] == d.node_name(1) and lines[1]["count"] == 1, "%r" % lines[:2])
        moved = {x["manager"]: x["node"] for x in lines if x["event"] == "copies"}
        check(moved == {0: d.node_name(0), 1: d.node_name(2)}, "%r" % moved)
        out = subprocess.run([os.path.join(BUILD, "ddict"), "report", log], stdout=subprocess.PIPE, check=True, text=True).stdout
        check(out.count("goes on without it") == 1 and out.count("without a second copy") == 1 and out.count("have a second copy again") == 2, out)


if __name__ == "__main__":
    main([all_calls_work_with_two_copies,  two_nodes_one_is_lost_under_load, three_nodes_one_is_lost_under_load,
          three_nodes_the_last_is_lost_with_two_managers_each, a_node_loses_its_power_while_others_ask_it, large_values_are_there_after_a_loss, values_on_disk_are_there_after_a_loss,
          a_value_of_64_mib_survives_its_owner_and_one_on_its_way_arrives, calls_that_wait_are_answered_by_who_took_the_place, a_call_with_a_short_time_ends_in_time, clients_of_a_lost_node_are_told,
          a_node_that_stands_still_for_2_s_loses_nothing, a_node_that_stands_still_for_15_s_is_replaced, a_link_that_is_cut_for_2_s_loses_nothing, a_node_that_is_cut_off_reads_nothing_old,
          a_node_that_is_cut_off_from_node_0_alone_ends_alone, a_ddictd_that_stands_still_alone_is_replaced_and_its_clients_read_nothing_old,
          a_ddictd_and_managers_that_stand_still_beside_clients_leave_nothing_old,
          writes_go_on_when_the_backup_was_dropped, a_shadow_that_is_killed_comes_back_and_is_not_dropped, managers_that_are_killed_under_load_and_then_their_node,
          who_took_the_place_is_killed_and_comes_back,
          four_nodes_lose_one_after_the_other, two_managers_each_and_a_node_without_keys, a_new_shadow_that_is_killed_while_it_is_filled,
          the_node_of_a_new_shadow_is_lost_while_it_is_filled, a_node_without_keys_is_lost_and_nobody_waits_for_it, a_primary_is_killed_while_its_new_backup_is_filled, a_backup_that_is_lost_for_good_is_made_again,
          a_node_without_room_gets_no_new_shadow, a_manager_that_dies_too_often_takes_its_node_along,
          who_took_the_place_dies_too_often_and_another_takes_it, a_frozen_dictionary_gets_new_copies, a_loss_before_the_next_copy_is_whole_ends_it, a_loss_of_node_0_ends_two_nodes, a_frozen_dictionary_outlives_a_loss, clear_and_keys_work_after_a_loss,
          figures_and_record_know_of_the_loss, hidden_directed_and_tagged_keys_outlive_a_loss, the_record_and_report_tell_of_the_loss_once], limit=180, at_once=3)
