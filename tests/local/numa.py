#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ddictd and the topology of its node. Managers go to NUMA nodes and say so; where one cannot be bound it works all the same. hwloc reads a made-up machine of two NUMA nodes with a core each
in place of this one (HWLOC_XMLFILE), so on a machine with one NUMA node the second cannot be bound to."""
import json
import os
import subprocess
import tempfile

from cluster import BUILD, Dictionary, check, main

DDICT = os.path.join(BUILD, "ddict")


def figures(d):
    env = d.env()
    out = subprocess.run([DDICT, "stats", "--json"], env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=30).stdout
    table = subprocess.run([DDICT, "stats"], env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=30).stdout
    return json.loads(out)["managers"], table


def cpus_of(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(line.split()[1] for line in f if line.startswith("Cpus_allowed_list"))


def policy_of(pid):
    """How the pages of the arena are to be placed, by the kernel: "bind:0", "prefer:0" or "default"."""
    with open("/proc/%d/numa_maps" % pid) as f:
        return {line.split()[1] for line in f if "ddict-arena" in line}


def managers_are_bound_where_that_can_be():
    if not {0, 1} <= os.sched_getaffinity(0):
        print("skipped: wants cpus 0 and 1")
        return
    two = os.path.exists("/sys/devices/system/node/node1")
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(root + "/sys/devices/system/node")
        with open(root + "/sys/devices/system/node/has_memory", "w") as f:
            f.write("0-1\n")
        with open(root + "/machine.xml", "w") as f:
            subprocess.run([os.path.join(BUILD, "tests/local/machine"), "7"], stdout=f, check=True)
        with Dictionary(managers=4, mem="64M", env={"DDICT_TEST_ROOT": root, "HWLOC_XMLFILE": root + "/machine.xml"}) as d:
            managers, table = figures(d)
            # The network card is near NUMA node 1: managers 0 and 2 go there.
            for m in managers:
                want = 0 if m["manager_id"] % 2 else 1 if two else -1
                check(m["numa_node"] == want, "manager %(manager_id)d: NUMA node %(numa_node)d" % m)
                if want >= 0:
                    check(cpus_of(m["pid"]) == str(want), "manager %d runs on %s" % (m["manager_id"], cpus_of(m["pid"])))
                    check(policy_of(m["pid"]) <= {"bind:%d" % want, "prefer:%d" % want}, "%r" % policy_of(m["pid"]))
            check(" numa " in table.splitlines()[0], table)
            d.run("self")
            d.end()


def one_numa_node_is_as_before():
    with tempfile.TemporaryDirectory() as root:
        with Dictionary(managers=2, mem="32M", env={"DDICT_TEST_ROOT": root, "HWLOC_XMLFILE": root + "/none.xml"}) as d:
            managers, _ = figures(d)
            for m in managers:
                check(m["numa_node"] == -1, "%r" % m)
                check(cpus_of(m["pid"]) == cpus_of(os.getpid()), "bound")
            d.end()


def ddictd_tells_the_ranks_where_the_gpus_are():
    with tempfile.TemporaryDirectory() as root:
        with open(root + "/machine.xml", "w") as f:
            subprocess.run([os.path.join(BUILD, "tests/local/machine"), "1"], stdout=f, check=True)
        with Dictionary(managers=1, mem="32M", env={"HWLOC_XMLFILE": root + "/machine.xml"}) as d:
            slurm = dict(JOB_ID=7, STEP_ID=0, PROCID=1, STEP_NUM_TASKS=2, NODEID=0, STEP_NUM_NODES=1, LOCALID=1, STEP_TASKS_PER_NODE=2,
                         STEP_NODELIST=d.node_name(0), CPU_BIND_TYPE="mask_cpu:", CPU_BIND_LIST="0xff00,0xff000000")
            env = dict({k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "CUDA_"))}, **{"SLURM_" + k: str(v) for k, v in slurm.items()})
            # A rank that read the topology itself would fail (hwloc has nothing to look with).
            env.update(DDICT_NAME=d.name, DDICT_NODE=d.node_name(0), HWLOC_COMPONENTS="stop", CUDA_VISIBLE_DEVICES="0,1,2,3")
            for _ in range(3):
                p = subprocess.run([DDICT, "runtime", "--bind=rotate"], env=env, capture_output=True, text=True, timeout=30)
                check(p.stdout.splitlines()[-1:] == ["export CUDA_VISIBLE_DEVICES=1,2,3,0"], "%r %r" % (p.stdout, p.stderr))
            env.update(SLURM_PROCID="0", SLURM_LOCALID="0")
            p = subprocess.run([DDICT, "runtime", "--bind=rotate"], env=env, capture_output=True, text=True, timeout=30)
            check(p.stdout.splitlines()[-1:] == ["export CUDA_VISIBLE_DEVICES=2,3,0,1"], "%r %r" % (p.stdout, p.stderr))
            env["DDICT_NAME"] = "0.local.none"
            p = subprocess.run([DDICT, "runtime", "--bind=rotate"], env=env, capture_output=True, text=True, timeout=30)
            check(p.returncode == 1 and "topology" in p.stderr, "%r %r" % (p.stdout, p.stderr))
            d.run("self")
            d.end()


def a_topology_that_cannot_be_read_is_no_failure():
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(root + "/sys/devices/system/node")
        with open(root + "/sys/devices/system/node/has_memory", "w") as f:
            f.write("0-1\n")
        with Dictionary(managers=2, mem="32M", env={"DDICT_TEST_ROOT": root, "HWLOC_COMPONENTS": "stop"}) as d:
            managers, _ = figures(d)
            check([m["numa_node"] for m in managers] == [-1, -1], "%r" % managers)
            d.run("self")
            d.end()


main([managers_are_bound_where_that_can_be, one_numa_node_is_as_before, ddictd_tells_the_ranks_where_the_gpus_are,
      a_topology_that_cannot_be_read_is_no_failure])
