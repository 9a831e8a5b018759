# SPDX-License-Identifier: Apache-2.0
"""On which node a process is started, and how: here by fork, on another node by srun."""

import io
import itertools
import os
import signal
import subprocess
import sys
import threading
from multiprocessing import context, popen_fork, reduction, spawn, util

from .infrastructure import policy as _policy
from .native.machine import here, hosts, step

_turn = itertools.count(1)  # the first process goes to the node behind this one, as nodes take turns


def node_for(policy=None, group=None):
    """(the name of the node, the policy) of a process that is started now"""
    found = _policy.current(policy, group)
    host = found.host()
    have = hosts()
    if host is None:
        at = have.index(here()) if here() in have else 0
        host = have[(at + next(_turn)) % len(have)]
    elif host not in have:
        raise _policy.PolicyError(f"there is no node {host} in this job: it has {', '.join(have)}")
    return host, found


class Local(popen_fork.Popen):
    """A fork on this node"""

    method = "dragon"


class Remote:
    """A process on another node, as an object that multiprocessing's Process asks"""

    method = "dragon"

    def __init__(self, process, host):
        util._flush_std_streams()
        self.returncode = None
        data = self._data(process)
        words, environment = step(host)
        self._srun = subprocess.Popen([*words, "--input=0", sys.executable, "-m", __package__ + "._child"], stdin=subprocess.PIPE, env=environment)
        self.pid = self._srun.pid
        self.sentinel, ends = os.pipe()
        util.Finalize(self, os.close, (self.sentinel,))
        threading.Thread(target=self._watch, args=(data, ends), daemon=True).start()

    @staticmethod
    def _data(process):
        context.set_spawning_popen(process)
        try:
            stream = io.BytesIO()
            reduction.dump(spawn.get_preparation_data(process._name), stream)
            reduction.dump(process, stream)
            return stream.getvalue()
        finally:
            context.set_spawning_popen(None)

    def _watch(self, data, ends):
        """Give it its input; at its end the sentinel becomes readable."""
        try:
            self._srun.stdin.write(data)
            self._srun.stdin.close()
        except OSError:  # it ended before
            pass
        self._srun.wait()
        os.close(ends)

    def poll(self, flag=os.WNOHANG):
        return self.wait(0 if flag == os.WNOHANG else None)

    def wait(self, timeout=None):
        if self.returncode is None:
            try:
                self.returncode = self._srun.wait(timeout)
            except subprocess.TimeoutExpired:
                return None
        return self.returncode

    def _signal(self, number):
        if self.returncode is None:
            self._srun.send_signal(number)

    def terminate(self):
        self._signal(signal.SIGTERM)

    def kill(self):
        self._signal(signal.SIGKILL)

    def close(self):
        pass


def start(process):
    """What multiprocessing calls to start a process"""
    host, policy = node_for(process._policy)
    process._host = host
    process._pinned = policy.cpu_affinity, policy.gpu_affinity, policy.gpu_env_str
    return Local(process) if host == here() else Remote(process, host)
