# SPDX-License-Identifier: Apache-2.0
"""The parts of multiprocessing that Dragon programs use, over the nodes of the job.

    from ddict.dragon import mp

    mp.set_start_method("dragon")
    with mp.Pool(8) as pool:
        pool.map(work, range(100))

Processes take turns on the job's nodes: here they are forks, on other nodes srun starts them, and their arguments are pickled as with "spawn". Queue, Lock, Event,
Barrier, Condition and Semaphore are in a small dictionary of the program, and work between all of them. What has no form of its own here (Pipe, Value, Manager, ...) is
multiprocessing's, and works on one node.
"""

import multiprocessing as _mp
import os
import queue as _queue
import time
from multiprocessing import context as _context, pool as _pool, process as _process
from multiprocessing import *  # noqa: F401,F403 - what is the same
from multiprocessing import AuthenticationError, BufferTooShort, ProcessError, TimeoutError, active_children, current_process, parent_process  # noqa: F401
from threading import BrokenBarrierError  # noqa: F401

from . import _place
from .infrastructure import parameters as _parameters
from .native import barrier as _barrier, condition as _condition, event as _event, lock as _lock, machine as _machine, queue as _queues, semaphore as _semaphore

_END_S = 1  # of the processes of a Pool, before they are killed
_GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")  # where none is set


class Process(_process.BaseProcess):
    """Process(group=None, target=None, name=None, args=(), kwargs={}, *, daemon=None) -- a process on one of the job's nodes, which take turns, or on that of
    the `with Policy(...):` around start()"""

    _start_method = None  # a process that it starts by multiprocessing itself has multiprocessing's method
    _pinned = (), (), ""  # CPUs, GPUs, the variable that names them

    def __init__(self, group=None, target=None, name=None, args=(), kwargs={}, *, daemon=None, policy=None):
        super().__init__(group, target, name, args, kwargs, daemon=daemon)
        self._policy, self._puid = policy, _parameters.new_puid()

    @staticmethod
    def _Popen(process):
        return _place.start(process)

    def run(self):
        _parameters.become(self._puid)
        cpus, gpus, variable = self._pinned
        if cpus:
            os.sched_setaffinity(0, cpus)
        if gpus:
            for name in (variable,) if variable else _machine.gpu_mask()[0] or _GPUS:
                os.environ[name] = ",".join(map(str, gpus))
        super().run()


class _PoolQueue(_queues.Queue):
    """A queue as a Pool wants it"""

    def __init__(self):
        super().__init__(0)


class Pool(_pool.Pool):
    """Pool(processes=None, initializer=None, initargs=(), maxtasksperchild=None) -- processes on all nodes of the job; None: one a CPU"""

    def __init__(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, *, policy=None, processes_per_policy=None, context=None):
        self._policies = policy if isinstance(policy, list) else [policy] if policy is not None else []
        if processes is None:
            processes = (processes_per_policy or 1) * len(self._policies) if self._policies else cpu_count()
        self.Process, self._made = self._process_make, 0
        super().__init__(processes, initializer, initargs, maxtasksperchild, _mp.get_context("fork"))

    def _process_make(self, ctx, *args, **named):
        policy = self._policies[self._made % len(self._policies)] if self._policies else None
        self._made += 1
        return Process(*args, policy=policy, **named)

    def _setup_queues(self):
        self._inqueue, self._outqueue = _PoolQueue(), _PoolQueue()
        self._quick_put, self._quick_get = self._inqueue.put, self._outqueue.get

    def terminate(self):
        """terminate() -- end: no new task begins; a process that is within one is killed after a second"""
        for handler in (self._worker_handler, self._task_handler):
            handler._state = _pool.TERMINATE
        self._help_stuff_finish(self._inqueue, None, len(self._pool))
        end = time.monotonic() + _END_S
        for process in list(self._pool):
            process.join(max(0, end - time.monotonic()))
        super().terminate()

    def _get_sentinels(self):
        return [self._change_notifier._reader]

    @staticmethod
    def _help_stuff_finish(inqueue, task_handler, size):
        """Take out what nobody is to do any more, and wake the processes."""
        try:
            while True:
                inqueue.get(False)
        except _queue.Empty:
            pass
        for _ in range(size):
            inqueue.put(None)


class Context(_context.BaseContext):
    """What get_context("dragon") gives"""

    _name = "dragon"
    Process = Process

    def Queue(self, maxsize=0):
        return Queue(maxsize)

    def JoinableQueue(self, maxsize=0):
        return JoinableQueue(maxsize)

    def SimpleQueue(self):
        return SimpleQueue()

    def Lock(self):
        return Lock()

    def RLock(self):
        return RLock()

    def Semaphore(self, value=1):
        return Semaphore(value)

    def BoundedSemaphore(self, value=1):
        return BoundedSemaphore(value)

    def Event(self):
        return Event()

    def Barrier(self, parties, action=None, timeout=None):
        return Barrier(parties, action, timeout)

    def Condition(self, lock=None):
        return Condition(lock)

    def Pool(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None):
        return Pool(processes, initializer, initargs, maxtasksperchild)

    def cpu_count(self):
        return cpu_count()

    def get_context(self, method=None):
        return get_context(method)


_dragon = Context()


def Queue(maxsize=0):
    """Queue(maxsize=0) -- a queue between the processes of the job"""
    return _queues.Queue(maxsize)


def JoinableQueue(maxsize=0):
    """JoinableQueue(maxsize=0) -- a queue with task_done() and join()"""
    return _queues.Queue(maxsize, joinable=True)


SimpleQueue = _PoolQueue


def Lock():
    """Lock() -- a lock between the processes of the job"""
    return _lock.Lock()


def RLock():
    """RLock() -- a lock that its holder may take again"""
    return _lock.Lock(recursive=True)


def Semaphore(value=1):
    """Semaphore(value=1) -- a semaphore between the processes of the job"""
    return _semaphore.Semaphore(value)


def BoundedSemaphore(value=1):
    """BoundedSemaphore(value=1) -- a Semaphore that is not released more often than it was acquired"""
    return _semaphore.Semaphore(value, bounded=True)


Event, Barrier, Condition, cpu_count = _event.Event, _barrier.Barrier, _condition.Condition, _machine.cpu_count


def set_start_method(method, force=False):
    """set_start_method("dragon") -- accepted, and nothing changes: this module's processes are started that way"""
    if method not in ("dragon", None):
        raise ValueError(f"set_start_method({method!r}): processes of ddict.dragon.mp are started by \"dragon\"; for {method!r} use multiprocessing itself")


def get_start_method(allow_none=False):
    """get_start_method() -- "dragon\""""
    return "dragon"


def get_all_start_methods():
    """get_all_start_methods() -- "dragon", and those of multiprocessing, for get_context()"""
    return ["dragon", *_mp.get_all_start_methods()]


def get_context(method=None):
    """get_context(method=None) -- an object with the names of this module; "fork", "spawn" and "forkserver" give multiprocessing's own"""
    return _dragon if method in (None, "dragon") else _mp.get_context(method)
