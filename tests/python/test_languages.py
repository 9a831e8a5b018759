# SPDX-License-Identifier: Apache-2.0
"""Programs in C, C++ and Fortran share keys, numbers, text and arrays with Python: what one stores the others read. They are compiled here, as a user would."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import ddict
from harness import DictTest, Dictionary, module_or_skip

HERE = os.path.dirname(os.path.realpath(__file__))
TYPES = ("|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f4", "<f8", "<c16")
COMPILE_S, RUN_S = 300, 120
FORTRAN = os.path.join(os.environ["DDICT_PREFIX"], "include", "ddict.f90") if os.environ.get("DDICT_PREFIX") else os.path.abspath("client/fortran/ddict.f90")


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

    def run_program(self, program, what, dictionary=None):
        env = dict(os.environ, **(dictionary or self.dictionary).environment())
        done = subprocess.run([program, what], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=RUN_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def python_has(self, deep):
        d, np = self.d, self.np
        self.assertEqual((d["n"], type(d["n"])), (-42, int))
        self.assertEqual((d[7], type(d[7])), (0.5, float))
        self.assertEqual(d[(1, "x")], "gr\u00fc\u00df")
        self.assertEqual(d[deep], b"a\0b")
        self.assertIs(d["yes"], True)
        self.assertIs(d["no"], False)
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
        self.d.update({"n": -42, 7: 0.5, (1, "x"): "gr\u00fc\u00df", deep: b"a\0b", "yes": True, "no": False, "row": np.arange(3, dtype="f4"),
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

    def test_checkpoints_in_cpp(self):
        with Dictionary(managers=2, mem=64 << 20, more=["--working-set=2"]) as dictionary:
            self.run_program(self.cpp("g++"), "checkpoints", dictionary)

    def test_what_waits_in_cpp(self):
        ddict.Queue("q", d=self.d).put("first")
        self.run_program(self.cpp("g++"), "sync")

    def test_states_in_cpp(self):
        program = self.cpp("g++")
        folder = os.path.join(self.folder.name, "states")
        for what, words in ("states", ""), ("steps", ",read-only"):
            with Dictionary(managers=2, mem=64 << 20, more=["--persist", folder + words]) as dictionary:
                self.run_program(program, what, dictionary)

    def test_cpp_of_clang(self):
        program = self.cpp("clang++")
        self.both_ways(program, ("deep", (2**64 - 1, b"z")))
        self.run_program(program, "self")

    def fortran(self):
        folder = self.folder.name
        return self.build([compiler("gfortran"), "-std=f2018", "-Wall", "-Wextra", "-Wno-compare-reals", "-Werror", f"-J{folder}"],
                          FORTRAN, os.path.join(HERE, "languages.f90"))

    def values_of_fortran(self):
        """What languages.f90 has. Its first index is the fastest, and Python's last one: shapes are turned round."""
        np = self.np
        wide = np.arange(24.0).reshape(3, 8)
        return {"n": -42, "big": 2**40, "yes": True, "no": False, 7: 0.5, "single": 0.25, (1, "x"): "gr\u00fc\u00df", ("deep", (2**40, "z")): "",
                "<i4": np.arange(6, dtype="<i4").reshape(3, 2), "<i8": np.array([0, 1, 2**40]), "<f4": np.arange(6, dtype="<f4").reshape(3, 2),
                "<f8": np.arange(120.0).reshape(6, 5, 4), "<c16": np.array([1 + 2j, 3 + 4j]), "section": np.ascontiguousarray(wide[:, 1::3]),
                "empty": np.zeros(0, "<i8")}

    def test_fortran(self):
        program, np = self.fortran(), self.np
        self.run_program(program, "put")
        for key, value in self.values_of_fortran().items():
            got = self.d[key]
            self.assertIs(type(got), type(value), key)
            if type(value) is np.ndarray:
                self.assertEqual((got.dtype, got.shape, got.tolist()), (value.dtype, value.shape, value.tolist()))
            else:
                self.assertEqual(got, value)
        a = self.d["<f8"].T  # Fortran's shape
        self.assertEqual((a.shape, a.flags.f_contiguous, a[1, 0, 0], a[0, 0, 1]), ((4, 5, 6), True, 1.0, 20.0))
        self.d.clear()
        self.d.update(self.values_of_fortran())
        self.run_program(program, "check")

    def test_a_queue_of_fortran(self):
        self.d._push("q", "first", 0, 0)
        self.run_program(self.fortran(), "queue")
        self.assertEqual([self.d.pop(("q", 2)), self.d.pop(("q", 2))], [True, 0.5])
        self.assertNotIn(("q", 2), self.d)

    def test_fortran_says_what_is_wrong(self):
        program = self.fortran()
        self.run_program(program, "self")
        done = subprocess.run([program, "fail"], env=dict(os.environ, **self.dictionary.environment()), stderr=subprocess.PIPE, text=True, timeout=RUN_S)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^ddict: .*no such key|^ddict: .*not in the dictionary")

    def readme_program(self, language, suffix):
        with open(os.path.join(HERE, "..", "..", "README.md"), encoding="utf-8") as f:
            code = re.findall(rf"^```{language}\n(.*?)^```$", f.read(), re.MULTILINE | re.DOTALL)
        self.assertEqual(len(code), 1)
        source = os.path.join(self.folder.name, f"readme.{suffix}")
        with open(source, "w", encoding="utf-8") as f:
            f.write(code[0])
        return source

    def test_what_the_readme_prints(self):
        cpp, f90 = self.readme_program("cpp", "cpp"), self.readme_program("fortran", "f90")
        self.run_program(self.build([compiler("g++"), "-std=c++17", "-Wall", "-Wextra", "-Werror"], cpp), "")
        self.assertEqual(self.d["loss", 7], 0.5)
        self.run_program(self.build([compiler("gfortran"), f"-J{self.folder.name}"], FORTRAN, f90), "")
        self.assertEqual(self.d["loss", 8], 0.5)


if __name__ == "__main__":
    unittest.main()
