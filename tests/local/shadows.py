#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--replicas=2: each owner has a shadow on another node, which is started again when it dies, or made anew, and leaves nothing; and where two copies can not be."""
import os
import signal
import subprocess

from cluster import BUILD, Dictionary, Failed, alive, check, main, owners_of, wait_for


def shadows(d, node):
    """Its shadows: the owner's id to the process."""
    return dict(owners_of(d.nodes[node].proc.pid))


def with_shadows(nodes, managers, keyed=None, **kw):
    args = ["--replicas", "2", *(["--keyed-nodes", str(keyed)] if keyed else [])]
    d = Dictionary(nodes=nodes, managers=managers, args=args, **kw)
    for i in range(nodes):
        d.pids.update(shadows(d, i).values())
    return d


def each_owner_has_a_shadow_on_the_next_node_with_keys():
    for nodes, managers, keyed, want in ((2, 2, None, [[1], [0]]), (3, 4, None, [[2], [0, 3], [1]]), (3, 3, None, [[2], [0], [1]]),
                                         (3, 5, 2, [[1, 4], [0, 3, 6], []])):
        with with_shadows(nodes, managers, keyed, env={"DDICT_LOG": "info"}) as d:
            have = [sorted(shadows(d, i)) for i in range(nodes)]
            check(have == want, "%d nodes, %d managers: shadows of %r" % (nodes, managers, have))
            check(" mem=%d" % ((64 << 20) // managers // 4096 * 4096 * managers) in d.ready, d.ready)
            d.run("self")
            check(not any("serves nothing" in node.stderr() for node in d.nodes), "a node had no lease at the start")
            d.end()


def life(d, node, owner, before=None):
    """The process of this shadow, when it is not `before` any more."""
    def look():
        pid = shadows(d, node).get(owner)
        return pid if pid != before else None
    pid = wait_for("a life of the shadow", look)
    d.pids.add(pid)
    return pid


def a_shadow_that_dies_is_started_again():
    with with_shadows(2, 2) as d:
        first = life(d, 1, 0)
        os.kill(first, signal.SIGKILL)
        second = life(d, 1, 0, first)
        d.nodes[1].line("warn the shadow of manager 0 on node %s died (signal 9) and was started again" % d.node_name(1))
        d.run("self")
        d.end()
        check(not alive(second), "the shadow has outlived its dictionary")


def one_that_is_lost_is_made_anew_and_the_dictionary_goes_on():
    for sign, lives, why in ((signal.SIGKILL, 2, "died (signal 9), 1 times before within 10 s"),
                             (signal.SIGSTOP, 1, "has not answered for 10 s: it is stopped (SIGSTOP?)")):
        with with_shadows(2, 2, env={"DDICT_LOG": "info", "DDICT_RESTARTS": "1"}) as d:
            pid = None
            for _ in range(lives):
                pid = life(d, 1, 0, pid)
                os.kill(pid, sign)
            said = "the shadow of manager 0 on node %s %s" % (d.node_name(1), why)
            wait_for("the sentence", lambda: said in d.nodes[1].stderr(), 15)
            wait_for("its end", lambda: not alive(pid))
            life(d, 1, 0, pid)
            d.nodes[0].line("warn the keys of manager 0 have a second copy again, on node %s, after " % d.node_name(1))
            d.run("self")
            d.end()


def two_copies_need_two_nodes_with_keys():
    for nodes, args in ((1, []), (2, ["--keyed-nodes", "1"])):
        for word in ("--replicas=2", "--refill"):
            try:
                with Dictionary(nodes=nodes, args=[word, *args]):
                    raise Failed("it started")
            except Failed as e:
                check(word.strip("-") + " needs two nodes with keys: there is one" in str(e), str(e))


def the_command_refuses_them_before_it_starts_any():
    def run(*args, **env):
        return subprocess.run([os.path.join(BUILD, "ddict"), "run", "--local", *args, "true"], env=dict(os.environ, **env), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)

    sentence = "=2: two copies of a value need two nodes, and here one has all keys"
    for p, name in ((run("--replicas=2"), "--replicas"), (run(DDICT_REPLICAS="2"), "DDICT_REPLICAS")):
        check(p.returncode == 1 and name + sentence in p.stdout, "%d %s" % (p.returncode, p.stdout))
    sentence = ": what a node loses can be read again by another one, and here one has all keys"
    for p, name in ((run("--refill"), "--refill"), (run("--refill=yes"), "--refill"), (run(DDICT_REFILL="yes"), "DDICT_REFILL")):
        check(p.returncode == 1 and name + sentence in p.stdout, "%d %s" % (p.returncode, p.stdout))
    for words in (["--site=replicas=2"], ["--site=refill=yes"], ["--site=refill=yes", "--refill=no"]):
        p = run(*words)
        check(p.returncode == 0 and p.stdout == "", "%d %s" % (p.returncode, p.stdout))


def nodes_must_agree_on_the_copies():
    with Dictionary(nodes=2, ready=False, args=["--replicas", "2"], node_args={1: ["--replicas", "1"]}) as d:
        for node, sentence in ((0, "node 1 was started for 1 copy of each value, this one for 2"),
                               (1, "node 0 was started for 2 copies of each value, this one for 1")):
            d.nodes[node].line("error " + sentence)
            check(d.nodes[node].wait() == 1, "exit code")


main([each_owner_has_a_shadow_on_the_next_node_with_keys, a_shadow_that_dies_is_started_again,
      one_that_is_lost_is_made_anew_and_the_dictionary_goes_on, two_copies_need_two_nodes_with_keys,
      the_command_refuses_them_before_it_starts_any,
      nodes_must_agree_on_the_copies], at_once=3)
