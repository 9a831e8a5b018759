#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--replicas=2: node 0 is lost, and what it did goes on at another node (PROTOCOL 13): the end in all its forms, the record, saves, freezes, results, meeting places."""
import json
import os
import signal
import subprocess
import tempfile
import time

import cluster
from cluster import BUILD, check, main, wait_for
from losses import EFROZEN, ENOKEY, Asker, Replicated, keys_of

DDICT = os.path.join(BUILD, "ddict")


def ddict(d, node, *words, **kw):
    p = subprocess.run([DDICT, *words], env=d.env(node), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, text=True, **kw)
    check(p.returncode == 0, "`ddict %s` on node %d: exit code %d: %s" % (" ".join(words), node, p.returncode, p.stdout[-1000:]))
    return p.stdout


class First(Replicated):
    """A dictionary of three nodes with a record, of which the first one is lost."""

    def __init__(self, *args, **kw):
        self.notes = tempfile.mkdtemp(prefix="ddict-first-", dir=BUILD)
        self.log = os.path.join(self.notes, "log")
        super().__init__(args=["--record", self.log, *args], **kw)
        wait_for("the first line of the record", lambda: os.path.exists(self.log) and os.path.getsize(self.log) > 0)

    def lose_first(self, wait=True):
        super().lose(0)
        if wait:
            self.wait_promoted(0)

    def events(self):
        with open(self.log) as f:
            return [json.loads(line) for line in f]

    def check_record(self, reason, keys=None):
        """One start, the loss, one end, which is the last, by a node that is left."""
        events = self.events()
        names = [e["event"] for e in events]
        said = "events %r" % [(e["event"], e.get("text", "")) for e in events]
        check(names.count("start") == 1 and names[0] == "start", said)
        check(names.count("job_end") == 1 and names[-1] == "job_end", said)
        check([e["node"] for e in events if e["event"] == "node_lost"] == [self.node_name(0)], "events %r" % events)
        end = events[-1]
        check(end["reason"] == reason, "job_end says %r" % end["reason"])
        check(end["writer"] in map(self.node_name, self.left()), "written by %r" % end["writer"])
        if keys is not None:
            check(end["total"]["num_keys"] == keys and end["total"]["lost_managers"] == 0, "total %r" % end["total"])
        return events

    def ended(self, seconds=30):
        """All that are left end with 0, one of them has said it."""
        for i in self.left():
            code = self.nodes[i].wait(seconds)
            check(code == 0, "node %d: exit code %d, stderr %s" % (i, code, self.nodes[i].stderr()))
        return self.report()

    def __exit__(self, kind, value, trace):
        try:
            return super().__exit__(kind, value, trace)
        finally:
            subprocess.run(["rm", "-rf", self.notes], check=True)


# --- the end ---
def a_line_on_stdin_ends_it():
    with First() as d:
        d.run("fill", "k", 60, 100)
        d.lose_first()
        report = d.end()
        check(report["total"]["num_keys"] == 60, "report %r" % report["total"])
        d.head().line("summary", 1)
        d.check_record("drained", 60)
        check(any("node %s is lost" % d.node_name(0) in text and "goes on without it" in text for text in d.said()), "lines %r" % d.said())


def a_line_on_stdin_ends_it_while_nobody_decides():
    """Drained at once: the node that has heard of it says it again to who decides then."""
    for node in (1, 2):
        with First() as d:
            d.run("fill", "k", 60, 100)
            d.lose_first(wait=False)
            d.nodes[node].write("drain\n")
            d.ended()
            check(d.events()[-1]["event"] == "job_end" and d.events()[-1]["reason"] == "drained", "%r" % d.events()[-1])


def down_ends_it():
    for node in (1, 2):
        with First() as d:
            d.run("fill", "k", 60, 100)
            d.lose_first()
            ddict(d, node, "down")
            d.ended()
            d.check_record("down", 60)


def a_signal_to_all_ends_it():
    with First() as d:
        d.run("fill", "k", 60, 100)
        d.lose_first()
        for i in d.left():
            d.nodes[i].proc.send_signal(signal.SIGTERM)
        d.ended()
        d.check_record("signal", 60)


def a_client_holds_up_the_end():
    with First(drain_ms=60000) as d:
        a = d.ask(2)
        d.lose_first()
        d.nodes[1].write("drain\n")
        time.sleep(1)
        check(all(d.nodes[i].proc.poll() is None for i in d.left()), "it has not waited for a client")
        a.does("put", "k", 1)
        a.proc.stdin.close()
        d.ended()
        d.check_record("drained")


