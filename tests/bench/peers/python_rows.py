# SPDX-License-Identifier: Apache-2.0
"""The Python rows: each side is a separate process (py_side.py), and the sides take turns."""
import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
START_SECONDS = 90
TURN_SECONDS = 120
DRAGON_SECONDS = 240  # for Dragon's rows with 1 manager, and again with 4
END_SECONDS = 20

SMALL = {"len": 1024, "array": False}  # a quarter of --keys
ARRAYS = {"keys": 64, "len": 1 << 20, "array": True}
FEW = {"keys": 1024, "len": 1024, "array": False}  # on 2 cores, puts of more keys to Dragon's 4 managers take minutes
FEW_ARRAYS = {"keys": 16, "len": 1 << 20, "array": True}
SAMPLES = {"keys": 60000, "len": 784, "array": False}  # each with a label
# row: (stored values, operation, calls between two readings of the clock)
WORK = {"py_get": (SMALL, "get", 32), "py_put": (SMALL, "put", 8), "py_view": (ARRAYS, "view", 32), "py_array": (ARRAYS, "get", 1),
        "dragon_get": (FEW, "get", 1), "dragon_put": (FEW, "put", 1), "dragon_put_many": (FEW, "put_many", 1), "dragon_array_get": (FEW_ARRAYS, "get", 1),
        "dragon_array_put": (FEW_ARRAYS, "put", 1), "dragon_view": (FEW_ARRAYS, "view", 1), "ray_get": (FEW, "get", 1), "ray_put": (FEW, "put", 1),
        "py_epoch": (SAMPLES, "epoch", 1), "ray_array_get": (ARRAYS, "get", 1), "ray_array_put": (ARRAYS, "put", 1)}


class Failed(Exception):
    pass


def shm_names():
    return {name for name in os.listdir("/dev/shm") if name.startswith("DD")}


class Side:
    def __init__(self, name, kind, argv, env, folder, n=1):
        self.name, self.kind, self.file, self.have = name, kind, None, None
        self.mark = "DDICT_PEERS_SIDE=%d.%s.%d" % (os.getpid(), kind, time.monotonic_ns())
        self.shm = shm_names()
        path = os.path.join(folder, "side-%d" % time.monotonic_ns())
        self.log = open(path + ".log", "w+")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path)
            s.listen(1)
            s.settimeout(0.2)
            mark, text = self.mark.split("=", 1)
            self.proc = subprocess.Popen([*argv, os.path.join(HERE, "py_side.py"), kind, path, str(n)], env={**env, mark: text}, stdin=subprocess.DEVNULL,
                                         stdout=self.log, stderr=self.log)
            end = time.monotonic() + START_SECONDS
            while self.file is None:
                try:
                    self.file = s.accept()[0]
                except socket.timeout:
                    if self.proc.poll() is not None or time.monotonic() > end:
                        why = self.said()
                        self.end()
                        raise Failed("%s does not start: %s" % (name, why)) from None
        self.file.settimeout(TURN_SECONDS)
        self.lines = self.file.makefile("r")
        self.about = json.loads(self.lines.readline())

    def said(self):
        self.log.seek(0)
        lines = [line for line in self.log.read().splitlines() if line.strip()]
        return lines[-1][:300] if lines else "nothing said"

    def ask(self, **order):
        try:
            self.file.sendall(json.dumps(order).encode() + b"\n")
            reply = self.lines.readline()
        except OSError as e:
            raise Failed("%s: %s: %s" % (self.name, order["op"], e)) from None
        if not reply:
            raise Failed("%s: %s: %s" % (self.name, order["op"], self.said()))
        return json.loads(reply)

    def load(self, what):
        if self.have != what:
            self.ask(op="load", **what)
            self.have = what

    def end(self):
        """Ask the process to end; then kill its remaining processes, which are found by an environment variable of ours."""
        if self.file is not None:
            self.lines.close()
            self.file.close()
        try:
            self.proc.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        mark = self.mark.encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/environ" % pid, "rb") as f:
                    ours = mark in f.read().split(b"\0")
                if ours:
                    os.kill(int(pid), signal.SIGKILL)
            except OSError:
                pass
        self.proc.wait()
        self.log.close()
        if self.kind == "dragon":
            for name in shm_names() - self.shm:
                os.unlink("/dev/shm/" + name)


