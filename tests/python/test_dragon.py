# SPDX-License-Identifier: Apache-2.0
"""ddict.dragon.DDict: each call of Dragon's DDict."""

import dataclasses
import inspect
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
import unittest

import ddict
from ddict import dragon
from ddict.dragon import DDict, DDictError, DDictFullError, DDictKeyError, DDictPersistCheckpointError, DDictTimeoutError, DDictUnableToCreateError, Policy
from ddict.dragon import PosixCheckpointPersister
from ddict.dragon.data.ddict import DDictCheckpointSyncError, DDictFutureCheckpointError, DDictManagerStats, DDictSyncError

MEM = 16 << 20


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    name: str


class Words:
    """Keys as text, values as lines"""

    @staticmethod
    def dumps(key):
        return repr(key).encode()

    @staticmethod
    def loads(data):
        return eval(data)

    @staticmethod
    def dump(value, file):
        for line in value:
            file.write(line.encode() + b"\n")

    @staticmethod
    def load(file):
        data = b""
        try:
            while True:
                data += file.read(3)
        except EOFError:
            return data.decode().splitlines()


def best(manager, queue, n):
    for value, key in sorted(((value, key) for key, value in manager.items()), reverse=True)[:n]:
        queue.put((value, key))


def worst_fails(manager, queue):
    raise OverflowError("on purpose")


def is_better(a, b):
    return a > b


class DragonTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.d = DDict(2, 1, MEM, timeout=30)
        cls.addClassCleanup(cls.d.destroy)

    def setUp(self):
        self.d.clear()


