# SPDX-License-Identifier: Apache-2.0
"""ddict.dragon.mp and native: processes, and what is between them."""

import base64
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

from ddict.dragon import (Barrier, CollectiveGroup, DDict, Event, Lock, Policy, Process, ProcessGroup, ProcessTemplate, Queue, RankInfo, Semaphore, System,
                          mp)
from ddict.dragon.infrastructure.parameters import this_process
from ddict.dragon.native.process import DEVNULL, Popen
from ddict.dragon.native.process_group import DragonProcessGroupRunningError, DragonProcessGroupStartError, DragonUserCodeError

LONG_S = 60


def double(x):
    return 2 * x


def fail(x):
    raise ValueError(x)


def start_at(value):
    global begin
    begin = value


def from_begin(x):
    return begin + x


def count(lock, d, n):
    for _ in range(n):
        with lock:
            d["n"] = d["n"] + 1


def meet(barrier, event, results):
    event.wait()
    results.put(barrier.wait(LONG_S))


def take_turns(condition, d, mine, last):
    while True:
        with condition:
            condition.wait_for(lambda: d["turn"] % 2 == mine)
            d["turn"] += 1
            condition.notify_all()
            if d["turn"] > last:
                return


def leave(code):
    sys.exit(code)


def fail_at_first(d, n):
    if d.fetch_add("runs") < n:
        sys.exit(3)
    time.sleep(600)


def hang():
    time.sleep(600)


def put(d, key, value):
    d[key] = value


def relay(inq, outq):
    for value in iter(inq.get, None):
        outq.put(value + 1)
        inq.task_done()
    inq.task_done()


def tell(results):
    results.put(this_process.my_puid)


def rank(results, word, more):
    me = RankInfo()
    results.put((me.my_rank, me.my_local_rank, me.my_node_rank, me.world_size, me.my_local_world_size, me.master_port, os.environ["RANK"], word, more))


