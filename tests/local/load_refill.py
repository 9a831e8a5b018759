#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `ddict load` put is read again when a node is lost, from its sources, this alone, and what cannot be is named; and what becomes of
sets that are replaced, removed or loaded once more."""
import glob
import gzip
import json
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import tarfile
import tempfile
import time
import zipfile

import cluster
from cluster import BUILD, check
from load_folder import COMMAND, LIMIT, Result, ddict, folder, load, loads, path, run, stored, tar_of, value, write
from refill import Refilled
from s3_server import Server

TREE = ["%s/%s%d.jpg" % (c, f, i) for c in ("b", "a-c", "a", "\u00e4") for f, n in (("", 30), ("deep/", 3)) for i in range(n)]
SAID, TRACE = path("said"), path("trace")
DESCRIBES = ("('ddict.set'", "('ddict.refill'")


def child_shown():
    """ddictd finds its command beside itself: here one that keeps what the child says, and what it reads while there is a file TRACE."""
    bin = path("bin")
    os.mkdir(bin)
    shutil.copy(os.path.join(BUILD, "ddictd"), bin)
    with open(os.path.join(bin, "ddict"), "w") as f:
        f.write("""#!/bin/sh
case $* in *--refill*) ;; *) exec '%s/ddict' "$@" ;; esac
[ ! -e '%s' ] || trace='strace -f -qq -e trace=openat,pread64,read -o %s'
$trace '%s/ddict-load' "$2" "$3" "$4" "$5" >'%s'.$$
code=$?
cat '%s'.$$
exit $code
""" % (BUILD, TRACE, TRACE, BUILD, SAID, SAID))
    os.chmod(os.path.join(bin, "ddict"), stat.S_IRWXU)
    cluster.DDICTD = os.path.join(bin, "ddictd")


def dictionary(nodes=3, **kw):
    return Refilled(nodes=nodes, **kw)


def listed(d):
    """By key as `ddict ls` shows it: its manager and size."""
    r = ddict(d, "ls", "-a", "-l", "--json", node=d.left()[0])
    check(r.code == 0, r)
    return {k["key"]: (k["manager"], k["bytes"]) for k in json.loads(r.out)}


def literal_get(d, key):
    p = subprocess.run([os.path.join(BUILD, "ddict"), "get", "--raw", "--literal", key], env=d.env(d.left()[0]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
    return p.stdout if p.returncode == 0 else None


def values(d):
    """What all str keys have, as `ddict save --files` writes it."""
    to = tempfile.mkdtemp(dir=folder)
    r = ddict(d, "save", "--files", to, node=d.left()[0])
    check(r.code == 0, r)
    found = {}
    for at, _, names in os.walk(to):
        for name in names:
            with open(os.path.join(at, name), "rb") as f:
                found[os.path.relpath(os.path.join(at, name), to)] = f.read()
    shutil.rmtree(to)
    return found


def lose(d, node, trace=False):
    """A node, and its keys with it; when that is over: what was there (by key: its manager and size), what the children said (by set; of several
    tries, the first, for which most was lost), and the keys that were lost."""
    before = listed(d)
    for name in glob.glob(SAID + ".*") + [TRACE]:
        if os.path.exists(name):
            os.remove(name)
    if trace:
        open(TRACE, "w").close()
    owners = {m for m in range(d.n) if d.stats(d.left()[0])[m]["pid"] in d.pids_of(node)}
    d.lose(node)
    d.wait_refilled(node, 60, owners)
    sets = {}
    for name in sorted(glob.glob(SAID + ".*"), key=os.path.getmtime):  # later children find less to do
        with open(name) as f:
            for s in json.load(f).get("sets", ()):
                if not sets.get(s["set"], {}).get("lost"):
                    sets[s["set"]] = s
    return before, sets, [k for k, (m, _) in before.items() if m in owners]


def items(lost, prefix=""):
    return [k for k in lost if not k.startswith(DESCRIBES) and k.startswith("'" + prefix)]


def same(d, was, keys):
    for key in keys:
        check(literal_get(d, key) == was[key], "%s is not what it was" % key)


def every_kind_is_put_again():
    for name in TREE:
        write("tree/" + name, value(name))
    members = [(name, value(name)) for name in TREE]
    more = [("a/link%d.jpg" % i, b"", tarfile.LNKTYPE, TREE[i]) for i in range(8)]
    tar_of("t.tar", members + more + [(name, value(name)[::-1]) for name in TREE[20:]])  # names that come twice
    tar_of("t.tar.gz", members + more, "w:gz")
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
    with dictionary(4) as d:
        for s in sources:
            loads(d, s, "--prefix=%s/" % s, node=3)
        loads(d, "lines.txt", "more.txt", node=3)  # its keys are the ints
        before, was = listed(d), values(d)
        check(len(was) > 600, "%d values" % len(was))
        for node in (1, 0):
            _, sets, lost = lose(d, node)
            check(sum(s["items"] for s in sets.values()) == len(items(lost)) + len([k for k in lost if k.isdecimal()]), sets)
            check(len(sets) == len(sources) + 1 and all("error" not in s for s in sets.values()), sets)
            check(sum(s["bytes"] for s in sets.values()) == sum(before[k][1] for k in lost if not k.startswith(DESCRIBES)), sets)
            check(listed(d) == before, "other keys, or at other managers")
            check(values(d) == was, "other values")
        check(loads(d, "tree", "--prefix=tree/", node=3)["already"], "the set is not the same")
        d.end()


def what_was_not_lost_is_not_read():
    """Of a folder only what was lost is opened; of a tar what is in one piece of 1 MiB with it is read, too."""
    if not shutil.which("strace"):
        print("# no strace")
        return
    for i in range(64):
        write("flat/%d" % i, b"%d" % i * 20000)
    tar_of("large.tar", [("%d" % i, bytes([i]) * (4 << 20)) for i in range(20)])
    with dictionary(mem="500M") as d:
        for source in ("flat", "large.tar"):
            loads(d, source, "--prefix=%s/" % source)
        before, sets, lost = lose(d, 1, trace=True)
        check(len(sets) == 2 and all("error" not in s for s in sets.values()), sets)
        with open(TRACE) as f:
            text = f.read()
        read = sum(int(n) for n in re.findall(r"(?:pread64|read)\(.*= (\d+)$", text, re.M))
        every = sum(b for _, b in before.values())
        check(read < sum(s["bytes"] for s in sets.values()) + (20 << 20) < 0.9 * every, "%d bytes were read for %r of %d" % (read, sets, every))
        opened = len(re.findall(r"openat\(\d+, \"\d+\",", text))
        check(opened == len(items(lost, "flat/")) < 60, "%d files were opened" % opened)
        d.end()


def sources_that_changed_are_refused():
    for i in range(60):
        write("dir/%d" % i, b"%d" % i * 100)
    tar_of("s.tar", [("%d" % i, b"%d" % i * 100) for i in range(40)])
    write("s.txt", b"".join(b"line %d\n" % i for i in range(100)))
    shutil.copy(path("s.tar"), path("gone.tar"))
    with dictionary() as d:
        for s in ("dir", "s.tar", "s.txt", "gone.tar"):
            loads(d, s, "--prefix=%s/" % s)
        was = {k: literal_get(d, k) for k in listed(d) if not k.startswith(DESCRIBES)}
        time.sleep(0.02)  # files of a folder are told apart by when they were changed
        tar_of("s.tar", [("%d" % i, b"%d" % (i + 1) * 100) for i in range(41)])
        os.remove(path("gone.tar"))
        lost = items([k for k, (m, _) in listed(d).items() if m == 1], "dir/")
        names = [k.strip("'") for k in lost[:2]]
        write(names[0], b"another size")
        write(names[1], was["'%s'" % names[1]][::-1])  # the same size
        write("dir/new", b"a file that came")
        _, s, lost = lose(d, 1)
        check("has changed since it was loaded" in s["s.tar"]["error"] and s["s.tar"]["items"] == 0, s)
        check("gone.tar" in s["gone.tar"]["error"] and s["gone.tar"]["items"] == 0, s)
        check("it has changed since it was loaded" in s["dir"]["error"] and s["dir"]["items"] == s["dir"]["lost"] - 2 > 0, s)
        check("error" not in s["s.txt"] and s["s.txt"]["items"] == len(items(lost, "s.txt/")), s)
        there = listed(d)
        check(not [k for k in items(lost, "s.tar/") if k in there] and not [n for n in names if "'%s'" % n in there], "something of a changed source was put")
        same(d, was, [k for k in items(lost, "dir/") if k.strip("'") not in names] + items(lost, "s.txt/"))
        check(not [k for k in lost if k.startswith(DESCRIBES) and k not in there], "a description was not put again")
        d.end()


def of_a_stream_where_names_come_twice_nothing_is_put():
    """The last one counts: another one could be seen, or stay."""
    names = ["a/%d" % i for i in range(60)]
    tar_of("twice.tar.gz", [(n, b"first " + n.encode()) for n in names] + [(n, b"later " + n.encode()) for n in names], "w:gz")
    with dictionary() as d:
        check("more than once" in loads(d, "twice.tar.gz", "--set=twice")["note"], "no word at the load")
        check("more than once" in loads(d, "twice.tar.gz", "--set=twice")["note"], "no word of a set that is there already")
        _, sets, lost = lose(d, 1)
        check(sets["twice"]["lost"] == 0 and "more than once" in sets["twice"]["error"], sets)
        check(items(lost) and not [k for k in items(lost) if k in listed(d)], "one of two was put")
        r = load(d, "twice.tar.gz", "--set=twice")
        check(r.code == 1 and "more than once" in r.err and "--replace" in r.err and "same command" not in r.err, r)
        check(loads(d, "twice.tar.gz", "--set=twice", "--replace")["items"] == 60, "--replace")
        d.end()


def of_two_sources_that_have_a_name_nothing_is_put():
    """The one that was refused has the size of the other: it could be read in its place."""
    for i in range(60):
        write("first/%d" % i, b"first %d" % i)
        write("later/%d" % i, b"later %d" % i)
    tar_of("first.tar", [("%d" % i, b"first %d" % i) for i in range(60)])
    tar_of("later.tar", [("%d" % i, b"later %d" % i) for i in range(60)])
    with dictionary() as d:
        for kind in ("", ".tar"):
            j = loads(d, "first" + kind, "later" + kind, "--set=both" + kind, "--prefix=both%s/" % kind, "--on-error=skip")
            check(j["items"] == 60 == j["skipped"], j)
            check("refused" in j["note"], j)
        _, sets, lost = lose(d, 1)
        there = listed(d)
        for name in ("both", "both.tar"):
            check("refused" in sets[name]["error"], sets)
            check(items(lost, name + "/") and not [k for k in items(lost, name + "/") if k in there], "one of two was put")
        d.end()


def what_was_moved_into_a_folder_is_refused():
    """Files that are as old as they were, and as long: a rename, an unpacked archive, and a link that leads elsewhere show in the time of change of the inode alone."""
    def data(i):
        return b"%d" % i * 100

    for name in ("top/a", "top/b", "top/c", "one", "other", "v1", "v2"):
        for i in range(24):
            write("%s/%s%d" % (name, name[-1], i), data(i))
            os.utime(path("%s/%s%d" % (name, name[-1], i)), (10 ** 9, 10 ** 9))
    for i in range(24):
        write("links/to%d" % i, data(i))
        os.symlink("../links/to%d" % i, path("top/l%d" % i))
    write("one/future", b"")
    os.utime(path("one/future"), (2 ** 33, 2 ** 33))
    os.symlink("v1", path("now"))
    for i in range(24):
        os.rename(path("other/r%d" % i), path("other/b%d" % i))
        write("older/%d" % i, data(i)[::-1])
    with dictionary() as d:
        for s in ("top", "one", "now"):
            loads(d, s, "--prefix=%s/" % s)
        was = {k: literal_get(d, k) for k in listed(d)}
        lost = [k.strip("'") for k in items([k for k, (m, _) in listed(d).items() if m == 1])]
        time.sleep(0.02)
        os.rename(path("top/b"), path("before"))
        os.rename(path("other"), path("top/b"))
        for i in range(24):
            os.remove(path("top/l%d" % i))
            os.symlink("../older/%d" % i, path("top/l%d" % i))
        moved = next(k for k in lost if k.startswith("one/e"))
        shutil.copy(path(moved), path("copy"))
        shutil.copystat(path(moved), path("copy"))
        os.rename(path("copy"), path(moved))
        os.remove(path("now"))
        os.symlink("v2", path("now"))
        _, sets, lost = lose(d, 1)
        there = listed(d)
        check([k.strip("'") for k in items(lost, "one/") if k not in there] == [moved], "of a file that was moved: %r" % sets["one"])
        check("another folder" in sets["now"]["error"] and not [k for k in items(lost, "now/") if k in there], sets["now"])
        check(not [k for x in "bl" for k in items(lost, "top/" + x) if k in there], "of a folder that was moved, and of links: %r" % sets["top"])
        same(d, was, [k for x in "ac" for k in items(lost, "top/" + x)])
        check("has changed since" in sets["top"]["error"], sets["top"])
        d.end()


def what_cannot_be_looked_through_is_left_alone():
    """Where source one ends early the lines of source two would have other numbers."""
    pressed = gzip.compress(b"".join(b"line %d %d\n" % (i, hash(i * i)) for i in range(3000)))
    write("1.txt.gz", pressed[:len(pressed) // 2])
    write("2.txt", b"".join(b"more %d\n" % i for i in range(100)))
    with dictionary() as d:
        check("damaged" in loads(d, "1.txt.gz", "2.txt", "--prefix=n/", "--on-error=skip")["note"], "no word at the load")
        _, sets, lost = lose(d, 1)
        check("damaged" in sets["n"]["error"], sets)
        there = listed(d)
        check(items(lost) and not [k for k in items(lost) if k in there], "a line was put")
        d.end()


def of_two_sets_the_later_counts():
    """Also where it cannot be read again: the older one's values are not what was there."""
    members = {"%d" % i: b"one %d" % i for i in range(60)}
    tar_of("one.tar", list(members.items()))
    tar_of("two.tar", [("%d" % i, b"the second %d" % i) for i in range(0, 60, 2)])
    tar_of("three.tar", [("%d" % i, b"1ne %d" % i) for i in range(1, 60, 2)])  # of the size that the first one's have
    with dictionary() as d:
        loads(d, "one.tar", "--prefix=k/", "--set=one")
        loads(d, "two.tar", "--prefix=k/", "--set=two", "--replace")
        loads(d, "three.tar", "--prefix=k/", "--set=three", "--replace")
        was = {k: literal_get(d, k) for k in listed(d)}
        os.remove(path("three.tar"))
        _, sets, lost = lose(d, 1)
        odd = [k for k in items(lost) if int(k.strip("'").split("/")[1]) % 2]
        there = listed(d)
        check("error" in sets["three"] and odd and not [k for k in odd if k in there], "an older set's value was put: %r" % sets)
        same(d, was, [k for k in items(lost) if k not in odd])
        check("error" not in sets["two"] and sets["one"]["lost"] == 0, sets)
        tar_of("three.tar", [("%d" % i, b"1ne %d" % i) for i in range(1, 60, 2)])
        d.end()


