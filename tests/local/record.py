#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The record: one job_end for each dictionary however it ends, with exact counts; what is in the lines; files that can not be written."""
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time

import cluster
from cluster import DDICTD, Dictionary, check, main, managers_of, wait_for
from contextlib import contextmanager, suppress

DDICT = os.path.join(cluster.BUILD, "ddict")


@contextmanager
def folder():
    path = tempfile.mkdtemp(prefix="ddict-test-")
    try:
        yield path
    finally:
        shutil.rmtree(path)


def lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def recorded(path, **kw):
    args = ("--record", path) + tuple(kw.pop("args", ()))
    return Dictionary(args=args, **kw)


def the_end(path):
    """The only job_end in the file."""
    ends = [line for line in lines(path) if line["event"] == "job_end"]
    check(len(ends) == 1, "%d lines job_end: %r" % (len(ends), ends))
    end = ends[0]
    m = end["managers"]
    check([x["manager_id"] for x in m] == list(range(len(m))), "managers: %r" % m)
    check(sum("lost" in x for x in m) == end["total"]["lost_managers"], "lost managers: %r" % end)
    for name in ("puts", "gets_local", "gets_remote", "num_keys", "total_used_bytes"):
        check(end["total"][name] == sum(x.get(name, 0) for x in m), "total of %s" % name)
    return end


def commands(d, nodes):
    """Three keys are put and got with the library, which reads those of its node in place."""
    for n in range(3):
        for verb in (["put", "key%d" % n, "value"], ["get", "key%d" % n]):
            p = subprocess.run([DDICT] + verb, env=d.env((n + len(verb)) % nodes), capture_output=True, timeout=20)
            check(p.returncode == 0 and (len(verb) == 3 or p.stdout == b"value"), "ddict %r: %r" % (verb, p))


def all_end(d, code, seconds=8.0, gone=()):
    began = time.monotonic()
    for i, node in enumerate(d.nodes):
        if i not in gone:
            got = node.wait(seconds)
            check(got == code, "node %d: exit code %d, stderr %s" % (i, got, node.stderr()))
    return time.monotonic() - began


def the_counts_are_exactly_those_of_the_work():
    with folder() as tmp:
        log = tmp + "/r.jsonl"
        env = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_RESTART_COUNT": "2", "DDICT_SLURM_VERSION": "22.05.8"}
        with recorded(log, nodes=3, managers=5, mem="100M", env=env, args=("--asked", "--managers=5 \"x\"")) as d:
            os.environ.update(SLURM_JOB_ID="12", SLURM_STEP_ID="1")
            try:
                d.run("fill", "k", 1000, 1000)
                os.environ["SLURM_STEP_ID"] = "2"
                for node in range(3):
                    d.run("verify", "k", 1000, 1000, node=node)
                os.environ["SLURM_STEP_ID"] = "4294967291"  # the batch script; the library reads in place here
                commands(d, 3)
            finally:
                del os.environ["SLURM_JOB_ID"], os.environ["SLURM_STEP_ID"]
            d.end()
            tag = re.search("id=([0-9a-f]{32})", d.ready).group(1)
        check(stat.S_IMODE(os.stat(log).st_mode) == 0o600, "mode")
        start, end = lines(log)
        for line in (start, end):
            check(line["dict"] == tag and line["name"] == d.name and line["scope"] == "user" and line["job"] == "12", "%r" % line)
            check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]), line["time"])
        want = {"event": "start", "managers": 5, "nodes": [d.node_name(n) for n in range(3)], "total_bytes": 5 * (100 << 20) // 5 // 4096 * 4096,
                "asked": "--managers=5 \"x\"", "wireup": "stdio", "managers_step": "12.0", "restarts": 2, "slurm": "22.05.8"}
        check({k: start[k] for k in want} == want, "start: %r" % start)
        check(0 <= start["ready_ms"] < 20000 and start["version"], "start: %r" % start)
        the_end(log)
        t = end["total"]
        check(t["puts"] == 1003 and t["num_keys"] == 1003 and t["bytes_in"] == 1000015, "puts: %r" % t)
        check(t["gets_local"] + t["gets_remote"] == 3003, "gets: %r" % t)
        check(end["reason"] == "drained" and end["text"] == "" and end["writer"] == d.node_name(0) and 0 < end["seconds"] < 60, "%r" % end)
        check(end["steps"] == [{"step": "12.1", "processes": 1}, {"step": "12.2", "processes": 3}, {"step": "12.batch", "processes": 6}], "%r" % end["steps"])
        s = d.nodes[0].line("summary")
        check("5 managers on 3 nodes, 100.0 MiB: 1,003 keys" in s and "1,003 puts, 3,003 gets (" in s and s.endswith("; record " + log), s)


