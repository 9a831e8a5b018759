#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Somebody between two nodes who reads, changes, repeats and cuts what they send each other. Needs root.

Each node has a network namespace with one neighbour, a namespace of ours that has the other node's address: whatever the nodes say to each other they say to us.
Invariants: with auth and encrypt no wrong byte is ever read, what was acknowledged is there, and the manager says what happened; with encrypt we read nothing.
"""
import ctypes
import os
import re
import select
import socket
import subprocess
import sys
import threading
import time

from cluster import BUILD, PROBE, Dictionary, check, main, wait_for

COMMAND = os.path.join(BUILD, "ddict")
CLONE_NEWNET = 0x40000000
HANDSHAKE = 400  # bytes of one direction from which on nothing belongs to the handshake any more
CONTROL = 2      # enum conn_role
DATA = 12        # MSG_DATA
CHANGED = "is not what it sent: somebody on the network changes it or sends it again"


def ip(*args):
    subprocess.run(["ip", *args], check=True, stdin=subprocess.DEVNULL)


def socket_in(namespace):
    """A TCP socket of another network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as home, open("/run/netns/" + namespace) as there:
        check(libc.setns(there.fileno(), CLONE_NEWNET) == 0, "setns")
        try:
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        finally:
            check(libc.setns(home.fileno(), CLONE_NEWNET) == 0, "setns")


