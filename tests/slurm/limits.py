# SPDX-License-Identifier: Apache-2.0
"""limits.py WORD [VALUE]... - what a task does while somebody changes its job's memory limit; one step after the other.

put N     put N values of 1 MiB
full      put such values until the dictionary has no room; says how many there are and the error
check     all values are there, and no other
mark F    make the file F; wait F: until it is there, 720 s
use SEC   put and get small values for so long; says the slowest call
"""
import os
import sys
import time

import ddict

d = ddict.attach()
n = 0


def value(i):
    return bytes([i % 251]) * (1 << 20)


def put(count):
    global n
    for _ in range(int(count)):
        d["big", n] = value(n)
        n += 1


def full():
    try:
        put(10000)
    except ddict.FullError as e:
        print(f"full at {n}: {e}", flush=True)


def check():
    wrong = [i for i in range(n) if bytes(d["big", i]) != value(i)]
    print(f"checked {n}: {'no error' if not wrong else wrong}", flush=True)


def mark(name):
    with open(name, "w"):
        pass


def wait(name):
    end = time.monotonic() + 720
    while not os.path.exists(name):
        if time.monotonic() > end:
            sys.exit(f"{name} never came")
        time.sleep(0.1)


def use(seconds):
    slowest, end, rounds = 0.0, time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        begin = time.monotonic()
        d["small", rounds % 64] = bytes(1000)
        if len(d["small", rounds % 64]) != 1000:
            sys.exit("another value")
        slowest = max(slowest, time.monotonic() - begin)
        rounds += 1
        time.sleep(0.01)
    print(f"used {rounds > 0}: slowest {slowest:.1f} s", flush=True)


words = sys.argv[1:]
while words:
    word = words.pop(0)
    args = [] if word in ("full", "check") else [words.pop(0)]
    {"put": put, "full": full, "check": check, "mark": mark, "wait": wait, "use": use}[word](*args)
