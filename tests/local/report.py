#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`ddict report` on records of every shape. Invariants: what is readable is shown, what is not is named on stderr and never fatal for the rest;
nothing hangs; 0 shown, 1 something was not found or not readable, 2 wrong usage."""
import json
import os
import pty
import random
import select
import shutil
import subprocess
import tempfile
import time

from cluster import BUILD, Dictionary, check, main

DDICT = os.path.join(BUILD, "ddict")


class Folder:
    """A folder of its own, with a PATH on which scontrol says what the test wants."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="ddict-report-")
        os.mkdir(self.at("bin"))
        self.scontrol('echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1')
        return self

    def __exit__(self, *what):
        shutil.rmtree(self.path)

    def at(self, name):
        return os.path.join(self.path, name)

    def scontrol(self, script):
        with open(self.at("bin/scontrol"), "w") as f:
            f.write("#!/bin/sh\n%s\n" % script)
        os.chmod(self.at("bin/scontrol"), 0o755)

    def write(self, name, *lines):
        with open(self.at(name), "wb") as f:
            for line in lines:
                f.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        return name

    def report(self, *args, code=0, err="", stdin=subprocess.DEVNULL, before=()):
        """stdout; stderr must contain err (nothing: must be empty)."""
        env = dict(os.environ, PATH=self.at("bin") + ":" + os.environ["PATH"], TZ="UTC")
        p = subprocess.run([*before, DDICT, "report", *args], cwd=self.path, env=env, stdin=stdin, capture_output=True, text=True, timeout=60)
        check(p.returncode == code, "report %s: exit code %d: %s%s" % (" ".join(args), p.returncode, p.stdout, p.stderr))
        check(err in p.stderr if err else p.stderr == "", "report %s: stderr %r, wanted %r" % (" ".join(args), p.stderr, err))
        return p.stdout

    def json(self, *args, **kw):
        return json.loads(self.report("--json", *args, **kw))


def manager(m, nodes=2, **more):
    s = dict(manager_id=m, node_id=m % nodes, hostname="n%d" % (m % nodes + 1), node="n%d" % (m % nodes + 1), pid=100 + m, state=0,
             total_bytes=1 << 28, total_used_bytes=1 << 20, pool_free_space=255 << 20, pool_utilization=0.4, num_keys=2500, puts=2500, gets_local=12000,
             gets_remote=11500, misses=3, deletes=7, bytes_in=2500000, bytes_out=23500000, clients_now=0, clients_peak=8, full_errors=0,
             latency={"put": dict(count=2500, p50_ns=4300, p99_ns=51000, max_ns=900000), "get": dict(count=9, p50_ns=3900, p99_ns=80000, max_ns=1)})
    return dict(s, **more)


class Made:
    """The lines of one dictionary."""

    def __init__(self, job="12", step=None, at="2026-11-21T10:00:00.123Z", name=None):
        self.id = "%032x" % random.getrandbits(128)
        self.common = dict(dict=self.id, job=job, scope="job" if step is None else "step", name=name or "1000.%s.%s" % (job, step or "job"))
        if step is not None:
            self.common["step"] = step
        self.at = at

    def line(self, event, time=None, **more):
        return dict(event=event, time=time or self.at, **self.common, **more)

    def start(self, **more):
        return self.line("start", **dict(dict(version="0.1.0", slurm="22.05.8", managers=4, nodes=["n1", "n2"], total_bytes=1 << 30, wireup="pmix", restarts=0,
                                              asked="--managers=4 --mem=1G", managers_step=self.common["job"] + ".0", ready_ms=142), **more))

    def end(self, reason="drained", managers=None, **more):
        return self.line("job_end", "2026-11-21T10:01:14.223Z", **dict(
            dict(reason=reason, text="", seconds=74.1, writer="n1", managers=managers or [manager(m) for m in range(4)], total={"lost_managers": 0},
                 steps=[{"step": self.common["job"] + ".1", "processes": 8}, {"step": self.common["job"] + ".batch", "processes": 1}]), **more))


def has(text, *parts):
    for part in parts:
        check(part in text, "%r is not in:\n%s" % (part, text))


