#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every kind of request, on one node and over three, with every byte checked; the figures afterwards; nothing is left at the end."""
from cluster import Dictionary, check, cpu_ms, main, wait_for
import time


def one_node_answers_every_request():
    with Dictionary(managers=2) as d:
        d.run("self")
        s = d.stats()
        check(sum(m["num_keys"] for m in s.values()) == 0, "keys are left: %r" % s)
        check(all(m["retired_bytes"] == 0 for m in s.values()), "retired bytes are left: %r" % s)
        d.end()


def three_nodes_with_five_managers_answer_every_request():
    with Dictionary(nodes=3, managers=5, mem="160M") as d:
        for node in range(3):
            d.run("self", node=node)
        s = d.stats(node=1)
        check(sorted(s) == [0, 1, 2, 3, 4], "managers %r" % sorted(s))
        check(all(m["node"] == d.node_name(i % 3) for i, m in s.items()), "nodes %r" % s)
        check(sum(m["num_keys"] for m in s.values()) == 0, "keys are left")
        check(all(m["retired_bytes"] == 0 for m in s.values()), "retired bytes are left: %r" % s)
        check(all(m["gets_remote"] > 0 and m["gets_local"] > 0 for m in s.values()), "gets were not counted: %r" % s)
        report = d.end()
        check([m["manager_id"] for m in report["managers"]] == [0, 1, 2, 3, 4], "report %r" % report)
        check(all("lost" not in m for m in report["managers"]), "report has lost managers")
        check(report["total"]["puts"] == sum(m["puts"] for m in s.values()), "total of puts")


def what_three_nodes_put_all_read():
    with Dictionary(nodes=3, managers=5, mem="320M") as d:
        per = 2000
        fills = [d.probe("fill", "k%d" % n, per, 1024, node=n) for n in range(3)]
        for p in fills:
            check(p.communicate(timeout=60)[0] == "" and p.returncode == 0, "fill")
        reads = [d.probe(("verify", "view")[n % 2], "k%d" % n, per, 1024, node=m) for n in range(3) for m in range(3)]
        for p in reads:
            check(p.communicate(timeout=60) == ("", None) and p.returncode == 0, "verify")
        check(int(d.run("len", node=2)) == 3 * per, "len")
        keys = d.run("keys", node=1).split()
        check(sorted(keys) == sorted("k%d-%d" % (n, k) for n in range(3) for k in range(per)), "keys are not exact: %d" % len(keys))
        d.run("clear", node=1)
        check(int(d.run("len")) == 0, "len after clear")
        check(d.run("keys") == "", "keys after clear")
        d.end()


def large_values_stream_between_nodes():
    with Dictionary(nodes=2, managers=2, mem="1600M") as d:
        for size in (0, 1, 4096, 131008, 131009, 1 << 20, (5 << 20) + 3, 256 << 20):
            d.run("fill", "v%d" % size, 2, size, node=0)
            d.run("verify", "v%d" % size, 2, size, node=1)
            d.run("view", "v%d" % size, 2, size, node=1)
            d.run("view", "v%d" % size, 2, size, node=0)
            if size == 256 << 20:
                break
        s = d.stats()
        check(all(m["retired_bytes"] == 0 for m in s.values()), "retired bytes are left: %r" % s)
        d.end()


def keys_of_64_kib_are_keys():
    with Dictionary(nodes=2, managers=2, mem="128M") as d:
        long = "x" * 65500
        d.run("fill", long, 60, 100000)
        d.run("verify", long, 60, 100000, node=1)
        d.run("fill", "y" * 65534, 9, 3)  # 65,536 bytes with -0 .. -8
        d.run("verify", "y" * 65534, 9, 3, node=1)
        for node in range(2):
            keys = d.run("keys", node=node).split()  # more than a reply can hold: they stream
            check(sorted(keys) == sorted(["%s-%d" % (long, n) for n in range(60)] + ["%s-%d" % ("y" * 65534, n) for n in range(9)]), "keys")
        d.run("clear")
        d.end()


def values_are_whole_while_others_change_them():
    with Dictionary(nodes=3, managers=5, mem="400M") as d:
        d.run("churn", 99, 500)
        d.run("clear")
        clients = [d.probe("churn", n, 6000, node=n % 3) for n in range(6)]
        ops = 0
        for p in clients:
            out = p.communicate(timeout=60)[0]
            check(p.returncode == 0, out)
            ops += int(out)
        check(ops > 1000, "only %d requests" % ops)
        d.run("clear")
        # The managers of the other nodes learn of a client's end when their own ddictd has noticed it.
        wait_for("nothing to be left", lambda: all(m["retired_bytes"] == 0 and m["clients_now"] <= 1 and m["num_keys"] == 0 for m in d.stats().values()))
        s = d.stats()
        check(all(m["total_used_bytes"] < 1 << 20 for m in s.values()), "used: %r" % s)
        d.end()


def who_is_woken_is_answered_once():
    with Dictionary(env={"DDICT_TEST_WAKE_MS": "100"}) as d:
        d.run("woken", "k", 100)
        wait_for("pins to be given up", lambda: d.stats()[0]["retired_bytes"] == 0)
        d.end()


def idle_managers_use_no_cpu():
    with Dictionary(nodes=2, managers=4, mem="64M") as d:
        d.run("fill", "k", 100, 1000)
        stay = [d.probe("stay", node=n) for n in range(2)]
        for p in stay:
            check(p.stdout.readline() == "attached\n", "stay")
        time.sleep(0.5)
        for attempt in range(5):  # others may have just gone
            before = {p: cpu_ms(p) for p in d.pids}
            time.sleep(3)
            used = {p: cpu_ms(p) - t for p, t in before.items()}
            if max(used.values()) <= 10:
                break
        check(max(used.values()) <= 10, "ms of processor time in 3 s: %r" % used)
        for p in stay:
            p.communicate(timeout=60)
        d.end()


main([one_node_answers_every_request, three_nodes_with_five_managers_answer_every_request, what_three_nodes_put_all_read,
      large_values_stream_between_nodes, keys_of_64_kib_are_keys, values_are_whole_while_others_change_them,
      who_is_woken_is_answered_once, idle_managers_use_no_cpu])
