#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A random run against a model: six processes on two nodes call whatever there is to call, in C and in Python, on values of 0 to 5 MiB, in memory that is nearly full; now and then one is killed
or stands still. Each answer is compared with what it may be (model.h). Needs root, for network namespaces.

    tests/stress/model.py                                          in a build folder: 20 s
    MODEL_SECONDS=1800 MODEL_SEED=7 tests/stress/model.py          longer; a seed draws the same calls, but not the same moments
    MODEL_SPILL=yes|no  MODEL_MEM=BYTES (of a node)                else drawn from the seed
    MODEL_PYTHON=BUILD                                             a build folder with the Python binding, where this one has none (a sanitizer's); without it all processes are in C
"""
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "local"))

from cluster import BUILD, Dictionary, Failed, check, main, wait_for  # noqa: E402
from outage import Link, probe  # noqa: E402

RUN, SETTLE, AUDIT, END = range(4)
CLEARED, RESTORED = 3, 4
WORKERS = 6
IN_PYTHON = (2, 5)
MIB = 1 << 20
SECONDS = float(os.environ.get("MODEL_SECONDS", "20"))
SEED = int(os.environ.get("MODEL_SEED", "0")) or random.SystemRandom().getrandbits(31)
HANGS_S = 240  # without a sign of life, where no call takes longer than 120 s
DDICT = os.path.join(BUILD, "ddict")
CLIENT = os.path.join(BUILD, "tests", "stress", "model_client")
LIBRARY = os.path.join(BUILD, "tests", "stress", ".libs", "libmodel.so")


class Model:
    """The library's functions and the file."""

    def __init__(self, path):
        lib = ctypes.CDLL(LIBRARY)
        lib.model_open.restype = ctypes.c_void_p
        lib.model_open.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint64]
        lib.model_figure.restype = lib.model_now.restype = ctypes.c_uint64
        lib.model_figure.argtypes = [ctypes.c_char_p, ctypes.c_int]
        lib.model_text.restype = lib.model_counted.restype = ctypes.c_char_p
        lib.model_text.argtypes = [ctypes.c_uint, ctypes.c_bool]
        lib.model_counted.argtypes = [ctypes.c_uint, ctypes.POINTER(ctypes.c_uint64)]
        lib.model_phase_set.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
        lib.model_phase_set.restype = lib.model_all.restype = lib.model_killed.restype = None
        self.lib = lib
        lib.model_open(path.encode(), -1, SEED)

    def figure(self, what, worker=-1):
        return self.lib.model_figure(what.encode(), worker)

    def doing(self, worker):
        return self.lib.model_text(worker, True).decode()

    def texts(self):
        return [self.lib.model_text(i, False).decode(errors="replace") for i in range(min(4, self.figure("wrong")))]

    def counts(self):
        found, n, i = {}, ctypes.c_uint64(), 0
        while (name := self.lib.model_counted(i, ctypes.byref(n))) is not None:
            found[name.decode()] = found.get(name.decode(), 0) + n.value
            i += 1
        return found


class Package:
    """The Python binding as a folder for PYTHONPATH; None where there is none."""

    def __enter__(self):
        build = os.environ.get("MODEL_PYTHON", BUILD)
        self.path, libs = None, os.path.join(build, "client", "python", ".libs")
        if os.path.exists(os.path.join(libs, "_ddict.so")) and os.path.exists("/usr/bin/python3"):
            self.path = tempfile.mkdtemp(prefix="ddict-model-")
            os.mkdir(os.path.join(self.path, "ddict"))
            source = os.path.join(HERE, "..", "..", "client", "python", "ddict")
            for path in [os.path.join(source, f) for f in os.listdir(source)] + [os.path.join(libs, f) for f in ("_ddict.so", "_runtime.so")]:
                os.symlink(os.path.abspath(path), os.path.join(self.path, "ddict", os.path.basename(path)))
        return self.path

    def __exit__(self, *error):
        if self.path is not None:
            shutil.rmtree(self.path)


