#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the ranks of a step meet: all get the same port, nobody else is given it, rank 0's program can listen there, and it is free when rank 0 has ended."""
import os
import socket
import subprocess
import tempfile

from cluster import BUILD, PROBE, Dictionary, check, main, wait_for


def ask(d, step, rank, node=0):
    """A rank that asks and then stays until its stdin ends."""
    return d.probe("meet", step, rank, node=node)


def said(p):
    address, port = p.stdout.readline().split()
    return address, int(port)


def leave(*ranks):
    for p in ranks:
        p.stdin.close()
        check(p.wait(20) == 0, "a rank ended with %d" % p.returncode)
        p.stdout.close()


def taken(port, reuse, host="0.0.0.0"):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        try:
            s.bind((host, port))
            s.listen()
        except OSError:
            return True
    return False


def all_ranks_meet_at_one_port_that_is_rank_0s():
    with Dictionary(nodes=3, managers=3, mem="48M") as d:
        for first in range(3):  # on which node rank 0 is
            step = "7.%d" % first
            others = [ask(d, step, 1 + n, node=n) for n in range(3) for _ in range(2)]
            zero = ask(d, step, 0, node=first)
            place = said(zero)
            for p in others:
                check(said(p) == place, "not %r" % (place,))
            late = ask(d, step, 9, node=(first + 1) % 3)
            check(said(late) == place, "a late one")
            check(taken(place[1], 0), "the port is not held")
            check(not taken(place[1], 1, place[0]), "rank 0 could not listen")
            leave(*others, late)
            check(taken(place[1], 0), "the port is not held any more")
            leave(zero)
            wait_for("the port to be free", lambda: not taken(place[1], 0))
        d.run("self")
        d.end()


def twenty_steps_have_twenty_ports():
    with Dictionary(nodes=2, managers=2, mem="32M") as d:
        ranks = [(ask(d, "7.%d" % i, 0, node=i % 2), ask(d, "7.%d" % i, 1, node=(i + i // 2) % 2)) for i in range(20)]
        places = [said(zero) for zero, _ in ranks]
        check(len({port for _, port in places}) == 20, "%r" % places)
        check([said(one) for _, one in ranks] == places, "rank 1 elsewhere")
        leave(*(p for pair in ranks for p in pair))
        d.end()


def ports_come_from_the_range():
    with socket.socket() as s:
        s.bind(("", 0))
        low = s.getsockname()[1]
    low = min(low, 60000)
    with Dictionary(managers=1, mem="16M", args=("--ports", "%d-%d" % (low, low + 63))) as d:
        ranks = [ask(d, "7.%d" % i, 0) for i in range(8)]
        ports = {said(p)[1] for p in ranks}
        check(len(ports) == 8 and all(low <= p <= low + 63 for p in ports), "%r" % ports)
        leave(*ranks)
        d.end()


def who_waits_is_told_when_it_ends():
    with Dictionary(nodes=2, managers=2, mem="32M") as d:
        waits = [ask(d, "7.1", 1, node=n) for n in range(2)]
        gone = d.probe("meet", "7.1", 1)
        bad = ask(d, "7.1/../x", 0)
        check("is no step" in bad.stdout.readline(), "a bad step")
        leave(bad)
        with Dictionary(managers=1, mem="16M") as other:  # a file leads to one dictionary only
            folder = tempfile.mkdtemp()
            env = dict(other.env(), DDICT_NODE="nowhere")
            script = 'echo $DDICT_SOCKET; cat >/dev/null'
            lent = subprocess.Popen([os.path.join(BUILD, "ddict"), "socket", "--", "sh", "-c", script], env=dict(other.env(), TMPDIR=folder), stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True)
            env["DDICT_SOCKET"] = lent.stdout.readline().strip()
            for name, want in ((other.name, "127.0.0.1 "), (d.name, "not of " + d.name)):
                p = subprocess.run([PROBE, "meet", "7.1", "0"], env=dict(env, DDICT_NAME=name), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
                check(want in p.stdout, "%r %r" % (p.stdout, p.stderr))
            lent.communicate(timeout=30)
            wait_for("the file to go", lambda: not os.listdir(folder))
            os.rmdir(folder)
            other.end()
        gone.kill()
        gone.wait()
        gone.stdin.close()
        gone.stdout.close()
        d.run("self")
        d.end()
        for p in waits:
            line = p.stdout.readline()
            check("ending" in line, line)
        leave(*waits)


def steps_that_ended_keep_no_port():
    with Dictionary(managers=1, mem="16M") as d:
        pid = d.nodes[0].proc.pid
        zero = ask(d, "7.0", 0)
        place = said(zero)
        fds = len(os.listdir("/proc/%d/fd" % pid))
        for i in range(1, 40):
            p = ask(d, "7.%d" % i, 0)
            said(p)
            leave(p)
        wait_for("ports to be given up", lambda: len(os.listdir("/proc/%d/fd" % pid)) <= fds)
        again = ask(d, "7.0", 3)
        check(said(again) == place, "another place")
        leave(zero, again)
        d.end()


main([all_ranks_meet_at_one_port_that_is_rank_0s, twenty_steps_have_twenty_ports, ports_come_from_the_range, who_waits_is_told_when_it_ends,
      steps_that_ended_keep_no_port])