def a_later_set_counts_where_it_is_never_read_again():
    tar_of("older.tar", [("%d" % i, b"older %d" % i) for i in range(60)])
    tar_of("later.tar.gz", [("%d" % i, b"later %d" % i) for i in range(60)] * 2, "w:gz")
    with dictionary() as d:
        loads(d, "older.tar", "--prefix=k/", "--set=older")
        loads(d, "later.tar.gz", "--prefix=k/", "--set=later", "--replace")
        _, sets, lost = lose(d, 1)
        check(items(lost) and not [k for k in items(lost) if k in listed(d)], "an older set's value was put: %r" % sets)
        check("more than once" in sets["later"]["error"] and sets["later"]["final"] and "error" not in sets["older"], sets)
        d.end()


def others_are_named_only_where_they_lost_something():
    names = ["r%d" % i for i in range(9)]
    for name in names:
        tar_of(name + ".tar", [(name, name.encode())])
    with dictionary() as d:
        for name in names:
            loads(d, name + ".tar")
        for i in range(9):
            name = "p%d" % i
            check(ddict(d, "put", name + "/0", name).code == 0, "put")
            check(ddict(d, "put", "--literal", "('ddict.set', '%s')" % name, json.dumps({"version": 1, "name": name, "kind": "samples", "prefix": name + "/", "numbered": True,
                                                                                         "items": 1, "parts": 1, "labels": False})).code == 0, "put")
            names.append(name)
        check(ddict(d, "save", path("saved2")).code == 0, "save")
        d.end()
    with dictionary() as d:
        check(ddict(d, "restore", path("saved2")).code == 0, "restore")
        _, sets, lost = lose(d, 1)
        for name in names:
            has_lost = [k for k in lost if "'%s'" % name in k or k == "'%s/0'" % name]
            if name in sets or not has_lost:
                check(("error" in sets[name]) == bool(has_lost) == ("final" in sets[name]), (name, sets[name], has_lost))
        check(0 < sum("error" in s for s in sets.values()) < len(sets), sets)
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
        check(not [k for k in listed(d) if k.startswith("('ddict.refill'")], "copies of another dictionary were restored")
        r = load(d, "r.tar", "--prefix=r/")
        check(r.code == 0 and r.json["already"] and "it was restored" in r.json["note"] and "it was restored" in r.err and "replace" in r.err, r)
        _, s, lost = lose(d, 1)
        for name, why in (("r", "it was restored"), ("python", "not put by `ddict load`")):
            check(name not in s or why in s[name].get("error", "") or "its description was lost" in s[name]["error"], s)
        check(any("it was restored" in x.get("error", "") or "not put by" in x.get("error", "") for x in s.values()), s)
        check(not [k for k in items(lost) if k in listed(d)], "what may have been changed was read")
        r = load(d, "r.tar", "--prefix=r/")
        check(r.code == 1 and "it was restored" in r.err if items(lost) else r.json["already"], r)
        check(ddict(d, "restore", path("saved")).code == 0, "restore once more")
        check(loads(d, "r.tar", "--prefix=r/")["already"], "all is there")
        check(not loads(d, "r.tar", "--prefix=r/", "--replace")["already"], "--replace")
        check("note" not in loads(d, "r.tar", "--prefix=r/"), "it is this dictionary's own now")
        d.end()