class Run:
    def __init__(self, d, link, model, path, package, folder, rng):
        self.d, self.link, self.model, self.path, self.package, self.folder, self.rng = d, link, model, path, package, folder, rng
        self.kills = self.stops = self.audits = self.saves = self.clears = self.round = 0
        self.stopped = {}  # worker: until when
        self.workers = [self.start(i) for i in range(WORKERS)]

    def start(self, i):
        node = i * 2 // WORKERS
        words, env = [CLIENT], dict(self.d.env(node))
        if i in IN_PYTHON and self.package is not None:
            words = ["/usr/bin/python3", os.path.join(HERE, "model_client.py"), LIBRARY]
            env.update(PYTHONPATH=self.package, PYTHONDONTWRITEBYTECODE="1", PYTHONFAULTHANDLER="1")
        return subprocess.Popen([*self.link.prefix(node), *words, self.path, str(i)], env=env)

    def look(self):
        """Nothing has gone wrong so far."""
        check(self.model.figure("wrong") == 0, "; ".join(self.model.texts()))
        now = self.model.lib.model_now()
        for i, p in enumerate(self.workers):
            check(p.poll() is None, "worker %d ended with %r in %s" % (i, p.returncode, self.model.doing(i)))
            beat = self.model.figure("beat", i)
            if i not in self.stopped and beat != 0 and now > beat and (now - beat) / 1e9 > HANGS_S:
                if shutil.which("gdb"):
                    subprocess.run(["gdb", "-p", str(p.pid), "-batch", "-ex", "thread apply all bt"], timeout=60, stdout=sys.stderr, check=False)
                raise Failed("worker %d gives no sign of life since %.0f s, in %s" % (i, (now - beat) / 1e9, self.model.doing(i)))
        for node in self.d.nodes:
            while node.read(0):
                pass
            check(node.proc.poll() is None and not node.has("error"), "node %s: %r" % (node.name, node.lines))

    def wake(self, all_of_them=False):
        for i, until in list(self.stopped.items()):
            if all_of_them or time.monotonic() > until:
                self.workers[i].send_signal(signal.SIGCONT)
                del self.stopped[i]

    def kill(self, i):
        self.workers[i].kill()
        self.workers[i].wait()
        self.stopped.pop(i, None)
        self.model.lib.model_killed(i)
        self.workers[i] = self.start(i)
        self.kills += 1

    def stop(self, i, seconds):
        self.workers[i].send_signal(signal.SIGSTOP)
        self.stopped[i] = time.monotonic() + seconds
        self.stops += 1

    def work(self, seconds):
        end = time.monotonic() + seconds
        kill_at = stop_at = time.monotonic()
        while time.monotonic() < end:
            time.sleep(self.rng.random() * 0.1)
            self.look()
            self.wake()
            now = time.monotonic()
            if now > kill_at:
                self.kill(self.rng.randrange(WORKERS))
                kill_at = now + self.rng.random() * 8
            if now > stop_at:
                self.stop(self.rng.randrange(WORKERS), 12 if self.rng.random() < 0.1 else self.rng.random() * 3)
                stop_at = now + self.rng.random() * 12
        self.wake(True)

    def reach(self, phase, what, seconds=400):
        self.model.lib.model_phase_set(phase, self.round)
        end = time.monotonic() + seconds
        while any(self.model.figure(what, i) != self.round for i in range(WORKERS)):
            self.look()
            check(time.monotonic() < end, "not all have %s: %r" % (what, [(i, self.model.figure(what, i), self.model.doing(i)) for i in range(WORKERS)]))
            time.sleep(0.02)

    def audit(self):
        self.round += 1
        self.reach(SETTLE, "settled")
        self.reach(AUDIT, "audited")
        self.audits += 1

    def ddict(self, *args):
        p = subprocess.run([*self.link.prefix(0), DDICT, *args], env=self.d.env(0), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        check(p.returncode == 0, "ddict %s: %d %s" % (" ".join(args), p.returncode, p.stdout))

    def whole(self):
        """What concerns all keys at once, while nobody else does anything."""
        what = self.rng.randrange(3)
        if what == 0:
            return
        saved = os.path.join(self.folder, "saved")
        if what == 1:
            self.ddict("save", "-q", saved)
            self.saves += 1
        self.model.lib.model_all(RESTORED if what == 1 else CLEARED)
        run(self.d, self.link, self.rng.randrange(2), "clear")
        self.clears += 1
        if what == 1:
            self.ddict("restore", "-q", saved)
            shutil.rmtree(saved)
        self.audit()

    def end(self):
        self.audit()
        self.model.lib.model_phase_set(END, self.round)
        for i, p in enumerate(self.workers):
            try:
                code = p.wait(120)
            except subprocess.TimeoutExpired:
                raise Failed("worker %d does not end" % i)
            check(code == 0, "worker %d ended with %d" % (i, code))
        check(self.model.figure("wrong") == 0, "; ".join(self.model.texts()))

    def figures(self):
        model = self.model
        print("# %d kills, %d stops, %d audits, %d saves, %d clears; %d changes of keys, %d elements of queues (%d lost, %d could be), %.1f GiB compared" % (
            self.kills, self.stops, self.audits, self.saves, self.clears, model.figure("operations"), model.figure("elements"), model.figure("lost"), model.figure("may_lose"),
            model.figure("bytes") / (1 << 30)))
        print("# " + ", ".join("%s %d" % item for item in sorted(model.counts().items())), flush=True)

    def kill_all(self):
        for p in self.workers:
            p.kill()
            p.wait()


def run(d, link, node, *words):
    p = probe(d, link, node, *words)
    out = p.communicate(timeout=110)[0]
    check(p.returncode == 0, "probe %s: %s" % (" ".join(words), out))
    return out


def stats(d, link):
    return [json.loads(line) for line in run(d, link, 0, "stats").splitlines()]


def a_random_run_differs_nowhere():
    rng = random.Random(SEED)
    spill = os.environ.get("MODEL_SPILL", rng.choice(["yes", "no"])) == "yes"
    managers = rng.choice([1, 2, 3])
    mem = int(os.environ.get("MODEL_MEM", managers * rng.choice([12, 16, 20]) * MIB))
    print("# MODEL_SEED=%d: %d managers a node, %d MiB a node, spill %s" % (SEED, managers, mem // MIB, spill), flush=True)
    folder = tempfile.mkdtemp(prefix="ddict-model-", dir=BUILD)
    path = os.path.join(folder, "table")
    try:
        args = ["--spill", folder, "--spill-size", "%d" % (managers * 12 * MIB)] if spill else []
        with Package() as package, Link("m") as link, \
                Dictionary(nodes=2, managers=managers, mem=str(mem), args=args, via=[link.prefix(0), link.prefix(1)]) as d:
            before = stats(d, link)
            model = Model(path)
            r = Run(d, link, model, path, package, folder, rng)
            try:
                left = SECONDS
                while left > 0:
                    part = min(left, 10 + rng.random() * 50)
                    r.work(part)
                    r.audit()
                    r.whole()
                    model.lib.model_phase_set(RUN, r.round)
                    left -= part
                r.end()
                r.figures()
            except BaseException:
                r.figures()
                raise
            finally:
                r.kill_all()
            nothing_is_held(d, link, before)
            d.end()
            for node in d.nodes:
                check("lost" not in node.stderr() and "anitizer" not in node.stderr(), "stderr: %s" % node.stderr())
    finally:
        shutil.rmtree(folder)


def nothing_is_held(d, link, before):
    run(d, link, 0, "clear")

    def idle():
        return all(s["num_keys"] == 0 and s["leased_bytes"] == 0 and s["retired_bytes"] == 0 and s["spill_used_bytes"] == 0 and s["cached_items"] == 0 and s["clients_now"] <= 1
                   for s in stats(d, link))

    try:
        wait_for("all to be given back", idle, 10)
    except Failed:
        raise Failed("after the end: %r" % stats(d, link))
    for was, now in zip(before, stats(d, link)):
        print("# manager %d: %d bytes used before, %d after" % (now["manager_id"], was["total_used_bytes"], now["total_used_bytes"]))
        check(now["total_used_bytes"] <= was["total_used_bytes"] + MIB, "manager %d has %d bytes, and had %d at first" % (now["manager_id"], now["total_used_bytes"], was["total_used_bytes"]))


if __name__ == "__main__":
    if os.geteuid() != 0 or subprocess.run(["ip", "netns", "list"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        print("skipped: needs the right to make network namespaces")
        sys.exit(77)
    main([a_random_run_differs_nowhere], limit=int(SECONDS * 2 + 1200))
