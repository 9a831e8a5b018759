# SPDX-License-Identifier: Apache-2.0
"""ddict.zarr.FolderStore: a folder of zarr that is loaded behind the program, and read meanwhile."""

import asyncio
import os
import pickle
import tempfile
import threading
import time
import unittest
from unittest import mock

import ddict
from test_zarr import Arrays

WAIT_S = 60


class Folders(Arrays):
    managers, nodes = 2, 2

    def setUp(self):
        super().setUp()
        import numpy
        from ddict.zarr import FolderStore
        from zarr.core.buffer import cpu, default_buffer_prototype
        self.np, self.FolderStore, self.buffer, self.prototype = numpy, FolderStore, cpu.Buffer, default_buffer_prototype()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "data.zarr")

    def fill(self):
        root = self.zarr.create_group(self.path, zarr_format=3)
        root.create_array("a", data=self.np.arange(6000, dtype="f4").reshape(100, 60), chunks=(10, 20))
        root.create_group("b").create_array("plain", data=self.np.arange(50), chunks=(7,), compressors=None)
        root["b"].create_array("sharded", data=self.np.arange(64), chunks=(4,), shards=(16,))
        root.attrs["name"] = "it"

    def files(self):
        return [os.path.join(folder, name) for folder, _, names in os.walk(self.path) for name in names]

    def is_whole(self, store):
        root = self.zarr.open_group(store, mode="r")
        self.assertEqual(root["a"][:].tolist(), self.np.arange(6000.0).reshape(100, 60).tolist())
        self.assertEqual(root["b/plain"][3:45:2].tolist(), list(range(3, 45, 2)))
        self.assertEqual(root["b/sharded"][5:9].tolist(), list(range(5, 9)))
        self.assertEqual((root.attrs["name"], sorted(root), sorted(root["b"])), ("it", ["a", "b"], ["plain", "sharded"]))

    def late(self):
        """What lets the load go on, which waits"""
        go, keep = threading.Event(), self.FolderStore._keep

        def late(store, d, key, data):
            go.wait(WAIT_S)
            keep(store, d, key, data)

        self.addCleanup(go.set)
        patch = mock.patch.object(self.FolderStore, "_keep", late)
        patch.start()
        self.addCleanup(patch.stop)
        return go

    def test_a_folder_is_loaded_behind_the_program(self):
        self.fill()
        go = self.late()
        store = self.FolderStore(self.path, "x")
        self.assertFalse(store.load_complete())
        self.is_whole(store)  # from the files
        os.environ["DDICT_NODE"] = self.dictionary.nodes[1].node
        self.addCleanup(os.environ.__setitem__, "DDICT_NODE", self.dictionary.nodes[0].node)
        other = pickle.loads(pickle.dumps(store))
        self.is_whole(other)
        self.assertRaises(ddict.TimeoutError, other.wait_on_load, 0.05)
        self.assertEqual((store.loaded_bytes, len(self.d)), (0, 0))
        go.set()
        size = sum(map(os.path.getsize, self.files()))
        self.assertEqual((other.wait_on_load(WAIT_S), store.wait_on_load(WAIT_S), other.loaded_bytes), (size, size, size))
        self.assertTrue(store.load_complete() and other.load_complete())
        self.assertEqual(len(self.d), len(self.files()))
        os.rename(self.path, self.path + ".away")
        self.is_whole(store)
        self.is_whole(pickle.loads(pickle.dumps(other)))
        self.is_whole(self.Store(prefix="x"))
        self.assertEqual(store, self.FolderStore(self.path, "x"))

    def test_what_is_done_while_it_is_loaded(self):
        self.fill()
        go, zarr = self.late(), self.zarr
        store = self.FolderStore(self.path, "x")
        zarr.open_group(store, mode="a")["a"][0, 0] = 7
        one = self.buffer.from_bytes(b"1")

        async def work():
            await store.set_if_not_exists("zarr.json", one)  # it is in the folder
            await store.set_if_not_exists("new", one)
            self.assertEqual([await store.exists(key) for key in ("zarr.json", "new", "none", "a", "../data.zarr/zarr.json", self.path + "/zarr.json")],
                             [True, True] + [False] * 4)
            self.assertEqual([await store.get(key, self.prototype) for key in ("none", "a", "../data.zarr/zarr.json", self.path + "/zarr.json")], [None] * 4)
            self.assertEqual(sorted([key async for key in store.list_dir("")]), ["a", "b", "new", "zarr.json"])
            self.assertEqual(sorted([key async for key in store.list_prefix("b/pl")]), [f"b/plain/{name}" for name in (*(f"c/{i}" for i in range(8)), "zarr.json")])
            for call in store.delete("zarr.json"), store.clear():
                with self.assertRaisesRegex(ValueError, "until wait_on_load"):
                    await call
            go.set()
            await asyncio.to_thread(store.wait_on_load, WAIT_S)
            await store.delete("new")

        asyncio.run(work())
        group = zarr.open_group(store)
        self.assertEqual(group["a"][0, :2].tolist(), [7, 1])
        del group["b"]
        self.assertEqual((list(self.d.keys("x/b")), list(group)), ([], ["a"]))
        with self.assertRaises(ValueError):
            asyncio.run(store.with_read_only(True).clear())
        self.d["xy/z"] = b""
        asyncio.run(store.clear())
        self.assertEqual((list(self.d), store.load_complete()), (["xy/z"], True))

    def test_parts_of_files(self):
        from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
        os.mkdir(self.path)
        with open(os.path.join(self.path, "k"), "wb") as f:
            f.write(bytes(range(10)))
        go, ranges = self.late(), [None, RangeByteRequest(2, 5), RangeByteRequest(8, 20), OffsetByteRequest(7), SuffixByteRequest(2), SuffixByteRequest(20)]
        store = self.FolderStore(self.path, "x")
        parts = [[*range(10)], [2, 3, 4], [8, 9], [7, 8, 9], [8, 9], [*range(10)]]
        for _ in "files", "memory":
            got = asyncio.run(store.get_partial_values(self.prototype, [("k", r) for r in ranges]))
            self.assertEqual([list(b.to_bytes()) for b in got], parts)
            self.assertEqual([list(store.get_sync("k", byte_range=r).to_bytes()) for r in ranges], parts)
            go.set()
            store.wait_on_load(WAIT_S)

    def test_what_comes_between_two_looks(self):
        self.fill()
        go = self.late()
        store = self.FolderStore(self.path, "x")
        go.set()
        store.wait_on_load(WAIT_S)
        self.d["y"] = self.d.pop("x/zarr.json")

        def has_come(folder, key, part=None):
            self.d["x/zarr.json"] = self.d["y"]
            return None

        for get in (lambda: store.get_sync("zarr.json"), lambda: asyncio.run(store.get("zarr.json", self.prototype))):
            self.d.pop("x/zarr.json", None)
            store._whole = None
            with mock.patch.object(store, "load_complete", return_value=False), mock.patch.object(type(store.folder), "read", has_come):
                self.assertEqual(get().to_bytes(), self.d["y"])

    def test_the_event_loop_goes_on_while_a_file_is_read(self):
        self.fill()
        self.late()
        store = self.FolderStore(self.path, "x")
        read, has = type(store.folder).read, type(store.folder).has

        async def ticks(call):
            task, n = asyncio.ensure_future(call), 0
            while not task.done():
                await asyncio.sleep(0.02)
                n += 1
            return n, await task

        slow = {"read": lambda *a: time.sleep(0.5) or read(*a), "has": lambda *a: time.sleep(0.5) or has(*a)}
        with mock.patch.multiple(type(store.folder), **slow):
            n, found = asyncio.run(ticks(store.get("zarr.json", self.prototype)))
            self.assertGreater(n, 5)
            self.assertIn(b"zarr_format", found.to_bytes())
            n, found = asyncio.run(ticks(store.exists("zarr.json")))
            self.assertGreater(n, 5)
            self.assertTrue(found)

    def test_what_cannot_be_loaded_is_said(self):
        self.assertRaises(NotADirectoryError, self.FolderStore, self.path, "x")
        self.assertRaisesRegex(ValueError, "prefix", self.FolderStore, self.path, "")
        self.assertRaisesRegex(ValueError, "loaders", self.FolderStore, self.path, "x", loaders=0)
        self.fill()
        os.symlink("/nowhere/none", os.path.join(self.path, "a", "bad"))
        store = self.FolderStore(self.path, "x")
        with self.assertRaisesRegex(ddict.LoadError, "cannot load .*a/bad"):
            store.wait_on_load(WAIT_S)
        self.assertFalse(store.load_complete())
        self.is_whole(store)
        with self.assertRaisesRegex(ValueError, "x is the folder .*data.zarr already"):
            self.FolderStore(os.path.dirname(self.path), "x")

    def test_a_dictionary_that_is_full(self):
        os.mkdir(self.path)
        for i in range(8):
            with open(os.path.join(self.path, str(i)), "wb") as f:
                f.truncate(64 << 20)
        store = self.FolderStore(self.path, "x")
        with self.assertRaisesRegex(ddict.LoadError, "cannot load"):
            store.wait_on_load(WAIT_S)
        self.assertEqual({len(store.get_sync(str(i))) for i in range(8)}, {64 << 20})

    def test_a_process_that_ends_while_it_loads(self):
        self.fill()
        if (pid := os.fork()) == 0:
            try:
                self.late()
                self.FolderStore(self.path, "x")
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        store = self.FolderStore(self.path, "x")
        self.assertFalse(store.load_complete())
        self.is_whole(store)
        self.assertRaises(ddict.TimeoutError, store.wait_on_load, 0.05)

    def test_reads_are_shown_and_timed(self):
        self.fill()
        store = self.FolderStore(self.path, "x")
        store.wait_on_load(WAIT_S)
        store.reset_get_timer()
        store.show_gets = True
        with mock.patch("builtins.print") as shown:
            self.assertEqual(self.zarr.open_group(store, mode="r")["a"][0, 1], 1)
        self.assertIn(mock.call("ddict.zarr: a/c/0/0", flush=True), shown.call_args_list)
        self.assertGreater(store.get_timer, 0)
        store.reset_get_timer()
        self.assertEqual(store.get_timer, 0)


if __name__ == "__main__":
    unittest.main()
