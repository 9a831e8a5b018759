#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dictionaries in huge pages of a pool, without Slurm. Invariants: all pages are reserved when it is ready; with too few it does not start and says what there is;
however it ends, the pool has them back.

As root the test adds pages to the pool and takes them out again; skipped where there are none.
"""
import fcntl
import os
import signal
import subprocess
import sys

from cluster import BUILD, Dictionary, check, main, wait_for

POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
ADD, PAGE = 24, 2 << 20
DDICT = os.path.join(BUILD, "ddict")


def number(name):
    with open(POOL + name) as f:
        return int(f.read())


def available():
    return number("free_hugepages") - number("resv_hugepages")


def pool_set(n):
    """The kernel takes as many as it finds; who has no right to it changes nothing."""
    try:
        with open(POOL + "nr_hugepages", "w") as f:
            f.write("%d" % n)
    except OSError:
        pass


def env(pages="2M", **more):
    return {"DDICT_HUGEPAGES": pages, **more}


def values_lie_in_the_pool_and_it_gets_them_back():
    before = available()
    with Dictionary(managers=2, mem="32M", env=env()) as d:
        check(available() == before - 16, "%d of %d pages" % (available(), before))
        d.run("fill", "s", 2000, 3000)
        d.run("verify", "s", 2000, 3000)
        d.run("fill", "l", 20, 500000)
        d.run("verify", "l", 20, 500000)
        d.run("view", "l", 20, 500000)
        stats = list(d.stats().values())
        check(all(s["page_bytes"] == PAGE and 0 < s["huge_bytes"] <= 16 << 20 for s in stats), "stats: %r" % stats)
        check(available() == before - 16, "%d of %d pages" % (available(), before))
        d.end()
    wait_for("the pool is whole", lambda: available() == before)


def small_pages_are_said_too():
    for word in ("no", "advise"):
        with Dictionary(mem="80M", env=env(word)) as d:
            d.run("fill", "s", 20, 3000)
            check(d.stats()[0]["page_bytes"] == os.sysconf("SC_PAGE_SIZE"), "stats: %r" % d.stats())
            d.end()


def a_death_leaves_no_page():
    before = available()
    with Dictionary(managers=2, mem="32M", env=env(DDICT_RESTARTS="0")) as d:
        d.run("fill", "s", 500, 3000)
        os.kill(d.nodes[0].managers[0], signal.SIGKILL)
        d.nodes[0].line("error")
        d.nodes[0].close_stdin()
        d.nodes[0].wait()
        out = d.nodes[0].stderr()
        check("died" in out, out)
    wait_for("the pool is whole", lambda: available() == before)
    with Dictionary(managers=2, mem="32M", env=env()) as d:
        os.kill(d.nodes[0].proc.pid, signal.SIGKILL)
        d.nodes[0].wait()
        wait_for("no manager", lambda: not any(os.path.exists("/proc/%d" % p) for p in d.nodes[0].managers))
    wait_for("the pool is whole", lambda: available() == before)


def refused(pages, mem, *texts):
    d = Dictionary(managers=2, mem=mem, env=env(pages), ready=False)
    with d:
        code = d.nodes[0].wait()
        line = d.nodes[0].line("error")
        check(code != 0 and all(t in line for t in texts), "%d: %s" % (code, line))


def too_few_pages_are_an_error_with_both_figures():
    before = available()
    refused("2M", "%dM" % (2 * before + 4), "%d huge pages of 2.0 MiB" % (before + 2), "%d of the pool's %d are free" % (before, number("nr_hugepages")), "vm.nr_hugepages")
    check(available() == before, "%d of %d pages" % (available(), before))


def sizes_that_are_none_are_refused():
    refused("yes", "32M", "DDICT_HUGEPAGES=yes: want no, advise, or the size")
    refused("64M", "32M", "no huge pages of 64.0 MiB", "2.0 MiB")


def run(mem, code, *command):
    p = subprocess.run([DDICT, "run", "--managers=2", "--mem=" + mem, "--", *command], env=dict(os.environ, **env()), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       universal_newlines=True, timeout=60, cwd="/tmp")
    check(p.returncode == code, "%d: %s%s" % (p.returncode, p.stdout, p.stderr))
    return p.stdout, p.stderr


def ddict_run_takes_them_too():
    before = available()
    out, err = run("32M", 0, "sh", "-c", '"$0" put a hello && "$0" get a && "$0" stats', DDICT)
    check("hello" in out and "huge pages of 2.0 MiB" in out, out + err)
    out, err = run("%dM" % (2 * before + 4), 1, "echo", "it ran")
    check("it ran" not in out and "are free" in err, out + err)
    wait_for("the pool is whole", lambda: available() == before)


def all_ways_to_put_and_read_give_the_same_bytes():
    """Where the pool can be enlarged for it."""
    before, had, mib = available(), number("nr_hugepages"), 64
    try:
        pool_set(had + mib)
        if available() < mib:
            print("# no pool of %d huge pages of 2 MiB here" % mib)
            return
        p = subprocess.run([os.path.join(BUILD, "tests/local/client_same")], env=dict(os.environ, MIB=str(mib), SECONDS="0.7", **env()), stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, universal_newlines=True, timeout=240)
        check(p.returncode == 0 and "100%" in p.stdout, p.stdout)
    finally:
        pool_set(had)
    wait_for("the pool is whole", lambda: available() == before)


def alone():
    """One test at a time: they count the pool's pages."""
    try:
        lock = open(POOL + "nr_hugepages")
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock
    except OSError:
        return None


if __name__ == "__main__":
    lock = alone()
    had = number("nr_hugepages") if lock else 0
    try:
        if lock:
            pool_set(had + ADD)
        if not lock or available() < ADD:
            print("no pool of %d huge pages of 2 MiB here: skipped" % ADD)
            sys.exit(77)
        main([values_lie_in_the_pool_and_it_gets_them_back, small_pages_are_said_too, a_death_leaves_no_page, too_few_pages_are_an_error_with_both_figures,
              sizes_that_are_none_are_refused, ddict_run_takes_them_too, all_ways_to_put_and_read_give_the_same_bytes])
    finally:
        if lock:
            pool_set(had)
