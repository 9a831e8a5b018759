# SPDX-License-Identifier: Apache-2.0
"""What pickle can't store: by cloudpickle where it is installed, else an error that says what to install. Classes of a program are read by other programs, and are
their own in the same program."""

import gc
import os
import subprocess
import sys
import tempfile
import unittest
import weakref
from pathlib import Path

import ddict
from harness import DictTest, module_or_skip

RUN_S = 120
NONE = "import sys\nsys.modules['cloudpickle'] = None\n"  # as if it were not installed
PROGRAM = """
import dataclasses, enum, sys
import ddict

@dataclasses.dataclass
class Point:
    x: int
    y: object = None

class Colour(enum.Enum):
    RED = 1

class Outer:
    class Inner:
        pass

FACTOR = 3
def times(x):
    return FACTOR * x

d = ddict.attach(timeout=60)
"""
PUT = """
d["point"], d["colour"], d["inner"], d["times"] = Point(1, 2), Colour.RED, Outer.Inner(), times
d["far"] = [b"x" * 200_000, bytearray(300_000), "y" * 100_000, Point(3)]
"""
OWN = """
assert d["point"] == Point(1, 2) and type(d["point"]) is Point
assert d["colour"] is Colour.RED and type(d["inner"]) is Outer.Inner and d["times"] is times and type(d["far"][3]) is Point
"""
OTHER = """
import ddict

class Point:
    pass

d = ddict.attach(timeout=60)
assert (d["point"].x, d["point"].y, type(d["point"]).__name__) == (1, 2, "Point"), d["point"]
assert type(d["point"]) is not Point
assert d["point"] == d["point"] and type(d["point"]) is type(d["far"][3])
assert (d["colour"].name, d["times"](5), type(d["inner"]).__name__, d["far"][3].x) == ("RED", 15, "Inner", 3)
"""


class Held:
    pass