def names_tell_the_scope():
    with folder() as tmp:
        for name, scope, step in (("5.12.job", "job", None), ("5.12.3", "step", "3"), ("5.12.3.13", "step", "3"), ("5.12.x", "user", None), ("12.3", "user", None)):
            log = tmp + "/" + name
            with recorded(log, name=name) as d:
                d.end()
            for line in lines(log):
                check(line["scope"] == scope and line.get("step") == step and line["job"] == "", "%r" % line)
                check(line.get("component") == ("13" if name == "5.12.3.13" else None), "%r" % line)


def down_and_sigterm_are_told_apart():
    for how in ("down", "signal"):
        with folder() as tmp:
            log = tmp + "/r.jsonl"
            with recorded(log, nodes=3, managers=3, mem="60M", drain_ms=20000) as d:
                d.run("fill", "k", 90, 100, node=1)
                stay = d.probe("stay", node=1)
                check(stay.stdout.readline() == "attached\n", "probe")
                if how == "down":
                    stay.communicate(timeout=30)
                    d.run("down", node=2)
                else:
                    for node in d.nodes:
                        for pid in [node.proc.pid] + node.managers:
                            os.kill(pid, signal.SIGTERM)
                took = all_end(d, 0)
                check(took < 15, "%s took %.1f s" % (how, took))
                stay.communicate(timeout=30)
            end = the_end(log)
            check(end["reason"] == how and end["total"]["puts"] == 90, "%r" % end)


def whoever_is_gone_one_node_writes():
    """Killed nodes of four, and who must write then."""
    for killed, writer in (((0,), 1), ((0, 1), 2), ((1, 0), 2), ((2,), 0), ((0, 2), 1), ((0, 1, 2), 3)):
        with folder() as tmp:
            log = tmp + "/r.jsonl"
            with recorded(log, nodes=4, managers=8, mem="80M") as d:
                d.run("fill", "k", 200, 100)
                before = d.stats()
                stay = d.probe("stay", node=3)
                check(stay.stdout.readline() == "attached\n", "probe")
                for sig in (signal.SIGSTOP, signal.SIGKILL):  # so that none hears of the other's end
                    for k in killed:
                        d.nodes[k].proc.send_signal(sig)
                took = all_end(d, 1, gone=killed)
                check(took < 9, "it took %.1f s" % took)
                stay.communicate(timeout=30)
            end = the_end(log)
            check(end["reason"] == "lost" and "is lost" in end["text"], "%r" % end)
            check(end["writer"] == d.node_name(writer), "%s wrote, killed: %r" % (end["writer"], killed))
            for m, figures in enumerate(end["managers"]):
                if m % 4 in killed:
                    check(figures == {"manager_id": m, "node": d.node_name(m % 4), "lost": True}, "%r" % figures)
                else:
                    check(figures["puts"] == before[m]["puts"] and figures["num_keys"] == before[m]["num_keys"], "%r" % figures)
            lost = [line for line in lines(log) if line["event"] == "lost"]
            check(len(lost) >= 1 and lost[0]["node"] in [d.node_name(k) for k in killed], "lost: %r" % lost)


