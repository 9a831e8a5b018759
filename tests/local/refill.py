#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--refill: a node is lost, its keys begin anew on others, and what is gone is said to be (PROTOCOL 13)."""
import json
import os
import re
import subprocess
import tempfile

from cluster import BUILD, check, children, comm, main, managers_of, memory_cgroup, owners_of, shadows_of, wait_for
from losses import ANSWERED_MS, EFROZEN, ENOKEY, ETIMEDOUT, Replicated, keys_of
from replicas import dies_too_often
from s3_server import Server

EKEYLOST = -4017


class Refilled(Replicated):
    """A dictionary with --refill, of one copy, one manager on each node."""

    def __init__(self, nodes=3, args=(), replicas="1", **kw):
        super().__init__(nodes=nodes, args=["--refill", *args], replicas=replicas, **kw)

    def fill(self, n=40):
        """Keys of each owner, put from the first node: {owner: [key]}. Each value is of the number of its owner."""
        a = self.ask(self.left()[0])
        keys = {m: keys_of(self, m, n, "o%d." % m) for m in range(self.n)}
        for m, names in keys.items():
            for key in names:
                a.does("put", key, m)
        return keys

    def is_there(self, keys, nodes=None):
        for i in nodes or self.left():
            a = self.ask(i)
            for m, names in keys.items():
                for key in names:
                    a.has(key, m)

    def is_lost(self, a, key, node, verb="get"):
        """The answer says so, and with which node."""
        code, _, text = a.call(verb, key)
        check(code == EKEYLOST and self.node_name(node) in text, "%s %s on node %d: %d, %r" % (verb, key, a.node, code, text))

    def wait_anew(self, i, seconds=20):
        """The keys of node i begin anew, as who decides says."""
        pattern = r"the keys of manager (\d+) begin anew on node .*: they were lost with %s" % re.escape(self.node_name(i))
        wait_for("the keys of node %d to begin anew" % i, lambda: any(re.search(pattern, t) for t in self.said()), seconds, pace=0.05)

    def wait_refilled(self, i, seconds=30, owners=()):
        """All that could be read again of what node i had was; owners: managers of which it had the keys, if that is known."""
        name = re.escape(self.node_name(i))
        anew = r"the keys of manager (\d+) begin anew on node .*: they were lost with %s" % name
        read = r"has read again \d+ items? of \d+ data sets? in .*, which node %s had lost of manager (\d+)" % name

        def of(pattern):
            return {int(m.group(1)) for m in (re.search(pattern, t) for t in self.said()) if m}

        wait_for("the keys of node %d to be read again" % i, lambda: of(read) and of(read) >= of(anew) | set(owners), seconds, pace=0.05)


# --- a node is lost ---
def loss(nodes, who, **kw):
    """Its keys are lost, and say so; they can be put anew, and then are as any others."""
    with Refilled(nodes=nodes, **kw) as d:
        keys = d.fill()
        gone = keys.pop(who)
        d.lose(who)
        askers = [d.ask(i) for i in d.left()]
        for a in askers:  # the first waits until they begin anew
            for key in gone[:20]:
                d.is_lost(a, key, who)
        d.is_there(keys)
        a, b = askers
        for verb in ("view", "has", "pop", "del", "existing"):
            d.is_lost(a, gone[0], who, verb)
        a.does("put", gone[0], 70)
        b.has(gone[0], 70)
        b.does("new", gone[1], 71)
        a.has(gone[1], 71)
        a.does("existing", gone[1], 72)
        check(b.call("new", gone[1])[0] < 0, "new of a key that is there")
        b.does("del", gone[0])
        a.does("pop", gone[1])
        for verb in ("get", "has", "pop", "del", "existing"):  # those are known
            for key in gone[:2]:
                code = a.call(verb, key)[0]
                check(code == (0 if verb == "has" else ENOKEY), "%s of a key that was removed: %d" % (verb, code))
        a.does("push", gone[2], 73)
        b.does("pop", gone[2])
        for key in gone[3:]:
            a.does("put", key, who)
        d.is_there({who: gone[3:]})
        d.end()


