#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keys on some of the nodes only: processes of the others do everything, too, and their managers never hold a key."""
from cluster import BUILD, DDICTD, Dictionary, Failed, check, main, wait_for
import json
import os
import subprocess

MIB = 1 << 20


def keyed(n, owners, mem="64M", args=(), **kw):
    """A dictionary on 4 nodes, whose first n have keys."""
    return Dictionary(nodes=4, managers=owners, mem=mem, args=("--keyed-nodes", str(n), *args), **kw)


def ddict(d, node, *words):
    """Run the command `ddict` on a node; its output."""
    p = subprocess.run([os.path.join(BUILD, "ddict"), *words], env=d.env(node), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=60)
    check(p.returncode == 0, "ddict %s on node %d: %s" % (" ".join(words), node, p.stdout.decode(errors="replace")))
    return p.stdout


def check_owners(d, s, n):
    """Keys are on all managers of the first n nodes, and on no other; nothing is held for anybody."""
    for m, figures in s.items():
        check((figures["num_keys"] > 0) == (m % 4 < n), "manager %d has %d keys" % (m, figures["num_keys"]))
        check(figures["node"] == d.node_name(m % 4), "manager %d is on %s" % (m, figures["node"]))
        check(figures["retired_bytes"] == 0, "retired bytes are left on manager %d: %r" % (m, figures))


def nodes_without_keys_answer_every_request():
    with keyed(2, 2) as d:
        check("managers=4 nodes=4 mem=%d" % (64 * MIB) in d.ready, d.ready)
        for node in range(4):
            d.run("self", node=node)
        s = d.stats(node=3)
        check(sorted(s) == [0, 1, 2, 3], "managers %r" % sorted(s))
        check(all(m["num_keys"] == 0 for m in s.values()), "keys are left")
        check(s[2]["puts"] == s[3]["puts"] == 0, "puts: %r" % s)
        report = d.end()
        check([m["manager_id"] for m in report["managers"]] == [0, 1, 2, 3], "report %r" % report)
        check(all("lost" not in m for m in report["managers"]), "report has lost managers")


