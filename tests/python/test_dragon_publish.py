# SPDX-License-Identifier: Apache-2.0
"""bput() and bget() of a ddict.dragon.DDict."""

import unittest

from ddict.dragon import DDict, DDictKeyError


class Publish(unittest.TestCase):
    def test_what_is_on_every_node(self):
        d = DDict(2, 1, 16 << 20, timeout=20)
        self.addCleanup(d.destroy)
        d.bput("model", [1, 2])
        self.assertEqual(DDict.attach(d.serialize()).bget("model"), [1, 2])
        d.bput("model", [3])
        d.bput(1.5, "half")
        self.assertEqual((d.bget("model"), d.bget(1.5)), ([3], "half"))
        self.assertRaises(DDictKeyError, d.bget, "none")
        d.ddict.unpublish("model")
        self.assertRaises(DDictKeyError, d.bget, "model")
        self.assertEqual(d.bget(1.5), "half")


if __name__ == "__main__":
    unittest.main()