def three_nodes_one_is_lost():
    loss(3, 1)


def three_nodes_node_0_is_lost():
    loss(3, 0)


def two_nodes_one_is_lost():
    with Refilled(nodes=2) as d:
        keys = d.fill()
        d.lose(1)
        a = d.ask(0)
        for key in keys[1]:
            d.is_lost(a, key, 1)
        d.is_there({0: keys[0]})
        d.run("fill", "anew", 200, 100)
        d.run("verify", "anew", 200, 100)
        d.end()


def four_nodes_lose_one_after_the_other():
    """Also the node on which the keys of the first began anew, and node 0."""
    with Refilled(nodes=4) as d:
        keys = d.fill(20)
        d.lose(1)
        d.wait_refilled(1)
        a = d.ask(3)
        for key in keys[1]:
            a.does("put", key, 1)
        second = next(i for i in (0, 2, 3) if len(d.pids_of(i)) > 2)
        d.lose(second)
        a = d.ask(d.left()[0])
        for owner in (1, second):
            for key in keys[owner]:
                d.is_lost(a, key, second)
        d.is_there({m: names for m, names in keys.items() if m not in (1, second)})
        for m, names in keys.items():
            for key in names:
                a.does("put", key, m)
        d.is_there(keys)
        d.end()


def calls_that_are_on_their_way_are_answered():
    """What is asked of a lost node waits for the process that takes its place, no longer than it needs to."""
    with Refilled() as d:
        keys = keys_of(d, 1, 6)
        a, waiting, late = d.ask(0), d.ask(2), d.ask(0)
        a.does("put", keys[0], 5)
        waiting.say("wait", keys[1])
        late.say("wait", keys[2], ms=7000)
        d.lose(1)
        a.say("put", keys[3], 6)
        code, ms, rest = a.answer()
        check(code == 0 and ms < ANSWERED_MS, "a put: %d after %d ms: %s" % (code, ms, rest))
        d.is_lost(a, keys[0], 1)
        a.does("put", keys[1], 7)
        code, ms, rest = waiting.answer()
        check((code, rest) == (0, "7 8"), "a get that waits: %d, %s" % (code, rest))
        code, ms, rest = late.answer()  # its time is over, as ever
        check(code in (EKEYLOST, ETIMEDOUT) and 6000 < ms < 9000, "a get that waits in vain: %d after %d ms: %s" % (code, ms, rest))
        d.end()


def a_wait_without_a_time_is_as_long_as_ever():
    """Only a call that does not wait for its key may wait for what is read again."""
    with Refilled() as d:
        clients = {verb: d.ask(i) for i, verb in enumerate(("wait", "popwait"))}
        for verb, a in clients.items():
            a.say(verb, "absent", ms=-1)
        for verb, a in clients.items():
            code, ms, rest = a.answer(18)
            check(code in (ETIMEDOUT, ENOKEY) and 59000 < ms < 66000, "%s: %d after %d ms: %s" % (verb, code, ms, rest))
        d.end()


def clear_and_keys_after_a_loss():
    with Refilled() as d:
        keys = d.fill(10)
        d.lose(1)
        a = d.ask(0)
        d.is_lost(a, keys[1][0], 1)
        check(a.call("len")[0] == 20, "len: %r" % (a.call("len"),))
        a.does("clear")
        for names in keys.values():
            for key in names:
                check(a.call("get", key)[0] == ENOKEY, "get %s behind a clear" % key)
        d.end()


def a_frozen_dictionary_goes_on():
    with Refilled() as d:
        keys = d.fill(10)
        a = d.ask(2)
        a.does("freeze")
        d.lose(1)
        d.is_lost(a, keys[1][0], 1)
        d.is_there({0: keys[0], 2: keys[2]})
        check(a.call("put", keys[1][0])[0] == EFROZEN, "a put to a frozen dictionary")
        a.does("unfreeze")
        a.does("put", keys[1][0], 1)
        d.end()


