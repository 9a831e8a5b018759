# SPDX-License-Identifier: Apache-2.0
"""pip builds the package from its own source distribution against the installed libddict, without the network."""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from harness import DictTest

SOURCE = Path(__file__).resolve().parents[2] / "client" / "python"
ENTRIES = [("fsspec.specs", "ddict", "ddict.fsspec:DDictFileSystem"), ("pytest11", "ddict.pytest_plugin", "ddict.pytest_plugin"),
           ("torchrun.handlers", "ddict", "ddict.torch.elastic:handler")]


class Install(DictTest):
    managers, mem = 1, 16 << 20

    def setUp(self):
        super().setUp()
        for name in ("pip", "venv", "setuptools", "wheel"):
            if not importlib.util.find_spec(name):
                self.skipTest(f"no module {name}")
        if subprocess.run(["pkg-config", "--exists", "ddict"]).returncode:
            self.skipTest("pkg-config does not know ddict: not an installed prefix")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
        self.environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"

    def run_quiet(self, *command, cwd=None, **environment):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**self.environment, **environment}, cwd=cwd)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}")
        return done.stdout

    def test_sdist_installs_into_a_fresh_environment(self):
        copy = self.folder / "source"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("*.o", "*.lo", "*.la", ".libs", ".deps", "build", "*.egg-info", ".dirstamp"))
        self.run_quiet(sys.executable, "setup.py", "-q", "sdist", "-d", str(self.folder), cwd=copy)
        sdist, = self.folder.glob("*.tar.gz")
        names = self.run_quiet("tar", "-tf", str(sdist))
        for name in ("LICENSE", "README.md", "src/pyddict.h", "src/module.c", "ddict/__init__.pyi", "ddict/_ddict.pyi", "ddict/py.typed", "ddict/dragon/native/process.pyi", "ddict/torch/__init__.py"):
            self.assertIn(f"/{name}\n", names)
        venv = self.folder / "venv"
        self.run_quiet(sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", str(venv))
        self.run_quiet(str(venv / "bin/python"), "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation", "--no-deps", str(sdist))
        self.d["a"] = [1]
        code = ("import ddict, sys; from pathlib import Path\nassert Path(ddict.__file__).resolve().is_relative_to(sys.argv[2]), ddict.__file__\n"
                "assert all((Path(ddict.__file__).parent / n).exists() for n in ('py.typed', 'dragon/data/ddict/ddict.pyi'))\nd = ddict.attach(sys.argv[1]); print(d['a']); d['b'] = {'x': 1}\n"
                "import importlib.metadata; assert importlib.metadata.version('slurm-ddict') == ddict.__version__\n"
                "print(sorted((e.group, e.name, e.value) for e in importlib.metadata.distribution('slurm-ddict').entry_points))\n"
                "assert all((Path(ddict.__file__).parent / name).exists() for name in ('pytest_plugin.py', 'fsspec.py', 'zarr.py', 'torch/elastic.py'))\n")
        said = self.run_quiet(str(venv / "bin/python"), "-c", code, self.d.name, str(venv.resolve()), cwd="/")
        self.assertEqual(said, f"[1]\n{ENTRIES}\n")
        self.assertEqual(self.d["b"], {"x": 1})

    def installed(self):
        import ddict
        if not (Path(ddict.__file__).parents[4] / "bin/ddictd").exists():
            self.skipTest("not an installed prefix")
        return ddict

    def test_make_install_leaves_what_pip_and_pytest_look_for(self):
        ddict = self.installed()
        environment = {**self.environment, "PYTHONPATH": str(Path(ddict.__file__).parents[1])}
        listed = subprocess.run([sys.executable, "-m", "pip", "list", "--format=freeze"], stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout
        self.assertIn(f"\nslurm-ddict=={ddict.__version__}\n", "\n" + listed)
        here, = importlib.metadata.distributions(name="slurm-ddict", path=[environment["PYTHONPATH"]])
        self.assertEqual(sorted((e.group, e.name, e.value) for e in here.entry_points), ENTRIES)
        if not importlib.util.find_spec("pytest"):
            self.skipTest("no module pytest")
        (self.folder / "test_it.py").write_text("def test_it(ddict):\n    ddict['a'] = 1\n    assert ddict['a'] == 1\n")
        said = self.run_quiet(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "ddict_up=mem=32M managers=1", "test_it.py", cwd=self.folder,
                              PYTHONPATH=environment["PYTHONPATH"])
        self.assertIn("1 passed", said)

    def test_import_is_cheap(self):
        self.installed()
        code = ("import sys; import ddict, ddict.results, ddict.runtime\n"
                "print(*(m.__name__ for m in list(sys.modules.values()) if m.__name__.startswith('ddict.') and getattr(m, '__cached__', None) and "
                "not __import__('os').path.exists(m.__cached__)))\nprint(*(m for m in ('asyncio', 'numpy', 'torch') if m in sys.modules))\n")
        said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(said, "\n\n", "modules that are not compiled; modules that need not be loaded")

    def test_without_libddict_the_reason_is_said(self):
        copy = self.folder / "source"
        shutil.copytree(SOURCE, copy)
        done = subprocess.run([sys.executable, "setup.py", "-q", "build"], cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**self.environment, "PKG_CONFIG_PATH": "", "PKG_CONFIG_LIBDIR": str(self.folder)})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("PKG_CONFIG_PATH=PREFIX/lib/pkgconfig", done.stdout)

    def test_no_third_party_module_is_imported(self):
        code = "import sys; before = set(sys.modules)\nimport ddict\nprint(sorted(m for m in set(sys.modules) - before if not m.startswith('ddict')))"
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
        for name in eval(out):
            self.assertIn(name.split(".")[0], sys.stdlib_module_names)
        self.assertNotIn("numpy", out)


if __name__ == "__main__":
    unittest.main()
