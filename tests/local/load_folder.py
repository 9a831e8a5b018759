# SPDX-License-Identifier: Apache-2.0
"""What the tests of `ddict load` share: a folder of sources, the command, and what is in the dictionary then."""
import io
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

from cluster import BUILD, check, main

COMMAND = os.path.join(BUILD, "ddict")
LIMIT = 120
folder = tempfile.mkdtemp(prefix="ddict-load-test.")  # of the sources; run() removes it


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err
        try:
            self.json = json.loads(out)
        except ValueError:
            self.json = {}

    def __repr__(self):
        return "exit code %d\n%s%s" % (self.code, self.out[-2000:], self.err[-2000:])


def ddict(d, *words, node=0, seconds=LIMIT):
    p = subprocess.run([COMMAND, *words], env=d.env(node), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds)
    return Result(p.returncode, p.stdout.decode(errors="surrogateescape"), p.stderr.decode(errors="surrogateescape"))


def load(d, *words, **kw):
    return ddict(d, "load", "--json", *words, **kw)


def loads(d, *words, **kw):
    """It must succeed; the summary."""
    r = load(d, *words, **kw)
    check(r.code == 0, "ddict load %s: %r" % (" ".join(words), r))
    return r.json


def refuses(d, what, *words, **kw):
    """It must fail, and say so."""
    r = load(d, *words, **kw)
    check(r.code == 1 and what in r.err, "ddict load %s: no %r in %r" % (" ".join(words), what, r))
    check(what in r.json.get("error", ""), "--json has no error: %r" % r)
    return r


def get(d, key, *words):
    p = subprocess.run([COMMAND, "get", "--raw", *words, key], env=d.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
    return p.stdout if p.returncode == 0 else None


def stored(d, *key):
    """A part of a set, which is there."""
    p = subprocess.run([COMMAND, "get", "--raw", "--literal", repr(key)], env=d.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
    check(p.returncode == 0, "%r: %d %s" % (key, p.returncode, p.stderr.decode()))
    return p.stdout


def keys(d):
    """The items' keys; none of a load may be left."""
    r = ddict(d, "ls", "-a")
    check(r.code == 0, r)
    lines = r.out.splitlines()
    check(not [k for k in lines if "ddict.load" in k], "a load left its keys: %r" % [k for k in lines if "ddict.load" in k][:5])
    return {k for k in lines if not k.startswith("('ddict.set'")}


def head(d, name):
    return json.loads(stored(d, "ddict.set", name))


def numbers(d, name, what, code="q"):
    data = stored(d, "ddict.set", name, what, 0)
    return list(struct.unpack("<%d%s" % (len(data) // 8, code), data))


def path(name):
    return os.path.join(folder, name)


def write(name, data):
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    with open(path(name), "wb") as f:
        f.write(data)


def member(tar, name, data=b"", kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(data), link
    tar.addfile(info, io.BytesIO(data))


def tar_of(name, members, mode="w", form=tarfile.GNU_FORMAT):
    with tarfile.open(path(name), mode, format=form, errors="surrogateescape") as tar:
        for m in members:
            member(tar, *m)


def value(name):
    """What file `name` of the tree has: its length and every byte depend on the name."""
    r = random.Random(name)
    return r.randbytes(r.choice([0, 1, 100, 5000, 70000]))


def keys_all(d):
    return ddict(d, "ls", "-a").out.splitlines()


def run(tests):
    try:
        if not os.access(os.path.join(BUILD, "ddict-load"), os.X_OK):
            print("no ddict-load in", BUILD)
            sys.exit(77)
        os.environ.pop("SLURM_JOB_ID", None)
        main(tests, 180)
    finally:
        shutil.rmtree(folder)
