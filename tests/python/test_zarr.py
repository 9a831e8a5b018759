# SPDX-License-Identifier: Apache-2.0
"""ddict.zarr.Store: zarr's own tests of a store, arrays in place, other nodes, folders that `ddict load` has read, xarray."""

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import ddict
from harness import Dictionary, DictTest, module_or_skip

SUITE = Path(__file__).with_name("zarr_suite.py")
SUITE_S = 550
STOP_S = 2  # a manager stands still so long


class Arrays(DictTest):
    @classmethod
    def setUpClass(cls):
        cls.zarr = module_or_skip("zarr")
        if int(cls.zarr.__version__.split(".")[0]) < 3:
            raise unittest.SkipTest(f"zarr {cls.zarr.__version__} in {sys.executable} is older than 3")
        import ddict.zarr
        cls.Store = ddict.zarr.Store
        super().setUpClass()
        os.environ["DDICT_NAME"] = cls.dictionary.name

    @classmethod
    def tearDownClass(cls):
        os.environ.pop("DDICT_NAME")
        super().tearDownClass()

    def array(self, **more):
        import numpy
        data = numpy.arange(64 * 64, dtype="i4").reshape(64, 64)
        array = self.zarr.create_array(self.Store(prefix="p"), name="a", data=data, chunks=(16, 16), **more)
        return data, array


