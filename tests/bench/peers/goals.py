# SPDX-License-Identifier: Apache-2.0
"""The rows and their goals. A goal is (text, bound, result), where the result is a function of the row's figures.

served("redis") gives for each repetition redis' time for an operation divided by ours: 50 is fifty times as fast. Reads in place neither wait nor make
system calls, so they are compared by the processor time of the reading thread (field "cpu"): on an idle machine that is the elapsed time, on a busy one
it leaves out the time of other processes. Operations that wait for another process are compared by elapsed time.
"""
from collections import namedtuple
from statistics import median


class Figures:
    def __init__(self, row):
        self.row, self.sides, self.notes = row, row["sides"], row["notes"]

    def ratios(self, peer, ours="ddict", field="ns", our_field=None):
        """The ratio of each repetition."""
        if peer not in self.sides or ours not in self.sides:
            return None
        return [p / o for p, o in zip(self.sides[peer][field], self.sides[ours][our_field or field]) if o > 0]

    def values(self, side, field="ns"):
        return self.sides[side][field] if side in self.sides else None


def ratio(peer, ours="ddict", field="ns"):
    return lambda f: f.ratios(peer, ours, field)


def served(peer):
    """A server's answer by elapsed time against our read in place by processor time: the server has to be waited for, our read does not wait."""
    return lambda f: f.ratios(peer, "ddict", "ns", "cpu")


def rate(side="ddict"):
    return lambda f: [1e9 / v for v in f.values(side)] if f.values(side) else None


def level(side="ddict", field="p50", scale=1e-3):
    return lambda f: [v * scale for v in f.values(side, field)] if f.values(side, field) else None


def note(name):
    return lambda f: [f.notes[name]] if name in f.notes else None


def inverse(values):
    return [1 / v for v in values] if values else None


def awake(f):
    """Compare with the fastest round trip of the run, because two spinning processes are slow when other processes want their cores."""
    put, trip = f.values("ddict", "p50"), f.values("spinning round trip", "p50")
    return [p / max(1500, 10 * min(trip)) for p in put]


def dragons(f):
    return {side: f.ratios(side, "ddict, beside 4" if side.startswith("dragon 4") and "ddict, beside 4" in f.sides else "ddict")
            for side in f.sides if side.startswith("dragon")}


def best(f):
    """Dragon's best setting is the one with our lowest ratio; each setting is compared with our turns of the same pass."""
    return min(dragons(f).values(), key=median, default=None)


def best_name(f):
    """The best setting's number of managers, and whether it was frozen."""
    found = dragons(f)
    words = min(found, key=lambda side: median(found[side])).split()[1:] if found else []
    return " (%s manager%s%s)" % (words[0], "" if words[0] == "1" else "s", ", frozen" if "frozen" in words else "") if words else ""


def scaling(f):
    """Our gain by a second client, divided by that of the hash table: processor time per operation with one client by that with two."""
    one, two, t1, t2 = (f.values(side, "cpu") for side in ("ddict", "ddict, two", "table", "table, two"))
    return [(a / b) / (c / d) for a, b, c, d in zip(one, two, t1, t2)]


