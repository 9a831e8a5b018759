# SPDX-License-Identifier: Apache-2.0
"""ddict://: fsspec's own tests, and what is the dictionary's: keys as they are, reading in place, kinds of values, other nodes, dictionaries that end, and the
libraries that reach it through fsspec."""

import gzip
import io
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import zlib
from pathlib import Path

import ddict
from harness import Dictionary, DictTest, module_or_skip

SUITE = Path(__file__).with_name("fsspec_suite.py")
SUITE_S = 500
KEYS = ["a", "a/b", "a/c/d", "a/c/e", "a.txt", "é ü/x y", "/slash", "two//slashes", "marker/", "deep/1/2/3/4"]


class Files(DictTest):
    @classmethod
    def setUpClass(cls):
        cls.fsspec = module_or_skip("fsspec")
        super().setUpClass()
        cls.name = os.environ.get("DDICT_NAME")
        os.environ["DDICT_NAME"] = cls.dictionary.name
        cls.fs = cls.fsspec.filesystem("ddict")

    @classmethod
    def tearDownClass(cls):
        os.environ.pop("DDICT_NAME")
        super().tearDownClass()


class Paths(Files):
    def test_suite_of_fsspec(self):
        module_or_skip("pytest")
        with tempfile.TemporaryDirectory() as folder:  # pytest and hypothesis leave something there
            done = subprocess.run([sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(SUITE)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=SUITE_S, cwd=folder,
                                  env={**os.environ, **self.dictionary.environment(), "TMPDIR": folder})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^[0-9]{3} passed in")  # and none skipped

    def test_urls(self):
        kind, name = type(self.fs), self.dictionary.name
        for url, given, path in (("ddict:///a/b", {}, "/a/b"), ("ddict://a", {}, "/a"), ("ddict://other/a/b/", {"name": "other"}, "/a/b"), ("ddict://other/", {"name": "other"}, "/"),
                                 ("ddict:////a", {}, "//a"), ("ddict:///", {}, "/"), ("a/b", {}, "a/b"), ("", {}, ""), (Path("a/b"), {}, "a/b")):
            self.assertEqual((kind._get_kwargs_from_urls(url), kind._strip_protocol(url)), (given, path), url)
        self.assertEqual([self.fs.unstrip_protocol(p) for p in ("a/b", "ddict:///a", "/a", "//a", "")], ["ddict:///a/b", "ddict:///a", "ddict:///a", "ddict:////a", "ddict:///"])
        named = self.fsspec.filesystem("ddict", name=name)
        self.assertEqual(named.unstrip_protocol("a/b"), f"ddict://{name}/a/b")
        named.pipe("a/b", b"1")
        for url in ("ddict:///a/b", f"ddict://{name}/a/b"):
            self.assertEqual((self.fs.cat(url), named.cat(url)), (b"1", b"1"))
            with self.fsspec.open(url) as f:
                self.assertEqual(f.read(), b"1")
        for fs in (self.fs, named):
            with self.assertRaisesRegex(ValueError, f"ddict://other/a/b is of the dictionary other, not of {name}, .*ddict:///other/a/b$"):
                fs.cat("ddict://other/a/b")
        self.d["a/c"] = b"2"
        self.assertEqual(self.fsspec.open_files("ddict:///a/*")[1].path, "/a/c")
        self.assertEqual((self.fs.find("ddict:///a"), self.fs.ls("/", detail=False), self.fs.glob("ddict:///*/b"), self.fs.find("a")), (["/a/b", "/a/c"], ["/a"], ["/a/b"], ["a/b", "a/c"]))

    def test_listing(self):
        for key in KEYS:
            self.d[key] = key.encode()
        self.d["t", 1], self.d[b"b"], self.d[7] = 1, 2, 3  # no files
        fs, whole = self.fs, sorted("//slash" if k == "/slash" else k for k in KEYS if not k.endswith("/"))
        self.assertEqual(fs.find(""), whole)
        self.assertEqual([fs.cat(p) for p in whole], [p.replace("//sl", "/sl", p.startswith("/")).encode() for p in whole])
        self.assertEqual(fs.find("", maxdepth=1), ["//slash", "a", "a.txt", "two//slashes"])
        self.assertEqual(fs.ls("", detail=False), ["//slash", "a", "a.txt", "deep", "marker", "two", "é ü"])
        self.assertEqual(fs.ls("a", detail=False), ["a/b", "a/c"])
        self.assertEqual(fs.ls("a/b", detail=False), ["a/b"])
        self.assertEqual((fs.ls("marker"), fs.isdir("marker"), fs.exists("marker"), fs.exists("mark")), ([], True, True, False))
        self.assertEqual(fs.glob("a/**"), ["a", "a/b", "a/c", "a/c/d", "a/c/e"])
        self.assertEqual((fs.glob("a/*/[de]"), fs.glob("é*/*")), (["a/c/d", "a/c/e"], ["é ü/x y"]))
        self.assertEqual({p: i["size"] for p, i in fs.glob("a/**", detail=True).items() if i["type"] == "file"}, {"a/b": 3, "a/c/d": 5, "a/c/e": 5})
        self.assertEqual(list(fs.walk("a")), [("a", ["c"], ["b"]), ("a/c", [], ["d", "e"])])
        self.assertEqual((fs.du("deep"), fs.size("a/c/d"), fs.info("a/c")["type"], fs.info("")["type"]), (12, 5, "directory", "directory"))
        self.assertEqual(sorted(fs.find("a", withdirs=True, detail=True)), ["a", "a/b", "a/c", "a/c/d", "a/c/e"])
        for missing in ("none", "a/c/none", "a.txt/x"):
            self.assertFalse(fs.exists(missing))
            for call in (fs.info, fs.ls, fs.cat, fs.open, fs.rm, fs.rm_file, fs.size):
                with self.assertRaises(FileNotFoundError, msg=(missing, call)):
                    call(missing)
        self.assertEqual(fs.find("none"), [])
        for call in (fs.open, fs.cat_file, fs.rm, fs.rm_file):
            with self.assertRaises(IsADirectoryError):
                call("a/c")
        with self.assertRaises(IsADirectoryError):
            fs.open("", "wb")

    def test_removing_and_moving(self):
        fs = self.fs
        fs.pipe({"x/1": b"1", "x/y/2": b"2", "x/y/3": b"3", "z": b"0"})
        fs.mkdir("empty")
        self.assertFalse(fs.exists("empty"))
        with self.assertRaises(FileExistsError):
            fs.makedirs("z")
        with self.assertRaises(OSError):
            fs.rmdir("x")
        fs.mv("x", "w", recursive=True)
        self.assertEqual(sorted(self.d), ["w/1", "w/y/2", "w/y/3", "z"])
        fs.cp("w/y", "v", recursive=True)
        self.assertEqual(fs.cat("v/", recursive=True), {"v/2": b"2", "v/3": b"3"})
        fs.rm("w", recursive=True)
        fs.rm(["v/2", "z"])
        self.assertEqual(sorted(self.d), ["v/3"])
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/sub")
            Path(folder, "sub", "a").write_bytes(b"A" * 100_000)
            fs.put(f"{folder}/", "up", recursive=True)
            self.assertEqual(fs.cat("up/sub/a"), b"A" * 100_000)
            fs.get("up", f"{folder}/down", recursive=True)
            self.assertEqual(Path(folder, "down", "sub", "a").read_bytes(), b"A" * 100_000)

    def test_kinds_of_values(self):
        self.d.update({"str": "é", "int": 7, "pickle": {"a": [1]}, "bytearray": bytearray(b"b"), "true": True})
        self.assertEqual((self.fs.cat("str"), self.fs.cat("int"), self.fs.cat("bytearray"), pickle.loads(self.fs.cat("pickle"))), ("é".encode(), b"7", b"b", {"a": [1]}))
        for key in list(self.d):
            self.fs.cp(key, f"copy/{key}")
            self.assertEqual((self.d[f"copy/{key}"], type(self.d[f"copy/{key}"])), (self.d[key], type(self.d[key])))
        self.fs.pipe("array", memoryview(b"abcdefgh").cast("H"))
        self.assertEqual(self.d["array"], b"abcdefgh")


class Bytes(Files):
    def test_reading_in_place(self):
        numpy = module_or_skip("numpy")
        self.d["big"] = data = os.urandom(1 << 20)
        with self.fs._d.view("big") as view, self.fs.open("big") as f:
            there = numpy.frombuffer(view, "B").__array_interface__["data"][0]
            got = numpy.frombuffer(f.getbuffer(), "B")
            self.assertEqual(got.__array_interface__["data"][0], there)
            f.seek(10)
            self.assertEqual(numpy.frombuffer(f.read_buffer(5), "B").__array_interface__["data"][0], there + 10)
            self.assertEqual(f.tell(), 15)
        self.d["big"] = b"other"
        self.assertEqual(bytes(got), data)  # stays, though the file is closed and the key has another value
        with self.assertRaises(ValueError):
            f.read()
        with self.assertRaises(ValueError):
            got[0] = 1
        self.assertEqual(self.fs.cat("big"), b"other")

    def test_the_file_object(self):
        data = b"".join(b"line %d %s\n" % (i, b"x" * (i * 7 % 900)) for i in range(300)) + b"end"
        self.d["f"] = data
        with self.fs.open("f") as f:
            self.assertEqual((f.size, f.readable(), f.writable(), f.seekable()), (len(data), True, False, True))
            self.assertEqual((list(f), f.read(), f.readline()), (io.BytesIO(data).readlines(), b"", b""))
            for whence, offset in ((0, 5), (1, 7), (2, -9), (2, 5)):
                at = f.seek(offset, whence)
                plain = io.BytesIO(data)
                plain.seek(at)
                self.assertEqual((f.read(4), f.tell()), (plain.read(4), plain.tell()))
            f.seek(3)
            into, plain = bytearray(20), io.BytesIO(data)
            plain.seek(3)
            self.assertEqual((f.readinto(into), bytes(into), f.readline(3), f.readline(0)), (20, plain.read(20), plain.readline(3), b""))
            again = pickle.loads(pickle.dumps(f))
            self.assertEqual((again.tell(), again.read()), (f.tell(), f.read()))
            with self.assertRaises(OSError):
                f.seek(-1)
        with self.fs.open("f", "r") as f:
            self.assertEqual(f.read(), data.decode())
        self.fs.pipe("z.gz", gzip.compress(data))
        with self.fs.open("z.gz", "rb", compression="infer") as f:
            self.assertEqual(f.read(), data)
        self.assertEqual((self.fs.head("f", 4), self.fs.tail("f", 3), self.fs.read_block("f", 2, 30, b"\n")[-1:]), (b"line", b"end", b"\n"))

    def test_ranges(self):
        self.d["a"], self.d["b"] = b"0123456789", b"x"
        cat = self.fs.cat_file
        self.assertEqual([cat("a", *r) for r in ((2, 5), (None, 3), (-3, None), (7, 100), (5, 5), (20, 30), (2, -2))], [b"234", b"012", b"789", b"789", b"", b"", b"234567"])
        ranges = self.fs.cat_ranges(["a", "b", "a", "none"], [1, 0, -2, 0], [3, 1, None, 1])
        self.assertEqual(ranges[:3], [b"12", b"x", b"89"])
        self.assertIsInstance(ranges[3], FileNotFoundError)
        with self.assertRaises(FileNotFoundError):
            self.fs.cat_ranges(["none"], [0], [1], on_error="raise")
        self.assertEqual(self.fs.cat(["a", "b"]), {"a": b"0123456789", "b": b"x"})
        self.assertEqual(self.fs.cat(["a", "none"], on_error="omit"), {"a": b"0123456789"})
        self.assertIsInstance(self.fs.cat(["a", "none"], on_error="return")["none"], FileNotFoundError)
        with self.assertRaises(FileNotFoundError):
            self.fs.cat(["a", "none"])
        self.d.update({f"m/{i}": b"%d" % i for i in range(500)})
        self.assertEqual(self.fs.cat("m/*"), {f"m/{i}": b"%d" % i for i in range(500)})

    def test_writing(self):
        fs = self.fs
        with fs.open("w", "wb") as f:
            f.write(b"one")
            f.write(bytearray(b" two"))
            self.assertEqual((f.tell(), fs.exists("w")), (7, False))  # stored as a whole
            with self.assertRaises(io.UnsupportedOperation):
                f.read()
        with fs.open("w", "ab") as f:
            f.write(b" three")
        self.assertEqual(self.d["w"], b"one two three")
        with fs.open("t", "w", encoding="latin-1", newline="\r\n") as f:
            f.write("é\n")
        self.assertEqual(self.d["t"], b"\xe9\r\n")
        with fs.open("new", "xb") as f:
            self.d["new"] = b"another was faster"
            with self.assertRaises(FileExistsError):
                f.close()
        self.assertEqual(self.d["new"], b"another was faster")
        with self.assertRaises(FileExistsError):
            fs.open("w", "xb")
        with self.assertRaisesRegex(ValueError, "r\\+b"):
            fs.open("w", "r+b")
        fs.touch("w", truncate=False)
        fs.touch("t")
        self.assertEqual((self.d["w"], self.d["t"]), (b"one two three", b""))
        self.d["pickle"] = [1]
        with self.assertRaises(TypeError):
            with fs.open("pickle", "ab") as f:
                f.write(b"x")

    def test_transactions(self):
        fs = self.fs
        with fs.transaction:
            with fs.open("a", "wb") as f:
                f.write(b"1")
            self.assertNotIn("a", self.d)
        self.assertEqual(self.d["a"], b"1")
        with self.assertRaises(ZeroDivisionError):
            with fs.transaction:
                with fs.open("a", "wb") as f:
                    f.write(b"2")
                1 / 0
        self.assertEqual(self.d["a"], b"1")


class Processes(Files):
    def test_pickle_fork_and_threads(self):
        self.d["a"] = b"1"
        fs, f = self.fs, self.fs.open("a")
        self.assertEqual(pickle.loads(pickle.dumps(fs)).cat("a"), b"1")
        self.assertEqual(type(fs).from_json(fs.to_json()).cat("a"), b"1")
        if (pid := os.fork()) == 0:
            try:
                assert f.read() == b"1" and fs.cat("a") == b"1"
                fs.pipe("child", b"2")
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual((fs.cat("child"), f.read()), (b"2", b"1"))
        failed = []

        def work(n):
            try:
                for i in range(50):
                    fs.pipe(f"{n}/{i}", b"%d" % i)
                    assert fs.cat(f"{n}/{i}") == b"%d" % i and self.fsspec.filesystem("ddict").exists(f"{n}/{i}")
            except BaseException as e:
                failed.append(e)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((failed, len(fs.find("3"))), ([], 50))

    def test_a_dictionary_that_ended(self):
        with Dictionary(1, 32 << 20) as first:
            os.environ["DDICT_NODE"] = first.nodes[0].node
            fs = self.fsspec.filesystem("ddict", name=first.name)
            fs.pipe("a", b"first")
            f = fs.open("a")
        self.assertEqual(f.read(), b"first")
        for call in (fs.exists, fs.cat, fs.ls, fs.open):
            with self.assertRaisesRegex(ddict.NoDictError, f"(?s){first.name}.*ddict:///KEY is of the job's"):
                call("a")
        Dictionary.count -= 1
        with Dictionary(1, 32 << 20) as second:
            self.assertEqual(second.name, first.name)
            self.assertFalse(fs.exists("a"))
            fs.pipe("a", b"second")
            self.assertEqual((self.fsspec.filesystem("ddict", name=second.name).cat("a"), fs.cat("a")), (b"second",) * 2)
        os.environ["DDICT_NODE"] = self.dictionary.nodes[0].node
        self.assertFalse(self.fs.exists("a"))

    def test_down_does_not_wait_for_it(self):
        code = ("import ddict, fsspec\nfrom ddict import _holders\n"
                "with ddict.up(managers=1, mem='32M', local=True, drain_ms=60000, timeout=60) as d:\n"
                "    fs = fsspec.filesystem('ddict')\n    fs.pipe('a', b'1')\n    held, = _holders._own.values()\n"
                "assert not held.attached and not _holders._own\n"
                "try:\n    fs.cat('a')\nexcept ddict.NoDictError:\n    print('none')\n")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("DDICT_N", "SLURM"))}
        environment["PATH"] = f"{os.path.dirname(os.environ['DDICT_TEST_COMMAND'])}:{environment['PATH']}"
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200, env=environment)
        self.assertEqual((done.stdout, done.returncode), ("none\n", 0), done.stderr)

    def test_import_of_ddict_needs_none_of_it(self):
        code = "import sys, ddict\nprint([m for m in ('fsspec', 'zarr', 'ddict.fsspec', 'ddict.zarr', 'ddict._files') if m in sys.modules])"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout, "[]\n")


