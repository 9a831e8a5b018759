# SPDX-License-Identifier: Apache-2.0
"""What goes wrong is an exception of its own, in time, and Ctrl-C ends a wait."""

import os
import pickle
import signal
import subprocess
import threading
import time
import unittest

import ddict
from harness import Dictionary, DictTest, python


class Errors(DictTest):
    managers, mem = 2, 16 << 20

    def test_all_are_ddict_errors(self):
        for name in ("FullError", "LostError", "GoneError", "NoDictError", "TimeoutError", "VersionError", "CredError", "ViewsError", "FrozenError",
                     "ProtocolError", "AuthError", "KeySizeError", "ValueSizeError"):
            self.assertTrue(issubclass(getattr(ddict, name), ddict.Error))
        self.assertTrue(issubclass(ddict.TimeoutError, TimeoutError))
        self.assertFalse(issubclass(ddict.Error, KeyError))
        self.assertIsNone(ddict.Error().code)

    def test_no_dictionary(self):
        os.environ.pop("DDICT_NAME", None)
        with self.assertRaises(ddict.NoDictError) as e:
            ddict.attach()
        self.assertIn("DDICT_NAME", str(e.exception))
        start = time.monotonic()
        with self.assertRaises(ddict.NoDictError) as e:
            ddict.attach("no-such-dictionary", timeout=60)
        self.assertLess(time.monotonic() - start, 30)
        self.assertIn("no-such-dictionary", str(e.exception))
        self.assertEqual(e.exception.code, -4004)
        again = pickle.loads(pickle.dumps(e.exception))
        self.assertEqual((type(again), again.code, str(again)), (ddict.NoDictError, -4004, str(e.exception)))

    def test_attach_through_the_environment(self):
        os.environ.update(self.dictionary.environment())
        try:
            with ddict.attach() as d:
                self.assertEqual((d.name, d.timeout), (self.dictionary.name, None))
        finally:
            del os.environ["DDICT_NAME"]

    def test_wrong_arguments(self):
        for args in ((1,), (b"x",), ("a", "b"), ("a", 1, 2)):
            self.assertRaises(TypeError, ddict.attach, *args)
        for timeout in (-1, float("nan"), -0.001):
            self.assertRaises(ValueError, ddict.attach, "a", timeout)
        self.assertRaises(ValueError, ddict.attach, "a\0b")
        for name, said in (("a/b c", "has a '/'; names have letters, digits"), ("x" * 64, "too long; names have .* 63 at most")):
            with self.assertRaisesRegex(ddict.Error, said):
                ddict.attach(name)
        self.assertRaises(RuntimeError, self.d.__init__, self.d.name)

    def test_missing_key(self):
        for use in (lambda: self.d["a", 1], lambda: self.d.view(("a", 1)), lambda: self.d.pop(("a", 1)), lambda: self.d.__delitem__(("a", 1))):
            with self.assertRaises(KeyError) as e:
                use()
            self.assertEqual(e.exception.args, (("a", 1),))

    def test_a_full_manager_names_itself_and_touches_nothing(self):
        kept = {}
        with self.assertRaises(ddict.FullError) as e:
            for i in range(1000):
                self.d[i] = bytes([i % 256]) * 100_000
                kept[i] = bytes([i % 256]) * 100_000
        self.assertEqual(e.exception.code, -4003)
        self.assertIn("manager", str(e.exception))
        self.assertEqual(self.d, kept)
        some = next(iter(kept))
        del self.d[some], kept[some]
        with self.assertRaises(ddict.FullError) as e:
            self.d.put_many({("m", i): bytes(100_000) for i in range(500)})
        self.assertTrue(e.exception.failed)
        self.assertEqual(e.exception.stored, len(self.d) - len(kept))
        self.assertFalse(any(key in self.d for key in e.exception.failed))
        self.assertEqual({k: self.d[k] for k in kept}, kept)
        self.d.clear()
        self.d["after"] = bytes(1_000_000)

    def test_what_was_not_sent_is_told_from_what_is_not_known(self):
        keys = [f"sent{i}" for i in range(3000)]
        with self.dictionary.attach(timeout=0.5) as d:
            pids = [m["pid"] for m in d.stats]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                with self.assertRaises(ddict.TimeoutError) as e:
                    d.put_many({key: bytes(1000) for key in keys})
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
        failed, unknown = e.exception.failed, e.exception.unknown
        self.assertEqual((e.exception.stored, e.exception.code), (0, -110))
        self.assertTrue(unknown)
        self.assertLess(set(unknown), set(failed))
        self.assertLessEqual(set(failed), set(keys))
        time.sleep(0.3)
        there = set(self.d)
        self.assertFalse(there & (set(keys) - set(unknown)))

    def test_a_memory_error_has_a_text(self):
        code = ("import mmap, resource, ddict\n"
                "size = int(open('/proc/self/statm').read().split()[0]) * mmap.PAGESIZE + (24 << 20)\n"
                "resource.setrlimit(resource.RLIMIT_AS, (size, size))\n"
                "try: ddict.attach()\n"
                "except MemoryError as e: print(e)\n")
        said = python(code, environment=self.dictionary.environment(), stdout=subprocess.PIPE, text=True).communicate(timeout=60)[0]
        self.assertIn("ulimit -v", said)

    def test_detached(self):
        d = self.dictionary.attach()
        it, views = iter(d), d.keys()
        d.close()
        d.detach()
        for use in (lambda: d["a"], lambda: d.get("a"), lambda: d.__setitem__("a", 1), lambda: "a" in d, lambda: len(d), lambda: iter(d), lambda: d.clear(),
                    lambda: d.stats, lambda: d.info, lambda: d.view("a"), lambda: d.get_many([1]), lambda: d.put_many({1: 1}), lambda: d.owner("a"),
                    lambda: next(it), lambda: list(views), lambda: d.pop("a"), lambda: d.put_new("a", 1), lambda: d.setdefault("a"), lambda: d.__enter__()):
            self.assertRaises(ValueError, use)
        self.assertFalse(d.attached)
        raw = ddict.DDict.__new__(ddict.DDict)
        self.assertRaises(ValueError, lambda: raw["a"])
        self.assertRaises(ValueError, lambda: pickle.dumps(raw))
        self.assertIn("detached", repr(raw))

    def test_detach_while_other_threads_use_it(self):
        d = self.dictionary.attach()
        stop, ends = threading.Event(), []

        def use():
            try:
                while not stop.is_set():
                    d["x"] = bytes(2000)
                    d.get("x")
                    list(d)
            except ValueError as e:
                ends.append(str(e))
        waiter_end, begun = [], threading.Event()

        def wait():
            try:
                begun.set()
                d.get("never", wait=True, timeout=1)
            except ddict.TimeoutError:
                waiter_end.append("timeout")
        threads = [threading.Thread(target=use) for _ in range(3)] + [threading.Thread(target=wait)]
        for t in threads:
            t.start()
        self.assertTrue(begun.wait(60))
        time.sleep(0.3)
        d.detach()
        stop_at = time.monotonic() + 60
        for t in threads:
            t.join(max(0, stop_at - time.monotonic()))
        stop.set()
        self.assertEqual((ends, waiter_end), (["the handle is detached"] * 3, ["timeout"]))

    def test_detach_from_inside_of_a_call(self):
        d = self.dictionary.attach()

        class Evil:
            def __index__(self):
                d.detach()
                return 1

            def __reduce__(self):
                d.detach()
                return int, ()
        self.assertRaises(ValueError, lambda: d[Evil()])
        d = self.dictionary.attach()
        self.assertRaises(ValueError, d.__setitem__, "a", Evil())
        d = self.dictionary.attach()
        self.assertRaises(ValueError, d.put_many, [("a", 1), ("b", Evil()), ("c", 1)])
        d = self.dictionary.attach()
        self.assertRaises(ValueError, d.get_many, ["a", Evil()])

    def test_the_handle_works_after_each_error(self):
        for bad in (lambda: self.d[1.5], lambda: self.d["none"], lambda: self.d.__setitem__("a", threading.Lock()), lambda: self.d.get("b", wait=True, timeout=0.01)):
            with self.assertRaises(Exception):
                bad()
            self.d["ok"] = 1
            self.assertEqual(self.d["ok"], 1)


