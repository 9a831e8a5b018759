# SPDX-License-Identifier: Apache-2.0
"""Several ddictds of one dictionary on this host, without Slurm: cards travel through us (--wireup stdio).

Every wait has a limit; leaving the `with` block ends everything that was started and checks that nothing is left.
"""
import base64
import hashlib
import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("DDICT_BUILD", os.getcwd())
DDICTD = os.path.join(BUILD, "ddictd")
TRANSPORT = os.environ.get("DDICT_TEST_TRANSPORT")  # of every dictionary of several nodes: as ddictd --transport
RMA = os.environ.get("DDICT_TEST_RMA")  # with it: as ddictd --rma
WIRE = os.environ.get("DDICT_TEST_WIRE")  # likewise: as ddictd --wire
PROBE = os.path.join(BUILD, "tests", "local", "probe")


class Failed(Exception):
    pass


def check(ok, what):
    if not ok:
        raise Failed(what)


def wait_for(what, fn, seconds=10.0, pace=0.005):
    """Wait until fn() is true; its value. seconds: where nothing else runs; a busy machine gets four times as many. pace: between two looks."""
    end = time.monotonic() + 4 * seconds
    while True:
        value = fn()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed("not within %g s: %s" % (4 * seconds, what))
        time.sleep(pace)


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return []


def comm(pid):
    """Its name, which tells what it is of; "": it has ended."""
    try:
        with open("/proc/%d/comm" % pid) as f:
            return f.read().strip()
    except OSError:
        return ""


def managers_of(pid):
    """Its children but the one that may be writing the record."""
    return [child for child in children(pid) if comm(child).rsplit(":", 1)[-1].isdigit()]


def owners_of(pid):
    """With --replicas=2, of a ddictd: (owner, process) of those of its children that hold the copy of another node's manager, or took its place."""
    found = [(re.fullmatch(r"ddictd:(\d+)s", comm(child)), child) for child in children(pid)]
    return [(int(word.group(1)), child) for word, child in found if word]


def shadows_of(pid):
    """The processes alone."""
    return [child for _, child in owners_of(pid)]


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def cpu_ms(pid):
    """Processor time of all its threads, as the scheduler measured it: a tick is counted for who runs when it comes."""
    ms = 0.0
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
                ms += int(f.read().split()[0]) / 1e6
    except FileNotFoundError:  # a kernel that does not say it
        pass
    if ms > 0:
        return ms
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000.0 / os.sysconf("SC_CLK_TCK")


def gather_line(cards, digest=None, secret=None):
    """What the starter says when it has all cards."""
    digest = digest or hashlib.blake2b(" ".join(cards).encode(), digest_size=32).digest()
    return "gather %s %s %s\n" % (base64.b64encode(digest).decode(), base64.b64encode(secret or os.urandom(32)).decode(), cards[0])


def memory_cgroup():
    """The folder of ours, and whether it is of v2; None: there is none."""
    paths, found = {}, {}
    with open("/proc/self/cgroup") as f:
        for line in f:
            number, controllers, path = line.rstrip("\n").split(":", 2)
            if number == "0" or "memory" in controllers.split(","):
                paths[number == "0"] = path
    with open("/proc/self/mountinfo") as f:
        for line in f:
            mount, rest = line.split(" - ", 1)
            root, at = mount.split()[3:5]
            kind, words = rest.split()[0], rest.split()[-1].split(",")
            v2 = kind == "cgroup2"
            if v2 in found or v2 not in paths or not (v2 or kind == "cgroup" and "memory" in words):
                continue
            below = paths[v2].removeprefix(root.rstrip("/"))
            found[v2] = at + ("" if below == "/" or ".." in below else below)
    for v2 in (False, True):
        if v2 in found and os.path.exists(os.path.join(found[v2], "memory.events" if v2 else "memory.oom_control")):
            return found[v2], v2
    return None


