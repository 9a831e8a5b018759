#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""seeds.py - write the seeds of the fuzz targets whose input is not text, into corpus/ beside this file."""
import os
import struct

CORPUS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "corpus")
PUT, GET, DEL, CLEAR, LEN, KEYS, STATS, CANCEL, DATA, REPLY = 2, 3, 6, 7, 8, 9, 10, 11, 12, 17
WAIT, STREAM, LAST = 4, 8, 16


def seed(target, name, data):
    folder = os.path.join(CORPUS, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def message(kind, payload=b"", flags=0, number=1, key=0, value=0, aux=0):
    """struct msg of runtime/wire/msg.h, and its payload"""
    return struct.pack("<IHHQiIQQQIB3xII", 64 + len(payload), kind, flags, number, 0, key, value, aux, 0, 0, 0, 0, 0) + payload


def conn():
    proved, changed, parts, pauses, sealed = 1, 2, 4, 8, 16
    some = (message(PUT, b"keyvalue", key=3, value=5) + message(GET, b"key", key=3, number=2) + message(LEN) +
            message(DATA, b"x" * 100, LAST, 4) + message(REPLY, b"answer"))
    seed("conn", "messages", bytes([proved, 0]) + some)
    seed("conn", "bytes", bytes([proved, 1]) + message(GET, b"key", key=3) * 2)
    seed("conn", "parts", bytes([proved | parts | pauses, 50]) + some + some)
    seed("conn", "stranger", bytes([0, 7]) + b"DDHDDITP" + bytes(80))
    seed("conn", "changed", bytes([proved | changed, 0]) + bytes(87) + b"\1")
    seed("conn", "unchanged", bytes([proved | changed, 0]) + bytes(88 + 32) + some)
    seed("conn", "sealed", bytes([proved | sealed, 0]) + struct.pack("<I", 32) + bytes(64))
    seed("conn", "long", bytes([proved, 0]) + struct.pack("<I", 0xffffffff) + bytes(60))


def dump():
    def pad(data):
        return data + bytes(-len(data) % 8)

    def item(key, value, tag=7):
        return struct.pack("<IIQIIQQ", 0x4d544944, len(key), len(value), tag, 0, 0, 0) + pad(key) + pad(value)

    items = item(b"skey", b"value") + item(b"k" * 30, b"") + item(b"x", b"y" * 64)
    seed("dump", "right", b"\1" + bytes(64) + items + bytes(32))
    seed("dump", "empty", b"\1" + bytes(64) + bytes(32))
    seed("dump", "wrong", b"\0" + b"ddictdmp" + struct.pack("<II", 1, 0) + bytes(8) + b"0123456789abcde\0" + bytes(24) + items + bytes(32))
    seed("dump", "short", b"\1" + bytes(64) + items[:90] + bytes(32))


def node_info():
    def info(node, head=b"", addresses=b"", n=0, ports=(1111, 2222), name=b"n1", error=b"", provider=b""):
        return (struct.pack("<QIIHHBBBBB", 0x3544524143444444, node, 7, len(ports), 3333, n, len(name), len(error), bool(head), len(provider)) +
                bytes(range(32)) + head + addresses + b"".join(struct.pack("<H", p) for p in ports) + name + error + provider)

    four, six = b"\4\x7f\0\0\1", b"\6" + bytes(15) + b"\1" + bytes(4)
    seed("node_info", "two", b"\2" + info(2, addresses=four + six, n=2))
    seed("node_info", "head", b"\0" + info(0, head=bytes(16) + bytes(32), addresses=four, n=1, provider=b"tcp;ofi_rxm"))
    seed("node_info", "exists", b"\0" + info(0, head=bytes(16) + bytes(16) + struct.pack("<IIQ", 1, 1, 9)))
    seed("node_info", "error", b"\1" + info(1, error=b"no memory"))


def rendezvous():
    def said(what, source, node, port, step):
        return bytes([what, source, node]) + struct.pack("<H", port) + bytes([len(step)]) + step

    seed("rendezvous", "hear", b"\0" + said(3, 1, 1, 0, b"12.3") + said(1, 2, 2, 4000, b"12.3") + said(3, 3, 3, 0, b"12.3"))
    seed("rendezvous", "ask", b"\1" + said(0, 1, 0, 0, b"12.batch") + said(1, 0, 0, 5000, b"12.batch") + said(0, 2, 0, 0, b"12.batch"))
    seed("rendezvous", "wrong", b"\0" + said(1, 1, 7, 1, b"12.3") + said(1, 1, 1, 1, b"../x") + said(0, 1, 0, 0, b"12 3"))


def key():
    part = struct.pack("<I", 2)
    seed("key", "tuple", b"t" + part + b"sx" + part + b"i7")
    seed("key", "bytes", b"b\0\xff\x1b[1m")
    seed("key", "array", (b"\1\0\2\0" + b"<f4".ljust(12, b"\0") + struct.pack("<QQ", 2, 3)).ljust(64, b"\0") + bytes(24))


def gpu():
    gpus = b"".join(struct.pack("<iiii16s48s", 0, 1, i, 1, b"0000:84:00.0", b"GPU-%d" % i) for i in range(2))
    seed("gpu", "two", b"\2" + struct.pack("<ii", 2, 2) + gpus)
    seed("gpu", "many", b"\0" + struct.pack("<ii", 65, 0))
    seed("gpu", "list", b"0-7,16,4095")
    seed("gpu", "tasks", b"quiet,mask_cpu: 0x0f,0xf0")
    seed("gpu", "map", b"verbose,map_cpu: 0,1,2*3")


if __name__ == "__main__":
    for make in (conn, dump, gpu, key, node_info, rendezvous):
        make()
