# SPDX-License-Identifier: Apache-2.0
"""Dragon's ProcessGroup: processes that are started and awaited together."""

import time

from ..infrastructure.policy import Policy, current
from .machine import hosts
from .process import Process, ProcessTemplate


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
    """

    def __init__(self, restart=False, ignore_error_on_exit=False, pmi=None, walltime=None, policy=None, critical=False, name=None):
        if restart:
            raise NotImplementedError("restart=True: join() says which process has failed (exit_status), and start() a group for these again")
        if pmi is not None:
            raise NotImplementedError("pmi: MPI programs are started by srun --mpi=..., which gives them all of the dictionary, too")
        self._ignore, self._walltime, self._policy, self.name = ignore_error_on_exit, walltime, policy, name
        self._templates, self._processes, self._until = [], None, None

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

    def join(self, timeout=None):
        """join(timeout=None) -- wait for all; TimeoutError, DragonUserCodeError if one has failed"""
        end = None if timeout is None else time.monotonic() + timeout
        for process in self._made():
            ends = [t for t in (end, self._until) if t is not None]
            process.join(max(0, min(ends) - time.monotonic()) if ends else None)
            if process.is_alive and self._until is not None and time.monotonic() >= self._until:
                self.kill()
                process.join()
            if process.is_alive:
                raise TimeoutError("processes of the group have not ended")
        bad = [(puid, code) for puid, code in self.exit_status if code]
        if bad and not self._ignore and not self._until_over():
            raise DragonUserCodeError(f"processes have failed: {', '.join(f'{puid} with exit code {code}' for puid, code in bad)}")

    def _until_over(self):
        return self._until is not None and time.monotonic() >= self._until

    def _each(self, name):
        for process in self._made():
            if process.is_alive:
                getattr(process, name)()

    def terminate(self, hide_stderr=False):
        """terminate() -- send all SIGTERM"""
        self._each("terminate")

    def kill(self, hide_stderr=False):
        """kill() -- send all SIGKILL"""
        self._each("kill")

    def send_signal(self, sig, hide_stderr=False):
        """send_signal(sig) -- send all a signal"""
        for process in self._made():
            if process.is_alive:
                process.send_signal(sig)

    def stop(self, patience=5.0):
        """stop(patience=5.0) -- end all: SIGTERM, after patience seconds SIGKILL"""
        self._each("terminate")
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
        return [(process.puid, process.returncode) for process in self._made() if process.returncode is not None]

    exit_status = inactive_puids

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