def a_set_is_replaced_and_removed_whole():
    tar_of("a.tar", [("%d" % i, b"a%d" % i) for i in range(60)])
    tar_of("b.tar", [("%d" % i, b"b%d" % i) for i in range(50)])
    with dictionary(4) as d, dictionary(2) as two, cluster.Dictionary(mem="64M") as plain:
        for one in (d, two, plain):
            loads(one, "a.tar", "--prefix=s/")
        copies = [k for k in listed(d) if k.startswith("('ddict.refill'")]
        check(len(copies) == 2 * 3, "copies: %r" % copies)  # of the head, the keys and the sizes (no folders: no labels)
        at = {k: m % 4 for k, (m, _) in listed(d).items() if k.startswith(DESCRIBES)}
        for what, piece in (("set", "('ddict.set', 's')"), ("keys", "('ddict.set', 's', 'keys', 0)"), ("sizes", "('ddict.set', 's', 'sizes', 0)")):
            nodes = [at[k] for k in at if k == piece or k.startswith("('ddict.refill', 's', '%s'" % what)]
            check(len(set(nodes)) == len(nodes) == 3, "%s is on the nodes %r" % (what, nodes))
        check(len([k for k in listed(two) if k.startswith("('ddict.refill'")]) == 3, "copies on two nodes")
        check(not [k for k in listed(plain) if k.startswith("('ddict.refill'")], "copies without --refill")
        check("refill" not in json.loads(stored(plain, "ddict.set", "s")), "the description without --refill")
        check(ddict(plain, "restore", "--loaded").code == 0 and [k for k in listed(plain) if "ddict.loaded" in k] == ["'ddict.loaded'"], "the word without --refill")
        check(ddict(plain, "rm", "ddict.loaded").code == 0, "rm of the word")
        for what in (["rm", "s/1"], ["put", "s/1", "x"], ["rm", "--literal", "('ddict.set', 's')"]):
            r = ddict(d, *what)
            check(r.code == 1 and ("rm --set" in r.err if what[0] == "rm" else "data set" in r.err), "%r: %r" % (what, r))
        check(ddict(plain, "rm", "s/1").code == 0, "rm without --refill")
        loads(d, "b.tar", "--prefix=s/", "--replace", node=3)
        check(len(items(listed(d))) == 50, "what the new set has not is there: %r" % items(listed(d)))
        was = {k: literal_get(d, k) for k in listed(d)}
        _, sets, lost = lose(d, 1)
        check(sets["s"]["items"] == len(items(lost)) and "error" not in sets["s"], sets)
        same(d, was, lost)
        loads(d, "a.tar", "--prefix=s/", "--set=other", "--replace", node=3)
        for one, code in ((d, 0), (plain, 0), (d, 3)):
            r = ddict(one, "rm", "--set=s", node=one.left()[-1])
            check(r.code == code, r)
        check(not listed(plain), listed(plain))
        for one in (d, plain):
            for name in ("s", "n" * 201, "n" * 500, "n" * 5000):
                r = ddict(one, "rm", "--set=" + name, node=one.left()[-1])
                check(r.code == 3 and "there is no set" in r.err, r)
        there = listed(d)
        check(not [k for k in there if "'s'" in k] and not items(there, "s/1'"), there)  # with the items that both have
        _, sets, lost = lose(d, 2)
        check(list(sets) == ["other"], sets)
        d.end()
        two.end()


