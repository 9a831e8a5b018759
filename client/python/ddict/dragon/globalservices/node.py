# SPDX-License-Identifier: Apache-2.0
"""What Dragon's services say about the nodes of the job."""

import os

from ..native.machine import Node, cpu_count, here, hosts


def get_list():
    """get_list() -- the numbers (h_uid) of all nodes"""
    return list(range(len(hosts())))


def query(identifier):
    """query(identifier) -- the Node of this number, or of this name, also as os.uname() has it; ValueError: there is none"""
    if isinstance(identifier, str):
        if identifier.isdecimal() and identifier not in hosts():
            identifier = int(identifier)
        else:
            return Node(_in_job(identifier))
    return Node(identifier)


def _in_job(name):
    have = hosts()
    if name in have:
        return name
    if name == os.uname().nodename:
        return here()
    short = name.split(".")[0]
    if short not in have:
        raise ValueError(f"there is no node {name} in this job: it has {', '.join(have)}")
    return short


def query_all():
    """query_all() -- the Node of each node"""
    return [Node(i) for i in get_list()]


def query_total_cpus():
    """query_total_cpus() -- the number of CPUs of all nodes, if they are all as this one"""
    return cpu_count()
