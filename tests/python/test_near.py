# SPDX-License-Identifier: Apache-2.0
"""What is near: the keys of this node and those of one manager are found where they are, from each node."""

import unittest

import ddict
from harness import DictTest


class Near(DictTest):
    managers, nodes = 4, 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.handles = [cls.d, cls.dictionary.attach(1)]

    @classmethod
    def tearDownClass(cls):
        cls.handles[1].detach()
        del cls.handles
        super().tearDownClass()

    def test_local_is_this_node(self):
        self.d.update({("k", i): i for i in range(300)})
        self.d["other"] = "x"
        self.d["ddict.x"] = 1
        for node, d in enumerate(self.handles):
            keys = set(d.local_keys())
            self.assertEqual(keys, {k for k in self.d if self.d.owner(k) % 2 == node})
            self.assertEqual((d.local_len(), set(d.local_items())), (len(keys), {(k, self.d[k]) for k in keys}))
            self.assertEqual(sorted(d.local_values(("k",))), sorted(k[1] for k in keys if k != "other"))
            self.assertEqual(set(d.local_keys(("k",))), keys - {"other"})
            self.assertEqual("ddict.x" in set(d.local_keys(hidden=True)), self.d.owner("ddict.x") % 2 == node)
            self.assertEqual((d.local_managers, d.local_manager, d.info["local_managers"]), ([node, node + 2], node, 2))
            self.assertEqual(d.manager_nodes, [self.dictionary.nodes[m % 2].node for m in range(4)])
        self.assertEqual(sum(d.local_len() for d in self.handles), len(self.d))

    def test_a_tag_keeps_keys_together(self):
        for i in range(40):
            tag = "{sample%d}" % i
            keys = [tag, tag + "/image", ("x", tag, 7), f"long/path/to/{tag}/label", tag.encode()]
            self.d.update(dict.fromkeys(keys, i))
            self.assertEqual({self.d.owner(k) for k in keys}, {self.handles[1].owner(tag)})
            for d in self.handles:
                self.assertEqual(d.get_many(keys), [i] * 5)
                self.assertEqual([d.get_async(k).result(30) for k in keys], [i] * 5)
                for k in keys:
                    with d.view(k) as view:
                        self.assertEqual(view.load(), i)
        self.assertEqual({self.d.owner("{sample%d}" % i) for i in range(40)}, {0, 1, 2, 3})


if __name__ == "__main__":
    unittest.main()
