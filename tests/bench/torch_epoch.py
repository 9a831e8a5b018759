# SPDX-License-Identifier: Apache-2.0
"""torch_epoch.py - measure an epoch of small images from torch's TensorDataset, from the dictionary and from files, in turn.

    ddict run --managers=2 --mem=512M -- python3 tests/bench/torch_epoch.py [--count 60000] [--rounds 7]

Prints medians of the rounds; a ratio says how many times as fast a way is as TensorDataset with torch's own collate. The dictionary's samples are
(tensor of 784 bytes, int); the files have 784 bytes each and are in the page cache.
"""
import argparse
import statistics
import tempfile
import time

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from ddict.torch import DDictDataset, collate


class Pairs(Dataset):
    def __init__(self, images, labels):
        self.images, self.labels = images, labels.tolist()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.labels[i]


class Files(Dataset):
    def __init__(self, folder, images, labels):
        self.folder, self.labels = folder, labels.tolist()
        for i, image in enumerate(images):
            with open(f"{folder}/{i}", "wb") as f:
                f.write(image.numpy().tobytes())

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        with open(f"{self.folder}/{i}", "rb") as f:
            return torch.frombuffer(bytearray(f.read()), dtype=torch.uint8).view(28, 28), self.labels[i]


def epoch(dataset, batch, workers, collate_fn):
    seen, start = 0, time.perf_counter()
    for _, labels in DataLoader(dataset, batch_size=batch, shuffle=True, num_workers=workers, collate_fn=collate_fn):
        seen += len(labels)
    if seen != len(dataset):
        raise SystemExit(f"{seen} of {len(dataset)} samples")
    return time.perf_counter() - start


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--count", type=int, default=60000)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--batch", type=int, default=64)
    args = p.parse_args()
    torch.set_num_threads(1)
    images, labels = torch.randint(0, 256, (args.count, 28, 28), dtype=torch.uint8), torch.randint(0, 10, (args.count,))
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        data = DDictDataset(Pairs(images, labels))
        print(f"torch {torch.__version__}: {args.count} images put by one process in {time.perf_counter() - start:.2f} s")
        sets = [("TensorDataset", TensorDataset(images, labels), None), ("pairs in memory", Pairs(images, labels), None),
                ("DDictDataset", data, collate), ("DDictDataset, torch's collate", data, None), ("files", Files(folder, images, labels), None)]
        for workers in (0, 2):
            times = {name: [] for name, _, _ in sets}
            for _ in range(args.rounds):
                for name, dataset, collate_fn in sets:
                    times[name].append(epoch(dataset, args.batch, workers, collate_fn))
            base = statistics.median(times["TensorDataset"])
            for name, all_ in times.items():
                print(f"{workers} workers  {name:30} {statistics.median(all_):7.3f} s ({min(all_):.3f} to {max(all_):.3f})  {base / statistics.median(all_):5.2f} x")
    data.stop()


main()