class Nodes(Files):
    managers, nodes = 3, 3

    def test_other_nodes(self):
        data = {f"n/{i}": os.urandom(i * 1000) for i in range(60)}
        self.fs.pipe(data)
        self.assertEqual(len({self.d.owner(k) for k in data}), 3)
        self.assertEqual(self.fs.cat("n/*"), data)
        self.assertEqual({p: i["size"] for p, i in self.fs.find("n", detail=True).items()}, {k: len(v) for k, v in data.items()})
        self.assertEqual(({p: self.fs.size(p) for p in data}, self.fs.size("n"), self.fs.size("")), ({k: len(v) for k, v in data.items()}, 0, 0))
        self.assertRaises(FileNotFoundError, self.fs.size, "n/none")
        for key in data:
            with self.fs.open(key) as f:
                self.assertEqual(zlib.crc32(f.getbuffer()), zlib.crc32(data[key]))
        self.fs.rm("n", recursive=True)
        self.assertEqual(len(self.d), 0)


    def test_a_size_is_told_without_the_value(self):
        key = next(k for k in map(str, range(100)) if self.d.owner(k) == 1)
        self.d[key] = bytes(4 << 20)
        before = sum(s["bytes_out"] for s in self.d.stats)
        for _ in range(20):
            self.assertEqual(self.fs.size(key), 4 << 20)
        self.assertLess(sum(s["bytes_out"] for s in self.d.stats) - before, 4 << 20)