class Disk:
    """A folder of ours on the disk of the build; None where that is memory."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="ddict-spill-", dir=BUILD)
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.path], stdout=subprocess.PIPE, text=True).stdout.strip()
        return self.path if kind not in ("tmpfs", "ramfs") else None

    def __exit__(self, *a):
        os.rmdir(self.path)  # fails when something is in it


class Node:
    """One ddictd."""

    def __init__(self, argv, env, name):
        self.name = name
        self.lines = []
        self.buffer = b""
        self.eof = False
        self.err = open("/tmp/ddict-test-%d-%s.err" % (os.getpid(), name), "w+b")
        os.unlink(self.err.name)
        self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.err, env=env)
        self.managers = []

    def read(self, seconds):
        """Take what comes on stdout for at most so long; True when there was something."""
        if self.eof:
            return False
        if not select.select([self.proc.stdout], [], [], seconds)[0]:
            return False
        data = os.read(self.proc.stdout.fileno(), 1 << 16)
        if not data:
            self.eof = True
        self.buffer += data
        *whole, self.buffer = self.buffer.split(b"\n")
        self.lines += [w.decode() for w in whole]
        return bool(data)

    def line(self, start, seconds=15.0):
        """The first line `ddict1 START...`; without "ddict1 ". seconds: where nothing else runs; a busy machine gets four times as many."""
        end = time.monotonic() + 4 * seconds
        while True:
            for text in self.lines:
                if text.startswith("ddict1 " + start):
                    return text[7:]
            left = end - time.monotonic()
            if left <= 0 or self.eof:
                raise Failed("node %s: no line %r; lines %r; stderr %s" % (self.name, start, self.lines, self.stderr()))
            self.read(min(left, 0.2))

    def has(self, start):
        while self.read(0):
            pass
        return any(t.startswith("ddict1 " + start) for t in self.lines)

    def stderr(self):
        self.err.flush()
        return os.pread(self.err.fileno(), 1 << 16, 0).decode(errors="replace")

    def write(self, text):
        self.proc.stdin.write(text.encode())
        self.proc.stdin.flush()

    def close_stdin(self):
        try:
            self.proc.stdin.close()
        except OSError:
            pass

    def wait(self, seconds=10.0):
        """Exit code. seconds: where nothing else runs; a busy machine gets four times as many."""
        end = time.monotonic() + 4 * seconds
        while self.proc.poll() is None:
            if time.monotonic() > end:
                raise Failed("node %s: ddictd does not end; stderr %s" % (self.name, self.stderr()))
            if not self.read(0.01):
                time.sleep(0.002)
        while self.read(0):
            pass
        return self.proc.returncode


class Dictionary:
    """via: for each node the words before its command, such as those that enter a network namespace. meanwhile(self): before the nodes hear of each other.
    says(self, i): the starter's line for node i where it is not the right one."""

    def __init__(self, nodes=1, managers=1, mem="64M", env=None, args=(), ready=True, drain_ms=300, node_env=None, node_args=None, name=None,
                 via=None, meanwhile=None, says=None):
        self.tag = "%d.%x" % (os.getpid(), random.getrandbits(32))
        self.name = name or "%d.local.%s" % (os.getuid(), self.tag)
        self.n = nodes
        self.nodes = []
        self.via = via
        self.lost = set()
        self.pids = set()
        for i in range(nodes):
            argv = [*(via[i] if via else ()), DDICTD, "--name", self.name, "--managers", str(managers), "--mem", str(mem), "--drain-ms", str(drain_ms),
                    "--node", self.node_name(i), *args, *((node_args or {}).get(i, ()))]
            if nodes > 1 and TRANSPORT:
                argv += ["--transport", TRANSPORT, "--rma", RMA or "auto"]
            if nodes > 1 and WIRE and "--wire" not in args:
                argv += ["--wire", WIRE]
            if nodes > 1:
                argv += ["--wireup", "stdio", "--nodes", str(nodes), "--node-id", str(i)]
            full = dict(os.environ, **(env or {}), **((node_env or {}).get(i, {})))
            self.nodes.append(Node(argv, full, self.node_name(i)))
        if nodes > 1:
            self.cards = [self.nodes[i].line("card %d " % i).split()[2] for i in range(nodes)]
            if meanwhile:
                meanwhile(self)
            gather = gather_line(self.cards)
            for i, node in enumerate(self.nodes):
                node.write(says(self, i) if says else gather)
        if ready:
            self.wait_ready()

    def node_name(self, i):
        return "n%d-%s" % (i, self.tag)

    def wait_ready(self):
        self.ready = self.nodes[0].line("ready")
        for node in self.nodes:
            node.managers = wait_for("managers", lambda: managers_of(node.proc.pid))
            self.pids.update(node.managers, [node.proc.pid])

    def env(self, node=0):
        return dict(os.environ, DDICT_NAME=self.name, DDICT_NODE=self.node_name(node))

    def prefix(self, node):
        """What makes a command run where the node is."""
        return list(self.via[node]) if self.via else []

    def probe(self, *args, node=0, **kw):
        """Start the test client; a Popen with stdin and stdout as text."""
        return subprocess.Popen([*self.prefix(node), PROBE, *map(str, args)], env=self.env(node), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **kw)

    def run(self, *args, node=0, seconds=60, code=0):
        """Run the test client to its end; its output."""
        p = self.probe(*args, node=node, stderr=subprocess.STDOUT)
        try:
            out = p.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            p.kill()
            raise Failed("probe %s: not within %g s: %s" % (" ".join(map(str, args)), seconds, p.communicate()[0]))
        check(code is None or p.returncode == code, "probe %s: exit code %d: %s" % (" ".join(map(str, args)), p.returncode, out))
        return out

    def stats(self, node=0):
        """Figures of all managers, by id."""
        out = self.run("stats", node=node)
        return {s["manager_id"]: s for s in map(json.loads, out.splitlines())}

    def manager_pid(self, m):
        return self.stats()[m]["pid"]

    def left(self):
        """The nodes that were not lost."""
        return [i for i in range(self.n) if i not in self.lost]

    def pids_of(self, i):
        """A ddictd, its managers and shadows."""
        pid = self.nodes[i].proc.pid
        found = [pid, *children(pid)]
        self.pids.update(found)
        return found

    def said(self):
        """All lines of remaining nodes."""
        for node in self.nodes:
            while node.read(0):
                pass
        return [text for i in self.left() for text in self.nodes[i].lines]

    def copies(self):
        """By owner, what who decides has said last of its keys: True: two copies again, False: one."""
        found = {}
        for text in self.said():
            m = re.search(r"the keys of manager (\d+) (have a second copy again|have no second copy|are served by)", text)
            if m and text.startswith("ddict1 warn"):
                found[int(m.group(1))] = m.group(2) == "have a second copy again"
        return found

    def lose(self, i, others=()):
        """Node i, with other processes of it, as if its power went: SIGSTOP first, so that none sees another one die."""
        pids = [*self.pids_of(i), *others]
        self.lost.add(i)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
        self.nodes[i].proc.wait()

    def end(self, seconds=10.0):
        """The line `drain` to the first node that is left; the report. All that were not lost must end with 0."""
        first = self.nodes[self.left()[0]]
        try:
            first.write("drain\n")
        except (OSError, ValueError):  # it ends already
            pass
        first.close_stdin()
        for node in map(self.nodes.__getitem__, self.left()):
            code = node.wait(seconds)
            check(code == 0, "node %s: exit code %d, stderr %s" % (node.name, code, node.stderr()))
        return self.report()

    def head(self):
        """The node that has said the end; one alone does."""
        said = [node for node in map(self.nodes.__getitem__, self.left()) if node.has("end")]
        check(len(said) == 1, "the end was said by %d nodes: %r" % (len(said), [node.lines for node in self.nodes]))
        return said[0]

    def report(self):
        return json.loads(self.head().line("report", 1)[7:])

    def sockets(self):
        with open("/proc/net/unix") as f:
            return [line for line in f if self.tag in line]

    def check_nothing_left(self):
        wait_for("processes to end: %r" % self.pids, lambda: not any(alive(p) for p in self.pids), 5)
        wait_for("sockets to go", lambda: not self.sockets(), 2)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for node in self.nodes:
            self.pids.update([node.proc.pid], children(node.proc.pid))
            if node.proc.poll() is None:
                node.proc.send_signal(signal.SIGCONT)
                node.proc.kill()
            node.proc.wait()
            node.proc.stdout.close()
            node.close_stdin()
            if kind is not None:
                sys.stderr.write("--- stderr of %s\n%s" % (node.name, node.stderr()))
            node.err.close()
        if kind is None:
            self.check_nothing_left()
        return False


