# SPDX-License-Identifier: Apache-2.0
"""ddict.torch.Store: what torch's own stores promise, asked of it, through a PrefixStore of it (which reaches it by C++), and from processes of two nodes."""

import gc
import os
import pickle
import threading
import time
import unittest
from datetime import timedelta

import ddict
from harness import DictTest, Dictionary, module_or_skip, python

torch = module_or_skip("torch")
import torch.distributed as dist  # noqa: E402

if not dist.is_available():
    raise unittest.SkipTest("this torch has no torch.distributed")
from ddict.torch import Store, StoreError  # noqa: E402

SECOND = timedelta(seconds=1)


def in_threads(*calls):
    """Call them at once; their answers, or what they raised."""
    answers = [None] * len(calls)

    def call(i):
        try:
            answers[i] = calls[i]()
        except Exception as e:
            answers[i] = e
    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    return answers


class Points:
    """What holds for the store itself and through C++. Another object of the store, other(), is at another node."""

    nodes = 2
    extended = True

    def store(self):
        return Store("points", 60, self.d)

    def other(self):
        return Store("points", 60, self.far)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.far = cls.dictionary.attach(1)
        cls.dictionary.attach(0).detach()  # $DDICT_NODE is the first one's again

    @classmethod
    def tearDownClass(cls):
        cls.far.detach()
        super().tearDownClass()

    def has(self, name):
        if not hasattr(self.s, name):
            self.skipTest(f"torch {torch.__version__} has no {name}")

    def setUp(self):
        super().setUp()
        self.s, self.o = self.store(), self.other()

    def test_set_and_get(self):
        for i, value in enumerate(["text", "", "a\0b", "\u00e9"]):
            self.s.set(f"k{i}", value)
            self.assertEqual(self.o.get(f"k{i}"), value.encode())
        self.s.set("k0", "again")
        self.assertEqual(self.o.get("k0"), b"again")

    def test_add_counts_also_what_set_stored(self):
        self.assertEqual([self.s.add("n", 1), self.o.add("n", 5), self.s.add("n", -10), self.s.add("n", 0)], [1, 6, -4, -4])
        self.assertEqual(self.o.get("n"), b"-4")
        self.assertEqual(self.s.add("zero", 0), 0)
        self.assertEqual(self.o.get("zero"), b"0")
        self.s.set("text", "41")
        self.assertEqual([self.o.add("text", 1), self.s.add("text", 1)], [42, 43])
        self.assertEqual(self.s.get("text"), b"43")

    def test_add_refuses_what_is_no_number_and_leaves_it(self):
        self.s.set("word", "x")
        with self.assertRaisesRegex(StoreError, "word has b'x', which is no number"):
            self.s.add("word", 1)
        self.s.set("edge", str((1 << 63) - 1))
        for _ in range(2):  # as text, as an int
            with self.assertRaisesRegex(StoreError, "64 bits"):
                self.s.add("edge", 1)
            self.assertEqual(self.s.add("edge", 0), (1 << 63) - 1)
        self.assertEqual(self.s.get("word"), b"x")

    def test_compare_set(self):
        self.assertEqual(self.s.compare_set("absent", "old", "new"), b"old")
        self.assertEqual(self.s.num_keys(), 0)
        self.assertEqual(self.s.compare_set("a", "", "new"), b"new")
        self.assertEqual(self.o.compare_set("a", "other", "newer"), b"new")
        self.assertEqual(self.o.compare_set("a", "new", "newer"), b"newer")
        self.assertEqual(self.o.compare_set("a", "", "x"), b"newer")
        self.s.add("n", 7)
        self.assertEqual(self.o.compare_set("n", "7", "8"), b"8")
        self.assertEqual(self.s.add("n", 1), 9)

    def test_keys_are_counted_and_deleted(self):
        self.s.set("a", "1")
        self.s.add("b", 1)
        self.assertEqual(self.o.num_keys(), 2)
        self.assertTrue(self.o.delete_key("a"))
        self.assertFalse(self.s.delete_key("a"))
        self.assertEqual(self.s.num_keys(), 1)
        self.s.set_timeout(timedelta(seconds=0.2))
        with self.assertRaisesRegex(StoreError, "timeout after 0.2 s, keys: .*a"):
            self.s.get("a")

    def test_wait_says_which_keys_did_not_come(self):
        self.s.add("good", 1)
        self.s.wait(["good"])
        start = time.monotonic()
        with self.assertRaisesRegex(StoreError, "timeout after 0.3 s, keys: .*bad"):
            self.s.wait(["good", "bad"], timedelta(seconds=0.3))
        self.assertGreaterEqual(time.monotonic() - start, 0.3)
        self.s.set_timeout(timedelta(seconds=0.2))
        with self.assertRaisesRegex(RuntimeError, "timeout after 0.2 s"):
            self.s.wait(["bad"])

    def test_wait_and_get_go_on_when_the_last_key_comes(self):
        def put():
            for key in "abc":
                time.sleep(0.1)
                self.o.set(key, key)
        got = in_threads(lambda: self.s.wait(["a", "b", "c"]) or self.s.num_keys(), lambda: self.s.get("c"), put)
        self.assertEqual(got, [3, b"c", None])

    def test_several_at_once(self):
        self.has("multi_set")
        self.s.multi_set(["a", "b"], ["1", "2"])
        self.assertEqual(self.o.multi_get(["b", "a"]), [b"2", b"1"])
        got = in_threads(lambda: self.s.multi_get(["a", "late"]), lambda: time.sleep(0.1) or self.o.set("late", "x"))
        self.assertEqual(got, [[b"1", b"x"], None])
        self.s.set_timeout(timedelta(seconds=0.2))
        with self.assertRaisesRegex(StoreError, "timeout"):
            self.s.multi_get(["a", "never"])

    def test_append(self):
        self.has("append")
        for text in ("a", "bc"):
            self.s.append("log", text)
        self.s.add("n", 12)
        self.o.append("n", "3")
        self.assertEqual([self.o.get("log"), self.s.get("n"), self.s.add("n", 1)], [b"abc", b"123", 124])

    def test_check(self):
        self.has("check")
        self.s.set("a", "")
        self.assertEqual([self.o.check(["a"]), self.o.check(["a", "b"]), self.o.check([])], [True, False, True])

    def test_each_sum_is_given_once(self):
        def count(s):
            return [s.add("n", 1) for _ in range(50)]
        got = in_threads(*(lambda s=s: count(s) for s in (self.s, self.o, self.s, self.o)))
        self.assertEqual(sorted(n for some in got for n in some), list(range(1, 201)))


