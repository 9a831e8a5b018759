# SPDX-License-Identifier: Apache-2.0
"""py_side.py KIND SOCKET [N] - one side of a Python row, in its own process and interpreter.

peers.py sends orders through the socket, one JSON object per line, and gets one back: {"op": "load", "keys": 4096, "len": 1024, "array": false} or
{"op": "get", "seconds": 0.2} -> {"n": 3000, "ns": 200000000, "cpu": 190000000}. Values that are read are touched: bytes are searched to their
end, arrays are summed. Views are not touched.
"""
import json
import os
import random
import socket
import sys
import time


def value(index, length, array):
    if array:
        import numpy
        return numpy.full(length // 4, index, dtype=numpy.float32)
    return (b"%015d." % index) * (length // 16)


class Side:
    """The base of all sides; a side defines get_one, put_one, and further methods if its store has them."""

    def __init__(self, n):
        self.keys, self.values = [], []

    def load(self, order):
        count = min(order["keys"], 64)
        self.keys = ["key-%012d" % i for i in range(order["keys"])]
        self.values = [value(i, order["len"], order["array"]) for i in range(count)]
        self.array = order["array"]
        step = 8 if self.array else 256
        for at in range(0, len(self.keys), step):
            self.put_batch([(k, self.values[(at + i) % count]) for i, k in enumerate(self.keys[at:at + step])])
        random.seed(1)

    def put_batch(self, pairs):
        for k, v in pairs:
            self.put_one(k, v)

    def view_one(self, k):
        return self.get_one(k)

    def freeze(self, on):
        pass

    def end(self):
        pass

    def calls(self, op, block):
        """Call op for each key of block, and do nothing else, so that the calls can be timed."""
        get, put, view = self.get_one, self.put_one, self.view_one
        if op == "put_many":
            self.put_batch(block)
        elif op == "put":
            for k, v in block:
                put(k, v)
        elif op == "view":
            for k in block:
                view(k)
        elif op == "get_untouched":
            for k in block:
                get(k)
        elif self.array:
            for k in block:
                get(k).sum()
        else:
            for k in block:
                get(k).count(b"z")

    def run(self, order):
        op, puts = order["op"], order["op"].startswith("put")
        size = 256 if op == "put_many" and not self.array else order.get("piece", 1)
        n = ns = cpu = 0
        if op == "get_frozen":
            self.freeze(True)
        while ns < order["seconds"] * 1e9:
            block = random.choices(self.keys, k=size)
            if puts:
                block = [(k, self.values[(n + i) % len(self.values)]) for i, k in enumerate(block)]
            began, used = time.perf_counter_ns(), time.thread_time_ns()
            self.calls(op, block)
            ns += time.perf_counter_ns() - began
            cpu += time.thread_time_ns() - used
            n += size
        if op == "get_frozen":
            self.freeze(False)
        return {"n": n, "ns": ns, "cpu": cpu}


class Ours(Side):
    def __init__(self, n):
        super().__init__(n)
        import ddict
        self.d = ddict.attach()
        self.put_one, self.get_one, self.put_batch = self.d.__setitem__, self.d.__getitem__, self.d.put_many

    def view_one(self, k):
        return self.d.view(k).load()


class Dict(Side):
    def __init__(self, n):
        super().__init__(n)
        self.d = {}
        self.get_one = self.d.__getitem__

    def put_one(self, k, v):
        self.d[k] = v.copy() if self.array else bytes(bytearray(v))  # each key has its own copy, as in all stores


class Shared(Side):
    """multiprocessing.shared_memory with a plain dict of offsets, as people write it by hand. One writer, no lock."""

    def load(self, order):
        from multiprocessing import shared_memory
        self.end()
        self.len, self.at = order["len"], {}
        self.m = shared_memory.SharedMemory(create=True, size=order["keys"] * order["len"])
        super().load(order)

    def put_one(self, k, v):
        at = self.at.setdefault(k, len(self.at) * self.len)
        self.m.buf[at:at + self.len] = memoryview(v).cast("B") if self.array else v

    def get_one(self, k):
        at = self.at[k]
        if self.array:
            import numpy
            return numpy.frombuffer(self.m.buf[at:at + self.len], dtype=numpy.float32).copy()
        return bytes(self.m.buf[at:at + self.len])

    def end(self):
        if hasattr(self, "m"):
            self.m.close()
            self.m.unlink()
            del self.m


class Manager(Side):
    def __init__(self, n):
        super().__init__(n)
        import multiprocessing
        self.manager = multiprocessing.Manager()
        self.d = self.manager.dict()
        self.put_one, self.get_one, self.put_batch = self.d.__setitem__, self.d.__getitem__, self.d.update

    def end(self):
        self.manager.shutdown()


class Dragon(Side):
    """Dragon's dictionary, started by the `dragon` launcher, with n managers on this node."""

    def __init__(self, n):
        super().__init__(n)
        import dragon  # noqa: F401
        import multiprocessing
        from dragon.data.ddict import DDict
        multiprocessing.set_start_method("dragon")
        self.d = DDict(n, 1, 512 << 20)
        self.put_one, self.get_one = self.d.__setitem__, self.d.__getitem__

    def put_batch(self, pairs):
        self.d.start_batch_put()
        for k, v in pairs:
            self.put_one(k, v)  # does not wait; bput() would send the value to every manager
        self.d.end_batch_put()

    def freeze(self, on):
        self.d.freeze() if on else self.d.unfreeze()

    def end(self):
        self.d.destroy()


class Ray(Side):
    """Ray's object store, with a dict of its references."""

    def __init__(self, n):
        super().__init__(n)
        import ray
        ray.init(num_cpus=1, include_dashboard=False, object_store_memory=512 << 20, log_to_driver=False, logging_level="error", configure_logging=False)
        self.ray, self.at = ray, {}

    def put_one(self, k, v):
        self.at[k] = self.ray.put(v)

    def get_one(self, k):
        return self.ray.get(self.at[k])

    def end(self):
        self.ray.shutdown()


class Epoch(Side):
    """A pass of torch's DataLoader over samples of 784 bytes and a label, in random batches of 64."""

    BATCH = 64

    def __init__(self, n):
        super().__init__(n)
        import torch
        import torch.utils.data
        torch.set_num_threads(1)
        self.torch = torch

    def load(self, order):
        torch = self.torch
        torch.manual_seed(1)
        count = order["keys"]
        images, labels = torch.randint(256, (count, order["len"]), dtype=torch.uint8), torch.arange(count) % 10
        self.count, self.sum = count, int(labels.sum())
        self.set_make(torch.utils.data.TensorDataset(images, labels))

    def set_make(self, data):
        self.data = data

    def batches(self):
        return self.torch.utils.data.DataLoader(self.data, batch_size=self.BATCH, shuffle=True)

    def whole(self):
        """Whole batches: for a data set that takes a list of indices."""
        data = self.torch.utils.data
        return data.BatchSampler(data.RandomSampler(self.data), self.BATCH, False)

    def run(self, order):
        n = ns = cpu = 0
        while ns < order["seconds"] * 1e9:
            began, used, seen = time.perf_counter_ns(), time.thread_time_ns(), 0
            for images, labels in self.batches():
                seen += int(labels.sum())
                n += len(images)
            if seen != self.sum:
                raise ValueError("an epoch had other samples")
            ns += time.perf_counter_ns() - began
            cpu += time.thread_time_ns() - used
        return {"n": n, "ns": ns, "cpu": cpu}


class WholeEpoch(Epoch):
    def batches(self):
        return self.torch.utils.data.DataLoader(self.data, batch_size=None, sampler=self.whole())


class OurEpoch(Epoch):
    def set_make(self, data):
        import ddict.torch
        self.data = ddict.torch.DDictDataset(((image, int(label)) for image, label in data), name="peers")

    def batches(self):
        import ddict.torch
        return ddict.torch.DataLoader(self.data, batch_size=self.BATCH, shuffle=True)  # torch 1.13 and later fetch a batch by __getitems__

    def end(self):
        if hasattr(self, "data"):
            self.data.stop()


def serve(kind, path, n):
    side = {"epoch": Epoch, "whole_epoch": WholeEpoch, "our_epoch": OurEpoch, "ddict": Ours, "dict": Dict, "shared_memory": Shared, "manager": Manager, "dragon": Dragon, "ray": Ray}[kind](n)
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        orders = s.makefile("r")
        s.sendall(json.dumps({"python": sys.version.split()[0], "pid": os.getpid()}).encode() + b"\n")
        try:
            for line in orders:
                order = json.loads(line)
                reply = side.load(order) if order["op"] == "load" else side.run(order)
                s.sendall(json.dumps(reply).encode() + b"\n")
        finally:
            side.end()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1)