class Mapping(DragonTest):
    def test_it_is_a_mapping(self):
        d = self.d
        d["a"], d[b"b"], d[3], d["t", 4] = 1, [2], "three", None
        self.assertEqual((d["a"], d[b"b"], d[3], d["t", 4]), (1, [2], "three", None))
        self.assertEqual((len(d), "a" in d, "z" in d, d.get("z"), d.get("z", 5)), (4, True, False, None, 5))
        self.assertEqual(set(d), {"a", b"b", 3, ("t", 4)})
        self.assertEqual(set(d.keys()), set(d))
        self.assertEqual(dict(d.items()), {"a": 1, b"b": [2], 3: "three", ("t", 4): None})
        self.assertIn([2], list(d.values()))
        self.assertEqual(d.keys().mapping["a"], 1)
        del d["a"]
        self.assertEqual(d.pop(3), "three")
        self.assertEqual(d.pop(3, "no"), "no")
        self.assertRaises(DDictKeyError, d.pop, 3)
        d.clear()
        self.assertEqual((len(d), list(d)), (0, []))

    def test_keys_of_any_type_come_back(self):
        keys = [1.5, None, Point(1.0, "a"), (1, None), frozenset([7]), ("a", ("b", 2.0)), complex(1, 2)]
        for i, key in enumerate(keys):
            self.d[key] = i
        self.assertEqual({key: self.d[key] for key in self.d}, {key: i for i, key in enumerate(keys)})
        self.assertNotIn(Point(2.0, "a"), self.d)
        name = "".join(["l", "ong"])
        self.d[(1.5, name, name)] = "one object"
        self.assertEqual(self.d[(1.5, "".join(["lo", "ng"]), "".join(["lon", "g"]))], "one object")  # equal, and not the same
        for key in keys:
            del self.d[key]
        self.assertEqual(len(self.d), 1)

    def test_its_exceptions_have_dragon_s_bases(self):
        with self.assertRaises(DDictKeyError) as caught:
            self.d[1.5]
        self.assertIsInstance(caught.exception, KeyError)
        self.assertIsInstance(caught.exception, DDictError)
        self.assertEqual((caught.exception.args, str(caught.exception)), ((1.5,), "1.5"))
        self.assertRaises(DDictKeyError, self.d.__delitem__, 1.5)
        self.assertTrue(issubclass(DDictTimeoutError, TimeoutError))
        for cls in (DDictFullError, DDictTimeoutError, DDictUnableToCreateError, DDictSyncError, DDictCheckpointSyncError, DDictFutureCheckpointError):
            self.assertTrue(issubclass(cls, DDictError))
        with self.assertRaises(DDictFullError) as caught:
            self.d["large"] = bytes(MEM)
        self.assertIsInstance(caught.exception.__cause__, (ddict.FullError, ddict.ValueSizeError))
        self.assertRaises(DDictTimeoutError, self.d.wait_for, "never", 1, timeout=0.1)

    def test_missing_is_called(self):
        class Counts(DDict):
            def __missing__(self, key, *, err):
                return key, type(err)

        self.assertEqual(Counts.attach(self.d.serialize())["gone"], ("gone", DDictKeyError))

    def test_batches(self):
        d = self.d
        d.start_batch_put()
        line = [0]
        for i in range(1000):
            line[0] = i
            d[i] = line  # the same object again
        self.assertRaises(DDictError, d.start_batch_put)
        self.assertRaises(DDictError, d.checkpoint)
        d.end_batch_put()
        self.assertEqual([d[i] for i in (0, 1, 998, 999)], [[0], [1], [998], [999]])
        self.assertEqual(len(d), 1000)
        self.assertRaises(DDictError, d.end_batch_put)
        d.start_batch_put(persist=True)
        d["p"] = 1
        d.end_batch_put()
        self.assertEqual(d.get_many(["p", 7]), [1, [7]])

    def test_a_batch_that_does_not_fit_ends_as_others_do(self):
        d = self.d
        d.start_batch_put()
        for i in range(40):
            d[i] = bytes(8 << 20)
        self.assertRaises(DDictFullError, d.end_batch_put)
        d.clear()
        d["after"] = 1
        self.assertEqual(DDict.attach(d.serialize())["after"], 1)
        d.start_batch_put()
        d.end_batch_put()

    def test_a_handle_is_itself_alone(self):
        d, other = self.d, DDict.attach(self.d.serialize())
        self.assertEqual((d == d, d == other, len({d, other})), (True, False, 2))

    def test_names_of_packages(self):
        self.assertIs(dragon.data.DDict, DDict)
        for name in ("Barrier", "Event", "Lock", "Pool", "Process", "Queue", "Semaphore"):
            self.assertTrue(callable(getattr(dragon.native, name)), name)
        self.assertRaises(AttributeError, getattr, dragon.native, "Nothing")

    def test_fetch_add_and_wait_for(self):
        self.assertEqual([self.d.fetch_add("n"), self.d.fetch_add("n", 5), self.d.fetch_add("n", val=-1), self.d["n"]], [0, 1, 6, 5])
        self.d.wait_for("n", 5, timeout=1)

    def test_pickler(self):
        lines = self.d.pickler(key_pickler=Words, value_pickler=Words)
        lines[1, "x"] = ["a", "bc"]
        self.assertEqual((lines[1, "x"], list(lines), list(lines.items())), (["a", "bc"], [(1, "x")], [((1, "x"), ["a", "bc"])]))
        self.assertEqual(self.d[b"(1, 'x')"], b"a\nbc\n")
        self.assertRaisesRegex(TypeError, "has no dumps", self.d.pickler, key_pickler=3)

    def test_freeze(self):
        self.d["a"] = 1
        self.d.freeze()
        try:
            self.assertTrue(self.d.is_frozen)
            self.assertRaises(DDictError, self.d.__setitem__, "a", 2)
            self.assertEqual(self.d["a"], 1)
        finally:
            self.d.unfreeze()
        self.assertFalse(self.d.is_frozen)

    def test_one_state_has_checkpoints_that_are_counted(self):
        d = self.d
        d["a"] = 0
        d.checkpoint()
        d.checkpoint()
        self.assertEqual((d.checkpoint_id, d["a"]), (2, 0))
        self.assertEqual(pickle.loads(pickle.dumps(d)).checkpoint_id, 2)
        d.rollback()
        d.sync_to_newest_checkpoint()
        self.assertEqual(d.checkpoint_id, 1)
        d.checkpoint_id = 0
        d.rollback()
        self.assertEqual(d.checkpoint_id, 0)
        with self.assertRaises(ValueError):
            d.checkpoint_id = -1
        d.pput("b", 1)
        self.assertEqual(d["b"], 1)
        for call in (d.persist, d.persisted_ids, d.advance, lambda: d.restore(1)):
            self.assertRaisesRegex(DDictPersistCheckpointError, "PosixCheckpointPersister", call)


