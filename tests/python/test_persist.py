# SPDX-License-Identifier: Apache-2.0
"""States on disk, by number: persist(), persisted_ids(), restore(), advance(), read-only dictionaries, and savers that die."""

import asyncio
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import warnings

import ddict

from harness import Dictionary, python

COMMAND = os.environ["DDICT_TEST_COMMAND"]


def command(d, *words):
    return subprocess.run([COMMAND, *words], env={**os.environ, "DDICT_NAME": d.name}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)


class PersistTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "states", "of it")

    def dictionary(self, words="", **more):
        it = Dictionary(mem=more.pop("mem", 64 << 20), more=["--persist", self.folder + words], **more)
        self.addCleanup(self.end, it)
        return it

    def end(self, it):
        gc.collect()
        self.assertFalse(any(it.stop()))

    def attach(self, words="", **more):
        d = self.dictionary(words, **more).attach()
        self.addCleanup(d.detach)
        return d

    def refused(self, d, what, call, *args, error=ddict.SaveError):
        with self.assertRaisesRegex(error, what):
            call(*args)
        return self

    def listed(self):
        return sorted(os.listdir(self.folder))


class States(PersistTest):
    def test_a_state_is_what_was_there(self):
        d = self.attach(nodes=2, managers=3)
        self.assertEqual(d.persisted_ids(), [])
        d.update({f"k{i}": bytes([i]) * i for i in range(200)})
        q = ddict.Queue("q", d=d)
        q.put("first")
        self.assertEqual(d.persist(), 0)
        self.assertEqual(d.persist(7), 7)
        self.assertEqual(d.persisted_ids(), [0, 7])
        self.assertEqual(self.listed(), ["0", "7"])
        was = dict(d)
        d["k3"], d["new"] = b"changed", "new"
        del d["k4"]
        self.assertEqual(q.get(), "first")
        q.put("second")
        d.restore(7)
        self.assertEqual(dict(d), was)
        self.assertEqual(q.get(), "first")
        self.assertEqual(len(q), 0)

    def test_it_is_a_folder_of_ddict_save(self):
        d = self.attach()
        d["a"] = [1, 2]
        d.persist(3)
        with Dictionary() as other, other.attach() as there:
            there["b"] = "stays"
            ddict.restore(os.path.join(self.folder, "3"), d=there)
            self.assertEqual(dict(there), {"a": [1, 2], "b": "stays"})

    def test_a_state_is_replaced(self):
        d = self.attach()
        for value in ("first", "second"):
            d["a"] = value
            d.persist(5)
        d["a"] = "third"
        d.restore(5)
        self.assertEqual(d["a"], "second")
        self.assertEqual(self.listed(), ["5"])

    def test_later_states_go_with_a_restore(self):
        d = self.attach()
        for i in range(5):
            d["i"] = i
            d.persist(i)
        d.restore(2)
        self.assertEqual(d["i"], 2)
        self.assertEqual(self.listed(), ["0", "1", "2"])

    def test_the_newest_stay(self):
        d = self.attach(",count=2")
        for i in (1, 3, 10):
            d.persist(i)
        self.assertEqual(d.persisted_ids(), [3, 10])
        d.persist(2)  # the one that was saved last is not removed
        self.assertEqual(d.persisted_ids(), [2, 10])
        self.assertEqual(self.listed(), ["10", "2"])

    def test_what_is_no_state_is_not_listed(self):
        d = self.attach()
        d.persist(1)
        for name in ("007", "x", "3.part-0123abcd", "4", "-5"):
            shutil.copytree(os.path.join(self.folder, "1"), os.path.join(self.folder, name))
        os.unlink(os.path.join(self.folder, "4", "manifest.json"))
        self.assertEqual(d.persisted_ids(), [1])

    def test_numbers_that_are_none(self):
        d = self.attach()
        d.persist(1)
        d.persist(4)
        self.refused(d, "state 2 is not in .*; there: 1, 4", d.restore, 2)
        for bad in (-1, 1 << 64):
            self.refused(d, "", d.persist, bad, error=OverflowError)
        self.refused(d, "", d.restore, "1", error=TypeError)

    def test_a_dictionary_without_a_folder(self):
        with Dictionary() as it, it.attach() as d:
            for call in (d.persist, d.persisted_ids, d.advance, lambda: d.restore(0)):
                self.refused(d, "has no folder for its states: start it with --ddict-persist", call, error=ddict.Error)


