#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`ddict bench`: its output is whole, its keys are gone however it ends, and those of others stay. No time is judged."""
import json
import os
import pty
import signal
import subprocess
import tempfile
import xml.dom.minidom

from cluster import BUILD, TRANSPORT, Dictionary, Failed, check, main, wait_for

DDICT = os.path.join(BUILD, "ddict")
SHORT = ["--seconds", "0.01", "--reps", "2", "--set-size", "2M"]


def bench(d, *args, node=0, code=0, **kw):
    p = subprocess.run([DDICT, "bench", *args], env=d.env(node), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, **kw)
    check(p.returncode == code, "bench %s: exit code %d: %s" % (" ".join(args), p.returncode, p.stderr))
    return p.stdout, p.stderr


def keys(d):
    return subprocess.run([DDICT, "ls"], env=d.env(), stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout.splitlines()


def put_one(d):
    subprocess.run([DDICT, "put", "bench", "not yours"], env=d.env(), check=True, timeout=60)


def json_says_what_was_measured():
    with Dictionary(managers=2, mem="64M") as d:
        put_one(d)
        out, err = bench(d, "--sizes", "64,4K", "--clients", "1,2", "--json", *SHORT)
        r = json.loads(out)
        check(err == "", err)
        check(r["dictionary"]["managers"] == 2 and r["client"]["cpus_allowed"] == len(os.sched_getaffinity(0)) and r["touched"], "%r" % r)
        seen = {(e["op"], e["value_bytes"], e["clients"]) for e in r["results"]}
        check(len(seen) == len(r["results"]) == 7 * 2 * 2, "%d results" % len(r["results"]))
        for e in r["results"]:
            check(e["place"] == "local" and len(e["ops_per_s_all"]) == 2 and e["timed"] > 0, "%r" % e)
            check(0 < e["ops_per_s_lowest"] <= e["ops_per_s"] <= e["ops_per_s_highest"] and 0 < e["p50_ns"] <= e["p99_ns"] <= e["max_ns"], "%r" % e)
            check(e["client_cpu_ns"] > 0, "%r" % e)
        check(keys(d) == ["'bench'"], "%r" % keys(d))
        d.end()


def text_has_a_line_for_each():
    with Dictionary(managers=1, mem="64M") as d:
        out, err = bench(d, "--sizes", "8..128", "--ops", "view,mixed", "--untouched", *SHORT)
        lines = [line.split() for line in out.splitlines() if " local " in line and "B " in line]
        check([line[0] for line in lines] == ["8", "8", "32", "32", "128", "128"] and {line[4] for line in lines} == {"view", "mixed"}, out)
        check("not touched" in out and "may lie in the cache" in out and err == "", out + err)
        out, err = bench(d, "--sizes", "16M..256M", "--ops", "view", "--seconds", "0.01", "--reps", "1")
        check(out.count(" view ") == 1 and err.count("left out: no room") == 2, out + err)
        d.end()


def pinned_clients_are_said():
    with Dictionary(managers=1, mem="64M") as d:
        all_of_them = sorted(os.sched_getaffinity(0))
        short = ["--sizes", "64", "--ops", "view", *SHORT]
        for cpus in ([all_of_them[-1]], all_of_them):
            mask = {"preexec_fn": lambda: os.sched_setaffinity(0, cpus)}
            client = json.loads(bench(d, "--json", *short, **mask)[0])["client"]
            pinned = len(cpus) < client["cpus_online"]
            check(client["cpus_allowed"] == len(cpus) and client["pinned"] is pinned and (len(cpus) > 1 or client["cpus"] == "%d" % cpus[0]), "%r" % client)
            out = bench(d, *short, **mask)[0]
            check("may use cpus %s%s; " % (client["cpus"], " (pinned)" if pinned else "") in out, out)
        d.end()


def plot_is_a_picture():
    with Dictionary(managers=1, mem="64M") as d, tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "a.svg")
        bench(d, "--sizes", "1K,64", "--ops", "put,get", "--plot", file, *SHORT)
        svg = xml.dom.minidom.parse(file)
        check(len(svg.getElementsByTagName("polyline")) == 4, "lines")
        check([len(p.getAttribute("points").split()) for p in svg.getElementsByTagName("polyline")] == [2] * 4, "points")
        out, err = bench(d, "--plot", os.path.join(folder, "no", "a.svg"), *SHORT, code=1)
        check(err.count("\n") == 1 and out == "", out + err)
        check(keys(d) == [], "keys")
        d.end()


