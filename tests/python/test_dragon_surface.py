# SPDX-License-Identifier: Apache-2.0
"""ddict.dragon: arguments and calls that stand in doc/dragon-surface.md, and that no other test uses."""

import multiprocessing
import os
import tempfile
import unittest
from unittest import mock

from ddict import dragon
from ddict.dragon import DDict, DDictTimeoutError, PosixCheckpointPersister, mp
from ddict.dragon.data.ddict import CheckpointPersister

MEM = 32 << 20


def tell_masks(pipe, names):
    pipe.send({name: os.environ[name] for name in names})


class Surface(unittest.TestCase):
    def make(self, *args, **more):
        d = DDict(*args, **{"timeout": 30, **more})
        self.addCleanup(d.destroy)
        return d

    def test_total_mem_is_that_of_all(self):
        total = sum(s.total_bytes for s in self.make(2, 1, MEM).stats)
        self.assertTrue(0.9 * MEM < total <= MEM, total)

    def test_managers_per_policy(self):
        here = dragon.System().hostname_policies()
        self.assertEqual(self.make(None, None, MEM, policy=here, managers_per_policy=3).local_managers, [0, 1, 2])
        self.assertEqual(len(self.make(None, 1, MEM, policy=here[0], managers_per_policy=2).stats), 2)

    def test_writers_are_awaited(self):
        d = self.make(2, 1, MEM, working_set_size=2, wait_for_writers=True)
        other = DDict.attach(d.serialize(), timeout=30)
        other["theirs"] = 0  # at checkpoint 0, which leaves the window only when they have gone on
        quick = DDict.attach(d.serialize(), timeout=1)
        quick.checkpoint_id = 2
        self.assertRaises(DDictTimeoutError, quick.__setitem__, "mine", 2)
        other.checkpoint()
        other["theirs"] = 1
        quick["mine"] = 2
        self.assertEqual((quick["mine"], quick["theirs"]), (2, 1))

    def test_checkpoints_are_persisted_by_themselves(self):
        with tempfile.TemporaryDirectory() as folder:
            d = self.make(1, 1, MEM, working_set_size=2, persister_class=PosixCheckpointPersister, persist_path=folder, name=f"freq{os.getpid()}",
                          persist_freq=2, persist_count=2)
            for i in range(9):
                d["a"] = i
                d.checkpoint()
            self.assertEqual(d.persisted_ids(), [4, 6])  # of 0, 2, 4, 6, which were retired, the newest two
            d.restore(4)
            self.assertEqual(d["a"], 4)

    def test_bput_within_a_batch(self):
        d = self.make(2, 1, MEM)
        d.start_batch_put()
        for i in range(10):
            d[i] = i
            d.bput(("all", i), [i])
        d.end_batch_put()
        self.assertEqual(([d[i] for i in range(10)], [d.bget(("all", i)) for i in range(10)]), (list(range(10)), [[i] for i in range(10)]))

    def test_what_means_nothing_is_accepted(self):
        d = self.make(1, 1, MEM, trace=True, orc_policy=dragon.Policy(), streams_per_manager=7, manager_pool_full_thresh=0.5)
        d["a"] = 1
        d.sync()
        self.assertEqual(DDict.attach(d.serialize(), trace=True)["a"], 1)

    def test_a_persister_of_one_s_own_is_refused(self):
        class Mine(CheckpointPersister):
            pass

        self.assertRaisesRegex(ValueError, "Mine: .*PosixCheckpointPersister", DDict, 1, 1, MEM, persister_class=Mine, name="x")

    def test_a_policy_for_each_gpu(self):
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "3,5"}):
            policies = dragon.System().gpu_policies()
            self.assertEqual([(p.host(), p.gpu_affinity) for p in policies], [(dragon.Node().hostname, [3]), (dragon.Node().hostname, [5])])
            self.assertEqual(dragon.Node().num_gpus, 2)
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}):
            self.assertEqual(dragon.System().gpu_policies(), [])

    def test_the_gpus_of_a_process_are_those_of_the_mask(self):
        masks = ("CUDA_VISIBLE_DEVICES", "3,5"), ("CUDA_VISIBLE_DEVICES", "GPU-8a5b, 7"), ("ROCR_VISIBLE_DEVICES", "2,6"), ("ZE_AFFINITY_MASK", "1.0,1.1")
        for variable, mask in masks:
            with mock.patch.dict(os.environ, self.masks(**{variable: mask})):
                self.assertEqual(self.seen_by_each(), [{**self.masks(), variable: gpu.strip()} for gpu in mask.split(",")])
        with mock.patch.dict(os.environ, self.masks(HIP_VISIBLE_DEVICES="1", ROCR_VISIBLE_DEVICES="3,5")):  # GPU 5
            self.assertEqual(self.seen_by_each(), [self.masks(HIP_VISIBLE_DEVICES="1", ROCR_VISIBLE_DEVICES="3,5")])
        with mock.patch.dict(os.environ, self.masks(CUDA_VISIBLE_DEVICES="3,5", ROCR_VISIBLE_DEVICES="3,5")):  # as Slurm does
            self.assertEqual(self.seen_by_each(), [self.masks(CUDA_VISIBLE_DEVICES=gpu, ROCR_VISIBLE_DEVICES=gpu) for gpu in "35"])
        for none in ("-1", "NoDevFiles"):
            with mock.patch.dict(os.environ, self.masks(CUDA_VISIBLE_DEVICES=none)):
                self.assertEqual(dragon.Node().gpus, [])

    def masks(self, **given):
        return {**dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"), ""), **given}

    def seen_by_each(self):
        """What a process has in its environment for each GPU of this node"""
        seen = []
        for gpu in dragon.Node().gpus:
            mine, its = multiprocessing.Pipe(False)
            process = mp.Process(target=tell_masks, args=(its, list(self.masks())), policy=dragon.Policy(gpu_affinity=[gpu]))
            process.start()
            process.join(60)
            self.assertTrue(mine.poll(), process.exitcode)
            seen.append(mine.recv())
        return seen

    def test_what_another_node_has(self):
        from ddict.dragon.native import machine
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(machine, "hosts", return_value=[machine.here(), "n2", "n3"]), \
                mock.patch.dict(os.environ, {"PATH": f"{folder}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": ""}):
            with open(os.open(os.path.join(folder, "srun"), os.O_CREAT | os.O_WRONLY, 0o755), "w") as f:
                f.write("#!/bin/sh\ncase $* in *'-w n3'*) echo no such node >&2; exit 1;; esac\n"
                        "while [ \"$1\" != --export=ALL ]; do shift; done\nshift\nCUDA_VISIBLE_DEVICES=4,5 exec taskset -c 0 \"$@\"\n")
            node = dragon.Node("n2")
            self.assertEqual((node.gpus, node.num_gpus, node.cpus, node.physical_mem), ([4, 5], 2, [0], dragon.Node().physical_mem))
            self.assertEqual(dragon.Node().gpus, [])
            self.assertRaisesRegex(RuntimeError, "n3 was not asked: no such node", lambda: dragon.Node("n3").num_cpus)

    def test_what_is_python_s_own(self):
        for name in ("Array", "Manager", "Pipe", "Value"):
            self.assertEqual(getattr(mp, name), getattr(multiprocessing, name))
        counter = mp.Value("i", 3)
        process = mp.Process(target=setattr, args=(counter, "value", 4))
        process.start()
        process.join(60)
        self.assertEqual(counter.value, 4)


if __name__ == "__main__":
    unittest.main()
