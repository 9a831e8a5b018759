#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""seeds.py - write the seeds of the fuzz targets whose input is not text, into corpus/ beside this file."""
import gzip
import io
import os
import struct
import tarfile
import zipfile

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
    larger = struct.pack("<IH", 64 + (1 << 17), REPLY) + bytes(58)
    seed("conn", "larger", bytes([proved, 0]) + larger + bytes(30))
    seed("conn", "long", bytes([proved, 0]) + struct.pack("<I", 0xffffffff) + bytes(60))


def control():
    """control.c: node, 8: ready, 16: with --tasks; then how, who, type, manager, aux, length, payload"""
    ready, drain, drained, beat, lost, stats, end, step, note, done, tasks, meet, freeze = range(21, 34)
    save, a_map, drop = 37, 45, 46
    later, node_1_lost = b"\0\xff", b"\x01\0"

    def say(kind, manager=0, aux=0, payload=b"", how=0, who=0, shape=b"", whole=False):
        return bytes([3, how, who, kind, manager, aux, 1 if whole else 2 * len(payload)]) + payload + shape

    def row(owner, epoch, primary, backup):
        return say(a_map, owner, epoch, bytes(16), how=16, shape=bytes([primary, backup]), whole=True)

    for name, head in (("head", 8), ("below", 9), ("last", 10)):
        seed("control", name + "_starts", bytes([head - 8]) + b"".join(say(ready, who=i) for i in range(2)) + say(beat, aux=3) + say(end))
        seed("control", name + "_map", bytes([head]) + row(1, 2, 1, 16) + row(1, 5, 8, 16) + row(1, 3, 1, 8) + row(2, 2, 2, 6) + row(0, 9, 13, 15) + row(5, 2, 1, 1) + say(drop, 1, 1, b"why") + say(drop, 1, 1, b"why"))
        seed("control", name + "_words", bytes([head + 16]) + say(tasks, 2, 1) + say(meet, 1, 90, b"1.2") + say(step, 1, 4, b"1.2") + say(freeze, whole=True, payload=struct.pack("<IIQII", 1, 1, 5, 1, 0)) + say(save, whole=True, payload=struct.pack("<IIQ", 1, 1, 1) + bytes(448)))
        seed("control", name + "_ends", bytes([head]) + say(drain, aux=9) + say(drained, aux=0) + later * 3 + say(lost, 1, 1, b"node n1 is lost") + say(end, aux=1) + later + say(end, aux=2) + say(done) + later)
        seed("control", name + "_loses", bytes([head]) + node_1_lost + later * 2 + say(drop, 2, 1, b"why") + later * 3)


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
    def info(node, head=b"", addresses=b"", n=0, ports=(1111, 2222), name=b"n1", error=b"", provider=b"", replicas=1, refill=False):
        return (struct.pack("<QIIIHHHBBBBBBBB", 0x3944524143444444, node, 7, 3, len(ports), 3333, 0, 0, n, len(name), len(error), bool(head), len(provider), replicas, refill) +
                bytes(range(32)) + head + addresses + b"".join(struct.pack("<H", p) for p in ports) + name + error + provider)

    four, six = b"\4\x7f\0\0\1", b"\6" + bytes(15) + b"\1" + bytes(4)
    seed("node_info", "two", b"\2" + info(2, addresses=four + six, n=2))
    seed("node_info", "head", b"\0" + info(0, head=bytes(16) + bytes(40), addresses=four, n=1, provider=b"tcp;ofi_rxm"))
    seed("node_info", "exists", b"\0" + info(0, head=bytes(16) + bytes(16) + struct.pack("<IIQ", 1, 1, 9) + bytes(8)))
    seed("node_info", "shadows", b"\x82" + info(2, addresses=four, n=1, ports=(1, 2, 3, 4), replicas=2))
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