class Store(Arrays):
    def test_suite_of_zarr(self):
        for name in "pytest", "pytest_asyncio", "hypothesis":
            module_or_skip(name)
        with tempfile.TemporaryDirectory() as folder:  # pytest and hypothesis leave something there
            done = subprocess.run([sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", str(SUITE)], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=SUITE_S, cwd=folder,
                                  env={**os.environ, **self.dictionary.environment(), "TMPDIR": folder})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^[0-9]{3} passed in")  # and none skipped

    def test_keys(self):
        data, _ = self.array()
        self.assertEqual(sorted(self.d.keys("p/a/")), sorted(["p/a/zarr.json", *(f"p/a/c/{i}/{k}" for i in range(4) for k in range(4))]))
        for store in (self.Store(prefix="p/"), self.Store(self.d, prefix="p"), self.Store(self.d.name, prefix="p", read_only=True),
                      pickle.loads(pickle.dumps(self.Store(prefix="p")))):
            self.assertTrue((self.zarr.open_array(store, path="a", mode="r")[:] == data).all())
        with self.assertRaises(ValueError):
            self.zarr.open_array(self.Store(prefix="p", read_only=True), path="a", mode="r+")[0] = 1
        self.assertEqual(self.Store(prefix="p"), self.Store(prefix="p/"))
        self.assertNotEqual(self.Store(prefix="p"), self.Store(prefix="q"))
        with self.assertRaises(FileNotFoundError):
            self.zarr.open_array(self.Store(prefix="q"), path="a", mode="r")

    def test_chunks_that_are_changed_in_part(self):
        """A buffer in place is read-only, also for zarr"""
        for more in ({"compressors": None, "filters": None}, {}, {"shards": (32, 32)}):
            with self.subTest(**more):
                self.d.clear()
                data, array = self.array(**more)
                array[3:20, 5] = data[3:20, 5] = 7
                array[40] = data[40] = 8
                self.assertTrue((self.zarr.open_array(self.Store(prefix="p"), path="a")[:] == data).all())

    def test_buffers_are_the_items_memory(self):
        import numpy
        from zarr.core.buffer import default_buffer_prototype
        self.d["p/x"] = content = os.urandom(100_000)
        store = self.Store(prefix="p")
        with store._d.view("p/x") as view:
            there = numpy.frombuffer(view, "B").__array_interface__["data"][0]
            got = [store.get_sync("x"), asyncio.run(store.get("x", default_buffer_prototype()))]
            for buffer in got:
                self.assertEqual(buffer.as_numpy_array().__array_interface__["data"][0], there)
                self.assertFalse(buffer.as_numpy_array().flags.writeable)
        self.d["p/x"] = b"other"
        self.assertEqual([buffer.to_bytes() for buffer in got], [content] * 2)

    def test_one_of_many_is_first(self):
        from zarr.core.buffer import cpu, default_buffer_prototype
        store = self.Store()

        async def work():
            await asyncio.gather(*(store.set_if_not_exists("k", cpu.Buffer.from_bytes(b"%d" % i)) for i in range(20)))
            first = (await store.get("k", default_buffer_prototype())).to_bytes()
            await store.set_if_not_exists("k", cpu.Buffer.from_bytes(b"late"))
            return first

        self.assertEqual(asyncio.run(work()), self.d["k"])

    def test_a_dictionary_that_ended(self):
        with Dictionary(1, 32 << 20) as first:
            os.environ["DDICT_NODE"] = first.nodes[0].node
            store = self.Store(first.name)
            array = self.zarr.create_array(store, shape=(4,), chunks=(2,), dtype="i4")
            array[:] = 5
        with self.assertRaisesRegex(ddict.NoDictError, first.name):
            array[:]
        Dictionary.count -= 1
        with Dictionary(1, 32 << 20) as second:
            self.assertEqual(second.name, first.name)
            with self.assertRaises(FileNotFoundError):
                self.zarr.open_array(store, mode="r")
        os.environ["DDICT_NODE"] = self.dictionary.nodes[0].node

    def test_fork_and_threads(self):
        data, array = self.array()
        failed = []

        def work():
            try:
                for _ in range(5):
                    assert (array[:] == data).all()
            except BaseException as e:
                failed.append(e)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        if (pid := os.fork()) == 0:
            try:
                os._exit(int(self.Store(prefix="p").get_sync("a/c/0/0") is None))
            finally:
                os._exit(2)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_xarray(self):
        xarray = module_or_skip("xarray")
        import numpy
        data = xarray.Dataset({"t": (("y", "x"), numpy.arange(1200.0).reshape(30, 40)), "n": (("x",), numpy.arange(40))}, attrs={"title": "a"})
        data.to_zarr(self.Store(prefix="climate"), consolidated=False)
        store = self.Store(prefix="climate")
        xarray.testing.assert_identical(xarray.open_zarr(self.Store(prefix="climate", read_only=True), consolidated=False).load(), data)
        data.to_zarr(store, consolidated=False, append_dim="y", mode="a")
        self.assertEqual(xarray.open_zarr(store, consolidated=False).sizes["y"], 60)

    def test_a_folder_that_was_loaded(self):
        if not any(os.path.exists(os.path.join(os.path.dirname(os.environ["DDICT_TEST_COMMAND"]), place)) for place in ("ddict-load", "../libexec/ddict-load")):
            self.skipTest("this build has no ddict load")
        import numpy
        data = numpy.random.default_rng(1).random((100, 100))
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/climate.zarr"
            group = self.zarr.create_group(path)
            group.attrs["title"] = "of a folder"
            group.create_array("t", data=data, chunks=(10, 10))
            loaded = ddict.load(path, prefix="climate/", set="climate", d=self.d, here=True)
            self.assertEqual(len(loaded), sum(len(names) for _, _, names in os.walk(path)))
        group = self.zarr.open_group(self.Store(prefix="climate"), mode="r")
        self.assertEqual((dict(group.attrs), list(group)), ({"title": "of a folder"}, ["t"]))
        self.assertTrue((group["t"][:] == data).all())


class Nodes(Arrays):
    managers, nodes = 3, 3

    def test_other_nodes(self):
        data, array = self.array()
        self.assertEqual(len({self.d.owner(k) for k in self.d}), 3)
        self.assertTrue((array[:] == data).all())
        array[5:50, 9:30] = data[5:50, 9:30] = 3
        self.assertTrue((self.zarr.open_array(self.Store(prefix="p"), path="a")[:] == data).all())
        self.assertEqual(array.nbytes_stored(), sum(len(self.d[k]) for k in self.d if k.startswith("p/a")))
        large = self.zarr.create_array(self.Store(prefix="large"), data=data.repeat(200, 0), chunks=(3200, 64), compressors=None)
        self.assertTrue((large[:] == data.repeat(200, 0)).all())

    def test_a_size_is_told_without_the_value(self):
        key = next(k for k in map(str, range(100)) if self.d.owner(k) == 1)
        self.d[key] = bytes(4 << 20)
        before = sum(s["bytes_out"] for s in self.d.stats)
        for _ in range(20):
            self.assertEqual(asyncio.run(self.Store().getsize(key)), 4 << 20)
        self.assertLess(sum(s["bytes_out"] for s in self.d.stats) - before, 4 << 20)
        self.assertRaises(FileNotFoundError, asyncio.run, self.Store().getsize("none"))

    def test_the_event_loop_goes_on_while_a_manager_is_silent(self):
        from zarr.core.buffer import cpu, default_buffer_prototype
        store, key = self.Store(), next(k for k in map(str, range(100)) if self.d.owner(k) == 1)
        self.d[key] = b"1"
        pid = self.d.stats[1]["pid"]

        async def work(call):
            ticks, begin = 0, time.monotonic()
            task = asyncio.ensure_future(call)
            while not task.done():
                await asyncio.sleep(0.02)
                ticks += 1
            return await task, ticks, time.monotonic() - begin

        for call in (lambda: store.get(key, default_buffer_prototype()), lambda: store.exists(key), lambda: store.set(key, cpu.Buffer.from_bytes(b"2")),
                     lambda: store.getsize(key), lambda: store.set_if_not_exists(key, cpu.Buffer.from_bytes(b"2")), lambda: store.delete(key)):
            timer = threading.Timer(STOP_S, os.kill, (pid, signal.SIGCONT))
            os.kill(pid, signal.SIGSTOP)
            timer.start()
            try:
                _, ticks, took = asyncio.run(work(call()))
            finally:
                timer.join()
            self.assertGreater(took, STOP_S / 2)
            self.assertGreater(ticks, 10)
        self.assertNotIn(key, self.d)


if __name__ == "__main__":
    unittest.main()