class Waiting(DictTest):
    def test_a_key_that_comes(self):
        def later():
            time.sleep(0.5)
            self.d["k"] = "came"
        for read in (lambda: self.d.get("k", wait=True, timeout=60), lambda: self.d.view("k", wait=True, timeout=60).load()):
            self.d.clear()
            thread = threading.Thread(target=later)
            start = time.monotonic()
            thread.start()
            self.assertEqual(read(), "came")
            self.assertTrue(0.4 < time.monotonic() - start < 30)
            thread.join()

    def test_a_key_that_does_not_come(self):
        start = time.monotonic()
        with self.assertRaises(ddict.TimeoutError) as e:
            self.d.get("k", wait=True, timeout=0.5)
        self.assertIn("'k'", str(e.exception))
        with self.assertRaises(TimeoutError):
            self.d.view("k", wait=True, timeout=0.3)
        self.assertEqual(self.d.get("k", "default", wait=True, timeout=0.3), "default")
        self.assertIsNone(self.d.get("k", None, wait=True, timeout=0.01))
        self.assertTrue(1.1 <= time.monotonic() - start < 30)

    def test_the_timeout_of_a_call_is_that_of_the_handle_where_it_has_none(self):
        d = self.dictionary.attach(timeout=0.3)
        for call in (lambda: d.get("k", wait=True), lambda: d.view("k", wait=True), lambda: d.pop("k", wait=True), lambda: d.get_async("k", wait=True).result(60),
                     lambda: d.wait_for_prefix("k")):
            start = time.monotonic()
            self.assertRaises(ddict.TimeoutError, call)
            self.assertTrue(0.2 < time.monotonic() - start < 30)
        start = time.monotonic()
        self.assertEqual(d.get("k", "default", timeout=60), "default")  # of the call alone: it does not wait for the key
        self.assertLess(time.monotonic() - start, 30)
        self.assertRaises(KeyError, d.pop, "k", timeout=60)

    def test_waiting_gives_the_gil_back(self):
        got = []
        thread = threading.Thread(target=lambda: got.append(self.d.get("k", None, wait=True, timeout=30)))
        thread.start()
        for _ in range(100):
            time.sleep(0.001)
        self.assertEqual(got, [])  # it waits: with the GIL we would be here when its time is over
        self.d["k"] = 1
        thread.join(60)
        self.assertEqual(got, [1])

    def test_ctrl_c_ends_a_wait(self):
        for call in ('d.get("never", wait=True, timeout=60)', 'd.view("never", wait=True, timeout=60)'):
            code = ("import ddict, sys\nd = ddict.attach()\n"
                    f"try:\n    print('waiting', flush=True)\n    {call}\nexcept KeyboardInterrupt:\n    d['after'] = 1\n    print('interrupted', d['after'], flush=True)\n")
            with python(code, environment=self.dictionary.environment(), stdout=subprocess.PIPE, text=True) as p:
                self.assertEqual(p.stdout.readline(), "waiting\n")
                time.sleep(0.4)
                start = time.monotonic()
                p.send_signal(signal.SIGINT)
                self.assertEqual(p.stdout.readline(), "interrupted 1\n")
                self.assertLess(time.monotonic() - start, 30)
                self.assertEqual(p.wait(60), 0)

    def test_other_signals_do_not_end_a_wait(self):
        hits = []
        old = signal.signal(signal.SIGUSR1, lambda *_: hits.append(1))
        try:
            timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            self.assertEqual(self.d.get("never", 5, wait=True, timeout=0.8), 5)
            timer.join()
        finally:
            signal.signal(signal.SIGUSR1, old)
        self.assertEqual(hits, [1])


