#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `ddict load` put is read again when a node is lost, from its sources, this alone, and what cannot be is named; and what becomes of
sets that are replaced, removed or loaded once more."""
import glob
import json
import os
import re
import shutil
import stat
import struct
import subprocess
import tarfile
import tempfile
import time
import zipfile

import cluster
from cluster import BUILD, check
from load_folder import LIMIT, ddict, folder, load, loads, path, run, stored, tar_of, value, write
from refill import Refilled

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
    r = ddict(d, "ls", "-l", "--json", node=d.left()[0])
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
    d.wait_refilled(node, 60)
    sets = {}
    for name in glob.glob(SAID + ".*"):
        with open(name) as f:
            sets.update((s["set"], s) for s in json.load(f).get("sets", ()) if s["set"] not in sets or s["lost"] > sets[s["set"]]["lost"])
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
    more = [("a/link%d.jpg" % i, b"", tarfile.LNKTYPE, TREE[i]) for i in range(8)] + [(name, value(name)[::-1]) for name in TREE[20:]]  # names that come twice
    tar_of("t.tar", members + more)
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


def of_a_name_that_comes_twice_the_last_is_put():
    """And never another one, which others could see, or which could stay: a frozen dictionary takes what is put anew, not what is put over it."""
    names = ["a/%d" % i for i in range(60)]
    tar_of("twice.tar.gz", [(n, b"first " + n.encode()) for n in names] + [("once", b"once")] + [(n, b"later " + n.encode()) for n in names], "w:gz")
    with dictionary() as d:
        loads(d, "twice.tar.gz", "--set=twice")
        before, was = listed(d), values(d)
        r = ddict(d, "freeze", node=0)
        check(r.code == 0, r)
        _, sets, lost = lose(d, 1)
        check("error" not in sets["twice"] and sets["twice"]["items"] == len(items(lost)) > 5, sets)
        check(listed(d) == before and values(d) == was, "other values")
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
        _, s, lost = lose(d, 1)
        for name, why in (("r", "it was restored"), ("python", "not put by `ddict load`")):
            check(name not in s or why in s[name].get("error", "") or "its description was lost" in s[name]["error"], s)
        check(any("it was restored" in x.get("error", "") or "not put by" in x.get("error", "") for x in s.values()), s)
        check(not [k for k in items(lost) if k in listed(d)], "what may have been changed was read")
        r = load(d, "r.tar", "--prefix=r/")
        check(r.code == 1 and "it was restored" in r.err if items(lost) else r.json["already"], r)
        check(ddict(d, "restore", path("saved")).code == 0, "restore once more")
        check(loads(d, "r.tar", "--prefix=r/")["already"], "all is there")
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
    name = path("n").encode() + b"\xff.txt"
    with open(name, "wb") as f:
        f.write(b"a\nb\n")
    with dictionary(2) as d:
        r = load(d, os.fsdecode(name), "--set=n")
        check(r.code == 0 and "not read again" in r.err, r)
        check(json.loads(stored(d, "ddict.set", "n"))["refill"] is None, "its description")
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


def keys_of_s3_go_to_the_nodes():
    """With --refill ddictd needs them, too: srun is a script here that says what environment it has."""
    bin = path("slurm")
    os.mkdir(bin)
    for name, script in (("scontrol", "echo 'JobId=7 JobName=x'; echo '   NodeList=n[1-2]'; echo '     Nodes=n[1-2] CPU_IDs=0 Mem=4000 GRES='"),
                         ("srun", "case $* in --version) echo slurm 24.11.5 ;; *) env >'%s'; exit 1 ;; esac" % path("srun.env"))):
        with open(os.path.join(bin, name), "w") as f:
            f.write("#!/bin/sh\n%s\n" % script)
        os.chmod(os.path.join(bin, name), stat.S_IRWXU)
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
    run([every_kind_is_put_again, what_was_not_lost_is_not_read, sources_that_changed_are_refused, of_two_sets_the_later_counts,
         sets_of_others_are_named, a_set_is_replaced_and_removed_whole, the_same_load_reads_what_is_missing, a_name_that_is_no_utf8_is_told, what_was_saved_before_a_loss_is_kept, keys_of_s3_go_to_the_nodes, wrong_words_are_named])