def the_first_node_is_lost_in_the_end():
    """Node 0 has said that it drains, and waits for a client, when it is lost: the end goes on elsewhere."""
    with First(drain_ms=60000) as d:
        a = d.ask(2)
        d.nodes[0].write("drain\n")
        wait_for("node 1 to drain", lambda: subprocess.run([cluster.PROBE, "len"], env=d.env(1), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0)
        d.lose_first(wait=False)
        a.does("put", "k", 1)
        time.sleep(1)
        check(all(d.nodes[i].proc.poll() is None for i in d.left()), "it has not waited for a client")
        a.proc.stdin.close()
        d.ended()
        check([e["event"] for e in d.events()].count("job_end") == 1 and d.events()[-1]["reason"] == "drained", "%r" % d.events())


# --- tasks ---
def task(d, node, n):
    p = d.probe("task", n, node=node)
    check(p.stdout.readline() == "here\n", "task %d" % n)
    return p


def leaves(p):
    p.communicate(timeout=30)


def the_last_task_ends_it():
    """Of those of the lost node nobody knows any more that they came: the end comes DD_TASKS_ALONE_MS behind the last one."""
    with First("--tasks", "4", "--stay") as d:
        tasks = [task(d, node, node) for node in range(3)]
        tasks[0].kill()
        d.lose_first()
        leaves(tasks[1])
        late = task(d, 1, 3)
        leaves(tasks[2])
        time.sleep(1)
        check(d.nodes[1].proc.poll() is None, "it has ended before its last task")
        leaves(late)
        d.ended(40)
        tasks[0].communicate()
        d.check_record("drained")


def all_tasks_of_other_nodes_end_it_at_once():
    with First("--tasks", "2", "--stay") as d:
        tasks = [task(d, node, node - 1) for node in (1, 2)]
        d.lose_first()
        began = time.monotonic()
        for p in tasks:
            leaves(p)
        d.ended()
        print("# ended %.1f s after the last task" % (time.monotonic() - began))
        d.check_record("drained")


# --- what is told and asked between nodes ---
def a_freeze_is_known_to_who_decides_now():
    with First() as d:
        d.run("fill", "k", 200, 1000)
        a = d.ask(1)
        a.does("freeze")
        wait_for("a line of the record", lambda: "frozen" in [e["event"] for e in d.events()])
        d.lose_first()
        check(a.call("frozen")[0] == 1, "it is not frozen any more")
        for i in d.left():
            d.run("verify", "k", 200, 1000, node=i)
        keys = keys_of(d, 0, 2, "f") + keys_of(d, 2, 2, "f")
        for key in keys:
            a.does("put", key, 1, code=EFROZEN)
        a.does("unfreeze")
        for key in keys:
            a.does("put", key, 1)
        b = d.ask(2)
        b.does("freeze")
        a.does("put", keys[0], 1, code=EFROZEN)
        a.does("unfreeze")
        d.end()
        names = [e["event"] for e in d.check_record("drained")]
        check(names.count("frozen") == 2 and names.count("unfrozen") == 2, "events %r" % names)


def a_freeze_that_is_asked_while_nobody_decides_is_made():
    for node in (1, 2):
        with First() as d:
            d.run("fill", "k", 200, 1000)
            a, b = d.ask(node), d.ask(3 - node)
            d.lose_first(wait=False)
            a.does("freeze")
            check(b.call("frozen")[0] == 1, "node %d is not frozen" % (3 - node))
            b.does("unfreeze")
            a.does("put", "x", 1)
            d.end()


def freezes_go_on_over_the_loss():
    """One after another, all the time: each is answered, and the last one counts everywhere."""
    with First() as d:
        d.run("fill", "k", 100, 100)
        a, b = d.ask(1), d.ask(2)
        for _ in range(20):
            a.say("freeze")
            a.answer()
            a.say("unfreeze")
            time.sleep(0.01)
            if 0 not in d.lost:
                d.lose_first(wait=False)
            check(a.answer()[0] == 0, "an unfreeze")
        b.does("put", "x", 1)
        d.end()


def ranks_meet_after_the_loss():
    with First() as d:
        zero, early = d.probe("meet", "7.1", 0, node=2), d.probe("meet", "7.2", 1, node=2)  # nobody has said yet where 7.2 meets
        place = zero.stdout.readline()
        check(len(place.split()) == 2 and place.split()[1].isdigit(), "a place %r" % place)
        d.lose_first()
        one = d.probe("meet", "7.1", 1, node=1)  # only node 0 had been told of it
        check(one.stdout.readline() == place, "another place")
        other = d.probe("meet", "7.2", 0, node=1)
        where = other.stdout.readline()
        check(early.stdout.readline() == where and len(where.split()) == 2, "they do not meet at %r" % where)
        new = [d.probe("meet", "8.0", rank, node=2 - rank) for rank in (1, 0)]
        check(len({p.stdout.readline() for p in new}) == 1, "a new step does not meet")
        for p in (zero, early, one, other, *new):
            p.communicate(timeout=30)
        d.end()


def results_are_written_on():
    with tempfile.TemporaryDirectory(prefix="ddict-first-", dir=BUILD) as folder:
        with First("--results", folder) as d:
            path = lambda name: os.path.join(folder, "run", name)
            ddict(d, 1, "put", "ddict.results/run/a", "before")
            wait_for("a result", lambda: os.path.exists(path("a")))
            ddict(d, 2, "put", "ddict.results/run/b", "just before")
            d.lose_first()
            ddict(d, 1, "put", "ddict.results/run/c", "after")
            for name in "abc":
                wait_for("result " + name, lambda name=name: os.path.exists(path(name)), 20)
            ddict(d, 2, "put", "ddict.results/run/d", "last")
            d.end(30)
            check(open(path("d")).read() == "last", "the last result")
            d.check_record("drained")


# --- saves ---
def check_saved(folder, n, size):
    with cluster.Dictionary(managers=1, mem="1G") as d:
        ddict(d, 0, "restore", folder)
        d.run("verify", "k", n, size)
        d.end()


def it_is_saved_at_the_end():
    for files in (False, True):
        with tempfile.TemporaryDirectory(prefix="ddict-first-", dir=BUILD) as folder:
            path = os.path.join(folder, "saved")
            with First("--save", path, *(["--save-prefix", ""] if files else [])) as d:
                d.run("fill", "k", 300, 1000)
                d.lose_first()
                d.end(40)
                d.check_record("drained", 300)
                saves = [e for e in d.events() if e["event"] == "save"]
                check(len(saves) == 1 and saves[0]["complete"] and saves[0]["final"], "saves %r" % saves)
            if files:
                check(len(os.listdir(path)) == 300, "%d files" % len(os.listdir(path)))
            else:
                check_saved(path, 300, 1000)


def a_save_under_way_is_made_again():
    """Node 0 is lost when the last pass runs."""
    with tempfile.TemporaryDirectory(prefix="ddict-first-", dir=BUILD) as folder:
        path = os.path.join(folder, "saved")
        with First("--save", path, mem="1G") as d:
            d.run("fill", "k", 3000, 100000)
            d.nodes[0].write("drain\n")
            wait_for("a part of a save", lambda: any(name.endswith(".part") for name in os.listdir(path) if os.path.isdir(path)), pace=0.001)
            d.lose_first(wait=False)
            d.ended(60)
            saves = [e for e in d.events() if e["event"] == "save"]
            check(saves and saves[-1]["complete"] and saves[-1]["final"], "saves %r" % saves)
            check(d.events()[-1]["event"] == "job_end", "%r" % d.events()[-1])
        check_saved(path, 3000, 100000)


# --- clients and steps afterwards ---
def new_clients_and_steps_come_after_the_loss():
    with First() as d:
        d.run("fill", "k", 100, 100)
        d.lose_first()
        for i in d.left():
            d.run("verify", "k", 100, 100, node=i)
            d.run("self", node=i, seconds=120)
            stats = d.stats(i)
            check(sorted(stats) == [0, 1, 2] and stats[0]["node"] in map(d.node_name, d.left()), "figures %r" % stats)
        out = ddict(d, 2, "stats", "--json")
        check(d.node_name(1) in out, "stats %r" % out)
        a, b = d.client(1, kind=Asker), d.client(2, kind=Asker)
        key = keys_of(d, 0, 1, "q")[0]
        b.say("popwait", key)
        a.does("push", key, 5)
        check(b.answer()[0] == 0, "a pop that waited")
        a.does("pop", key, code=ENOKEY)
        d.end()


def events_while_nobody_decides_are_in_the_record():
    """A node's note of a full manager comes when node 0 has just gone."""
    with First(mem="48M") as d:
        d.lose_first(wait=False)
        a = d.ask(2)
        for i in range(20):
            if a.call("put", "full%d" % i, 1, 4 << 20, ms=20000)[0] < 0:
                break
        d.wait_promoted(0)
        d.end()
        check("full" in [e["event"] for e in d.check_record("drained")], "events %r" % d.events())


def a_line_that_was_cut_off_does_not_spoil_the_next():
    with First() as d:
        d.lose_first(wait=False)
        with open(d.log, "a") as f:
            f.write('{"event":"notes","ti')
        d.wait_promoted(0)
        d.end()
        with open(d.log) as f:
            text = f.read().splitlines()
        check('{"event":"notes","ti' in text and json.loads(text[-1])["event"] == "job_end", "%r" % text)


if __name__ == "__main__":
    main([a_line_on_stdin_ends_it, a_line_on_stdin_ends_it_while_nobody_decides, down_ends_it, a_signal_to_all_ends_it, a_client_holds_up_the_end, the_first_node_is_lost_in_the_end,
          the_last_task_ends_it, all_tasks_of_other_nodes_end_it_at_once, a_freeze_is_known_to_who_decides_now, a_freeze_that_is_asked_while_nobody_decides_is_made, freezes_go_on_over_the_loss,
          ranks_meet_after_the_loss, results_are_written_on, it_is_saved_at_the_end, a_save_under_way_is_made_again, new_clients_and_steps_come_after_the_loss,
          events_while_nobody_decides_are_in_the_record, a_line_that_was_cut_off_does_not_spoil_the_next], limit=180, at_once=3)
