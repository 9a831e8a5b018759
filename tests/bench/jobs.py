#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run many jobs with a dictionary on a cluster of contrib/devcluster, one after another and several at once: measure how long they take to begin and to end,
and check that nothing is left: processes, sockets, descriptors, threads and memory of Slurm's daemons, cgroups, files. Needs root.

begin: from the call of srun or sbatch to the first output line of the last task (or of the script). end: from the last output line of the last task (or of the
script) until srun has returned, or squeue does not list the job any more. Both are also measured for jobs without a dictionary, for comparison.
"""
import argparse
import concurrent.futures
import json
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
DEVCLUSTER = os.environ.get("DEVCLUSTER", os.path.join(HERE, "../../contrib/devcluster/devcluster"))
LIMIT = 180  # seconds that a job may take on a loaded machine
SETTLE = 30  # seconds until a job's resources must be free again; KillWait is 5
# Each task puts a key of its own and reads the keys of all others.
USE = ('ddict put k$SLURM_PROCID v || exit 1; i=0; while [ $i -lt $SLURM_NTASKS ]; do '
       'test "$(ddict get --wait 60 k$i)" = v || exit 1; i=$((i + 1)); done; ')
TASK = 'echo "B $(date +%%s.%%N)"; %secho "E $(date +%%s.%%N)"'


# --- within the cluster, as the user ---

def moments(letter, text):
    return [float(x) for x in re.findall(r"^%s ([0-9.]+)$" % letter, text, re.M)]


def job_srun(a, how, i):
    words = ["--ddict-managers=%d" % a.managers, "--ddict-mem=%s" % a.mem] if how == "srun" else []
    argv = ["srun", "-Q", "-N%d" % a.nodes, "-n%d" % a.nodes, "--mem=%s" % a.job_mem, *words, "sh", "-c", TASK % (USE if words else "")]
    called = time.time()
    p = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    returned = time.time()
    begin, end = moments("B", p.stdout), moments("E", p.stdout)
    if p.returncode != 0 or len(begin) != a.nodes or len(end) != a.nodes:
        return {"bad": "exit code %d: %s%s" % (p.returncode, p.stdout[-500:], p.stderr[-500:])}
    return {"begin": max(begin) - called, "end": returned - max(end)}


def job_sbatch(a, how, i):
    words = ["--ddict-managers=%d" % a.managers, "--ddict-mem=%s" % a.mem] if how == "sbatch" else []
    name = os.path.join(os.environ["HOME"], "jobs-%d-%d" % (os.getpid(), i))
    up = 'eval "$(ddict up --managers=%d --mem=%s)" || exit 1; ' % (a.managers, a.mem) if how == "hand" else ""
    use = "srun -Q -n%d --mem=50M sh -c '%s' || exit 1; " % (a.nodes, USE) if how != "plain-sbatch" else ""
    script = "#!/bin/sh\n" + up + TASK % use + "\n"
    argv = ["sbatch", "--parsable", "-N%d" % a.nodes, "-n%d" % a.nodes, "--mem=%s" % a.job_mem, "-o", name, *words]
    called = time.time()
    p = subprocess.run(argv, input=script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    if p.returncode != 0:
        return {"bad": "sbatch: exit code %d: %s" % (p.returncode, p.stderr)}
    job = p.stdout.split(";")[0].strip()
    while subprocess.run(["squeue", "-h", "-j", job], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip():
        if time.time() > called + LIMIT:
            return {"bad": "job %s does not end" % job}
        time.sleep(0.05)
    gone = time.time()
    try:
        with open(name) as f:
            text = f.read()
        os.unlink(name)
    except OSError as e:
        text = str(e)
    begin, end = moments("B", text), moments("E", text)
    if len(begin) != 1 or len(end) != 1:
        return {"bad": "job %s: %s" % (job, text[-500:])}
    return {"begin": begin[0] - called, "end": gone - end[0]}


def work(a):
    """Print the result of each job as one line of JSON."""
    one = job_srun if a.work.endswith("srun") else job_sbatch
    with concurrent.futures.ThreadPoolExecutor(a.at_once) as pool:
        for r in pool.map(lambda i: one(a, a.work, i), range(a.count)):
            print(json.dumps(r), flush=True)


# --- outside, as root ---

def devcluster(*args, **kw):
    p = subprocess.run([DEVCLUSTER, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **kw)
    if p.returncode != 0 and args[0] != "ps":  # a process that ends while ps looks at it is no failure
        sys.exit("devcluster %s: exit code %d" % (" ".join(args), p.returncode))
    return p.stdout


def daemon(name, line):
    with open("/proc/%s/status" % line[1]) as f:
        status = f.read()
    number = lambda field: int(re.search(r"^%s:\s+(\d+)" % field, status, re.M).group(1))
    return {"descriptors of " + name: len(os.listdir("/proc/%s/fd" % line[1])), "threads of " + name: number("Threads"),
            "memory of %s, KiB" % name: number("VmRSS")}


def groups():
    """The cgroups of the cluster's nodes."""
    cluster = os.environ.get("DEVCLUSTER_ID", "d")
    p = subprocess.run("find /sys/fs/cgroup -type d -path '*slurm_%sn*'" % cluster, shell=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return set(p.stdout.splitlines())


def slurm_forgot(had):
    """Remove the freezer cgroup of a job if it has no process: Slurm 22.05 sometimes leaves it when two steps end at the same moment, also without our plugin."""
    new = sorted(groups() - had, reverse=True)
    jobs = {re.sub(r"(/job_[0-9]+).*", r"\1", path) for path in new if "/job_" in path}
    if len(jobs) > 1 or any(not path.startswith("/sys/fs/cgroup/freezer/") for path in new):
        return False
    try:
        for path in new:
            os.rmdir(path)  # fails if a process is in it
    except OSError:
        return False
    print("  Slurm forgot %s" % ", ".join(new))
    return True


def state():
    """The present number of each kind of resource, by name."""
    now = {}
    processes = [line.split() for line in devcluster("ps").splitlines()]
    now["processes"] = len(processes)
    for line in processes:
        base = os.path.basename(line[4])
        if base in ("slurmd", "slurmctld"):
            now.update(daemon("%s on %s" % (base, line[0]), line))
    nodes = devcluster("nodes").split()
    cluster = os.environ.get("DEVCLUSTER_ID", "d")
    for node in nodes:
        out = devcluster("exec", node, "--", "sh", "-c", "ss -xaH | grep -c @; ss -tanH | wc -l; ls -A /dev/shm /tmp | wc -l").split()
        for what, n in zip(("abstract sockets", "TCP sockets", "files in /tmp and /dev/shm"), out):
            now[what] = now.get(what, 0) + int(n)
    now["cgroups"] = len(groups())
    now["namespaces"] = len([x for x in os.listdir("/run/netns") if x.startswith("ddc-" + cluster)])
    now["nodes not idle"] = len([x for x in devcluster("run", "--", "sinfo", "-h", "-N", "-o", "%T").split() if x not in ("idle", "planned")])
    return now


def grown(before, now):
    """The resources that have grown. Memory is judged separately; TCP sockets are ignored, because a closed connection stays for a while (TIME-WAIT)."""
    return {k: (before.get(k, 0), n) for k, n in now.items() if n > before.get(k, 0) and not k.startswith(("memory", "TCP"))}


def settled(before, seconds=SETTLE):
    end = time.time() + seconds
    while True:
        now = state()
        if not grown(before, now) or time.time() > end:
            return now
        time.sleep(0.5)


def jobs(a, how, count, at_once):
    argv = ["run", "--", "python3", os.path.realpath(__file__), "--work", how, "--count", str(count), "--at-once", str(at_once), "--nodes", str(a.nodes),
            "--managers", str(a.managers), "--mem", a.mem, "--job-mem", a.job_mem]
    began = time.time()
    run = lambda *words: [json.loads(line) for line in devcluster(*argv, *words, timeout=LIMIT * count).splitlines()]
    results = run()
    bad = [r for r in results if "bad" in r]
    if bad and how.startswith("plain"):  # a job without a dictionary can fail on a loaded machine, too
        print("%s, so once more: %s" % (how, bad[0]["bad"]), file=sys.stderr)
        results = [r for r in results if r not in bad] + run("--count", str(len(bad)), "--at-once", "1")
    good = [r for r in results if "bad" not in r]
    for r in results:
        if "bad" in r:
            print("%s: %s" % (how, r["bad"]), file=sys.stderr)
    spread = lambda key: "%6.2f %6.2f" % (statistics.median(r[key] for r in good), max(r[key] for r in good)) if good else "     -      -"
    print("%-13s %5d %7d  %7d   %s   %s   %8.1f" % (how, count, at_once, count - len(good), spread("begin"), spread("end"), time.time() - began), flush=True)
    return count == len(good) == len(results)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--how", default="srun,sbatch", help="srun, sbatch (options of the plugin), hand (ddict up in a batch script), several with commas (%(default)s)")
    p.add_argument("--count", type=int, default=100, help="jobs one after another (%(default)s)")
    p.add_argument("--at-once", type=int, default=10, help="jobs at once, as many in all (%(default)s)")
    p.add_argument("--nodes", type=int, default=2, help="of a job (%(default)s)")
    p.add_argument("--managers", type=int, default=2)
    p.add_argument("--mem", default="64M", help="of the dictionary (%(default)s)")
    p.add_argument("--job-mem", default="200M", help="of a job on a node (%(default)s)")
    p.add_argument("--work", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.work:
        return work(a)
    good = True
    print("seconds                                    begin           end")
    print("jobs of       count at once  failed  median    max   median    max   in all")
    for how in a.how.split(","):
        idle = state()
        plain = "plain-" + ("srun" if how == "srun" else "sbatch")
        good &= jobs(a, plain, max(3, a.count // 5), 1)
        good &= jobs(a, how, 3, 1)  # after these jobs the daemons have allocated what they never free
        before = settled(idle, SETTLE / 3)
        had = groups()
        good &= jobs(a, how, a.count, 1)
        if a.at_once > 1:
            good &= jobs(a, plain, a.at_once, a.at_once)
            good &= jobs(a, how, a.at_once, a.at_once)
        now = settled(before)
        left = grown(before, now)
        if set(left) == {"cgroups"} and slurm_forgot(had):
            left = grown(before, state())
        for k in sorted(now):
            if k.startswith("memory") or k in left:
                print("  %-45s %8d -> %8d%s" % (k, before.get(k, 0), now[k], "  LEFT" if k in left else ""))
        print("  nothing else is more than before" if not left else "  THINGS ARE LEFT: %s" % ", ".join(sorted(left)), flush=True)
        good &= not left
    sys.exit(0 if good else 1)


main()
