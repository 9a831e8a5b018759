#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`ddict-load --refill=OWNERS` in a dictionary with --refill: what was removed of some managers' keys, as if they had begun anew, is put again
from the sets' sources, this alone, and what cannot be is named."""
import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile
import zipfile

from cluster import BUILD, Dictionary, check
from load_folder import LIMIT, Result, ddict, folder, loads, path, run, stored, tar_of, value, write

TREE = ["%s/%s%d.jpg" % (c, f, i) for c in ("b", "a-c", "a", "ä") for f, n in (("", 30), ("deep/", 3)) for i in range(n)]
LOADER = os.path.join(BUILD, "ddict-load")
REPLICATED = ("('ddict.set'", "('ddict.refill'")


def dictionary(**kw):
    return Dictionary(**dict({"nodes": 3, "managers": 5, "mem": "160M", "args": ("--refill",)}, **kw))


def listed(d):
    """By key as `ddict ls` shows it: its manager and size."""
    r = ddict(d, "ls", "-l", "--json")
    check(r.code == 0, r)
    return {k["key"]: (k["manager"], k["bytes"]) for k in json.loads(r.out)}


def literal_get(d, key):
    p = subprocess.run([os.path.join(BUILD, "ddict"), "get", "--raw", "--literal", key], env=d.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
    check(p.returncode == 0, "%s: %s" % (key, p.stderr.decode()))
    return p.stdout


def values(d):
    """What all str keys have, as `ddict save --files` writes it."""
    to = tempfile.mkdtemp(dir=folder)
    r = ddict(d, "save", "--files", to)
    check(r.code == 0, r)
    found = {}
    for at, _, names in os.walk(to):
        for name in names:
            with open(os.path.join(at, name), "rb") as f:
                found[os.path.relpath(os.path.join(at, name), to)] = f.read()
    shutil.rmtree(to)
    return found


def lose(d, *owners, most=60):
    """Remove all keys of these managers; them, and for some of them, all parts of descriptions among them, their values."""
    there = listed(d)
    lost = [k for k, (m, _) in there.items() if m in owners]
    check(lost, "the managers %r have nothing" % (owners,))
    some = [k for k in lost if k.startswith(REPLICATED)] + [k for k in lost if not k.startswith(REPLICATED)][:most]
    was = dict.fromkeys(lost)
    was.update((k, literal_get(d, k)) for k in some)
    r = ddict(d, "rm", "--literal", *lost)
    check(r.code == 0, r)
    return was


def refill(d, *owners, code=0, trace=None):
    argv = ["strace", "-f", "-qq", "-e", "trace=openat,pread64,read", "-o", trace] if trace else []
    p = subprocess.run([*argv, LOADER, "--refill=" + ",".join(map(str, owners)), "--name=" + d.name], env=d.env(), cwd="/", stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
    r = Result(p.returncode, p.stdout.decode(), p.stderr.decode())
    check(r.code == code and r.json, "ddict-load --refill: %r" % r)
    return r.json


def sets_of(j):
    return {s["set"]: s for s in j["sets"]}


def same(d, lost):
    for key, data in lost.items():
        check(data is None or literal_get(d, key) == data, "%s is not what it was" % key)


def items(lost):
    return [k for k in lost if not k.startswith(REPLICATED)]


def of_set(lost, prefix):
    return [k for k in items(lost) if k.startswith("'" + prefix)]


def every_kind_is_put_again():
    for name in TREE:
        write("tree/" + name, value(name))
    members = [(name, value(name)) for name in TREE]
    tar_of("t.tar", members + [("a/link.jpg", b"", tarfile.LNKTYPE, TREE[0]), (TREE[5], value(TREE[6]))])
    tar_of("t.tar.gz", members, "w:gz")
    tar_of("n01.tar", members[:40])
    with tarfile.open(path("inner.tar"), "w") as tar:
        tar.add(path("n01.tar"), "n01.tar")
    with zipfile.ZipFile(path("t.zip"), "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in members:
            z.writestr(name, data)
    write("lines.txt", b"".join(b"line %d\n" % i for i in range(500)))
    write("more.txt", b"".join(b"more %d\n" % i for i in range(70)))
    write("x.fasta", b"".join(b">seq%d\nACGT\nTT%d\n" % (i, i) for i in range(50)))
    write("a.npy", b"\x93NUMPY\1\0" + struct.pack("<H", 118) + (b"{'descr': '<i4', 'fortran_order': False, 'shape': (60, 3), }").ljust(117) + b"\n" +
          bytes(range(180)) * 4)
    write("i-idx3-ubyte", struct.pack(">IIII", 0x803, 80, 4, 5) + bytes(i % 251 for i in range(80 * 20)))
    write("i-idx1-ubyte", struct.pack(">II", 0x801, 80) + bytes(i % 10 for i in range(80)))
    sources = ("tree", "t.tar", "t.tar.gz", "inner.tar", "t.zip", "x.fasta", "a.npy", "i-idx3-ubyte")
    with dictionary() as d:
        for s in sources:
            loads(d, s, "--prefix=%s/" % s)
        loads(d, "lines.txt", "more.txt")  # its keys are the ints
        before, was = listed(d), values(d)
        check(len(was) > 600, "%d values" % len(was))
        for owners in ((1,), (0, 3), (2, 4)):
            lost = lose(d, *owners, most=10)
            j = refill(d, *owners)
            check(j["items"] == len(items(lost)), "%d items were lost: %r" % (len(items(lost)), j))
            check(all("error" not in s for s in j["sets"]) and len(j["sets"]) == len(sources) + 1, j)
            check(j["bytes"] == sum(before[k][1] for k in items(lost)), j)
            check(listed(d) == before, "other keys, or at other managers")
            same(d, lost)
            check(values(d) == was, "other values")
        check(refill(d, 0, 1, 2, 3, 4)["items"] == 0, "nothing was lost")
        check(loads(d, "tree", "--prefix=tree/")["already"], "the set is not the same")
        d.end()


def what_was_not_lost_is_not_read():
    if not shutil.which("strace"):
        print("# no strace")
        return
    for i in range(64):
        write("flat/%d" % i, b"%d" % i * 20000)
    tar_of("large.tar", [("%d" % i, bytes([i]) * (4 << 20)) for i in range(20)])
    with dictionary(mem="500M") as d:  # of a folder only what was lost is read; of a tar what is in one piece of 1 MiB with it, too
        for source, more in (("flat", 300000), ("large.tar", 20 << 20)):
            loads(d, source, "--prefix=%s/" % source)
            lost = lose(d, 1)
            trace = path("trace")
            j = refill(d, 1, trace=trace)
            check(j["items"] == len(items(lost)) > 0, j)
            same(d, lost)
            with open(trace) as f:
                read = sum(int(n) for n in re.findall(r"(?:pread64|read)\(.*= (\d+)$", f.read(), re.M))
            every = sum(b for k, (_, b) in listed(d).items() if k.startswith("'%s/" % source))
            check(read < j["bytes"] + more < 0.9 * every, "%s: %d bytes were read for %d of %d" % (source, read, j["bytes"], every))
            check(ddict(d, "rm", "--all").code == 0, "rm --all")
        d.end()
    write("one/1", b"1")
    with dictionary() as d:  # a set that lost nothing: its source is not even looked for
        loads(d, "one", "--prefix=one/")
        shutil.rmtree(path("one"))
        (owner,) = [m for k, (m, _) in listed(d).items() if k == "'one/1'"]
        j = refill(d, *[m for m in range(5) if m != owner])
        check(j["sets"] == [{"set": "one", "items": 0, "bytes": 0, "lost": 0}], j)
        check("No such file" in refill(d, owner, code=1)["sets"][0]["error"], "a source that is gone")
        d.end()


def sources_that_changed_are_refused():
    for i in range(40):
        write("dir/%d" % i, b"%d" % i * 100)
    tar_of("s.tar", [("%d" % i, b"%d" % i * 100) for i in range(40)])
    write("s.txt", b"".join(b"line %d\n" % i for i in range(100)))
    shutil.copy(path("s.tar"), path("gone.tar"))
    with dictionary() as d:
        for s in ("dir", "s.tar", "s.txt", "gone.tar"):
            loads(d, s, "--prefix=%s/" % s)
        lost = lose(d, 2)
        tar_of("s.tar", [("%d" % i, b"%d" % (i + 1) * 100) for i in range(41)])
        os.remove(path("gone.tar"))
        changed = [k for k in of_set(lost, "dir/")][0]
        write("dir/" + changed.strip("'").split("/")[1], b"another size")
        j = refill(d, 2, code=1)
        s = sets_of(j)
        check("has changed since it was loaded" in s["s.tar"]["error"] and s["s.tar"]["items"] == 0, j)
        check("gone.tar" in s["gone.tar"]["error"] and s["gone.tar"]["items"] == 0, j)
        check("another size than when it was loaded" in s["dir"]["error"] and s["dir"]["items"] == s["dir"]["lost"] - 1, j)
        check("error" not in s["s.txt"] and s["s.txt"]["items"] == len(of_set(lost, "s.txt/")), j)
        there = listed(d)
        check(not [k for k in of_set(lost, "s.tar/") if k in there] and changed not in there, "something of a changed source was put")
        same(d, {k: v for k, v in lost.items() if k in of_set(lost, "s.txt/") or k in of_set(lost, "dir/") and k != changed})
        same(d, {k: v for k, v in lost.items() if k.startswith(REPLICATED)})
        d.end()


def what_is_there_counts_and_of_two_sets_the_later():
    tar_of("one.tar", [("%d" % i, b"one %d" % i) for i in range(60)])
    tar_of("two.tar", [("%d" % i, b"the second %d" % i) for i in range(0, 60, 2)])
    with dictionary() as d:
        loads(d, "one.tar", "--prefix=k/", "--set=one")
        loads(d, "two.tar", "--prefix=k/", "--set=two", "--replace")
        lost = lose(d, 0)
        mine = [k for k in of_set(lost, "k/")][0]
        check(ddict(d, "put", mine.strip("'"), "a program's").code == 0, "put")
        j = refill(d, 0)
        check(j["items"] == len(of_set(lost, "k/")) - 1, j)
        same(d, {k: v for k, v in lost.items() if k != mine})
        check(literal_get(d, mine) == b"a program's", "the program's value was replaced")
        d.end()


def sets_of_others_are_named():
    tar_of("r.tar", [("%d" % i, b"%d" % i) for i in range(60)])
    with dictionary() as d:
        loads(d, "r.tar", "--prefix=r/")
        check(ddict(d, "put", "--literal", "('ddict.set', 'python')", json.dumps({"version": 1, "name": "python", "kind": "samples", "items": 0, "parts": 0})).code == 0, "put")
        check(ddict(d, "save", path("saved")).code == 0, "save")
        d.end()
    with dictionary() as d:
        check(ddict(d, "restore", path("saved")).code == 0, "restore")
        lost = lose(d, 1)
        j = refill(d, 1, code=1)
        s = sets_of(j)
        check("it was restored" in s["r"]["error"] and j["items"] == 0, j)
        check("not put by `ddict load`" in s["python"]["error"], j)
        check(not [k for k in items(lost) if k in listed(d)], "what may have been changed was read")
        d.end()


def a_set_is_replaced_with_its_copies():
    tar_of("a.tar", [("%d" % i, b"a%d" % i) for i in range(60)])
    tar_of("b.tar", [("%d" % i, b"b%d" % i) for i in range(50)])
    with dictionary() as d, dictionary(nodes=2, managers=2, mem="64M") as two, Dictionary(mem="64M") as plain:
        for one in (d, two, plain):
            loads(one, "a.tar", "--prefix=s/")
        copies = [k for k in listed(d) if k.startswith("('ddict.refill'")]
        check(len(copies) == 2 * 3, "copies: %r" % copies)  # of the head, the keys and the sizes (no folders: no labels)
        at = {k: m % 3 for k, (m, _) in listed(d).items() if k.startswith(REPLICATED)}
        for what, piece in (("set", "('ddict.set', 's')"), ("keys", "('ddict.set', 's', 'keys', 0)"), ("sizes", "('ddict.set', 's', 'sizes', 0)")):
            nodes = [at[k] for k in at if k == piece or k.startswith("('ddict.refill', 's', '%s'" % what)]
            check(sorted(nodes) == [0, 1, 2], "%s is on the nodes %r" % (what, nodes))
        check(len([k for k in listed(two) if k.startswith("('ddict.refill'")]) == 3, "copies on two nodes")
        check(not [k for k in listed(plain) if k.startswith("('ddict.refill'")], "copies without --refill")
        check("refill" not in json.loads(stored(plain, "ddict.set", "s")), "the description without --refill")
        loads(d, "b.tar", "--prefix=s/", "--replace")
        lost = lose(d, 0, 1)
        j = refill(d, 0, 1)
        check(j["items"] == len([k for k in items(lost) if int(k.strip("'").split("/")[1]) < 50]), j)
        check(json.loads(stored(d, "ddict.set", "s"))["items"] == 50, "the description of the set that was replaced")
        d.end()
        two.end()
        plain.end()


def wrong_words_are_named():
    with dictionary(nodes=2, managers=2, mem="64M") as d:
        check("no manager that owns keys" in refill(d, 7, code=1)["error"], "manager 7")
        check("no manager that owns keys" in refill(d, "x", code=1)["error"], "manager x")
        check(refill(d, 0, 1)["sets"] == [], "an empty dictionary")
        d.end()


if __name__ == "__main__":
    run([every_kind_is_put_again, what_was_not_lost_is_not_read, sources_that_changed_are_refused, what_is_there_counts_and_of_two_sets_the_later,
         sets_of_others_are_named, a_set_is_replaced_with_its_copies, wrong_words_are_named])
