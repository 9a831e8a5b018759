# SPDX-License-Identifier: Apache-2.0
"""Dictionaries that a program makes: ddict.up(), and what is left when the program ends in whatever way."""

import asyncio
import ctypes
import inspect
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import textwrap
import threading
import time
import unittest

import ddict

from harness import python

MEM = "32M"
END_S = 60  # of what ends by itself, on a busy machine


def processes(name):
    """The processes that have the dictionary's name on their command line"""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if {b"--name=" + name.encode(), b"--name"} & set(words) and name.encode() in b" ".join(words):
            found.append(int(pid))
    return found


class UpTest(unittest.TestCase):
    count = 0

    def setUp(self):
        UpTest.count += 1
        self.name = f"up{os.getpid()}.{UpTest.count}"
        self.addCleanup(self.nothing_is_left)

    def nothing_is_left(self):
        left = processes(self.name)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, [], "processes of the dictionary are left")
        self.assertNotIn("DDICT_NAME", os.environ)

    def up(self, **more):
        return ddict.up(self.name, mem=MEM, **more)

    def all_end(self):
        end = time.monotonic() + END_S
        while processes(self.name) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(processes(self.name), [])

    def program(self, code, **kw):
        """A maker in a process of its own: `name` is the dictionary's; it says a line when it has come so far"""
        code = f"import ddict, os, signal, sys, time\nname = {self.name!r}\n" + textwrap.dedent(code)
        maker = python(code, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, **kw)
        self.addCleanup(maker.stdout.close)
        self.addCleanup(maker.stdin.close)
        self.addCleanup(maker.wait)
        self.addCleanup(maker.kill)
        return maker