def tar(*members):
    """members: (name, value) or (name, link to)"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as t:
        for name, value in members:
            info = tarfile.TarInfo(name)
            if isinstance(value, str):
                info.type, info.linkname = tarfile.LNKTYPE, value
                t.addfile(info)
            else:
                info.size = len(value)
                t.addfile(info, io.BytesIO(value))
        end = t.offset
    return out.getvalue()[:end]


def zipped(how, *members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as z:
        for name, value in members:
            z.writestr(zipfile.ZipInfo(name), value, how)
    return out.getvalue()


def npy(head, elements):
    head = head.encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + elements


def attach():
    def well(kind, text=b"", fds=0, kinds=0, words=b""):
        return bytes([64 | fds | kinds << 3, len(text)]) + words + struct.pack("<I", kind) + text

    lane_words = struct.pack("<QQQ", 1 << 40, 192, 0)
    seed("attach", "hello", b"\4" + well(1, b"1000.7.job") + well(8, b"x") + well(6))
    seed("attach", "lane", b"\4" + well(3, fds=1, kinds=1, words=bytes(24)) + well(3, fds=1, kinds=1, words=lane_words))
    seed("attach", "surplus", b"\1" + well(4, fds=4))
    seed("attach", "short", b"\0" + bytes([0, 3, 1, 2, 3]) + bytes([128, 8]) + bytes(8) + bytes([128, 24]) + struct.pack("<QIII", 0x484341545444, 1, 99, 9) + bytes(4))


def load():
    whole = tar(("a/1", b"one"), ("a/2", b"two" * 9), ("b/3", "a/1"), ("../x", b"no"))
    seed("load_tar", "plain", tar(("a", b"one")))
    seed("load_tar", "gzip", gzip.compress(whole, mtime=0))
    seed("load_tar", "cut", gzip.compress(whole[:1100], mtime=0))
    seed("load_tar", "long", gzip.compress(tar(("d/" * 70 + "name", b"value")), mtime=0))
    stored, packed = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    seed("load_zip", "stored", zipped(stored, ("a/1", b"one"), ("a/", b""), ("b", b"")))
    seed("load_zip", "packed", zipped(packed, ("a/1", b"one" * 40), ("./a/1", b"again")))
    seed("load_zip", "cut", zipped(stored, ("a", b"one"))[:-10])
    small = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", bytes(24))
    seed("load_npy", "small", small)
    seed("load_npy", "fortran", npy("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 2, 2), }", bytes(range(16))))
    seed("load_npy", "large", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4611686018427387904, 8), }", b""))
    seed("load_npy", "many", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (853506, 0, 8), }", b""))
    seed("load_npy", "gzip", gzip.compress(small, mtime=0))
    seed("load_npz", "two", zipped(stored, ("x.npy", small), ("y.npy", small[:90])))
    seed("load_npz", "packed", zipped(packed, ("x.npy", small), ("text", b"no array")))
    seed("load_idx", "images", struct.pack(">HBBIII", 0, 8, 3, 2, 2, 2) + bytes(range(8)))
    seed("load_idx", "labels", struct.pack(">HBBI", 0, 8, 1, 3) + b"\1\2\3")
    seed("load_idx", "large", struct.pack(">HBBIII", 0, 14, 3, 0xffffffff, 0xffffffff, 2))
    seed("load_fasta", "two", b">one a gene\nACGT\nAC\n>two\r\nGGG\r\n")
    seed("load_fasta", "gzip", gzip.compress(b">one\nACGT\n>one\nTT\n;x\n", mtime=0))
    seed("load_lines", "text", b"one\ntwo\r\n\nlast \xff")
    seed("load_lines", "gzip", gzip.compress(b"one\ntwo\n", mtime=0))


def s3_list():
    words = "".join('<!ENTITY %s "%s">' % (name, (lower * 8 if lower else "x" * 8)) for name, lower in (("a", ""), ("b", "&a;"), ("c", "&b;"), ("d", "&c;")))
    text = "<!DOCTYPE x [%s]><ListBucketResult><Contents><Key>&d;</Key><Size>1</Size></Contents></ListBucketResult>" % words
    seed("s3_list", "long", text.encode())


def lane():
    def op(kind, how=0, flags=0, number=1, key=0, value=0, aux=0, version=0, payload=b"", manager=0):
        wide = [struct.pack("<Q", n) if how & 1 << i else bytes([n & 255]) for i, n in enumerate((key, value, aux, version))]
        return (bytes([9, how, kind, number]) + struct.pack("<H", flags) + b"".join(wide) + (struct.pack("<Q", manager) if how & 16 else b"") +
                bytes([7, len(payload)]) + payload)

    run, read = b"\x08", b"\x07"
    put = op(PUT, key=3, value=5, payload=b"keyvalue")
    get = op(GET, how=8, flags=32, key=3, version=1 << 62, payload=b"key")
    stream = op(PUT, flags=STREAM, key=1, value=200, payload=b"x", number=2)
    seed("lane", "put_get", put + get + run + read + op(DEL, key=3, payload=b"key") + op(LEN) + op(STATS) + op(KEYS, key=1, payload=b"k") + run + read)
    seed("lane", "stream", stream + op(DATA, payload=b"a" * 100, number=2) + run + op(DATA, payload=b"b" * 100, number=2, aux=100, flags=LAST) + run + read)
    seed("lane", "abort", stream + op(DATA, payload=b"a" * 100, number=2) + op(13, number=2) + run)
    seed("lane", "area", stream + op(DATA, how=8, flags=512 | LAST, number=2, value=200, version=0) + run + read)
    seed("lane", "wait", op(GET, flags=WAIT, key=1, payload=b"w") + run + op(CANCEL) + op(4, flags=WAIT, key=1, payload=b"w", number=3) + run)
    seed("lane", "queue", op(PUT, flags=256, key=1, value=1, payload=b"q1") * 3 + run + op(4, flags=32, key=1, payload=b"q") * 2 + run)
    seed("lane", "events", op(18, flags=WAIT, key=1, payload=b"k") + put + run + read)
    seed("lane", "freeze", op(15) + put + run + op(16, payload=b"prefetch") + run)
    seed("lane", "tail", b"\x02" + struct.pack("<Q", 1 << 40) + run)
    seed("lane", "head", put + get + run + b"\x03" + struct.pack("<Q", 1 << 40) + get + run)
    seed("lane", "leases", put + b"\x04" + struct.pack("<QQ", 0, 0xffffffff) + b"\x04" + struct.pack("<QQ", 1, 1 << 20) + run)
    seed("lane", "length", op(GET, how=32, key=3, payload=b"key") + b"\xff" * 8 + run)
    def ruled(rule, *a, how=0, **kw):
        return op(*a, how=how | 128, **kw) + bytes([rule])

    by, add = 1, 2
    count = ruled(add, PUT, key=1, aux=200, payload=b"n") * 3 + run
    seed("lane", "rules", count + ruled(by, PUT, how=8, key=1, value=1, version=3, payload=b"nx") + ruled(by, PUT, key=1, value=1, payload=b"mx") + run + ruled(by, 6, key=1, version=5, payload=b"n") +
         ruled(by, 5, flags=WAIT, how=4, key=1, aux=1 << 30, version=4, payload=b"n") + count + ruled(add, PUT, how=4, key=1, aux=(1 << 63) - 1, payload=b"n") + run + ruled(add, PUT, key=1, payload=b"m") + run + read)
    links, linked = 32768, 3
    link = op(PUT, flags=links, key=1, value=32, payload=b"l" + struct.pack("<QQQII", 5, 1, 1, 0, 0))
    look = op(5, flags=links, key=1, payload=b"l") + op(4, key=1, payload=b"l") + op(GET, how=8, key=1, version=1 << 62, payload=b"l") + run + read
    seed("lane", "links", link + run + look + op(PUT, key=1, value=1, payload=b"lx") + op(DEL, key=1, payload=b"l") + ruled(add, PUT, key=1, aux=1, payload=b"l") + run + read +
         b"".join(ruled(linked, PUT, key=1, value=1, version=v, payload=b"lx") + link + ruled(linked, DEL, key=1, version=v + 1, payload=b"l") + run for v in range(1, 5)) + look)
    seed("lane", "links_short", b"".join(op(PUT, flags=links, key=1, value=n, payload=b"l" + b"\xff" * n) + run + look for n in (0, 4, 8, 40)) +
         op(PUT, flags=256, key=1, value=1, payload=b"q1") * 2 + op(PUT, flags=links, key=1, value=32, payload=b"q" + bytes(32)) + run + read)
    seed("lane", "padding", op(1, payload=b"") + run)


def replica_backup():
    """replica_backup.c: how (repl_do), operation, key, and what `how` asks for; begins with whether it is promoted"""
    put, append, pop, delete, clear, limit, took = range(1, 8)
    turn, again, piece = b"\x03", b"\x05\x02", b"\x06"

    def sync(epoch=1):
        return bytes([1, epoch])

    def repl(what, key=0, how=0, number=None, aux=None, version=None, length=None, most=None):
        how |= (2 if number is not None else 0) | (8 if aux is not None else 0) | (16 if version is not None else 0) | (32 if length is not None else 0)
        return (bytes([9, how, what, key]) + (bytes([1, number]) if number is not None else b"") +
                (struct.pack("<Q", aux) if aux is not None else bytes([most or 0]) if what == limit else b"") +
                (struct.pack("<Q", version)[:6] if version is not None else b"") + (struct.pack("<Q", length)[:3] if length is not None else b""))

    queue = repl(limit, 2, most=5) + repl(append, 2, number=1) + repl(append, 2, number=2) + repl(pop, 2, number=3) + turn + repl(took, 3, number=3)
    value = repl(put, 1, length=100000) + piece + b"\xff" + turn + piece + b"\xff"
    seed("replica_backup", "changes", b"\0" + sync() + repl(put) + repl(put, 0, version=5000) + repl(delete) + repl(delete, 1) + turn + repl(put, 1) + repl(clear, 3) + turn)
    seed("replica_backup", "two", b"\0" + sync() + repl(put) + repl(put) + turn * 4 + repl(delete) + turn)
    seed("replica_backup", "queue", b"\0" + sync() + queue + turn)
    seed("replica_backup", "value", b"\0" + sync() + value + turn)
    seed("replica_backup", "again", b"\0" + sync() + value[:-2] + again + value + repl(append, 2, aux=1) + again + repl(append, 2, aux=1) + repl(pop, 2, aux=2) + again + repl(pop, 2, aux=2) + turn)
    seed("replica_backup", "full", b"\0" + sync() + (repl(put, 4, length=0xf00000) + repl(put, 12, length=0xf00000) + turn) * 3 + b"\x04\xff" * 3 + turn)
    seed("replica_backup", "promoted", b"\x0f" + sync() + queue + value[:-2])
    seed("replica_backup", "map", b"\0" + sync(2) + repl(put) + turn + b"\x02\0" + turn + repl(put) + b"\x02\x01" + turn + again + repl(put) + b"\x02\0")
    item, result, whole = range(8, 11)
    fill = bytes([1, 64]) + turn * 3 + repl(item, 0, version=9) + repl(append, 2, number=1) + repl(item, 2, version=10) + repl(result, 3, number=4, aux=0) + repl(result, 1, number=5, aux=1)
    seed("replica_backup", "filled", b"\0" + fill + repl(whole, 3) + turn * 3 + repl(put) + turn)
    seed("replica_backup", "half_filled", b"\0" + fill + again + bytes([1, 64]) + repl(item, 1, version=4) + turn + repl(whole, 3) + repl(whole, 3) + again + repl(item) + turn)
    seed("replica_backup", "without", b"\0" + repl(put) + again + sync(0) + again + sync(7) + again + piece + b"\x01" + again + sync() + sync())
    seed("replica_backup", "bytes", b"\0" + sync() + b"\0" + bytes([65]) + message(43, b"a", key=1)[:65] + turn)


def replica_primary():
    """replica_primary.c: begins with whether the backup is dropped at last"""
    def put(key, n=5):
        return bytes([12 + 16 * key, n])

    def message(kind, status=0, aux=0, key=0, more=0, flags=0):
        return bytes([1, kind, more]) + struct.pack("<HiQ", flags, status, aux) + bytes([key])

    turn, later, clear, append, hang_up, ack_all = b"\x06", b"\x05\xff", b"\x0a", b"\x0b", b"\x02", b"\x03\x80"
    ack = 44
    some = later + turn * 4 + put(0) + put(1) + put(2, 255) + append + turn * 4
    seed("replica_primary", "changes", b"\0" + some + b"\x17" + turn + b"\x27" + turn + ack_all + turn + clear + put(0) + turn + ack_all)
    seed("replica_primary", "again", b"\0" + some + b"\x17" + hang_up + later + turn * 4 + b"\x17" + turn + hang_up + append * 3 + later + turn * 4)
    seed("replica_primary", "early", b"\0" + some + b"\x03\xff" + turn + later + turn * 4 + message(ack, aux=1 << 40) + turn)
    seed("replica_primary", "lower", b"\0" + some + ack_all + turn + message(ack, aux=1) + turn)
    seed("replica_primary", "fails", b"\0" + some + b"\x04\x0c" + turn + some + b"\x04\x0c" + turn)
    seed("replica_primary", "others", b"\0" + some + message(2) + turn + later + turn * 4 + message(43, 1) + later + turn * 4 + message(12, more=9) + turn)
    seed("replica_primary", "dropped", b"\x0f" + some + b"\x17" + clear + put(0))
    seed("replica_primary", "bytes", b"\0" + some + b"\0" + bytes([64]) + bytes(64) + turn)


if __name__ == "__main__":
    for make in (attach, conn, control, dump, gpu, key, lane, load, node_info, rendezvous, replica_backup, replica_primary, s3_list):
        make()
