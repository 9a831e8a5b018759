# SPDX-License-Identifier: Apache-2.0
"""ddict.up() in a notebook's kernel, and the fixture of pytest."""

import os
import subprocess
import tempfile
import textwrap

from harness import module_or_skip, python
from test_up import END_S, UpTest, processes


class Notebook(UpTest):
    def test_a_kernel_of_jupyter(self):
        module_or_skip("ipykernel")
        manager = module_or_skip("jupyter_client").KernelManager()
        manager.start_kernel(extra_arguments=["--IPKernelApp.log_level=40"])
        self.addCleanup(manager.shutdown_kernel, now=True)
        client = manager.blocking_client()
        client.start_channels()
        self.addCleanup(client.stop_channels)
        client.wait_for_ready(timeout=END_S)

        def cell(code, interrupt=False):
            client.execute(code)
            said, error = "", None
            while True:
                message = client.get_iopub_msg(timeout=END_S)
                content = message["content"]
                if message["msg_type"] == "stream" and content["name"] == "stdout":
                    said += content["text"]
                    if interrupt and "now" in said:
                        manager.interrupt_kernel()
                        interrupt = False
                if message["msg_type"] == "error":
                    error = content["ename"]
                if message["msg_type"] == "status" and content["execution_state"] == "idle":
                    return said, error

        self.assertEqual(cell(f"import ddict, time\nd = ddict.up({self.name!r}, mem='32M')\nd['a'] = 1\nprint(d['a'])"), ("1\n", None))
        self.assertEqual(cell("print('now', flush=True); time.sleep(600)", interrupt=True), ("now\n", "KeyboardInterrupt"))
        self.assertEqual(cell("print(d['a'], await d.get_async('a'))"), ("1 1\n", None))
        self.assertEqual(cell(f"ddict.up({self.name!r})"), ("", "NoDictError"))
        self.assertEqual(cell(f"ddict.down()\nd = ddict.up({self.name!r}, mem='32M')\nprint(len(d))"), ("0\n", None))
        manager.shutdown_kernel(now=True)  # kill -9, as "Restart"
        self.all_end()


class Pytest(UpTest):
    def test_the_fixture(self):
        module_or_skip("pytest")
        with tempfile.TemporaryDirectory() as folder:
            for file, text in {
                "pytest.ini": f"[pytest]\nddict_up = mem=32M managers=2 name={self.name}\naddopts = -p ddict.pytest_plugin -p no:cacheprovider --strict-markers\n",
                "test_it.py": """
                    import ddict as module, pytest
                    names = []
                    def test_one(ddict):
                        ddict["a"] = 1
                        assert module.attach()["a"] == 1 and ddict.info["managers"] == 2
                        names.append(ddict.info["id"])
                        ddict.freeze()
                    def test_finds_it_empty(ddict):
                        assert len(ddict) == 0 and ddict.info["id"] == names[0]
                        ddict["b"] = 1
                    @pytest.mark.ddict(managers=1, name=None)
                    def test_of_its_own(ddict):
                        assert ddict.info["id"] != names[0] and ddict.info["managers"] == 1 and len(ddict) == 0
                        assert module.attach().name == ddict.name
                    def test_ends_it(ddict):
                        assert module.attach().name == ddict.name and len(ddict) == 0
                        ddict.down()
                    def test_gets_another_one(ddict):
                        assert ddict.info["id"] != names[0]
                        ddict["c"] = 1
                    def test_without(): pass
                """}.items():
                with open(os.path.join(folder, file), "w") as f:
                    f.write(textwrap.dedent(text))
            done = python("import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))", "-q", "--rootdir", folder, folder, cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            said = done.communicate()[0]
            self.assertEqual(done.returncode, 0, said)
            self.assertIn("6 passed", said)
            self.assertEqual(processes(self.name), [])
            done = python("import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))", "-q", "-o", "ddict_up=memory=1G", "--rootdir", folder, folder, cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            said = done.communicate()[0]
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("ddict_up, or the marker ddict: up() got an unexpected keyword argument 'memory'", said)
