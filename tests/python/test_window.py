# SPDX-License-Identifier: Apache-2.0
"""checkpoint(), rollback(), checkpoint_id and the like: a handle stores and reads at its checkpoint, in a dictionary that keeps the last few of them."""

import os
import unittest

import ddict
from harness import Dictionary


class WindowTest(unittest.TestCase):
    words = ["--working-set=3"]

    def setUp(self):
        self.dictionary = Dictionary(managers=2, mem=64 << 20, nodes=2, more=self.words)
        self.addCleanup(self.nothing_is_left)
        self.d, self.far = (self.dictionary.attach(node) for node in range(2))

    def nothing_is_left(self):
        self.d.detach()
        self.far.detach()
        self.assertFalse(any(self.dictionary.stop()))

    def test_a_handle_reads_at_its_checkpoint(self):
        d, far = self.d, self.far
        self.assertEqual((d.working_set, d.checkpoint_id), (3, 0))
        d["a"] = 1
        self.assertIsNone(d.checkpoint())
        self.assertEqual((d.checkpoint_id, d["a"]), (1, 1))  # nothing was put there yet
        d["a"] = 2
        self.assertEqual((far.checkpoint_id, far["a"]), (0, 1))
        far.checkpoint_id = 1
        self.assertEqual(far["a"], 2)
        self.assertIsNone(d.rollback())
        self.assertEqual((d.checkpoint_id, d["a"]), (0, 1))
        d.rollback()
        self.assertEqual(d.checkpoint_id, 0)
        del d["a"]
        self.assertEqual(far["a"], 2)
        self.assertNotIn("a", d)

    def test_the_oldest_checkpoint_is_retired(self):
        d, far = self.d, self.far
        for i in range(5):
            d.checkpoint_id = i
            d["a"] = i
        self.assertEqual((far.sync_to_newest_checkpoint(), far.checkpoint_id, far["a"]), (4, 4, 4))
        for call in (lambda: d["a"], lambda: d.__setitem__("a", 0), lambda: "a" in d, lambda: d.pop("a"), lambda: d.__delitem__("a"), lambda: d.put_new("b", 0),
                     lambda: d.pput("a", 0), lambda: d.get("a"), lambda: d.view("a")):
            d.checkpoint_id = 1
            with self.assertRaises(ddict.RetiredError) as caught:
                call()
            self.assertIn("checkpoint 1 was retired", str(caught.exception))
        self.assertNotIsInstance(caught.exception, KeyError)
        d.checkpoint_id = 2
        self.assertEqual(d["a"], 2)

    def test_ids_that_are_none(self):
        for wrong, kind in ((-1, ValueError), ("1", TypeError), (1.0, TypeError), (1 << 64, OverflowError)):
            with self.assertRaises(kind):
                self.d.checkpoint_id = wrong
        with self.assertRaises(AttributeError):
            del self.d.checkpoint_id
        with self.assertRaises(AttributeError):
            self.d.working_set = 2
        with self.assertRaises(TypeError):
            self.d.pput("a")
        self.d.checkpoint_id = True
        self.assertEqual(self.d.checkpoint_id, 1)

    def test_persistent_puts(self):
        d = self.d
        self.assertIsNone(d.pput("a", 1))
        self.assertEqual(d.put_many({"b": 2, "c": 3}, persistent=True), 2)
        self.assertEqual([d[key] for key in "abc"], [1, 2, 3])
        d.checkpoint()
        d["d"] = 4
        self.assertEqual((len(d), sorted(d), sorted(d.values())), (4, ["a", "b", "c", "d"], [1, 2, 3, 4]))
        d.rollback()
        self.assertEqual((len(d), d.get_many(list("abcd"))), (3, [1, 2, 3, None]))

    def test_a_forked_child_is_where_its_parent_was(self):
        self.d.checkpoint_id = 1
        self.d["a"] = 1
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if self.d.checkpoint_id == 1 and self.d["a"] == 1 else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)


class WaitTest(WindowTest):
    words = ["--working-set=2,wait-for-keys"]
    test_a_handle_reads_at_its_checkpoint = test_the_oldest_checkpoint_is_retired = test_ids_that_are_none = None
    test_a_forked_child_is_where_its_parent_was = None

    def test_persistent_puts(self):
        d = self.d
        d.pput("a", 1)
        d.put_many([("b", 2)], persistent=True)
        d.put_many([("c", 3)])
        d.checkpoint()
        self.assertEqual((d["a"], d["b"]), (1, 2))
        with self.assertRaises(ddict.TimeoutError):
            d.view("c", timeout=0.1)
        d["c"] = 4
        self.assertEqual(d["c"], 4)


class WithoutTest(unittest.TestCase):
    def test_a_dictionary_without_one_says_how_to_have_it(self):
        with Dictionary(managers=1, mem=64 << 20) as dictionary, dictionary.attach() as d:
            self.assertEqual(d.working_set, 0)
            for call in (d.checkpoint, d.rollback, d.sync_to_newest_checkpoint, lambda: d.checkpoint_id, lambda: setattr(d, "checkpoint_id", 1)):
                with self.assertRaisesRegex(ddict.Error, "--ddict-working-set=K"):
                    call()
            d.pput("a", 1)  # as any other put
            self.assertEqual((d["a"], d.put_many({"b": 2}, persistent=True)), (1, 1))
