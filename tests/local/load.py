#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`ddict load`: every kind of source, and sources made to hurt. Whatever is wrong is named; nothing hangs, and nothing is wrong unseen."""
import gzip
import io
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import tarfile
import zipfile

from cluster import Dictionary, check, wait_for
from load_folder import COMMAND, ddict, folder, get, head, keys, keys_all, load, loads, member, numbers, path, refuses, stored, tar_of, value, write, run

TREE = ["%s/%s%d.jpg" % (c, f, i) for c in ("b", "a-c", "a", "ä") for f, n in (("", 30), ("deep/", 3)) for i in range(n)]


def a_tree_loads_alike_from_folder_tar_and_zip():
    for name in TREE:
        write("tree/" + name, value(name))
    items = [(name, value(name)) for name in TREE]
    tar_of("t.tar", items)
    tar_of("t.pax.tar", items, form=tarfile.PAX_FORMAT)
    tar_of("t.tar.gz", items, "w:gz")
    with zipfile.ZipFile(path("t.zip"), "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in items:
            z.writestr(name, data)
    if shutil.which("zstd"):
        subprocess.run(["zstd", "-q", path("t.tar")], check=True)
    # as torchvision: classes sorted; in each the folders sorted, in each the names sorted
    wanted = sorted(TREE, key=lambda n: (n.split("/")[0].encode(), os.path.dirname(n).encode(), n.encode()))
    with Dictionary(managers=2, mem="128M") as d:
        sources = [s for s in ("tree", "t.tar", "t.pax.tar", "t.tar.gz", "t.zip", "t.tar.zst") if os.path.exists(path(s))]
        for s in sources:
            j = loads(d, s, "--prefix=%s/" % s)
            check(j["items"] == len(TREE) and j["bytes"] == sum(len(v) for _, v in items) and j["classes"] == 4, j)
            for name in random.Random(1).sample(TREE, 6):
                check(get(d, "%s/%s" % (s, name)) == value(name), "%s/%s is not what it was" % (s, name))
            h = head(d, s)
            check(h["classes"] == ["a", "a-c", "b", "ä"] and h["counts"] == [33] * 4 and h["prefix"] == s + "/", h)
            check(numbers(d, s, "labels") == [i // 33 for i in range(132)], "labels of %s" % s)
            check(numbers(d, s, "sizes", "Q") == [len(value(n)) for n in wanted], "sizes of %s" % s)
            data, listed = stored(d, "ddict.set", s, "keys", 0), []
            while data:
                n = struct.unpack_from("<I", data)[0]
                listed.append(data[4:4 + n].decode())
                data = data[4 + n:]
            check(listed == ["s%s/%s" % (s, n) for n in wanted], "keys of %s: %r" % (s, listed[:5]))
        check(len(keys(d)) == len(sources) * len(TREE), "other keys")
        r = ddict(d, "ls", "--sets", "--json")
        check([s["name"] for s in json.loads(r.out)] == sorted(sources), r)
        check(loads(d, "t.tar", "--prefix=t.tar/")["already"], "a complete load is not known")
        refuses(d, "is there already", "t.tar", "--prefix=t.tar/", "--set=other")
        check(not loads(d, "t.tar", "--prefix=t.tar/", "--replace")["already"], "--replace does not load")
        d.end()


def tars_of_tars_are_read_as_one():
    for c in ("n01", "n02"):
        tar_of(c + ".tar", [("./%s_%d.JPEG" % (c, i), b"%s %d" % (c.encode(), i) * 50) for i in range(20)])
    with tarfile.open(path("imagenet.tar"), "w") as tar, tarfile.open(path("imagenet.tgz"), "w:gz") as gz:
        for t in (tar, gz):
            t.add(path("n01.tar"), "n01.tar")
            t.add(path("n02.tar"), "n02.tar")
    with Dictionary(mem="64M") as d:
        for s in ("imagenet.tar", "imagenet.tgz"):
            j = loads(d, s, "--prefix=" + s + "/")
            check(j["items"] == 40 and j["classes"] == 2, j)
            check(get(d, s + "/n02/n02_7.JPEG") == b"n02 7" * 50, "a member of an inner tar")
            check(head(d, s)["classes"] == ["n01", "n02"], head(d, s))
        data = open(path("imagenet.tar"), "rb").read()
        write("inner.tar", data[:5 * 512] + b"broken!" * 70 + data[5 * 512 + 490:])
        r = refuses(d, "inner.tar: n0", "inner.tar", "--prefix=i/")
        d.end()


def names_that_lead_out_are_refused_and_links_are_named():
    tar_of("evil.tar", [("ok/a", b"1"), ("../evil", b"2"), ("ok/../../evil2", b"3"), ("/abs/b", b"4"), ("./ok//c", b"5"), ("ok/empty", b""),
                        ("ok/sym", b"", tarfile.SYMTYPE, "/etc/passwd"), ("ok/hard", b"", tarfile.LNKTYPE, "ok/a"), ("ok/fifo", b"", tarfile.FIFOTYPE),
                        ("ok/lost", b"", tarfile.LNKTYPE, "not/there")])
    with Dictionary(mem="64M") as d:
        refuses(d, "../evil", "evil.tar")
        r = load(d, "evil.tar", "--on-error=skip", "--prefix=e/")
        j = r.json
        check(r.code == 0 and j["items"] == 5 and j["skipped"] == 3 and j["left_out"] == 2, r)
        for text in ("../evil: ", "ok/../../evil2: ", "not/there"):
            check(sum(text in e for e in j["errors"]) == 1 and text in r.err, "%r is not named once: %r" % (text, r))
        for text in ("ok/sym: a symbolic link", "ok/fifo: no regular file"):
            check(text in r.err, "%r is not named: %r" % (text, r))
        for key, data in (("e/ok/a", b"1"), ("e/abs/b", b"4"), ("e/ok/c", b"5"), ("e/ok/empty", b""), ("e/ok/hard", b"1")):
            check(get(d, key) == data, "%s: %r" % (key, get(d, key)))
        check(len([k for k in keys_all(d) if "e/" in k]) == 5, "other keys came: %r" % keys_all(d))
        # a link's name may be another item's, or another member's; its target is in the same archive
        inner = io.BytesIO()
        with tarfile.open(fileobj=inner, mode="w") as tar:
            member(tar, "a", b"1")
            member(tar, "hard", b"", tarfile.LNKTYPE, "a")
        tar_of("links.tar", [("c.tar", inner.getvalue()), ("x", b"2"), ("hard", b"", tarfile.LNKTYPE, "x"), ("hard", b"own")])
        check(ddict(d, "put", "m/hard", "mine").code == 0, "put")
        refuses(d, "is there already", "links.tar", "--prefix=m/")
        check(loads(d, "links.tar", "--prefix=l/")["items"] == 4, "links")
        check([get(d, "l/" + k) for k in ("c/a", "c/hard", "x", "hard")] == [b"1", b"1", b"2", b"own"], "links")
        tar_of("link.tar", [("x", b"2"), ("hard", b"", tarfile.LNKTYPE, "x")])
        check(ddict(d, "put", "n/hard", "mine").code == 0, "put")
        refuses(d, "hard: the key is there already", "link.tar", "--prefix=n/")
        check(loads(d, "link.tar", "--prefix=n/", "--on-error=skip")["skipped"] == 1 and get(d, "n/hard") == b"mine", "a link was put over another item")
        # a zip with such names
        with zipfile.ZipFile(path("evil.zip"), "w") as z:
            z.writestr("../z", b"x")
            z.writestr("in", b"y")
        refuses(d, "../z", "evil.zip", "--prefix=z/")
        j = loads(d, "evil.zip", "--prefix=z/", "--on-error=skip")
        check(j["items"] == 1 and j["skipped"] == 1, j)
        d.end()


def of_members_with_one_name_the_last_is_kept():
    filler = [("f%d" % i, bytes(1 << 20)) for i in range(40)]  # several units
    members = [("x/same", b"first")] + filler + [("x/same", b"second"), ("./x/same", b"last")]
    tar_of("twice.tar", members)
    tar_of("twice.tgz", members[:1] + members[-2:], "w:gz")
    with zipfile.ZipFile(path("twice.zip"), "w") as z:
        for name, data in members[:1] + members[-2:]:
            z.writestr(name, data)
    tar_of("one.tgz", [("x/same", b"one")], "w:gz")
    tar_of("two.tgz", [("x/same", b"two")], "w:gz")
    with Dictionary(managers=2, mem="192M") as d:
        for s, n in (("twice.tar", 41), ("twice.tgz", 1), ("twice.zip", 1)):
            j = loads(d, s, "--prefix=" + s + "/")
            check(j["items"] == n and get(d, s + "/x/same") == b"last", (s, j, get(d, s + "/x/same")))
        refuses(d, "is there already", "one.tgz", "two.tgz", "--prefix=12/")
        check(loads(d, "one.tgz", "two.tgz", "--prefix=12/", "--on-error=skip")["skipped"] in (0, 1), "two archives")
        d.end()


def names_of_any_bytes_are_kept():
    name = b"caf\xe9/\xff\xfe.bin".decode("utf-8", "surrogateescape")
    tar_of("bytes.tar", [(name, b"odd"), ("cafe/ü", b"even")])
    write("odd/" + name, b"odd")
    with Dictionary(mem="64M") as d:
        for s in ("bytes.tar", "odd"):
            j = loads(d, s, "--prefix=" + s + "/")
            check(get(d, s + "/" + name) == b"odd", "the name with odd bytes of %s: %r" % (s, keys_all(d)))
            check(head(d, s)["classes"][-1].startswith("caf"), head(d, s))
        d.end()


NPY = b"\x93NUMPY\1\0\x76\0" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (100, 200), }".ljust(117) + b"\n"


def names_that_are_no_utf8_are_told():
    odd = b"../\xff".decode("utf-8", "surrogateescape")
    tar_of("odd.tar", [(odd, b"1"), ("ok", b"2")])
    with Dictionary(mem="64M") as d:
        refuses(d, "is not loaded", "odd.tar")
        j = loads(d, "odd.tar", "--on-error=skip")
        check(j["items"] == 1 and j["skipped"] == 1 and "../\ufffd" in j["errors"][0], j)
        refuses(d, "a name is UTF-8", "odd.tar", "--on-error=skip", "--set=" + odd)
        refuses(d, "--set=NAME gives another", "odd.tar", "--on-error=skip", "--prefix=" + odd)
        check(loads(d, "odd.tar", "--on-error=skip", "--set=other", "--prefix=" + odd)["items"] == 1, "a prefix")
        d.end()


def what_is_cut_or_damaged_is_named():
    items = [("m%03d" % i, random.Random(i).randbytes(20000)) for i in range(100)]
    tar_of("whole.tar", items)
    tar_of("whole.tgz", items, "w:gz")
    with zipfile.ZipFile(path("whole.zip"), "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in items:
            z.writestr(name, data)
    whole = open(path("whole.tar"), "rb").read()
    write("cut.tar", whole[:1000000])
    write("boundary.tar", whole[:50 * (512 + 20480)])
    gz = open(path("whole.tgz"), "rb").read()
    write("cut.tgz", gz[:len(gz) // 2])
    write("flipped.tgz", gz[:len(gz) // 2] + bytes([gz[len(gz) // 2] ^ 0xff]) + gz[len(gz) // 2 + 1:])
    z = open(path("whole.zip"), "rb").read()
    write("cut.zip", z[:len(z) // 2])
    at = z.index(b"m050") + 5000
    write("flipped.zip", z[:at] + bytes([z[at] ^ 0xff]) + z[at + 1:])
    dull = [("m%03d" % i, b"line %d\n" % i * 3000) for i in range(40)]  # damaged, the end comes too early: for libarchive the whole archive is lost
    with zipfile.ZipFile(path("torn.zip"), "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in dull:
            z.writestr(name, data)
    with zipfile.ZipFile(path("torn.npz"), "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in dull:
            z.writestr(name + ".npy", NPY + bytes(80000))
    for s in ("torn.zip", "torn.npz"):
        z = bytearray(open(path(s), "rb").read())
        for i in (5, 6, 20):
            at = z.index(b"m%03d" % i) + (10 if s == "torn.zip" else 14)
            z[at:at + 6] = bytes(b ^ 0xff for b in z[at:at + 6])
        write(s, z)
    write("empty.tar", b"")
    write("zeros.tar", bytes(10240))
    with Dictionary(managers=2, mem="256M") as d:
        for s in ("cut.tar", "boundary.tar", "cut.tgz", "flipped.tgz", "cut.zip", "flipped.zip"):
            r = refuses(d, path(s), s, "--prefix=%s/" % s)
            check(s != "flipped.zip" or "m050" in r.err, r)
            r = load(d, s, "--prefix=%s/" % s, "--on-error=skip")
            if s == "cut.zip":  # its table of contents is gone
                check(r.code == 0 and r.json["items"] == 0 and r.json["skipped"] == 1 or r.code == 1, r)
                continue
            n = {"cut.tar": 47, "boundary.tar": 50, "flipped.zip": 99}.get(s)
            check(r.code == 0 and r.json["skipped"] >= 1 and s in r.err, (s, r))
            check(r.json["items"] == n if n else 0 < r.json["items"] < 100, (s, r))
            check(get(d, s + "/m001") == items[1][1], "what is whole of " + s)
        for s in ("torn.zip", "torn.npz"):
            j = loads(d, s, "--prefix=%s/" % s, "--on-error=skip")
            check(j["items"] == 37 and j["skipped"] == 3 and all(sum("m%03d" % i in e for e in j["errors"]) == 1 for i in (5, 6, 20)), j)
        check(get(d, "torn.zip/m039") == dull[39][1], "what is behind them")
        for s in ("empty.tar", "zeros.tar"):
            j = loads(d, s)
            check(j["items"] == 0, j)
        refuses(d, "No such file", "missing.tar")
        write("noise", os.urandom(5000))
        refuses(d, "--as", "noise")
        refuses(d, path("noise"), "noise", "--as=tar")
        refuses(d, path("noise"), "noise", "--as=zip")
        refuses(d, "of kind", "whole.tar", "whole.zip")
        d.end()


def sizes_are_judged_before_and_while_it_reads():
    tar_of("big.tar", [("b%d" % i, bytes(4 << 20)) for i in range(20)])
    tar_of("bomb.tgz", [("b%d" % i, bytes(4 << 20)) for i in range(20)], "w:gz")
    tar_of("large.tar", [("small", b"s"), ("larger", bytes(24 << 20))])
    tar_of("large.tgz", [("small", b"s"), ("larger", bytes(24 << 20))], "w:gz")
    with open(path("large.txt"), "wb") as f:
        f.truncate(24 << 20)
    with Dictionary(managers=4, mem="64M") as d:
        r = refuses(d, "needs 80.0 MiB", "big.tar")
        check("MiB free of its 64.0 MiB" in r.err and "--ddict-mem=" in r.err, r)
        os.mkdir(path("big"))
        for i in range(20):
            with open(path("big/%02d" % i), "wb") as f:
                f.truncate(4 << 20)
        r = refuses(d, "big needs 80.0 MiB at the least, and the dictionary has ", "big")
        check("MiB free of its 64.0 MiB" in r.err and "--ddict-mem=" in r.err, r)
        refuses(d, "big needs 80.0 MiB at the least, and the dictionary has 64.0 MiB in all", "big", "--replace")
        check(not keys(d), "something was loaded: %r" % keys(d))
        refuses(d, "does not fit", "bomb.tgz", "--prefix=bomb/")
        for s in ("large.tar", "large.tgz"):
            refuses(d, "larger: ", s, "--prefix=%s/" % s)
            j = loads(d, s, "--prefix=%s/" % s, "--on-error=skip", "--replace")
            check(j["items"] == 1 and j["skipped"] == 1 and "24" in j["errors"][0], j)
        refuses(d, "a manager can hold", "large.txt", "--prefix=l")
        for s, byte in (("most.tar", b"1"), ("most2.tar", b"2")):
            tar_of(s, [("m%03d" % i, byte * (72 << 10)) for i in range(500)])
        check(ddict(d, "rm", "--all").code == 0, "rm")
        loads(d, "most.tar", "--prefix=most/")
        refuses(d, "needs 35.2 MiB", "most2.tar", "--prefix=more/")
        check(loads(d, "most2.tar", "--prefix=most/", "--replace")["items"] == 500 and get(d, "most/m300") == b"2" * (72 << 10), "what is put over gives its room back")
        check(ddict(d, "rm", "--all").code == 0, "rm")
        with open(path("large.fa"), "wb") as f:
            f.write(b">a\nAC\n>b\n" + b"ACGT" * (5 << 20) + b"\nAC\n>c\nGG\n")
        refuses(d, "large.fa: b: ", "large.fa", "--prefix=f/")
        j = loads(d, "large.fa", "--prefix=f/", "--on-error=skip")
        check(j["items"] == 2 and j["skipped"] == 1 and get(d, "f/c") == b"GG", j)
        check(refuses(d, "does not fit", "bomb.tgz", "--prefix=bomb2/").json["code"] == -4003, "the code of what ended a thread")
        for node in d.nodes:
            check(node.proc.poll() is None, "ddictd ended")


def idx_and_arrays_are_checked():
    u1 = random.Random(5).randbytes(100 * 28 * 28)
    images = struct.pack(">HBBIII", 0, 8, 3, 100, 28, 28) + u1
    labels = struct.pack(">HBBI", 0, 8, 1, 100) + bytes(i % 10 for i in range(100))
    write("train-images-idx3-ubyte", images)
    with gzip.open(path("train-labels-idx1-ubyte.gz"), "wb") as f:
        f.write(labels)
    write("f.idx", struct.pack(">HBBII", 0, 0x0d, 2, 3, 2) + struct.pack(">6f", *range(6)))
    write("short.idx", images[:-1])
    write("long.idx", images + b"x")
    write("huge.idx", struct.pack(">HBBIIII", 0, 8, 4, 0xffffffff, 0xffffffff, 0xffffffff, 2))
    write("big.idx", struct.pack(">HBBII", 0, 8, 2, 0xffffffff, 100))
    with gzip.open(path("cut.idx.gz"), "wb") as f:
        f.write(images[:50000])
    write("bad.idx", b"\0\0\7\3" + bytes(100))
    def npy(descr, shape, data, order="False"):
        text = ("{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)).encode()
        text += b" " * (-(10 + len(text) + 1) % 64) + b"\n"
        return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + data
    write("a.npy", npy("'<i4'", "(3, 2)", struct.pack("<6i", *range(6))))
    write("f.npy", npy("'<i4'", "(3, 2)", struct.pack("<6i", 0, 2, 4, 1, 3, 5), "True"))
    with gzip.open(path("a.npy.gz"), "wb") as f:
        f.write(open(path("a.npy"), "rb").read())
    write("n.npy", npy("'>i2'", "(3,)", struct.pack(">3h", -1, 2, -3)))
    write("o.npy", npy("'|O'", "(3,)", bytes(24)))
    write("r.npy", npy("[('a', '<i4')]", "(3,)", bytes(12)))
    write("h.npy", npy("'<i4'", "(4611686018427387904, 4)", b""))
    write("s.npy", npy("'<i4'", "(3, 2)", bytes(23)))
    write("w.npy", npy("'<i4'", "(9223372036854775807, 0)", b""))
    with gzip.open(path("w.npy.gz"), "wb") as f:
        f.write(npy("'|u1'", "(576460752303423488, 1)", b"x"))
    write("odd.npy", npy("'<i3'", "(2,)", bytes(6)))
    write("d.npy", npy("'<f8'", "(3, 4)", bytes(96)))
    write("t.npy", b"\x93NUMPY\1\0\0\x10{'descr")
    with zipfile.ZipFile(path("z.npz"), "w") as z:
        z.writestr("x.npy", npy("'<i4'", "(3, 2)", struct.pack("<6i", *range(6))))
        z.writestr("bad.npy", npy("'<i4'", "(3, 2)", bytes(3)))
        z.writestr("readme.txt", b"?")
    row = b"\1\0\1\0<i4" + bytes(9) + struct.pack("<Q", 2) + bytes(40)
    with Dictionary(managers=2, mem="64M") as d:
        j = loads(d, "train-images-idx3-ubyte", "train-labels-idx1-ubyte.gz", "--set=mnist")
        check(j["items"] == 100 and numbers(d, "mnist", "labels") == [i % 10 for i in range(100)], j)
        h = head(d, "mnist")
        check(h["dtype"] == "|u1" and h["shape"] == [28, 28] and h["numbered"] and h["labels"], h)
        check(get(d, "99", "--int")[64:] == u1[99 * 784:], "image 99")
        refuses(d, "--prefix", "f.idx")  # the ints 0 to 2 are there
        loads(d, "f.idx", "--prefix=f")
        check(get(d, "f2")[64:] == struct.pack("<2f", 4, 5), "big endian floats")
        for s, why in (("short.idx", "was it cut?"), ("long.idx", "its header says"), ("huge.idx", "too large to be true"), ("big.idx", "its header says"), ("cut.idx.gz", "ends too early"),
                       ("t.npy", "ends too early"), ("o.npy", "Python objects"), ("r.npy", "named fields"), ("h.npy", "too large to be true"), ("s.npy", "was it cut?"), ("w.npy", "cannot hold so many"), ("w.npy.gz", "cannot hold so many"),
                       ("odd.npy", "type '<i3'")):
            r = refuses(d, why, s, "--prefix=" + s)
            check(path(s) in r.err, r)
        refuses(d, "no IDX file", "bad.idx", "--as=idx", "--prefix=bad")
        for s in ("a.npy", "f.npy", "a.npy.gz"):
            check(loads(d, s, "--prefix=" + s)["items"] == 3, s)
            check(get(d, s + "1") == row + struct.pack("<2i", 2, 3), "%s: %r" % (s, get(d, s + "1")))
        loads(d, "a.npy", "f.npy", "--prefix=af")
        loads(d, "a.npy", "d.npy", "--prefix=ad")
        check(head(d, "af")["shape"] == [2] and "shape" not in head(d, "ad") and "dtype" not in head(d, "ad"), "of several shapes one is told: %r" % head(d, "ad"))
        loads(d, "n.npy", "--prefix=n")
        check([get(d, "n%d" % i) for i in range(3)] == [b"-1", b"2", b"-3"], "numbers")
        refuses(d, "bad.npy", "z.npz", "--prefix=z/")
        j = loads(d, "z.npz", "--prefix=z/", "--on-error=skip")
        check(j["items"] == 1 and j["skipped"] == 2 and get(d, "z/x")[64:] == struct.pack("<6i", *range(6)), j)
        d.end()


def lines_and_sequences_keep_what_they_are():
    write("a.txt", "one\r\n\nthrée\n".encode() + b"\xff\xfe\nlast")
    write("b.txt", b"x\n" * 3)
    with gzip.open(path("c.txt.gz"), "wb") as f:
        f.write(b"".join(b"%d\n" % i for i in range(50000)))
    write("cut.txt.gz", open(path("c.txt.gz"), "rb").read()[:20000])
    write("a.fa", b">s1 first\nACGT\nACG\n\n;remark\n>s2\r\nGG\r\nTT\r\n>s3\n")
    write("many.fasta", b"".join(b">id%d\n%s\n" % (i, b"ACGT" * (50 + i % 9)) for i in range(60000)))
    write("headless.fa", b"ACGT\nACGT\n>ok\nAC\n")
    write("noid.fa", b"> \nACGT\n>ok\nAC\n")
    with Dictionary(managers=2, mem="128M") as d:
        j = loads(d, "a.txt", "b.txt", "--prefix=t")
        check(j["items"] == 8 and head(d, "t")["numbered"], j)
        check([get(d, "t%d" % i) for i in range(8)] == [b"one", b"", "thrée".encode(), b"\xff\xfe", b"last", b"x", b"x", b"x"], "lines")
        r = ddict(d, "ls", "-l", "--prefix=t")
        check(any("bytes" in k and "'t3'" in k for k in r.out.splitlines()) and any("str" in k and "'t2'" in k for k in r.out.splitlines()), r)
        write("none.txt", b"")
        check(loads(d, "none.txt", "b.txt", "--prefix=e")["items"] == 3, "a text without lines among others")
        check(loads(d, "c.txt.gz", "--prefix=c")["items"] == 50000 and get(d, "c49999") == b"49999", "a compressed text")
        refuses(d, "cut.txt.gz", "cut.txt.gz", "--prefix=u")
        loads(d, "a.fa", "--prefix=f/")
        check([get(d, "f/s%d" % i) for i in (1, 2, 3)] == [b"ACGTACG", b"GGTT", b""], "sequences")
        check(loads(d, "many.fasta", "--prefix=m/")["items"] == 60000, "many sequences")
        with gzip.open(path("many.fna.gz"), "wb", 1) as f:
            f.write(open(path("many.fasta"), "rb").read())
        check(loads(d, "many.fna.gz", "--prefix=z/")["items"] == 60000 and head(d, "z")["kind"] == "fasta", "many sequences, compressed")
        for i in (0, 17000, 40001, 59999):
            check(get(d, "z/id%d" % i) == get(d, "m/id%d" % i), "sequence %d, compressed" % i)
            check(get(d, "m/id%d" % i) == b"ACGT" * (50 + i % 9), "sequence %d" % i)
        for s, why in (("headless.fa", "without a header"), ("noid.fa", "without an identifier")):
            refuses(d, why, s, "--prefix=%s/" % s)
            check(loads(d, s, "--prefix=%s/" % s, "--on-error=skip")["items"] == 1, s)
        d.end()


def a_folder_with_traps_is_read_to_its_end():
    for i in range(50):
        write("traps/a/f%d" % i, b"%d" % i)
    os.symlink("..", path("traps/a/loop"))
    os.symlink("nowhere", path("traps/a/broken"))
    os.symlink("f7", path("traps/a/good"))
    write("traps/a/secret", b"s")
    os.chmod(path("traps/a/secret"), 0)
    root = os.geteuid() == 0 # who may read all
    with Dictionary(mem="64M") as d:
        refuses(d, "traps", "traps")
        r = load(d, "traps", "--on-error=skip", "--prefix=t/")
        check(r.code == 0 and r.json["skipped"] == 2 + (not root) and r.json["left_out"] == 0 and r.json["items"] == 51 + root, r)
        for text in ("a/loop: a link to a folder above it", "a/broken: No such file"):
            check(any(text in e for e in r.json["errors"]), r)
        check(get(d, "t/a/good") == b"7", r)
        d.end()


def links_that_multiply_are_bounded():
    for i in range(40):  # 2^40 paths
        os.makedirs(path("pairs/%d" % i))
        for name in "ab":
            os.symlink("../%d" % (i + 1), path("pairs/%d/%s" % (i, name)))
    write("pairs/40/leaf", b"1")
    for i in range(300):  # one folder of many classes is nothing bad
        os.makedirs(path("shared/c%03d" % i))
        os.symlink("../../common", path("shared/c%03d/common" % i))
    write("common/x", b"2")
    with Dictionary(mem="64M") as d:
        r = refuses(d, "pairs/0: ", "pairs/0")
        check("/a: links below links lead to this folder in more than 100 ways" in r.err or "/b: links below links" in r.err, r)
        r = load(d, "pairs/0", "--on-error=skip", "--prefix=p/")
        check(r.code == 0 and r.json["items"] == 100 and 30 < r.json["skipped"] <= 40, r)
        check(loads(d, "shared", "--prefix=s/")["items"] == 300 and get(d, "s/c299/common/x") == b"2", "a folder of many")
        d.end()


def what_is_no_file_is_not_opened():
    write("nofiles/a", b"1")
    os.mkfifo(path("nofiles/fifo"))
    os.symlink("fifo", path("nofiles/pipe"))
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path("nofiles/socket"))
    writer = subprocess.Popen(["sh", "-c", "echo > nofiles/fifo"], cwd=folder)  # waits until somebody opens it to read
    try:
        with Dictionary(mem="64M") as d:
            wait_for("the writer", lambda: open("/proc/%d/stat" % writer.pid).read().rsplit(")", 1)[1].split()[0] == "S")
            r = load(d, "nofiles", "--prefix=o/")
            check(r.code == 0 and r.json["items"] == 1 and r.json["left_out"] == 3 and get(d, "o/a") == b"1", r)
            for name in ("fifo", "pipe", "socket"):
                check("left out: %s: no regular file" % name in r.err, r)
            for s in ("nofiles/fifo", "nofiles/socket", "/dev/null"):
                refuses(d, s + ": not a regular file", s)
                refuses(d, s + ": not a regular file", s, "--as=tar")
            check(writer.poll() is None, "the FIFO was opened")
            d.end()
    finally:
        writer.kill()
        writer.wait()


def no_program_is_started_for_what_an_archive_says_it_is():
    """libarchive would start grzip and lzop, found on PATH, for files that begin as theirs."""
    heads = {"grzip": b"GRZipII\x00\x02\x04:)", "lzop": b"\x89LZO\x00\r\n\x1a\n", "lrzip": b"LRZI\x00\x06"}
    for name, head in heads.items():
        write("bin/" + name, b"#!/bin/sh\ntouch '%s'\ncat >/dev/null\n" % path("started-" + name).encode())
        os.chmod(path("bin/" + name), 0o755)
        write(name + ".tar", head + b"\0" * 4096)
    with Dictionary(mem="32M") as d:
        for name in heads:
            p = subprocess.run([COMMAND, "load", path(name + ".tar")], env={**d.env(), "PATH": path("bin") + ":" + os.environ["PATH"]}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
            check(p.returncode == 1 and name + ".tar" in p.stderr, "%d %s" % (p.returncode, p.stderr))
            check(not os.path.exists(path("started-" + name)), "%s was started" % name)
        d.end()


def a_hundred_thousand_members_are_one_set():
    with tarfile.open(path("many.tar"), "w") as tar:
        for i in range(100000):
            member(tar, "%02d/%06d" % (i % 20, i), b"%d" % i)
    with Dictionary(managers=2, mem="256M") as d:
        j = loads(d, "many.tar")
        check(j["items"] == 100000 and j["classes"] == 20 and head(d, "many")["parts"] == 2, j)
        for i in (0, 4711, 99999):
            check(get(d, "%02d/%06d" % (i % 20, i)) == b"%d" % i, "member %d" % i)
        check(len(keys(d)) == 100000, "keys")
        d.end()


if __name__ == "__main__":
    run([a_tree_loads_alike_from_folder_tar_and_zip, tars_of_tars_are_read_as_one, names_that_lead_out_are_refused_and_links_are_named,
         of_members_with_one_name_the_last_is_kept, names_of_any_bytes_are_kept, names_that_are_no_utf8_are_told, what_is_cut_or_damaged_is_named,
         sizes_are_judged_before_and_while_it_reads, idx_and_arrays_are_checked, lines_and_sequences_keep_what_they_are, a_folder_with_traps_is_read_to_its_end,
         links_that_multiply_are_bounded, what_is_no_file_is_not_opened, no_program_is_started_for_what_an_archive_says_it_is, a_hundred_thousand_members_are_one_set])