def what_four_nodes_put_is_on_those_with_keys():
    for n, owners, managers in ((1, 1, 4), (2, 5, 9), (3, 7, 9)):
        with keyed(n, owners, mem="160M") as d:
            per = 500
            for node in range(4):
                d.run("fill", "k%d" % node, per, 1024, node=node)
            for node in range(4):
                for of in range(4):
                    d.run(("verify", "view")[of % 2], "k%d" % of, per, 1024, node=node)
            check(int(d.run("len", node=3)) == 4 * per, "len")
            keys = d.run("keys", node=2).split()
            check(sorted(keys) == sorted("k%d-%d" % (node, k) for node in range(4) for k in range(per)), "%d keys" % len(keys))
            s = wait_for("leases to be given up", lambda: (lambda s: all(m["retired_bytes"] == 0 for m in s.values()) and s)(d.stats(node=3)))
            check(sorted(s) == list(range(managers)), "managers %r" % sorted(s))
            check_owners(d, s, n)
            check(all(m["total_bytes"] <= 160 * MIB // owners for i, m in s.items() if i % 4 < n), "memory: %r" % s)
            d.run("clear", node=3)
            check(int(d.run("len")) == 0, "len after clear")
            d.end()


def values_of_any_size_come_by_a_manager_with_less_memory():
    with keyed(2, 2, mem="400M", args=("--forward-mem", "32M")) as d:
        for size in (0, 1, 4096, 4097, 131008, 131009, MIB, 5 * MIB + 3, 15 * MIB, 17 * MIB, 64 * MIB):
            d.run("fill", "v%d" % size, 2, size, node=3)
            d.run("verify", "v%d" % size, 2, size, node=2)
            d.run("view", "v%d" % size, 2, size, node=2)  # below 16 MiB in its arena, else streamed
            d.run("view", "v%d" % size, 2, size, node=0)
            d.run("clear", node=2)
        s = wait_for("leases to be given up", lambda: (lambda s: all(m["retired_bytes"] == 0 for m in s.values()) and s)(d.stats(node=3)))
        check(all(m["full_errors"] == 0 for m in s.values()), "refused: %r" % s)
        d.end()


def values_are_whole_while_others_change_them():
    with keyed(1, 2, mem="400M") as d:
        clients = [d.probe("churn", n, 2000, node=n % 4) for n in range(4)]
        for p in clients:
            out = p.communicate(timeout=60)[0]
            check(p.returncode == 0, out)
        d.run("clear", node=3)
        wait_for("nothing to be left", lambda: all(m["retired_bytes"] == 0 and m["clients_now"] <= 1 and m["num_keys"] == 0 for m in d.stats().values()))
        d.end()


def a_frozen_dictionary_is_kept_on_nodes_without_keys():
    with keyed(1, 2) as d:
        per = 200
        d.run("fill", "k", per, 10000, node=2)
        ddict(d, 3, "freeze")
        for _ in range(2):
            d.run("verify", "k", per, 10000, node=3)
            d.run("view", "k", per, 10000, node=3)
        s = d.stats(node=3)
        kept = {m: figures["cached_items"] for m, figures in s.items()}
        check(kept == {0: 0, 1: 0, 2: 0, 3: per, 4: 0}, "kept: %r" % kept)
        ddict(d, 2, "unfreeze")
        d.run("fill", "k", per, 10000, node=2)
        check(all(m["cached_items"] == 0 for m in d.stats().values()), "kept after unfreeze")
        d.end()


def the_record_and_the_commands_know_all_managers():
    record = "/tmp/ddict-keyed-%d.jsonl" % os.getpid()
    try:
        with keyed(2, 2, args=("--record", record)) as d:
            ddict(d, 3, "put", "a", "1")
            check(ddict(d, 2, "get", "a") == b"1\n" or ddict(d, 2, "get", "a") == b"1", "get")
            check(b"a" in ddict(d, 3, "ls"), "ls")
            stats = json.loads(ddict(d, 3, "stats", "--json"))
            check(len(stats["managers"]) == 4, "stats")
            of_owners = sum(m["total_used_bytes"] for m in stats["managers"] if m["node_id"] < 2)
            check((stats["total"]["total_bytes"], stats["total"]["total_used_bytes"]) == (64 * MIB, of_owners), "total %r" % stats["total"])
            d.end()
        with open(record) as f:
            events = {e["event"]: e for e in map(json.loads, f)}
        start, total = events["start"], events["job_end"]["total"]
        check(total["total_bytes"] == 64 * MIB, "record %r" % total)
        report = ddict(d, 0, "report", record)
        check(b"4 managers on 4 nodes, keys on 2 of them, 64.0 MiB" in report, "%r" % report)
        check((start["managers"], start["keyed_nodes"], len(start["nodes"]), start["total_bytes"]) == (4, 2, 4, 64 * MIB), "record %r" % start)
    finally:
        if os.path.exists(record):
            os.unlink(record)


def many_threads_of_a_process_do_the_same():
    program = os.path.join(BUILD, "tests", "local", "client_threads")
    if os.access(program, os.X_OK):  # it wants libcheck
        p = subprocess.run([program], env=dict(os.environ, DDICT_TEST_KEYED="1", DDICTD=DDICTD), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=110)
        check(p.returncode == 0, p.stdout.decode(errors="replace"))


def what_cannot_be_is_refused():
    for args, want in ((("--keyed-nodes", "2"), "keys on 2 nodes: there are 1"), (("--keyed-nodes", "0"), "want a number from 1")):
        d = None
        try:
            d = Dictionary(args=args, ready=False)
            check(d.nodes[0].wait() == 1, "%r goes on" % (args,))
            check(any(want in line for line in d.nodes[0].lines), "%r: %r" % (args, d.nodes[0].lines))
        finally:
            if d:
                d.__exit__(None, None, None)
    try:
        with keyed(2, 2, args=("--forward-mem", "1M")):
            raise Failed("1M is enough for a manager")
    except Failed as e:
        check("too little for 1 managers" in str(e), str(e))


main([nodes_without_keys_answer_every_request, what_four_nodes_put_is_on_those_with_keys, values_of_any_size_come_by_a_manager_with_less_memory,
      values_are_whole_while_others_change_them, a_frozen_dictionary_is_kept_on_nodes_without_keys,
      the_record_and_the_commands_know_all_managers, many_threads_of_a_process_do_the_same, what_cannot_be_is_refused], at_once=3)