def run_one(n, test, limit):
    """Run it and print its line; whether it was ok."""
    began = time.monotonic()
    signal.alarm(limit)
    try:
        test()
        print("ok %d - %s (%.1f s)" % (n, test.__name__, time.monotonic() - began), flush=True)
        return True
    except Exception as e:  # every failure shall have its line
        print("not ok %d - %s: %s: %s" % (n, test.__name__, type(e).__name__, e), flush=True)
        return False
    finally:
        signal.alarm(0)


class Beside:
    """run_one() in a process of its own, which shares nothing with the next test; its output comes to us when it has ended."""

    def __init__(self, n, test, limit):
        self.n, self.test, self.out = n, test, tempfile.TemporaryFile()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            code = 143
            try:
                os.dup2(self.out.fileno(), 1)
                os.dup2(self.out.fileno(), 2)
                code = 0 if run_one(n, test, limit) else 1
            finally:
                sys.stdout.flush()
                os._exit(code)

    def show(self, status):
        """Whether it was ok."""
        code = os.waitstatus_to_exitcode(status)
        self.out.seek(0)
        print(self.out.read().decode(errors="replace"), end="")
        self.out.close()
        if code not in (0, 1):
            print("not ok %d - %s: its process ended with %d" % (self.n, self.test.__name__, code))
        sys.stdout.flush()
        return code == 0