def a_whole_record_is_shown():
    with Folder() as f:
        d = Made()
        f.write("ddict-12.jsonl", d.start(), d.end())
        text = f.report()
        has(text, "ddict-12.jsonl\n", "job 12, all steps: 4 managers on 2 nodes, 1.0 GiB\n", "2026-11-21 10:00:00 to 10:01:14, 1 min 14 s; its step was over",
            d.id, "slurm-ddict 0.1.0, Slurm 22.05.8", "ready in 142 ms", "asked for: --managers=4 --mem=1G",
            "steps: 12.0 (managers), 12.1 (8 processes), 12.batch (1 process)\n")
        rows = [line.split() for line in text.splitlines()]
        check(["3", "n2", "-", "1.0", "MiB", "256.0", "MiB", "0.4%", "2.5k", "2.5k", "12.0k", "11.5k", "3", "7", "2.4", "MiB", "22.4", "MiB", "8",
               "4.3", "us", "51.0", "us", "3.9", "us", "80.0", "us"] in rows, text)
        check(["total", "4.0", "MiB", "1.0", "GiB", "0.4%", "10.0k", "10.0k", "48.0k", "46.0k", "12", "28", "9.5", "MiB", "89.6", "MiB", "16",
               "4.3", "us", "51.0", "us", "3.9", "us", "80.0", "us"] in rows, text)
        check(not any(line.endswith(" ") for line in text.splitlines()), text)
        check(f.report("12") == f.report("ddict-12.jsonl"), "by job and by name")


def the_newest_is_taken_and_named():
    with Folder() as f:
        for i, job in enumerate(("7", "12", "9")):
            d = Made(job=job)
            f.write("ddict-%s.jsonl" % job, d.start(), d.end())
            os.utime(f.at("ddict-%s.jsonl" % job), (1000 + i, 1000 + i))
        os.mkdir(f.at("ddict-99.jsonl"))  # no file
        text = f.report()
        has(text, "ddict-9.jsonl, the newest of 3 records in this folder", "job 9,")
        check("job 12" not in text, text)
        text = f.report("--all")
        check(text.index("job 7,") < text.index("job 12,") < text.index("job 9,"), text)
        check([x["job"] for x in f.json("--all")["dictionaries"]] == ["7", "12", "9"], "order")
        check(f.json()["files"] == [{"file": "ddict-9.jsonl", "lines": 2, "skipped": 0}], "files")


def several_dictionaries_of_a_job_are_told_apart():
    with Folder() as f:
        a, b, c = Made(), Made(step="3"), Made(at="2026-11-21T11:00:00.000Z")
        f.write("ddict-12.jsonl", a.start(), b.start(), a.line("lost", node="n2", text="silent"), b.end(), a.end("signal"), c.start(restarts=1), c.end("down"))
        j = f.json("12")["dictionaries"]
        check([x["dict"] for x in j] == [a.id, b.id, c.id], "ids")
        check([x["end"]["reason"] for x in j] == ["signal", "drained", "down"], "reasons")
        check([len(x["events"]) for x in j] == [1, 0, 0], "events")
        text = f.report("12")
        has(text, "job 12, step 3:", "requeued 1 time", "ended by ddict down", "end of the job, scancel or time limit", "node n2 lost: silent")
        check(text.count("job 12, all steps:") == 2, text)


def what_was_lost_is_shown_as_lost():
    with Folder() as f:
        d = Made()
        f.write("r", d.start(), d.line("full", "2026-11-21T10:00:03.000Z", manager=2, node="n1", text="all used", count=17),
                d.line("refused", "2026-11-22T10:00:04.000Z", node="n1", text="wrong answer from 10.0.0.9", count=1),
                d.end("lost", [manager(0), {"manager_id": 1, "node": "n2", "lost": True}, manager(2, full_errors=17), {"manager_id": 3, "node": "n2", "lost": True}],
                      text="node n2 is lost"))
        text = f.report("r")
        has(text, "; LOST: node n2 is lost\n", "  n2 (lost)\n", "(2 lost)", "manager 2 refused 17 puts because it was full\n",
            "10:00:03  manager 2 on n1 full: all used (17 times)\n", "2026-11-22 10:00:04  node n1 refused: wrong answer from 10.0.0.9\n")


def a_start_without_end_says_so():
    with Folder() as f:
        d = Made()
        f.write("r", d.start())
        has(f.report("r"), "job 12, all steps: 4 managers on 2 nodes", "no end recorded")
        j = f.json("r")["dictionaries"][0]
        check(j["ended"] is False and j["end"] is None and j["start"]["ready_ms"] == 142, "%r" % j)


def an_end_without_start_says_what_it_knows():
    with Folder() as f:
        d = Made()
        f.write("r", d.end())
        has(f.report("r"), "job 12, all steps: 4 managers on 2 nodes, 1.0 GiB", "2026-11-21 10:00:00 to 10:01:14")
        f.write("r", d.line("full", manager=1))
        has(f.report("r"), "job 12, all steps\n", "no end recorded", "manager 1 full")