def a_node_killed_in_the_end_of_a_job_loses_only_its_own():
    for victim in (0, 2):
        with folder() as tmp:
            log = tmp + "/r.jsonl"
            with recorded(log, nodes=3, managers=3, mem="60M") as d:
                d.run("fill", "k", 90, 100)
                stay = [d.probe("stay", node=n) for n in range(3)]
                for p in stay:
                    check(p.stdout.readline() == "attached\n", "probe")
                for node in d.nodes:
                    node.proc.send_signal(signal.SIGTERM)
                time.sleep(0.1)
                d.nodes[victim].proc.kill()
                took = all_end(d, 0, gone=(victim,))
                check(took < 9, "it took %.1f s" % took)
                for p in stay:
                    p.communicate(timeout=30)
            end = the_end(log)
            check([m["manager_id"] for m in end["managers"] if "lost" in m] == [victim], "%r" % end)


def a_head_that_was_silent_does_not_write_twice():
    with folder() as tmp:
        log = tmp + "/r.jsonl"
        with recorded(log, nodes=3, managers=3, mem="60M") as d:
            for n in range(3):
                d.run("self", node=n)
            d.nodes[0].proc.send_signal(signal.SIGSTOP)
            for node in d.nodes[1:]:
                check(node.wait(25) == 1, "exit code")
            check(the_end(log)["writer"] == d.node_name(1), "writer")
            d.nodes[0].proc.send_signal(signal.SIGCONT)
            check(d.nodes[0].wait(10) == 1, "exit code")
        the_end(log)


def a_manager_that_dies_is_named_and_its_counts_are_kept():
    with folder() as tmp:
        log = tmp + "/r.jsonl"
        with recorded(log, nodes=2, managers=4, mem="60M", args=("--restarts", "0")) as d:
            d.run("fill", "k", 100, 100)
            commands(d, 2)
            before = d.stats()[3]
            os.kill(before["pid"], signal.SIGKILL)
            all_end(d, 1)
        end = the_end(log)
        lost = [line for line in lines(log) if line["event"] == "lost"]
        check(len(lost) == 1 and lost[0]["manager"] == 3 and "manager 3" in lost[0]["text"], "%r" % lost)
        check(end["total"]["puts"] == 103 and end["total"]["num_keys"] == 103 and end["total"]["gets_local"] + end["total"]["gets_remote"] == 3, "%r" % end)
        check(end["managers"][3]["total_used_bytes"] == before["total_used_bytes"], "%r" % end["managers"][3])


def sleeps(pid):
    """It is in no turn, so nothing is under way in it."""
    with open("/proc/%d/stat" % pid) as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "S"


def restarts(log):
    with open(log) as f:
        return f.read().count('{"event":"restart",')


def a_manager_that_comes_back_is_recorded():
    with folder() as tmp:
        log = tmp + "/r.jsonl"
        with recorded(log, nodes=2, managers=2) as d:
            commands(d, 2)
            for count in (1, 2):
                pid = managers_of(d.nodes[1].proc.pid)[0]
                wait_for("manager 1 to be idle", lambda: sleeps(pid))
                os.kill(pid, signal.SIGKILL)
                wait_for("its line", lambda: restarts(log) == count, 20)
            commands(d, 2)
            d.end()
        end, of = the_end(log), [line for line in lines(log) if line["event"] == "restart"]
        check([(line["manager"], line["node"], line["count"]) for line in of] == [(1, d.node_name(1), 1), (1, d.node_name(1), 2)], "%r" % of)
        check(all(re.fullmatch(r"manager 1 on node \S+ died \(signal 9\) and was started again within \d+ ms", line["text"]) for line in of), "%r" % of)
        check(end["total"]["lost_managers"] == 0 and not any(line["event"] == "lost" for line in lines(log)), "%r" % end)
        check([m["restarts"] for m in end["managers"]] == [0, 2] and end["total"]["restarts"] == 2, "%r" % end)


