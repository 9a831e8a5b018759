# SPDX-License-Identifier: Apache-2.0
"""Programs in C, C++ and Fortran share keys, numbers, text and arrays with Python: what one stores the others read. They are compiled here, as a user would."""

import os
import shutil
import subprocess
import tempfile
import unittest

import ddict
from harness import DictTest, module_or_skip

HERE = os.path.dirname(os.path.realpath(__file__))
TYPES = ("|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f4", "<f8", "<c16")
COMPILE_S, RUN_S = 300, 120


def compiler(*names):
    for name in names:
        if shutil.which(name):
            return name
    raise unittest.SkipTest(f"no {names[0]}")


def places():
    """Flags for the compiler: those of the package that is installed, or of this build folder"""
    prefix = os.environ.get("DDICT_PREFIX")
    if prefix:
        return [f"-I{prefix}/include"], [f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib"]
    top, libs = os.path.join(HERE, "..", ".."), os.path.join(os.getcwd(), ".libs")
    return [f"-I{top}/client", f"-I{top}/runtime"], [f"-L{libs}", f"-Wl,-rpath,{libs}"]


class Languages(DictTest):
    nodes = 1

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.np = module_or_skip("numpy")

    def build(self, command, *sources):
        program = os.path.join(self.folder.name, self.id())
        include, link = places()
        command = [*command, *include, *sources, "-o", program, *link, "-lddict"]
        done = subprocess.run(command, cwd=self.folder.name, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=COMPILE_S)
        self.assertEqual((done.returncode, done.stdout), (0, ""), " ".join(command))
        return program

    def run_program(self, program, what):
        env = dict(os.environ, **self.dictionary.environment())
        done = subprocess.run([program, what], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=RUN_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def python_has(self, deep):
        d, np = self.d, self.np
        self.assertEqual((d["n"], type(d["n"])), (-42, int))
        self.assertEqual((d[7], type(d[7])), (0.5, float))
        self.assertEqual(d[(1, "x")], "gr\u00fc\u00df")
        self.assertEqual(d[deep], b"a\0b")
        for name in TYPES:
            a = d[name]
            self.assertEqual((type(a), a.dtype.str, a.shape), (np.ndarray, name, (3, 4)))
            self.assertEqual(a.tolist(), np.arange(12).reshape(3, 4).tolist())
        self.assertTrue((d["large"] == np.arange(1200.0).reshape(300, 4)).all())
        with d.view("large") as view:
            self.assertFalse(view.load().flags.writeable)  # in place
        self.assertEqual((d["one"].shape, float(d["one"])), ((), 5.0))

    def python_puts(self, deep):
        np = self.np
        self.d.clear()
        self.d.update({"n": -42, 7: 0.5, (1, "x"): "gr\u00fc\u00df", deep: b"a\0b", "row": np.arange(3, dtype="f4"),
                       "large": np.arange(1200.0).reshape(300, 4), "one": np.array(5.0)})
        self.d.put_many((name, np.arange(12).reshape(3, 4).astype(name)) for name in TYPES)

    def both_ways(self, program, deep):
        self.run_program(program, "put")
        self.python_has(deep)
        self.python_puts(deep)
        self.run_program(program, "check")

    def c(self, standard):
        return self.build([compiler("cc", "gcc"), standard, "-pedantic", "-Wall", "-Wextra", "-Werror"], os.path.join(HERE, "languages.c"))

    def test_c99(self):
        self.both_ways(self.c("-std=c99"), ("deep", (2**64, b"z")))

    def test_c11(self):
        self.both_ways(self.c("-std=c11"), ("deep", (2**64, b"z")))

    def test_c_reads_the_keys_of_python(self):
        self.d.update(dict.fromkeys([7, "w", b"b", (1, ("x",), b""), (), -2**63, ddict.RawKey(b"?")]))
        told = self.run_program(self.c("-std=c99"), "keys").splitlines()
        self.assertEqual(sorted(told), sorted(["7", "s:w", "b:b", "(1 (s:x) b:)", "()", str(-2**63), "raw"]))

    def cpp(self, name):
        return self.build([compiler(name), "-std=c++17", "-pedantic", "-Wall", "-Wextra", "-Werror"], os.path.join(HERE, "languages.cpp"))

    def test_cpp_of_gcc(self):
        program = self.cpp("g++")
        self.both_ways(program, ("deep", (2**64 - 1, b"z")))
        self.run_program(program, "self")

    def test_cpp_of_clang(self):
        program = self.cpp("clang++")
        self.both_ways(program, ("deep", (2**64 - 1, b"z")))
        self.run_program(program, "self")


if __name__ == "__main__":
    unittest.main()
