# SPDX-License-Identifier: Apache-2.0
"""The arguments of Dragon's DDict, as options of ddict.up()."""

import random
import string
import warnings

import ddict as _ddict

from ...infrastructure.policy import Policy
from ...native.machine import hosts
from . import persister as _persister
from .errors import DDictUnableToCreateError, said

FOREVER_S = 86400       # of timeout=None: each call has a deadline
MEM_MIN = 4 << 20       # of a manager
KEY = "ddict.dragon"    # hidden: what a handle that attaches has to know


def check(a):
    """Arguments that do not go together, with the exceptions that Dragon raises"""
    if a["restart"]:
        raise ValueError("restart=True: managers keep nothing after their end. Persist checkpoints (persister_class=PosixCheckpointPersister, persist_freq=..., name=...) "
                         "and read them by restore_from=..., or leave the dictionary running and attach() to it")
    if a["read_only"]:
        if a["restore_from"] is None:
            raise AttributeError("read_only=True: restore_from says which persisted checkpoint to read")
        if a["wait_for_keys"] or a["wait_for_writers"] or a["working_set_size"] != 1 or a["persist_count"]:
            raise AttributeError("read_only=True: nothing is written, so working_set_size is 1, persist_count 0, and there is no wait_for_keys or wait_for_writers")
    if (a["read_only"] or a["restore_from"] is not None) and not a["name"]:
        raise AttributeError("a persisted dictionary is found by its name: DDict(..., name='...')")
    if a["persist_freq"] < 0:
        raise ValueError("persist_freq is 0 or more")
    if a["persist_freq"]:
        _has_persister("persist_freq", a["persister_class"])
    if a["restore_from"] is not None:
        _has_persister("restore_from", a["persister_class"])
    if a["working_set_size"] < 1:
        raise ValueError("working_set_size is 1 or more")
    if a["working_set_size"] == 1 and (a["wait_for_keys"] or a["wait_for_writers"]):
        raise ValueError("wait_for_keys and wait_for_writers need a working_set_size of 2 or more")
    if a["persist_count"] < -1:
        raise ValueError("persist_count is -1 or more")
    if type(a["total_mem"]) is not int:
        raise AttributeError("total_mem is the memory of the whole dictionary, in bytes")


def _has_persister(word, cls):
    if cls in (None, _persister.NULLCheckpointPersister):
        raise AttributeError(f"{word} needs a persister_class: PosixCheckpointPersister")


def _spread(each, n_nodes, policy, managers_per_policy):
    """The numbers of managers and of nodes that hold keys"""
    have = hosts()
    if isinstance(policy, list):
        if each is not None or n_nodes is not None:
            raise ValueError("with a list of policies managers_per_node and n_nodes are None")
        return _by_policies([p for p in policy for _ in range(managers_per_policy)], have)
    if type(n_nodes) is not int:
        raise AttributeError("n_nodes says how many nodes hold the dictionary")
    if type(each) is not int:
        each = managers_per_policy
    if each < 1 or n_nodes < 1:
        raise ValueError("managers_per_node and n_nodes are 1 or more")
    if n_nodes > len(have):
        raise DDictUnableToCreateError(f"n_nodes={n_nodes}: there {'is one node' if len(have) == 1 else f'are {len(have)} nodes'} here; System().nnodes says how many")
    if isinstance(policy, Policy) and policy.host() is not None and have[0] != policy.host():
        raise DDictUnableToCreateError(f"policy: a dictionary on n of the job's nodes takes the first n, which begin with {have[0]}, not {policy.host()}; "
                                       "srun --ddict-nodes=het:G takes those of a component of a heterogeneous job")
    return each, n_nodes


def _by_policies(policies, have):
    named = [policy.host() for policy in policies]
    if not named:
        raise ValueError("policy=[]: no policy, no managers")
    if None in named:  # anywhere
        n_nodes = min(len(have), len(named))
    else:
        n_nodes = len(set(named))
        if set(named) != set(have[:n_nodes]):
            raise DDictUnableToCreateError(f"policy: the dictionary's nodes are the first n of the job's ({', '.join(have)}), not {', '.join(dict.fromkeys(named))}; "
                                           "srun --ddict-nodes=het:G takes those of a component of a heterogeneous job")
    each = -(-len(named) // n_nodes)
    if len(named) != each * n_nodes or any(named.count(host) != each for host in named if host):
        warnings.warn(f"policy: all {n_nodes} nodes have as many managers: {each} each", stacklevel=5)
    return each, n_nodes


def options(a):
    """(name, options) for ddict.up()"""
    check(a)
    each, n_nodes = _spread(a["managers_per_node"], a["n_nodes"], a["policy"], a["managers_per_policy"])
    have = len(hosts())
    given = {"managers": each * n_nodes, "mem": max(a["total_mem"], each * n_nodes * MEM_MIN), "drain_ms": 0}  # Dragon's destroy() waits for nobody
    if n_nodes < have:
        given["nodes"] = n_nodes
    folder = _persister.folder(a["persister_class"], a["persist_path"], a["name"])
    if a["working_set_size"] > 1 or a["persist_freq"]:
        given["working_set"] = a["working_set_size"]
    given.update({flag: True for flag in ("wait_for_keys", "wait_for_writers") if a[flag]})
    if folder:
        given["persist"] = folder
        given.update({word: a[word] for word in ("persist_freq", "read_only") if a[word]})
        if a["restore_from"] is not None:
            given["restore_from"] = a["restore_from"]
        if a["persist_count"] > 0:
            given["persist_count"] = a["persist_count"]
    return a["name"] or "".join(random.choices(string.ascii_lowercase + string.digits, k=10)), given


def make(arguments):
    """(a ddict.DDict, what a handle has to know about it)"""
    name, given = options(arguments)
    timeout = arguments["timeout"]
    try:
        d = _ddict.up(name, timeout=FOREVER_S if timeout is None else timeout, **given)
    except _ddict.Error as e:
        raise DDictUnableToCreateError(said(e)) from e
    policy = arguments["policy"]
    kept = {**arguments, "policy": policy if isinstance(policy, list) else None, "persister_class": None, "name": name}
    if not given.get("read_only"):
        d[KEY] = {"arguments": kept}
    return d, about(d, kept)


def _states(d):
    """(the folder of its states, None: it has none; whether it is read-only)"""
    try:
        folder, _, _, read_only = d._persistence()
    except _ddict.Error:
        return None, False
    return folder, read_only


def about(d, arguments=None):
    """What a handle has to know about a dictionary, which may be made elsewhere, also by srun --ddict. arguments: those it was made with"""
    if arguments is None:
        arguments = d.get(KEY, {}).get("arguments")
    folder, read_only = _states(d)
    return {"arguments": arguments, "is_window": d.working_set > 0, "persist": folder, "read_only": read_only}