class Up(UpTest):
    def test_a_block_has_a_dictionary(self):
        with self.up(managers=2) as d:
            d["a"] = 1
            self.assertEqual(d["a"], 1)
            self.assertEqual((d.name, d.info["managers"], d.info["total_bytes"]), (self.name, 2, 32 << 20))
            self.assertEqual(os.environ["DDICT_NAME"], self.name)
            with ddict.attach() as other:  # leaves it alone
                self.assertEqual(other["a"], 1)
            self.assertEqual(d["a"], 1)
        self.assertEqual(processes(self.name), [])
        self.assertFalse(d.attached)
        with self.assertRaises(ddict.NoDictError):
            ddict.attach(self.name)

    def test_down_by_handle_by_name_and_without(self):
        for end in (lambda d: d.down(), lambda d: ddict.down(self.name), lambda d: ddict.down()):
            d = self.up()
            begin = time.monotonic()
            end(d)
            self.assertEqual(processes(self.name), [])
            self.assertLess(time.monotonic() - begin, 4, "the maker's own handle was waited for")

    def test_the_last_one_that_was_made_ends_first(self):
        os.environ["DDICT_NAME"] = "before"
        try:
            with self.up() as one, ddict.up(mem=MEM) as two:
                self.assertNotEqual(one.name, two.name)
                ddict.down()
                self.assertEqual(os.environ["DDICT_NAME"], one.name)
                with self.assertRaises(ddict.NoDictError):
                    ddict.attach(two.name)
                one["a"] = 1
            self.assertEqual(os.environ["DDICT_NAME"], "before")
        finally:
            del os.environ["DDICT_NAME"]

    def test_in_another_order(self):
        one, two, three = self.up(), ddict.up(mem=MEM), ddict.up(mem=MEM)
        two.down()
        self.assertEqual(os.environ["DDICT_NAME"], three.name)
        three.down()
        self.assertEqual(os.environ["DDICT_NAME"], one.name)
        one.down()
        self.assertNotIn("DDICT_NAME", os.environ)

    def test_nobody_keeps_the_handle(self):
        self.up()
        with ddict.attach() as d:
            d["a"] = 1
            self.assertEqual(d["a"], 1)
        ddict.down()
        self.assertEqual(processes(self.name), [])

    def test_options_are_those_of_the_command(self):
        told = subprocess.run([os.environ["DDICT_TEST_COMMAND"], "up", "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
        told = {word.replace("-", "_") for word in re.findall(r"^ +(?:-., )?--([a-z-]+)", told, re.M)}
        ours = set(inspect.signature(ddict.up).parameters)
        self.assertEqual(told - ours, {"help", "foreground", "asked"})
        self.assertEqual(ours - told, {"keep", "timeout", "persist_freq", "persist_count", "restore_from", "read_only", "wait_for_keys", "wait_for_writers"})

    def test_working_sets(self):
        with self.assertRaisesRegex(ddict.Error, "--working-set and --refill: "):
            ddict.up(self.name, working_set=2, refill=True)
        with self.assertRaisesRegex(ValueError, "wait_for_keys=True goes with working_set=K"):
            self.up(wait_for_keys=True)
        with self.assertRaisesRegex(ddict.NoDictError, "--working-set=1,wait-for-writers: .* at least 2"):
            self.up(working_set=1, wait_for_writers=True)
        with self.up(working_set=3, wait_for_keys=True) as d:
            self.assertEqual(d.working_set, 3)
        with self.up() as d:
            self.assertEqual(d.working_set, 0)

    def test_values_of_options(self):
        with tempfile.TemporaryDirectory() as folder:
            for i in "ab":
                with open(f"{folder}/{i}.txt", "w") as f:
                    f.write(i)
            paths = [os.path.join(folder, "a.txt"), os.path.join(folder, "b.txt")]
            with self.up(load=paths, local=True, drain_ms=300, site=["hugepages=no", "restarts=0"], refill=False, timeout=7.5) as d:
                self.assertEqual(sum(len(d.open_set(name)) for name in d.sets()), 2)
                self.assertEqual(d.timeout, 7.5)
            with ddict.up(self.name, mem=32 << 20, save=os.path.join(folder, "kept")) as d:
                d["a"] = "saved"
            with ddict.up(self.name, mem=MEM, restore=os.path.join(folder, "kept")) as d:
                self.assertEqual(d["a"], "saved")


class Refused(UpTest):
    def refused(self, what, error=ddict.NoDictError, **options):
        with self.assertRaisesRegex(error, what):
            ddict.up(self.name, **options)
        self.assertEqual(processes(self.name), [])

    def test_the_text_says_what_was_wrong(self):
        self.refused("--mem=8X: want a size such as 512M", mem="8X")
        self.refused("--mem of 100.0 TiB: this machine has", mem="100T")
        self.refused("--managers=0: want a whole number from 1", managers=0)
        self.refused("two copies of a value need two nodes", mem=MEM, replicas=2)
        self.refused("no such program", mem=MEM, ddictd="/nothing/ddictd")
        self.refused("unexpected keyword argument 'memory'", TypeError, memory="1G")
        self.refused("keep is True or False", TypeError, keep="yes")
        self.refused("/nothing/here", mem=MEM, load="/nothing/here")

    def test_a_name_that_is_taken(self):
        with self.up() as d:
            with self.assertRaisesRegex(ddict.NoDictError, "already"):
                self.up()
            d["a"] = 1

    def command(self, script):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "ddict")
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + script)
        os.chmod(path, stat.S_IRWXU)
        os.environ["DDICT_COMMAND"] = path
        self.addCleanup(os.environ.pop, "DDICT_COMMAND", None)

    def test_a_command_that_is_not_there(self):
        os.environ["DDICT_COMMAND"] = "/nothing/ddict"
        self.addCleanup(os.environ.pop, "DDICT_COMMAND", None)
        self.refused("DDICT_COMMAND=/nothing/ddict: no such program", ddict.Error)

    def test_a_command_that_is_none_of_ours(self):
        self.command("exit 3\n")
        self.refused(r"ended without a word \(exit code 3\)")
        self.command("kill -9 $$\n")
        self.refused("killed by signal 9")
        self.command('echo "ddict1 error no luck"\nread all\n')
        self.refused("no luck")

    def test_control_c_ends_a_start(self):
        self.command("read all\n")

        def interrupt(signum, frame):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with self.assertRaises(KeyboardInterrupt):
                self.up()
        finally:
            signal.signal(signal.SIGALRM, before)

    def test_arguments_of_dragon(self):
        def said(*args, **named):
            with self.assertRaises(TypeError) as caught:
                ddict.DDict(*args, **named)
            return str(caught.exception)

        self.assertIn('write ddict.up(managers=2, nodes=1, mem="1G")', said(2, 1, 2**30))
        self.assertIn('write ddict.up(managers=12, nodes=4, mem="1536M")', said(managers_per_node=3, n_nodes=4, total_mem=3 * 2**29, working_set_size=1))
        self.assertIn('write ddict.up(managers=2, nodes=1)', said(2))
        self.assertIn("mem=1000000)", said(1, 1, 1000000))
        text = said(2, 2, 2**34, name="x", timeout=30, working_set_size=4, wait_for_keys=True, policy=None)
        self.assertIn("""write ddict.up(managers=4, nodes=2, mem="16G", name='x', timeout=30)""", text)
        self.assertIn("working_set_size: there is no such option; wait_for_keys: get(key, wait=True) waits for a key", text)
        self.assertNotIn("policy:", text)
        self.assertIn("ddict.up(managers=...", said(["a"]))


