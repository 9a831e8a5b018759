# SPDX-License-Identifier: Apache-2.0
"""runtime.bind_gpu() in tasks of a step; hwloc reads a made-up machine of 8 GPUs over 8 NUMA nodes in place of this one (HWLOC_XMLFILE)."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

MACHINE = os.path.join(os.getcwd(), "tests/local/machine")
SCRIPT = """
import json, os, sys
from ddict import runtime
try:
    gpu = runtime.bind_gpu(*sys.argv[1:])
    out = gpu._asdict() if gpu else runtime.gpu_trouble
except Exception as e:
    out = f"{type(e).__name__}: {e}"
child = os.popen("echo $CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES").read().strip()
print(json.dumps([out, os.environ.get("CUDA_VISIBLE_DEVICES"), child]))
"""
# A NUMA node for each of eight tasks, in order. GPUs 0 1 hang on node 3, 2 3 on 1, 4 5 on 7, 6 7 on 5.
BOUND = ",".join(hex(0xFF << 8 * n | 0xFF << 64 + 8 * n) for n in range(8))


@unittest.skipUnless(os.access(MACHINE, os.X_OK), "no tests/local/machine here: not a build tree")
class Gpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.file = tempfile.NamedTemporaryFile(suffix=".xml")
        subprocess.run([MACHINE, "1"], stdout=cls.file, check=True)

    @classmethod
    def tearDownClass(cls):
        cls.file.close()

    def task(self, rank, how, mask, tasks=8):
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "PMI", "OMPI_", "DDICT_", "CUDA_"))}
        slurm = dict(JOB_ID=7, STEP_ID=0, PROCID=rank, STEP_NUM_TASKS=tasks, NODEID=0, STEP_NUM_NODES=1, LOCALID=rank, STEP_TASKS_PER_NODE=tasks)
        slurm.update(STEP_NODELIST="n1", CPU_BIND_TYPE="mask_cpu:", CPU_BIND_LIST=BOUND)
        env = {**keep, **{f"SLURM_{k}": str(v) for k, v in slurm.items()}, "HWLOC_XMLFILE": self.file.name, "CUDA_VISIBLE_DEVICES": mask}
        done = subprocess.run([sys.executable, "-c", SCRIPT, *how], env=env, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        return json.loads(done.stdout)

    def test_closest_is_one_order_for_all(self):
        devices = set()
        for rank in range(8):
            gpu, variable, child = self.task(rank, [], "0,1,2,3,4,5,6,7")
            self.assertEqual(variable, "0,2,3,1,4,6,7,5")
            self.assertEqual(child, "PCI_BUS_ID 0,2,3,1,4,6,7,5")
            self.assertEqual((gpu["variable"], gpu["value"], gpu["devices"], gpu["shared"]), ("CUDA_VISIBLE_DEVICES", variable, 8, 1))
            self.assertEqual(gpu["device"], rank)
            devices.add(gpu["pci"])
        self.assertEqual(len(devices), 8)

    def test_rotate_puts_the_own_first(self):
        gpu, variable, _ = self.task(5, ["rotate"], "0,1,2,3,4,5,6,7")
        self.assertEqual((gpu["device"], gpu["numa"], gpu["pci"], variable), (0, 5, "0000:b7:00.0", "6,7,0,1,2,3,4,5"))

    def test_what_cannot_be_bound_stays(self):
        self.assertEqual(self.task(0, ["none"], "1,0")[1:], ["1,0", "1,0"])
        said, variable, _ = self.task(0, ["closest"], "NoDevFiles")
        self.assertIn("no GPU", said)
        self.assertEqual(variable, "NoDevFiles")
        said, variable, _ = self.task(0, ["closest"], "0,one")
        self.assertTrue(said.startswith("Error: "), said)
        self.assertIn("left as it is", said)
        self.assertEqual(variable, "0,one")
        self.assertIn("ValueError", self.task(0, ["nearest"], "0,1")[0])
