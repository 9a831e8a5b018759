# SPDX-License-Identifier: Apache-2.0
"""Dragon's Process: a function or a program, on one of the job's nodes."""

import os
import shutil
import signal
import subprocess
import sys

from .. import mp as _mp
from ..infrastructure import parameters as _parameters
from .machine import here, hosts

PIPE, STDOUT, DEVNULL = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
_NOT_FOUND = 127


def _redirect(fd, where):
    if where is None:
        return
    if where == STDOUT:
        os.dup2(1, fd)
        return
    path = os.devnull if where == DEVNULL else where
    new = os.open(path, os.O_RDONLY if fd == 0 else os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.dup2(new, fd)
    os.close(new)


def _run(target, args, kwargs, cwd, env, streams):
    """What the process does"""
    if cwd is not None:
        os.chdir(cwd)
    os.environ.update(env or {})
    sys.stdout.flush()
    for fd, where in enumerate(streams):
        _redirect(fd, where)
    if callable(target):
        target(*args, **kwargs)
        return
    path = shutil.which(target) or target
    _parameters.become(_parameters.this_process.my_puid, is_program=True)
    try:
        os.execv(path, [target, *map(str, args)])
    except OSError as e:
        print(f"{path}: {e.strerror}", file=sys.stderr, flush=True)
        os._exit(_NOT_FOUND)


class ProcessTemplate:
    """ProcessTemplate(target, args=(), kwargs=None, cwd=None, env=None, stdin=None, stdout=None, stderr=None, policy=None) -- what processes of a group do

    target: a function, or a program by its name or path, whose words args are. stdin, stdout, stderr: None, DEVNULL or a path to append to; stderr also STDOUT.
    """

    def __init__(self, target, args=(), kwargs=None, cwd=None, env=None, stdin=None, stdout=None, stderr=None, policy=None, options=None):
        if PIPE in (stdin, stdout, stderr):
            raise NotImplementedError("PIPE: give a path that the output is appended to, or put results into a Queue or a DDict")
        if options is not None and getattr(options, "make_inf_channels", False):
            raise NotImplementedError("options: there are no channels here; use a Queue")
        self.target, self.args, self.kwargs = target, tuple(args or ()), dict(kwargs or {})
        self.cwd, self.env, self.streams, self.policy = cwd, env, (stdin, stdout, stderr), policy

    @property
    def is_python(self):
        return callable(self.target)


class Process(ProcessTemplate):
    """Process(target, args=(), kwargs=None, cwd=None, env=None, stdin=None, stdout=None, stderr=None, policy=None) -- a function or a program in a process of its own,
    on one of the job's nodes: as policy says, or they take turns"""

    def __init__(self, target, args=(), kwargs=None, cwd=None, env=None, stdin=None, stdout=None, stderr=None, policy=None, options=None, ident=None, _pmi=None):
        if ident is not None or target is None:
            raise NotImplementedError("Process(ident=...): a process is known to who made it; give the Process object to who needs it")
        super().__init__(target, args, kwargs, cwd, env, stdin, stdout, stderr, policy, options)
        self._id, self._process = _parameters.new_puid(), None

    @classmethod
    def from_template(cls, template, ident=None, _pmi=None):
        """from_template(template) -- a Process that does what the template says"""
        made = cls(template.target, template.args, template.kwargs, template.cwd, template.env, policy=template.policy)
        made.streams = template.streams
        return made

    def _start(self, group_policy=None):
        from ..infrastructure.policy import current
        self._start_at(current(self.policy, group_policy))

    def _start_at(self, policy):
        work = self.target, self.args, self.kwargs, self.cwd, self.env, self.streams
        self._process = _mp.Process(target=_run, args=work, policy=policy)
        self._process._puid = self._id
        self._process.start()

    def _again(self):
        """A Process that does the same, started where this one was"""
        made = Process.from_template(self)
        made._start_at(self._process._policy)
        return made

    def start(self):
        """start() -- start it"""
        self._start()

    def _started(self):
        if self._process is None:
            raise RuntimeError("the process is not started: start()")
        return self._process

    def join(self, timeout=None):
        """join(timeout=None) -- wait for its end: its exit code, None if it has not ended in time"""
        self._started().join(timeout)
        return self._process.exitcode

    @property
    def is_alive(self):
        return self._process is not None and self._process.is_alive()

    @property
    def returncode(self):
        """its exit code, None before its end"""
        return None if self._process is None else self._process.exitcode

    def terminate(self):
        """terminate() -- send it SIGTERM"""
        self._started().terminate()

    def kill(self):
        """kill() -- send it SIGKILL"""
        self._started().kill()

    def send_signal(self, sig):
        """send_signal(sig) -- SIGTERM or SIGKILL, or any signal to a process of this node"""
        process = self._started()
        if sig == signal.SIGKILL:
            process.kill()
        elif sig == signal.SIGTERM:
            process.terminate()
        else:
            process._popen._send_signal(sig)

    @property
    def puid(self):
        """a number of its own, which is its infrastructure.parameters.this_process.my_puid"""
        return self._id

    @property
    def name(self):
        return self._started().name

    @property
    def pid(self):
        """the process, or on another node the srun that runs it"""
        return self._started().pid

    @property
    def node(self):
        """the number of its node in the job"""
        have = hosts()
        host = getattr(self._started(), "_host", here())
        return have.index(host) if host in have else 0

    h_uid = node


class Popen(Process):
    """Popen(args, executable=None, ...) -- a program that is started at once, as subprocess.Popen on one of the job's nodes. With an executable args are the words
    behind its name, without it they begin with it."""

    def __init__(self, args=(), executable=None, stdin=None, stdout=None, stderr=None, cwd=None, env=None, policy=None, **ignored):
        words = [args] if isinstance(args, str) else list(args)
        super().__init__(executable or words[0], words if executable else words[1:], None, cwd, env, stdin, stdout, stderr, policy)
        self.args_given = args
        self.start()

    def poll(self):
        """poll() -- its exit code, None before its end"""
        return self.returncode

    def wait(self, timeout=None):
        """wait(timeout=None) -- its exit code; subprocess.TimeoutExpired"""
        code = self.join(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args_given, timeout)
        return code


def current():
    """current() -- multiprocessing's object for this process"""
    return _mp.current_process()