class Near(DragonTest):
    def test_managers(self):
        d = self.d
        for i in range(100):
            d[i] = i
        self.assertEqual((d.local_managers, d.local_manager, d.main_manager, d.empty_managers), ([0, 1], 0, 0, []))
        self.assertEqual(len(d.manager_nodes), 2)
        self.assertEqual(d.manager_nodes[0], dragon.Node())
        both = [d.manager(0), d.manager(1)]
        self.assertEqual(sorted([*both[0], *both[1]]), list(range(100)))
        for i in range(100):
            self.assertEqual(both[d.which_manager(i)][i], i)
        one = both[1 - d.which_manager(1.5)]
        one[1.5] = "there"
        self.assertEqual((one[1.5], one.main_manager, 1.5 in d, one.fetch_add("n", 3), one.fetch_add("n")), ("there", one.main_manager, False, 0, 3))
        self.assertEqual(pickle.loads(pickle.dumps(one))[1.5], "there")
        self.assertRaises(ValueError, d.manager, 2)
        self.assertRaisesRegex(NotImplementedError, "d\[key\]", one.bput, 1, 2)

    def test_what_is_here(self):
        self.d.update({i + 0.5: i for i in range(10)})
        self.assertEqual((self.d.local_len(), len(self.d.local_keys())), (10, 10))
        self.assertEqual(sorted(self.d.local_keys()), [i + 0.5 for i in range(10)])
        self.assertEqual(dict(self.d.local_items()), {i + 0.5: i for i in range(10)})
        self.assertEqual(sorted(self.d.local_values()), list(range(10)))
        self.assertIn(1.5, self.d.local_keys())
        self.assertNotIn(1, self.d.local_keys())

    def test_filter(self):
        for i in range(50):
            self.d[i] = 7 * i % 50
        with self.d.filter(best, (3,), is_better) as candidates:
            found = list(candidates)
        self.assertEqual(found, sorted(found, reverse=True))
        self.assertEqual((len(found), found[0]), (6, max((value, key) for key, value in self.d.items())))
        with self.assertRaisesRegex(DDictError, "on purpose"):
            with self.d.filter(worst_fails, (), is_better, branching_factor=2):
                pass

    def test_stats(self):
        self.d["a"] = 1
        stats = self.d.stats
        self.assertEqual([s.manager_id for s in stats], [0, 1])
        self.assertEqual(sum(s.num_keys for s in stats), 1)
        self.assertEqual([f.name for f in dataclasses.fields(DDictManagerStats)],
                         ["manager_id", "hostname", "total_bytes", "total_used_bytes", "pool_free_space", "pool_utilization", "num_keys", "free_blocks",
                          "max_pool_allocations", "max_pool_allocations_used", "current_pool_allocations_used", "timekeeper_stats"])
        self.assertEqual(self.d.dstats[1].manager_id, 1)
        self.assertIn("put_op", self.d.profile())
        self.assertRaisesRegex(NotImplementedError, "ddict report", self.d.profile_reset)


def read(d, key, queue):
    queue.put(d[key])


