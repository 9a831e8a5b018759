#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Messages between managers by libfabric, on its tcp provider: the same tests as by TCP give the same results, what is in use is said, and what is not there is an error and not something else."""
import errno
import json
import os
import random
import signal
import subprocess
import sys
import tempfile

from cluster import BUILD, Dictionary, Failed, check, main, wait_for

HERE = os.path.dirname(os.path.realpath(__file__))
OFI = ("--transport", "ofi:tcp")


RMA = (*OFI, "--rma", "yes")


class Again:
    """Tests of another file, with all dictionaries of several nodes on libfabric; begun now, looked at by finish(). They wait more than they work."""

    def __init__(self, *argv, rma="no", tests=(), **env):
        self.tests = tests
        self.out = tempfile.TemporaryFile("w+")
        self.proc = subprocess.Popen([*argv, *tests], env=dict(os.environ, DDICT_TEST_TRANSPORT="ofi:tcp", DDICT_TEST_RMA=rma, DDICTD=os.path.join(BUILD, "ddictd"), **env),
                                     stdout=self.out, stderr=subprocess.STDOUT)

    def finish(self):
        code = self.proc.wait(280)
        self.out.seek(0)
        said = self.out.read()
        check(code == 0, said)
        check(not self.tests or said.count("\nok ") == len(self.tests) or "Checks: %d," % len(self.tests) in said, said)


def client(name, *tests, rma="no", **env):
    return Again(os.path.join(BUILD, "tests", "local", name), tests=tests, rma=rma, **env)


def script(name, *tests, rma="no"):
    return Again(sys.executable, os.path.join(HERE, name), tests=tests, rma=rma)


def requests_are_answered_the_same():
    script("basics.py", "three_nodes_with_five_managers_answer_every_request", "idle_managers_use_no_cpu").finish()


def values_of_all_sizes_are_whole():
    with Dictionary(nodes=2, managers=2, mem="256M", args=OFI) as d:
        for size in (0, 1, 4096, 131008, 131009, (5 << 20) + 3, 32 << 20):
            d.run("fill", "v%d" % size, 2, size, node=0)
            d.run("verify", "v%d" % size, 2, size, node=1)
            d.run("view", "v%d" % size, 2, size, node=0)
        check(all(m["retired_bytes"] == 0 for m in d.stats().values()), "retired bytes are left: %r" % d.stats())
        d.end()


def clients_that_die_or_take_nothing_stop_nobody():
    tests = ("a_client_that_takes_no_answers_stops_nobody", "a_writer_killed_in_a_stream_leaks_nothing")
    for a in [script("failures.py", *tests), script("failures.py", tests[0], rma="yes")]:
        a.finish()


def the_death_of_a_manager_or_node_is_noticed_as_by_tcp():
    for a in (script("failures.py", "a_silent_node_is_found_out"), script("failures.py", "a_manager_killed_ends_all_nodes_with_its_name"),
              script("failures.py", "ddictd_killed_takes_its_managers_along", "nonsense_over_tcp_is_refused_and_counted")):
        a.finish()


def clients_see_the_same():
    """Large values by both ways; what is sent in messages by either need not come twice."""
    large = [client("client_async", "large_values_come_and_go_in_pieces", rma=rma) for rma in ("no", "yes")]
    for a in [*large, client("client_many", "many_small_and_many_large_arrive_whole", rma="yes")]:
        a.finish()
    asynchronous = client("client_async", "each_of_many_operations_ends_once_with_its_bytes", "thousands_may_wait", "threads_share_a_set")
    many = client("client_many", "each_pair_has_its_own_status_and_the_later_wins", "pairs_need_not_be_dealt_out_evenly", "gets_of_one_key_that_were_not_sent_yet_share_an_answer",
                  "a_get_never_shares_an_answer_older_than_its_beginning")
    for a in [asynchronous, many]:
        a.finish()


def all_ways_give_the_same_bytes():
    for rma in ("no", "yes"):
        for a in (client("client_same", "all_ways_give_the_same_bytes_on_two_nodes", rma=rma), client("client_bytes", rma=rma, ROUNDS="1", KINDS="1")):
            a.finish()