# --- a process is lost ---
def a_manager_that_dies_too_often_takes_its_node_along():
    with Refilled(args=["--restarts", "1"]) as d:
        keys = d.fill(10)
        dies_too_often(d, lambda: next(iter(managers_of(d.nodes[1].proc.pid)), None))
        check(d.nodes[1].wait(20) == 1, "exit code")
        d.lost.add(1)
        a = d.ask(0)
        d.is_lost(a, keys[1][0], 1)
        d.is_there({0: keys[0], 2: keys[2]})
        d.end()


def who_began_anew_dies_and_comes_back():
    """It has what was put to it since, and still knows that others are lost."""
    with Refilled() as d:
        keys = d.fill(10)
        d.lose(1)
        d.wait_refilled(1)
        a = d.ask(0)
        a.does("put", keys[1][0], 1)
        node, pid = next((i, p) for i in d.left() for p in shadows_of(d.nodes[i].proc.pid))
        os.kill(pid, 9)
        wait_for("its next life", lambda: [p for p in shadows_of(d.nodes[node].proc.pid) if p != pid], 10)
        a.has(keys[1][0], 1)
        d.is_lost(a, keys[1][1], 1)
        d.end()


def who_began_anew_is_lost_for_good():
    """Its node stays: only its keys begin anew once more, elsewhere."""
    with Refilled(args=["--restarts", "1"]) as d:
        keys = d.fill(10)
        d.lose(1)
        d.wait_refilled(1)
        a = d.ask(0)
        a.does("put", keys[1][0], 1)
        node = next(i for i in d.left() if shadows_of(d.nodes[i].proc.pid))
        dies_too_often(d, lambda: next(iter(shadows_of(d.nodes[node].proc.pid)), None))
        d.is_lost(a, keys[1][0], node)
        d.is_there({0: keys[0], 2: keys[2]})
        check(shadows_of(d.nodes[2 - node].proc.pid), "nothing began anew on the other node")
        d.end()


# --- where it can not be ---
def a_node_without_room_gets_nothing():
    """Another does; and where none has room the dictionary is lost, with the reason."""
    found = memory_cgroup()
    if found is None or os.getuid() != 0 or subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        print("# not run: no cgroup of memory, or no mount namespace of our own")
        return
    folder, v2 = found
    limit = "memory.max" if v2 else "memory.limit_in_bytes"
    used = "memory.current" if v2 else "memory.usage_in_bytes"
    script = "mount -t tmpfs none $0 && cd $0 && : >memory.stat && echo %d >%s && echo 0 >%s && cd / && exec \"$@\"" % (40 << 20, limit, used)
    small = ["unshare", "-m", "sh", "-c", script, folder]
    for few in ([2], [0, 2]):
        with Refilled(via=[small if i in few else [] for i in range(3)]) as d:
            for i in few:
                with open("/proc/%d/root%s/%s" % (d.nodes[i].proc.pid, folder, used), "w") as f:
                    f.write("%d\n" % (24 << 20))
            key, a = keys_of(d, 1, 1)[0], d.ask(0)
            d.lose(1)
            if len(few) == 1:
                d.is_lost(a, key, 1)
                check(shadows_of(d.nodes[0].proc.pid) and not shadows_of(d.nodes[2].proc.pid), "where it began anew")
                d.end()
                continue
            d.ends_lost(r"the keys of manager 1 were lost with node %s, and .*cannot begin anew on node .* wants 32.0 MiB of memory" % re.escape(d.node_name(1)))