class Handles(DragonTest):
    def test_others_attach(self):
        self.d["a"] = Point(1.0, "b")
        self.assertEqual(self.d.serialize(), self.d.ddict.name)  # C takes it, too
        other = DDict.attach(self.d.serialize(), timeout=10)
        self.assertEqual((other["a"], other.get_name()), (Point(1.0, "b"), self.d.get_name()))
        other.detach()
        self.assertRaisesRegex(ValueError, "detached", other.__getitem__, "a")
        self.assertEqual(self.d["a"].x, 1.0)
        self.assertRaises(DDictError, DDict.attach, "bm8=")
        plain = ddict.attach(self.d.ddict.name)  # and programs with ddict alone
        self.assertEqual(plain["a"], Point(1.0, "b"))
        self.assertEqual(len(plain), 1)

    def test_a_pickled_handle_attaches(self):
        self.d["a"] = 3
        for method in ("fork", "spawn"):
            context = multiprocessing.get_context(method)
            queue = context.Queue()
            process = context.Process(target=read, args=(self.d, "a", queue))
            process.start()
            self.assertEqual(queue.get(timeout=60), 3)
            process.join()

    def test_with_does_not_end_it(self):
        with self.d as same:
            self.assertIs(same, self.d)
        self.d["a"] = 1
        self.assertEqual(self.d["a"], 1)


class Making(unittest.TestCase):
    def test_the_signature_is_dragon_s(self):
        have = list(inspect.signature(DDict).parameters.values())
        self.assertEqual([p.name for p in have if p.kind is p.POSITIONAL_OR_KEYWORD], ["managers_per_node", "n_nodes", "total_mem"])
        self.assertEqual({p.name for p in have if p.kind is p.KEYWORD_ONLY},
                         {"working_set_size", "wait_for_keys", "wait_for_writers", "policy", "managers_per_policy", "orc_policy", "persist_freq", "name", "timeout",
                          "trace", "restart", "read_only", "restore_from", "persist_count", "persist_path", "persister_class", "streams_per_manager",
                          "manager_pool_full_thresh"})

    def test_what_does_not_go_together(self):
        for error, says, options in [
                (ValueError, "working_set_size of 2", dict(wait_for_keys=True)),
                (ValueError, "1 or more", dict(working_set_size=0)),
                (ValueError, "persist_freq", dict(persist_freq=-1)),
                (ValueError, "persist_count", dict(persist_count=-2)),
                (AttributeError, "persister_class", dict(persist_freq=2)),
                (AttributeError, "name", dict(restore_from=2)),
                (AttributeError, "restore_from", dict(read_only=True, name="x")),
                (AttributeError, "written", dict(read_only=True, name="x", restore_from=1, working_set_size=2)),
                (AttributeError, "name=", dict(persister_class=PosixCheckpointPersister)),
                (ValueError, "dfuse", dict(persister_class=dragon.DAOSCheckpointPersister, name="x")),
                (ValueError, "restore_from", dict(restart=True, name="x")),
                (ValueError, "None", dict(policy=[Policy()])),
                (DDictUnableToCreateError, "one node", dict(n_nodes=2)),
                (AttributeError, "n_nodes", dict(n_nodes=None))]:
            with self.subTest(options=options), self.assertRaisesRegex(error, says):
                DDict(**{"managers_per_node": 1, **options})
        self.assertRaisesRegex(DDictUnableToCreateError, "first n", DDict, None, None, MEM,
                               policy=[Policy(placement=Policy.Placement.HOST_NAME, host_name="elsewhere")])

    def test_it_ends_at_once_and_for_all(self):
        d = DDict(1, 1, MEM, timeout=20)
        other, late = DDict.attach(d.serialize()), DDict.attach(d.serialize())
        begin = time.monotonic()
        other.destroy()
        self.assertLess(time.monotonic() - begin, 4)
        late.destroy()
        d.destroy()
        self.assertRaisesRegex(ValueError, "detached", late.__len__)

    def test_a_handle_of_a_manager_is_detached_alone(self):
        d = DDict(2, 1, MEM, timeout=20)
        self.addCleanup(d.destroy)
        m = d.manager(1)
        m["a"] = 1
        self.assertEqual(([s.manager_id for s in m.stats], list(m.dstats)), ([1], [1]))
        m.detach()
        self.assertRaisesRegex(ValueError, "detached", m.__getitem__, "a")
        self.assertEqual((len(d), d.manager(1)["a"]), (len(list(d)), 1))

    def test_errors_name_dragon_s_arguments(self):
        self.assertRaisesRegex(DDictUnableToCreateError, "^total_mem of 1.0 PiB", DDict, 1, 1, 1 << 50)
        from ddict.dragon.data.ddict.errors import said
        self.assertEqual(said("give it more memory (--ddict-mem) or --nodes=2, --mem-x, --persist"), "give it more memory (total_mem) or n_nodes=2, --mem-x, persist_path")

    def test_a_policy_for_each_manager(self):
        policies = dragon.System().hostname_policies() * 2
        d = DDict(None, None, MEM, policy=policies)
        try:
            self.assertEqual(d.local_managers, [0, 1])
            with self.assertRaisesRegex(NotImplementedError, "persist"):
                d.destroy(allow_restart=True)
        finally:
            d.destroy()

    def test_small_memory_is_enough(self):
        d = DDict()
        d["a"] = 1
        self.assertEqual(d["a"], 1)
        d.destroy()
        self.assertRaisesRegex(ValueError, "detached", d.__getitem__, "a")


