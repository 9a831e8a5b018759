# SPDX-License-Identifier: Apache-2.0
"""Dragon's ProcessGroup: processes that are started and awaited together."""

import atexit
import threading
import time

from ..infrastructure.policy import Policy, current
from .machine import hosts
from .process import Process, ProcessTemplate

_LOOK_S = 0.1  # between two looks whether a process of a group that restarts has ended


class DragonProcessGroupError(Exception):
    """What a group could not do"""


class DragonProcessGroupRunningError(DragonProcessGroupError):
    """The group is not in the state that the call needs"""


class DragonProcessGroupStartError(DragonProcessGroupError):
    """A process of the group could not be started"""


class DragonUserCodeError(DragonProcessGroupError):
    """A process of the group has failed"""


class ProcessGroup:
    """ProcessGroup(restart=False, ignore_error_on_exit=False, pmi=None, walltime=None, policy=None, critical=False, name=None)

        group = ProcessGroup()
        group.add_process(nproc=8, template=ProcessTemplate(target=work, args=(d,)))
        group.init()
        group.start()
        group.join()
        group.close()

    The processes take turns on the job's nodes, or fill one after another with a policy of Distribution.BLOCK. walltime: seconds after which they are killed.
    restart: one that ends, whatever its exit code, is started again as a new process, until stop(), terminate(), kill() or close(), or the end of this program.
    """

    def __init__(self, restart=False, ignore_error_on_exit=False, pmi=None, walltime=None, policy=None, critical=False, name=None):
        if pmi is not None:
            raise NotImplementedError("pmi: MPI programs are started by srun --mpi=..., which gives them all of the dictionary, too")
        self._ignore, self._walltime, self._policy, self.name = ignore_error_on_exit, walltime, policy, name
        self._templates, self._processes, self._until = [], None, None
        self._restart, self._ended = bool(restart), []  # (puid, exit code) of those that were started again
        self._stopped, self._lock, self._failed = threading.Event(), threading.Lock(), None

    def add_process(self, nproc, template):
        """add_process(nproc, template) -- so many processes that do what the template says"""
        if self._processes is not None:
            raise DragonProcessGroupRunningError("add_process() is called before init()")
        if not isinstance(template, ProcessTemplate):
            raise TypeError(f"a ProcessTemplate says what the processes do, not {type(template).__name__}")
        self._templates += [template] * nproc

    def init(self):
        """init() -- all processes are named; start() starts them"""
        self._processes = [Process.from_template(template) for template in self._templates]

    def _made(self):
        if self._processes is None:
            raise DragonProcessGroupRunningError("init() first")
        return self._processes

    def _policies(self):
        """The policy of the group for each process: with BLOCK it names the node"""
        found, n, have = current(group=self._policy), len(self._made()), hosts()
        if found.distribution is not Policy.Distribution.BLOCK or found.host() is not None:
            return [self._policy] * n
        return [Policy(placement=Policy.Placement.HOST_NAME, host_name=have[i * len(have) // n]).over(self._policy) for i in range(n)]

    def start(self):
        """start() -- start all"""
        self._until = None if self._walltime is None else time.monotonic() + self._walltime
        for process, policy in zip(self._made(), self._policies()):
            process._start(policy)
        if self._restart:
            atexit.register(self._no_more)  # before multiprocessing waits for its processes
            threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        """Start again who has ended"""
        try:
            while not self._stopped.wait(_LOOK_S):
                for i, process in enumerate(self._processes):
                    if not process.is_alive:
                        self._replace(i, process)
        except Exception as e:  # join() raises it
            self._failed = e
            self._no_more()

    def _replace(self, i, process):
        with self._lock:
            if not self._stopped.is_set():
                self._processes[i] = process._again()
                self._ended.append((process.puid, process.returncode))

    def _no_more(self):
        """From now on none is started again"""
        with self._lock:
            self._stopped.set()
        atexit.unregister(self._no_more)

    def _wait_stopped(self, end):
        ends = [t for t in (end, self._until) if t is not None]
        if not self._stopped.wait(max(0, min(ends) - time.monotonic()) if ends else None):
            if not self._until_over():
                raise TimeoutError("the group starts its processes again until stop()")
            self.kill()
        if self._failed is not None:
            raise DragonProcessGroupStartError(f"a process could not be started again: {self._failed}") from self._failed

    @staticmethod
    def _wait(process, ends):
        """Wait for a process, which another thread may do, too: then it seems alive for a moment more"""
        left = None
        while process.is_alive and (left is None or left > 0):
            left = min(ends) - time.monotonic() if ends else None
            process.join(None if left is None else max(0, left))

    def join(self, timeout=None):
        """join(timeout=None) -- wait for all; TimeoutError, DragonUserCodeError if one has failed, DragonProcessGroupStartError if it could not be started again"""
        end = None if timeout is None else time.monotonic() + timeout
        if self._restart and self._made():
            self._wait_stopped(end)
        for process in self._made():
            self._wait(process, [t for t in (end, self._until) if t is not None])
            if process.is_alive and self._until is not None and time.monotonic() >= self._until:
                self.kill()
                process.join()
            if process.is_alive:
                raise TimeoutError("processes of the group have not ended")
        bad = [(puid, code) for puid, code in self.exit_status if code]
        if bad and not self._ignore and not self._restart and not self._until_over():
            raise DragonUserCodeError(f"processes have failed: {', '.join(f'{puid} with exit code {code}' for puid, code in bad)}")

    def _until_over(self):
        return self._until is not None and time.monotonic() >= self._until

    def _each(self, name):
        for process in self._made():
            if process.is_alive:
                getattr(process, name)()

    def terminate(self, hide_stderr=False):
        """terminate() -- send all SIGTERM"""
        self._no_more()
        self._each("terminate")

    def kill(self, hide_stderr=False):
        """kill() -- send all SIGKILL"""
        self._no_more()
        self._each("kill")

    def send_signal(self, sig, hide_stderr=False):
        """send_signal(sig) -- send all a signal"""
        for process in self._made():
            if process.is_alive:
                process.send_signal(sig)

    def stop(self, patience=5.0):
        """stop(patience=5.0) -- end all: SIGTERM, after patience seconds SIGKILL"""
        self.terminate()
        end = time.monotonic() + patience
        for process in self._made():
            if process.is_alive and process.join(max(0, end - time.monotonic())) is None:
                process.kill()
                process.join()

    def close(self, patience=5.0):
        """close(patience=5.0) -- as stop(); the group is not used any more"""
        if self._processes is not None:
            self.stop(patience)

    @property
    def puids(self):
        """the processes that run"""
        return [process.puid for process in self._made() if process.is_alive]

    @property
    def inactive_puids(self):
        """(puid, exit code) of those that have ended"""
        with self._lock:
            return self._ended + [(process.puid, process.returncode) for process in self._made() if process.returncode is not None]

    exit_status = inactive_puids

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
