#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the dictionary with its peers: they do the same work in turn, in one run; results are ratios.

make -C tests/bench peers ARGS="--only view"       or, in the build folder,  .../tests/bench/peers/peers.py --only view

Each row of the table in goals.py is measured by `measure` (C) or by a Python script; servers that a row needs are started here and ended by
process id. A peer that is not installed is reported, and its ratio is left out. This is not a test: it does not fail if a goal is missed.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "local")]
os.environ.setdefault("DDICT_BUILD", os.getcwd())

import goals  # noqa: E402
import nets  # noqa: E402
import page  # noqa: E402
import python_rows  # noqa: E402
import servers  # noqa: E402
import start_rows  # noqa: E402
import table  # noqa: E402
from cluster import BUILD, Dictionary  # noqa: E402

ROW_SECONDS = 300  # a row that takes longer is aborted
APART = ("remote_1m", "remote_64m")  # each node has its own cores, else the scheduler sometimes puts both ends on one core
UNSTEADY = ("two", "view_256m")  # the ratio is near 1, but turns differ by a tenth: do three times as many turns
MEASURE = os.path.join(BUILD, "tests", "bench", "peers", "measure")


def arguments():
    p = argparse.ArgumentParser(description="Measure the dictionary beside its peers.", epilog="Rows: " + " ".join(goals.NAMES))
    p.add_argument("--only", action="append", metavar="ROW", help="this row alone; may be repeated")
    p.add_argument("--skip", action="append", default=[], metavar="ROW")
    p.add_argument("--seconds", type=float, default=0.2, help="of one turn of one side (default %(default)s)")
    p.add_argument("--reps", type=int, default=7, help="turns of each side (default %(default)s)")
    p.add_argument("--keys", type=int, default=262144, help="pairs of 1 KiB in a set much larger than the caches (default %(default)s)")
    p.add_argument("--mem", default="1G", help="of the dictionary (default %(default)s)")
    p.add_argument("--ours", action="store_true", help="leave the servers out")
    p.add_argument("--python", default="/usr/bin/python3", help="the interpreter that the binding was built for (default %(default)s)")
    p.add_argument("--venv", metavar="FOLDER", help="a virtual environment with dragonhpc and ray, for their rows")
    p.add_argument("--json", metavar="FILE", help="all figures of the run")
    p.add_argument("--markdown", metavar="FILE", help="the table")
    p.add_argument("--page", metavar="FILE", help="doc/performance.md from this run")
    a = p.parse_args()
    unknown = set((a.only or []) + a.skip) - set(goals.NAMES)
    if unknown:
        p.error("no row %s; rows: %s" % (" ".join(sorted(unknown)), " ".join(goals.NAMES)))
    return a


def guarded(name, figures):
    """The result of figures(), or its error as text, so that the other rows go on."""
    try:
        return figures()
    except subprocess.TimeoutExpired as e:
        return {"row": name, "failed": "it took more than %d s" % e.timeout}
    except Exception as e:  # pylint: disable=broad-except
        return {"row": name, "failed": "%s: %s" % (type(e).__name__, str(e).strip()[-300:])}


def measure(row, args, options, env, prefix=()):
    """The figures of one row from the C program, or the reason why there are none."""
    long = 4 if row == "remote_64m" else 1
    often = 3 if row in UNSTEADY else 1
    argv = [*prefix, MEASURE, row, "--seconds", str(args.seconds * long), "--reps", str(args.reps * often), "--keys", str(args.keys), *options]
    p = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=ROW_SECONDS)
    sys.stderr.write(p.stderr)
    if p.returncode != 0:
        return {"row": row, "failed": p.stderr.strip() or "exit code %d" % p.returncode}
    return json.loads(p.stdout)