def a_rotated_record_is_one():
    with Folder() as f:
        d = Made()
        f.write("r.1", d.start())
        f.write("r", d.end())
        j = f.json("r", "r.1")["dictionaries"]
        check(len(j) == 1 and j[0]["start"] and j[0]["end"] and j[0]["files"] == ["r", "r.1"], "%r" % j)


def a_file_that_is_named_twice_is_read_once():
    with Folder() as f:
        d = Made()
        f.write("ddict-12.jsonl", d.start(), d.line("lost", node="n2"), d.end())
        os.symlink("ddict-12.jsonl", f.at("same"))
        j = f.json("12", "./ddict-12.jsonl", "same")
        check(len(j["files"]) == 1 and len(j["dictionaries"][0]["events"]) == 1, "%r" % j)


def broken_lines_are_counted_and_named():
    with Folder() as f:
        d = Made()
        whole = json.dumps(d.end()).encode()
        f.write("r", d.start(), b"\n", b"slurmstepd: error: noise\n", b"[1,2]\n", b'{"event":"full"}\n', b"\xff\xfe{}\n", whole[:300] + b"\n", whole)
        text = f.report("r", err="r: 5 of 8 lines skipped, the first of them line 3:")
        has(text, "its step was over")
        check(f.json("r", err="skipped")["files"][0] == {"file": "r", "lines": 8, "skipped": 5}, "counts")


def a_line_behind_a_torn_one_is_found():
    with Folder() as f:
        d = Made()
        f.write("r", json.dumps(d.start()).encode()[:100], d.end(), d.line("future", hue="blue"))
        j = f.json("r", err="1 of 2 lines skipped")["dictionaries"][0]
        check(j["end"] and j["events"][0]["hue"] == "blue" and not j["start"], "%r" % j)


def figures_of_another_version_do_not_hurt():
    with Folder() as f:
        d = Made()
        f.write("r", d.start(nodes="n1", managers="many"), d.end(managers=[7, None, {"manager_id": 2, "hue": []}, "x"], steps={"a": 1}, seconds="long", reason=3))
        has(f.report("r"), "job 12", "total")
        f.write("r", d.line("job_end", managers={}, steps=[1], time=17))
        f.report("r")


def what_others_wrote_cannot_move_the_cursor():
    with Folder() as f:
        d = Made(name="\x1b[2Jx")
        d.common["scope"] = "user"
        f.write("r\x1b[1m", d.start(asked="\x1b]0;title\x07"), d.line("lost", node="\u009b2J", text="two\nlines"), d.end("a\rb"), b"\x1b[3m\n")
        out = f.report("r\x1b[1m", err="skipped")
        check(not any(c < " " and c != "\n" or c == "\u009b" for c in out), repr(out))
        has(out, "two?lines")


def what_cannot_be_read_is_named_and_the_rest_shown():
    with Folder() as f:
        d = Made()
        f.write("good", d.start(), d.end())
        f.write("empty")
        f.write("other", b"hello\n")
        f.write("mine", d.start())
        os.chmod(f.at("mine"), 0)
        os.mkdir(f.at("folder"))
        os.mkfifo(f.at("fifo"))
        for name, why in (("empty", "an empty file"), ("other", "no record of a dictionary (line 1: "), ("folder", "a directory"), ("fifo", "a pipe"),
                          ("absent", "No such file"), ("/dev/zero", "a device")):
            has(f.report("good", name, code=1, err="%s: %s" % (name, why)), "job 12")
        humble = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"] if os.geteuid() == 0 else []
        f.report("mine", code=1, err="mine: Permission denied", before=humble)


def stdin_is_read_too():
    with Folder() as f:
        d = Made()
        f.write("r", d.start(), d.end())
        p = subprocess.Popen(["cat", f.at("r")], stdout=subprocess.PIPE)
        has(f.report("-", stdin=p.stdout), "job 12")
        p.stdout.close()
        p.wait()


def a_job_is_looked_for_where_its_record_may_be():
    with Folder() as f:
        d = Made(job="34")
        os.makedirs(f.at("far away/x"))
        f.report("34", code=1, err="no ddict-34.jsonl: not in this folder; Slurm does not know the job")
        f.write("far away/x/ddict-34.jsonl", d.start(), d.end())
        f.scontrol("echo 'JobId=34 ArrayJobId=30 ArrayTaskId=4 JobName=WorkDir=/tmp'; echo '   WorkDir=%s'; echo '   StdErr=/dev/null'" % f.at("far away/x"))
        has(f.report("34"), "job 34")
        has(f.report("30_4"), "job 34")
        os.unlink(f.at("far away/x/ddict-34.jsonl"))
        f.report("30_4", code=1, err="not in the job's: %s" % f.at("far away/x"))
        f.scontrol("exit 1")
        f.report("30_4", code=1, err="30_4: Slurm does not know this job")