class Behind(PersistTest):
    def test_the_program_goes_on(self):
        d = self.attach()
        d["a"] = os.urandom(20 << 20)
        future = d.persist(1, wait=False)
        d["b"] = 1
        self.assertEqual(future.result(60), 1)
        self.assertTrue(future.done())
        self.assertEqual(d.persisted_ids(), [1])

        async def awaited():
            return await d.persist(2, wait=False)
        self.assertEqual(asyncio.run(awaited()), 2)

    def test_several_at_once_take_turns(self):
        d = self.attach()
        d["a"] = os.urandom(4 << 20)
        for future in [d.persist(i % 3, wait=False) for i in range(6)]:
            future.result(60)
        self.assertEqual(d.persisted_ids(), [0, 1, 2])
        self.assertEqual(self.listed(), ["0", "1", "2"])

    def test_a_failure_is_told(self):
        d = self.attach()
        os.makedirs(os.path.dirname(self.folder))
        with open(self.folder, "w"):
            pass
        future = d.persist(1, wait=False)
        self.assertRegex(str(future.exception(60)), "cannot make .*: File exists|Not a directory")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            future = d.persist(1, wait=False)
            while not future.done():
                time.sleep(0.01)
            del future
            end = time.monotonic() + 10
            while not told and time.monotonic() < end:  # its thread has it, too
                gc.collect()
                time.sleep(0.01)
        self.assertIn("nobody asked", str(told[0].message))

    def test_the_end_of_the_program_waits(self):
        it = self.dictionary()
        program = textwrap.dedent("""
            import ddict, os
            d = ddict.attach()
            d["a"] = os.urandom(30 << 20)
            d.persist(4, wait=False)
        """)
        self.assertEqual(python(program, environment=it.environment()).wait(60), 0)
        with it.attach() as d:
            self.assertEqual(d.persisted_ids(), [4])

    def test_a_timeout_ends_it(self):
        d = self.attach()
        d["a"] = os.urandom(20 << 20)
        d.persist(0)
        with Paused(self, d) as paused:
            with self.assertRaises(ddict.TimeoutError):
                d.persist(1, timeout=0.5)
        d.persist(2)
        self.assertEqual(self.listed(), ["0", "2"])


class Paused:
    """A saver of state 9 that is stopped while it has the turn"""

    def __init__(self, test, d):
        self.test, self.d = test, d

    def __enter__(self):
        os.makedirs(self.test.folder, exist_ok=True)
        env = {**os.environ, "DDICT_NAME": self.d.name}
        while True:
            self.process = subprocess.Popen([COMMAND, "save", "--quiet", "--persist=9"], env=env, stderr=subprocess.DEVNULL)
            while self.process.poll() is None:
                if any(name.startswith("9.part-") for name in os.listdir(self.test.folder)):
                    self.process.send_signal(signal.SIGSTOP)
                    break
            if any(name.startswith("9.part-") for name in os.listdir(self.test.folder)) and self.process.poll() is None:
                return self
            self.process.send_signal(signal.SIGCONT)
            self.process.wait()

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()


