#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""More than memory: values beyond it are read like all others, from any node, and nothing is left on disk however it ends."""
import json
import os
import signal
import subprocess
import tempfile

from cluster import BUILD, DDICTD, Dictionary, Disk, check, main, managers_of, wait_for

MIB = 1 << 20
DDICT, LOADER = os.path.join(BUILD, "ddict"), os.path.join(BUILD, "ddict-load")


def held(path):
    """Who has a file of this folder open, or mapped."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += [pid for fd in os.listdir("/proc/%s/fd" % pid) if os.readlink("/proc/%s/fd/%s" % (pid, fd)).startswith(path + "/")]
        except OSError:
            pass
    return found


def values_beyond_memory_are_read_from_every_node():
    with Disk() as disk:
        if disk is None:
            return
        with Dictionary(nodes=2, managers=3, mem="12M", args=["--spill", disk, "--spill-size", "192M"]) as d:
            d.run("fill", "k", 600, 100000)
            check(os.listdir(disk) == [], "a file has a name: %r" % os.listdir(disk))
            check(held(disk) != [], "nobody has a file there")
            for node in (0, 1):
                d.run("verify", "k", 600, 100000, node=node)
                d.run("view", "k", 600, 100000, node=node)
            stats = d.stats()
            for s in stats.values():
                check(s["spill_total_bytes"] == 64 * MIB and s["total_used_bytes"] <= 4 * MIB, "%r" % s)
                check(s["spill_items"] > 100 and s["spill_used_bytes"] > s["spill_items"] * 100000, "%r" % s)
            check(sum(s["num_keys"] for s in stats.values()) == 600, "%r" % stats)
            d.run("clear")
            wait_for("the spill to be free", lambda: all(s["spill_used_bytes"] == 0 for s in d.stats().values()))
            report = d.end()
            check(report["total"]["spilled_bytes"] > 40 * MIB, "%r" % report["total"])
            check("in the spill" in d.nodes[0].line("summary", 1), "%r" % d.nodes[0].lines)
        check(held(disk) == [], "still open: %r" % held(disk))


def sleeps(pid):
    """It is in no turn, so nothing is under way in it."""
    with open("/proc/%d/stat" % pid) as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "S"


def a_manager_that_comes_back_has_what_lies_on_disk():
    with Disk() as disk:
        if disk is None:
            return
        with Dictionary(nodes=2, managers=2, mem="8M", args=["--spill", disk, "--spill-size", "128M"]) as d:
            d.run("fill", "k", 600, 100000)
            for node in (0, 1):
                before = d.stats()[node]
                check(before["spill_items"] > 100, "%r" % before)
                wait_for("manager %d to be idle" % node, lambda: sleeps(before["pid"]))
                os.kill(before["pid"], signal.SIGKILL)
                wait_for("its next life", lambda: managers_of(d.nodes[node].proc.pid) not in ([], [before["pid"]]), 20)
                d.run("verify", "k", 600, 100000, node=1 - node)
                d.run("view", "k", 600, 100000, node=node)
                after = d.stats()[node]
                check(after["pid"] != before["pid"] and after["spill_items"] >= before["spill_items"] - 60, "%r, before %r" % (after, before))
            d.run("fill", "more", 100, 100000)
            d.run("clear")
            wait_for("the spill to be free", lambda: all(s["spill_used_bytes"] == 0 for s in d.stats().values()))
            d.end()
        check(held(disk) == [], "still open: %r" % held(disk))


def a_value_that_is_read_for_somebody_goes_on_in_a_next_life():
    with Disk() as disk:
        if disk is None:
            return
        for part in (3, 100):  # the second is far behind what is read ahead
            with Dictionary(mem="12M", args=["--spill", disk, "--spill-size", "256M"], env={"DDICT_TEST_DIE": "passed:%d" % part, "DDICT_TEST_DIE_LIVES": "1"}) as d:
                p = subprocess.run([os.path.join(BUILD, "tests", "local", "client_disk"), "wait", "k", "2", "40000000"], env=d.env(), stdout=subprocess.PIPE, text=True, timeout=90)
                got = json.loads(p.stdout)
                check(p.returncode == 0 and got["right"] == 4, "behind part %d: %r" % (part, got))
                check(d.stats()[0]["restarts"] == 1, "%r" % d.stats())
                d.end()


def views_of_what_lies_on_disk_are_aligned():
    with Disk() as disk:
        if disk is None:
            return
        with Dictionary(mem="12M", args=["--spill", disk, "--spill-size", "64M"]) as d:
            for words in (("put", "k", "200", "200000"), ("read", "k", "200", "200000")):
                p = subprocess.run([os.path.join(BUILD, "tests", "local", "client_disk"), *words], env=d.env(), stdout=subprocess.PIPE, text=True, timeout=90)
                for got in map(json.loads, p.stdout.splitlines()):
                    check(p.returncode == 0 and got["right"] == 200, "%r" % got)
            d.end()


def a_load_counts_the_spill():
    with Disk() as disk, tempfile.TemporaryDirectory() as folder:
        if disk is None or not os.access(LOADER, os.X_OK):
            return
        for name, n in (("fits", 200), ("not", 900)):
            os.mkdir(os.path.join(folder, name))
            for i in range(n):
                with open(os.path.join(folder, name, "%03d" % i), "wb") as f:
                    f.write(b"%03d" % i * 33333)
        with Dictionary(managers=2, mem="8M", args=["--spill", disk, "--spill-size", "64M"]) as d:
            load = lambda *a: subprocess.run([DDICT, *a], env=d.env(), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=90)
            p = load("load", "not")
            check(p.returncode == 1 and b"not needs 85.9 MiB at the least, and the dictionary has " in p.stderr and b"MiB free of its 72.0 MiB" in p.stderr, p)
            p = load("load", "--prefix=f/", "fits")
            check(p.returncode == 0, p)
            check(all(load("get", "--raw", "f/%03d" % i).stdout == b"%03d" % i * 33333 for i in (0, 99, 199)), "values of a load")
            check(sum(s["spill_used_bytes"] for s in d.stats().values()) > 10 * MIB, "%r" % d.stats())
            d.end()


def what_lies_in_the_spill_is_saved_and_comes_back_there():
    with Disk() as disk, tempfile.TemporaryDirectory() as folder:
        if disk is None:
            return
        spill = ["--spill", disk, "--spill-size", "64M"]
        path = os.path.join(folder, "saved")

        def run(d, *words, code=0):
            p = subprocess.run([DDICT, *words], env=d.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=90)
            check(p.returncode == code, "%r: %r" % (words, p))
            return p.stderr

        with Dictionary(nodes=2, managers=2, mem="8M", args=[*spill, "--save", os.path.join(folder, "end")]) as d:
            d.run("fill", "k", 300, 100000)
            check(sum(s["spill_items"] for s in d.stats().values()) > 150, "%r" % d.stats())
            run(d, "save", path)
            d.run("clear")
            run(d, "restore", path)
            check(sum(s["spill_items"] for s in d.stats().values()) > 150, "%r" % d.stats())
            d.run("verify", "k", 300, 100000)
            d.end()  # and saves
        with Dictionary(managers=3, mem="12M", args=spill) as d:
            run(d, "restore", os.path.join(folder, "end"))
            d.run("verify", "k", 300, 100000)
            d.end()
        with Dictionary(managers=1, mem="8M") as d:
            err = run(d, "restore", path, code=1)
            check("28.6 MiB" in err and "is of 8.0 MiB" in err and "--ddict-spill" in err, err)


def a_value_for_which_there_is_no_room_on_disk_either_is_refused():
    with Disk() as disk:
        if disk is None:
            return
        with Dictionary(mem="4M", args=["--spill", disk, "--spill-size", "8M"]) as d:
            out = d.run("fill", "k", 600, 100000, code=None)
            check("is full" in out and "its spill in " + disk in out, out)
            n = sum(s["num_keys"] for s in d.stats().values())
            check(n > 100, "%d values" % n)
            d.run("verify", "k", n, 100000)
            d.end()


def nothing_is_left_when_it_is_killed():
    with Disk() as disk:
        if disk is None:
            return
        for victim in ("manager", "ddictd"):
            with Dictionary(managers=2, mem="8M", args=["--spill", disk, "--restarts", "0"]) as d:
                d.run("fill", "k", 300, 100000)
                os.kill(d.nodes[0].managers[0] if victim == "manager" else d.nodes[0].proc.pid, signal.SIGKILL)
                d.nodes[0].wait()
                d.check_nothing_left()
            wait_for("the files to be closed", lambda: held(disk) == [])
            check(os.listdir(disk) == [], "%r is left" % os.listdir(disk))


def a_folder_that_can_not_be_used_ends_the_start():
    for folder, why in (("/nowhere", "/nowhere can not be used: No such file"), ("/dev/null", "is no folder"), ("/dev/shm", "is memory (tmpfs)"), ("/proc", "no file can be made in /proc")):
        p = subprocess.run([DDICTD, "--name", "0.local.spill%d" % os.getpid(), "--managers", "2", "--mem", "16M", "--wireup", "none", "--node", "here", "--spill", folder],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=60)
        check(p.returncode == 1 and "ddict1 error no spill on node here: " in p.stdout and why in p.stdout, p.stdout)
    with Disk() as disk:
        if disk is None:
            return
        with Dictionary(nodes=2, mem="16M", args=["--spill", disk, "--spill-size", "900T"], ready=False) as d:
            text = d.nodes[0].line("error")
            check("of spill are wanted and " + disk + " has" in text, text)
            for node in d.nodes:
                node.wait()


main([values_beyond_memory_are_read_from_every_node, a_manager_that_comes_back_has_what_lies_on_disk, a_value_that_is_read_for_somebody_goes_on_in_a_next_life, views_of_what_lies_on_disk_are_aligned,
      a_load_counts_the_spill, what_lies_in_the_spill_is_saved_and_comes_back_there,
      a_value_for_which_there_is_no_room_on_disk_either_is_refused, nothing_is_left_when_it_is_killed,
      a_folder_that_can_not_be_used_ends_the_start])
