#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Histories over Slurm: the tasks of a step call what they like on a few keys (tests/history/worker.c) and note it, while managers are killed and stand still, until a ddictd, the srun of the managers or their
slurmstepd is killed, or nothing; then tests/history/linear.py says whether some order of the calls explains all answers.

    histories.py ROUND SECONDS FOLDER      as 96-histories.t starts it; FOLDER: an empty one that the user of the cluster may write to

ROUND is what there is in the end: `nothing`, `node` (the ddictd of one node is killed, and another one has all that it had), `ddictd`, `srun` or `slurmstepd`, which end the dictionary. Prints the job, and
what there was. Nobody may be told a wrong answer, wait for one for long, or stay.
"""
import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "history"), os.path.join(HERE, "..", "local")]

import linear  # noqa: E402
from cluster import managers_of, shadows_of  # noqa: E402

ROUND, SECONDS, FOLDER = sys.argv[1], float(sys.argv[2]), sys.argv[3]
SEED = int(os.environ.get("HISTORY_SEED", "0")) or random.SystemRandom().getrandbits(31)
DEVCLUSTER, ID = os.environ["DEVCLUSTER"], os.environ["DEVCLUSTER_ID"]
NODES, TASKS, LONG_MS = 3, 6, 20000  # LONG_MS: of worker.c
REPLICAS = ROUND in ("nothing", "node")
SLOW = 4 if "User Mode Linux" in open("/proc/cpuinfo").read() else 1
GO_ON_S = 8 * SLOW  # behind the loss of a node: DD_LEASE_WAIT_MS, and calls of after it
RNG = random.Random(SEED)
TASK = """#!/bin/sh
# A worker until the file `stop` is there; another one in place of one that was killed. The first task then has one that looks at what is left.
cd "$1" || exit 1
k=0 rc=137
while [ $rc = 137 ] && [ ! -e stop ]; do
    k=$((k + 1)) id=$((SLURM_PROCID * 1000 + k))
    ./worker calls.$id $id $((%d + id)) 12 1500 small &
    w=$!
    (while [ ! -e stop ]; do sleep 0.1; done; kill -TERM $w) 2>/dev/null &
    t=$!
    echo "job $SLURM_JOB_ID"
    wait $w
    rc=$?
    kill $t 2>/dev/null
    wait $t
done
echo $rc $SLURM_NODEID >ended.$SLURM_PROCID
[ "$SLURM_PROCID" = 0 ] && [ $rc = 0 ] || exit 0
while [ -e ended.0 ] && [ "$(ls ended.* | wc -l)" -lt "$SLURM_NTASKS" ]; do sleep 0.1; done
./worker calls.9000 9000 1 12 0 small last
echo $? 0 >ended.last
"""


class Failed(Exception):
    pass


def check(ok, what):
    if not ok:
        raise Failed(what)


def wait_for(what, fn, seconds):
    end = time.monotonic() + seconds * SLOW
    while not fn():
        check(time.monotonic() < end, "not within %d s: %s" % (seconds * SLOW, what))
        time.sleep(0.05)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def path_of(name):
    return os.path.join(FOLDER, name)


def processes(words):
    """Pids of those whose command line has all these words."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = read("/proc/%s/cmdline" % pid).replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(word in line for word in words):
            found.append(int(pid))
    return found


def parent_of(pid):
    try:
        return int(read("/proc/%d/stat" % pid).rsplit(b")", 1)[1].split()[1])
    except OSError:
        return 0


def net_of(pid):
    try:
        return os.readlink("/proc/%s/ns/net" % pid)
    except OSError:
        return None


