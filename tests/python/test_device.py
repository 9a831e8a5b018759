# SPDX-License-Identifier: Apache-2.0
"""
ddict.torch.register() and get_to() before a stand-in for CUDA that notes what it is asked. This is our half only: which memory is named to CUDA, how, and that a
refusal does no harm. No GPU was at hand: that CUDA takes such memory, and that copies from it are right and faster, is not shown here.
"""

import mmap
import re
import unittest
import warnings
from unittest import mock

from harness import DictTest, module_or_skip

READ_ONLY = 8        # cudaHostRegisterReadOnly: CUDA wants it for memory that the process has mapped read-only
REFUSED = 801        # cudaErrorNotSupported
MIB = 1 << 20


class Cudart:
    """cudaHostRegister() with CUDA's rules: nothing of it may be registered already, and only the start of a range is taken back."""

    def __init__(self, takes=1 << 30):
        self.ranges, self.flags, self.takes, self.calls, self.last = {}, set(), takes, 0, 0

    def cudaHostRegister(self, address, size, flags):
        self.calls += 1
        if self.takes <= 0 or size <= 0 or any(address < a + n and a < address + size for a, n in self.ranges.items()):
            self.last = REFUSED
            return REFUSED
        self.takes -= 1
        self.flags.add(flags)
        self.ranges[address] = size
        return 0

    def cudaHostUnregister(self, address):
        return 0 if self.ranges.pop(address, None) else REFUSED

    def ones(self, *args, **kwds):
        """A kernel of torch: it takes the thread's last error for its own"""
        last, self.last = self.last, 0
        if last:
            raise RuntimeError(f"CUDA error {last}")


class Event:
    over = False

    def record(self):
        pass

    def query(self):
        return Event.over


def arenas():
    with open("/proc/self/maps") as f:
        return [tuple(int(x, 16) for x in m) for m in re.findall(r"^(\w+)-(\w+) r--s .*ddict-arena", f.read(), re.MULTILINE)]


class Device(DictTest):
    @classmethod
    def setUpClass(cls):
        cls.torch = module_or_skip("torch")
        super().setUpClass()

    def setUp(self):
        super().setUp()
        from ddict.torch import device
        self.device = device
        self.addCleanup(device._registered.clear)

    def cuda(self, cudart):
        cuda = self.torch.cuda
        for patch in (mock.patch.object(cuda, "is_available", lambda: True), mock.patch.object(cuda, "init", lambda: None),
                      mock.patch.object(cuda, "cudart", lambda: cudart), mock.patch.object(cuda, "Event", Event),
                      mock.patch.object(self.torch, "ones", cudart.ones)):
            patch.start()
            self.addCleanup(patch.stop)
        return cudart

    def fill(self, what):
        for i in range(8):
            self.d[what, i] = bytes(6 * MIB)

    def test_what_is_registered_is_the_managers_memory_once(self):
        cudart, before = self.cuda(Cudart()), 30 * MIB
        for turn in range(4):  # the managers have more pages by and by
            self.fill(turn)
            now = self.device.register(self.d)
            self.assertGreaterEqual(now, before)
            self.assertEqual((sum(cudart.ranges.values()), cudart.flags, len(cudart.ranges)), (now, {READ_ONLY}, cudart.calls))  # none was refused
            before = now
        maps = arenas()
        for address, size in cudart.ranges.items():
            self.assertEqual((address % mmap.PAGESIZE, size % mmap.PAGESIZE), (0, 0))
            self.assertTrue(any(low <= address and address + size <= high for low, high in maps), (address, size, maps))
        self.device.unregister()
        self.assertEqual((cudart.ranges, self.device._registered, cudart.last), ({}, {}, 0))
        self.assertGreaterEqual(self.device.register(self.d), before)

    def test_memory_that_grows_around_what_is_registered(self):
        cudart = self.cuda(Cudart())
        low = arenas()[0][0]
        for there in ([(2, 1), (5, 1)], [(1, 3)], [(0, 5), (5, 3)], [(0, 9)], [(0, 9)]):
            with mock.patch.object(self.device, "_arenas", lambda: iter([(low, 9 * MIB)])), \
                    mock.patch.object(self.device, "_filled", lambda *arena: iter([(low + a * MIB, n * MIB) for a, n in there])):
                self.device.register(self.d)
            for a, n in there:
                covered = sum(max(0, min(at + size, low + (a + n) * MIB) - max(at, low + a * MIB)) for at, size in cudart.ranges.items())
                self.assertEqual(covered, n * MIB)
        self.assertEqual((len(cudart.ranges), cudart.calls, sum(cudart.ranges.values())), (8, 8, 9 * MIB))

    def test_a_refusal_is_a_warning_and_no_more(self):
        low = arenas()[0][0]
        pieces = [(low + i * 4 * MIB, 2 * MIB) for i in range(4)]
        for takes in (0, 2):
            cudart = self.cuda(Cudart(takes))
            self.device._registered.clear()
            with mock.patch.object(self.device, "_arenas", lambda: iter([(low, 16 * MIB)])), \
                    mock.patch.object(self.device, "_filled", lambda *arena: iter(pieces)), warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                self.assertEqual(self.device.register(self.d), takes * 2 * MIB)
            self.assertEqual([str(w.message) for w in said],
                             [f"CUDA does not register the dictionary's memory (error {REFUSED}): copies go through pinned memory"])
            self.assertEqual((cudart.calls, cudart.last), (takes + 1, 0))  # none was tried behind it, and torch's next kernel does not fail for it
            self.device.unregister()
            self.assertEqual(cudart.ranges, {})

    def test_a_value_stays_until_it_is_copied(self):
        self.cuda(Cudart())
        Event.over = False
        self.addCleanup(self.device._under_way.clear)
        old, maps = self.torch.arange(3 * MIB).to(self.torch.uint8), arenas()
        self.d["t"] = old

        def to(value, device):
            self.assertEqual(str(device), "cuda:0")
            self.assertTrue(any(low <= value.data_ptr() < high for low, high in maps))  # in place, not a copy
            return value

        with mock.patch.object(self.device, "_to", to):
            under_way = self.device.get_to("t", "cuda:0", self.d)
            self.d["t"] = self.torch.zeros(3 * MIB, dtype=self.torch.uint8)
            self.fill("others")
            self.assertEqual(int(self.device.get_to("t", "cuda:0", self.d).sum()), 0)
            self.assertTrue(self.torch.equal(under_way, old))
            self.assertEqual(len(self.device._under_way), 2)
            del under_way
            Event.over = True
            self.device.get_to("t", "cuda:0", self.d)
        self.assertEqual(len(self.device._under_way), 1)


if __name__ == "__main__":
    unittest.main()