def a_node_that_is_lost_with_two_copies_is_recorded():
    with folder() as tmp:
        log = tmp + "/r.jsonl"
        with recorded(log, nodes=3, managers=3, mem="96M", args=("--replicas", "2")) as d:
            d.run("fill", "k", 60, 100)
            d.lose(1)
            wait_for("four lines", lambda: sum(line["event"] == "copies" for line in lines(log)) == 4, 15)
            d.end()
        end, n = the_end(log), [d.node_name(i) for i in range(3)]
        node = [line for line in lines(log) if line["event"] == "node_lost"]
        copies = sorted((line["manager"], line["count"], line["node"], re.sub(r", after \d+ s$", "", line["text"])) for line in lines(log) if line["event"] == "copies")
        check([(line["node"], line["count"], line["text"]) for line in node] == [(n[1], 1, "node %s is lost: its ddictd ended; the dictionary goes on without it" % n[1])], "%r" % node)
        check(copies == [(0, 2, n[0], "the keys of manager 0 have no second copy any more: node %s is lost" % n[1]),
                         (0, 5, n[0], "the keys of manager 0 have a second copy again, on node %s" % n[2]),
                         (1, 2, n[2], "the keys of manager 1 are served by node %s, without a second copy: node %s is lost" % (n[2], n[1])),
                         (1, 5, n[2], "the keys of manager 1 have a second copy again, on node %s" % n[0])], "%r" % copies)
        check(end["total"]["lost_managers"] == 0 and end["total"]["num_keys"] == 60, "%r" % end["total"])


def a_full_manager_is_told_of_once():
    with folder() as tmp:
        log = tmp + "/r.jsonl"
        with recorded(log, nodes=2, managers=2, mem="16M") as d:
            for n in range(3):
                d.run("full", "f%d" % n, 1 << 20, node=n % 2)
            full_errors = {m: s["full_errors"] for m, s in d.stats().items()}
            d.end()
        full = [line for line in lines(log) if line["event"] == "full"]
        check(sorted(line["manager"] for line in full) == sorted(m for m, n in full_errors.items() if n), "%r of %r" % (full, full_errors))
        for line in full:
            m = line["manager"]
            check(line["node"] == d.node_name(m % 2) and line["count"] == 1 and line["total_bytes"] == 8 << 20, "%r" % line)
            check("manager %d on %s is full" % (m, line["node"]) in line["text"], "%r" % line)
            check(0 < line["used_bytes"] <= line["total_bytes"], "%r" % line)


def listening_ports(pid):
    inodes = set()
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            inodes.add(os.readlink("/proc/%d/fd/%s" % (pid, fd))[8:-1])
        except OSError:
            pass
    ports = []
    for name in ("tcp", "tcp6"):
        with open("/proc/net/" + name) as f:
            ports += [int(w[1].split(":")[1], 16) for w in (line.split() for line in list(f)[1:]) if w[3] == "0A" and w[9] in inodes]
    return ports


def strangers_are_recorded():
    with folder() as tmp:
        log = tmp + "/r.jsonl"
        with recorded(log, nodes=2, managers=2) as d:
            manager = listening_ports(d.nodes[1].managers[0])
            own = [port for port in listening_ports(d.nodes[1].proc.pid) if port not in manager]  # ddictd has its managers' sockets, too
            for port in (manager[0], own[0]):
                for n in range(3):
                    with socket.create_connection(("127.0.0.1", port), 5) as s:
                        s.sendall(b"x" * 256)
                        s.settimeout(8)
                        try:
                            s.recv(1)
                        except ConnectionResetError:
                            pass
            wait_for("the events", lambda: sum(line["event"] == "refused" for line in lines(log)) >= 2, 10)
            d.end()
        refused = [line for line in lines(log) if line["event"] == "refused"]
        check(len(refused) == 2, "%r" % refused)
        for line in refused:
            check(line["node"] == d.node_name(1) and line["count"] == 1 and line["text"], "%r" % line)


