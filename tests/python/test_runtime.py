# SPDX-License-Identifier: Apache-2.0
"""Ranks that have no PMIx reach each other through the dictionary: they all get what all gave, or an error within the time; and leave nothing."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

import ddict
from harness import DictTest

HEAD = """
import os, sys, time, ddict
from ddict import runtime
"""


def key(group, number, what, rank):
    return ddict.RawKey(b"\0ddict.rt/run.%s/%d/%s/%d" % (group.encode(), number, what.encode(), rank))


class Ranks(DictTest):
    managers, mem, nodes = 3, 96 << 20, 2
    runs = 0

    def start(self, size, code, group=None, only=None):
        """Processes of ranks 0 .. size - 1, on the nodes in turn."""
        Ranks.runs += 1
        self.group = group or f"{os.getpid()}.{Ranks.runs}"
        ranks = []
        for rank in only or range(size):
            environment = {**os.environ, **self.dictionary.environment(rank % 2), "DDICT_RUN_ID": self.group, "DDICT_RUN_RANK": str(rank),
                           "DDICT_RUN_SIZE": str(size)}
            ranks.append(subprocess.Popen([sys.executable, "-c", HEAD + code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return ranks

    def finish(self, ranks):
        """What each said; all ended well."""
        said = [rank.communicate(timeout=60)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0] * len(ranks), said)
        return said

    def test_all_get_what_all_gave(self):
        code = """
for n in (0, 1, 7, 8, 5000, (1 << 20) - 8):
    got = runtime.exchange(bytes([65 + runtime.rank]) * (n - n % 8 + min(runtime.rank, n)), 50)
    assert got == [bytes([65 + r]) * (n - n % 8 + min(r, n)) for r in range(runtime.size)], n
    runtime.barrier(50)
print(runtime.how, runtime.peers, runtime.rank, runtime.local_size, runtime.ranks_of(0), runtime.host_of(4) == runtime.node)
"""
        said = self.finish(self.start(5, code))
        self.assertEqual(said, [f"ddict run the dictionary {r} 5 [0, 1, 2, 3, 4] True\n" for r in range(5)])
        self.assertEqual(list(self.d), [])

    def test_programs_one_after_the_other_do_not_mix(self):
        code = """
for i in range(20):
    want = [b"%s.%d.%d" % (sys.argv[0].encode(), i, r) for r in range(runtime.size)]
    assert runtime.exchange(b"%s.%d.%d" % (sys.argv[0].encode(), i, runtime.rank), 50) == want
"""
        again = "import subprocess\nfor n in range(3): subprocess.run([sys.executable, '-c', %r.replace('sys.argv[0]', repr(str(n)))], check=True)\n"
        self.finish(self.start(4, again % (HEAD + code)))
        self.assertEqual(list(self.d), [])

    def test_what_an_earlier_program_left_is_not_believed(self):
        group = f"stale.{os.getpid()}"
        for stale in (b"", b"x" * 16, b"\0" * 4096, b"\xff" * 4096):
            with self.subTest(len(stale)):
                self.d[key(group, 1, "all", 0)] = stale
                ranks = self.start(3, "print(runtime.exchange(b'%d' % runtime.rank, 50))", group, only=(1, 2))
                time.sleep(0.3)
                ranks += self.start(3, "print(runtime.exchange(b'%d' % runtime.rank, 50))", group, only=(0,))
                self.assertEqual(self.finish(ranks), ["[b'0', b'1', b'2']\n"] * 3)
                self.assertEqual(list(self.d), [])

    def test_a_piece_that_is_none_is_an_error(self):
        group = f"short.{os.getpid()}"
        self.d[key(group, 1, "piece", 1)] = b"short"
        code = "try: runtime.exchange(b'x', 20)\nexcept ddict.Error as e: print(type(e).__name__)\n"
        self.assertEqual(self.finish(self.start(2, code, group, only=(0,))), ["ProtocolError\n"])

    def test_who_does_not_come_is_named(self):
        code = """
if runtime.rank == 2:
    sys.exit()
begin = time.monotonic()
try:
    runtime.exchange(b"x", 0.7)
except ddict.TimeoutError as e:
    print(e)
assert 0.6 < time.monotonic() - begin < 20
try:
    runtime.barrier()
except ddict.Error as e:
    print(e)
"""
        said = self.finish(self.start(4, code))
        self.assertRegex(said[0], "^no piece of rank 2 within the time\nan exchange or barrier of this process failed before")
        for rank in (1, 3):
            self.assertRegex(said[rank], "^no pieces of all of rank 0 within the time\n")
        self.d.clear()

    def test_a_rank_that_is_killed_does_not_hang_the_others(self):
        code = """