class Step:
    """A step with a dictionary, and what is done to it."""

    def __init__(self):
        run = "/var/lib/ddict-devcluster/%s/run" % ID
        names = subprocess.run([DEVCLUSTER, "nodes"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[:NODES]
        self.nets = [net_of(read("%s/%s.pid" % (run, name)).decode().strip()) for name in names]
        self.did, self.later, self.losses, self.lost_nodes = Counter(), [], {}, set()
        with open(path_of("task"), "w") as f:
            f.write(TASK % SEED)
        argv = ["env", "DDICT_RESTARTS=16", "srun", "-N%d" % NODES, "-n%d" % TASKS, "--ntasks-per-node=%d" % (TASKS // NODES), "-w", ",".join(names), "--mem=400M", "--ddict-managers=%d" % NODES, "--ddict-mem=192M"]
        argv += ["--ddict-replicas=2"] if REPLICAS else []
        self.out = open(path_of("out"), "w")
        self.srun = subprocess.Popen([DEVCLUSTER, "run", "--", *argv, "/bin/sh", path_of("task"), FOLDER], stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.out)
        wait_for("all tasks to call", lambda: self.srun.poll() is not None or self.calling() >= TASKS, 60)
        check(self.srun.poll() is None, "the step has ended")
        self.job = self.text().split("job ")[1].split()[0]
        print("job %s" % self.job, flush=True)

    def text(self):
        return read(path_of("out")).decode(errors="replace")

    def files(self):
        return [path_of(name) for name in os.listdir(FOLDER) if name.startswith("calls.")]

    def calling(self):
        return sum(len(linear.read_file(path)) > 0 for path in self.files())

    def ended(self):
        """Of each task that has ended: its exit code, and its node."""
        words = {name.split(".")[1]: read(path_of(name)).split() for name in os.listdir(FOLDER) if name.startswith("ended.")}
        return {task: (int(w[0]), int(w[1])) for task, w in words.items() if len(w) == 2}

    # --- processes ---
    def ddictds(self):
        """By node; without those of nodes that were lost."""
        all_of_them = processes(["ddictd --name ", ".%s." % self.job])
        tops = [pid for pid in all_of_them if parent_of(pid) not in all_of_them]
        return {self.nets.index(net): pid for pid in tops if (net := net_of(pid)) in self.nets and self.nets.index(net) not in self.lost_nodes}

    def some(self, of):
        pids = [pid for ddictd in self.ddictds().values() for pid in of(ddictd)]
        return RNG.choice(pids) if pids else None

    def signal(self, pid, number):
        try:
            if pid:
                os.kill(pid, number)
        except ProcessLookupError:
            pass

    # --- nemeses ---
    def manager_killed(self):
        self.signal(self.some(managers_of), signal.SIGKILL)

    def shadow_killed(self):
        self.signal(self.some(shadows_of), signal.SIGKILL)

    def manager_stopped(self):
        pid = self.some(managers_of)
        self.signal(pid, signal.SIGSTOP)
        self.later.append((time.monotonic() + RNG.uniform(0.02, 1.5), pid))

    def worker_killed(self):
        mine = [pid for pid in processes(["./worker calls."]) if parent_of(pid) in processes([path_of("task")])]
        self.signal(RNG.choice(mine) if mine else None, signal.SIGKILL)

    def continued(self, all_of_them=False):
        for item in [i for i in self.later if all_of_them or i[0] <= time.monotonic()]:
            self.later.remove(item)
            self.signal(item[1], signal.SIGCONT)

    def run(self, seconds, nemeses):
        """True while all goes on: a manager that dies for the third time within 10 s ends the dictionary (PROTOCOL 12)."""
        end, at = time.monotonic() + seconds, time.monotonic() + 0.5
        while time.monotonic() < end and self.lives():
            time.sleep(0.02)
            self.continued()
            if nemeses and time.monotonic() > at:
                what = RNG.choice(nemeses)
                self.did[what] += 1
                getattr(self, what)()
                at = time.monotonic() + RNG.uniform(0.3, 1.2)
        self.continued(True)
        return self.lives()

    def lives(self):
        return self.srun.poll() is None and all(node in self.lost_nodes for _, node in self.ended().values())

    # --- the end ---
    def node_killed(self, node):
        pid = self.ddictds()[node]
        self.signal(pid, signal.SIGKILL)
        wait_for("the end of a ddictd", lambda: net_of(pid) is None, 10)
        self.lost_nodes.add(node)
        return time.monotonic_ns()

    def kill(self):
        """What ends the dictionary."""
        ddictd = self.ddictds()[0]
        if ROUND == "ddictd":
            self.signal(ddictd, signal.SIGKILL)
        elif ROUND == "slurmstepd":
            self.signal(parent_of(ddictd), signal.SIGKILL)
        else:
            sruns = processes(["srun --jobid=%s --nodelist=" % self.job, "--job-name=ddict"])
            check(sruns, "no srun of the managers was found")
            for pid in sorted(sruns):  # its helper is its child
                self.signal(pid, signal.SIGKILL)
        self.did[ROUND] += 1

    def end(self, in_order):
        if in_order:
            open(path_of("stop"), "w").close()
        wait_for("the tasks to end: %r" % self.ended(), lambda: len(self.ended()) >= TASKS + ("last" in self.ended()), 40)
        open(path_of("stop"), "w").close()
        wait_for("the step to end", lambda: self.srun.poll() is not None, 60)

    def abandon(self):
        self.continued(True)
        open(path_of("stop"), "w").close()
        if self.srun.poll() is None and hasattr(self, "job"):
            subprocess.run([DEVCLUSTER, "run", "--", "scancel", self.job], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.srun.wait(30)
        except subprocess.TimeoutExpired:
            self.srun.kill()
        self.out.close()


def judge(step, over):
    told = {0, 2, 3}  # of worker.c: that it could not attach, or that the dictionary is lost
    wrong = {task: code for task, (code, node) in step.ended().items() if code not in (told if over or node in step.lost_nodes else {0})}
    calls = [c for path in step.files() for c in linear.read_file(path)]
    counts = linear.check_history(calls, step.losses)
    counts["hung"] = sum(c.code == -errno.ETIMEDOUT and c.timeout_ms >= LONG_MS for c in calls)
    print("%s: %s; %s" % (ROUND, ", ".join("%s %d" % i for i in sorted(step.did.items())), ", ".join("%s %d" % i for i in sorted(counts.items()))), flush=True)
    check(not wrong, "workers ended with %r" % wrong)
    check(counts["hung"] == 0, "%d calls hung" % counts["hung"])
    check(counts["answered"] > 20 * SECONDS, "only %d answers" % counts["answered"])


def a_round(step):
    kinds = ["manager_killed"] * 2 + ["manager_stopped", "worker_killed"] + (["shadow_killed"] if REPLICAS else [])
    lived = step.run(SECONDS, kinds)
    if lived and ROUND == "node":
        node = RNG.randrange(NODES)
        when = step.node_killed(node)
        step.losses = {m: when for m in range(node, NODES, NODES)}
        step.did["node"] += 1
        lived = step.run(GO_ON_S, [])
        check(lived, "the dictionary has not gone on without a node")
    elif lived and ROUND != "nothing":
        step.kill()
        step.end(False)
        return True
    step.end(lived)
    return not lived


def main():
    print("# HISTORY_SEED=%d" % SEED, flush=True)
    step = None
    try:
        step = Step()
        over = a_round(step)
        judge(step, over)
    except (Failed, linear.Unexpected) as e:
        print("%s: %s" % (ROUND, e))
        print("".join("    " + line + "\n" for line in read(path_of("out")).decode(errors="replace").splitlines()[-20:]))
        sys.exit(1)
    finally:
        if step:
            step.abandon()


if __name__ == "__main__":
    main()
