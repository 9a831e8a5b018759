# SPDX-License-Identifier: Apache-2.0
"""Copies of a ddict.dragon.DDict."""

import unittest

from ddict.dragon import DDict, DDictSyncError


class Copies(unittest.TestCase):
    def make(self):
        d = DDict(1, 1, 16 << 20, timeout=30)
        self.addCleanup(d.destroy)
        return d

    def test_clone_and_copy(self):
        d, other = self.make(), self.make()
        d["a"], d[1.5], other["old"] = 1, "half", 2
        d.clone([other.serialize()])
        self.assertEqual(dict(other.items()), {"a": 1, 1.5: "half"})
        made = d.copy("another")
        self.addCleanup(made.destroy)
        self.assertEqual((dict(made.items()), made.get_name()), ({"a": 1, 1.5: "half"}, "another"))
        made["a"] = 2
        self.assertEqual(d["a"], 1)

    def test_synchronize(self):
        d, other = self.make(), self.make()
        d["a"] = 1
        DDict.synchronize_ddicts([d.serialize(), other.serialize()])
        self.assertEqual(other["a"], 1)
        other["a"] = 2
        self.assertRaises(DDictSyncError, DDict.synchronize_ddicts, [d.serialize(), other.serialize()])


if __name__ == "__main__":
    unittest.main()
