# SPDX-License-Identifier: Apache-2.0
"""ddict.dragon.DDict with a working set: checkpoints as Dragon's documentation says."""

import pickle
import threading
import unittest

import ddict
from ddict.dragon import DDict, DDictCheckpointSyncError, DDictTimeoutError

MEM = 16 << 20


def twos(manager, queue):
    for key, value in manager.items():
        if value == 2:
            queue.put(key)


class Window(unittest.TestCase):
    def make(self, **more):
        d = DDict(2, 1, MEM, timeout=10, **more)
        self.addCleanup(d.destroy)
        return d

    def test_each_checkpoint_has_its_values(self):
        d = self.make(working_set_size=3)
        self.assertEqual(d.ddict.working_set, 3)
        for i in range(3):
            d["a"], d[i, 0.5] = i, i
            d.checkpoint()
        seen = {}
        for i in range(3):
            d.checkpoint_id = i
            seen[i] = d["a"]
        self.assertEqual((seen, d.checkpoint_id), ({0: 0, 1: 1, 2: 2}, 2))
        self.assertEqual({key for key in d if key != "a"}, {(0, 0.5), (1, 0.5), (2, 0.5)})
        other = pickle.loads(pickle.dumps(d))
        self.assertEqual((other.checkpoint_id, other["a"]), (2, 2))
        d.rollback()
        self.assertEqual((d.checkpoint_id, d["a"], other.checkpoint_id), (1, 1, 2))
        attached = DDict.attach(d.serialize())
        self.assertEqual((attached.checkpoint_id, attached["a"]), (0, 0))
        attached.sync_to_newest_checkpoint()
        self.assertEqual((attached.checkpoint_id, attached["a"]), (2, 2))

    def test_a_checkpoint_is_retired(self):
        d = self.make(working_set_size=2)
        for i in range(4):
            d["a"] = i
            d.checkpoint()
        d.checkpoint_id = 0
        self.assertRaises(DDictCheckpointSyncError, d.__getitem__, "a")
        with self.assertRaises(DDictCheckpointSyncError) as caught:
            d["a"] = 7
        self.assertIsInstance(caught.exception.__cause__, ddict.RetiredError)

    def test_who_reads_waits(self):
        d = self.make(working_set_size=2, wait_for_keys=True)
        other = DDict.attach(d.serialize(), timeout=20)
        d.pput("stays", "always")
        timer = threading.Timer(0.3, other.__setitem__, ("late", 5))
        timer.start()
        self.assertEqual(d["late"], 5)
        timer.join()
        d.checkpoint()
        d["late"] = 6
        self.assertEqual((d["late"], d["stays"]), (6, "always"))
        quick = DDict.attach(d.serialize(), timeout=0.5)
        self.assertRaises(DDictTimeoutError, quick.__getitem__, "never")
        self.assertNotIn("never", quick)

    def test_persistent_batches(self):
        d = self.make(working_set_size=2, wait_for_keys=True)
        d.start_batch_put(persist=True)
        for i in range(10):
            d["p", i] = i
        d.end_batch_put()
        for _ in range(4):
            d.checkpoint()
            d["step"] = d.checkpoint_id
        self.assertEqual([d["p", i] for i in range(10)], list(range(10)))

    def test_filter_sees_the_checkpoint(self):
        d = self.make(working_set_size=2)
        d["a"], d["b"] = 2, 1
        d.checkpoint()
        d["a"], d["b"] = 1, 2
        for checkpoint, want in (0, ["a"]), (1, ["b"]):
            d.checkpoint_id = checkpoint
            with d.filter(twos, (), lambda x, y: False) as found:
                self.assertEqual(list(found), want)

    def test_clear(self):
        d = self.make(working_set_size=2)
        d["a"] = 1
        d.checkpoint()
        d["b"] = 1
        d.clear()
        self.assertEqual((len(d), list(d)), (0, []))
        self.assertEqual(DDict.attach(d.serialize())["a"], 1)  # at the checkpoint before

    def test_handles_have_checkpoints_of_their_own(self):
        d = self.make(working_set_size=3)
        d["a"] = 1
        d.checkpoint()
        m, p = d.manager(d.which_manager("a")), d.pickler()
        self.assertEqual((m.checkpoint_id, p.checkpoint_id), (1, 1))
        m.checkpoint()
        p.rollback()
        self.assertEqual((d.checkpoint_id, m.checkpoint_id, p.checkpoint_id), (1, 2, 0))
        m["a"] = 3
        self.assertEqual((d["a"], m["a"], p["a"]), (1, 3, 1))

    def test_stats_count_what_the_handle_sees(self):
        d = self.make(working_set_size=2)
        for i in range(10):
            d[i] = i
        d.checkpoint()
        d[0], d["new"] = 1, 1
        self.assertEqual((sum(s.num_keys for s in d.stats), len(d)), (11, 11))
        d.rollback()
        self.assertEqual(sum(s.num_keys for s in d.stats), 10)

    def test_what_is_put_on_a_manager_is_in_checkpoints(self):
        d = self.make(working_set_size=3)
        one = d.manager(0)
        for step in range(2):
            for i in range(8):
                one[i], one["k", i], one[i + 0.5] = (step, i), step, step
            one.checkpoint()
        keys = {*range(8), *(("k", i) for i in range(8)), *(i + 0.5 for i in range(8))}
        one.rollback()
        self.assertEqual(({d.manager(1).get(i) for i in range(8)}, [one[i] for i in range(8)]), ({None}, [(1, i) for i in range(8)]))
        one.rollback()
        self.assertEqual(([one[i] for i in range(8)], one["k", 3], one[3.5]), ([(0, i) for i in range(8)], 0, 0))
        self.assertEqual((set(one), len(one), set(d), set(d.local_keys()), len(d)), (keys, 24, keys, keys, 24))
        self.assertEqual((dict(one.items())[5], [s.num_keys for s in d.stats]), ((0, 5), [24, 0]))
        self.assertEqual((one.pop(3), 3 in one, len(one)), ((0, 3), False, 23))
        del one[4]
        self.assertRaises(KeyError, one.__delitem__, 4)
        one.clear()
        self.assertEqual((len(one), len(d)), (0, 0))
        one.checkpoint()
        self.assertEqual(len(one), 24)

    def test_what_is_put_on_a_manager_may_be_persistent(self):
        d = self.make(working_set_size=2, wait_for_keys=True)
        one = d.manager(1)
        one.start_batch_put(persist=True)
        for i in range(8):
            one[i] = i
        one.end_batch_put()
        one.pput("also", 1)
        for step in range(4):
            one.checkpoint()
            one["step"] = step
        self.assertEqual(([one[i] for i in range(8)], one["also"], one["step"]), (list(range(8)), 1, 3))
        self.assertEqual(one.fetch_add("n", 2), 0)
        one.wait_for("n", 2, 10)
        d.sync_to_newest_checkpoint()
        self.assertNotIn("n", d.manager(0))


if __name__ == "__main__":
    unittest.main()