def values_are_whole_where_managers_die_and_come_back():
    """No buffer gets two frames, though the provider told that receiving into it failed."""
    rewind = client("client_lives_rewind", "what_the_owner_said_to_a_life_of_the_proxy_it_says_to_the_next", "writers_notice_no_kill_of_either",
                    "writers_notice_no_lost_piece", "writers_notice_no_lost_answer")
    far = client("client_lives_far", "values_in_pieces_come_whole_when_their_proxy_dies", "values_in_pieces_come_whole_when_either_dies")
    for a in (rewind, far):
        a.finish()


def a_frozen_dictionary_keeps_what_was_read_by_either_way():
    for a in [client("client_freeze", rma=rma, CK_RUN_CASE="first") for rma in ("no", "yes")]:
        a.finish()


# --- large values, read out of their owner's memory ---
def rma_bytes(d):
    return sum(m["rma_bytes"] for m in d.stats().values())


def values_that_are_read_are_those_that_are_sent():
    """Sizes about the least one, about borders of pieces, and any; by all ways, several at a time, from both nodes."""
    rng = random.Random(5)
    least, piece = 256 << 10, 256 << 10
    sizes = [least - 1, least, least + 1, 3 * piece, 8 * piece + 1, (14 << 20) + 7, *(rng.randrange(least, 4 << 20) for n in range(4))]
    with Dictionary(nodes=2, managers=2, mem="400M", args=RMA) as d:
        for size in sizes:
            d.run("fill", "v%d" % size, 2, size, node=size % 2)
        d.run("stats")
        jobs = [d.probe(way, "v%d" % size, 2, size, node=n, stderr=subprocess.STDOUT) for size in sizes for way in ("verify", "view") for n in (0, 1)]
        for p in jobs:
            out = p.communicate(timeout=100)[0]
            check(p.returncode == 0, "probe: %d: %s" % (p.returncode, out))
        check(rma_bytes(d) >= 2 * sum(sizes[1:]), "read out of memory: %d bytes of %d" % (rma_bytes(d), 2 * sum(sizes[1:])))
        before = rma_bytes(d)
        churns = [d.probe("churn", n, 1500, node=n % 2, stderr=subprocess.STDOUT) for n in range(4)]
        for p in churns:
            out = p.communicate(timeout=100)[0]
            check(p.returncode == 0, "churn: %d: %s" % (p.returncode, out))
        check(rma_bytes(d) > before, "nothing was read while values changed")
        d.run("clear")
        wait_for("pins to go", lambda: all(m["retired_bytes"] == 0 for m in d.stats().values()), 10)
        d.end()


def one_that_dies_while_it_reads_or_is_read_leaves_no_pin_and_no_hang():
    size = 48 << 20
    with Dictionary(nodes=2, managers=2, mem="400M", args=(*RMA, "--restarts", "0")) as d:
        for n in range(4):
            d.run("fill", "big%d" % n, 1, size)
        for n in range(6):  # readers that take nothing, killed in the middle
            p = d.probe("greedy", "big%d-0" % (n % 4), 20, node=n % 2)
            check(p.stdout.readline().startswith("asked"), "greedy did not ask")
            p.kill()
            p.wait()
            p.stdout.close()
            p.stdin.close()
        d.run("clear")
        wait_for("pins to go", lambda: all(m["retired_bytes"] == 0 for m in d.stats().values()), 10)
        for n in range(4):
            d.run("fill", "big%d" % n, 1, size)
            d.run("verify", "big%d" % n, 1, size, node=n % 2)
        # Their owners, while values are read without an end; the rest of the dictionary ends with them.
        readers = [d.probe("greedy", "big%d-0" % (n % 4), 20, node=n % 2, stderr=subprocess.STDOUT) for n in range(6)]
        readers += [d.probe("verify", "big%d" % (n % 4), 1, size, node=n % 2, stderr=subprocess.STDOUT) for n in range(4)]
        for p in readers[:6]:
            p.stdout.readline()
        os.kill(d.nodes[0].managers[0], signal.SIGKILL)
        for node in d.nodes:
            check(node.wait(10) != 0, "node %s ended well" % node.name)
        for p in readers:
            p.communicate(timeout=60)