def a_stranger_that_comes_late_does_not_follow_the_end():
    """A client that is stopped holds up ddictd's end for a moment, in which a stranger is refused."""
    with folder() as tmp:
        log = tmp + "/r.jsonl"
        with recorded(log, nodes=2, managers=2) as d, socket.create_connection(("127.0.0.1", listening_ports(d.nodes[0].managers[0])[0]), 5) as s:
            d.run("fill", "k", 1, 100)
            client = d.probe("hold", "k", 1)
            try:
                check(client.stdout.readline(), "no client")
                client.send_signal(signal.SIGSTOP)
                for node in d.nodes:
                    node.proc.send_signal(signal.SIGTERM)
                wait_for("the end of the record", lambda: any(line["event"] == "job_end" for line in lines(log)), 10)
                s.sendall(b"x" * 256)
                s.settimeout(8)
                with suppress(ConnectionResetError):
                    s.recv(1)
                d.nodes[0].wait(10)
            finally:
                client.kill()
                client.wait()
        check(lines(log)[-1]["event"] == "job_end", "%r" % lines(log))


def another_user_that_knocks_is_recorded():
    if os.getuid() != 0:
        return
    knock = "import os,socket,sys;os.setgid(65534);os.setuid(65534);s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET);" \
            "s.connect('\\0ddict/'+sys.argv[1]+'/'+sys.argv[2]);s.settimeout(5);sys.exit(len(s.recv(1)))"
    with folder() as tmp:
        log = tmp + "/r.jsonl"
        with recorded(log, nodes=2, managers=2) as d:
            for n in range(3):
                p = subprocess.run(["python3", "-c", knock, d.name, d.node_name(1)], capture_output=True, text=True, timeout=20)
                check(p.returncode == 0, "it was let in: %r" % p)
            d.run("self", node=1)
            d.end()
        refused = [line for line in lines(log) if line["event"] == "refused"]
        check(len(refused) == 1 and refused[0]["node"] == d.node_name(1) and "uid 65534" in refused[0]["text"], "%r" % refused)


def a_log_that_can_not_be_written_is_warned_of_once():
    with folder() as tmp:
        target = tmp + "/target"
        open(target, "w").close()
        os.symlink(target, tmp + "/symlink")
        os.mkfifo(tmp + "/fifo")
        open(tmp + "/hard", "w").close()
        os.link(tmp + "/hard", tmp + "/hard2")
        cases = {"no/such": "No such file", "symlink": "symbolic link", "fifo": "", "hard": "several links", ".": ""}
        if os.getuid() == 0:
            open(tmp + "/other", "w").close()
            os.chown(tmp + "/other", 65534, 65534)
            cases["other"] = "another user"
        for name, text in cases.items():
            with recorded(tmp + "/" + name) as d:
                d.run("fill", "k", 5, 10)
                os.kill(d.manager_pid(0), 0)
                warn = d.nodes[0].line("warn")
                check("the record %s/%s can not be written: " % (tmp, name) in warn and text in warn, warn)
                d.end()
                check(sum(line.startswith("ddict1 warn") for line in d.nodes[0].lines) == 1, "%r" % d.nodes[0].lines)
                check("; record" not in d.nodes[0].line("summary"), "summary")
        check(os.path.getsize(target) == 0 and os.path.getsize(tmp + "/hard") == 0, "it was written to")