# name: (what, kind, [(goal's text, "least" or "most", bound, how, unit)])
ROWS = {
    "view": ("local view, touch, release, 1 KiB, set much larger than the caches", "local", [
        ("of the hash table's speed", "least", 0.85, ratio("table", field="cpu"), "×"),
        ("of LMDB's speed", "least", 2, ratio("lmdb", field="cpu"), "×"),
        ("of Redis' speed, one at a time", "least", 50, served("redis"), "×"),
        ("of memcached's speed, one at a time", None, None, served("memcached"), "×")]),
    "view_cached": ("the same, a set that fits the cache", "local", [
        ("of the hash table's time", "most", 2, lambda f: inverse(f.ratios("table", field="cpu")), "×")]),
    "get_many": ("local get_many (views) of 32, 1 KiB", "local", [
        ("of the hash table's speed with prefetching", "least", 0.85, ratio("table", field="cpu"), "×"),
        ("of LMDB's speed, 32 in one transaction", None, None, ratio("lmdb", field="cpu"), "×"),
        ("of Redis' speed, 32 in one write", "least", 15, served("redis"), "×"),
        ("of memcached's speed, 32 in one request", None, None, served("memcached"), "×")]),
    "put": ("acknowledged put, 1 KiB, back to back", "local", [
        ("of Redis' rate, one at a time", "least", 10, ratio("redis"), "×"),
        ("of LMDB's rate, a transaction each", None, None, ratio("lmdb"), "×"),
        ("of memcached's rate, one at a time", None, None, ratio("memcached"), "×")]),
    "put_awake": ("acknowledged put, 1 KiB, manager awake", "local", [
        ("p50", None, None, level(), "µs"),
        ("p50, of the larger of 1.5 µs and ten spinning round trips", "most", 1, awake, "×")]),
    "put_asleep": ("acknowledged put, 1 KiB, manager asleep", "local", [
        ("p50, of a futex round trip across cores", "most", 1.2, lambda f: inverse(f.ratios("futex round trip", field="p50")), "×")]),
    "put_many": ("put_many of 512, 1 KiB", "local", [
        ("of LMDB's rate, 512 in one transaction", "least", 2, ratio("lmdb"), "×"),
        ("pairs a second", "least", 1e6, rate(), "/s"),
        ("of Redis' rate, 512 in one write", None, None, ratio("redis"), "×")]),
    "memory": ("memory of a pair of a 16-byte key and 1 KiB", "local", [
        ("bytes", "most", 1152, note("bytes_of_a_pair"), "B")]),
    "two": ("two clients viewing together, 1 KiB", "local", [
        ("of the hash table's own scaling", "least", 0.95, scaling, "×")]),
    "put_16m": ("put of 16 MiB", "local", [
        ("of memcpy's speed", "least", 0.7, ratio("table"), "×"),
        ("of Redis' speed", None, None, ratio("redis"), "×"),
        ("GB a second", None, None, lambda f: [(16 << 20) / v for v in f.values("ddict")], "GB/s")]),
    "get_16m": ("get of 16 MiB by copy", "local", [
        ("of memcpy's speed", "least", 0.7, ratio("table"), "×"),
        ("of Redis' speed", None, None, ratio("redis"), "×"),
        ("GB a second", None, None, lambda f: [(16 << 20) / v for v in f.values("ddict")], "GB/s")]),
    "place_16m": ("16 MiB, made where the manager reads it (ddict_reserve, ddict_commit)", "local", [
        ("of the speed of making it elsewhere and putting it", None, None, ratio("made and put", "made in place"), "×")]),
    "view_256m": ("view of 256 MiB, untouched", "local", [
        ("of a view of 1 KiB", "most", 1.05, ratio("view of 256 MiB", "view of 1 KiB", "cpu"), "×")]),
    "remote_1k": ("remote get, 1 KiB, one at a time", "remote", [
        ("p50, of a raw TCP round trip", "most", 1.6, ratio("ddict", "raw TCP", "p50"), "×"),
        ("p50", None, None, level(), "µs"),
        ("of Redis' speed over the same link", None, None, ratio("redis over TCP", field="p50"), "×")]),
    "remote_many": ("remote get_many of 256, 1 KiB", "remote", [
        ("a second, one client", "least", 150000, rate(), "/s"),
        ("of Redis' rate, 256 in one write", None, None, ratio("redis over TCP"), "×"),
        ("of a raw TCP stream's bandwidth", None, None, ratio("raw TCP"), "×")]),
    "remote_1m": ("remote get, 1 MiB, each node on cores of its own", "remote", [
        ("of a raw TCP stream's bandwidth", "least", 0.85, ratio("raw TCP stream"), "×"),
        ("get_many of 8, of a raw TCP stream's bandwidth", None, None, ratio("raw TCP stream", "ddict, 8 at once"), "×"),
        ("of raw TCP, one at a time", None, None, ratio("raw TCP"), "×"),
        ("of Redis' speed over the same link", None, None, ratio("redis over TCP"), "×")]),
    "remote_64m": ("remote get, 64 MiB, likewise", "remote", [
        ("of a raw TCP stream's bandwidth", "least", 0.85, ratio("raw TCP stream"), "×"),
        ("GB a second", None, None, lambda f: [(64 << 20) / v for v in f.values("ddict")], "GB/s"),
        ("of Redis' speed over the same link", None, None, ratio("redis over TCP"), "×")]),
    "frozen": ("view of 1 KiB of another node while frozen, by a second reader", "remote", [
        ("of the speed of a view of an own key", None, None, ratio("own keys", field="cpu"), "×")]),
    "start": ("start of two managers on two nodes, without Slurm", "start", [
        ("until ready", "most", 0.4, level("ready", "ns", 1e-9), "s"),
        ("processor time of an idle manager, a second", "most", 1, note("idle_cpu_ms_a_second"), "ms"),
        ("private memory of a manager", "most", 8, note("private_mib"), "MiB")]),
    "start_slurm": ("start of two managers on two nodes by Slurm, 16 GiB", "start", [
        ("until ready, from the start of ddictd", "most", 0.4, level("ready", "ns", 1e-9), "s"),
        ("a whole srun with it", None, None, level("srun with it", "ns", 1e-9), "s"),
        ("a whole srun without", None, None, level("srun without", "ns", 1e-9), "s"),
        ("pages populated behind it, a manager", None, None, note("populate_gb_a_second"), "GB/s")]),
    "py_get": ("Python: d[k] of 1 KiB bytes", "python", [
        ("of a dict of bytes' time", "most", 3, ratio("ddict", "dict", "cpu"), "×"),
        ("the same, bytes untouched", None, None, ratio("ddict, untouched", "dict, untouched", "cpu"), "×"),
        ("of shared_memory's speed with an index", None, None, ratio("shared_memory", field="cpu"), "×"),
        ("of Manager().dict()'s speed", None, None, served("manager"), "×")]),
    "py_put": ("Python: d[k] = 1 KiB bytes", "python", [
        ("of shared_memory's speed with an index", None, None, ratio("shared_memory"), "×"),
        ("of Manager().dict()'s speed", None, None, ratio("manager"), "×")]),
    "py_view": ("Python: view of a 1 MiB array, untouched", "python", [
        ("processor time", "most", 2, level("ddict", "cpu"), "µs")]),
    "py_array": ("Python: d[k] of a 1 MiB array", "python", [
        ("of shared_memory's speed with an index", None, None, ratio("shared_memory", field="cpu"), "×"),
        ("of Manager().dict()'s speed", None, None, ratio("manager"), "×")]),
    "py_epoch": ("Python: epoch of torch's DataLoader, 60,000 samples of 784 B, batches of 64", "epoch", [
        ("of a TensorDataset's speed", "least", 0.9, ratio("TensorDataset", field="cpu"), "×"),
        ("of one that is asked for whole batches", None, None, ratio("TensorDataset, whole batches", field="cpu"), "×"),
        ("a sample", None, None, level("ddict", "cpu"), "µs")]),
    "dragon_get": ("Dragon's DDict, 1 KiB, get", "dragon", [("of its best setting's speed", "least", 50, best, "×")]),
    "dragon_put": ("Dragon's DDict, 1 KiB, put", "dragon", [("of its best setting's speed", "least", 20, best, "×")]),
    "dragon_put_many": ("Dragon's DDict, 1 KiB, batch put", "dragon", [("of its best setting's speed", "least", 20, best, "×")]),
    "dragon_array_get": ("Dragon's DDict, 1 MiB array, get by copy", "dragon", [("of its best setting's speed", "least", 6, best, "×")]),
    "dragon_array_put": ("Dragon's DDict, 1 MiB array, put", "dragon", [("of its best setting's speed", "least", 6, best, "×")]),
    "dragon_view": ("Dragon's DDict, 1 MiB array, view beside its get", "dragon", [("of its best setting's speed", "least", 100, best, "×")]),
    "ray_get": ("Ray's object store, 1 KiB, get", "ray", [("of its speed", None, None, ratio("ray"), "×")]),
    "ray_put": ("Ray's object store, 1 KiB, put", "ray", [("of its speed", None, None, ratio("ray"), "×")]),
    "ray_array_get": ("Ray's object store, 1 MiB array, get (ours a copy, Ray's in place)", "ray", [("of its speed", None, None, ratio("ray"), "×")]),
    "ray_array_put": ("Ray's object store, 1 MiB array, put", "ray", [("of its speed", None, None, ratio("ray"), "×")]),
    "writer": ("views while a writer overwrites at full speed, 1 KiB, two cores", "local", [
        ("of their rate in quiet", "least", 0.85, ratio("ddict, quiet", "ddict, written"), "×"),
        ("p99, of that in quiet", "most", 2, ratio("ddict, written", "ddict, quiet", "p99"), "×"),
        ("the same with the hash table, rate", None, None, ratio("table, quiet", "table, written"), "×")]),
}

NAMES = list(ROWS)
KIND = {name: row[1] for name, row in ROWS.items()}


# mid is None if a peer is missing
Result = namedtuple("Result", "text direction bound unit mid low high best reached")


def results(name, row):
    """
    For each goal a Result. Its `best` compares the fastest repetition of each side: on a busy machine, the one with the least disturbance.
    """
    fastest = dict(row, sides={side: {k: [min(v)] if isinstance(v, list) else v for k, v in f.items()} for side, f in row["sides"].items()})
    for text, direction, bound, how, unit in ROWS[name][2]:
        values = how(Figures(row))
        if not values:
            yield Result(text, direction, bound, unit, None, None, None, None, None)
            continue
        mid = median(values)
        reached = None if direction is None else mid >= bound if direction == "least" else mid <= bound
        text += best_name(Figures(row)) if how is best else ""
        yield Result(text, direction, bound, unit, mid, min(values), max(values), how(Figures(fastest))[0], reached)