# --- with two copies ---
def two_copies_and_both_are_lost():
    """The first loss costs nothing; a second one before the next copy is whole costs keys, not the dictionary."""
    with Refilled(nodes=4, replicas="2") as d:
        keys = d.fill(10)
        d.lose(1)
        d.is_there(keys)
        d.wait_whole(1)
        d.lose(2)
        d.is_there(keys)
        d.end()
    with Refilled(nodes=5, replicas="2") as d:
        keys = d.fill(10)
        d.lose(1)
        d.lose(2)
        a = d.ask(0)
        d.is_lost(a, keys[1][0], 1)
        for key in keys[1]:
            a.does("put", key, 1)
        d.is_there(keys)
        d.wait_whole(1)
        d.lose(next(i for i in d.left() if i and shadows_of(d.nodes[i].proc.pid)))
        d.is_there(keys)
        d.end()


# --- loaded sets ---
def command(d, node, *args, env=None):
    p = subprocess.run([os.path.join(BUILD, "ddict"), *args], env=dict(d.env(node), **(env or {})), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    check(p.returncode == 0, "ddict %s: exit code %d: %s" % (" ".join(args), p.returncode, p.stderr.decode()))
    return p.stdout


def files_of(d, node, folder, files):
    """All of them, as the dictionary has them, from this node."""
    to = tempfile.mkdtemp(dir=folder)
    command(d, node, "save", "--files", to)
    for name, data in files.items():
        with open(os.path.join(to, "in", name), "rb") as f:
            check(f.read() == data, "%s is not what it was" % name)


def folder_of_files(folder, n=300):
    files = {"f%03d" % i: (b"%d." % i) * (20 + i * 7) for i in range(n)}
    os.mkdir(os.path.join(folder, "in"))
    for name, data in files.items():
        with open(os.path.join(folder, "in", name), "wb") as f:
            f.write(data)
    return files


def a_loaded_set_is_read_again():
    """All of it, after each loss, also in a frozen dictionary; what was put besides is lost."""
    for who, frozen in ((1, False), (0, True)):
        with tempfile.TemporaryDirectory(prefix="ddict-refill-", dir=BUILD) as folder, Refilled(nodes=4) as d:
            files = folder_of_files(folder)
            command(d, 3, "load", os.path.join(folder, "in"), "--prefix=in/")
            mine = keys_of(d, who, 1, "mine")[0]
            a = d.ask(3)
            a.does("put", mine, 1)
            if frozen:
                a.does("freeze")
            d.lose(who)
            d.is_lost(a, mine, who)  # it has waited until all was read
            check(any(re.search(r"has read again [1-9]\d+ items of 1 data set in", t) for t in d.said()), "%r" % d.said())
            files_of(d, 3, folder, files)
            second = d.left()[0] if shadows_of(d.nodes[3].proc.pid) else next(i for i in d.left() if shadows_of(d.nodes[i].proc.pid))
            d.lose(second)
            d.wait_refilled(second, 60)
            files_of(d, 3, folder, files)
            d.end()


def a_source_that_has_changed_is_not_read_again():
    with tempfile.TemporaryDirectory(prefix="ddict-refill-", dir=BUILD) as folder, Refilled() as d:
        files = folder_of_files(folder)
        command(d, 0, "load", os.path.join(folder, "in"), "--prefix=in/")
        for name in files:
            with open(os.path.join(folder, "in", name), "ab") as f:
                f.write(b"more")
        d.lose(1)
        d.wait_refilled(1)
        said = [t for t in d.said() if "has read again" in t]
        check(len(said) == 1 and "0 items of 0 data sets" in said[0] and "f002: it has changed since it was loaded" in said[0], "%r" % said)
        d.end()


# --- while a set is read again ---
class Slow(Refilled):
    """Its set is from a server, which answers when it is let."""

    def __init__(self, n=150, **kw):
        self.files = {"in/f%03d" % i: (b"%d." % i) * (20 + i * 7) for i in range(n)}
        self.s3 = Server(self.files, signed=False)
        self.s3.__enter__()
        self.aws = dict(self.s3.environment(), DDICT_S3_STALL="3600")
        super().__init__(env=self.aws, **kw)
        command(self, self.n - 1, "load", "--anon", "--quiet", "s3://bucket/in", "--prefix=in/", env=self.aws)
        self.s3.serving.clear()

    def __exit__(self, *a):
        self.s3.__exit__(*a)
        return super().__exit__(*a)

    def readers(self):
        """The nodes where a child reads, and its process."""
        return {i: pid for i in self.left() for pid in children(self.nodes[i].proc.pid) if comm(pid).startswith("ddict-load")}

    def wait_reader(self, but=None):
        def one():
            return next(((i, pid) for i, pid in self.readers().items() if pid != but), None)
        node, pid = wait_for("a child that reads", one, 30, pace=0.05)
        self.pids.add(pid)
        wait_for("its first question", lambda: self.s3.inside > 0, 20, pace=0.05)
        return node, pid

    def is_whole(self):
        with tempfile.TemporaryDirectory(prefix="ddict-refill-", dir=BUILD) as folder:
            files_of(self, self.left()[-1], folder, {name[3:]: data for name, data in self.files.items()})


def others(d, *nodes):
    return [i for i in d.left() if i not in nodes]


def another_node_is_lost_while_a_child_reads():
    with Slow(nodes=5) as d:
        d.lose(1)
        node, _ = d.wait_reader()
        second = others(d, node)[-1]
        d.lose(second)
        d.wait_anew(second, 30)
        d.s3.serving.set()
        d.wait_refilled(1)
        d.wait_refilled(second)
        d.is_whole()
        d.end()


def the_node_that_reads_is_lost_too():
    with Slow(nodes=5) as d:
        d.lose(1)
        node, pid = d.wait_reader()
        d.lose(node)
        d.wait_reader(pid)
        d.s3.serving.set()
        d.wait_refilled(node)
        d.is_whole()
        d.end()


def managers_are_killed_while_a_child_reads():
    """The one that began anew, and the one that the child asks."""
    with Slow(nodes=3) as d:
        d.lose(1)
        node, reader = d.wait_reader()
        for of in (shadows_of, managers_of):
            old = of(d.nodes[node].proc.pid)
            os.kill(old[0], 9)
            wait_for("a next life", lambda old=old, of=of: old[0] not in of(d.nodes[node].proc.pid) and len(of(d.nodes[node].proc.pid)) == len(old), 10)
            d.pids_of(node)
        check(d.readers() == {node: reader}, "who reads: %r" % d.readers())
        d.s3.serving.set()
        d.wait_refilled(1)
        d.is_whole()
        d.end()


def who_began_anew_dies_too_often_while_a_child_reads():
    """Its child is stopped, and another node reads."""
    with Slow(nodes=3, args=["--restarts", "1"]) as d:
        d.lose(1)
        node, reader = d.wait_reader()
        dies_too_often(d, lambda: next(iter(shadows_of(d.nodes[node].proc.pid)), None))
        second, _ = d.wait_reader(reader)
        check(second != node and d.readers().keys() == {second}, "who reads: %r" % d.readers())
        d.s3.serving.set()
        d.wait_refilled(node)
        d.is_whole()
        d.end()


def two_losses_one_after_another():
    """All is read again, and the keys of the first node twice if they had begun anew on the second one."""
    with Slow(nodes=5) as d:
        for _ in range(2):
            d.s3.serving.set()
            who = next((i for i in d.left() if shadows_of(d.nodes[i].proc.pid)), 1)
            d.lose(who)
            d.wait_refilled(who)
            d.is_whole()
        d.end()


def two_copies_and_two_nodes_at_once():
    """What has no second copy any more is read again; while it is, its next copy is made, and takes its place."""
    with Slow(nodes=6, replicas="2") as d:
        for i in (1, 2):
            d.lose(i)
        node, reader = d.wait_reader()
        check([owner for owner, _ in owners_of(d.nodes[node].proc.pid)].count(1) == 1, "the keys of manager 1 did not begin anew")
        d.run("fill", "mine", 60, 100)
        wait_for("a second copy of what began anew", lambda: any("the keys of manager 1 have a second copy again" in t for t in d.said()), 40, pace=0.05)
        d.lose(node)
        d.wait_reader(reader)
        d.run("verify", "mine", 60, 100, node=d.left()[0])
        d.s3.serving.set()
        d.wait_refilled(1)
        d.is_whole()
        d.run("verify", "mine", 60, 100, node=d.left()[-1])
        d.end()


def two_managers_of_a_node_are_read_on_two_nodes():
    """Each child puts what is of its owner, also where the set's description is of the other one."""
    with Slow(nodes=3, managers=6) as d:
        d.lose(1)
        wait_for("two children", lambda: len(d.readers()) == 2, 30, pace=0.05)
        d.pids.update(d.readers().values())
        d.s3.serving.set()
        pattern = r"has read again [1-9]\d* items? of 1 data set in .* had lost of manager (\d)"
        wait_for("both to be read", lambda: {m.group(1) for m in (re.search(pattern, t) for t in d.said()) if m} == {"1", "4"}, 30, pace=0.05)
        d.is_whole()
        d.end()


def the_end_does_not_wait_for_a_child():
    with Slow(nodes=3) as d:
        d.lose(1)
        d.wait_reader()
        d.end()


def who_waits_for_a_source_is_answered_when_the_dictionary_drains():
    with Slow(nodes=3) as d:
        a, key = d.ask(0), keys_of(d, 1, 1)[0]
        d.lose(1)
        node, pid = d.wait_reader()
        a.say("get", key)
        d.nodes[0].write("drain\n")
        code, ms, text = a.answer(20)
        check(code == EKEYLOST and d.node_name(1) in text, "%d after %d ms, %r" % (code, ms, text))
        wait_for("the end of the child", lambda: pid not in d.readers().values(), 20, pace=0.05)
        d.end()


# --- what is saved while a set is read again ---
def manifest_of(folder, name="manifest.json"):
    with open(os.path.join(folder, name)) as f:
        return json.load(f)


def it_is_saved_while_a_child_reads():
    """The last pass does not wait: it has what is there, and says that keys were lost; it knows that all was loaded."""
    for form in ("parts", "files"):
        with tempfile.TemporaryDirectory(prefix="ddict-refill-", dir=BUILD) as folder:
            args = ["--save", folder, "--save-after-load"] + (["--save-prefix", ""] if form == "files" else [])
            with Slow(nodes=3, args=args) as d:
                command(d, 0, "restore", "--loaded")
                keys = d.fill(10)
                d.lose(1)
                d.wait_reader()
                d.end(40)
                check(not any("NOT ALL WAS SAVED" in d.nodes[i].stderr() for i in d.left()), "%r" % [d.nodes[i].stderr() for i in d.left()])
            if form == "parts":
                m = manifest_of(folder)
                check(m["lost"] and m["items"] > 20, "%r" % m)
            else:
                there = set(os.listdir(folder))
                check(there >= set(keys[0] + keys[2]) and not there & set(keys[1]), "%r" % there)


def a_save_waits_for_a_child_and_says_what_is_lost():
    with tempfile.TemporaryDirectory(prefix="ddict-refill-", dir=BUILD) as folder, Slow(nodes=3) as d:
        keys, to = d.fill(10), os.path.join(folder, "saved")
        d.lose(1)
        d.wait_reader()
        p = subprocess.Popen([os.path.join(BUILD, "ddict"), "save", "--json", to], env=d.env(2), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = p.stderr.readline()
        check("are read again now; waiting for that" in line, line)
        check(p.poll() is None and not os.path.exists(to), "it did not wait")
        d.s3.serving.set()
        out, err = p.communicate(timeout=60)
        check(p.returncode == 0 and json.loads(out)["lost"] and "lost with a node before they could be saved" in err, "%d: %s%s" % (p.returncode, out, err))
        check(manifest_of(to)["lost"], "%r" % manifest_of(to))
        d.is_whole()
        a = d.ask(0)
        a.does("clear")
        command(d, 0, "restore", to)
        for m in (0, 2):
            for key in keys[m]:
                a.has(key, m)
        p = subprocess.run([os.path.join(BUILD, "ddict"), "save", "--json", os.path.join(folder, "one.ddict")], env=d.env(2), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        check(p.returncode == 0 and "lost" not in json.loads(p.stdout), "behind a clear: %r" % p)
        d.is_whole()
        d.end()


def a_source_that_is_away_for_a_moment_is_read_again():
    with tempfile.TemporaryDirectory(prefix="ddict-refill-", dir=BUILD) as folder, Refilled() as d:
        files = folder_of_files(folder)
        command(d, 0, "load", os.path.join(folder, "in"), "--prefix=in/")
        os.rename(os.path.join(folder, "in"), os.path.join(folder, "away"))
        d.lose(1)
        wait_for("a first try", lambda: any("it is tried again in 5 s" in d.nodes[i].stderr() for i in d.left()), 30, pace=0.05)
        os.rename(os.path.join(folder, "away"), os.path.join(folder, "in"))
        d.wait_refilled(1)
        said = [t for t in d.said() if "has read again" in t]
        check(len(said) == 1 and said[0].endswith("; what no set has is lost"), "%r" % said)
        files_of(d, 2, folder, files)
        d.end()


# --- what is said ---
def the_record_tells_of_it():
    with tempfile.TemporaryDirectory(prefix="ddict-refill-", dir=BUILD) as folder:
        log = os.path.join(folder, "log")
        with Refilled(args=["--record", log]) as d:
            d.lose(1)
            d.wait_refilled(1)
            d.end()
        lines = [json.loads(x) for x in open(log)]
        events = [x["event"] for x in lines]
        check(events == ["start", "node_lost", "refill", "refill", "refill", "job_end"], "%r" % events)
        check([x["manager"] for x in lines[2:5]] == [1, 1, 1] and lines[3]["node"] in (d.node_name(0), d.node_name(2)), "%r" % lines[2:4])
        out = subprocess.run([os.path.join(BUILD, "ddict"), "report", log], stdout=subprocess.PIPE, check=True, text=True).stdout
        check(out.count("begin anew on node " + lines[3]["node"]) == 1, out)


if __name__ == "__main__":
    main([three_nodes_one_is_lost, three_nodes_node_0_is_lost, two_nodes_one_is_lost, four_nodes_lose_one_after_the_other, calls_that_are_on_their_way_are_answered,
          clear_and_keys_after_a_loss, a_frozen_dictionary_goes_on, a_manager_that_dies_too_often_takes_its_node_along, who_began_anew_dies_and_comes_back,
          who_began_anew_is_lost_for_good, a_node_without_room_gets_nothing, two_copies_and_both_are_lost, a_loaded_set_is_read_again, a_source_that_has_changed_is_not_read_again,
          another_node_is_lost_while_a_child_reads, the_node_that_reads_is_lost_too, managers_are_killed_while_a_child_reads,
          who_began_anew_dies_too_often_while_a_child_reads, two_losses_one_after_another, two_copies_and_two_nodes_at_once, two_managers_of_a_node_are_read_on_two_nodes, the_end_does_not_wait_for_a_child, who_waits_for_a_source_is_answered_when_the_dictionary_drains,
          it_is_saved_while_a_child_reads, a_save_waits_for_a_child_and_says_what_is_lost, a_wait_without_a_time_is_as_long_as_ever,
          a_source_that_is_away_for_a_moment_is_read_again, the_record_tells_of_it], limit=180)