def one_that_reads_no_further_gives_back_what_it_was_lent():
    """A value whose reader is silent for long; here not 30 s. It is told, and those after it are read."""
    with Dictionary(nodes=2, managers=2, mem="256M", args=RMA, env={"DDICT_TEST_LEND_MS": "300"}) as d:
        d.run("fill", "big", 1, 20 << 20)
        reader = 1 if d.stats()[0]["num_keys"] else 0  # manager n is on node n
        slow = [d.probe("greedy", "big-0", 1, node=reader) for n in range(3)]
        for p in slow:
            check(p.stdout.readline().startswith("asked"), "greedy did not ask")
        wait_for("all to be lent", lambda: rma_bytes(d) > 0 and d.stats()[1 - reader]["gets_remote"] == 3, 10)
        d.run("clear")
        wait_for("pins to go", lambda: all(m["retired_bytes"] == 0 for m in d.stats().values()), 10)
        ends = [p.communicate("\n", timeout=30)[0].strip() for p in slow]
        check(ends == [str(-errno.ETIMEDOUT)] * 3, "ends: %r" % ends)
        d.run("fill", "k", 1, 300 << 10)
        for node in range(2):
            d.run("verify", "k", 1, 300 << 10, node=node)
        d.end()


def what_cannot_be_read_is_sent_and_said():
    with Dictionary(nodes=2, managers=2, mem="128M", args=RMA, env={"DDICT_TEST_RMA_REFUSED": "2"}) as d:
        d.run("fill", "k", 20, 300 << 10)
        for node in range(2):
            d.run("verify", "k", 20, 300 << 10, node=node)
        refused = [m["rma_refused"] for m in d.stats().values()]
        check(refused == [2, 2] and rma_bytes(d) == 16 * (300 << 10), "refused %r, %d bytes were read" % (refused, rma_bytes(d)))
        said = subprocess.run([os.path.join(BUILD, "ddict"), "stats"], env=d.env(), stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
        check("4 values were sent by messages although rma is in use" in said, said)
        report = d.end()
        check(report["total"]["rma_refused"] == 4 and all("values are sent that could be read by their requesters" in node.stderr() for node in d.nodes), "report %r" % report["total"])


def the_path_to_another_node_is_measured_beside_tcp():
    script("bench.py", "the_path_to_another_node_is_measured_beside_tcp").finish()


def start_line(folder, args):
    """The record's `start` of a dictionary of two nodes, and the transports in its figures."""
    log = os.path.join(folder, "record")
    with Dictionary(nodes=2, managers=2, args=("--record", log, *args)) as d:
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
        check(start["transport"].startswith("ofi:tcp") and "rma" not in start["transport"] and now == {start["transport"]} and start["transport_why"] == "asked for", "%r %r" % (start, now))
        start, now = start_line(folder, RMA)
        check(start["transport"].startswith("ofi:tcp") and start["transport"].endswith(" rma") and now == {start["transport"]}, "%r %r" % (start, now))
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
    short = {"FI_OFI_RXM_BUFFER_SIZE": "1000"}
    with Dictionary(nodes=2, managers=2, args=("--transport", "ofi:tcp;ofi_rxm"), node_env={0: short, 1: short}, ready=False) as d:
        line = d.nodes[0].line("error")
        check("messages are too small" in line or "no provider" in line, line)
        for node in d.nodes:
            check(node.wait() == 1, "node %s ended well" % node.name)
    for args, words in ((("--transport", "pigeon"), "--transport=pigeon"), (("--rma", "maybe"), "--rma=maybe"), (("--rma", "yes"), "rma=yes wants transport=ofi")):
        with Dictionary(nodes=1, args=args, ready=False) as d:
            check(words in d.nodes[0].line("error"), d.nodes[0].lines)
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
main([requests_are_answered_the_same, values_of_all_sizes_are_whole, clients_that_die_or_take_nothing_stop_nobody,
      the_death_of_a_manager_or_node_is_noticed_as_by_tcp, clients_see_the_same, all_ways_give_the_same_bytes,
      values_are_whole_where_managers_die_and_come_back, a_frozen_dictionary_keeps_what_was_read_by_either_way, values_that_are_read_are_those_that_are_sent,
      one_that_dies_while_it_reads_or_is_read_leaves_no_pin_and_no_hang,
      one_that_reads_no_further_gives_back_what_it_was_lent, what_cannot_be_read_is_sent_and_said, the_path_to_another_node_is_measured_beside_tcp,
      what_is_in_use_is_said_and_why, what_is_not_there_is_an_error_before_ready,
      nodes_that_differ_do_not_start], limit=300, at_once=2)