def a_full_disk_is_warned_of_and_spoils_one_line():
    """In a mount namespace of its own, on a file system of four pages, where a line finds room for its first 96 bytes."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        print("# not run: no mount namespace can be made here")
        return
    script = "mount -t tmpfs -o size=16k none $0 && cd $0 && yes '' | head -c 4000 > r && head -c 12288 /dev/zero > filler && exec \"$@\""
    with folder() as tmp:
        node_init = cluster.Node.__init__
        cluster.Node.__init__ = lambda self, argv, env, name: node_init(self, ["unshare", "-m", "sh", "-c", script, tmp] + argv, env, name)
        try:
            with recorded(tmp + "/r") as d:
                there = "/proc/%d/root%s/" % (d.nodes[0].proc.pid, tmp)
                warn = d.nodes[0].line("warn")
                check("No space left" in warn, warn)
                os.unlink(there + "filler")
                with open(there + "r") as f:
                    d.end()
                    text = f.read().strip("\n").splitlines()
            check(len(text) == 2 and text[0] == text[0][:96] and text[0].startswith('{"event":"start"'), "%r" % text)
            check(json.loads(text[1])["event"] == "job_end", "%r" % text)
            check(sum(line.startswith("ddict1 warn") for line in d.nodes[0].lines) == 1, "%r" % d.nodes[0].lines)
        finally:
            cluster.Node.__init__ = node_init


def rotation_needs_no_signal():
    with folder() as tmp:
        log = tmp + "/r.jsonl"
        with recorded(log) as d:
            wait_for("start", lambda: os.path.exists(log) and lines(log))
            os.rename(log, log + ".1")
            d.end()
        check([line["event"] for line in lines(log + ".1")] == ["start"], "old file")
        check([line["event"] for line in lines(log)] == ["job_end"], "new file")


def two_dictionaries_share_a_file():
    with folder() as tmp:
        log = tmp + "/r.jsonl"
        for n in range(2):
            with recorded(log) as d:
                d.end()
        all_lines = lines(log)
        check([line["event"] for line in all_lines] == ["start", "job_end"] * 2, "%r" % all_lines)
        check(len({line["dict"] for line in all_lines}) == 2, "ids")


def the_summary_is_appended_to_its_file():
    with folder() as tmp:
        out = tmp + "/slurm-12.out"
        with open(out, "w") as f:
            f.write("of the job\n")
        with Dictionary(nodes=2, managers=2, args=("--summary", out)) as d:
            d.run("fill", "k", 3, 10)
            d.end()
        with open(out) as f:
            text = f.read().splitlines()
        check(text[0] == "of the job" and len(text) == 2 and text[1].startswith("ddict: 2 managers on 2 nodes, 64.0 MiB: 3 keys, "), "%r" % text)
        check(text[1][7:] == d.nodes[0].line("summary")[8:], "%r" % text)
        with Dictionary(args=("--summary", tmp + "/missing")) as d:
            d.end()
            check("the summary" in d.nodes[0].line("warn"), "no warning")
        check(not os.path.exists(tmp + "/missing"), "it was made")


def ports_are_those_of_the_range():
    base = 20000 + os.getpid() % 20000
    with Dictionary(nodes=2, managers=4, args=("--ports", "%d-%d" % (base, base + 30))) as d:
        for node in d.nodes:
            for pid in [node.proc.pid] + node.managers:
                check(all(base <= p <= base + 30 for p in listening_ports(pid)), "ports %r" % listening_ports(pid))
        d.run("fill", "k", 50, 100)
        d.run("verify", "k", 50, 100, node=1)
        d.end()
    with Dictionary(nodes=2, managers=8, args=("--ports", "%d-%d" % (base, base + 2)), ready=False) as d:
        line = d.nodes[0].line("error")
        check("no port of %d-%d is free" % (base, base + 2) in line, line)
        all_end(d, 1)
    for bad in ("x", "1-", "5-4", "0-5", "1-65536", "1-2-3", "+1-2"):
        p = subprocess.run([DDICTD, "--name", "x", "--ports", bad], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        check(p.returncode == 1 and "--ports=%s" % bad in p.stdout, "%r" % p)
    p = subprocess.run([DDICTD, "--name", "x", "--record", "relative"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    check(p.returncode == 1 and "absolute path" in p.stdout, "%r" % p)


main([the_counts_are_exactly_those_of_the_work, names_tell_the_scope, down_and_sigterm_are_told_apart, whoever_is_gone_one_node_writes,
      a_node_killed_in_the_end_of_a_job_loses_only_its_own, a_head_that_was_silent_does_not_write_twice,
      a_manager_that_dies_is_named_and_its_counts_are_kept, a_manager_that_comes_back_is_recorded,
      a_node_that_is_lost_with_two_copies_is_recorded, a_full_manager_is_told_of_once, strangers_are_recorded, a_stranger_that_comes_late_does_not_follow_the_end, another_user_that_knocks_is_recorded,
      a_log_that_can_not_be_written_is_warned_of_once, a_full_disk_is_warned_of_and_spoils_one_line, rotation_needs_no_signal, two_dictionaries_share_a_file,
      the_summary_is_appended_to_its_file, ports_are_those_of_the_range], at_once=3)