class Ends(UpTest):
    """What ends the maker ends its dictionary."""

    def test_the_maker_is_killed(self):
        maker = self.program("d = ddict.up(name, mem='32M'); print('up', flush=True); time.sleep(600)")
        self.assertEqual(maker.stdout.readline(), "up\n")
        self.assertTrue(processes(self.name))
        maker.kill()
        self.all_end()

    def test_the_maker_is_killed_while_a_forked_child_lives_on(self):
        maker = self.program("""
            d = ddict.up(name, mem='32M')
            child = os.fork()
            if child == 0:
                d['child'] = 1  # attached, so the managers wait for it as long as they drain
                print('up', flush=True); sys.stdin.read(); os._exit(0)
            time.sleep(600)""")
        self.assertEqual(maker.stdout.readline(), "up\n")
        maker.kill()
        self.all_end()

    def test_the_maker_is_killed_during_the_start(self):
        maker = self.program("print('go', flush=True); ddict.up(name, mem='32M'); time.sleep(600)")
        self.assertEqual(maker.stdout.readline(), "go\n")
        end = time.monotonic() + END_S
        while not processes(self.name) and time.monotonic() < end:
            pass
        maker.kill()
        self.all_end()

    def ends_with(self, code, exit_code, drain_ms=90000):
        """When the maker is gone its dictionary is; at its end nobody waits for its own handles"""
        maker = self.program(f"d = ddict.up(name, mem='32M', drain_ms={drain_ms}); e = ddict.attach(); d['a'] = 1; view = d.view('a'); print('up', flush=True)\n" + code)
        self.assertEqual(maker.stdout.readline(), "up\n")
        self.assertEqual(maker.wait(END_S), exit_code)
        self.assertEqual(processes(self.name), [])

    def test_the_maker_ends_without_down(self):
        self.ends_with("", 0)

    def test_the_maker_exits(self):
        self.ends_with("sys.exit(3)", 3)

    def test_the_maker_exits_while_a_thread_waits(self):
        self.ends_with("import threading; threading.Thread(target=lambda: d.get('no', wait=True), daemon=True).start(); time.sleep(0.1)", 0)

    def test_the_maker_raises_within_the_block(self):
        self.ends_with("sys.stderr = None\nwith d: raise KeyError", 1, drain_ms=300)

    def test_the_maker_ends_in_no_order(self):
        maker = self.program("d = ddict.up(name, mem='32M'); print('up', flush=True); os._exit(0)")
        self.assertEqual(maker.wait(END_S), 0)
        self.all_end()

    def test_the_maker_becomes_another_program(self):
        maker = self.program("d = ddict.up(name, mem='32M'); print('up', flush=True); os.execv('/bin/sleep', ['sleep', '600'])")
        self.assertEqual(maker.stdout.readline(), "up\n")
        self.all_end()

    def test_a_kept_one_outlives_it(self):
        maker = self.program("with ddict.up(name, mem='32M', keep=True) as d: d['a'] = 1")
        self.assertEqual(maker.wait(END_S), 0)
        with ddict.attach(self.name) as d:
            self.assertEqual(d["a"], 1)
        with ddict.up(self.name, keep=True) as d:  # is there already
            self.assertEqual(d["a"], 1)
            self.assertEqual(os.environ.pop("DDICT_NAME"), self.name)
            d.down()
        self.all_end()

    def test_it_was_ended_by_somebody_else(self):
        with self.up() as d:
            subprocess.run([os.environ["DDICT_TEST_COMMAND"], "down", "--name=" + self.name], check=True)
            end = time.monotonic() + END_S
            with self.assertRaises(ddict.GoneError):
                while time.monotonic() < end:
                    d["a"] = 1

    def children(self, parent):
        """Those of the dictionary's processes whose parent this is"""
        found = []
        for pid in processes(self.name):
            with open(f"/proc/{pid}/stat") as f:
                if int(f.read().rsplit(")", 1)[1].split()[1]) == parent:
                    found.append(pid)
        return found

    def test_its_ddictd_is_killed(self):
        d = self.up()
        command, = self.children(os.getpid())
        ddictd, = self.children(command)
        os.kill(ddictd, signal.SIGKILL)
        with self.assertRaises(ddict.LostError):
            while True:
                d["a"] = 1
        with self.assertRaisesRegex(ddict.LostError, "ddictd ended early: killed by signal 9"):
            d.down()
        self.all_end()

    def test_its_command_is_killed(self):
        d = self.up()
        os.kill(*self.children(os.getpid()), signal.SIGKILL)
        with self.assertRaisesRegex(ddict.LostError, "`ddict up`, which kept the dictionary, was killed by signal 9"):
            d.down()
        self.all_end()

    def test_not_all_is_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = os.path.join(folder, "kept")
            with self.assertRaisesRegex(ddict.Error, "(?i)saved"):
                with self.up(save=kept) as d:
                    d["a"] = 1
                    shutil.rmtree(kept, ignore_errors=True)
                    open(kept, "w").close()  # no folder

    def test_an_exception_of_the_block_is_the_one_that_is_raised(self):
        with self.assertRaises(ZeroDivisionError):
            with self.up() as d:
                subprocess.run([os.environ["DDICT_TEST_COMMAND"], "down", "--name=" + self.name], check=True)
                1 / 0
        self.assertFalse(d.attached)

    def test_a_second_down_goes_on_where_the_first_had_no_time(self):
        d = self.up(drain_ms=1000)
        other = self.program("d = ddict.attach(name); print('here', flush=True); sys.stdin.read()")
        self.assertEqual(other.stdout.readline(), "here\n")
        with self.assertRaises(ddict.TimeoutError):
            d.down(timeout=0.2)
        d.down()
        self.assertEqual(processes(self.name), [])