def the_same_load_reads_what_is_missing():
    tar_of("late.tar", [("%d" % i, b"%d" % i * 50) for i in range(60)])
    with dictionary() as d:
        loads(d, "late.tar", "--prefix=l/")
        was = {k: literal_get(d, k) for k in listed(d)}
        os.rename(path("late.tar"), path("away"))
        _, sets, lost = lose(d, 1)
        check("error" in sets["l"] and items(lost) and not [k for k in items(lost) if k in listed(d)], sets)
        r = load(d, "late.tar", "--prefix=l/")
        check(r.code == 1, r)
        os.rename(path("away"), path("late.tar"))
        j = loads(d, "late.tar", "--prefix=l/")
        check(j["already"] and j["there"] == 60 - len(items(lost)), j)
        same(d, was, lost)
        check(loads(d, "late.tar", "--prefix=l/")["there"] == 60, "it was read twice")
        loads(d, "late.tar", "--prefix=anew/")  # and a new one
        check(len(items(listed(d), "anew/")) == 60, "a new set")
        d.end()


def a_name_that_is_no_utf8_is_told():
    """Such a set is not read again; its description is, so it can be removed."""
    name = os.fsdecode(path("n").encode() + b"\xff.tar")
    tar_of(name, [("%d" % i, b"%d" % i) for i in range(60)])
    for what in ("set", "keys"):
        with dictionary(3) as d:
            r = load(d, name, "--set=n", "--prefix=n/")
            check(r.code == 0 and "not read again" in r.err and "UTF-8" in r.json["note"], r)
            check(json.loads(stored(d, "ddict.set", "n"))["refill"]["once"].find("UTF-8") > 0, "its description")
            piece = "('ddict.set', 'n')" if what == "set" else "('ddict.set', 'n', 'keys', 0)"
            before, sets, lost = lose(d, listed(d)[piece][0])
            there = listed(d)
            check("UTF-8" in sets["n"]["error"] and not [k for k in before if k.startswith(DESCRIBES) and k not in there], (sets, there))
            check(items(there) and len(items(there)) == 60 - len(items(lost)), there)
            r = ddict(d, "rm", "--set=n", node=d.left()[-1])
            check(r.code == 0 and not listed(d), (r, listed(d)))
            d.end()