class OfTheStore(Points, DictTest):
    def test_values_are_bytes_and_keys_are_text(self):
        self.s.set(b"k", b"\0\xff")
        self.assertEqual(self.o.get("k"), b"\0\xff")
        for call in (lambda: self.s.get(5), lambda: self.s.set("k", 5)):
            self.assertRaises(TypeError, call)
        self.assertRaises(StoreError, self.s.multi_set, ["a", "b"], ["1"])

    def test_stores_of_other_names_and_the_dictionary_are_apart(self):
        self.s.set("a", "1")
        other = Store("points2", 60, self.d)
        self.assertEqual([other.num_keys(), self.s.list_keys(), len(self.d), list(self.d)], [0, ["a"], 0, []])
        other.set("a", "2")
        self.assertEqual([self.s.get("a"), other.get("a")], [b"1", b"2"])

    def test_close_removes_what_is_in_it(self):
        other = Store("points2", 60, self.d)
        other.set("a", "2")
        self.s.multi_set(["a", "b"], ["1", "2"])
        self.s.close()
        self.assertEqual([self.o.num_keys(), other.get("a"), len(list(self.d.keys(hidden=True)))], [0, b"2", 1])

    def test_queues(self):
        self.s.queue_push("q", "1")
        self.o.queue_push("q", b"2")
        self.assertEqual([self.s.queue_len("q"), self.s.check(["q"])], [2, True])
        self.assertEqual([self.o.queue_pop("q"), self.s.queue_pop("q", False)], [b"1", b"2"])
        self.assertEqual([self.s.queue_len("q"), self.s.check(["q"])], [0, False])
        with self.assertRaisesRegex(getattr(dist, "QueueEmptyError", StoreError), "queue q is empty"):
            self.s.queue_pop("q", False)
        self.s.set_timeout(timedelta(seconds=0.2))
        with self.assertRaisesRegex(StoreError, "timeout after 0.2 s, keys: q"):
            self.s.queue_pop("q")
        self.assertEqual(in_threads(lambda: self.o.queue_pop("q"), lambda: time.sleep(0.1) or self.s.queue_push("q", "3")), [b"3", None])

    def test_a_clone_has_its_own_timeout(self):
        clone = self.s.clone()
        clone.set_timeout(SECOND)
        self.assertEqual([self.s.timeout, clone.timeout], [timedelta(seconds=60), SECOND])
        self.assertEqual(in_threads(lambda: clone.get("late"), lambda: self.s.set("late", "x")), [b"x", None])

    def test_it_can_be_pickled(self):
        again = pickle.loads(pickle.dumps(self.s))
        self.s.set("a", "1")
        self.assertEqual([again.get("a"), again.name, again.timeout], [b"1", "points", timedelta(seconds=60)])

    def test_torch_needs_no_object_of_ours_that_is_kept(self):
        prefix = dist.PrefixStore("p", Store("kept", 60, self.d))
        gc.collect()
        prefix.set("a", "1")
        self.assertEqual([prefix.get("a"), Store("kept", 60, self.d).get("p/a")], [b"1", b"1"])

    def test_what_fails_in_the_dictionary_is_an_error_of_torch(self):
        with Dictionary(1, 32 << 20) as own:
            s = Store("points", 60, own.attach())
            s.set("a", "1")
        for call in (lambda: s.set("a", "2"), lambda: s.get("a"), lambda: s.add("a", 1), lambda: s.wait(["a"]), s.num_keys, lambda: s.queue_pop("a")):
            with self.assertRaises(StoreError) as raised:
                call()
            self.assertIsInstance(raised.exception.__cause__, ddict.Error)

    def test_torch_s_own_test_by_cpp(self):
        if not hasattr(dist, "_test_python_store"):
            self.skipTest("no such function")
        dist._test_python_store(self.s)


