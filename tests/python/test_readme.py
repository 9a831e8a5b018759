# SPDX-License-Identifier: Apache-2.0
"""What the two READMEs print runs as it stands: each ```python block, one after the other, in one dictionary and one program a file."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from harness import DictTest

TOP = Path(__file__).resolve().parents[2]


class Readmes(DictTest):
    def run_blocks(self, path):
        text = (TOP / path).read_text()
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(blocks), 1)
        self.assertNotRegex(re.sub(r"(?ms)^```(python|cpp|fortran)\n.*?^```$", "", text), r"(?m)^    (import ddict|from ddict|d = |d\.|d\[)", "a snippet that no test runs")
        missing = {name for name in ("numpy", "torch", "fsspec", "pandas", "zarr") if not importlib.util.find_spec(name)}
        run = [block for block in blocks if not any(re.search(rf"^(import|from) (ddict\.)?{name}\b", block, re.MULTILINE) for name in missing)]
        code = "if __name__ == '__main__':\n" + "".join(f"    {line}\n" for block in run for line in ("pass\n" + block).splitlines())
        environment = {**os.environ, **self.dictionary.environment(), "PATH": f"{os.path.dirname(os.environ['DDICT_TEST_COMMAND'])}:{os.environ['PATH']}"}
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "snippets.py").write_text(code)
            done = subprocess.run([sys.executable, "snippets.py"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, f"{done.stderr}\n{code}")

    def test_of_the_project(self):
        self.run_blocks("README.md")

    def test_of_the_binding(self):
        self.run_blocks("client/python/README.md")


if __name__ == "__main__":
    unittest.main()