def remote_keys_are_those_of_the_other_node():
    with Dictionary(nodes=2, managers=2, mem="64M") as d:
        before = d.stats()
        r = json.loads(bench(d, "--sizes", "1K", "--place", "remote", "--json", *SHORT)[0])
        check({e["place"] for e in r["results"]} == {"remote"} and len(r["results"]) == 7, "%r" % r["results"])
        after = d.stats()
        check(after[0]["puts"] == before[0]["puts"] and after[1]["puts"] > before[1]["puts"], "puts: %r %r" % (before, after))
        r = json.loads(bench(d, "--sizes", "64", "--ops", "get", "--json", *SHORT, node=1)[0])
        check([e["place"] for e in r["results"]] == ["local", "remote"], "%r" % r["results"])
        check(keys(d) == [], "keys")
        d.end()


def frozen_values_of_the_other_node_are_read_on_this_one():
    with Dictionary(nodes=2, managers=2, mem="64M") as d:
        put_one(d)
        r = json.loads(bench(d, "--sizes", "1K", "--clients", "2", "--place", "remote", "--frozen", "--json", *SHORT)[0])
        check(r["frozen"] and {e["op"] for e in r["results"]} == {"get", "view", "get_many"}, "%r" % r)
        reads, asked = sum(e["timed"] for e in r["results"]), d.stats()[1]["gets_remote"]
        check(0 < asked < 3 * 2048 and reads > 0, "%d reads, %d of them of the other node" % (reads, asked))
        check(keys(d) == ["'bench'"] and not any(s["frozen"] for s in d.stats().values()), "%r" % keys(d))
        check("get, view and get_many only" in bench(d, "--frozen", "--ops", "get,put", code=2)[1], "put")
        subprocess.run([DDICT, "freeze"], env=d.env(), check=True, timeout=60)
        check("frozen" in bench(d, "--frozen", "--sizes", "64", *SHORT, code=1)[1] and all(s["frozen"] for s in d.stats().values()), "a freeze of others was ended")
        d.end()


def long_one(d, *args, **kw):
    p = subprocess.Popen([DDICT, "bench", *args, "--sizes", "1K", "--clients", "2", "--seconds", "20", "--set-size", "4M"], env=d.env(), stdout=subprocess.PIPE,
                         text=True, start_new_session=True, **kw)
    wait_for("keys of the bench", lambda: len(keys(d)) > 2000, 30)
    return p


def interrupted(sig):
    with Dictionary(managers=1, mem="64M") as d:
        put_one(d)
        # what is in the background of a script ignores SIGINT, and so would the bench
        p = long_one(d, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(sig, signal.SIG_DFL))
        os.killpg(p.pid, sig)
        err = p.communicate(timeout=60)[1]
        check(p.returncode == -sig and "its keys are removed" in err, "%d: %s" % (p.returncode, err))
        check(keys(d) == ["'bench'"], "%d keys" % len(keys(d)))
        d.end()


def interrupted_it_removes_its_keys():
    interrupted(signal.SIGINT)


def terminated_it_removes_its_keys():
    interrupted(signal.SIGTERM)


def killed_its_clients_remove_their_keys():
    with Dictionary(managers=1, mem="64M") as d:
        p = long_one(d, "--frozen")
        wait_for("the freeze", lambda: d.stats()[0]["frozen"], 30)
        p.kill()
        p.communicate(timeout=60)
        wait_for("keys to go", lambda: keys(d) == [], 30)
        check(not d.stats()[0]["frozen"], "still frozen")
        wait_for("clients to end", lambda: d.stats()[0]["clients_now"] <= 1, 30)
        d.end()


def a_terminal_sees_progress():
    with Dictionary(managers=1, mem="64M") as d:
        here, there = pty.openpty()
        try:
            p = subprocess.run([DDICT, "bench", "--sizes", "64", "--ops", "view", "--seconds", "0.3", "--reps", "1", "--set-size", "1M"], env=d.env(),
                               stdout=subprocess.PIPE, stderr=there, timeout=60)
            seen = os.read(here, 1 << 16).decode()
        finally:
            os.close(here)
            os.close(there)
        check(p.returncode == 0 and "\r[" in seen and "values of 64 B" in seen and seen.endswith("\r\x1b[K"), repr(seen))
        d.end()


