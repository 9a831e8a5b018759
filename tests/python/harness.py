# SPDX-License-Identifier: Apache-2.0
"""Dictionaries for the tests: real ddictd processes on this host, one or several nodes, gone when the test is over."""

import base64
import hashlib
import os
import re
import selectors
import subprocess
import sys
import time
import unittest

import ddict

DDICTD = os.environ["DDICT_TEST_DDICTD"]
START_S = 60
STOP_S = 60


class Node:
    """One ddictd and the lines it says."""

    def __init__(self, name, args, node, program=DDICTD):
        env = dict(os.environ, DDICT_NODE=node)
        env.pop("DDICT_NAME", None)
        self.node = node
        self.lines = []
        self.partial = b""
        self.process = subprocess.Popen([program, "--name", name, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        os.set_blocking(self.process.stdout.fileno(), False)

    def wait_line(self, start, seconds):
        """The first line that begins so; the handshake's other lines are kept."""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                for line in self.lines:
                    if line.startswith(start):
                        return line
                    if line.startswith("ddict1 error"):
                        raise RuntimeError(line)
                left = end - time.monotonic()
                if left <= 0:
                    raise RuntimeError(f"{self.node}: no '{start}' within {seconds} s, only {self.lines}")
                if not selector.select(left):
                    continue
                data = os.read(self.process.stdout.fileno(), 1 << 20)
                if not data:
                    raise RuntimeError(f"{self.node}: ended with {self.process.wait()} before '{start}': {self.lines}")
                *whole, self.partial = (self.partial + data).split(b"\n")
                self.lines += [line.decode() for line in whole if line.startswith(b"ddict1 ")]


class Dictionary:
    """with Dictionary(...) as it: it.attach() -- several nodes are several ddictd on this host, told apart by $DDICT_NODE. beside: another one, on whose nodes
    it is."""

    count = 0

    def __init__(self, managers=2, mem=256 << 20, nodes=1, more=(), program=DDICTD, beside=None):
        Dictionary.count += 1
        self.name = f"py{os.getpid()}.{Dictionary.count}"
        args = ["--managers", str(managers), "--mem", str(mem), "--drain-ms", "500", *more]
        self.nodes = []
        host = beside.name if beside else self.name
        try:
            for i in range(nodes):
                wireup = ["--wireup", "stdio", "--nodes", str(nodes), "--node-id", str(i)] if nodes > 1 else ["--wireup", "none"]
                self.nodes.append(Node(self.name, args + wireup, f"{host}-n{i}", program))
            if nodes > 1:
                cards = [node.wait_line(f"ddict1 card {i} ", START_S).split()[3] for i, node in enumerate(self.nodes)]
                digest = hashlib.blake2b(" ".join(cards).encode(), digest_size=32).digest()
                words = ["gather", base64.b64encode(digest).decode(), base64.b64encode(os.urandom(32)).decode(), cards[0]]
                for node in self.nodes:
                    node.process.stdin.write(f"{' '.join(words)}\n".encode())
                    node.process.stdin.flush()
            self.nodes[0].wait_line("ddict1 ready", START_S)
        except BaseException:
            self.kill()
            raise

    def environment(self, node=0):
        return {"DDICT_NAME": self.name, "DDICT_NODE": self.nodes[node].node}

    def attach(self, node=0, timeout=30, cls=ddict.DDict):
        os.environ["DDICT_NODE"] = self.nodes[node].node
        return cls(self.name, timeout)

    def kill(self):
        for node in self.nodes:
            node.process.kill()
            node.process.wait()
            node.process.stdin.close()
            node.process.stdout.close()

    def lose(self, node):
        """A node, as if its power went: its managers end with its ddictd."""
        gone = self.nodes.pop(node)
        gone.process.kill()
        gone.process.wait()
        gone.process.stdin.close()
        gone.process.stdout.close()

    def stop(self):
        """Drain; what ddictd's exit codes were."""
        for node in self.nodes:
            node.process.stdin.close()
        codes = []
        for node in self.nodes:
            try:
                codes.append(node.process.wait(STOP_S))
            except subprocess.TimeoutExpired:
                codes.append("did not end")
                node.process.kill()
                node.process.wait()
            node.process.stdout.close()
        return codes

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        codes = self.stop()
        if exc[0] is None and any(codes):
            raise AssertionError(f"ddictd ended with {codes}")


class DictTest(unittest.TestCase):
    """Tests that share one dictionary; each finds it empty."""

    managers, mem, nodes = 2, 256 << 20, 1

    @classmethod
    def setUpClass(cls):
        cls.dictionary = Dictionary(cls.managers, cls.mem, cls.nodes)
        cls.d = cls.dictionary.attach()

    @classmethod
    def tearDownClass(cls):
        cls.d.detach()
        del cls.d
        codes = cls.dictionary.stop()
        if any(codes):
            raise AssertionError(f"ddictd ended with {codes}")

    def setUp(self):
        self.d.clear()


def python(code, *args, environment=None, **kw):
    """A Python process that runs code with the package under test."""
    return subprocess.Popen([sys.executable, "-c", code, *args], env={**os.environ, **(environment or {})}, **kw)


def module_or_skip(name):
    try:
        return __import__(name)
    except ImportError:
        raise unittest.SkipTest(f"no {name} in {sys.executable}")


def mem_available():
    with open("/proc/meminfo") as f:
        return int(re.search(r"MemAvailable:\s+(\d+)", f.read())[1]) << 10