def run(row, sides, args, extra=()):
    """The figures of one row; extra: (name, side, operation) in addition to the row's own."""
    what, op, piece = WORK[row]
    if what is SMALL:
        what = dict(what, keys=args.keys // 4)
    turns = [(side.name, side, op) for side in sides] + list(extra)
    result = {"row": row, "seconds": args.seconds, "notes": {}, "sides": {name: {"batch": 256 if op == "put_many" else 1, "ns": [], "cpu": []} for name, _, _ in turns}}
    for _, side, _ in turns:
        side.load(what)
    for rep in range(args.reps):
        for k in range(len(turns)):
            name, side, what_op = turns[(k + rep) % len(turns)]
            side.ask(op=what_op, seconds=args.seconds / 8, piece=piece)
            figures = side.ask(op=what_op, seconds=args.seconds, piece=piece)
            result["sides"][name]["ns"].append(figures["ns"] / figures["n"])
            result["sides"][name]["cpu"].append(figures["cpu"] / figures["n"])
    return result


def package(build):
    """A folder for PYTHONPATH with the package of the build tree."""
    stage = tempfile.mkdtemp(prefix="ddict-package-")
    os.mkdir(os.path.join(stage, "ddict"))
    source = os.path.join(HERE, "..", "..", "..", "client", "python", "ddict")
    for name in os.listdir(source):
        if name != "__pycache__":
            os.symlink(os.path.realpath(os.path.join(source, name)), os.path.join(stage, "ddict", name))
    for name in ("_ddict.so", "_runtime.so"):
        os.symlink(os.path.join(build, "client", "python", ".libs", name), os.path.join(stage, "ddict", name))
    return stage


def merge(into, figures, suffix):
    """Merge the figures of a second pass, with another setting of the peer: its sides get other names."""
    for name, side in figures["sides"].items():
        into["sides"][name + suffix if name == "ddict" else name] = side


def python_of(args):
    return args.python if os.access(args.python, os.X_OK) else sys.executable


def epoch_rows(args, names, d, folder, build, show, missing):
    """A pass of torch's DataLoader: as it is used with a TensorDataset in memory, and with whole batches from either side."""
    python = python_of(args)
    if subprocess.run([python, "-c", "import torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        return missing.append("the epoch of a DataLoader: no torch in %s (Debian: apt install python3-torch)" % python)
    stage, sides = package(build), []
    env = dict(d.env(), PYTHONPATH=stage, PYTHONDONTWRITEBYTECODE="1")
    few = argparse.Namespace(**dict(vars(args), reps=min(args.reps, 5)))  # an epoch takes a second
    try:
        for name, kind in (("ddict", "our_epoch"), ("TensorDataset", "epoch"), ("TensorDataset, whole batches", "whole_epoch")):
            sides.append(Side(name, kind, [python], env, folder))
        for name in names:
            show(name, run(name, sides, few))
    except Failed as e:
        for name in names:
            show(name, {"row": name, "failed": str(e)})
    finally:
        for side in reversed(sides):
            side.end()
        subprocess.run(["rm", "-rf", stage], check=True)


def local_rows(args, names, d, folder, build, show, missing):
    """Comparisons with Python's own means."""
    stage = package(build)
    env = dict(d.env(), PYTHONPATH=stage, PYTHONDONTWRITEBYTECODE="1")
    sides = []
    try:
        for kind in ("ddict", "dict", "shared_memory", "manager"):
            sides.append(Side(kind, kind, [python_of(args)], env, folder))
        for name in names:
            extra = [(s.name + ", untouched", s, "get_untouched") for s in sides[:2]] if name == "py_get" else []
            show(name, run(name, sides, args, extra))
    except Failed as e:
        for name in names:
            show(name, {"row": name, "failed": str(e)})
    finally:
        for side in sides:
            side.end()
        subprocess.run(["rm", "-rf", stage], check=True)


def dragon_rows(args, names, d, folder, build, show, missing):
    """Comparisons with Dragon's dictionary in its best setting of 1 and 4 managers, frozen or not."""
    launcher = os.path.join(args.venv or "", "bin", "dragon")
    if args.venv is None or not os.access(launcher, os.X_OK):
        return missing.append("Dragon: python3 -m venv FOLDER && FOLDER/bin/pip install dragonhpc numpy, and --venv FOLDER")
    stage, rows = package(build), {}
    env = dict(d.env(), PYTHONPATH=stage, PYTHONDONTWRITEBYTECODE="1")
    try:
        for n in (1, 4):
            sides, end = [], time.monotonic() + DRAGON_SECONDS
            theirs = dict(os.environ, PATH=os.path.dirname(launcher) + ":" + os.environ["PATH"], PYTHONDONTWRITEBYTECODE="1")
            try:
                sides.append(Side("ddict", "ddict", [python_of(args)], env, folder))
                sides.append(Side("dragon %d" % n, "dragon", [launcher, "-s"], theirs, folder, n))
                for name in names:
                    if time.monotonic() > end:
                        raise Failed("no time for %s and what follows (%d s)" % (name, DRAGON_SECONDS))
                    frozen = [("dragon %d frozen" % n, sides[1], "get_frozen")] if name in ("dragon_get", "dragon_array_get", "dragon_view") else []
                    figures = run(name, sides, args, frozen)
                    if name in rows:
                        merge(rows[name], figures, ", beside 4")
                    else:
                        rows[name] = figures
            except Failed as e:
                missing.append("Dragon with %d manager%s: %s" % (n, "" if n == 1 else "s", e))
            finally:
                for side in reversed(sides):
                    side.end()
    finally:
        subprocess.run(["rm", "-rf", stage], check=True)
    for name in names:
        show(name, rows.get(name, {"row": name, "failed": "no figures"}))


def ray_rows(args, names, d, folder, build, show, missing):
    """Comparisons with Ray's object store. Its objects are immutable and have no keys, so a dict holds their references."""
    python = os.path.join(args.venv or "", "bin", "python3")
    if args.venv is None or subprocess.run([python, "-c", "import ray"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        return missing.append("Ray: FOLDER/bin/pip install ray numpy in the environment of --venv FOLDER")
    stage, sides = package(build), []
    env = dict(d.env(), PYTHONPATH=stage, PYTHONDONTWRITEBYTECODE="1")
    try:
        sides.append(Side("ddict", "ddict", [python_of(args)], env, folder))
        sides.append(Side("ray", "ray", [python], dict(os.environ, RAY_USAGE_STATS_ENABLED="0", PYTHONDONTWRITEBYTECODE="1"), folder))
        for name in names:
            show(name, run(name, sides, args))
    except Failed as e:
        missing.append("Ray: %s" % e)
    finally:
        for side in reversed(sides):
            side.end()
        subprocess.run(["rm", "-rf", stage], check=True)