def the_path_to_another_node_is_measured_beside_tcp():
    carrier, said = (TRANSPORT, TRANSPORT) if TRANSPORT else ("tcp", "tcp, 3 connections")
    with Dictionary(nodes=2, managers=2, mem="256M") as d:
        put_one(d)
        out, err = bench(d, "--net", "--json", "--seconds", "0.01", "--reps", "3")
        r = json.loads(out)
        check(r["from_node"] == d.node_name(0) and r["to_node"] == d.node_name(1) and r["carrier"].startswith(carrier) and r["connections"] == 3, "%r" % r)
        check([e["value_bytes"] for e in r["results"]] == [8, 1024, 1 << 20, 64 << 20], "%r" % r)
        for e in r["results"]:
            check(e["managers"] > 0 and e["tcp"] > 0 and 0 < e["ratio_lowest"] <= e["ratio"] <= e["ratio_highest"], "%r" % e)
        check(err == "", err)
        check(keys(d) == ["'bench'"], "%r" % keys(d))
        out, err = bench(d, "--net", "--seconds", "0.01", "--reps", "1", node=1)
        check(out.startswith("from node %s to manager 0 on node %s" % (d.node_name(1), d.node_name(0))) and said in out and out.count("x  (") == 4, out)
        if not TRANSPORT:
            d.run("path")
        d.end()


def a_path_that_is_not_there_is_said():
    with Dictionary(managers=1, mem="64M") as d:
        check("all managers are on this node" in bench(d, "--net", code=1)[1], "no word")
        check("--net goes with" in bench(d, "--net", "--sizes", "8", code=2)[1], "no word")
        d.end()
    with Dictionary(nodes=2, managers=2, mem="64M") as d:
        out, err = bench(d, "--net", "--seconds", "0.01", "--reps", "1")
        check(err.count("left out: no room for values of 64.0 MiB") == 1 and out.count("x  (") == 3, out + err)
        check(keys(d) == [], "%r" % keys(d))
        d.end()


def bad_input_is_said():
    with Dictionary(managers=1, mem="64M") as d:
        for args in (["--sizes", "0"], ["--sizes", ""], ["--sizes", "8,x"], ["--sizes", "1K..64"], ["--clients", "0"], ["--clients", "1000"], ["--ops", "fly"],
                     ["--place", "moon"], ["--reps", "0"], ["--reps", "33"], ["--seconds", "0"], ["--seconds", "-1"], ["--set-size", "0"], ["word"]):
            out, err = bench(d, *args, code=2)
            check(out == "" and err.startswith("ddict bench: ") and err.count("\n") == 2, "%r: %s%s" % (args, out, err))
        for args, word in ((["--place", "remote"], "all managers are on this node"), (["--sizes", "1M", "--set-size", "10G"], "does not fit"),
                           (["--sizes", "1G"], "no room")):
            err = bench(d, *args, code=1)[1]
            check(word in err and err.count("\n") == 1, "%r: %s" % (args, err))
        check(keys(d) == [], "keys")
        d.end()


def a_lost_dictionary_ends_it():
    with Dictionary(managers=1, mem="64M") as d:
        p = long_one(d, stderr=subprocess.PIPE)
        d.end()
        err = p.communicate(timeout=60)[1]
        check(p.returncode == 1 and err.startswith("ddict bench: ") and err.count("\n") == 1, "%d: %s" % (p.returncode, err))


if __name__ == "__main__":
    if not os.access(DDICT, os.X_OK):
        raise Failed("no " + DDICT)
    main([json_says_what_was_measured, text_has_a_line_for_each, pinned_clients_are_said, plot_is_a_picture, remote_keys_are_those_of_the_other_node,
          frozen_values_of_the_other_node_are_read_on_this_one, interrupted_it_removes_its_keys, terminated_it_removes_its_keys,
          killed_its_clients_remove_their_keys, a_terminal_sees_progress, the_path_to_another_node_is_measured_beside_tcp,
          a_path_that_is_not_there_is_said, bad_input_is_said, a_lost_dictionary_ends_it])