class OfAPrefixStore(Points, DictTest):
    def store(self):
        return dist.PrefixStore("p", super().store())

    def other(self):
        return dist.PrefixStore("p", super().other())

    def test_its_timeout_is_the_store_s(self):
        s = Store("points", 60, self.d)
        dist.PrefixStore("p", s).set_timeout(SECOND)
        self.assertEqual(s.timeout, SECOND)

    def test_clone(self):
        self.has("clone")
        clone = self.s.clone()
        gc.collect()
        clone.set("a", "1")
        self.assertEqual(self.o.get("a"), b"1")


JOIN = """
import sys
from ddict.torch.rendezvous import _Meeting
print(_Meeting(sys.argv[1], None).join(int(sys.argv[2]), int(sys.argv[3])))
"""
GROUP = """
import os, sys, datetime, torch, torch.distributed as dist, ddict.torch
out = []
for turn in range(2):
    dist.init_process_group("gloo", init_method=sys.argv[1], timeout=datetime.timedelta(seconds=120), **eval(sys.argv[2]))
    t = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(t)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    model(torch.full((1, 2), t.item())).sum().backward()
    out += [dist.get_rank(), int(t.item()), model.module.weight.grad.tolist()]
    dist.destroy_process_group()
print(out)
"""


class Rendezvous(DictTest):
    nodes = 2

    def setUp(self):
        super().setUp()
        from ddict.torch import rendezvous
        self.r = rendezvous
        self.meeting = rendezvous._Meeting("m", self.d)
        for word in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            os.environ.pop(word, None)

    def test_rounds(self):
        m = self.meeting
        self.assertEqual([m.join(0, 2), m.join(1, 2), m.join(1, 2), m.join(0, 2)], [1, 1, 2, 2])
        self.assertEqual([m.join(2, 3), m.join(0, 3)], [3, 3])
        with self.assertRaisesRegex(ValueError, "ddict://m: 2 of 3 ranks are there, and rank 1 says that the world has 2"):
            m.join(1, 2)
        self.assertEqual([m.join(0, 3), m.join(1, 3)], [4, 4])  # rank 0 gave the third one up

    def test_many_at_once_are_in_one_round(self):
        self.assertEqual(in_threads(*(lambda r=r: self.meeting.join(r, 12) for r in range(12))), [1] * 12)

    def test_a_round_of_a_dead_rank_is_over(self):
        gone = python(JOIN, "m", "0", "3", environment=self.dictionary.environment(1), stdout=-1)
        self.assertEqual(gone.communicate()[0], b"1\n")
        self.assertEqual([self.meeting.join(r, 3) for r in (1, 2, 0)], [2, 2, 2])

    def test_wrong_words_are_refused(self):
        for url, why in (("ddict://?rank=2&world_size=2", "rank 2 of 2"), ("ddict://?rank=x&world_size=2", "rank is 'x'"),
                         ("ddict://?rank=0&size=2", "size: no such word"), ("ddict://?rank=-2&world_size=2", "rank -2 of 2")):
            with self.assertRaisesRegex(ValueError, why):
                next(self.r.rendezvous(url))

    def test_rank_and_size_of_the_url_or_of_the_environment(self):
        os.environ.update(self.dictionary.environment(0))
        try:
            store, rank, size = next(dist.rendezvous("ddict://a/b?rank=1&world_size=3", timeout=SECOND))
            self.assertEqual([rank, size, store.name, store.timeout], [1, 3, "a/b#1", SECOND])
            self.assertEqual(next(dist.rendezvous("ddict://a/b", 0, 3))[1:], (0, 3))
            os.environ.update(RANK="2", WORLD_SIZE="3")
            store, rank, size = next(dist.rendezvous(f"ddict://a/b?dict={self.d.name}"))
            self.assertEqual([rank, size, store.name, store._d.name], [2, 3, "a/b#1", self.d.name])
            del os.environ["RANK"], os.environ["WORLD_SIZE"]
            self.assertEqual(next(dist.rendezvous("ddict://"))[1:], (0, 1))  # alone
        finally:
            for word in ("DDICT_NAME", "RANK", "WORLD_SIZE"):
                os.environ.pop(word, None)
            ddict._holders.leave(self.d.name)

    def group(self, ranks):
        """Processes on both nodes, (url, arguments, variables) each; what each prints."""
        there = [python(GROUP, url, args, stdout=-1, environment={**self.dictionary.environment(i % 2), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", **more})
                 for i, (url, args, more) in enumerate(ranks)]
        return [eval(p.communicate(timeout=300)[0] or "None") for p in there]

    def test_gloo_meets_without_an_address(self):
        want = [[r, 3, [[3.0, 3.0]]] * 2 for r in range(2)]
        flat = [[x for part in [w[:3]] * 2 for x in part] for w in want]
        by_arguments = [("ddict://", f"dict(rank={r}, world_size=2)", {}) for r in range(2)]
        self.assertEqual(self.group(by_arguments), flat)
        by_environment = [("ddict://", "{}", {"RANK": str(r), "WORLD_SIZE": "2"}) for r in range(2)]
        self.assertEqual(self.group(by_environment), flat)  # again, in the same dictionary and under the same name


class OfTorchrun(DictTest):
    """The state of a run, in which the agents of torchrun write one after another"""

    nodes = 2

    def backend(self, d):
        from ddict.torch.elastic import Backend
        return Backend(Store("run", 60, d))

    def test_state_is_changed_in_place_of_the_token_s(self):
        a, b = self.backend(self.d), self.backend(self.dictionary.attach(1))
        self.dictionary.attach(0).detach()
        self.assertIsNone(a.get_state())
        state, token, done = a.set_state(b"one")
        self.assertEqual([state, done, b.get_state()], [b"one", True, (b"one", token)])
        self.assertEqual(b.set_state(b"two"), (b"one", token, False))
        state, newer, done = b.set_state(b"two", token)
        self.assertEqual([state, done, a.get_state()], [b"two", True, (b"two", newer)])
        self.assertEqual(a.set_state(b"three", token), (b"two", newer, False))
        self.assertEqual(a.set_state(b"three", "what another backend has"), (b"two", newer, False))
        self.assertEqual(Store("run", 60, self.d).num_keys(), 0)

    def test_what_fails_is_a_rendezvous_that_torchrun_knows(self):
        from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousParameters
        from ddict.torch.elastic import create
        with Dictionary(1, 32 << 20) as own:
            gone = self.backend(own.attach())
        for call in (gone.get_state, lambda: gone.set_state(b"x"), lambda: create(RendezvousParameters("ddict", "no such dictionary", "id", 1, 1))):
            self.assertRaises(RendezvousConnectionError, call)
        with self.assertRaisesRegex(ValueError, "read_timeout=0"):
            create(RendezvousParameters("ddict", self.d.name, "id", 1, 1, read_timeout=0))

    def test_agents_meet_and_each_round_has_its_word(self):
        from torch.distributed.elastic.rendezvous import RendezvousParameters
        from ddict.torch.elastic import handler
        agents = [handler()(RendezvousParameters("ddict", self.d.name, "id", 2, 2, local_addr="127.0.0.1")) for _ in range(2)]
        met = in_threads(*(a.next_rendezvous for a in agents))
        size = [m[2] if isinstance(m, tuple) else m.world_size for m in met]
        self.assertEqual(size, [2, 2])
        word = os.environ.pop("DDICT_TORCH_ROUND")
        self.assertEqual(len(word), 16)
        stores = [m[0] if isinstance(m, tuple) else m.store for m in met]
        self.assertEqual([s.get("ddict.round") for s in stores], [word.encode()] * 2)
        for a in agents:
            a.shutdown()
        self.assertTrue(agents[0].is_closed())
