# SPDX-License-Identifier: Apache-2.0
"""Dragon's CollectiveGroup: the ranks of torch.distributed, started together."""

import os

from ..infrastructure.policy import Policy
from ..native.machine import hosts
from ..native.process import DEVNULL, ProcessTemplate
from ..native.process_group import ProcessGroup

_PREFIX = "DDICT_DRAGON_"  # its variables; those that torch's env:// reads are set, too
_NAMES = "MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"


def _named(name, form=int):
    def get(self):
        value = os.environ.get(_PREFIX + name)
        if value is None:
            raise RuntimeError("RankInfo() is of a process of a CollectiveGroup, which this is not")
        return form(value)
    return property(get, doc=f"as torch's ${name}")


class RankInfo:
    """RankInfo() -- who a process of a CollectiveGroup is"""

    my_rank = _named("RANK")
    my_local_rank = _named("LOCAL_RANK")
    my_node_rank = _named("GROUP_RANK")
    world_size = _named("WORLD_SIZE")
    my_local_world_size = _named("LOCAL_WORLD_SIZE")
    master_addr = _named("MASTER_ADDR", str)
    master_port = _named("MASTER_PORT", str)


def _places(nprocs, policies):
    """(the policy, its node) of each rank"""
    if policies is not None:
        found = [(policy, policy.host()) for policy in policies]
        if not found or any(host is None for _, host in found):
            raise ValueError("policies: one for each rank, and each names its node (System().hostname_policies(), gpu_policies())")
        return found
    if nprocs is None or nprocs < 1:
        raise ValueError("CollectiveGroup() takes policies, or nprocs of 1 or more")
    have = hosts()
    at = [have[i * len(have) // nprocs] for i in range(nprocs)]
    return [(Policy(placement=Policy.Placement.HOST_NAME, host_name=host), host) for host in at]


def CollectiveGroup(training_fn, training_args=None, training_kwargs=None, nprocs=None, hide_stderr=False, port=29500, policies=None):
    """CollectiveGroup(training_fn, training_args=None, training_kwargs=None, nprocs=None, hide_stderr=False, port=29500, policies=None) -- a ProcessGroup of one
    rank for each policy, or of nprocs ranks in blocks on the job's nodes, which Dragon's does not do. In each RankInfo() says who it is, and
    torch.distributed.init_process_group() needs no init_method. port: of rank 0's node, for their meeting."""
    places = _places(nprocs, policies)
    nodes = list(dict.fromkeys(host for _, host in places))
    of_node = [[host for _, host in places].count(host) for host in nodes]
    group, seen = ProcessGroup(), dict.fromkeys(nodes, 0)
    for rank, (policy, host) in enumerate(places):
        values = nodes[0], port, rank, seen[host], nodes.index(host), len(places), of_node[nodes.index(host)]
        seen[host] += 1
        env = {prefix + name: str(value) for prefix in ("", _PREFIX) for name, value in zip(_NAMES, values)}
        group.add_process(1, ProcessTemplate(training_fn, training_args, training_kwargs, env=env, stderr=DEVNULL if hide_stderr else None, policy=policy))
    return group
