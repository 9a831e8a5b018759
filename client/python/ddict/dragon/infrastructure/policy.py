# SPDX-License-Identifier: Apache-2.0
"""Where a process or a dictionary goes."""

import enum
import threading
from dataclasses import dataclass, field, fields

_within = threading.local()


class PolicyError(Exception):
    """A policy that nothing can follow"""


class Placement(enum.IntEnum):
    LOCAL = -5
    ANYWHERE = -4
    HOST_NAME = -3
    HOST_ID = -2
    DEFAULT = -1


class Distribution(enum.IntEnum):
    ROUNDROBIN = 1
    BLOCK = 2
    DEFAULT = 3


class WaitMode(enum.IntEnum):
    IDLE = 1
    SPIN = 2
    DEFAULT = 3


@dataclass
class Policy:
    """Policy(placement, host_name, host_id, distribution, cpu_affinity, gpu_env_str, gpu_affinity, ...)

    On which node something runs (placement HOST_NAME or HOST_ID; else the nodes take turns), and on which of its CPUs and GPUs. Within `with Policy(...):` it is
    that of processes that have none of their own for the same.
    """

    placement: Placement = Placement.DEFAULT
    host_name: str = ""
    host_id: int = -1
    distribution: Distribution = Distribution.DEFAULT
    cpu_affinity: list = field(default_factory=list)
    gpu_env_str: str = ""
    gpu_affinity: list = field(default_factory=list)
    wait_mode: WaitMode = WaitMode.DEFAULT
    refcounted: bool = True

    Placement = Placement
    Distribution = Distribution
    WaitMode = WaitMode

    def __post_init__(self):
        self.placement, self.distribution, self.wait_mode = Placement(self.placement), Distribution(self.distribution), WaitMode(self.wait_mode)

    def get_sdict(self):
        """get_sdict() -- its fields as a dict; from_sdict() of it makes the same policy"""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    sdesc = property(get_sdict)

    @classmethod
    def from_sdict(cls, sdict):
        return cls(**sdict)

    def host(self):
        """The name of the node, None: any"""
        if self.placement is Placement.HOST_NAME:
            return self.host_name
        if self.placement is Placement.HOST_ID:
            from ..native.machine import hosts
            have = hosts()
            if not 0 <= self.host_id < len(have):
                raise PolicyError(f"there is no node {self.host_id}: they are 0 to {len(have) - 1}")
            return have[self.host_id]
        if self.placement is Placement.LOCAL:
            from ..native.machine import here
            return here()
        return None

    def over(self, other):
        """This policy, with those fields of other that it leaves as they are"""
        mine, default = self.get_sdict(), Policy().get_sdict()
        return Policy(**{name: other.get_sdict()[name] if other is not None and mine[name] == default[name] else mine[name] for name in mine})

    def __enter__(self):
        stack = _within.__dict__.setdefault("stack", [])
        stack.append(self.over(stack[-1] if stack else None))
        return self

    def __exit__(self, *exc):
        _within.stack.pop()


def current(policy=None, group=None):
    """The policy of something that is made now: its own, over that of its group, over those of the blocks around it"""
    stack = getattr(_within, "stack", None)
    found = Policy() if not stack else stack[-1]
    for one in (group, policy):
        if one is not None:
            found = one.over(found)
    return found
