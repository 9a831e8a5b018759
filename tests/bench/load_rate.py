#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Compare the speed of `ddict load` with `tar -x` of the same archive to a local disk, and with plain reading.

    ddict run --managers=2 --mem=1500M -- python3 tests/bench/load_rate.py [--rounds 5]
    ddict run --managers=2 --mem=3G -- python3 tests/bench/load_rate.py --tiny 2000000

JPEGs of about 110 KB (contrib/examples/imagenet/make_images.py: numpy, Pillow) are made once and packed as tar, .tgz (gzip), .tar.zst (zstd) and a tar with one tar
for each class. Each round measures for each archive, in turn:

    read      read the archive in pieces of 1 MiB, and do nothing else
    unpack    gzip -dc or zstd -dc to /dev/null (compressed archives)
    tar -x    unpack to a new folder, inner tars to a folder for each class. Ends when tar ends: the files are in the page cache
    on disk   the same, and syncfs: ends when the files are on the disk
    load      `ddict load` into the dictionary, which was emptied before

The archive is in the page cache, unless --cold is given; the dictionary's pages are populated. A ratio compares times of one round: how many times as fast the load
is. The load reads with several threads, the others have one; the processor time tells what each costs (medians; for the load including the managers, on one node;
without the kernel's threads that write to the disk). --tiny makes a tar of N members of 32 bytes, loads it once, and checks the count and values. Times are printed,
not judged.
"""

import argparse
import ctypes
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

import ddict

IMAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "contrib", "examples", "imagenet", "make_images.py")
PIECE = 1 << 20
POPULATE_S = 60


# --- programs; each runs in its own session, so that all its children can be ended with it ---

def program(*command, watch=None, **kw):
    """Run a program; return its stdout and its resource usage. watch(pid) is called while it runs."""
    p = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, **kw)
    try:
        if watch is not None:
            while os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                watch(p.pid)
                time.sleep(0.02)
        out = p.stdout.read() if p.stdout is not None else b""
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    except BaseException:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()
        raise
    finally:
        if p.stdout is not None:
            p.stdout.close()
    if p.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {p.returncode}")
    return out, usage


def stop(signum, _):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signum)


def load_file(args, path, **kw):
    """Run ddict load; return its summary and its resource usage."""
    out, usage = program(args.ddict, "load", "--json", "--quiet", "--set=load_rate", path, stdout=subprocess.PIPE, **kw)
    return json.loads(out), usage


# --- archives ---

def classes_of(path):
    """(class name, members as (name, bytes)) for each class of a tar of tars."""
    with tarfile.open(path) as outer:
        for inner in outer:
            with tarfile.open(fileobj=io.BytesIO(outer.extractfile(inner).read())) as tar:
                yield inner.name[:-len(".tar")], [(m.name, tar.extractfile(m).read()) for m in tar]


def archives_make(folder, args):
    """{form: path}, the number of members and the sum of their sizes."""
    of_tars, plain = os.path.join(folder, "tars.tar"), os.path.join(folder, "plain.tar")
    program(sys.executable, IMAGES, "--classes", str(args.classes), "--images", str(args.images), of_tars, stdout=subprocess.DEVNULL)
    members = size = 0
    with tarfile.open(plain, "w") as tar:
        for name, images in classes_of(of_tars):
            for image, data in images:
                info = tarfile.TarInfo(f"{name}/{image}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
                members, size = members + 1, size + len(data)
    paths = {"tar": plain, "tar of tars": of_tars}
    for form, command, end in ((".tgz", ("gzip", "-c"), ".tgz"), (".tar.zst", ("zstd", "-qc"), ".tar.zst")):
        paths[form] = os.path.join(folder, "pressed" + end)
        with open(paths[form], "wb") as f:
            program(*command, plain, stdout=f.fileno())
    return paths, members, size


# --- what is measured ---

def read(path, room=bytearray(PIECE)):
    with open(path, "rb", buffering=0) as f:
        while f.readinto(room) > 0:
            pass


def extract(path, folder, of_tars):
    program("tar", "-xf", path, "-C", folder)
    for name in sorted(os.listdir(folder)) if of_tars else []:
        path = os.path.join(folder, name)
        os.mkdir(path[:-len(".tar")])
        program("tar", "-xf", path, "-C", path[:-len(".tar")])
        os.unlink(path)


def sync(folder):
    """syncfs. It also waits for writes of other processes to the same file system."""
    fd = os.open(folder, os.O_RDONLY)
    rc = ctypes.CDLL(None, use_errno=True).syncfs(fd)
    os.close(fd)
    if rc != 0:
        sys.exit(f"syncfs: {os.strerror(ctypes.get_errno())}")


def seconds(action, *args, **kw):
    start = time.perf_counter()
    action(*args, **kw)
    return time.perf_counter() - start


def cpu_seconds(d=None):
    """Processor time of this process, its ended children and the managers of d."""
    ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ticks = 0
    for s in d.stats if d is not None else []:
        try:
            with open(f"/proc/{s['pid']}/stat") as f:
                ticks += sum(int(n) for n in f.read().rsplit(")", 1)[1].split()[11:13])
        except OSError:
            pass
    return sum(u.ru_utime + u.ru_stime for u in ours) + ticks / os.sysconf("SC_CLK_TCK")


def forget(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def files_count(folder):
    return sum(len(files) for _, _, files in os.walk(folder))


def round_of(d, args, form, path, members, size, folder):
    """One round: {measurement: seconds}, and the same with processor time"""
    took, cpu = {}, {}
    ready = forget if args.cold else read

    def timed(what, action, *words, **kw):
        if action is not sync:
            ready(path)
        of = d if what == "load" else None
        cpu[what] = -cpu_seconds(of)
        took[what] = seconds(action, *words, **kw)
        cpu[what] += cpu_seconds(of)

    timed("read", read, path)
    if form in (".tgz", ".tar.zst"):
        timed("unpack", program, "gzip" if form == ".tgz" else "zstd", "-dc", path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    into = os.path.join(folder, "out")
    os.mkdir(into)
    sync(into)
    timed("tar -x", extract, path, into, form == "tar of tars")
    timed("on disk", sync, into)
    took["on disk"] += took["tar -x"]
    cpu["on disk"] += cpu["tar -x"]
    if files_count(into) != members:
        sys.exit(f"tar -x made {files_count(into)} files of {members}")
    shutil.rmtree(into)
    sync(folder)
    d.clear()
    said = {}
    timed("load", lambda: said.update(load_file(args, path)[0]))
    if (said["items"], said["bytes"]) != (members, size):
        sys.exit(f"ddict load put {said['items']} items, {said['bytes']} bytes, of {members}, {size}")
    return took, cpu


def spread(all_):
    return {"median": statistics.median(all_), "min": min(all_), "max": max(all_)}


def rates(d, args, folder):
    paths, members, size = archives_make(folder, args)
    say(args, f"{members} JPEGs, {size / 1e6:.1f} MB, {size / members / 1e3:.1f} KB each; {args.rounds} rounds; the archives {'not ' if args.cold else ''}in the page cache; "
              f"files to {args.fs}\n")
    rounds = {form: [] for form in paths}
    for _ in range(args.rounds):
        for form, path in paths.items():
            rounds[form].append(round_of(d, args, form, path, members, size, folder))
    result = {"members": members, "bytes": size, "rounds": args.rounds, "cold": args.cold, "files_to": args.fs, "forms": {}}
    say(args, f"| {'archive':12} | {'':8} | {'seconds':>7} | {'spread':>15} | {'MB/s':>6} | {'cpu s':>6} | {'load is':>8} | {'spread':>15} |")
    say(args, "| :-- | :-- | --: | --: | --: | --: | --: | --: |")
    for form, all_ in rounds.items():
        rows = result["forms"][form] = {"archive_bytes": os.path.getsize(paths[form])}
        for what in all_[0][0]:
            t = spread([took[what] for took, _ in all_])
            x = spread([took[what] / took["load"] for took, _ in all_])
            cpu = statistics.median(cpu[what] for _, cpu in all_)
            rows[what] = {"seconds": t, "mb_per_s": size / 1e6 / t["median"], "cpu_seconds": cpu, "load_is_times_as_fast": x}
            beside = ("", "") if what == "load" else (f"{x['median']:.2f} x", f"{x['min']:.2f} - {x['max']:.2f}")
            say(args, f"| {form:12} | {what:8} | {t['median']:7.3f} | {t['min']:6.3f} - {t['max']:6.3f} | {size / 1e6 / t['median']:6.0f} | {cpu:6.2f} | "
                      f"{beside[0]:>8} | {beside[1]:>15} |")
    return result


# --- many tiny members ---

def tiny_name(i):
    return f"d{i // 1000:06d}/{i:09d}"


def tiny_value(i):
    return hashlib.blake2b(i.to_bytes(8, "little"), digest_size=32).digest()


def tiny_write(path, n):
    info = tarfile.TarInfo(tiny_name(0))
    info.size = 32
    head = info.tobuf(tarfile.USTAR_FORMAT)
    total = sum(head[:148]) + sum(head[156:]) + 8 * 32 - sum(tiny_name(0).encode())
    length = len(tiny_name(0))
    with open(path, "wb", buffering=1 << 20) as f:
        for i in range(n):
            name = tiny_name(i).encode()
            f.write(name + head[length:148] + b"%06o\0 " % (total + sum(name)) + head[156:] + tiny_value(i) + bytes(480))
        f.write(bytes(1024))


class Peak:
    """Peak private memory of a process. Its resource usage would also count the dictionary's pages that it wrote to."""

    def __init__(self):
        self.kib = 0

    def __call__(self, pid):
        try:
            with open(f"/proc/{pid}/status") as f:
                self.kib = max([self.kib] + [int(line.split()[1]) for line in f if line.startswith("RssAnon:")])
        except OSError:
            pass


def tiny(d, args, folder):
    path = os.path.join(folder, "tiny.tar")
    n = args.tiny
    tiny_write(path, n)
    plain = seconds(read, path)
    peak, before = Peak(), used(d)
    start = time.perf_counter()
    said, usage = load_file(args, path, watch=peak)
    took = time.perf_counter() - start
    filled = used(d)
    parts = json.loads(d[("ddict.set", "load_rate")])["parts"]
    extra = 1 + 3 * parts  # the keys of the set itself: one head; and for each part keys, sizes, labels
    if said["items"] != n or said["bytes"] != 32 * n or len(d) != n + extra:
        sys.exit(f"{said['items']} items, {said['bytes']} bytes; {len(d)} keys instead of {n + extra}")
    looked = sorted({0, n - 1, *random.Random(n).sample(range(n), min(n, 10000))})
    for i in looked:
        if d[tiny_name(i)] != tiny_value(i):
            sys.exit(f"{tiny_name(i)} was loaded wrong")
    result = {"members": n, "archive_bytes": os.path.getsize(path), "seconds": took, "members_per_s": n / took, "read_seconds": plain,
              "peak_private_bytes": peak.kib * 1024, "peak_rss_bytes": usage.ru_maxrss * 1024, "cpu_seconds": usage.ru_utime + usage.ru_stime,
              "dictionary_bytes": filled - before, "dictionary_bytes_per_member": (filled - before) / n, "values_compared": len(looked)}
    say(args, f"{n} members of 32 bytes, a tar of {result['archive_bytes'] / 1e6:.0f} MB, in the page cache (read in {plain:.2f} s)")
    say(args, f"ddict load: {took:.2f} s, {n / took:,.0f} members/s; its processor time {result['cpu_seconds']:.2f} s")
    say(args, f"ddict-load's memory: {peak.kib / 1024:.0f} MiB of its own at the most ({peak.kib * 1024 / n:.0f} bytes a member), "
              f"{usage.ru_maxrss / 1024:.0f} MiB with the dictionary's that it touched")
    say(args, f"in the dictionary: {filled - before} bytes, {(filled - before) / n:.0f} a member with its key, its index and its part of the set")
    say(args, f"count right, {len(looked)} values compared")
    return result


# --- all ---

def used(d):
    return sum(s["total_used_bytes"] for s in d.stats)


def populated(d):
    """Wait until the dictionary's memory is populated, which goes on after its start."""
    seen, since = -1, time.monotonic()
    while time.monotonic() < since + POPULATE_S:
        now = sum(s["populated_bytes"] for s in d.stats)
        if now == seen:
            return
        seen = now
        time.sleep(0.5)


def say(args, line):
    if not args.json:
        print(line, flush=True)


def number(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: want a number from 1")
    return int(text)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=number, default=5)
    p.add_argument("--classes", type=number, default=10)
    p.add_argument("--images", type=number, default=450, help="of each class")
    p.add_argument("--cold", action="store_true", help="the archive's pages are dropped from the page cache before each measurement")
    p.add_argument("--tiny", type=number, metavar="N", help="a tar of N members of 32 bytes instead, once")
    p.add_argument("--folder", help="on the local disk, for archives and files (default: a temporary one)")
    p.add_argument("--ddict", default=shutil.which("ddict"), help="the program")
    p.add_argument("--json", action="store_true", help="an object instead of text")
    args = p.parse_args()
    if args.ddict is None:
        p.error("no ddict in PATH: --ddict=PATH says where it is")
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        d = ddict.attach()
    except ddict.NoDictError as e:
        sys.exit(str(e))
    if len(d) > 0:
        sys.exit("the dictionary is not empty, and this empties it: run it in one of its own")
    populated(d)
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="load_rate-") as folder:
        args.fs = subprocess.check_output(["df", "--output=fstype", folder], text=True).split()[-1]
        head = {"command": sys.argv, "managers": len(d.stats), "cpus": os.cpu_count(), "load_before": os.getloadavg()}
        say(args, f"{head['managers']} managers, {head['cpus']} cores, load average {head['load_before'][0]:.1f} before")
        result = tiny(d, args, folder) if args.tiny else rates(d, args, folder)
        head["load_after"] = os.getloadavg()
        say(args, f"\nload average {head['load_after'][0]:.1f} after")
    d.clear()
    if args.json:
        print(json.dumps({**head, **result}))


if __name__ == "__main__":
    main()
