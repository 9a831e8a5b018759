#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What others wrote (names in archives, keys, values) and other users of the machine: no line of ours is forged, no terminal is spoken to, no name is kept silently."""
import io
import os
import re
import resource
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

from cluster import BUILD, Dictionary, Failed, check, main, wait_for

COMMAND = os.path.join(BUILD, "ddict")
STRANGER = 65534
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")  # tab and newline are nothing


def as_stranger(code, *args, **kw):
    """A process of another user, which needs root to begin with; None: not root."""
    if os.geteuid() != 0:
        print("# not root: there is no other user to be")
        return None
    return subprocess.Popen([sys.executable, "-c", "import os, socket, sys, time\nos.setgroups([]); os.setgid(%d); os.setuid(%d)\n%s" % (STRANGER, STRANGER, code), *map(str, args)],
                            stdout=subprocess.PIPE, text=True, **kw)


def tar_of(path, *names):
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as t:
        for name in names:
            m = tarfile.TarInfo(name)
            m.size = 3
            t.addfile(m, io.BytesIO(b"abc"))


def no_line_is_forged_by_a_name():
    with tempfile.TemporaryDirectory() as folder:
        tar = os.path.join(folder, "evil.tar")
        forged = "ddict1 ready name=x id=00 managers=1 nodes=1 mem=1"
        tar_of(tar, "a\n%s\nddict1 warn all is well\r\nddict1 end\n/../../x" % forged)
        p = subprocess.run([COMMAND, "up", "--plugin", "--local", "--name", "%d.evil.%d" % (os.getuid(), os.getpid()), "--mem", "32M", "--load=" + tar], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100)
        lines = p.stdout.decode().splitlines()
        check(p.returncode == 1, "exit code %d, %r" % (p.returncode, lines))
        check(not any(x.startswith(("ddict1 ready", "ddict1 warn", "ddict1 exists")) for x in lines), "%r" % lines)
        check(any(x.startswith("ddict1 error ") and "..?ddict1 ready" not in x and "ddict1 ready name=x" in x for x in lines), "%r" % lines)