class Between:
    """change(data, role, seen): what goes on instead of data, of a connection of this role, after `seen` bytes of this direction; None: cut."""

    def __init__(self, tag):
        self.nodes = ["ddict-mitm-%d-%s%d" % (os.getpid(), tag, i) for i in (0, 1)]
        self.ours = [name + "x" for name in self.nodes]
        self.change = None
        self.heard = []     # all that went by
        self.touched = 0    # how often something was changed
        self.listeners, self.threads, self.stop = [], [], False

    def address(self, i):
        return "10.197.%d.%d" % (os.getpid() % 250, i + 1)

    def __enter__(self):
        try:
            for name in self.nodes + self.ours:
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
            for i in (0, 1):
                ip("-n", self.nodes[i], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", self.ours[i])
                for name, address in ((self.nodes[i], self.address(i)), (self.ours[i], self.address(1 - i))):
                    ip("-n", name, "address", "add", address + "/24", "dev", "eth0")
                    ip("-n", name, "link", "set", "eth0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        self.stop = True
        for t in self.threads:
            t.join(10)
        for s in self.listeners:
            s.close()
        for name in self.nodes + self.ours:
            if os.path.exists("/run/netns/" + name):
                ip("netns", "del", name)

    def prefix(self, i):
        return ["ip", "netns", "exec", self.nodes[i]]

    def listen(self, d):
        """Listen where the nodes listen."""
        for i, node in enumerate(d.nodes):
            ports = set()
            for name in ("tcp", "tcp6"):
                with open("/proc/%d/net/%s" % (node.proc.pid, name)) as f:
                    ports.update(int(w[1].rsplit(":", 1)[1], 16) for w in (line.split() for line in list(f)[1:]) if w[3] == "0A")
            check(ports, "node %d listens nowhere" % i)
            for port in ports:
                s = socket_in(self.ours[1 - i])
                s.bind((self.address(i), port))
                s.listen(64)
                self.listeners.append(s)
                self.start(self.accept, s, i, port)

    def start(self, *args):
        t = threading.Thread(target=args[0], args=args[1:], daemon=True)
        self.threads.append(t)
        t.start()

    def accept(self, s, i, port):
        while not self.stop:
            if select.select([s], [], [], 0.1)[0]:
                a = s.accept()[0]
                b = socket_in(self.ours[i])
                b.connect((self.address(i), port))
                self.start(self.pump, a, b)

    def pump(self, a, b):
        other, seen, role = {a: b, b: a}, {a: 0, b: 0}, 0
        try:
            while not self.stop:
                for s in select.select([a, b], [], [], 0.1)[0]:
                    data = s.recv(1 << 16)
                    if not data:
                        return
                    if s is a and seen[a] == 0:
                        role = int.from_bytes(data[12:16], "little")
                    if role != CONTROL:
                        self.heard.append(data)
                    if self.change and seen[s] + len(data) > HANDSHAKE:
                        was, data = data, self.change(data, role, seen[s])
                        self.touched += data != was
                        if data is None:
                            return
                        seen[s] += len(was)
                    else:
                        seen[s] += len(data)
                    other[s].sendall(data)
        except OSError:
            pass
        finally:
            a.close()
            b.close()

    def dictionary(self, *args, managers=2):
        return Dictionary(nodes=2, managers=managers, mem="256M", via=[self.prefix(0), self.prefix(1)], args=args, meanwhile=self.listen)

    def run(self, d, node, *args, command=None):
        return subprocess.run([*self.prefix(node), *(command or [PROBE]), *map(str, args)], env=d.env(node), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=100)

    def ran(self, d, node, *args, command=None):
        p = self.run(d, node, *args, command=command)
        check(p.returncode == 0, "%r on node %d: exit code %d: %s" % (args, node, p.returncode, p.stdout))
        return p.stdout


def flip(data, role, seen):
    """A byte in the middle of what is large: of values."""
    if role == CONTROL or len(data) < 20000:
        return data
    return data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1:]


def flip_small(data, role, seen):
    return data if role == CONTROL else data[:-1] + bytes([data[-1] ^ 1])


def twice(data, role, seen):
    return data if role == CONTROL else data + data


def cut(data, role, seen):
    return data if role == CONTROL else None


def stderr(d):
    return d.nodes[0].stderr() + d.nodes[1].stderr()


def a_changed_value_is_a_value_without_protection():
    """Else the other tests would show nothing."""
    with Between("p") as m, m.dictionary("--wire", "plain") as d:
        m.ran(d, 0, "fill", "v", 20, 1000000)
        m.change = flip
        p = m.run(d, 0, "verify", "v", 20, 1000000)
        check(p.returncode == 1 and "wrong bytes" in p.stdout, "%d: %s" % (p.returncode, p.stdout))
        m.change = None
        d.end()


def with_protection(mode):
    with Between(mode[0]) as m, m.dictionary("--wire", mode, "--restarts", "0") as d:
        for prefix, size in (("v", 1000000), ("s", 2000)):
            m.ran(d, 0, "fill", prefix, 20, size)
            m.ran(d, 0, "verify", prefix, 20, size)
        for how, changes, prefix, size in (("verify", flip, "v", 1000000), ("view", flip, "v", 1000000), ("verify", flip_small, "s", 2000), ("verify", twice, "s", 2000),
                                           ("verify", cut, "v", 1000000), ("fill", flip, "new", 1000000), ("fill", flip_small, "new", 2000), ("fill", cut, "new", 1000000)):
            what = "%s, %s of %d bytes" % (changes.__name__, how, size)
            said, touched = stderr(d).count(CHANGED), m.touched
            m.change = changes
            p = m.run(d, 0, how, prefix, 20, size)
            m.change = None
            check(m.touched > touched, "%s: nothing was touched" % what)
            ended = p.returncode == 1 and "is lost" in p.stdout or p.returncode == 0 and changes is twice  # what was said twice may have been the last word
            check(ended and "wrong bytes" not in p.stdout, "%s: %d: %s" % (what, p.returncode, p.stdout))
            if changes is not cut:
                wait_for("%s: the line that says so" % what, lambda: stderr(d).count(CHANGED) > said)
            m.ran(d, 0, "verify", "v", 20, 1000000)  # by new connections
            m.ran(d, 1, "view", "s", 20, 2000)
        d.end()


def nobody_changes_what_is_authenticated():
    with_protection("auth")


def nobody_changes_what_is_encrypted():
    with_protection("encrypt")


def what_is_changed_is_asked_again_but_not_for_ever():
    with Between("g") as m, m.dictionary("--wire", "auth") as d:
        m.ran(d, 0, "fill", "v", 20, 1000000)
        left = [True]

        def once(data, role, seen):
            changed = flip(data, role, seen)
            return changed if changed != data and left and left.pop() else data

        m.change = once
        m.ran(d, 0, "verify", "v", 20, 1000000)
        check(m.touched == 1 and CHANGED in stderr(d), "%d were changed: %s" % (m.touched, stderr(d)))
        m.change = flip  # each time, behind the beginning of an answer
        p = m.run(d, 0, "verify", "v", 20, 1000000)
        m.change = None
        check(p.returncode == 1 and "is lost" in p.stdout and "wrong bytes" not in p.stdout, "%d: %s" % (p.returncode, p.stdout))
        m.ran(d, 0, "verify", "v", 20, 1000000)
        d.end()


def acknowledged(tag, *args):
    """Of puts of which now and then a message is changed: those that were acknowledged are there. Whether all were."""
    with Between(tag) as m, m.dictionary("--wire", "auth", *args) as d:
        kept, n, puts = [], 0, 0

        def sometimes(data, role, seen):
            nonlocal n
            n += 1
            return flip_small(data, role, seen) if n % 5 == 0 else data

        m.change = sometimes
        for i in range(400):
            if i >= 40 and m.touched > 2:
                break
            p = m.run(d, i % 2, "put", "key-%d" % i, "value %d" % (i * i), command=[COMMAND])
            puts += 1
            if p.returncode == 0:
                kept.append(i)
        m.change = None
        check(m.touched > 2 and 5 < len(kept), "%d were changed, %d of %d acknowledged" % (m.touched, len(kept), i))
        for i in kept:
            out = m.ran(d, 1 - i % 2, "get", "key-%d" % i, command=[COMMAND])
            check(out.strip() == "value %d" % (i * i), "key-%d: %r" % (i, out))
        d.end()
        return len(kept) == puts


def what_was_acknowledged_is_there():
    check(not acknowledged("k", "--restarts", "0"), "nothing was lost")


def what_was_changed_is_put_again():
    check(acknowledged("p"), "a put was not acknowledged")


def who_listens_reads_nothing_of_what_is_encrypted():
    for mode, reads in (("plain", True), ("auth", True), ("encrypt", False)):
        with Between("l" + mode[0]) as m, m.dictionary("--wire", mode) as d:
            for i in range(8):
                m.ran(d, 0, "put", "secret-key-%d" % i, "secret value %d" % i, command=[COMMAND])
            for i in range(8):
                m.ran(d, 1, "get", "secret-key-%d" % i, command=[COMMAND])
            heard = b"".join(m.heard)
            check(len(heard) > 1000, "%d bytes were heard" % len(heard))
            for word in (rb"secret-key-\d", rb"secret value \d"):
                check(bool(re.search(word, heard)) == reads, "%s: %s %s" % (mode, word, "is not heard" if reads else "is heard"))
            d.end()


def what_the_nodes_say_to_each_other_is_protected_always():
    """A beat that is changed; it would have been taken."""
    with Between("c") as m, m.dictionary("--wire", "plain") as d:
        m.change = lambda data, role, seen: data[:-1] + bytes([data[-1] ^ 1]) if role == CONTROL else data
        wait_for("the line that says so", lambda: CHANGED in stderr(d))
        m.change = None
        codes = [node.wait(30) for node in d.nodes]
        check(any(codes), "exit codes %r" % codes)


class Another(Between):
    """Without protection: in the middle of the first piece of a value that manager 0 sends, bytes for the same request come from manager 2, which was not asked."""
    injected = 0

    def pump(self, a, b):
        hello, buffer, role = b"", b"", 0
        try:
            while not self.stop:
                for s in select.select([a, b], [], [], 0.1)[0]:
                    data = s.recv(1 << 16)
                    if not data:
                        return
                    if s is a:
                        hello = (hello + data)[:88]
                        role, to = (int.from_bytes(hello[i:i + 4], "little") for i in (12, 36))
                        if role == 1 and to == 2:
                            self.other = a
                        b.sendall(data)
                    elif role == CONTROL or to != 0 or not self.change or self.injected:
                        a.sendall(data)
                    else:
                        buffer = self.answers(a, buffer + data)
        except OSError:
            pass
        finally:
            a.close()
            b.close()

    def answers(self, a, data):
        """Whole messages of manager 0 go on; what is left."""
        while len(data) >= 64:
            length, kind = int.from_bytes(data[:4], "little"), int.from_bytes(data[4:6], "little")
            if len(data) < length:
                break
            if kind == DATA and not self.injected:
                a.sendall(data[:length - 1])
                time.sleep(0.3)  # they are in their place
                self.other.sendall(data[:48] + (2).to_bytes(4, "little") + data[52:64] + bytes(length - 65))
                time.sleep(0.3)
                a.sendall(data[length - 1:])
                self.injected = length
                return b""
            a.sendall(data[:length])
            data = data[length:]
        return data


def only_who_was_asked_gives_bytes_of_an_answer():
    with Another("o") as m, m.dictionary("--wire", "plain", managers=3) as d:
        m.ran(d, 1, "fill", "s", 50, 100)
        m.ran(d, 0, "fill", "v", 12, 1000000)
        m.change = True
        m.ran(d, 1, "view", "v", 12, 1000000)
        check(m.injected > 1000, "no piece came of manager 0")
        d.end()


def a_network_that_cannot_do_it_is_refused():
    for mode in ("auth", "encrypt"):
        with Dictionary(args=("--wire", mode, "--transport", "ofi"), ready=False) as d:
            code, line = d.nodes[0].wait(), d.nodes[0].line("error")
            check(code != 0 and "wire=%s wants transport=tcp" % mode in line, "%d: %s" % (code, line))
    with Dictionary(args=("--wire", "tls"), ready=False) as d:
        code, line = d.nodes[0].wait(), d.nodes[0].line("error")
        check(code != 0 and "--wire=tls: want plain, auth or encrypt" in line, "%d: %s" % (code, line))


if __name__ == "__main__":
    if os.geteuid() != 0 or subprocess.run(["ip", "netns", "list"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        print("skipped: only root can make network namespaces")
        sys.exit(77)
    main([a_changed_value_is_a_value_without_protection, nobody_changes_what_is_authenticated, nobody_changes_what_is_encrypted,
          what_is_changed_is_asked_again_but_not_for_ever, what_was_acknowledged_is_there, what_was_changed_is_put_again,
          who_listens_reads_nothing_of_what_is_encrypted, what_the_nodes_say_to_each_other_is_protected_always,
          only_who_was_asked_gives_bytes_of_an_answer, a_network_that_cannot_do_it_is_refused])