def run_beside(tests, limit, at_once):
    """Run them, at_once at a time; how many were not ok."""
    left, running, bad = list(enumerate(tests, 1)), {}, 0
    try:
        while left or running:
            while left and len(running) < at_once:
                child = Beside(*left.pop(0), limit)
                running[child.pid] = child
            signal.alarm(limit + 60)  # each has its own limit, and cleans up
            pid, status = os.wait()
            bad += not running.pop(pid).show(status)
    finally:
        signal.alarm(0)
        for number, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 0)):
            for pid in running:
                os.kill(pid, number)
            end = time.monotonic() + seconds
            while running and (number == signal.SIGKILL or time.monotonic() < end):
                pid, status = os.waitpid(-1, 0 if number == signal.SIGKILL else os.WNOHANG)
                if pid:
                    running.pop(pid).show(status)
                else:
                    time.sleep(0.01)
    return bad


def main(tests, limit=120, at_once=1):
    """Run the functions; names are sentences. argv may choose. at_once: so many at a time, of tests that mostly wait; DDICT_TEST_AT_ONCE is another number."""
    chosen = [t for t in tests if len(sys.argv) < 2 or t.__name__ in sys.argv[1:]]
    at_once = min(int(os.environ.get("DDICT_TEST_AT_ONCE") or at_once), len(chosen))
    signal.signal(signal.SIGTERM, lambda *a: sys.exit(143))  # so that all is removed
    signal.signal(signal.SIGALRM, lambda *a: (_ for _ in ()).throw(Failed("time is over")))
    if not os.access(DDICTD, os.X_OK) or not os.access(PROBE, os.X_OK):
        print("no ddictd or probe in", BUILD)
        sys.exit(77)
    print("1..%d" % len(chosen), flush=True)
    if at_once > 1:
        bad = run_beside(chosen, limit, at_once)
    else:
        bad = sum(not run_one(n, test, limit) for n, test in enumerate(chosen, 1))
    sys.exit(1 if bad else 0)
