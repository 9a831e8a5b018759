# SPDX-License-Identifier: Apache-2.0
"""up_program.py MODE - a program that makes its own dictionary over the nodes of its job, for 63-up-program.t."""

import os
import subprocess
import sys
import time

import ddict

JOB = os.environ["SLURM_JOB_ID"]
END_S = 120


def steps():
    """The job's steps that are of managers"""
    return subprocess.run(["squeue", "-h", "-s", "-o", "%i %j", "-j", JOB], stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")


def managers():
    return sum(line.endswith(" ddict") for line in steps())


def wait_for(what):
    end = time.monotonic() + END_S
    while not what() and time.monotonic() < end:
        time.sleep(0.3)
    return what()


def block():
    with ddict.up(managers=4, mem="64M", record="none") as d:
        print("nodes", d.info["nodes"], "managers", d.info["managers"], "own name", d.name != f"{os.getuid()}.{JOB}.job")
        d["a"] = "from the maker"
        print("steps", managers())
        code = "import ddict; d = ddict.attach(); d['task', d.info['node_id']] = d['a']; print('task', d.info['node'], flush=True)"
        subprocess.run(["srun", "-N2", "-n2", "--overlap", sys.executable, "-c", code], check=True)
        print("keys", len(d))
    print("ended", wait_for(lambda: managers() == 0))


def stay(keep=False):
    ddict.up(managers=2, mem="64M", record="none", keep=keep)["a"] = 1
    print("up", flush=True)
    time.sleep(600)


def killed():
    """The maker is killed: in this script's step, or with all of a step of its own"""
    for how in ("maker", "step"):
        words = [sys.executable, __file__, "stay"]
        maker = subprocess.Popen((["srun", "-N1", "-n1", "--overlap"] if how == "step" else []) + words, stdout=subprocess.PIPE, text=True)
        line = maker.stdout.readline()
        there = managers()
        if how == "step":
            step, = (line.split()[0] for line in steps() if line.endswith(" python3"))
            subprocess.run(["scancel", "--signal=KILL", step], check=True)
        else:
            maker.kill()
        maker.wait()
        print(how, line.strip(), there, "ended", wait_for(lambda: managers() == 0), flush=True)


def keep():
    d = ddict.up(managers=2, mem="64M", record="none", keep=True)
    print("name of the job", d.name == f"{os.getuid()}.{JOB}.job")
    d["a"] = 1


def kept():
    with ddict.up(keep=True) as d:
        print("found", d["a"])
    ddict.down()
    print("ended", wait_for(lambda: managers() == 0))


def away():
    try:
        ddict.up(managers=2, mem="64M", record="none")
    except ddict.NoDictError as e:
        print("refused:", e)
    print("ended", wait_for(lambda: managers() == 0))


globals()[sys.argv[1]]()