class Ends(unittest.TestCase):
    def test_a_dictionary_that_ended(self):
        dictionary = Dictionary()
        d = dictionary.attach(timeout=5)
        d["a"] = [1] * 1000
        view = d.view("a")
        self.assertEqual(dictionary.stop(), [0])
        start = time.monotonic()
        for use in (lambda: d.__setitem__("a", 1), lambda: len(d), lambda: d.pop("a"), lambda: d.put_many({1: 2}), lambda: d.get("never", wait=True, timeout=3),
                    lambda: d.clear(), lambda: d["a"]):
            with self.assertRaises((ddict.GoneError, ddict.LostError)):
                use()
        self.assertLess(time.monotonic() - start, 15)
        self.assertEqual(view.load(), [1] * 1000)
        with self.assertRaises((ddict.NoDictError, ddict.GoneError)):
            ddict.attach(dictionary.name, 2)
        d.detach()

    def test_a_dictionary_that_was_killed(self):
        dictionary = Dictionary()
        d = dictionary.attach(timeout=5)
        d["a"] = 1
        waiter_end = []

        def wait():
            try:
                waiter_end.append(d.get("never", wait=True, timeout=30))
            except ddict.Error as e:
                waiter_end.append(type(e))
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.3)
        dictionary.kill()
        start = time.monotonic()
        for use in (lambda: d.__setitem__("a", 1), lambda: len(d), lambda: d.pop("a")):
            with self.assertRaises((ddict.GoneError, ddict.LostError)):
                use()
        thread.join(20)
        self.assertLess(time.monotonic() - start, 15)
        self.assertEqual(len(waiter_end), 1)
        self.assertIn(waiter_end[0], (ddict.GoneError, ddict.LostError))

    def test_down(self):
        dictionary = Dictionary()
        with dictionary.attach() as d:
            d["a"] = 1
        ddict.down(dictionary.name, 10)
        self.assertEqual(dictionary.nodes[0].process.wait(15), 0)
        dictionary.stop()


if __name__ == "__main__":
    unittest.main()