def no_terminal_is_spoken_to():
    escape = "\x1b]0;owned\x07\x1b[2J\u009b31m"
    with tempfile.TemporaryDirectory() as folder, Dictionary(mem="32M") as d:
        said = b""

        def run(*words):
            p = subprocess.run([COMMAND, *words], env=d.env(), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
            check(not CONTROL.search(p.stdout), "ddict %r says %r" % (words, p.stdout[:400]))
            return p.stdout

        tar_of(os.path.join(folder, "up.tar"), "a%s/../../x" % escape)
        said += run("load", "up.tar")
        tar_of(os.path.join(folder, "twice.tar"), "a" + escape, "b")
        with open(os.path.join(folder, "twice.tar"), "r+b") as f:
            f.truncate(1200)
        said += run("load", "twice.tar", "--on-error=skip")
        tar_of(os.path.join(folder, "x%s.tar" % escape.replace("/", "")), "c")
        said += run("load", "x%s.tar" % escape.replace("/", ""))
        said += run("load", "no%s.tar" % escape.replace("/", ""))
        check(b"?]0;owned??[2J" in said, "it says nothing of them: %r" % said)
        subprocess.run([COMMAND, "put", "--str", "k/..%s" % escape, "v"], env=d.env(), check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.mkdir(os.path.join(folder, "out"))
        said = run("put", "k/..\x1b[2J/../x", "v") + run("save", "--files", "out") + run("ls")
        w = subprocess.Popen([COMMAND, "watch", "w", "--values", "-n", "1", "--timeout", "60"], env=d.env(), stdout=subprocess.PIPE)
        end = time.monotonic() + 60
        while w.poll() is None and time.monotonic() < end:
            run("put", "w", "v\u00e9%s" % escape)
            time.sleep(0.05)
        out = w.communicate()[0]
        check("v\u00e9".encode() in out and not CONTROL.search(out), "%r" % out)
        d.end()


def who_keeps_the_name_of_a_dictionary_is_named():
    for args in ((), ("--stay",)):
        d = Dictionary.__new__(Dictionary)
        tag = "%d.squat%d" % (os.getpid(), len(args))
        name, node = "%d.local.%s" % (os.getuid(), tag), "n0-" + tag
        p = as_stranger("s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.bind('\\0ddict/%s/%s' % (sys.argv[1], sys.argv[2])); s.listen(8)\nprint('here', flush=True); time.sleep(100)",
                        name, node)
        if p is None:
            return
        try:
            check(p.stdout.readline() == "here\n", "the other user has not the name")
            r = subprocess.run([os.path.join(BUILD, "ddictd"), "--name", name, "--managers", "1", "--mem", "16M", "--node", node, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               text=True, timeout=60)
            check(r.returncode == 1 and "uid %d" % STRANGER in r.stdout and "a dictionary" not in r.stdout, r.stdout)
        finally:
            p.kill()
            p.communicate()


def a_stranger_does_not_fill_the_log():
    with Dictionary() as d:
        code = ("for i in range(2000):\n    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n    try:\n        s.connect('\\0ddict/%s/%s' % (sys.argv[1], sys.argv[2]))\n"
                "    except BlockingIOError: pass\n    s.close()\nprint('done', flush=True)")
        p = as_stranger(code, d.name, d.node_name(0))
        if p is not None:
            check(p.communicate(timeout=100)[0] == "done\n", "the other user cannot connect")
            wait_for("its word", lambda: "uid %d" % STRANGER in d.nodes[0].stderr())
            d.run("self")
            lines = [x for x in d.nodes[0].stderr().splitlines() if "uid %d" % STRANGER in x]
            check(1 <= len(lines) <= 10, "%d lines" % len(lines))
        d.end()


def ports_of(pid):
    """That a process listens on, by TCP."""
    inodes = set()
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            inodes.add(os.readlink("/proc/%d/fd/%s" % (pid, fd)))
        except OSError:
            pass
    found = set()
    for name in ("tcp", "tcp6"):
        with open("/proc/%d/net/%s" % (pid, name)) as f:
            for fields in map(str.split, list(f)[1:]):
                if fields[3] == "0A" and "socket:[%s]" % fields[9] in inodes:
                    found.add(int(fields[1].rsplit(":", 1)[1], 16))
    return found


def who_opens_connections_without_end_is_in_nobodys_way():
    """More than a manager, and ddictd, may have descriptors: they stay few, clients attach, and managers and nodes find each other."""
    few = ["prlimit", "--nofile=220:220", "--"]
    code = ("import select\nheld, said = [], False\nwhile not select.select([sys.stdin], [], [], 0)[0]:\n    s = socket.socket()\n    s.settimeout(5)\n"
            "    try: s.connect(('127.0.0.1', int(sys.argv[1])))\n    except OSError: time.sleep(0.01); continue\n    held.append(s)\n"
            "    if len(held) >= 600:\n        if not said: print(len(held), flush=True)\n        said = True\n        held.pop(0).close()\n        time.sleep(0.001)\n")
    with Dictionary(nodes=2, managers=2, via=[few, few]) as d:
        node = d.nodes[1]
        strangers = []
        for port in set().union(*map(ports_of, (*node.managers, node.proc.pid))):
            p = as_stranger(code, port, stdin=subprocess.PIPE)
            if p is None:
                return
            strangers.append(p)
        check(len(strangers) >= 2, "who listens at all?")
        try:
            for p in strangers:
                check(int(p.stdout.readline()) > 220, "the stranger did not get through")
            for i in range(2):
                for key in range(20):
                    subprocess.run([COMMAND, "put", "k%d" % key, "v"], env=d.env(i), check=True, timeout=60)
                    subprocess.run([COMMAND, "get", "k%d" % key], env=d.env(1 - i), check=True, timeout=60, stdout=subprocess.DEVNULL)
            for pid in (*node.managers, node.proc.pid):
                check(len(os.listdir("/proc/%d/fd" % pid)) < 200, "%d has %d descriptors" % (pid, len(os.listdir("/proc/%d/fd" % pid))))
            lines = [x for x in node.stderr().splitlines() if "refused" in x or "turned away" in x]
            check(len(lines) <= 10, "%d lines, such as %s" % (len(lines), lines[:1]))
        finally:
            for p in strangers:
                p.communicate("")
        d.end()


def a_client_that_finds_no_descriptor_costs_nobody_else_anything():
    """Clients until a manager has no descriptor for one more: he is refused, with the reason; the others go on, and he gets in when one has gone."""
    with Dictionary(managers=2) as d:
        held = []
        for pid in d.nodes[0].managers:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (50, 50))
        try:
            refused = ""
            while len(held) < 100 and not refused:
                p = subprocess.Popen([COMMAND, "watch", "--timeout", "200"], env=d.env(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                held.append(p)
                wait_for("it to attach, or not", lambda: p.poll() is not None or mappings(p.pid, 4 << 20), 10)
                if p.poll() is not None:
                    refused = held.pop().communicate()[1]
            check(5 < len(held) < 100 and refused, "%d clients, %r" % (len(held), refused))
            check("descriptor" in refused or "open files" in refused, refused)
            check(d.nodes[0].proc.poll() is None and all(p.poll() is None for p in held), "not only he is gone")
            held.pop().kill()
            wait_for("room for one", lambda: subprocess.run([COMMAND, "put", "k", "v"], env=d.env(), stderr=subprocess.DEVNULL, timeout=60).returncode == 0)
        finally:
            for p in held:
                p.kill()
                p.communicate()
        d.end()


def mappings(pid, least):
    """Of memfds and shared memory that may be written, of at least so many bytes: (bytes, flags)."""
    found, size = [], 0
    with open("/proc/%d/smaps" % pid) as f:
        for line in f:
            m = re.match(r"([0-9a-f]+)-([0-9a-f]+) (....) \S+ \S+ (\d+) *(.*)", line)
            if m:
                size = int(m[2], 16) - int(m[1], 16) if m[3] == "rw-s" and int(m[4]) else 0
            elif line.startswith("VmFlags:") and size >= least:
                found.append((size, line.split()[1:]))
    return found


def a_core_has_no_values():
    for env, dumped in (({}, 0), ({"DDICT_CORE": "all"}, 1)):
        with Dictionary(mem="64M", env=env) as d:
            large = mappings(d.nodes[0].managers[0], 32 << 20)
            check(large, "the manager has no arena")
            check(any("dd" not in flags for _, flags in large) == bool(dumped), "%r" % large)
            d.end()
    with Dictionary(mem="64M") as d:
        p = subprocess.Popen([COMMAND, "watch", "--timeout", "100"], env=d.env(), stdout=subprocess.DEVNULL)
        wait_for("its lease page", lambda: mappings(p.pid, 4 << 20), 10)
        wait_for("it to be left out", lambda: all("dd" in flags for _, flags in mappings(p.pid, 4 << 20)), 2)
        p.kill()
        p.communicate()
        d.end()


main([no_line_is_forged_by_a_name, no_terminal_is_spoken_to, who_keeps_the_name_of_a_dictionary_is_named, a_stranger_does_not_fill_the_log,
      who_opens_connections_without_end_is_in_nobodys_way, a_client_that_finds_no_descriptor_costs_nobody_else_anything, a_core_has_no_values])
