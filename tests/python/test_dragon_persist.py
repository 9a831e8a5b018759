# SPDX-License-Identifier: Apache-2.0
"""ddict.dragon.DDict with a persister."""

import os
import tempfile
import time
import unittest

from ddict.dragon import DDict, DDictError, DDictPersistCheckpointError, DDictUnableToCreateError, PosixCheckpointPersister


class Persist(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.more = dict(persister_class=PosixCheckpointPersister, persist_path=folder.name, name=f"kept{os.getpid()}", timeout=30)

    def make(self, **more):
        d = DDict(1, 1, 16 << 20, **self.more, **more)
        self.addCleanup(lambda: d.ddict.attached and d.destroy())
        return d

    def test_what_is_persisted_is_read_again(self):
        d = self.make()
        d["a"], d[1.5] = "at 0", "half"
        d.persist()
        d.checkpoint()
        d["a"] = "at 1"
        d.persist()
        self.assertEqual(d.persisted_ids(), [0, 1])
        d.restore(0)
        self.assertEqual((d["a"], d[1.5]), ("at 0", "half"))
        self.assertRaises(DDictPersistCheckpointError, d.restore, 7)
        self.assertEqual(d.checkpoint_id, 0)
        d.destroy()
        again = self.make(restore_from=0)
        self.assertEqual((again["a"], again.checkpoint_id), ("at 0", 0))

    def test_read_only(self):
        d = self.make()
        for i in range(3):
            d["a"] = i
            d.persist()
            d.checkpoint()
        d.destroy()
        r = self.make(read_only=True, restore_from=0)
        self.assertEqual(r["a"], 0)
        self.assertEqual(r.checkpoint_id, 0)
        r.advance()
        self.assertEqual((r["a"], r.checkpoint_id), (1, 1))
        with self.assertRaises(DDictError):
            r["a"] = 5
        for handle in r, DDict.attach(r.serialize()):
            self.assertRaisesRegex(DDictError, "read_only", handle.unfreeze)
        self.assertTrue(r.is_frozen)

    def test_what_begins_with_a_state_that_is_not_there_fails_at_once(self):
        begin = time.monotonic()
        self.assertRaisesRegex(DDictUnableToCreateError, "state 3 is not in", self.make, restore_from=3)
        self.assertLess(time.monotonic() - begin, 4)
        for option in dict(restore_from=0), dict(persist_freq=1):
            self.assertRaisesRegex(AttributeError, next(iter(option)) + " needs a persister_class", DDict, 1, 1, 16 << 20, name="x", **option)

    def test_what_is_put_on_a_manager_is_saved(self):
        d = DDict(2, 1, 16 << 20, working_set_size=2, **self.more)
        for i in range(8):
            d.manager(1)[i] = i
        d.persist()
        d.destroy()
        d = DDict(2, 1, 16 << 20, working_set_size=2, restore_from=0, **self.more)
        self.addCleanup(d.destroy)
        self.assertEqual(([d.manager(1)[i] for i in range(8)], sorted(d)), (list(range(8)), list(range(8))))

    def test_an_attached_handle_persists(self):
        d = self.make()
        d["a"] = 1
        other = DDict.attach(d.serialize())
        other.persist()
        self.assertEqual((other.persisted_ids(), d.persisted_ids()), ([0], [0]))


if __name__ == "__main__":
    unittest.main()
