#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/peers still measures: every row that needs no server gives figures of the right form. What they say is not judged."""
import json
import os
import subprocess
import sys
import tempfile

from cluster import BUILD, check, main

PEERS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "bench", "peers", "peers.py")
ROWS = ["view", "view_cached", "get_many", "put", "put_awake", "put_asleep", "put_many", "two", "writer", "place_16m", "memory"]


def measured(rows, *options):
    with tempfile.TemporaryDirectory() as folder:
        file, page = os.path.join(folder, "a.json"), os.path.join(folder, "a.md")
        only = [word for row in rows for word in ("--only", row)]
        p = subprocess.run([sys.executable, PEERS, "--ours", "--seconds", "0.01", "--reps", "2", "--keys", "2048", "--mem", "256M", "--json", file, "--markdown", page,
                            *options, *only], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=110)
        check(p.returncode == 0, p.stdout)
        with open(file) as f:
            result = json.load(f)
        with open(page) as f:
            lines = f.read().splitlines()
    check(sorted(result["rows"]) == sorted(rows), p.stdout)
    for name, row in result["rows"].items():
        check("failed" not in row, "%s: %s" % (name, row.get("failed")))
        check(row["sides"] or row["notes"], "%s: no figures" % name)
        for side, f in row["sides"].items():
            check(len(f["ns"]) == len(f["cpu"]) == (6 if name == "two" else 2) and min(f["ns"]) > 0, "%s, %s: %r" % (name, side, f))
    check(len(lines) > 2 + len(rows) / 2 and all(line.count("|") == 8 for line in lines), "\n".join(lines))


def rows_of_one_node_give_figures():
    rows = ROWS if len(os.sched_getaffinity(0)) > 1 else [r for r in ROWS if r != "put_awake"]
    measured(rows)


def rows_of_python_give_figures():
    if os.path.exists(os.path.join(BUILD, "client", "python", ".libs", "_ddict.so")):
        measured(["py_get", "py_put"])


def rows_of_two_nodes_give_figures():
    if os.geteuid() == 0 and subprocess.run(["ip", "netns", "list"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
        measured(["remote_1k", "remote_1m"])


if __name__ == "__main__":
    if not os.access(os.path.join(BUILD, "tests", "bench", "peers", "measure"), os.X_OK):
        print("skipped: built without LMDB")
        sys.exit(77)
    main([rows_of_one_node_give_figures, rows_of_python_give_figures, rows_of_two_nodes_give_figures])