class Checkpoints(PersistTest):
    def test_they_are_saved_when_they_are_retired(self):
        it = Dictionary(mem=64 << 20, more=["--working-set", "2", "--persist", self.folder + ",freq=2"])
        self.addCleanup(self.end, it)
        with open("/proc/self/maps") as maps:
            library = next(line.split()[-1] for line in maps if "libddict.so" in line)
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "window_states.py")
        said = subprocess.run([sys.executable, program, library], env={**os.environ, **it.environment()}, stdout=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(said.stdout.splitlines(), ["2 2 [0, 1, 2, None, None, None, None]", "33 3"])
        self.assertEqual(self.listed(), ["0", "2", "3"])
        with open(os.path.join(self.folder, "2", "manifest.json")) as f:
            self.assertEqual(json.load(f)["items"], 4)


class Advances(PersistTest):
    """Several processes that retire checkpoints at once, and savers and starters of savers that are killed"""

    COMMAND_LOG = textwrap.dedent("""\
        #!/bin/bash
        # SPDX-License-Identifier: Apache-2.0
        "$COMMAND" "$@"
        rc=$?
        echo "$* code $rc" >>"$LOG"
        exit $rc
    """)

    def setUp(self):
        super().setUp()
        base = os.path.dirname(os.path.dirname(self.folder))
        self.log, self.meeting, wrapper = (os.path.join(base, name) for name in ("log", "meeting", "wrapper"))
        os.mkdir(self.meeting)
        with open(wrapper, "w") as f:
            f.write(self.COMMAND_LOG)
        os.chmod(wrapper, 0o755)
        self.environment = {"DDICT_COMMAND": wrapper, "COMMAND": COMMAND, "LOG": self.log}

    def up(self, words, **more):
        it = Dictionary(mem=256 << 20, more=["--working-set", "2", "--persist", self.folder + words], **more)
        self.addCleanup(self.end, it)
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in self.savers(it)])
        return it

    def start(self, it, name, start, end, others=(), node=0):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "window_advance.py")
        meeting = [self.meeting, *others] if others else []
        process = subprocess.Popen([sys.executable, program, name, str(start), str(end), *meeting], env={**os.environ, **self.environment, **it.environment(node)}, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def saved(self):
        """How often each state was saved; 141: nobody was there any more to be told"""
        with open(self.log) as f:
            lines = [line.split() for line in f]
        ids = [int(word.split("=")[1]) for line in lines for word in line if word.startswith("--persist=") and line[-1] in ("0", "141")]
        return {i: ids.count(i) for i in ids}

    def savers(self, it):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    words = f.read().split(b"\0")
            except OSError:
                continue
            if it.name.encode() in words and any(word.startswith(b"--turn") for word in words) and b"wrapper" not in words[1]:
                found.append(int(pid))
        return found

    def stopped_saver(self, it, id):
        """The saver of that state, stopped when it has written a part"""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if os.path.isdir(self.folder) and any(name.startswith(f"{id}.part-") and os.listdir(os.path.join(self.folder, name)) for name in self.listed()):
                savers = self.savers(it)
                for pid in savers:
                    os.kill(pid, signal.SIGSTOP)
                if savers and any(name.startswith(f"{id}.part-") for name in self.listed()):
                    self.assertEqual(len(savers), 1)
                    return savers[0]
        self.fail("no saver was seen")

    def check(self, id, names):
        """State id has what all had put at that checkpoint, and nothing of later ones"""
        with Dictionary(mem=256 << 20) as other, other.attach() as there:
            ddict.restore(os.path.join(self.folder, str(id)), d=there)
            self.assertEqual({name: there[name] for name in names}, dict.fromkeys(names, id))
            for name in names:
                self.assertEqual(there[f"{name}/{id}"], bytes([id]) * (1 << 20))
                self.assertNotIn(f"{name}/{id + 1}", there)

    def test_several_on_two_nodes(self):
        it = self.up(",freq=2,count=3", nodes=2)
        names = [f"p{i}" for i in range(5)]
        with it.attach() as d:
            listed, over = [], threading.Event()

            def watch():
                while not over.is_set():
                    listed.extend(self.looked_at(d))
            watcher = threading.Thread(target=watch)
            watcher.start()
            programs = [self.start(it, name, 0, 13, names, i % 2) for i, name in enumerate(names)]
            for program in programs:
                self.assertEqual(program.wait(120), 0)
            over.set()
            watcher.join()
            self.assertFalse([what for what in listed if what])
            self.assertEqual(d.persisted_ids(), [6, 8, 10])
        self.assertEqual(self.saved(), dict.fromkeys((0, 2, 4, 6, 8, 10), 1))
        self.assertEqual(self.listed(), ["10", "6", "8"])
        for id in (6, 8, 10):
            self.check(id, names)

    def looked_at(self, d):
        """What is wrong with the states that are listed; one that has gone meanwhile is not"""
        wrong = []
        for id in d.persisted_ids():
            folder = os.path.join(self.folder, str(id))
            try:
                with open(os.path.join(folder, "manifest.json")) as f:
                    parts = json.load(f)["parts"]
                sizes = [(part["size"], os.path.getsize(os.path.join(folder, part["file"]))) for part in parts]
            except FileNotFoundError:
                if id in d.persisted_ids():
                    wrong.append(f"state {id} has no part or manifest")
                continue
            wrong += [f"state {id}: {a} bytes are said, {b} are there" for a, b in sizes if a != b]
        return wrong

    def test_savers_that_are_killed_while_several_advance(self):
        it = self.up(",freq=1", nodes=2)
        names = [f"p{i}" for i in range(4)]
        with it.attach() as d:
            programs = [self.start(it, name, 0, 8, names, i % 2) for i, name in enumerate(names)]
            killed = 0
            while any(program.poll() is None for program in programs):
                self.assertEqual(self.looked_at(d), [])
                for pid in self.savers(it)[:1] if killed < 6 else []:
                    time.sleep(0.005 * killed)  # at another moment of its life each time
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        continue
                    killed += 1
            self.assertEqual([program.wait() for program in programs], [0] * len(names))
            self.assertGreater(killed, 0)  # on a quick machine some have ended before
            self.assertEqual(d.persisted_ids(), list(range(6)))
        for id in range(6):
            self.check(id, names)
        self.assertEqual(self.listed(), [str(i) for i in range(6)])

    def test_who_started_a_saver_is_killed(self):
        it = self.up(",freq=1")
        with it.attach() as d:
            d["large"] = os.urandom(60 << 20)
            first = self.start(it, "p0", 0, 3)
            saver = self.stopped_saver(it, 0)
            aside = self.listed()
            first.kill()
            first.wait()
            second = self.start(it, "p1", 2, 3)
            with self.assertRaises(subprocess.TimeoutExpired):
                second.wait(1.5)  # the saver lives, and has the turn
            self.assertEqual((self.listed(), self.savers(it)), (aside, [saver]))
            os.kill(saver, signal.SIGCONT)
            self.assertEqual(second.wait(60), 0)
            self.assertEqual(second.stdout.read(), "p1 failed 0\n")
            self.assertEqual(d.persisted_ids(), [0])
        self.assertEqual(self.saved(), {0: 1})
        self.check(0, ["p0"])

    def test_a_saver_whose_turn_has_gone(self):
        it = self.up(",freq=1")
        with it.attach() as d:
            d["a"] = 1
            said = command(d, "save", "--quiet", "--persist=0", "--turn=12345")
            self.assertEqual(said.returncode, 1)
            self.assertIn("it is another process's turn to save", said.stderr)
            self.assertEqual(self.listed(), [])

    def test_the_saver_is_killed(self):
        it = self.up(",freq=1")
        with it.attach() as d:
            d["large"] = os.urandom(60 << 20)
            first = self.start(it, "p0", 0, 3)
            os.kill(self.stopped_saver(it, 0), signal.SIGKILL)
            self.assertEqual(first.wait(60), 0)
            self.assertEqual(first.stdout.read(), "p0 failed 1\n")  # and then it did
            self.assertEqual(d.persisted_ids(), [0])
        self.assertEqual(self.listed(), ["0"])
        self.check(0, ["p0"])


class Deaths(PersistTest):
    def test_a_saver_that_is_killed(self):
        d = self.attach()
        d["a"] = os.urandom(30 << 20)
        d.persist(8)
        with Paused(self, d) as paused:
            waits = d.persist(10, wait=False)
            time.sleep(0.6)
            self.assertFalse(waits.done())  # the other one lives
            self.assertEqual(d.persisted_ids(), [8])
            paused.process.kill()
            waits.result(30)
        self.assertEqual(d.persisted_ids(), [8, 10])
        self.assertEqual(self.listed(), ["10", "8"])

    def test_a_restore_that_is_killed(self):
        d = self.attach()
        was = {f"k{i}": os.urandom(1 << 18) for i in range(100)}
        d.update(was)
        d.persist(1)
        for wait in (0.0, 0.02, 0.05, 0.1, 0.15, 0.2):
            process = subprocess.Popen([COMMAND, "restore", "--quiet", "--persist=1"], env={**os.environ, "DDICT_NAME": d.name}, stderr=subprocess.DEVNULL)
            time.sleep(wait)
            process.kill()
            process.wait()
        d.restore(1)
        self.assertEqual(dict(d), was)
        self.assertEqual(d.persisted_ids(), [1])


class Disks(PersistTest):
    def test_a_folder_that_cannot_be_made(self):
        d = self.attach()
        os.makedirs(os.path.dirname(self.folder))
        with open(self.folder, "w"):
            pass
        self.refused(d, f"cannot make {self.folder}", d.persist)
        os.unlink(self.folder)
        d.persist()
        self.assertEqual(d.persisted_ids(), [0])

    def test_a_disk_that_is_full(self):
        os.makedirs(self.folder)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", self.folder], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no file system can be mounted")
        self.addCleanup(subprocess.run, ["umount", "-l", self.folder], check=True)
        d = self.attach(",count=1")
        d["a"] = "small"
        d.persist(1)
        d["b"] = os.urandom(8 << 20)
        for id in (1, 2):
            self.refused(d, "No space left on device", d.persist, id)
            self.assertEqual(self.listed(), ["1"])
        d.restore(1)
        self.assertEqual(dict(d), {"a": "small"})

    def test_a_folder_that_cannot_be_written(self):
        os.makedirs(self.folder)
        if subprocess.run(["mount", "-t", "tmpfs", "none", self.folder], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no file system can be mounted")
        self.addCleanup(subprocess.run, ["umount", "-l", self.folder], check=True)
        d = self.attach(",count=1")
        d["a"] = "saved"
        d.persist(1)
        d["a"] = "present"
        subprocess.run(["mount", "-o", "remount,ro", self.folder], check=True)
        for id in (1, 2):
            self.refused(d, f"cannot make {self.folder}/{id}.part-.*: Read-only file system", d.persist, id)
            self.assertEqual(self.listed(), ["1"])
        self.assertEqual(d["a"], "present")
        d.restore(1)
        self.assertEqual(dict(d), {"a": "saved"})

    def part(self, id):
        with open(os.path.join(self.folder, str(id), "manifest.json")) as f:
            return os.path.join(self.folder, str(id), json.load(f)["parts"][0]["file"])

    def test_a_damaged_state_changes_nothing(self):
        """A byte of each kind, but for those that say who wrote the part: of the part's head, of an item's head, key and value, of the end, of the manifest; and files that are cut off, or missing"""
        d = self.attach(managers=1)
        d["a"] = b"x" * 5000
        d.persist(1)
        shutil.copytree(os.path.join(self.folder, "1"), os.path.join(self.folder, "good"))
        d["a"] = "present"
        part, manifest = self.part(1), os.path.join(self.folder, "1", "manifest.json")
        size = os.path.getsize(part)

        def flip(path, at):
            with open(path, "r+b") as f:
                f.seek(at)
                byte = f.read(1)
                f.seek(at)
                f.write(bytes([byte[0] ^ 0x10]))
        head, end = 64, size - 32
        harms = {f"byte {at} of the part": lambda at=at: flip(part, at) for at in (0, 8, 24, head, head + 4, head + 8, head + 16, head + 24, head + 32, head + 40, 2000, end, end + 8, end + 16, end + 24)}
        harms["no part"] = lambda: os.unlink(part)
        harms["half a part"] = lambda: os.truncate(part, size // 2)
        harms["a longer part"] = lambda: os.truncate(part, size + 8)
        harms["an empty manifest"] = lambda: os.truncate(manifest, 0)
        harms["half a manifest"] = lambda: os.truncate(manifest, os.path.getsize(manifest) // 2)
        for what, harm in harms.items():
            with self.subTest(what):
                d["a"] = "present"
                harm()
                self.refused(d, f"({part}|{manifest})", d.restore, 1)
                self.assertEqual(dict(d), {"a": "present"})
                shutil.rmtree(os.path.join(self.folder, "1"))
                shutil.copytree(os.path.join(self.folder, "good"), os.path.join(self.folder, "1"))
        d.restore(1)
        self.assertEqual(dict(d), {"a": b"x" * 5000})

    def test_a_state_of_more_than_there_is_room_for(self):
        with Dictionary(mem=256 << 20, more=["--persist", self.folder]) as it, it.attach() as large:
            for i in range(10):
                large[i] = os.urandom(10 << 20)
            large.persist(1)
        d = self.attach()
        d["a"] = "present"
        self.refused(d, "has values of 100.0 MiB, and the dictionary is of 64.0 MiB", d.restore, 1)
        self.assertEqual(dict(d), {"a": "present"})

    def test_a_state_of_other_nodes_and_managers(self):
        was = {f"k{i}": bytes([i]) * i for i in range(200)}
        with Dictionary(mem=64 << 20, nodes=2, managers=3, more=["--persist", self.folder]) as it, it.attach() as d:
            d.update(was)
            d.persist(1)
        for nodes, managers in ((1, 1), (1, 4), (3, 2)):
            with Dictionary(mem=64 << 20, nodes=nodes, managers=managers, more=["--persist", self.folder]) as it, it.attach() as d:
                d["other"] = "goes"
                d.restore(1)
                self.assertEqual(dict(d), was)
                d.persist(1)

    def test_a_state_that_vanishes_while_it_is_read(self):
        d = self.attach(mem=128 << 20)
        was = {f"k{i}": os.urandom(1 << 19) for i in range(80)}
        d.update(was)
        d.persist(1)
        shutil.copytree(os.path.join(self.folder, "1"), os.path.join(self.folder, "good"))
        ended = set()
        for wait in (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2):
            d.clear()
            d["present"] = "here"
            restore = subprocess.Popen([COMMAND, "restore", "--quiet", "--persist=1"], env={**os.environ, "DDICT_NAME": d.name}, stderr=subprocess.PIPE, text=True)
            time.sleep(wait)
            restore.send_signal(signal.SIGSTOP)
            os.rename(os.path.join(self.folder, "1"), os.path.join(self.folder, "gone"))
            restore.send_signal(signal.SIGCONT)
            said = restore.communicate(timeout=60)[1]
            ended.add((restore.returncode, "has only a part" in said))
            if restore.returncode == 0:
                self.assertEqual(dict(d), was)
            else:
                self.assertRegex(said, f"{self.folder}|state 1 is not in")
                if "has only a part of the state now" not in said:
                    self.assertEqual(dict(d), {"present": "here"})
            os.rename(os.path.join(self.folder, "gone"), os.path.join(self.folder, "1"))
        self.assertTrue(any(code != 0 for code, _ in ended), ended)
        d.restore(1)
        self.assertEqual(dict(d), was)


class Meanwhile(PersistTest):
    def test_a_save_without_a_turn(self):
        """Of a frozen dictionary, in which nobody can take one; then another one, with a turn, finds what is being written"""
        d = self.attach()
        d["a"] = os.urandom(20 << 20)
        d.freeze()
        futures = [d.persist(i, wait=False) for i in (1, 2, 1)]
        for future in futures:
            future.result(60)
        self.assertEqual(self.listed(), ["1", "2"])
        with Paused(self, d) as paused:
            d.unfreeze()
            d.persist(3)
            self.assertEqual(self.listed(), ["1", "2", "3"])
            paused.process.send_signal(signal.SIGCONT)
            self.assertEqual(paused.process.wait(60), 1)
        self.assertEqual(self.listed(), ["1", "2", "3"])
        was = dict(d)
        for i in (3, 2, 1):
            d["a"] = "other"
            d.restore(i)
            self.assertEqual(dict(d), was)

    def test_who_reads_during_a_restore(self):
        d = self.attach(mem=128 << 20, nodes=2)
        old, new = ({f"k{i}": bytes([version]) * 20000 for i in range(400)} for version in (1, 2))
        d.update(new)
        d.persist(1)
        d.clear()
        d.update(old)
        over, seen, wrong = threading.Event(), set(), []

        def read():
            while not over.is_set():
                for key in old:
                    value = d.get(key)
                    seen.add(value and value[0])
                    if value not in (None, old[key], new[key]):
                        wrong.append(key)
        held = [d.view(key) for key in list(old)[:20]]
        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        d.restore(1)
        over.set()
        for reader in readers:
            reader.join()
        self.assertEqual(wrong, [])
        self.assertIn(1, seen)
        self.assertEqual(dict(d), new)
        self.assertTrue(all(bytes(view) == b"\1" * 20000 for view in held))


class Listings(PersistTest):
    def test_states(self):
        d = self.attach(nodes=2, managers=3)
        said = command(d, "states", "--json")
        self.assertEqual((said.returncode, json.loads(said.stdout)), (0, []))
        began = int(time.time())
        for i in (2, 10, 1):
            d[f"k{i}"] = bytes(1 << 20)
            d.persist(i)
        os.mkdir(os.path.join(self.folder, "5.part-01234567"))
        for said in (command(d, "states"), subprocess.run([COMMAND, "states", self.folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)):
            self.assertEqual((said.returncode, said.stderr), (0, ""))
            head, *lines = (line.split() for line in said.stdout.splitlines())
            self.assertEqual(head, ["state", "saved", "keys", "values", "disk", "managers", "nodes"])
            self.assertEqual([line[0] for line in lines], ["1", "2", "10"])
            self.assertEqual([line[3:6] for line in lines], [["3", "3.0", "MiB"], ["1", "1.0", "MiB"], ["2", "2.0", "MiB"]])
            self.assertEqual([line[-2:] for line in lines], [["3", "2"]] * 3)
        said = command(d, "states", "--json", self.folder)
        states = json.loads(said.stdout)
        self.assertEqual([(s["state"], s["keys"], s["bytes"], s["nodes"], s["damaged"], s["lost"]) for s in states], [(1, 3, 3 << 20, 2, False, False), (2, 1, 1 << 20, 2, False, False), (10, 2, 2 << 20, 2, False, False)])
        for s in states:
            self.assertEqual(s["path"], os.path.join(self.folder, str(s["state"])))
            self.assertTrue(began <= s["saved"] <= time.time())
            self.assertEqual(s["disk"], sum(os.path.getsize(os.path.join(s["path"], name)) for name in os.listdir(s["path"]) if name.endswith(".part")))

    def test_damaged_ones(self):
        d = self.attach()
        d["a"] = bytes(1000)
        for i in range(4):
            d.persist(i)
        part = next(name for name in os.listdir(os.path.join(self.folder, "1")) if name.endswith(".part"))
        os.unlink(os.path.join(self.folder, "1", part))
        os.truncate(os.path.join(self.folder, "2", next(name for name in os.listdir(os.path.join(self.folder, "2")) if name.endswith(".part"))), 100)
        os.truncate(os.path.join(self.folder, "3", "manifest.json"), 30)
        said = command(d, "states", "--json")
        self.assertEqual(said.returncode, 1)
        for i, why in ((1, "No such file or directory"), (2, "is damaged: it has 100 bytes, and had"), (3, "manifest.json is damaged: line")):
            self.assertRegex(said.stderr, f"state {i}: .*/{i}/.*{why}")
        self.assertEqual([(s["state"], s["damaged"]) for s in json.loads(said.stdout)], [(0, False), (1, True), (2, True), (3, True)])
        self.assertEqual([line.split()[0] for line in command(d, "states").stdout.splitlines()], ["state", "0"])

    def test_what_cannot_be_listed(self):
        said = subprocess.run([COMMAND, "states", self.folder], stderr=subprocess.PIPE, text=True)
        self.assertEqual(said.returncode, 1)
        self.assertIn(f"cannot read {self.folder}: No such file or directory", said.stderr)
        self.assertEqual(subprocess.run([COMMAND, "states", "a", "b"], stderr=subprocess.DEVNULL).returncode, 2)
        with Dictionary() as it, it.attach() as d:
            said = command(d, "states")
            self.assertEqual(said.returncode, 1)
            self.assertIn("has no folder for its states", said.stderr)


class ReadOnly(PersistTest):
    def states(self, *ids):
        with Dictionary(mem=64 << 20, more=["--persist", self.folder]) as it, it.attach() as d:
            for i in ids:
                d["i"] = i
                d[i] = "own"
                d.persist(i)
                del d[i]

    def up(self, **more):
        d = ddict.up(mem="32M", local=True, persist=self.folder, read_only=True, **more)
        self.addCleanup(d.down)
        return d

    def test_only_restore_and_advance_change_it(self):
        self.states(2, 4, 5)
        d = self.up()
        self.refused(d, "frozen", d.__setitem__, "a", 1, error=ddict.FrozenError)
        self.assertEqual(len(d), 0)
        for i in (2, 4):
            d.advance()
            self.assertEqual(dict(d), {"i": i, i: "own"})
            self.refused(d, "frozen", d.__setitem__, "a", 1, error=ddict.FrozenError)
        d.restore(2)
        self.assertEqual(d["i"], 2)
        self.assertEqual(d.persisted_ids(), [2, 4, 5])  # nothing was removed
        d.advance()
        d.advance()
        self.refused(d, "state 5 is the last one in", d.advance)
        self.assertEqual(d["i"], 5)
        self.refused(d, "only reads the states", d.persist, error=ddict.FrozenError)

    def test_a_handle_goes_along_with_checkpoints(self):
        self.states(2, 4)
        d = self.up(working_set=2)
        for i in (2, 4):
            d.advance()
            self.assertEqual((d.checkpoint_id, d["i"]), (i, i))

    def test_restore_from_and_steps(self):
        self.states(2, 4, 5, 6)
        d = self.up(restore_from=2, persist_freq=2)
        self.assertEqual(d["i"], 2)
        d.advance()
        d.advance()
        self.assertEqual(d["i"], 6)
        self.refused(d, "state 6 is the last one in", d.advance)
        d.restore(5)
        self.refused(d, "state 7 is not in", d.advance)
        self.assertEqual(d["i"], 5)

    def test_several_advance(self):
        self.states(*range(8))
        d = self.up(restore_from=0)
        threads = [threading.Thread(target=d.advance) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertIn(d["i"], (1, 2, 3))
        self.assertEqual(len(d), 2)
        self.refused(d, "frozen", d.__setitem__, "a", 1, error=ddict.FrozenError)

    def test_others_do_not_advance(self):
        d = self.attach()
        d.persist(1)
        self.refused(d, "advance is for dictionaries that only read", d.advance)

    def test_a_frozen_dictionary(self):
        d = self.attach()
        d["a"] = 1
        d.freeze()
        d.persist(1)
        self.refused(d, "frozen: unfreeze it", d.restore, 1, error=ddict.FrozenError)
        d.unfreeze()
        d.restore(1)
        self.assertEqual(dict(d), {"a": 1})

    def test_nobody_unfreezes_it(self):
        self.states(2, 4)
        d = self.up()
        for _ in range(2):
            self.refused(d, "only reads the states in .*, so it stays frozen", d.unfreeze, error=ddict.FrozenError)
            said = command(d, "unfreeze")
            self.assertEqual(said.returncode, 1)
            self.assertIn("(read-only), so it stays frozen", said.stderr)
            d.freeze()  # it is
            self.assertTrue(d.is_frozen)
            self.refused(d, "frozen", d.__setitem__, "a", 1, error=ddict.FrozenError)
            d.advance()

    def test_nobody_writes_during_a_restore(self):
        with Dictionary(mem=64 << 20, more=["--persist", self.folder]) as it, it.attach() as d:
            d.update({f"k{i}": i for i in range(5000)})
            d.persist(1)
        it = self.dictionary(",read-only", nodes=2)
        d, other = it.attach(), it.attach(node=1)
        self.addCleanup(d.detach)
        self.addCleanup(other.detach)
        self.assertEqual(command(d, "restore", "--loaded").returncode, 0)  # as its starter does
        d.restore(1)
        restore = self.stopped_within(d)
        for handle in (d, other):
            calls = [lambda: handle.update(a=1), lambda: handle.__setitem__("a", 1), handle.clear, lambda: handle.setdefault("a", 1), lambda: handle.add("n")]
            there = next(iter(handle), None)
            if there is not None:
                calls.append(lambda: handle.pop(there))
            for call in calls:
                self.refused(handle, "frozen", call, error=ddict.FrozenError)
            self.refused(handle, "stays frozen", handle.unfreeze, error=ddict.FrozenError)
            handle.freeze()  # changes nothing
            self.assertTrue(handle.is_frozen)
            self.assertEqual(command(handle, "put", "a", "1").returncode, 1)
        restore.send_signal(signal.SIGCONT)
        self.assertEqual(restore.wait(60), 0)
        self.assertEqual(dict(d), {f"k{i}": i for i in range(5000)})
        restore = self.stopped_within(d)
        restore.kill()
        restore.wait()
        self.refused(d, "frozen", d.__setitem__, "a", 1, error=ddict.FrozenError)
        other.restore(1)
        self.assertEqual(len(d), 5000)
        self.refused(d, "frozen", d.__setitem__, "a", 1, error=ddict.FrozenError)

    def stopped_within(self, d):
        """A restore that is stopped when it has removed some keys, and has not put all again"""
        for _ in range(50):
            restore = subprocess.Popen([COMMAND, "restore", "--quiet", "--persist=1"], env={**os.environ, "DDICT_NAME": d.name})
            while restore.poll() is None and len(d) == 5000:
                pass
            restore.send_signal(signal.SIGSTOP)
            if restore.poll() is None and len(d) < 5000:
                return restore
            restore.send_signal(signal.SIGCONT)
            self.assertEqual(restore.wait(60), 0)
        self.fail("no restore was seen")

    def test_options(self):
        self.refused(None, "restore_from goes with persist", lambda: ddict.up(restore_from=3), error=TypeError)
        self.refused(None, "go with persist", lambda: ddict.up(persist_count=3), error=TypeError)
        self.refused(None, "want a folder, and perhaps freq=N", lambda: ddict.up(mem="32M", persist="x,often"), error=ddict.NoDictError)
        with self.assertRaisesRegex(ddict.SaveError, "state 3 is not in"):
            ddict.up(mem="32M", local=True, persist=self.folder, restore_from=3)
