# SPDX-License-Identifier: Apache-2.0
"""ddict.results and `ddict results`: what ranks submit is in files soon, whole at any time, wherever writer or dictionary end; no path leads out of the folder."""

import concurrent.futures
import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock as mock
import xml.dom.minidom

import ddict
from ddict.results import PREFIX, DaskResultsHandler, ResultsHandler
from harness import DictTest, Dictionary, module_or_skip, python

COMMAND = os.environ["DDICT_TEST_COMMAND"]


def wait_for(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise AssertionError("it did not come")
        time.sleep(0.02)


class Results(DictTest):
    nodes = 2

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.to = os.path.join(folder.name, "a", "b")

    def command(self, *words, **kw):
        env = {**os.environ, **self.dictionary.environment(0)}
        return subprocess.Popen([COMMAND, "results", *words], env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **kw)

    def write(self, *words, code=0):
        p = self.command("--to", self.to, *words)
        out, err = p.communicate(timeout=120)
        self.assertEqual(p.returncode, code, err)
        return err

    def path(self, *parts):
        return os.path.join(self.to, *parts)

    def read(self, *parts):
        try:
            with open(self.path(*parts), "rb") as f:
                return f.read()
        except FileNotFoundError:
            return None

    def test_what_is_submitted_is_written(self):
        with ResultsHandler("run", self.d, rank=0) as r, ResultsHandler("run", self.d, rank=1) as q:
            for i in range(100):
                r.submit_result("metrics/all.json", {"step": i, "loss": 1 / (i + 1)})
                q.submit_result("metrics/all.json", json.dumps({"step": i, "loss": 2}))
            r.submit_result("model.pkl", pickle.dumps({"w": 1}))
            r.submit_result("model.pkl", pickle.dumps({"w": 2}))
            r.submit_result("notes/ä.txt", "one", append=False)
            r.submit_checkpoint("ckpt.pkl", {"w": [1, 2]})
            r.submit_result("empty", b"")
        self.write()
        lines = [json.loads(line) for line in self.read("run", "metrics", "all.json").splitlines()]
        self.assertEqual(lines, [{"step": i, "loss": 1 / (i + 1)} for i in range(100)] + [{"step": i, "loss": 2} for i in range(100)])
        self.assertEqual(pickle.loads(self.read("run", "model.pkl")), {"w": 2})
        self.assertEqual(self.read("run", "notes", "ä.txt"), b"one")
        self.assertEqual(self.read("run", "empty"), b"")
        self.assertEqual(sorted(os.listdir(self.path("run"))), ["ckpt.pkl", "empty", "metrics", "model.pkl", "notes"])
        ResultsHandler("other", self.d).submit_result("x", b"x")
        wait_for(lambda: PREFIX + "other/x" in self.d)
        self.write("--run", "other")
        self.assertEqual(self.read("other", "x"), b"x")

    def test_a_long_file_of_metrics_keeps_its_order_and_is_not_stored_anew_for_each_line(self):
        lines = [f"{i} " + "x" * 4096 for i in range(400)]
        with ResultsHandler("long", self.d, rank=0) as r:
            for i, line in enumerate(lines):
                r.submit_result("metrics", line)
                if i % 40 == 0:
                    r.flush()
        self.write()
        self.assertEqual(self.read("long", "metrics").decode().splitlines(), lines)
        sizes = [len(self.d[key]) for key in self.d.keys(PREFIX + "long/")]
        self.assertGreater(len(sizes), 3)
        self.assertLess(max(sizes), (256 << 10) + 41 * 4200)

    def test_a_checkpoint_is_that_of_its_moment(self):
        numpy = __import__("numpy")
        w = numpy.arange(100000.0)
        with ResultsHandler("c", self.d) as r:
            r.submit_checkpoint("w", {"w": w, "step": 3})
            w[:] = 0
        data = self.d[PREFIX + "c/w"]
        import sys
        torch = sys.modules.get("torch")
        state = torch.load(__import__("io").BytesIO(data), weights_only=False) if torch else pickle.loads(data)
        self.assertTrue((state["w"] == numpy.arange(100000.0)).all())

    def test_a_checkpoint_is_the_file_that_torch_makes(self):
        torch = module_or_skip("torch")
        tied = torch.nn.Sequential(torch.nn.Linear(400, 400), torch.nn.Linear(400, 400), torch.nn.BatchNorm1d(400))
        tied[1].weight = tied[0].weight
        quantized = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(40, 40)), dtype=torch.qint8)
        big = torch.rand(100, 1000)
        optimizer = torch.optim.Adam(tied.parameters())
        tied(torch.rand(4, 400)).sum().backward()
        optimizer.step()
        objects = {"tied": tied.state_dict(), "quantized": quantized.state_dict(), "parts": [big[:3], big[50:], big.t()], "parameter": tied[0].weight, "adam": optimizer.state_dict(),
                   "plain": {"epoch": 3, "loss": [0.5, float("inf")], "name": "x"}, "module": tied, "last": torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last),
                   "sparse": torch.eye(4).to_sparse(), "half": torch.rand(9).bfloat16(), "gradient": torch.rand(3, requires_grad=True)}
        kwds = {} if torch.__version__.startswith("1.") else {"weights_only": False}
        results = ResultsHandler("ckpt", self.d)
        for name, obj in objects.items():
            results.submit_checkpoint(name, obj)
        results.flush()
        for name, obj in objects.items():
            wanted, made = io.BytesIO(), self.d["ddict.results/ckpt/" + name]
            torch.save(obj, wanted)
            self.assertLess(abs(len(made) - len(wanted.getvalue())), 4096 + len(made) // 50, name)
            a, b = torch.load(io.BytesIO(made), **kwds), torch.load(io.BytesIO(wanted.getvalue()), **kwds)
            self.assertEqual(str(a), str(b), name)
            if isinstance(obj, torch.Tensor):
                self.assertEqual((a.stride(), a.requires_grad, type(a)), (obj.stride(), obj.requires_grad, type(obj)))
        load = lambda name: torch.load(io.BytesIO(self.d["ddict.results/ckpt/" + name]), **kwds)
        self.assertEqual(load("tied")._metadata, tied.state_dict()._metadata)
        state = load("tied")
        self.assertEqual(state["0.weight"].data_ptr(), state["1.weight"].data_ptr())
        torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(40, 40)), dtype=torch.qint8).load_state_dict(load("quantized"))
        with self.assertRaises(Exception):  # here, and not with the next call
            results.submit_checkpoint("no", lambda: 0)
        results.close()

    def test_a_checkpoint_waits_for_neither_the_dictionary_nor_the_disk(self):
        numpy, go, d = __import__("numpy"), threading.Event(), self.d

        class Slow:
            def __setitem__(self, key, value):
                if not go.wait(100):
                    raise OSError("nobody let it go")
                d[key] = value

        w, key = numpy.arange(1000000.0), PREFIX + "slow/w"
        writer = self.command("--to", self.to, "--follow")
        try:
            self.d[PREFIX + "slow/first"] = b"1"
            wait_for(lambda: self.read("slow", "first") is not None)
            writer.send_signal(signal.SIGSTOP)  # a disk that takes its time
            with ResultsHandler("slow", Slow()) as r:
                r.submit_checkpoint("w", {"w": w})  # returns, or this test does not end
                w[:] = 0
                self.assertNotIn(key, self.d)
                go.set()
                r.flush(100)
            self.assertIn(key, self.d)
            self.assertIsNone(self.read("slow", "w"))
            writer.send_signal(signal.SIGCONT)
            wait_for(lambda: self.read("slow", "w") is not None)
        finally:
            go.set()
            writer.send_signal(signal.SIGCONT)
            writer.terminate()
            writer.communicate(timeout=60)
        self.assertEqual(self.read("slow", "w"), self.d[key])

    def test_errors_come_with_the_next_call(self):
        r = ResultsHandler("e", self.d)
        for path in ("", "/abs", "a/../b", "..", "a//b", ".ddict-x", "a/"):
            with self.assertRaises(ValueError):
                r.submit_result(path, b"")
        with self.assertRaises(TypeError):
            r.submit_result("x", {"a": object()})
        r.submit_result("large", bytes(300 << 20))
        with self.assertRaises(ddict.Error):
            r.flush()
        r.submit_result("small", b"1")
        r.close()
        self.assertEqual(self.d[PREFIX + "e/small"], b"1")
        with self.assertRaises(ValueError):
            r.submit_result("x", b"")

    def test_what_went_wrong_does_not_hold_up_the_end(self):
        code = """
import time, ddict
from ddict.results import ResultsHandler
r, q = ResultsHandler("end"), ResultsHandler("with")
r.submit_result("large", bytes(300 << 20))
for close in (r.close, lambda: q.__exit__(None, None, None)):
    if close != r.close:
        q.submit_result("large", bytes(300 << 20))
    try:
        close()
    except ddict.Error as e:
        print(type(e).__name__, flush=True)
    close()
try:
    r.submit_result("x", b"x")
except ValueError:
    print("closed", flush=True)
"""
        began = time.monotonic()
        p = python(code, environment=self.dictionary.environment(1), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = p.communicate(timeout=100)
        self.assertEqual((len(out.split()), out.split()[-1], err, p.returncode), (3, "closed", "", 0), out)
        self.assertLess(time.monotonic() - began, 50)

    def test_processes_of_multiprocessing_lose_nothing(self):
        code = """
import multiprocessing, sys, ddict
from ddict.results import ResultsHandler
def work(n):
    ResultsHandler("mp").submit_result(f"{n}.txt", "text")
if __name__ == "__main__":
    mine = ResultsHandler("mp")
    mine.submit_result("mine", "x")
    mine.flush()
    def use(n):
        mine.submit_result(f"{n}.txt", "text")
    ps = [multiprocessing.get_context("fork").Process(target=f, args=(i,)) for i, f in enumerate([work, use])]
    [p.start() for p in ps]
    [p.join() for p in ps]
    sys.exit(max(p.exitcode for p in ps))
"""
        p = python(code, environment=self.dictionary.environment(1))
        self.assertEqual(p.wait(100), 0)
        self.write()
        self.assertEqual([self.read("mp", f"{n}.txt") for n in range(2)], [b"text\n"] * 2)

    def test_a_folder_that_was_removed_is_made_again(self):
        with ResultsHandler("gone", self.d) as r:
            p = self.command("--to", self.to, "--follow")
            r.submit_result("a", b"a")
            wait_for(lambda: self.read("gone", "a") is not None)
            shutil.rmtree(self.to)
            r.submit_result("b", b"b")
            wait_for(lambda: self.read("gone", "b") is not None and self.read("gone", "a") is not None)
            p.send_signal(signal.SIGTERM)
            self.assertEqual(p.wait(60), 0)
            p.stdout.close()
            p.stderr.close()

    def test_the_end_of_a_program_and_forks_lose_nothing(self):
        code = """
import os, ddict
from ddict.results import ResultsHandler
r = ResultsHandler("exit")
r.submit_result("parent", "p")
r.flush()
pid = os.fork()
r.submit_result("both", "child" if pid == 0 else "parent")
if pid == 0:
    r.close()
    os._exit(0)
os.waitpid(pid, 0)
"""
        p = python(code, environment={**self.dictionary.environment(1), "RANK": "3"})
        self.assertEqual(p.wait(60), 0)
        self.write()
        self.assertEqual(self.read("exit", "parent"), b"p\n")
        self.assertEqual(sorted(self.read("exit", "both").split()), [b"child", b"parent"])

    def test_followed_files_come_soon_and_are_whole(self):
        p = self.command("--to", self.to, "--follow")
        seen, wrong, stop = set(), [], threading.Event()

        def look():
            while not stop.is_set():
                data = self.read("f", "value")
                if data:
                    seen.add(data[:1])
                    if len(data) != 3000000 or data.count(data[:1]) != len(data):
                        wrong.append(data[:10])

        looker = threading.Thread(target=look)
        looker.start()
        with ResultsHandler("f", self.d) as r:
            for i in range(8):
                r.submit_result("value", bytes([65 + i]) * 3000000)
                r.submit_result("log.json", {"i": i})
                r.flush()
                wait_for(lambda: (self.read("f", "value") or b"")[:1] == bytes([65 + i]))
        wait_for(lambda: (self.read("f", "log.json") or b"").count(b"\n") == 8)
        stop.set()
        looker.join()
        self.assertEqual(wrong, [])
        p.send_signal(signal.SIGTERM)
        self.assertEqual((p.wait(60), p.stderr.read().count("files written")), (0, 1))
        p.stdout.close()
        p.stderr.close()

    def test_a_writer_that_is_killed_is_followed_by_another(self):
        with ResultsHandler("k", self.d) as r:
            r.submit_result("a", b"a" * 100000)
            p = self.command("--to", self.to, "--follow")
            wait_for(lambda: self.read("k", "a") is not None)
            before = os.stat(self.path("k", "a"))
            p.kill()
            p.wait()
            p.stdout.close()
            p.stderr.close()
            with open(self.path("k", ".ddict-b"), "w") as f:
                f.write("torn")
            r.submit_result("b", b"b")
            r.flush()
        self.write()
        self.assertEqual((self.read("k", "a"), self.read("k", "b")), (b"a" * 100000, b"b"))
        self.assertEqual(os.stat(self.path("k", "a")).st_mtime_ns, before.st_mtime_ns)  # it held that already
        self.assertEqual(sorted(os.listdir(self.path("k"))), ["a", "b"])

    def test_no_path_leads_out_of_the_folder(self):
        outside = os.path.dirname(self.to)
        for path in ("run/../../out", "../out", "/etc/out", "run/./out", "run//out", "run/.ddict-out", "run/" + "x" * 300, "out", "run/a/../../../out"):
            self.d[PREFIX + path] = b"bad"
        self.d[PREFIX + "run/good"] = b"good"
        os.makedirs(self.to)
        os.symlink(outside, self.path("link"))
        self.d[PREFIX + "link/out"] = b"bad"
        os.makedirs(self.path("run"))
        os.symlink(os.path.join(outside, "target"), self.path("run", "file"))
        self.d[PREFIX + "run/file"] = b"replaced"
        err = self.write(code=1)
        self.assertIn("no path of a result", err)
        self.assertEqual(self.read("run", "good"), b"good")
        self.assertEqual(os.listdir(outside), ["b"])
        self.assertFalse(os.path.islink(self.path("run", "file")))
        self.assertEqual(sorted(os.listdir(self.path("run"))), ["file", "good"])

    def submit(self, run="r"):
        """Two ranks' results, and the files that they make."""
        ranks = [ResultsHandler(run, self.d, rank=r) for r in (0, 1)]
        for results in ranks:
            for step in (1, 2):
                results.submit_result("worker/all.json", {"rank": results._rank, "step": step})
        ranks[0].submit_result("a b+é&%=~.bin", b"\0" * 100000)
        ranks[1].submit_checkpoint("checkpoint.pt", {"w": [1.5]})
        for results in ranks:
            results.flush()
        self.addCleanup(lambda: [results.close() for results in ranks])
        lines = "".join('{"rank": %d, "step": %d}\n' % (r, s) for r in (0, 1) for s in (1, 2))
        return ranks[0], {"worker/all.json": lines.encode(), "a b+é&%=~.bin": b"\0" * 100000}

    def test_a_process_writes_all_into_a_folder(self):
        results, wanted = self.submit()
        self.assertEqual(results.process_results(self.to), 3)
        for path, data in wanted.items():
            self.assertEqual(self.read(path), data)
        self.write()  # the writer makes the same files, in a folder of the run
        for path in (*wanted, "checkpoint.pt"):
            self.assertEqual(self.read("r", path), self.read(path))
        self.assertEqual([n for _, _, names in os.walk(self.to) for n in names if n.startswith(".")], [])
        self.d[PREFIX + "r/../out"] = b"bad"
        with self.assertRaisesRegex(ddict.Error, "'../out'"):
            results.process_results(self.to)
        self.assertEqual(sorted(os.listdir(os.path.dirname(self.to))), ["b"])

    def test_one_bad_path_keeps_no_other_from_being_written(self):
        with ResultsHandler("r", self.d) as r:
            r.submit_result("x", b"x")
            r.submit_result("a", b"a")
            r.submit_result("a/b", b"b")  # the other one is a file
            r.submit_result("y", b"y")
            r.flush()
            with self.assertRaises(OSError):
                r.process_results(self.to)
            self.d[PREFIX + "r/../out"] = b"bad"
            with self.assertRaisesRegex(ddict.Error, "leads out of the folder"):
                r.process_results(self.to)
        self.assertEqual((self.read("x"), self.read("y")), (b"x", b"y"))

    def test_what_has_not_changed_is_not_read_again(self):
        from ddict._collect import Writer
        self.d[PREFIX + "r/x"] = b"x"
        writer = Writer(self.d, PREFIX + "r/", self.to, lambda path: None)
        self.assertEqual(writer.write(), 1)
        with mock.patch.object(writer, "d", mock.Mock(wraps=self.d)) as d:
            self.assertEqual(writer.write(), 0)
            d.view.assert_not_called()
            d.view.side_effect = ddict.KeyLostError("lost")
            self.d[PREFIX + "r/x"] = b"y"
            self.assertRaises(ddict.KeyLostError, writer.write)
            d.view.side_effect = KeyError("removed")
            self.assertEqual(writer.write(), 0)

    @mock.patch("ddict._s3.PAUSE_S", 0.01)
    def test_a_server_of_s3_that_breaks_off_is_named(self):
        import http.client
        from ddict._s3 import ATTEMPTS, Bucket
        with mock.patch("urllib.request.urlopen", side_effect=http.client.BadStatusLine("x")) as opened:
            with self.assertRaisesRegex(OSError, "s3://bucket/x can not be written"):
                Bucket("s3://bucket").put("x", b"x")
        self.assertEqual(opened.call_count, ATTEMPTS)

    def test_what_comes_while_futures_run_is_written_and_their_error_is_raised(self):
        results, _ = self.submit()
        future, folder = concurrent.futures.Future(), self.to

        def late():
            wait_for(lambda: self.read("checkpoint.pt") is not None)
            results.submit_result("late", b"1")
            wait_for(lambda: self.read("late") == b"1")
            results.submit_result("late", b"2")
            results.flush()
            future.set_exception(KeyError("of the future"))

        thread = threading.Thread(target=late)
        thread.start()
        with self.assertRaisesRegex(KeyError, "of the future"):
            results.process_results(folder, [future])
        thread.join()
        self.assertEqual(self.read("late"), b"2")
        self.assertEqual(results.process_results(folder, [future], raise_errors=False), 4)
        with self.assertRaises(ddict.TimeoutError):
            results.process_results(folder, [concurrent.futures.Future()], timeout=0.1)

    @mock.patch("ddict._s3.PAUSE_S", 0.01)
    def test_results_go_to_s3(self):
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "local"))
        import s3_moto
        from s3_server import Server
        results, wanted = self.submit()
        with s3_moto.server({"there": b"x"}) as server, mock.patch.dict(os.environ, server.environment()):
            self.assertEqual(results.process_results("s3://bucket/run 7/"), 3)
            ddict.load("s3://bucket/run 7", prefix="back/", d=self.d)  # another reader of S3, another signature
            for path, data in wanted.items():
                self.assertEqual(self.d["back/" + path], data)
        with Server({}) as server, mock.patch.dict(os.environ, {**server.environment(), "AWS_SESSION_TOKEN": "a/token=="}):
            self.d[PREFIX + "r/fault500-2/x"] = b"third time"
            results.process_results("s3://bucket")
            self.assertEqual(server.objects["fault500-2/x"], b"third time")
            self.assertEqual({token for _, _, token in server.seen}, {"a/token=="})
            self.d[PREFIX + "r/fault500-3/x"] = b"never"
            with self.assertRaisesRegex(OSError, "s3://bucket/fault500-3/x can not be written: 500 InternalError"):
                results.process_results("s3://bucket")
            del self.d[PREFIX + "r/fault500-3/x"]
            for url, why in (("s3://other", "404 NoSuchBucket"), ("s3://bucket/fault403", "403 AccessDenied")):
                before = len(server.seen)
                with self.assertRaisesRegex(OSError, why):
                    results.process_results(url)
                self.assertEqual(len(server.seen), before + 1)  # it is not tried again
            with mock.patch.dict(os.environ, AWS_SECRET_ACCESS_KEY="another"), self.assertRaisesRegex(OSError, "403 SignatureDoesNotMatch"):
                results.process_results("s3://bucket")
            with tempfile.NamedTemporaryFile("w") as f:
                f.write("[work]\naws_access_key_id = %s\naws_secret_access_key = %s\n" % (os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]))
                f.flush()
                with mock.patch.dict(os.environ, AWS_PROFILE="work", AWS_SHARED_CREDENTIALS_FILE=f.name, AWS_ACCESS_KEY_ID=""):
                    self.assertEqual(results.process_results("s3://bucket/by-profile"), 4)
        with self.assertRaisesRegex(OSError, "can not be written"), mock.patch.dict(os.environ, {**server.environment()}):
            results.process_results("s3://bucket")  # the server has ended
        for bad in ("s3://", "s3:///x"):
            with self.assertRaises(ValueError):
                results.process_results(bad)

    def test_the_name_of_dask_pytorch_ddp(self):
        with mock.patch.dict(os.environ, SLURM_JOB_ID="12"):
            results = DaskResultsHandler(d=self.d)
        self.assertEqual(results.run, "job-12")
        self.assertIs(DaskResultsHandler, ResultsHandler)

    def test_a_folder_that_can_not_be_is_said(self):
        os.makedirs(os.path.dirname(self.to))
        open(self.to, "w").close()
        self.assertIn(self.to, self.write(code=1))

    def test_what_comes_last_is_written_when_the_dictionary_ends(self):
        with Dictionary(nodes=1) as it:
            env = {**os.environ, **it.environment()}
            p = subprocess.Popen([COMMAND, "results", "--to", self.to, "--follow"], env=env)
            d = it.attach()
            with ResultsHandler("last", d) as r:
                r.submit_result("first", b"1")
                r.flush()
                wait_for(lambda: self.read("last", "first") is not None)
                r.submit_result("last", b"2" * 1000000)
            d.detach()
        self.assertEqual(p.wait(60), 0)
        self.assertEqual(self.read("last", "last"), b"2" * 1000000)

    def test_metrics_are_drawn(self):
        for rank in range(3):
            with ResultsHandler("plot", self.d, rank=rank) as r:
                for i in range(50):
                    r.submit_result(f"metrics/rank{rank}<&>.json", {"step": 10 * i, "loss": 5 - i * 0.1 + rank, "accuracy": i / 50, "rank": rank})
                    if i == 25:
                        r.submit_result(f"metrics/rank{rank}<&>.json", {"step": 10 * i, "loss": float("nan")})
                r.submit_result("model", b"\x80\x05binary")
        self.write()
        p = self.command("plot", self.path("plot"))
        out, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, err), (0, ""))
        svg = xml.dom.minidom.parseString(out)
        lines = svg.getElementsByTagName("polyline")
        self.assertEqual([len(line.getAttribute("points").split()) for line in lines], [50] * 6)
        texts = [t.firstChild.data for t in svg.getElementsByTagName("text") if t.firstChild]
        self.assertTrue({"loss", "accuracy", "metrics/rank0<&>.json", "metrics/rank2<&>.json"} <= set(texts))
        self.assertNotIn("rank", texts)
        p = self.command("plot", self.path("plot"), "--metric", "loss", "-o", self.path("loss.svg"))
        self.assertEqual((p.communicate(timeout=60)[1], p.returncode), ("", 0))
        self.assertEqual(self.read("loss.svg").count(b"<polyline"), 3)
        p = self.command("plot", self.path("plot"), "--metric", "none")
        self.assertIn("no JSON", p.communicate(timeout=60)[1])
        self.assertEqual(p.returncode, 1)

    def test_watch_prints_what_happens(self):
        env = {**os.environ, **self.dictionary.environment(1)}
        self.d["w/there"] = 1
        p = subprocess.Popen([COMMAND, "watch", "w/", "--there", "--values", "-n", "4"], env=env, stdout=subprocess.PIPE, text=True)
        self.assertEqual(p.stdout.readline(), "put 'w/there'\n")
        self.d["other"] = 1
        self.d["w/a"] = "text\n"
        self.assertEqual(p.stdout.readline(), "put 'w/a'\ttext\\n\n")
        self.d["w/b"] = [1]
        self.assertEqual(p.stdout.readline(), "put 'w/b'\n")
        del self.d["w/b"]
        self.assertEqual((p.stdout.readline(), p.wait(60)), ("del 'w/b'\n", 0))
        p.stdout.close()
        p = subprocess.run([COMMAND, "watch", "w/", "--timeout", "0.1"], env=env)
        self.assertEqual(p.returncode, 3)


if __name__ == "__main__":
    unittest.main()
