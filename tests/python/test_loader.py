# SPDX-License-Identifier: Apache-2.0
"""
torch's DataLoader with 4 workers reads a dictionary in random order for three epochs while another process overwrites the
values. Every value read is one that was put, whole: it carries its key, the number of its put and a checksum of it all.
"""

import multiprocessing
import sys
import unittest
import zlib

from harness import DictTest, module_or_skip

KEYS = 300
ELEMENTS = 2000
EPOCHS = 3  # at least, and until the writer has overwritten all values so often:
TURNS = 10


def sample(torch, key, turn):
    """A tensor that says what it is: a seed, a payload that follows from it, and the checksum."""
    t = torch.arange(ELEMENTS + 3, dtype=torch.int64) * (key + 1) + turn * 1_000_003
    t[0], t[1] = key, turn
    t[2] = zlib.crc32(memoryview(t[3:].numpy()).cast("B"))
    return t


class Samples:
    def __init__(self, d):
        self.d = d

    def __len__(self):
        return KEYS

    def __getitem__(self, key):
        t, label = self.d["sample", key]
        if label != key or t.shape != (ELEMENTS + 3,):
            raise ValueError(f"sample {key}: label {label}, shape {t.shape}")
        if int(t[2]) != zlib.crc32(memoryview(t[3:].numpy()).cast("B")):
            raise ValueError(f"sample {key}: torn")
        return t[:2].clone(), (t[3:] - int(t[1]) * 1_000_003) // (key + 1)


def overwrite(d, stop, turns):
    import torch
    torch.set_num_threads(1)
    turn = 0
    while not stop.is_set():
        turn += 1
        for key in range(KEYS):
            d["sample", key] = (sample(torch, key, turn), key)
        turns.value = turn


class Loader(DictTest):
    @classmethod
    def setUpClass(cls):
        cls.torch = module_or_skip("torch")
        cls.torch.set_num_threads(1)
        super().setUpClass()

    def epochs(self, method):
        torch = self.torch
        import torch.utils.data
        self.d.put_many((("sample", key), (sample(torch, key, 0), key)) for key in range(KEYS))
        context = multiprocessing.get_context("fork")
        stop, turns = context.Event(), context.Value("q", 0)
        writer = context.Process(target=overwrite, args=(self.d, stop, turns))
        writer.start()
        try:
            loader = torch.utils.data.DataLoader(Samples(self.d), batch_size=10, shuffle=True, num_workers=4, multiprocessing_context=method,
                                                 persistent_workers=True)
            changed = epoch = 0
            while epoch < EPOCHS or (turns.value < TURNS and epoch < 100):
                epoch += 1
                seen = []
                for heads, payloads in loader:
                    for (key, turn), payload in zip(heads.tolist(), payloads):
                        self.assertTrue(torch.equal(payload, torch.arange(3, ELEMENTS + 3)))
                        seen.append(key)
                        changed += turn > 0
                self.assertEqual(sorted(seen), list(range(KEYS)))
            del loader
        finally:
            stop.set()
            writer.join(60)
        self.assertEqual(writer.exitcode, 0)
        self.assertGreaterEqual(turns.value, TURNS)
        self.assertGreater(changed, KEYS)
        print(f"# {method}: {turns.value} turns of the writer, {changed} of {epoch * KEYS} reads saw an overwritten value", file=sys.stderr)

    def test_fork(self):
        self.epochs("fork")

    def test_spawn(self):
        self.epochs("spawn")


if __name__ == "__main__":
    unittest.main()
