# SPDX-License-Identifier: Apache-2.0
"""The `ddict` command and Python see the same keys and values."""

import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

import ddict
from harness import DictTest, module_or_skip

COMMAND = os.environ["DDICT_TEST_COMMAND"]


class Command(DictTest):
    def shell(self, *words, code=0, text=None):
        done = subprocess.run([COMMAND, *words], env={**os.environ, **self.dictionary.environment()}, input=text, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout

    def test_values_of_python_in_a_shell(self):
        self.d.update({"text": "\u00e9", "bytes": b"\0\xff", "number": 12, 7: b"seven", -7: b"minus", ("a", 7): b"tuple", "7": b"str"})
        self.assertEqual(self.shell("get", "text"), "\u00e9".encode())
        self.assertEqual(self.shell("get", "bytes"), b"\0\xff")
        self.assertEqual(self.shell("get", "number"), b"12")
        self.d.update({"yes": True, "no": False})
        self.assertEqual([self.shell("get", key) for key in ("yes", "no")], [b"True", b"False"])
        self.assertIn(b"bool", self.shell("ls", "-l"))
        self.assertEqual(self.shell("get", "7"), b"str")
        self.assertEqual(self.shell("get", "--int", "7"), b"seven")
        self.assertEqual(self.shell("get", "--int", "--", "-7"), b"minus")
        self.assertEqual(self.shell("get", "none", code=3), b"")

    def test_what_is_published_is_listed(self):
        self.assertEqual(json.loads(self.shell("ls", "--published", "--json")), [])
        self.assertEqual(len(self.shell("ls", "--published").splitlines()), 1)
        for name, value in (("w", "first"), ("w", "second"), (("a", 1), bytes(300000)), (7, 7), ("gone", 1)):
            self.d.publish(name, value)
        self.d.unpublish("gone")
        rows = sorted(json.loads(self.shell("ls", "--published", "--json")), key=lambda row: row["name"])
        self.assertEqual(rows, [{"name": "'w'", "version": 2, "bytes": 6, "kind": "str", "node": 0},
                                {"name": "('a', 1)", "version": 1, "bytes": 300000, "kind": "bytes", "node": 0},
                                {"name": "7", "version": 1, "bytes": 1, "kind": "int", "node": 0}])
        lines = self.shell("ls", "--published").decode().splitlines()
        self.assertEqual(lines[0].split(), ["version", "size", "kind", "node", "name"])
        self.assertEqual(sorted(line.split(None, 5)[5] for line in lines[1:]), ["'w'", "('a', 1)", "7"])
        self.assertEqual(self.shell("ls"), b"")
        self.shell("ls", "--published", "--sets", code=2)

    def test_a_bool_is_a_file_with_its_word(self):
        self.d.update({"truth/yes": True, "truth/no": False})
        with tempfile.TemporaryDirectory() as folder:
            self.shell("save", "--files", "--prefix=truth/", folder)
            said = []
            for name in ("yes", "no"):
                with open(os.path.join(folder, "truth", name)) as f:
                    said.append(f.read())
            self.assertEqual(said, ["True", "False"])

    def test_an_array_is_a_file_of_numpy(self):
        numpy = module_or_skip("numpy")
        for a in (numpy.arange(1000.0).reshape(10, 100), numpy.arange(300, dtype=">i2"), numpy.full((4, 4, 4, 4, 4), "text")):
            self.d["a"] = a
            b = numpy.load(io.BytesIO(self.shell("get", "a")))
            self.assertEqual((a.dtype, a.shape, a.tobytes()), (b.dtype, b.shape, b.tobytes()))
        self.assertEqual(self.shell("get", "a", "--raw"), bytes(self.d.view("a")))
        self.assertIn(b"array", self.shell("ls", "-l"))
        with tempfile.NamedTemporaryFile() as f:
            self.shell("get", "a", "-o", f.name)
            self.assertTrue((numpy.load(f.name) == a).all())

    def test_values_of_a_shell_in_python(self):
        self.shell("put", "a", "value")
        self.shell("put", "--int", "7", "-", text=b"from stdin")
        self.shell("put", "--raw-key", "?raw", "x")
        self.shell("put", "--new", "a", "other", code=3)
        self.shell("put", "\u00e9", "accent")
        self.assertEqual(self.d, {"a": b"value", 7: b"from stdin", ddict.RawKey(b"?raw"): b"x", "\u00e9": b"accent"})
        self.shell("rm", "a")
        self.shell("rm", "a", code=3)
        self.shell("rm", "--int", "7")
        self.assertEqual(set(self.d), {ddict.RawKey(b"?raw"), "\u00e9"})

    def test_keys_are_listed_as_python_writes_them(self):
        keys = ["a", "\u00e9", b"a", b"\xff", 7, -10**30, (), ("a",), ("a", 7, (b"x", ())), ""]
        self.d.update((k, 1) for k in keys)
        self.assertEqual(sorted(self.shell("ls").decode().splitlines()), sorted(repr(k) for k in keys))

    def test_run(self):
        code = ("import ddict\nd = ddict.attach()\nd['a'] = [1]\nprint(d['a'], d.info['managers'])\n"
                "import multiprocessing as m\np = m.get_context('spawn').Pool(2); print(p.map(d.get, ['a', 'b'])); p.close(); p.join()")
        environment = {k: v for k, v in os.environ.items() if k not in ("DDICT_NAME", "DDICT_NODE")}
        done = subprocess.run([COMMAND, "run", "--managers=2", "--mem=64M", "--local", "--", sys.executable, "-c", code], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "[1] 2\n[[1], None]\n", ""))


if __name__ == "__main__":
    unittest.main()