class Mp(unittest.TestCase):
    def test_pool(self):
        mp.set_start_method("dragon")
        self.assertEqual(mp.get_start_method(), "dragon")
        self.assertRaisesRegex(ValueError, "multiprocessing itself", mp.set_start_method, "spawn")
        with mp.Pool(3, start_at, (100,)) as pool:
            self.assertEqual(pool.map(double, range(50)), [2 * i for i in range(50)])
            self.assertEqual(pool.starmap(pow, [(2, 3), (3, 2)]), [8, 9])
            self.assertEqual(sorted(pool.imap_unordered(from_begin, range(5))), [100, 101, 102, 103, 104])
            self.assertEqual(pool.apply(double, (4,)), 8)
            self.assertRaisesRegex(ValueError, "7", pool.apply, fail, (7,))
            self.assertEqual(pool.map_async(double, [1]).get(LONG_S), [2])
            pool.close()
            pool.join()

    def test_processes(self):
        process = mp.Process(target=leave, args=(3,), name="three")
        process.start()
        process.join(LONG_S)
        self.assertEqual((process.exitcode, process.name, process.is_alive()), (3, "three", False))
        process = mp.Process(target=hang, daemon=True)
        process.start()
        self.assertTrue(process.is_alive())
        process.kill()
        process.join(LONG_S)
        self.assertEqual(process.exitcode, -signal.SIGKILL)
        self.assertEqual(mp.current_process().name, "MainProcess")
        self.assertGreaterEqual(mp.cpu_count(), 1)
        self.assertIs(mp.get_context("dragon").Process, mp.Process)

    def test_queues(self):
        inq, outq = mp.JoinableQueue(), mp.Queue(10)
        process = mp.Process(target=relay, args=(inq, outq))
        process.start()
        for i in range(10):
            inq.put(i)
        inq.put(None)
        inq.join()
        self.assertEqual([outq.get(timeout=LONG_S) for _ in range(10)], list(range(1, 11)))
        self.assertRaises(queue.Empty, outq.get_nowait)
        process.join(LONG_S)
        full = Queue(maxsize=1)
        full.put(1)
        self.assertEqual((full.full(), full.size(), full.poll(0)), (True, 1, True))
        self.assertRaises(queue.Full, full.put, 2, timeout=0.1)
        self.assertRaisesRegex(Exception, "joinable=True", full.task_done)
        full.get()
        self.assertFalse(full.poll(0.05))

    def test_a_process_that_comes_first_has_the_same_queue(self):
        code = """if True:
            from ddict.dragon import mp

            def work(inq, outq):
                outq.put(inq.get(timeout=30) + 1)

            inq, outq = mp.Queue(), mp.Queue()
            process = mp.Process(target=work, args=(inq, outq))
            process.start()
            inq.put(1)
            print(outq.get(timeout=30))
            process.join()
        """
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual((done.stdout, done.returncode), ("2\n", 0))

    def test_locks_events_barriers(self):
        d, lock = DDict(1, 1, 8 << 20), mp.Lock()
        self.addCleanup(d.destroy)
        d["n"] = 0
        processes = [mp.Process(target=count, args=(lock, d, 40)) for _ in range(3)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(LONG_S)
        self.assertEqual(d["n"], 120)
        barrier, event, results = Barrier(3), Event(), Queue()
        processes = [mp.Process(target=meet, args=(barrier, event, results)) for _ in range(3)]
        for process in processes:
            process.start()
        self.assertFalse(event.is_set())
        event.set()
        self.assertEqual(sorted(results.get(timeout=LONG_S) for _ in range(3)), [0, 1, 2])
        for process in processes:
            process.join(LONG_S)
        again = Lock(recursive=True)
        with again, again:
            self.assertTrue(again.is_recursive())
        self.assertFalse(Lock().is_recursive())

    def test_a_condition(self):
        d = DDict(1, 1, 8 << 20)
        self.addCleanup(d.destroy)
        for condition in (mp.Condition(), mp.Condition(mp.Lock()), pickle.loads(pickle.dumps(mp.get_context("dragon").Condition(mp.RLock())))):
            d["turn"] = 0
            processes = [mp.Process(target=take_turns, args=(condition, d, mine, 10)) for mine in range(2)]
            for process in processes:
                process.start()
            for process in processes:
                process.join(LONG_S)
            self.assertEqual(([process.exitcode for process in processes], d["turn"]), ([0, 0], 12))
        script = "import base64, pickle, sys; c = pickle.loads(base64.b64decode(sys.argv[1])); c.acquire(); c.notify(); c.release()"  # a process that is no fork
        with condition:
            started = subprocess.Popen([sys.executable, "-c", script, base64.b64encode(pickle.dumps(condition)).decode()])
            self.assertTrue(condition.wait(LONG_S))
            self.assertFalse(condition.wait(0.05))
        self.assertEqual(started.wait(LONG_S), 0)
        self.assertRaises(RuntimeError, condition.notify)
        self.assertRaisesRegex(TypeError, "a Lock or an RLock of ddict.dragon", mp.Condition, threading.Lock())

    def test_semaphores(self):
        semaphore = Semaphore(2)
        self.assertTrue(semaphore.acquire() and semaphore.acquire(False))
        self.assertFalse(semaphore.acquire(True, 0.05))
        semaphore.release(2)
        self.assertEqual(semaphore.get_value(), 2)
        bounded = mp.BoundedSemaphore(1)
        self.assertRaises(ValueError, bounded.release)
        none = Semaphore(0)
        process = mp.Process(target=none.release)  # by another process than took it
        process.start()
        self.assertTrue(none.acquire(timeout=LONG_S))
        process.join(LONG_S)


class Native(unittest.TestCase):
    def setUp(self):
        self.d = DDict(1, 1, 8 << 20)
        self.addCleanup(self.d.destroy)

    def test_a_function(self):
        process = Process(target=put, args=(self.d, "a"), kwargs={"value": 3})
        self.assertFalse(process.is_alive)
        self.assertRaises(RuntimeError, process.join)
        process.start()
        self.assertEqual((process.join(LONG_S), process.returncode, process.is_alive, self.d["a"]), (0, 0, False, 3))
        self.assertRaisesRegex(NotImplementedError, "Process object", Process, None, ident=3)

    def test_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out")
            process = Process(target="sh", args=["-c", "echo $WORD; pwd; exit 4"], cwd=folder, env={"WORD": "hello"}, stdout=path, stderr=DEVNULL)
            process.start()
            self.assertEqual(process.join(LONG_S), 4)
            with open(path) as f:
                self.assertEqual(f.read(), f"hello\n{os.path.realpath(folder)}\n")
        self.assertEqual(Popen(["true"]).wait(LONG_S), 0)
        self.assertEqual(Popen(["sh", "-c", "exit 3"]).wait(LONG_S), 3)
        self.assertEqual(Popen(executable="sh", args=["-c", "exit 4"]).wait(LONG_S), 4)
        self.assertEqual(Popen(["/no/such/program"], stderr=DEVNULL).wait(LONG_S), 127)
        self.assertRaisesRegex(NotImplementedError, "path", Popen, ["true"], stdout=-1)

    def test_a_group(self):
        group = ProcessGroup(policy=Policy(distribution=Policy.Distribution.BLOCK))
        self.assertRaises(DragonProcessGroupRunningError, group.start)
        for i in range(2):
            group.add_process(nproc=1, template=ProcessTemplate(target=put, args=(self.d, i, i)))
        group.init()
        group.start()
        group.join(LONG_S)
        self.assertEqual(([code for _, code in group.exit_status], dict(self.d)), ([0, 0], {0: 0, 1: 1}))
        group.close()

    def test_a_group_that_fails_or_hangs(self):
        group = ProcessGroup()
        group.add_process(2, ProcessTemplate(target=leave, args=(5,)))
        group.init()
        group.start()
        self.assertRaisesRegex(DragonUserCodeError, "exit code 5", group.join, LONG_S)
        with ProcessGroup(walltime=1) as group:
            group.add_process(1, ProcessTemplate(target=hang))
            group.init()
            group.start()
            self.assertEqual(len(group.puids), 1)
            self.assertRaises(TimeoutError, group.join, 0.1)
            group.join()
            self.assertEqual([code for _, code in group.inactive_puids], [-signal.SIGKILL])
        self.assertRaisesRegex(NotImplementedError, "srun --mpi", ProcessGroup, pmi="pmix")

    def until(self, there, what):
        end = time.monotonic() + LONG_S
        while not there():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def test_a_group_that_restarts(self):
        self.d["runs"] = 0
        group = ProcessGroup(restart=True, policy=Policy(placement=Policy.Placement.LOCAL))
        group.add_process(2, ProcessTemplate(target=fail_at_first, args=(self.d, 4)))
        group.init()
        group.start()
        self.until(lambda: self.d["runs"] >= 6 and len(group.puids) == 2, "four that fail, and two that stay")
        self.assertRaisesRegex(TimeoutError, "until stop", group.join, 0.1)
        self.assertEqual(([code for _, code in group.inactive_puids], len({puid for puid, _ in group.exit_status} | set(group.puids))), ([3] * 4, 6))
        group.send_signal(signal.SIGKILL)  # they come again
        self.until(lambda: self.d["runs"] >= 8 and len(group.puids) == 2, "two others")
        waiting = threading.Thread(target=group.join)
        waiting.start()
        group.stop()
        waiting.join(LONG_S)
        self.assertFalse(waiting.is_alive() or group.puids)
        time.sleep(0.5)
        self.assertEqual((self.d["runs"], [code for _, code in group.exit_status]), (8, [3] * 4 + [-signal.SIGKILL] * 2 + [-signal.SIGTERM] * 2))

    def test_a_process_that_cannot_be_started_again(self):
        with ProcessGroup(restart=True) as group, mock.patch.object(Process, "_again", side_effect=BlockingIOError("no more processes")):
            group.add_process(2, ProcessTemplate(target=leave, args=(0,)))
            group.init()
            group.start()
            self.assertRaisesRegex(DragonProcessGroupStartError, "no more processes", group.join, LONG_S)

    def test_a_group_that_restarts_has_a_walltime(self):
        group = ProcessGroup(restart=True, walltime=1)
        group.add_process(1, ProcessTemplate(target=leave, args=(0,)))
        group.init()
        group.start()
        group.join()
        self.assertGreater(len(group.exit_status), 1)
        self.assertEqual(group.puids, [])

    def test_a_program_ends_though_its_group_restarts(self):
        code = ("from ddict.dragon import ProcessGroup, ProcessTemplate\ngroup = ProcessGroup(restart=True)\n"
                "for s in 1, 3: group.add_process(1, ProcessTemplate(target='sh', args=('-c', f'echo {s}; sleep {s}')))\n"
                "group.init()\ngroup.start()\n")
        done = subprocess.run([sys.executable, "-c", code], timeout=LONG_S, stdout=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["1", "3"]))

    def test_a_process_knows_its_number(self):
        mine, results = this_process.my_puid, Queue()
        group = ProcessGroup()
        group.add_process(nproc=2, template=ProcessTemplate(target=tell, args=(results,)))
        group.init()
        group.start()
        group.join()
        told = {results.get(timeout=LONG_S) for _ in range(2)}
        self.assertEqual(told, {puid for puid, _ in group.inactive_puids})
        process = mp.Process(target=tell, args=(results,))
        process.start()
        process.join(LONG_S)
        self.assertEqual(len(told | {mine, results.get(timeout=LONG_S)}), 4)
        self.assertEqual(this_process.my_puid, mine)
        program = Process(target=sys.executable, args=["-c", "import sys\nfrom ddict.dragon.infrastructure import parameters\nsys.exit(parameters.this_process.my_puid % 251)"])
        program.start()
        self.assertEqual(program.join(LONG_S), program.puid % 251)
        self.assertRaisesRegex(AttributeError, "SLURM_PROCID", getattr, this_process, "index")

    def test_ranks(self):
        results = Queue()
        for given in dict(policies=System().hostname_policies() * 3), dict(nprocs=3):
            group = CollectiveGroup(rank, (results, "a"), {"more": 1}, port=29501, **given)
            group.init()
            group.start()
            group.join()
            group.close()
            self.assertEqual(sorted(results.get(timeout=LONG_S) for _ in range(3)), [(i, i, 0, 3, 3, "29501", str(i), "a", 1) for i in range(3)])
        self.assertRaisesRegex(RuntimeError, "CollectiveGroup", lambda: RankInfo().my_rank)
        self.assertRaisesRegex(ValueError, "nprocs", CollectiveGroup, rank)
        self.assertRaisesRegex(ValueError, "names its node", CollectiveGroup, rank, policies=[Policy()])



if __name__ == "__main__":
    unittest.main()