def local_rows(args, names, folder, result):
    with servers.Servers(folder, {} if args.ours else {"redis", "memcached"}) as peers:
        result["missing"] += peers.missing
        for name in names:
            lmdb = tempfile.mkdtemp(dir=folder)

            def figures():
                with Dictionary(managers=1, mem=args.mem) as d:
                    row = measure(name, args, peers.options + ["--lmdb", lmdb], d.env())
                    d.end()
                return row

            show(result, name, guarded(name, figures))
            subprocess.run(["rm", "-rf", lmdb], check=True)
            peers.forget()


def remote_row(name, args, net, peers):
    with Dictionary(nodes=2, managers=2, mem=args.mem, via=[net.prefix(0), net.prefix(1)]) as d:
        row = measure(name, args, peers.options, d.env(0), net.prefix(0))
        d.end()
    return row


def remote_rows(args, names, folder, result):
    if not names:
        return
    if os.geteuid() != 0:
        result["missing"].append("rows across two nodes: network namespaces need root")
        return
    for apart in (False, True):
        with nets.Pair() as net:
            net.apart = apart
            with tempfile.TemporaryDirectory(dir=folder) as there, servers.Remote(there, net, MEASURE, redis=not args.ours) as peers:
                result["missing"] += [text for text in peers.missing if text not in result["missing"]]
                for name in names:
                    if (name in APART) == apart:
                        show(result, name, guarded(name, lambda: remote_row(name, args, net, peers)))  # pylint: disable=cell-var-from-loop
                        peers.forget()


def python_and_dragon(args, names, folder, result):
    def say(name, figures):
        show(result, name, figures)

    for kind in ("python", "epoch", "dragon", "ray"):
        some = [n for n in names if goals.KIND[n] == kind]
        if not some:
            continue
        if not os.path.exists(os.path.join(BUILD, "client", "python", ".libs", "_ddict.so")):
            return result["missing"].append("Python: the binding is not built")
        rows = {"python": python_rows.local_rows, "epoch": python_rows.epoch_rows, "dragon": python_rows.dragon_rows, "ray": python_rows.ray_rows}[kind]

        def all_of_kind():
            with Dictionary(managers=1, mem=args.mem) as d:
                rows(args, some, d, folder, BUILD, say, result["missing"])
                d.end()

        failed = guarded(kind, all_of_kind)
        for name in some if failed else ():
            if name not in result["rows"]:
                say(name, dict(failed, row=name))


def show(result, name, figures):
    result["rows"][name] = figures
    for line in table.lines(name, figures):
        print(line, flush=True)


def main():
    args = arguments()
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda *a: sys.exit("interrupted"))
    names = [n for n in (args.only or goals.NAMES) if n not in args.skip]
    if not os.access(MEASURE, os.X_OK):
        sys.exit("no %s: build it with `make -C tests/bench peers`" % MEASURE)
    result = {"machine": servers.machine(), "load_before": os.getloadavg(), "missing": [], "rows": {}, "seconds": args.seconds, "reps": args.reps,
              "keys": args.keys}
    if len(names) < len(goals.NAMES):
        result["missing"].append("rows that were not asked for: " + " ".join(n for n in goals.NAMES if n not in names))
    with tempfile.TemporaryDirectory(prefix="ddict-peers-", dir="/dev/shm") as folder:
        for kind, rows in (("local", local_rows), ("remote", remote_rows)):
            some = [n for n in names if goals.KIND[n] == kind]
            failed = guarded(kind, lambda rows=rows, some=some: rows(args, some, folder, result)) if some else None
            for name in some if failed else ():
                if name not in result["rows"]:
                    show(result, name, dict(failed, row=name))
        for name in names:
            if goals.KIND[name] == "start":
                figures = guarded(name, lambda name=name: start_rows.run(name, args, result["missing"]))
                if figures is not None:
                    show(result, name, figures)
        python_and_dragon(args, names, folder, result)
    result["load_after"] = os.getloadavg()
    for text in result["missing"]:
        print("left out:", text)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=1)
    if args.markdown:
        with open(args.markdown, "w") as f:
            f.write(table.markdown(result))
    if args.page:
        with open(args.page, "w") as f:
            f.write(page.text(result))


if __name__ == "__main__":
    main()
