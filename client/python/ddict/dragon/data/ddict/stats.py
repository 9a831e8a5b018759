# SPDX-License-Identifier: Apache-2.0
"""What managers say about themselves, in Dragon's words."""

from dataclasses import dataclass, field


@dataclass
class DDictManagerStats:
    manager_id: int
    hostname: str
    total_bytes: int
    total_used_bytes: int
    pool_free_space: int
    pool_utilization: float
    num_keys: int
    free_blocks: dict = field(default_factory=dict)
    max_pool_allocations: int = 0          # there is no limit: as many as are used now
    max_pool_allocations_used: int = 0
    current_pool_allocations_used: int = 0
    timekeeper_stats: dict = field(default_factory=dict)  # seconds by operation, of all puts, gets, ...


def of(manager_id, s, keys=None):
    """The statistics of a manager out of those of ddict (`ddict stats`). keys: how many it has, None: those that are not hidden"""
    used = s["num_keys"]
    seconds = {f"{name}_op": times["count"] * times["p50_ns"] / 1e9 for name, times in s["latency"].items()}
    return DDictManagerStats(manager_id, s["hostname"], s["total_bytes"], s["total_used_bytes"], s["pool_free_space"], s["pool_utilization"],
                             used - s["hidden_keys"] if keys is None else keys, dict(s["free_blocks"]), used, used, used, seconds)