while True:
    try:
        runtime.exchange(b"x" * 100, 2)
    except ddict.Error as e:
        print(type(e).__name__)
        break
"""
        for victim in (0, 2):
            with self.subTest(victim):
                ranks = self.start(3, code)
                time.sleep(0.7)
                ranks[victim].kill()
                said = [rank.communicate(timeout=60)[0] for rank in ranks]
                self.assertEqual([said[r] for r in range(3) if r != victim], ["TimeoutError\n"] * 2)
                self.d.clear()

    def test_a_forked_child_is_no_rank(self):
        code = """
import threading
runtime.init()
t = threading.Thread(target=runtime.exchange, args=(b"x", 50))
t.start()
time.sleep(0.1)         # a thread is in the middle of an exchange
pid = os.fork()
if pid == 0:
    assert runtime.rank >= 0 and runtime.ranks_of(0) == [0, 1]
    for call in (lambda: runtime.exchange(b"x"), runtime.barrier):
        try:
            call()
        except ddict.Error as e:
            assert "forked child" in str(e)
        else:
            os._exit(1)
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
t.join()
runtime.barrier(50)
"""
        ranks = self.start(2, code, only=(0,))
        time.sleep(0.5)
        ranks += self.start(2, code, self.group, only=(1,))
        self.finish(ranks)
        self.assertEqual(list(self.d), [])

    def test_when_the_dictionary_is_not_there(self):
        code = """
os.environ["DDICT_NAME"] = "nobody.%d" % os.getpid()
try:
    runtime.exchange(b"x", 5)
except ddict.NoDictError as e:
    print(e)
"""
        for said in self.finish(self.start(2, code)):
            self.assertIn("by which the ranks reach each other", said)


class Alone(unittest.TestCase):
    def run_code(self, code, **environment):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("DDICT_NAME", "SLURM", "PMIX", "OMPI"))}
        return subprocess.run([sys.executable, "-c", HEAD + code], env={**env, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=60).stdout

    def test_one_process(self):
        said = self.run_code("print(runtime.rank, runtime.size, runtime.how, runtime.exchange(b'abc'), runtime.exchange(bytearray()), runtime.barrier(0))")
        self.assertEqual(said, "0 1 one process alone [b'abc'] [b''] None\n")

    def test_wrong_words(self):
        said = self.run_code("""
for call in (lambda: runtime.exchange("text"), lambda: runtime.exchange(b"", -1), lambda: runtime.exchange(b"", float("nan")), lambda: runtime.barrier("x"),
             lambda: runtime.host_of(1), lambda: runtime.node_of(-1), lambda: runtime.ranks_of(1), lambda: runtime.node_name("x"),
             lambda: runtime.nothing, lambda: runtime.exchange(bytes(1 << 20) + b"x")):
    try:
        print("no error", call())
    except Exception as e:
        print(type(e).__name__, end=" ")