class Libraries(Files):
    """What people read and write through ddict://"""

    def frame(self):
        pandas = module_or_skip("pandas")
        return pandas, pandas.DataFrame({"n": range(1000), "x": [i / 7 for i in range(1000)], "s": [f"row {i}" for i in range(1000)]})

    def test_pandas(self):
        pandas, frame = self.frame()
        frame.to_csv("ddict:///t/a.csv", index=False)
        self.assertTrue(self.d["t/a.csv"].startswith(b"n,x,s\n0,0.0,row 0\n"))
        pandas.testing.assert_frame_equal(pandas.read_csv("ddict:///t/a.csv"), frame)
        frame.to_csv("ddict:///t/a.csv.gz", index=False)
        pandas.testing.assert_frame_equal(pandas.read_csv(f"ddict://{self.dictionary.name}/t/a.csv.gz"), frame)
        frame.to_csv("ddict:///t/a.csv", index=False, header=False, mode="a")
        self.assertEqual(len(pandas.read_csv("ddict:///t/a.csv")), 2000)
        frame.to_json("ddict:///t/a.json", orient="records", lines=True)
        pandas.testing.assert_frame_equal(pandas.read_json("ddict:///t/a.json", orient="records", lines=True), frame)
        frame.to_pickle("ddict:///t/a.pkl")
        pandas.testing.assert_frame_equal(pandas.read_pickle("ddict:///t/a.pkl"), frame)
        with self.assertRaises(FileNotFoundError):
            pandas.read_csv("ddict:///none")

    def test_parquet(self):
        pandas, frame = self.frame()
        module_or_skip("pyarrow")
        frame.to_parquet("ddict:///t/a.parquet")
        self.assertEqual(self.d["t/a.parquet"][:4], b"PAR1")
        pandas.testing.assert_frame_equal(pandas.read_parquet("ddict:///t/a.parquet"), frame)
        pandas.testing.assert_frame_equal(pandas.read_parquet("ddict:///t/a.parquet", columns=["s"]), frame[["s"]])

    def test_arrow_datasets(self):
        module_or_skip("pyarrow")
        import pyarrow
        import pyarrow.dataset
        import pyarrow.parquet
        table = pyarrow.table({"part": [i % 3 for i in range(3000)], "x": list(range(3000))})
        pyarrow.dataset.write_dataset(table, "set", filesystem=self.fs, format="parquet", partitioning=["part"], partitioning_flavor="hive")
        self.assertEqual({k.split("/")[1] for k in self.d}, {"part=0", "part=1", "part=2"})
        data = pyarrow.dataset.dataset("set", filesystem=self.fs, format="parquet", partitioning="hive")
        self.assertEqual(data.count_rows(), 3000)
        got = data.to_table(filter=pyarrow.dataset.field("part") == 1)
        self.assertEqual(sorted(got["x"].to_pylist()), list(range(1, 3000, 3)))
        pyarrow.parquet.write_table(table, "one.parquet", filesystem=self.fs)
        self.assertEqual(pyarrow.parquet.read_table("one.parquet", filesystem=self.fs).num_rows, 3000)

    def test_arrow_reads_without_a_copy(self):
        module_or_skip("pyarrow")
        import numpy
        import pyarrow
        table = pyarrow.table({"x": numpy.arange(1 << 17)})
        with self.fs.open("t.arrow", "wb") as f, pyarrow.ipc.new_file(f, table.schema) as writer:
            writer.write_table(table)
        f = self.fs.open("t.arrow")
        got = pyarrow.ipc.open_file(pyarrow.PythonFile(f, "r")).read_all()
        start = numpy.frombuffer(f.getbuffer(), "B").__array_interface__["data"][0]
        address = got["x"].chunk(0).buffers()[1].address
        self.assertTrue(start < address < start + f.size)
        self.assertEqual(got, table)

    def test_huggingface_datasets(self):
        module_or_skip("datasets")
        pandas, frame = self.frame()
        frame.to_parquet("ddict:///hf/a.parquet")
        frame.to_parquet("ddict:///hf/b.parquet")
        with tempfile.TemporaryDirectory() as folder:
            code = ("import datasets\nfor url in 'ddict:///hf/*.parquet', ['ddict:///hf/a.parquet', 'ddict:///hf/b.parquet']:\n"
                    "    d = datasets.load_dataset('parquet', data_files=url, split='train')\n"
                    "    assert len(d) == 2000 and d[1001]['s'] == 'row 1', d\nprint('read')")
            done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300,
                                  env={**os.environ, "HF_HOME": folder, "HF_HUB_DISABLE_TELEMETRY": "1"})
        self.assertEqual((done.stdout, done.returncode), ("read\n", 0), done.stderr)

    def test_xarray_of_zarr_by_its_url(self):
        numpy, xarray = module_or_skip("numpy"), module_or_skip("xarray")
        module_or_skip("zarr")
        data = xarray.Dataset({"t": (("y", "x"), numpy.arange(1200.0).reshape(30, 40))})
        data.to_zarr("ddict:///climate", zarr_format=3, consolidated=False)
        self.assertIn("climate/t/zarr.json", self.d)
        xarray.testing.assert_identical(xarray.open_zarr("ddict:///climate", consolidated=False).load(), data)

    def test_caches_and_maps_of_fsspec(self):
        self.d["a"] = b"1"
        with tempfile.TemporaryDirectory() as folder:
            with self.fsspec.open("simplecache::ddict:///a", simplecache={"cache_storage": folder}) as f:
                self.assertEqual(f.read(), b"1")
        mapping = self.fsspec.get_mapper("ddict:///m")
        mapping["x/y"] = b"2"
        self.assertEqual((dict(mapping), self.d["m/x/y"]), ({"x/y": b"2"}, b"2"))
        with self.assertRaises(KeyError):
            mapping["none"]


if __name__ == "__main__":
    unittest.main()