def nothing_there_is_an_error_and_wrong_usage_another():
    with Folder() as f:
        f.report(code=1, err="no ddict-*.jsonl in this folder")
        f.report("--all", code=1, err="no ddict-*.jsonl in this folder")
        f.report("--hue", code=2, err="usage: ddict report")
        f.report("--all", "r", code=2, err="usage: ddict report")
        check(f.json("absent", code=1, err="No such file") == {"files": [], "dictionaries": []}, "still one object")
        d = Made()
        f.write("ddict-1.jsonl", d.start(), d.end())
        with open("/dev/full", "w") as full:
            p = subprocess.run([DDICT, "report", f.at("ddict-1.jsonl")], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        check(p.returncode == 1 and "cannot write" in p.stderr, "%d %r" % (p.returncode, p.stderr))


def many_managers_and_steps_are_read():
    with Folder() as f:
        d = Made()
        n = 5000
        f.write("r", d.start(managers=n), d.end(managers=[manager(m) for m in range(n)], steps=[{"step": "12.%d" % i, "processes": 3} for i in range(n)]))
        began = time.monotonic()
        text = f.report("r")
        has(text, "5000 managers", "12.4999 (3 processes)\n")
        check(all(len(line) < 220 for line in text.splitlines()), "long lines")
        check(time.monotonic() - began < 30, "slow")


def no_line_is_wider_than_the_terminal():
    with Folder() as f:
        d = Made()
        f.write("r", d.start(), d.end(steps=[{"step": "12.%d" % i, "processes": 3} for i in range(40)]))
        me, its = pty.openpty()
        env = dict(os.environ, COLUMNS="80", TZ="UTC")
        p = subprocess.Popen([DDICT, "report", "r"], cwd=f.path, env=env, stdin=subprocess.DEVNULL, stdout=its, stderr=its)
        os.close(its)
        data = b""
        while select.select([me], [], [], 60)[0]:
            try:
                more = os.read(me, 1 << 16)
            except OSError:
                break
            if not more:
                break
            data += more
        os.close(me)
        check(p.wait(60) == 0, "exit code")
        lines = data.decode().replace("\r", "").splitlines()
        check(lines and max(len(line) for line in lines) <= 80, "\n".join(lines))
        check(sum(line.startswith("  manager  ") for line in lines) >= 2, "\n".join(lines))


def the_record_of_ddictd_is_read():
    with Folder() as f:
        with Dictionary(nodes=2, managers=3, mem="48M", args=("--record", f.at("ddict-r.jsonl"), "--asked", "--managers=3")) as d:
            for i in range(20):
                subprocess.run([DDICT, "put", "k%d" % i, "v"], env=d.env(), check=True, timeout=30)
            for i in range(25):
                subprocess.run([DDICT, "get", "k%d" % i], env=d.env(1), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30)
            running = f.json()["dictionaries"][0]
            check(running["ended"] is False and running["start"]["managers"] == 3, "%r" % running)
            has(f.report(), "3 managers on 2 nodes, 48.0 MiB", "no end recorded")
            d.end()
        j = f.json()["dictionaries"]
        check(len(j) == 1 and j[0]["ended"] and j[0]["end"]["reason"] == "drained", "%r" % j)
        total = j[0]["end"]["total"]
        check((total["puts"], total["gets_local"] + total["gets_remote"], total["misses"], total["num_keys"]) == (20, 20, 5, 20), "%r" % total)
        text = f.report()
        has(text, "ddict-r.jsonl\n", "3 managers on 2 nodes, 48.0 MiB", "its step was over", "asked for: --managers=3", j[0]["dict"])
        check([line.split()[0] for line in text.splitlines() if d.node_name(0) in line] == ["0", "2"], text)


main([a_whole_record_is_shown, the_newest_is_taken_and_named, several_dictionaries_of_a_job_are_told_apart, what_was_lost_is_shown_as_lost,
      a_start_without_end_says_so, an_end_without_start_says_what_it_knows, a_rotated_record_is_one, a_file_that_is_named_twice_is_read_once,
      broken_lines_are_counted_and_named, a_line_behind_a_torn_one_is_found, figures_of_another_version_do_not_hurt,
      what_others_wrote_cannot_move_the_cursor, what_cannot_be_read_is_named_and_the_rest_shown, stdin_is_read_too,
      a_job_is_looked_for_where_its_record_may_be, nothing_there_is_an_error_and_wrong_usage_another, many_managers_and_steps_are_read,
      no_line_is_wider_than_the_terminal, the_record_of_ddictd_is_read])
