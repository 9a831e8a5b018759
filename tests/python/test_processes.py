# SPDX-License-Identifier: Apache-2.0
"""Handles in other processes: inherited by fork, pickled to spawn and forkserver, and processes that die."""

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import time
import unittest

import ddict
from harness import Dictionary, DictTest, python


class Holder:
    """As a data set does it: the handle is one of its attributes."""

    def __init__(self, d):
        self.d = d

    def read(self, i):
        return self.d["in", i]


def work(holder, n, queue):
    total = sum(holder.read(i) for i in range(n))
    holder.d["out", os.getpid()] = total
    queue.put((os.getpid(), total))


def count(d, rounds):
    wins = 0
    for i in range(rounds):
        wins += d.put_new(("win", i), os.getpid())
    d["wins", os.getpid()] = wins


def stop_forkserver():
    from multiprocessing import forkserver, resource_tracker
    forkserver._forkserver._stop()
    resource_tracker._resource_tracker._stop()


class Processes(DictTest):
    def children(self, method):
        context = multiprocessing.get_context(method)
        self.d.put_many((("in", i), i) for i in range(200))
        queue = context.Queue()
        holder = Holder(self.d)
        processes = [context.Process(target=work, args=(holder, 200, queue)) for _ in range(3)]
        for p in processes:
            p.start()
        for p in processes:
            pid, total = queue.get(timeout=60)
            self.assertEqual((total, self.d["out", pid]), (19900, 19900))
        for p in processes:
            p.join(60)
            self.assertEqual(p.exitcode, 0)
        queue.close()
        queue.join_thread()
        self.assertEqual(self.d["in", 7], 7)

    def test_fork(self):
        self.children("fork")

    def test_spawn(self):
        self.children("spawn")

    def test_forkserver(self):
        self.children("forkserver")
        stop_forkserver()

    def test_forkserver_that_began_with_another_dictionary(self):
        context = multiprocessing.get_context("forkserver")
        self.addCleanup(os.environ.update, DDICT_NODE=self.dictionary.nodes[0].node)
        self.addCleanup(stop_forkserver)
        before = os.environ["DDICT_NODE"]
        self.assertEqual(self.sum_of(context, self.d), 6)
        with Dictionary(managers=1, mem=32 << 20) as other:
            d = other.attach()
            self.assertNotEqual(os.environ["DDICT_NODE"], before)
            self.assertEqual(self.sum_of(context, d), 6)
            self.assertEqual(self.sum_of(context, self.d), 6)
            d.detach()

    def sum_of(self, context, d):
        d.put_many((("in", i), i) for i in range(4))
        queue = context.Queue()
        process = context.Process(target=work, args=(Holder(d), 4, queue))
        process.start()
        process.join(60)
        self.assertEqual(process.exitcode, 0)
        pid, total = queue.get(timeout=10)
        self.assertEqual(d.pop(("out", pid)), total)
        return total

    def test_a_handle_whose_dictionary_is_gone(self):
        self.addCleanup(os.environ.update, DDICT_NODE=self.dictionary.nodes[0].node)
        with Dictionary(managers=1, mem=32 << 20) as other:
            d = other.attach()
            pickled, node = pickle.dumps(d), os.environ["DDICT_NODE"]
            d.detach()
        for now in (node, self.dictionary.nodes[0].node):
            os.environ["DDICT_NODE"] = now
            with self.assertRaisesRegex(ddict.NoDictError, other.name):
                pickle.loads(pickled)
            self.assertEqual(os.environ["DDICT_NODE"], now)

    def test_exactly_one_process_wins_each_key(self):
        context = multiprocessing.get_context("fork")
        processes = [context.Process(target=count, args=(self.d, 500)) for _ in range(4)]
        for p in processes:
            p.start()
        for p in processes:
            p.join(60)
            self.assertEqual(p.exitcode, 0)
        wins = [self.d["wins", p.pid] for p in processes]
        self.assertEqual(sum(wins), 500)
        self.assertEqual(sorted(wins), sorted(sum(self.d["win", i] == p.pid for i in range(500)) for p in processes))

    def test_views_taken_before_fork_stay_valid_in_both(self):
        value = b"v" * 300_000
        self.d["a"] = value
        view, memory = self.d.view("a"), memoryview(self.d.view("a"))
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                time.sleep(0.5)
                good = bytes(view) == value and bytes(memory) == value and view.load() == value
                self.d["child"] = good
                view.release()
                memory.release()
                code = 0 if good else 2
            finally:
                os._exit(code)
        view.release()
        memory.release()
        self.d["a"] = 0
        for i in range(30):
            self.d["churn"] = bytes([i]) * (2 << 20)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertIs(self.d["child"], True)

    def test_an_inherited_iterator_goes_on_in_both(self):
        self.d.update((i, i) for i in range(2000))
        it = iter(self.d)
        first = next(it)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                rest = list(it)
                code = 0 if len(rest) == 1999 and {first, *rest} == set(range(2000)) and len(list(self.d)) == 2000 else 2
            finally:
                os._exit(code)
        self.assertEqual({first, *it}, set(range(2000)))
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_pickled_handles(self):
        self.d["a"] = 1
        for again in (pickle.loads(pickle.dumps(self.d)), copy.copy(self.d), copy.deepcopy({"d": self.d})["d"]):
            self.assertIs(type(again), ddict.DDict)
            self.assertEqual((again.name, again.timeout, again["a"]), (self.d.name, 30, 1))
            again.detach()
        data = pickle.dumps(again)  # a detached one still says where to attach
        self.assertEqual(pickle.loads(data)["a"], 1)
        with self.assertRaises(TypeError):
            pickle.dumps(self.d.view("a"))

    def test_readers_that_are_killed_leave_nothing(self):
        self.d.update((i, bytes([i]) * 100_000) for i in range(100))
        code = ("import ddict, os\nd = ddict.attach()\nviews = [d.view(i) for i in range(100)]\nprint('views', flush=True)\n"
                "while True:\n    views = [d.view(i % 100) for i in range(50)] + [d[i] for i in range(50)]\n    d['x'] = os.getpid()\n")
        for _ in range(10):
            with python(code, environment=self.dictionary.environment(), stdout=subprocess.PIPE, text=True) as p:
                self.assertEqual(p.stdout.readline(), "views\n")
                time.sleep(0.05)
                p.send_signal(signal.SIGKILL)
        self.d.clear()
        end = time.monotonic() + 60
        while any(s["clients_now"] != 1 for s in self.d.stats):
            self.assertLess(time.monotonic(), end, "a killed client still counts")
            time.sleep(0.05)
        for _ in range(20):
            self.d["big"] = bytes(40 << 20)
        for s in self.d.stats:
            self.assertEqual(s["leased_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