""")
        self.assertEqual(said, "TypeError ValueError ValueError TypeError Error Error Error TypeError AttributeError Error ")

    def test_without_a_way_to_the_others(self):
        said = self.run_code("try: runtime.barrier()\nexcept ddict.Error as e: print(e)", DDICT_RUN_ID="x", DDICT_RUN_RANK="1", DDICT_RUN_SIZE="2")
        self.assertRegex(said, "2 ranks cannot reach each other: there is no PMIx here .* and no dictionary")

    def test_open_mpi_5_that_is_not_initialised(self):
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "libmpi.so.40")
            for version, initialised, told in (("Open MPI v5.0.7, package: x", 0, True), ("Open MPI v10.0.0", 0, True), ("Open MPI v5.0.7", 1, False),
                                               ("Open MPI v4.1.4", 0, False), ("MPICH Version: 5.0", 0, False)):
                code = f"""
                    #include <string.h>
                    int MPI_Get_library_version(char *text, int *len) {{ strcpy(text, "{version}"); *len = strlen(text); return 0; }}
                    int MPI_Initialized(int *is) {{ *is = {initialised}; return 0; }}"""
                subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=code, text=True, check=True)
                with self.subTest(version=version, initialised=initialised):
                    said = self.run_code(f"import ctypes; ctypes.CDLL({library!r})\nprint(runtime.how, runtime.trouble)", PMIX_NAMESPACE="nobody", PMIX_RANK="0")
                    self.assertIn("one process alone PMIx: ", said)
                    self.assertEqual("MPI_Init() of Open MPI 5 fails after it" in said, told, said)

    def test_pmix_whose_files_are_hidden(self):
        with tempfile.TemporaryDirectory() as folder:
            library, here = os.path.join(folder, "libpmix.so"), f"/tmp/spmix_appdir_{os.getuid()}_{os.getpid()}.77"
            code = "#include <stdio.h>\n#include <stdlib.h>\n"
            code += 'int PMIx_Init(void) { printf("gds %s.\\n", getenv("PMIX_MCA_gds")); fflush(stdout); return -25; /* unreachable */ }\n'
            code += "".join(f"int PMIx_{name}(void) {{ return 0; }}\n" for name in ("Finalize", "Put", "Commit", "Fence_nb", "Get_nb", "Resolve_nodes", "Error_string"))
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=code, text=True, check=True)
            job = dict(SLURM_JOB_ID=str(os.getpid()), SLURM_STEP_ID="77", PMIX_RANK="0", PMIX_NAMESPACE=f"slurm.pmix.{os.getpid()}.77", DDICT_PMIX=library)
            os.mkdir(here)
            self.addCleanup(lambda: os.path.isdir(here) and os.rmdir(here))
            for gone, words, gds in ((False, dict(PMIX_SERVER_TMPDIR=folder), "(null)"), (False, dict(PMIX_SERVER_TMPDIR=folder + "/x"), "hash"),
                                     (False, dict(PMIX_SERVER_TMPDIR=folder + "/x", PMIX_MCA_gds="mine"), "mine"),
                                     (False, dict(PMIX_GDS_MODULE="shmem2,hash"), "(null)"), (True, dict(PMIX_GDS_MODULE="shmem2,hash"), "hash"),
                                     (True, dict(PMIX_GDS_MODULE="ds21,hash"), "(null)")):
                if gone and os.path.isdir(here):
                    os.rmdir(here)
                with self.subTest(gone=gone, words=words):
                    self.assertIn(f"gds {gds}.\n", self.run_code("runtime.init()", **job, **words))

    def test_slurm_and_a_dictionary_leave_pmix_alone(self):
        step = dict(SLURM_JOB_ID="5", SLURM_STEP_ID="0", SLURM_PROCID="1", SLURM_STEP_NUM_TASKS="2", SLURM_NODEID="0", SLURM_STEP_NUM_NODES="1",
                    SLURM_LOCALID="1", SLURM_STEP_TASKS_PER_NODE="2", SLURM_GTIDS="0,1", SLURM_STEP_NODELIST="n1", SLURMD_NODENAME="n1",
                    PMIX_NAMESPACE="slurm.pmix.5.0", PMIX_RANK="1", DDICT_PMIX="/nowhere/libpmix.so")
        code = "print(runtime.how, runtime.peers, runtime.rank, runtime.map, bool(runtime.trouble))"
        self.assertEqual(self.run_code(code, DDICT_NAME="x", **step), "Slurm's variables the dictionary 1 True False\n")
        self.assertEqual(self.run_code(code, **step), "Slurm's variables none 1 True True\n")
        # what they do not tell, and what they tell for one component only, PMIx is asked for
        self.assertIn(" True\n", self.run_code(code, DDICT_NAME="x", **dict(step, SLURM_GTIDS="")))
        self.assertIn(" True\n", self.run_code(code, DDICT_NAME="x", SLURM_HET_SIZE="2", **step))
        # of a rank one process takes part
        again = ("import subprocess\n" + code + "\nsys.stdout.flush()\nruntime.finalize(); " + code +
                 "\nsys.stdout.flush()\nsubprocess.run([sys.executable, '-c', 'from ddict import runtime; " + code + "'])")
        self.assertEqual(self.run_code(again, DDICT_NAME="x", **step), 2 * "Slurm's variables the dictionary 1 True False\n" +
                         "Slurm's variables none 1 True True\n")

    def test_begin_and_end_many_times(self):
        said = self.run_code("""
for i in range(100):
    runtime.init(); runtime.barrier(); runtime.finalize(); runtime.finalize()
runtime.leave(); print(runtime.size, len(os.listdir("/proc/self/fd")) < 10)
""")
        self.assertEqual(said, "1 True\n")

    def test_names_do_not_hang_on_annotations(self):
        """Python 3.14 has a module's __annotations__ no more among its names."""
        said = self.run_code("runtime.__dict__.pop('__annotations__', None); print(runtime.rank, runtime.size, 'rank' in dir(runtime), hasattr(runtime, 'nothing'))")
        self.assertEqual(said, "0 1 True False\n")
        said = self.run_code("import typing; print(sorted(set(typing.get_type_hints(runtime)) - {'_info'} ^ set(runtime._NAMES)))")
        self.assertEqual(said, "[]\n")

    def test_import_does_nothing(self):
        self.assertEqual(self.run_code("print('libpmix' in open('/proc/self/maps').read(), 'rank' in dir(runtime))"), "False True\n")


if __name__ == "__main__":
    unittest.main()