def a_set_that_is_half_removed_is_not_loaded_already():
    write("many.txt", b"".join(b"line %d\n" % i for i in range(20000)))
    with dictionary(2) as d, cluster.Dictionary(mem="64M") as plain:
        for one in (d, plain):
            for attempt in range(20):
                loads(one, "many.txt", "--prefix=m/")
                count = sum(s["num_keys"] for s in one.stats().values())
                p = subprocess.Popen([COMMAND, "rm", "--set=m"], env=one.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                while p.poll() is None and sum(s["num_keys"] for s in one.stats().values()) > count - 100:
                    pass
                p.kill()
                p.communicate()
                if p.returncode < 0:
                    break
            else:
                raise cluster.Failed("no removal could be stopped")
            r = load(one, "many.txt", "--prefix=m/")
            check(r.code == 1 and "--replace" in r.err and "removed" in r.err, r)
            j = loads(one, "many.txt", "--prefix=m/", "--replace")
            check(j["items"] == 20000 and loads(one, "many.txt", "--prefix=m/")["already"], j)
            p = subprocess.Popen([COMMAND, "rm", "--set=m"], env=one.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(0.1)
            p.kill()
            p.communicate()
            r = ddict(one, "rm", "--set=m")
            check(r.code == (0 if p.returncode < 0 else 3) and not listed(one) if one is d else r.code in (0, 3), r)
            one.end()


# --- a node is lost while a set is loaded ---
class Objects:
    """Objects of a server that holds back the last ones; the load of them, begun."""

    def __init__(self, count, size):
        self.data = {"o/%05d" % i: (b"%d." % i) * (size // len(b"%d." % i)) for i in range(count)}
        self.s3 = Server(self.data, signed=False)
        self.s3.held = sorted(self.data)[-3:]
        self.s3.serving.clear()
        self.words = ["--anon", "--threads=1", "s3://bucket/o", "--prefix=o/", "--set=o"]

    def __enter__(self):
        self.s3.__enter__()
        return self

    def __exit__(self, *a):
        return self.s3.__exit__(*a)

    def env(self, d):
        return dict(d.env(d.left()[-1]), **self.s3.environment(), DDICT_S3_STALL="100")

    def begin(self, d, least):
        """All but what is held, and what is written with that, is there."""
        p = subprocess.Popen([COMMAND, "load", "--json", *self.words], env=self.env(d), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        cluster.wait_for("items", lambda: self.s3.inside >= len(self.s3.held) and len(items(listed(d), "o/")) >= least, 60, pace=0.1)
        return p

    def load(self, d, code=0):
        p = subprocess.run([COMMAND, "load", "--json", *self.words], env=self.env(d), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
        r = Result(p.returncode, p.stdout.decode(), p.stderr.decode())
        check(r.code == code, r)
        return r

    def lists(self):
        return sum("list-type" in p for p, _, _ in list(self.s3.seen))

    def are_there(self, d):
        found = values(d)
        check({k: v for k, v in found.items() if k.startswith("o/")} == self.data, "%d values of %d" % (len(found), len(self.data)))


def over(p):
    out, err = p.communicate(timeout=LIMIT)
    return Result(p.returncode, out.decode(), err.decode())


def state_of(d):
    """Keys by which processes of a load meet, but those of its threads and beats: by key, their managers."""
    return {k: m for k, (m, _) in listed(d).items() if "'ddict.load'" in k and "'claim'" not in k and "'beat'" not in k and "'stop'" not in k}


def goes_on(word, killed, number):
    """False: the key that is to be lost is on the node of the load."""
    with Objects(2300, 200) as o, dictionary() as d:
        o.words[-1] += str(number)
        p = o.begin(d, 2000)
        state = state_of(d)
        node = next(m for k, m in state.items() if word in k)
        if killed or node == 2:
            p.send_signal(signal.SIGTERM)
            r = over(p)
            check(r.code == 1 and "ended by a signal" in r.err, r)
        if node == 2:
            return False
        _, _, lost = lose(d, node)
        check(items(lost, "o/") and [k for k in lost if k in state], lost)
        o.s3.serving.set()
        if not killed:
            r = over(p)
            check(r.code == 1 and "the same command goes on" in r.err, r)
        r = o.load(d)
        check(r.json["items"] == len(o.data) and 0 < r.json["there"] < len(o.data), r)
        o.are_there(d)
        check(o.load(d).json["already"], "it is not complete")
        check(not [k for k in state_of(d) if "begun" in k or "done" in k or "'plan'" in k or "'unit'" in k or "'part'" in k], state_of(d))
        d.end()
    return True


def a_load_goes_on_or_begins_anew_after_a_loss():
    """What its processes tell each other is lost, too: the list of a unit, or that there was a try at all; with the load, or while it waits for its source."""
    for word, killed in (("'part'", False), ("'run'", True)):
        check(any(goes_on(word, killed, n) for n in range(12)), "the key was always on the node of the load")


def waits_for_its_twin(killed, number):
    """False: the key that is to be lost is not, or all that says that the first of two loads runs."""
    with Objects(1300, 200) as o, dictionary() as d:
        o.words[-1] += str(number)
        o.words.append("--on-error=skip")
        first = o.begin(d, 1000)
        state = state_of(d)
        node, owner = (next(m for k, m in state.items() if word in k) for word in ("'part'" if killed else "'run'", "'set'"))
        waits = node != 2 and (killed or node != owner)
        if waits:
            second = subprocess.Popen([COMMAND, "load", "--json", *o.words], env=o.env(d), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            check("another process" in second.stderr.readline().decode(), "it does not wait")
            if killed:
                first.kill()
            lose(d, node)
            time.sleep(3)
            check(second.poll() is None, "two processes load the same")
        o.s3.serving.set()
        a = over(first)
        if not waits:
            return False
        b = over(second)
        check(killed or a.code == 0 or "the same command goes on" in a.err, a)
        check(b.code == 0 and b.json["items"] == len(o.data), (a, b))
        o.are_there(d)
        check(o.load(d).json["already"], "it is not complete")
        check(not [k for k in state_of(d) if "begun" in k or "done" in k or "'plan'" in k or "'unit'" in k or "'part'" in k], state_of(d))
        d.end()
    return True


def of_two_processes_one_loads_after_a_loss_too():
    for killed in (False, True):
        check(any(waits_for_its_twin(killed, n) for n in range(12)), "the key was always on a node that stays")


def a_load_that_waits_for_a_refill_can_be_ended():
    with Objects(60, 2000) as o, dictionary(env=dict(o.s3.environment(), DDICT_S3_STALL="100")) as d:
        o.s3.held = ()
        o.s3.serving.set()
        o.load(d)
        tar_of("next.tar", [("%d" % i, b"%d" % i) for i in range(60)])
        o.s3.serving.clear()
        d.lose(1)
        d.wait_anew(1)
        cluster.wait_for("the source to be read again", lambda: o.s3.inside > 0, 20)
        p = subprocess.Popen([COMMAND, "load", "next.tar", "--prefix=next/"], env=d.env(2), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = p.stderr.readline().decode()
        check("waiting until what a lost node had" in said, said)
        rm = subprocess.Popen([COMMAND, "rm", "--set=o"], env=d.env(2), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = rm.stderr.readline().decode()
        rm.kill()
        over(rm)
        check("waiting until what a lost node had" in said, said)
        began = time.monotonic()
        p.send_signal(signal.SIGINT)
        r = over(p)
        check(r.code == 1 and "ended by a signal" in r.err and time.monotonic() - began < 12, r)
        o.s3.serving.set()
        d.wait_refilled(1, 60)
        check(loads(d, "next.tar", "--prefix=next/", node=2)["items"] == 60, "the next load")
        o.are_there(d)
        d.end()


def a_replacement_that_was_broken_off_is_not_tried_again():
    with Objects(60, 2000) as o, dictionary() as d:
        o.s3.serving.set()
        o.load(d)
        o.s3.serving.clear()
        p = subprocess.Popen([COMMAND, "load", "--replace", *o.words], env=o.env(d), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        cluster.wait_for("it to read", lambda: o.s3.inside > 0, 20)
        p.kill()
        over(p)
        check(json.loads(stored(d, "ddict.set", "o"))["load"] == "", "it does not replace")
        o.s3.serving.set()
        _, sets, _ = lose(d, 1 if listed(d)["('ddict.set', 'o')"][0] == 2 else 2)  # the head has no copies now
        check("broken off" in sets["o"]["error"] and len(glob.glob(SAID + ".*")) == 1, (sets, glob.glob(SAID + ".*")))
        d.end()


def a_load_that_cannot_read_again_what_was_lost_is_no_success():
    with Objects(40, 200000) as o, dictionary() as d:
        p = o.begin(d, 15)
        before, _, lost = lose(d, 1)
        check(items(lost, "o/"), "nothing was lost")
        lists = o.lists()
        o.s3.listing.clear()
        o.s3.serving.set()
        cluster.wait_for("the source to be listed again", lambda: o.lists() > lists or p.poll() is not None, 60, pace=0.05)
        check(p.poll() is None, p.poll() is not None and over(p))
        p.send_signal(signal.SIGINT)
        r = over(p)
        check(r.code == 1 and "ended by a signal" in r.err, r)
        o.s3.listing.set()
        r = o.load(d)
        check(r.json["already"] and r.json["there"] == len(o.data) - len(items(lost, "o/")), r)
        o.are_there(d)
        d.end()


def what_was_saved_before_a_loss_is_kept():
    """Also by the passes after it; and they go on where the word that all is loaded was lost."""
    to = path("saves")
    with dictionary(args=["--save", to, "--save-after-load", "--save-end", str(int(time.time()) + 8), "--save-lead", "60"]) as d:
        keys = {k: m for m, names in d.fill(10).items() for k in names}
        check(ddict(d, "restore", "--loaded").code == 0, "restore --loaded")
        words = {k: m for k, (m, _) in listed(d).items() if k.startswith("'ddict.loaded")}
        node = words["'ddict.loaded'"]
        check(len(words) == 8 and set(words.values()) - {node}, words)
        cluster.wait_for("a pass", lambda: os.path.exists(os.path.join(to, "manifest.json")), 30)
        lose(d, node)
        a = d.ask(d.left()[0])
        a.does("put", "later", 7)
        d.end()
    with open(os.path.join(to, "manifest.json")) as f, open(os.path.join(to, "manifest-before-loss.json")) as g:
        now, before = json.load(f), json.load(g)
    check(now["lost"] and "lost" not in before, now)
    check(now["items"] == sum(m != node for m in keys.values()) + 1 and before["items"] == len(keys), (now, before))
    for name, has, hint in (("manifest.json", {**{k: 1 for k, m in keys.items() if m != node}, "later": 1}, True), ("manifest-before-loss.json", keys, False)):
        os.rename(os.path.join(to, name), os.path.join(to, "manifest.json"))
        with dictionary() as d:
            r = ddict(d, "restore", to)
            check(r.code == 0 and ("manifest-before-loss.json" in r.err) == hint, r)
            a = d.ask(0)
            for key in has:
                check(a.call("get", key)[0] == 0, "%s of %s" % (key, name))
            check(a.call("len")[0] == len(has), "%s: %r" % (name, a.call("len")))
            d.end()


def slurm_shown():
    """A folder with a scontrol that knows a job of two nodes, and an srun that says what environment it has."""
    bin = path("slurm")
    os.makedirs(bin, exist_ok=True)
    for name, script in (("scontrol", "echo 'JobId=7 JobName=x'; echo '   NodeList=n[1-2]'; echo '     Nodes=n[1-2] CPU_IDs=0 Mem=4000 GRES='"),
                         ("srun", "case $* in --version) echo slurm 24.11.5 ;; *) env >'%s'; exit 1 ;; esac" % path("srun.env"))):
        with open(os.path.join(bin, name), "w") as f:
            f.write("#!/bin/sh\n%s\n" % script)
        os.chmod(os.path.join(bin, name), stat.S_IRWXU)
    return bin


def after_a_loss_one_process_loads():
    """Those on the nodes would be started by srun on one that is not there; and node 0 may be it, whose process leads."""
    bin = slurm_shown()
    tar_of("alone.tar", [("%d" % i, b"%d" % i * 50) for i in range(60)])
    with dictionary(name="%d.%d.job" % (os.getuid(), os.getpid())) as d:
        def load_it():
            env = {**d.env(d.left()[-1]), "PATH": bin + ":" + os.environ["PATH"]}
            p = subprocess.run([COMMAND, "load", "--json", "alone.tar", "--prefix=x/"], env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               timeout=LIMIT)
            return Result(p.returncode, p.stdout.decode(), p.stderr.decode()), os.path.exists(path("srun.env"))
        r, has_srun = load_it()
        check(r.code == 1 and has_srun, r)
        os.remove(path("srun.env"))
        loads(d, "alone.tar", "--prefix=x/", "--here")
        was = {k: literal_get(d, k) for k in listed(d)}
        os.rename(path("alone.tar"), path("away.tar"))
        _, sets, lost = lose(d, 0)
        check("error" in sets["x"], sets)
        os.rename(path("away.tar"), path("alone.tar"))
        r, has_srun = load_it()
        check(r.code == 0 and r.json["already"] and not has_srun, r)
        same(d, was, lost)
        d.end()


def keys_of_s3_go_to_the_nodes():
    """With --refill ddictd needs them, too: srun is a script here that says what environment it has."""
    bin = slurm_shown()
    kept = {"AWS_ACCESS_KEY_ID": "a", "AWS_ENDPOINT_URL": "http://s", "SSL_CERT_FILE": "/c", "HTTPS_PROXY": "http://p", "no_proxy": "n1"}
    env = {**os.environ, **kept, "AWSOME": "no", "SLURM_JOB_ID": "7", "PATH": bin + ":" + os.environ["PATH"]}
    for words, has in ((["--refill"], kept), ([], {})):
        p = subprocess.run([os.path.join(BUILD, "ddict"), "up", "--managers=2", "--mem=64M", "--record=none", *words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=LIMIT)
        check(os.path.exists(path("srun.env")), p.stdout)
        with open(path("srun.env")) as f:
            found = dict(line.rstrip("\n").split("=", 1) for line in f if "=" in line)
        os.remove(path("srun.env"))
        check({k: v for k, v in found.items() if k in kept or k == "AWSOME"} == has, "%r: %r" % (words, found))


def wrong_words_are_named():
    with dictionary(2) as d:
        for word in ("7", "x"):
            p = subprocess.run([os.path.join(BUILD, "ddict-load"), "--refill=" + word, "--name=" + d.name], env=d.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=LIMIT)
            check(p.returncode == 1 and "no manager that owns keys" in json.loads(p.stdout)["error"], p.stdout)
        d.end()


if __name__ == "__main__":
    child_shown()
    run([every_kind_is_put_again, what_was_not_lost_is_not_read, sources_that_changed_are_refused, what_was_moved_into_a_folder_is_refused,
         what_cannot_be_looked_through_is_left_alone, a_set_that_is_half_removed_is_not_loaded_already, a_load_goes_on_or_begins_anew_after_a_loss, of_two_processes_one_loads_after_a_loss_too, a_load_that_waits_for_a_refill_can_be_ended, a_replacement_that_was_broken_off_is_not_tried_again,
         a_load_that_cannot_read_again_what_was_lost_is_no_success, of_a_stream_where_names_come_twice_nothing_is_put, of_two_sources_that_have_a_name_nothing_is_put, of_two_sets_the_later_counts,
         sets_of_others_are_named, a_later_set_counts_where_it_is_never_read_again, others_are_named_only_where_they_lost_something, a_set_is_replaced_and_removed_whole, the_same_load_reads_what_is_missing, a_name_that_is_no_utf8_is_told, what_was_saved_before_a_loss_is_kept, after_a_loss_one_process_loads, keys_of_s3_go_to_the_nodes, wrong_words_are_named])
