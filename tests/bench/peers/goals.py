# SPDX-License-Identifier: Apache-2.0
"""The rows, and what each is to reach. A goal is (text, bound, how far we are) with the last a function of the row's figures.

ratio("redis") gives for each repetition redis' time an operation by ours: 50 is fifty times as fast. Reads in place neither wait nor call the
system, so they are compared by the processor time of the reading thread (field "cpu"): on an idle machine that is the time on the clock, on a busy one
it leaves out what others took.
"""
from statistics import median


class Figures:
    def __init__(self, row):
        self.row, self.sides, self.notes = row, row["sides"], row["notes"]

    def ratios(self, peer, ours="ddict", field="ns"):
        """Of each repetition."""
        if peer not in self.sides or ours not in self.sides:
            return None
        return [p / o for p, o in zip(self.sides[peer][field], self.sides[ours][field]) if o > 0]

    def values(self, side, field="ns"):
        return self.sides[side][field] if side in self.sides else None


def ratio(peer, ours="ddict", field="ns"):
    return lambda f: f.ratios(peer, ours, field)


def rate(side="ddict"):
    return lambda f: [1e9 / v for v in f.values(side)] if f.values(side) else None


def level(side="ddict", field="p50", scale=1e-3):
    return lambda f: [v * scale for v in f.values(side, field)] if f.values(side, field) else None


def note(name):
    return lambda f: [f.notes[name]] if name in f.notes else None


def inverse(values):
    return [1 / v for v in values] if values else None


def awake(f):
    """The fastest round trip of the run counts: two processes that spin are slow when others want their cores."""
    put, trip = f.values("ddict", "p50"), f.values("spinning round trip", "p50")
    return [p / max(1500, 10 * min(trip)) for p in put]


def scaling(f):
    """What the second client brings us, by what it brings the table: processor time an operation alone and together."""
    one, two, t1, t2 = (f.values(side, "cpu") for side in ("ddict", "ddict, two", "table", "table, two"))
    return [(a / b) / (c / d) for a, b, c, d in zip(one, two, t1, t2)]


# name: (what, kind, [(goal's text, "least" or "most", bound, how, unit)])
ROWS = {
    "view": ("local view, touch, release, 1 KiB, set much larger than the caches", "local", [
        ("of the hash table's speed", "least", 0.85, ratio("table", field="cpu"), "×"),
        ("of LMDB's speed", "least", 2, ratio("lmdb", field="cpu"), "×"),
        ("of Redis' speed, one at a time", "least", 50, ratio("redis"), "×"),
        ("of memcached's speed, one at a time", None, None, ratio("memcached"), "×")]),
    "view_cached": ("the same, a set that fits the cache", "local", [
        ("of the hash table's time", "most", 2, lambda f: inverse(f.ratios("table", field="cpu")), "×")]),
    "get_many": ("local get_many (views) of 32, 1 KiB", "local", [
        ("of the hash table's speed with prefetching", "least", 0.85, ratio("table", field="cpu"), "×"),
        ("of LMDB's speed, 32 in one transaction", None, None, ratio("lmdb", field="cpu"), "×"),
        ("of Redis' speed, 32 in one write", "least", 15, ratio("redis"), "×"),
        ("of memcached's speed, 32 in one request", None, None, ratio("memcached"), "×")]),
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
    "instructions": ("instructions of a local view and its release (callgrind)", "local", [
        ("instructions", "most", 150, note("instructions"), "")]),
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
    "remote_1m": ("remote get, 1 MiB", "remote", [
        ("of a raw TCP stream's bandwidth", "least", 0.85, ratio("raw TCP stream"), "×"),
        ("of raw TCP, one at a time", None, None, ratio("raw TCP"), "×"),
        ("of Redis' speed over the same link", None, None, ratio("redis over TCP"), "×")]),
    "remote_64m": ("remote get, 64 MiB", "remote", [
        ("of a raw TCP stream's bandwidth", "least", 0.85, ratio("raw TCP stream"), "×"),
        ("GB a second", None, None, lambda f: [(64 << 20) / v for v in f.values("ddict")], "GB/s"),
        ("of Redis' speed over the same link", None, None, ratio("redis over TCP"), "×")]),
    "writer": ("views while a writer overwrites at full speed, 1 KiB, two cores", "local", [
        ("of their rate in quiet", "least", 0.85, ratio("ddict, quiet", "ddict, written"), "×"),
        ("p99, of that in quiet", "most", 2, ratio("ddict, written", "ddict, quiet", "p99"), "×"),
        ("the same with the hash table, rate", None, None, ratio("table, quiet", "table, written"), "×")]),
}

NAMES = list(ROWS)
KIND = {name: row[1] for name, row in ROWS.items()}


def results(name, row):
    """For each goal: (text, direction, bound, unit, median, lowest, highest, reached); median None where a peer is missing."""
    for text, direction, bound, how, unit in ROWS[name][2]:
        values = how(Figures(row))
        if not values:
            yield text, direction, bound, unit, None, None, None, None
            continue
        mid = median(values)
        reached = None if direction is None else mid >= bound if direction == "least" else mid <= bound
        yield text, direction, bound, unit, mid, min(values), max(values), reached