class Paths(unittest.TestCase):
    def test_dragon_s_modules(self):
        for module, names in {
                "data.ddict": "DDict DDictError PosixCheckpointPersister", "data.ddict.ddict": "DDict DDictManagerStats FilterContextManager",
                "native.machine": "System Node current", "native.process": "Process ProcessTemplate Popen", "native.process_group": "ProcessGroup DragonUserCodeError",
                "native.queue": "Queue", "globalservices.node": "get_list query", "infrastructure.parameters": "this_process",
                "ai.collective_group": "CollectiveGroup RankInfo", "native.barrier": "Barrier BrokenBarrierError", "native.lock": "Lock", "native.event": "Event",
                "native.semaphore": "Semaphore", "infrastructure.policy": "Policy", "mp": "Pool"}.items():
            exec(f"from ddict.dragon.{module} import {', '.join(names.split())}", {})
        self.assertRaisesRegex(AttributeError, "from-dragon", getattr, dragon, "Nothing")
        self.assertIn("DDict", dir(dragon))

    def test_importing_it_is_quick(self):
        code = "import sys, ddict; before = set(sys.modules); import ddict.dragon; print(set(sys.modules) - before); sys.exit(any(m in set(sys.modules) - before for m in ('multiprocessing', 'torch', 'subprocess')))"
        self.assertEqual(subprocess.run([sys.executable, "-c", code]).returncode, 0)

    def test_policies(self):
        inner = Policy(gpu_affinity=[1])
        with Policy(placement=Policy.Placement.HOST_NAME, host_name="n1"):
            with Policy(cpu_affinity=[0]):
                from ddict.dragon.infrastructure.policy import current
                found = current(inner)
        self.assertEqual((found.host(), found.cpu_affinity, found.gpu_affinity), ("n1", [0], [1]))
        self.assertEqual(Policy.from_sdict(found.get_sdict()), found)
        self.assertIsNone(current().host())
        self.assertEqual(Policy(placement=Policy.Placement.LOCAL).host(), dragon.Node().hostname)
        system = dragon.System()
        self.assertEqual((system.nnodes, len(system.nodes), system.primary_node.hostname), (1, 1, dragon.Node().hostname))
        from ddict.dragon.globalservices.node import get_list, query
        self.assertEqual([query(i).host_name for i in get_list()], [dragon.Node().hostname])
        self.assertEqual((query(os.uname().nodename).h_uid, query("0").h_uid), (0, 0))
        self.assertRaisesRegex(ValueError, "no node elsewhere", query, "elsewhere")
        self.assertEqual(dragon.Node(0).num_cpus, len(os.sched_getaffinity(0)))
        self.assertRaisesRegex(ValueError, "no node elsewhere in this job", lambda: dragon.Node("elsewhere").num_cpus)


if __name__ == "__main__":
    unittest.main()