class Others(UpTest):
    """Processes and threads beside the maker."""

    def test_processes_that_it_starts_find_it(self):
        with self.up() as d:
            self.assertEqual(python("import ddict; ddict.attach()['sub'] = 1").wait(), 0)
            for method in ("fork", "spawn", "forkserver"):
                child = multiprocessing.get_context(method).Process(target=_put, args=(method, d))
                child.start()
                child.join()
                self.assertEqual(child.exitcode, 0)
            self.assertEqual({key: d[key] for key in d}, {"sub": 1, "fork": 1, "spawn": 1, "forkserver": 1})

    def test_a_forked_child_leaves_the_block(self):
        with self.up() as d:
            pid = os.fork()
            if pid == 0:
                try:
                    d.__exit__(None, None, None)
                    os._exit(0 if not d.attached else 1)
                finally:
                    os._exit(2)
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
            d["a"] = 1
            pid = os.fork()
            if pid == 0:  # by exit(), which runs the library's own end
                ctypes.CDLL(None).exit(0)
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
            d["b"] = 1

    def test_a_pickled_handle_is_a_plain_one(self):
        with self.up() as d:
            with pickle.loads(pickle.dumps(d)) as copy:
                copy["a"] = 1
            self.assertEqual(d["a"], 1)

    def test_in_a_thread_beside_a_running_loop(self):
        """As in the kernel of a notebook"""
        done = []

        async def cell():
            with self.up() as d:
                d["a"] = 1
                done.append(await d.get_async("a"))

        thread = threading.Thread(target=lambda: asyncio.run(cell()))
        thread.start()
        thread.join()
        self.assertEqual(done, [1])

    def test_control_c_of_its_group_leaves_the_managers_alone(self):
        maker = self.program("""
            with ddict.up(name, mem='32M') as d:
                try:
                    print('up', flush=True)
                    time.sleep(600)
                except KeyboardInterrupt:
                    time.sleep(0.5)
                    ddict.attach()['a'] = 1  # one that is about to end takes nobody in
                    print('goes on', d['a'], flush=True)
                    sys.stdin.readline()
                d['b'] = 1""", start_new_session=True)
        self.assertEqual(maker.stdout.readline(), "up\n")
        os.killpg(maker.pid, signal.SIGINT)
        self.assertEqual(maker.stdout.readline(), "goes on 1\n")
        maker.stdin.write("\n")
        maker.stdin.flush()
        self.assertEqual(maker.wait(END_S), 0)
        self.assertEqual(processes(self.name), [])

    def test_several_threads_make_dictionaries_at_once(self):
        names, lock = [], threading.Lock()

        def make():
            with ddict.up(mem=MEM) as d:
                d["a"] = d.name
                with lock:
                    names.append(d["a"])

        threads = [threading.Thread(target=make) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(set(names)), 4)
        os.environ.pop("DDICT_NAME", None)  # of whichever was last


def _put(key, d):
    if ddict.attach().name != d.name:
        raise SystemExit("attach() found another one")
    d[key] = 1
