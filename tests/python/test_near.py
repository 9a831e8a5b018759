# SPDX-License-Identifier: Apache-2.0
"""What is near: the keys of this node and those of one manager are found where they are, from each node."""

import pickle
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

    def test_what_is_put_through_a_manager_is_on_it(self):
        self.assertRaises(ValueError, self.d.manager, 4)
        self.assertRaises(ValueError, self.d.manager, -1)
        keys = ["a", 7, b"b", ("t", 1), "x" * 100]
        for m in range(4):
            here = self.handles[m % 2].manager(m)
            here.update({key: (m, key) for key in keys[1:]})
            here[keys[0]] = (m, keys[0])
        self.assertEqual((len(self.d), set(self.d)), (5, set(keys)))  # each is owned by one of them
        for m in range(4):
            for d in self.handles:
                there = pickle.loads(pickle.dumps(d.manager(m)))
                self.assertEqual((dict(there), len(there), set(there.keys())), ({key: (m, key) for key in keys}, 5, set(keys)))
                self.assertEqual([there.get(key) for key in keys], [(m, key) for key in keys])
                with there.view(7) as view:
                    self.assertEqual(view.load(), (m, 7))
                self.assertIn("a", there)
                self.assertNotIn("b", there)
                self.assertIsNone(there.get("b"))
                with self.assertRaisesRegex(KeyError, "^'none'$"):
                    there["none"]
                there.d.detach()
        for key in keys:
            self.assertEqual(self.d[key], (self.d.owner(key), key))
        self.assertEqual([s["num_keys"] for s in self.d.stats], [5] * 4)
        other = next(m for m in range(4) if m != self.d.owner("a"))
        self.assertEqual(self.d.manager(other).pop("a"), (other, "a"))
        with self.assertRaisesRegex(KeyError, "^'a'$"):
            del self.handles[1].manager(other)["a"]
        self.assertEqual((self.d["a"], len(self.d.manager(other))), ((self.d.owner("a"), "a"), 4))
        self.d.manager(other).clear()
        self.assertEqual(self.d.stats[other]["num_keys"], 0)


if __name__ == "__main__":
    unittest.main()
