#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The disk of the spill fails: a loop device whose backing store fills, and one that can not be read. Root and loop devices are needed; without them the tests say so and are skipped."""
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile

from cluster import BUILD, Dictionary, Failed, check, main, wait_for

MIB = 1 << 20
CLIENT = os.path.join(BUILD, "tests", "local", "client_disk")


def tool(*words, ok=True):
    p = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    check(not ok or p.returncode == 0, "%r: %s" % (words, p.stdout))
    return p.stdout.strip()


def why_not():
    if os.geteuid() != 0:
        return "not root"
    for name in ("losetup", "mkfs.ext4", "mount", "umount"):
        if shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is None:
            return "no %s" % name
    try:
        with tempfile.NamedTemporaryFile() as f:
            f.truncate(MIB)
            p = subprocess.run(["losetup", "--find", "--show", f.name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=20)
            if p.returncode != 0:
                return "no loop device can be had"
            subprocess.run(["losetup", "--detach", p.stdout.strip()], timeout=20)
    except OSError as e:
        return str(e)
    return None


os.environ["PATH"] += ":/usr/sbin:/sbin"
REASON = why_not()


def page_out(pid, folder):
    """As when memory is short: process_madvise(MADV_PAGEOUT) of what it has mapped of files there."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    with open("/proc/%d/maps" % pid) as f:
        ranges = [[int(x, 16) for x in line.split()[0].split("-")] for line in f if folder in line]
    fd = os.pidfd_open(pid)
    for start, end in ranges:
        for at in range(start, end, 64 * MIB):
            iov = (ctypes.c_uint64 * 2)(at, min(64 * MIB, end - at))
            libc.syscall(440, fd, iov, ctypes.c_size_t(1), 21, 0)
    os.close(fd)


class LoopDisk:
    """An ext4 of `size` bytes on a loop device, whose image lies on a tmpfs of `store` bytes. All of it is gone afterwards, whatever happened."""

    def __init__(self, size, store):
        self.size, self.store, self.device = size, store, None

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="ddict-disk-", dir="/var/tmp")
        self.memory, self.path = os.path.join(self.top, "memory"), os.path.join(self.top, "disk")
        self.image = os.path.join(self.memory, "image")
        self.mounted = []
        try:
            os.mkdir(self.memory)
            os.mkdir(self.path)
            tool("mount", "-t", "tmpfs", "-o", "size=%d" % self.store, "none", self.memory)
            self.mounted.append(self.memory)
            with open(self.image, "wb") as f:
                f.truncate(self.size)
            self.device = tool("losetup", "--find", "--show", self.image)
            tool("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard", self.device)
            tool("mount", "-t", "ext4", self.device, self.path)
            self.mounted.append(self.path)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *a):
        for path in reversed(self.mounted):
            if path == self.memory and self.device:
                tool("losetup", "--detach", self.device, ok=False)
                self.device = None
            if subprocess.run(["umount", path], stderr=subprocess.DEVNULL, timeout=60).returncode != 0:
                tool("umount", "--lazy", path, ok=False)
        if self.device:
            tool("losetup", "--detach", self.device, ok=False)
        for path in (self.path, self.memory, self.top):
            if os.path.isdir(path):
                os.rmdir(path)

    def forget(self, pids):
        """What was read or written is read again from the device: pages of its files leave memory, also those that these processes have mapped."""
        tool("sync", ok=False)
        for pid in pids:
            page_out(pid, self.path + "/")
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("3")

    def lose(self, keep):
        """From now on nothing behind its first bytes can be read: the image ends there."""
        with open(self.image, "r+b") as f:
            f.truncate(keep)


def client(d, *words, node=0, seconds=110):
    p = subprocess.run([CLIENT, *map(str, words)], env=d.env(node), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds)
    check(p.returncode == 0, "%r: exit code %d: %s%s" % (words, p.returncode, p.stdout, p.stderr))
    said = {}
    for line in p.stdout.splitlines():
        said[json.loads(line)["what"]] = json.loads(line)
        print("# " + line, flush=True)
    return said


def skip(fn):
    def run():
        if REASON:
            print("# skipped: " + REASON, flush=True)
            return
        fn()
    run.__name__ = fn.__name__
    return run


@skip
def a_disk_that_loses_writes_loses_no_acknowledged_value():
    with LoopDisk(700 * MIB, 150 * MIB) as disk:
        with Dictionary(mem="64M", args=["--spill", disk.path, "--spill-size", "500M"]) as d:
            put = client(d, "put", "k", 300, MIB)["put"]
            check(put["right"] >= 100 and put["other"] > 0, "%r" % put)  # the store has 150 MiB; those beyond were refused
            check("its spill in" in put["text"] and "its disk failed" in put["text"], put["text"])
            disk.forget([p for node in d.nodes for p in node.managers])
            for what, got in client(d, "read", "k", 300, MIB).items():
                check(got["wrong"] == 0 and got["lost"] == 0 and got["io"] == 0, "%s: %r" % (what, got))
                check(got["right"] == put["right"], "%s: %r of %r that were acknowledged" % (what, got, put))
            wait_for("a sentence", lambda: "(ext4) failed" in d.nodes[0].stderr())
            text = d.nodes[0].stderr()
            check("the spill of manager 0 in " + disk.path in text and "values of" in text and text.count("(ext4) failed") == 1, text)
            d.run("del", "k", 1, code=None)
            d.end()


@skip
def a_value_that_can_not_be_read_is_an_error_of_that_value():
    with LoopDisk(400 * MIB, 420 * MIB) as disk:
        with Dictionary(nodes=2, mem="32M", args=["--spill", disk.path, "--spill-size", "300M"]) as d:
            put = client(d, "put", "k", 150, MIB)["put"]
            check(put["right"] == 150, "%r" % put)
            spilled = sum(s["spill_items"] for s in d.stats().values())
            check(spilled > 80, "%r" % d.stats())
            disk.forget([p for node in d.nodes for p in node.managers])
            disk.lose(120 * MIB)
            for node in (0, 1):  # each reads those of its own manager by itself, the other's through it
                for what, got in client(d, "read", "k", 150, MIB, node=node).items():
                    check(got["wrong"] == 0 and got["lost"] == 0 and got["other"] == 0, "%s: %r" % (what, got))
                    check(got["io"] > 10 and got["right"] > 20 and got["io"] + got["right"] == 150, "%s: %r" % (what, got))
                    check(got["io"] <= spilled, "%s: %r" % (what, got))
            check(len(d.stats()) == 2, "a manager died")
            d.end()


@skip
def what_a_disk_gives_back_wrong_is_an_error_of_that_value():
    with LoopDisk(300 * MIB, 320 * MIB) as disk:
        with Dictionary(mem="16M", args=["--spill", disk.path, "--spill-size", "200M"]) as d:
            put = client(d, "put", "k", 100, MIB)["put"]
            check(put["right"] == 100, "%r" % put)
            disk.forget([p for node in d.nodes for p in node.managers])
            with open(disk.device, "r+b") as f:  # the middle of it is zeros: what a lost page looks like
                f.seek(60 * MIB)
                for _ in range(40):
                    f.write(bytes(MIB))
                os.fsync(f.fileno())
            disk.forget([p for node in d.nodes for p in node.managers])
            for what, got in client(d, "read", "k", 100, MIB).items():
                check(got["wrong"] == 0 and got["other"] == 0 and got["lost"] == 0, "%s: %r" % (what, got))
                check(got["io"] > 10 and got["right"] > 20, "%s: %r" % (what, got))
                check("other bytes than were written" in got["text"], got["text"])
            d.end()


def large_value_moves(folder):
    """The longest small put beside that, in ms."""
    with Dictionary(mem="1G", args=["--spill", folder, "--spill-size", "3G"]) as d:
        check(client(d, "put", "big", 1, 480 * MIB)["put"]["right"] == 1, "a large value")
        watch = subprocess.Popen([CLIENT, "small", "s", "15", "1"], env=d.env(), stdout=subprocess.PIPE, text=True)
        watch.stdout.readline()
        check(client(d, "put", "k", 12, 60 * MIB)["put"]["right"] == 12, "values that need its room")
        wait_for("it to move", lambda: any(s["spill_used_bytes"] >= 480 * MIB for s in d.stats().values()))
        out = watch.communicate(timeout=60)[0]
        print("# " + out.strip(), flush=True)
        stats = list(d.stats().values())[0]
        check(stats["spilled_bytes"] >= 480 * MIB, "%r" % stats)
        d.end()
        worst = json.loads(out)["worst_ms"]
        check(worst < 1e9, "a small put failed: " + out)
        return worst


def a_large_value_keeps_nobody_waiting_when_it_moves():
    folder = tempfile.mkdtemp(prefix="ddict-spill-", dir=BUILD)
    try:
        if tool("stat", "-f", "-c", "%T", folder) in ("tmpfs", "ramfs"):
            return
        for attempt in range(3):  # a busy machine keeps others waiting, too
            if large_value_moves(folder) < 1500:  # moved at once it was seconds; noise is far below
                break
        else:
            raise Failed("small puts waited in each of three tries")
    finally:
        os.rmdir(folder)


main([a_disk_that_loses_writes_loses_no_acknowledged_value, a_value_that_can_not_be_read_is_an_error_of_that_value, what_a_disk_gives_back_wrong_is_an_error_of_that_value,
      a_large_value_keeps_nobody_waiting_when_it_moves], limit=300)