class Cloud(DictTest):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def program(self, name, code):
        path = Path(self.folder.name, name)
        path.write_text(code)
        return self.run_code(str(path))

    def run_code(self, *words, cwd=None):
        done = subprocess.run([sys.executable, *words], cwd=cwd, env={**os.environ, **self.dictionary.environment()}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=RUN_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_functions_without_a_name(self):
        module_or_skip("cloudpickle")
        n = 5

        class Local:
            def get(self):
                return n
        self.d["f"] = lambda x: x + n
        self.d["local"] = Local()
        self.d.put_many({"g": lambda: 7, "h": [lambda: 8]})
        with self.assertRaisesRegex(TypeError, "^cannot pickle 'generator' object"):  # and not that pickle does not like the function
            self.d["v"] = [lambda: 0, (x for x in ())]
        self.assertEqual((self.d["f"](2), self.d["local"].get(), self.d["g"](), self.d["h"][0](), self.d.view("f").load()(1)), (7, 5, 7, 8, 6))
        self.d["module"] = [os]
        self.assertIs(self.d["module"][0], os)
        with self.assertRaisesRegex(TypeError, "^cannot pickle 'generator' object"):  # pickle's own words
            self.d["v"] = (x for x in ())

    def test_a_value_that_is_refused_is_not_kept(self):
        gc.disable()
        try:
            held = Held()
            gone = weakref.ref(held)
            try:
                self.d["v"] = [held, (x for x in ())]
            except TypeError as e:
                self.assertIsNone(e.__context__)
            del held
            self.assertIsNone(gone())
        finally:
            gc.enable()

    def test_another_program_reads_classes_of_main(self):
        module_or_skip("cloudpickle")
        self.program("a.py", PROGRAM + PUT)
        self.program("b.py", OTHER)
        self.run_code("-c", PROGRAM + PUT)
        self.program("b.py", OTHER)
        self.assertEqual(self.d["point"].y, 2)

    def test_the_same_program_reads_its_own_classes(self):
        module_or_skip("cloudpickle")
        code = PROGRAM + "import os, pathlib\nif len(d) == 0:\n" + "".join(f"    {line}\n" for line in PUT.splitlines()) + "else:\n" + "".join(
            f"    {line}\n" for line in OWN.splitlines()) + "    print('own')\n"
        self.assertEqual(self.program("a.py", code), "")
        self.assertEqual(self.program("a.py", code), "own\n")
        self.d.clear()  # a program without a file, and its forks
        fork = "import os\nif os.fork() == 0:\n" + "".join(f"    {line}\n" for line in PUT.splitlines()) + "    os._exit(0)\nassert os.wait()[1] == 0\n"
        self.run_code("-c", PROGRAM + fork + OWN)

    def test_a_class_that_changed_is_stored_anew(self):
        module_or_skip("cloudpickle")
        self.program("a.py", PROGRAM + "d['a'] = Outer()\nOuter.late = lambda self: 9\nd['b'] = Outer()\nFACTOR = 4\nd['times'] = times\n")
        self.assertFalse(hasattr(self.d["a"], "late"))
        self.assertEqual((self.d["b"].late(), self.d["times"](5)), (9, 20))

    def test_what_globals_hold_is_not_part_of_each_value(self):
        module_or_skip("cloudpickle")
        large = PROGRAM + """
DATA = [bytes(10 << 20)]
def first():
    return DATA[0][0]
Outer.first = lambda self: DATA[0][0]
"""
        self.program("a.py", large + PUT + "d['first'] = first\nd['first'] = first\nd['outer'] = Outer()\nassert d['first'] is first and type(d['outer']) is Outer\n"
                     "from ddict import _cloud\nassert sum(len(definition) for _, definition in _cloud._defined.values()) < 100_000\n")
        for key in "first", "outer":
            with self.d.view(key) as view:
                self.assertLess(len(view), 1000)
        self.program("b.py", OTHER + "for key in 'first', 'outer':\n    try:\n        d[key]\n    except AttributeError as e:\n"
                     "        assert 'a.py was stored by its name alone' in str(e), e\n    else:\n        raise SystemExit('read')\n"
                     "class Outer:\n    pass\nassert type(d['outer']) is Outer\n")

    def test_children_of_multiprocessing_have_the_same_classes(self):
        module_or_skip("cloudpickle")
        Path(self.folder.name, "sub").mkdir()
        code = PROGRAM + """
import multiprocessing
def child():
    assert type(d["parent"]) is Point, d["parent"]
    d["child"] = Point(2)
if __name__ == "__main__":
    d["parent"] = Point(1)
    p = multiprocessing.get_context(sys.argv[1]).Process(target=child)
    p.start()
    p.join()
    assert p.exitcode == 0
    assert type(d["child"]) is Point, d["child"]
"""
        Path(self.folder.name, "a.py").write_text(code)
        for method in "spawn", "forkserver":
            for path in "./a.py", "sub/../a.py":
                self.run_code(path, method, cwd=self.folder.name)

    def test_arrays_within_are_not_copied_into_the_pickle(self):
        module_or_skip("cloudpickle")
        module_or_skip("numpy")
        self.program("a.py", PROGRAM + "import numpy\nd['a'] = Point(1, numpy.arange(10000.0))\n")
        view = self.d.view("a")
        self.assertEqual(view.tag, 3)
        self.assertFalse(view.load().y.flags.writeable)
        self.assertEqual(self.d["a"].y.sum(), sum(range(10000)))

    def test_tensors_within(self):
        module_or_skip("cloudpickle")
        module_or_skip("torch")
        self.program("a.py", PROGRAM + "import torch\nt = torch.arange(1000)\nd['a'] = Point(t, (t, torch.ones(3)))\n")
        self.assertEqual(self.d.view("a").tag, 3)
        point = self.d["a"]
        self.assertEqual((point.x.tolist(), point.y[1].tolist()), (list(range(1000)), [1, 1, 1]))
        self.assertEqual(point.x.data_ptr(), point.y[0].data_ptr())  # shared, as they were

    def test_plain_values_do_not_import_it(self):
        code = PROGRAM + "d['a'] = {'x': [1, 2.5, None], 'y': (b'z', {3})}\nd['b'] = 7\nd.get('b')\nprint('cloudpickle' in sys.modules, 'ddict._cloud' in sys.modules)"
        self.assertEqual(self.program("a.py", code), "False False\n")

    def test_without_it(self):
        self.program("a.py", NONE + PROGRAM + PUT + OWN + "d['text'] = ['__main__']\nassert d['text'] == ['__main__']\n" + """
for bad in (lambda: 0, [lambda: 0], [sys]):
    try:
        d["point"] = bad
    except Exception as e:
        assert "pip install cloudpickle" in str(e), e
    else:
        raise SystemExit("stored")
try:
    d["point"] = (x for x in ())
except TypeError as e:
    assert "cloudpickle" not in str(e), e
""")
        view = self.d.view("point")
        self.assertEqual((view.tag, b"Point" in bytes(view), b"cloudpickle" in bytes(view)), (2, True, False))

    def test_a_reader_without_it_is_told(self):
        module_or_skip("cloudpickle")
        self.program("a.py", PROGRAM + PUT)
        self.program("b.py", NONE + "import ddict\nd = ddict.attach(timeout=60)\ntry:\n    d['point']\nexcept ImportError as e:\n    assert 'cloudpickle' in str(e), e\n"
                     "else:\n    raise SystemExit('read')\n")

    def test_what_is_only_read_as_text(self):
        """Streams that hold the word, in and between frames, and streams that end early in one"""
        for value in (["__main__"], ["_main__" * 20000], [b"_main__" * 20000, 1], {"__mp_main__": [b"x" * 70000, "y" * 70000, [None] * 9]}):
            self.d["v"] = value
            self.assertEqual(self.d["v"], value)


if __name__ == "__main__":
    unittest.main()
