# SPDX-License-Identifier: Apache-2.0
"""The nodes of the job."""

import functools
import json
import os
import socket
import subprocess
import sys

from ..infrastructure.policy import Policy

_ANSWER_S = 60  # of scontrol, and of a step on another node
_NONE = "", "-1", "NoDevFiles"  # masks of a process without GPUs


def here():
    """The name of this node, as Slurm says it"""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]


@functools.lru_cache(4)
def _expanded(text):
    return tuple(subprocess.run(["scontrol", "show", "hostnames", text], stdout=subprocess.PIPE, text=True, check=True, timeout=_ANSWER_S).stdout.split())


def hosts():
    """The names of the job's nodes, in its order; outside of a job this machine alone"""
    text = os.environ.get("SLURM_JOB_NODELIST")
    return list(_expanded(text)) if text else [here()]


def step(host):
    """(words, environment) of an srun whose words behind them run on this node of the job"""
    words = ["srun", "--quiet", "--overlap", "-N1", "-n1", "-w", host, "--export=ALL"]
    return words, {word: value for word, value in os.environ.items() if word not in ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE")}


def figures():
    """What this process has of its node"""
    return {"cpus": sorted(os.sched_getaffinity(0)), "physical_mem": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "gpus": gpu_mask()[1]}


@functools.lru_cache(None)
def _figures_of(host):
    """Those of a process on another node, which a step asks once"""
    if host not in hosts():
        raise ValueError(f"there is no node {host} in this job: it has {', '.join(hosts())}; sinfo -n {host} -N -o '%c %m %G' says what it has")
    words, environment = step(host)
    code = f"import json, {__name__} as machine; print(json.dumps(machine.figures()))"
    done = subprocess.run([*words, sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                          timeout=_ANSWER_S)
    if done.returncode:
        raise RuntimeError(f"node {host} was not asked: {done.stderr.strip() or f'srun ended with {done.returncode}'}")
    return json.loads(done.stdout)


def cpu_count():
    """cpu_count() -- the number of CPUs of all nodes, if they are all as this one"""
    return len(os.sched_getaffinity(0)) * len(hosts())


def gpu_mask():
    """The variables that say which GPUs this process sees, as Slurm or the user has set them, and the GPUs as they name them: numbers, or text, as "GPU-8a5b" or
    "0.1". CUDA and ROCR of one text are the same GPUs; else HIP and CUDA count in what ROCR leaves, and so the first of these that is set says it."""
    for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"):
        text = os.environ.get(name, "").strip()
        if text:
            entries = [entry.strip() for entry in text.split(",")] if text not in _NONE else []
            same = name == "CUDA_VISIBLE_DEVICES" and os.environ.get("ROCR_VISIBLE_DEVICES", "").strip() == text
            return (name, "ROCR_VISIBLE_DEVICES") if same else (name,), [int(e) if e.isdecimal() else e for e in entries]
    return (), []


class Node:
    """Node(ident) -- a node of the job, by its name or its number"""

    def __init__(self, ident=None):
        have = hosts()
        if isinstance(ident, int):
            if not 0 <= ident < len(have):
                raise ValueError(f"there is no node {ident}: they are 0 to {len(have) - 1}")
            ident = have[ident]
        self.hostname = here() if ident is None else ident

    @property
    def name(self):
        return self.hostname

    host_name = name

    @property
    def h_uid(self):
        """its number in the job"""
        have = hosts()
        return have.index(self.hostname) if self.hostname in have else -1

    @property
    def ip(self):
        return socket.gethostbyname(self.hostname)

    @property
    def is_primary(self):
        return self.h_uid == 0

    def _has(self, what):
        return (figures() if self.hostname == here() else _figures_of(self.hostname))[what]

    @property
    def cpus(self):
        """the CPUs that a process of this job may have there"""
        return self._has("cpus")

    @property
    def num_cpus(self):
        return len(self.cpus)

    @property
    def physical_mem(self):
        return self._has("physical_mem")

    @property
    def gpus(self):
        """the GPUs that Slurm or the user gives to a process there, as $CUDA_VISIBLE_DEVICES, $HIP_VISIBLE_DEVICES, $ROCR_VISIBLE_DEVICES or $ZE_AFFINITY_MASK
        names them: numbers, or text where it has names"""
        return self._has("gpus")

    @property
    def num_gpus(self):
        return len(self.gpus)

    def __eq__(self, other):
        return isinstance(other, Node) and other.hostname == self.hostname

    def __hash__(self):
        return hash(self.hostname)

    def __repr__(self):
        return f"Node({self.hostname!r})"


def current():
    """current() -- the node of this process"""
    return Node()


class System:
    """System() -- the nodes of the job"""

    @property
    def nodes(self):
        """what Node() takes, for each node"""
        return list(range(len(hosts())))

    @property
    def nnodes(self):
        return len(hosts())

    @property
    def primary_node(self):
        return Node(0)

    restarted = False

    def hostname_policies(self):
        """hostname_policies() -- a Policy for each node"""
        return [Policy(placement=Policy.Placement.HOST_NAME, host_name=host) for host in hosts()]

    def gpu_policies(self):
        """gpu_policies() -- a Policy for each GPU of this node, on each node"""
        return [Policy(placement=Policy.Placement.HOST_NAME, host_name=host, gpu_affinity=[gpu]) for host in hosts() for gpu in Node().gpus]
