#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`ddict save` and `ddict restore`: what comes back is what was there, on another number of nodes and managers; a save is whole or has not its name."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import cluster
from cluster import BUILD, Dictionary, check, children, main, wait_for

DDICT = os.path.join(BUILD, "ddict")


def ddict(d, *args, code=0, node=0, text=True):
    p = subprocess.run([DDICT, *args], env=d.env(node), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=text, timeout=60)
    check(p.returncode == code, "ddict %s: exit code %d: %s" % (" ".join(args), p.returncode, p.stderr))
    return p.stdout, p.stderr


def fill(d):
    d.run("fill", "k", 3000, 700)
    for args in (["put", "text/α", "ü" * 40], ["put", "--int", "7", "sieben"], ["put", "empty", ""]):
        ddict(d, *args)
    big = os.urandom(9 << 20)
    with tempfile.NamedTemporaryFile() as f:
        f.write(big)
        f.flush()
        ddict(d, "put", "big", "--file", f.name)
    return big


def content(d):
    """Every key, with its size, kind and bytes."""
    listed = json.loads(ddict(d, "ls", "-a", "-l", "--json")[0])
    return {e["hex"] + str(e["key_bytes"]): (e["bytes"], e["kind"]) for e in listed}


class Folder:
    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="ddict-save-")
        return self.path

    def __exit__(self, *a):
        shutil.rmtree(self.path)


def it_comes_back_elsewhere():
    with Folder() as folder:
        path = os.path.join(folder, "saved")
        with Dictionary(nodes=2, managers=3, mem="192M") as d:
            big = fill(d)
            was = content(d)
            said = json.loads(ddict(d, "save", "--json", path)[0])
            check(said["items"] == len(was) and said["path"] == path, "%r" % said)
        with open(os.path.join(path, "manifest.json")) as f:
            manifest = json.load(f)
        check(manifest["items"] == len(was) and manifest["managers"] == 3 and sum(p["items"] for p in manifest["parts"]) == len(was), "%r" % manifest)
        check(sorted(os.listdir(folder)) == ["saved"], "%r" % os.listdir(folder))
        for nodes, managers in ((1, 1), (3, 5)):
            with Dictionary(nodes=nodes, managers=managers, mem="%dM" % (64 * managers)) as d:
                ddict(d, "restore", path)
                check(content(d) == was, "another content on %d nodes" % nodes)
                check(ddict(d, "get", "big", text=False)[0] == big, "big")
                check(ddict(d, "get", "--int", "7")[0].strip() == "sieben", "7")
                d.run("verify", "k", 3000, 700)


def a_prefix_alone():
    with Folder() as folder, Dictionary(managers=2, mem="64M") as d:
        for k in ("a/1", "a/2", "b/1"):
            ddict(d, "put", k, k)
        path, one = os.path.join(folder, "a"), os.path.join(folder, "all.ddict")
        ddict(d, "save", "--prefix", "a/", path)
        ddict(d, "save", one)
        check(os.path.isfile(one), "a file")
        for k in ("a/1", "a/2", "b/1"):
            ddict(d, "rm", k)
        ddict(d, "put", "a/1", "newer")
        ddict(d, "restore", "--keep", path)
        check(sorted(ddict(d, "ls", "-a")[0].split()) == ["'a/1'", "'a/2'"] and ddict(d, "get", "a/1")[0] == "newer", ddict(d, "get", "a/1")[0])
        ddict(d, "restore", path)
        check(ddict(d, "get", "a/1")[0] == "a/1", "put over")
        ddict(d, "restore", "--prefix", "b", one)
        check(sorted(ddict(d, "ls", "-a")[0].split()) == ["'a/1'", "'a/2'", "'b/1'"], ddict(d, "ls", "-a")[0])


def what_is_damaged_is_refused():
    with Folder() as folder, Dictionary(managers=1, mem="32M") as d:
        d.run("fill", "k", 500, 300)
        path = os.path.join(folder, "saved")
        ddict(d, "save", path)
        part = os.path.join(path, "0-0.part")
        size = os.path.getsize(part)
        with open(part, "r+b") as f:
            f.seek(size // 2)
            byte = f.read(1)
            f.seek(size // 2)
            f.write(bytes([byte[0] ^ 1]))
        err = ddict(d, "restore", path, code=1)[1]
        check("0-0.part is damaged" in err and "checksum" in err, err)
        os.truncate(part, size - 1)
        err = ddict(d, "restore", path, code=1)[1]
        check("it has %d bytes and should have %d" % (size - 1, size) in err, err)
        os.unlink(part)
        err = ddict(d, "restore", path, code=1)[1]
        check("0-0.part: No such file" in err, err)
        for text, word in (("{", "damaged"), ('{"version": 99}', "version 99"), ('{"version": 1, "id": "x", "parts": []}', "wanted"),
                           (json.dumps({"version": 1, "id": "0" * 32, "parts": [{"file": "../../etc/passwd"}]}), "part 0")):
            with open(os.path.join(path, "manifest.json"), "w") as f:
                f.write(text)
            err = ddict(d, "restore", path, code=1)[1]
            check(word in err and "manifest.json" in err, "%s: %s" % (text, err))
        for name, word in (("manifest.json", "damaged"), ("fifo", "no saved dictionary")):  # nothing is waited for
            fifo = os.path.join(path, name)
            if os.path.exists(fifo):
                os.unlink(fifo)
            os.mkfifo(fifo)
            err = ddict(d, "restore", path if name == "manifest.json" else fifo, code=1)[1]
            check(word in err and name in err, err)
        os.unlink(os.path.join(path, "manifest.json"))
        check("no manifest.json" in ddict(d, "restore", path, code=1)[1], "manifest")
        check("No such file" in ddict(d, "restore", os.path.join(folder, "none"), code=1)[1], "none")


def it_does_not_fit():
    with Folder() as folder:
        path = os.path.join(folder, "saved")
        with Dictionary(managers=1, mem="64M") as d:
            d.run("fill", "k", 20, 1000000)
            ddict(d, "save", path)
        with Dictionary(managers=1, mem="8M") as d:
            err = ddict(d, "restore", path, code=1)[1]
            check("19.1 MiB" in err and "8.0 MiB" in err and "--ddict-mem" in err and "--ddict-spill" in err, err)
            check(ddict(d, "ls", "-a")[0] == "", "something was put")


def nothing_is_written_over_and_nothing_stays():
    with Folder() as folder, Dictionary(managers=2, mem="256M") as d:
        d.run("fill", "k", 100, 1000)
        path = os.path.join(folder, "saved")
        os.mkdir(path)
        check("is there already" in ddict(d, "save", path, code=1)[1], "there")
        os.rmdir(path)
        check("cannot make" in ddict(d, "save", os.path.join(folder, "no", "folder"), code=1)[1], "no folder")
        check(os.listdir(folder) == [], "%r" % os.listdir(folder))
        d.run("fill", "big", 100, 1 << 20)
        for name in ("at-once.ddict", "at-once"):
            ps = [subprocess.Popen([DDICT, "save", "-q", os.path.join(folder, name)], env=d.env(), stderr=subprocess.PIPE, text=True) for _ in range(4)]
            errs = [p.communicate(timeout=60)[1] for p in ps]
            check(sorted(p.returncode for p in ps) == [0, 1, 1, 1] and all(not e or "is there already" in e or " exists" in e for e in errs), errs)
            check(os.listdir(folder) == [name], "%r" % os.listdir(folder))
            ddict(d, "restore", "-q", os.path.join(folder, name))
            (os.unlink if name.endswith("ddict") else shutil.rmtree)(os.path.join(folder, name))
        for sig in (signal.SIGINT, signal.SIGTERM):
            p = subprocess.Popen([DDICT, "save", path], env=d.env(), stderr=subprocess.PIPE)
            wait_for("its folder", lambda: os.listdir(folder) or p.poll() is not None)
            p.send_signal(sig)
            p.communicate(timeout=30)
            check(p.returncode in (0, 128 + sig), "exit code %d" % p.returncode)  # it may have been quicker
            check(os.listdir(folder) == (["saved"] if p.returncode == 0 else []), "%d: %r" % (p.returncode, os.listdir(folder)))
            shutil.rmtree(path, ignore_errors=True)


def a_full_disk_is_told():
    with Folder() as folder, Dictionary(managers=1, mem="64M") as d:
        disk = os.path.join(folder, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], stderr=subprocess.DEVNULL).returncode != 0:
            return print("# no mount here")
        try:
            d.run("fill", "k", 10, 1 << 20)
            for args in ([], ["--files"]):
                err = ddict(d, "save", *args, os.path.join(disk, "saved"), code=1)[1]
                check("No space left on device" in err and disk in err, err)
                left = os.listdir(disk)
                check(left == (["saved"] if args else []), "%r" % left)
                if args:
                    check(not [f for f in os.listdir(os.path.join(disk, "saved")) if f.startswith(".")], "something aside")
        finally:
            subprocess.run(["umount", disk], check=True)


def files_are_named_by_keys():
    with Folder() as folder, Dictionary(managers=2, mem="64M") as d:
        path = os.path.join(folder, "out")
        for k, v in (("run/metrics.json", "{}"), ("run/epoch 1/model.pt", "weights"), ("/absolute", "a"), ("ü", "u")):
            ddict(d, "put", k, v)
        ddict(d, "put", "--int", "17", "x")
        said = json.loads(ddict(d, "save", "--files", "--json", path)[0])
        check(said["items"] == 5 and said["there_already"] == 0, "%r" % said)
        found = sorted(os.path.relpath(os.path.join(r, f), path) for r, _, fs in os.walk(path) for f in fs)
        check(found == ["17", "absolute", "run/epoch 1/model.pt", "run/metrics.json", "ü"], "%r" % found)
        with open(os.path.join(path, "run/epoch 1/model.pt")) as f:
            check(f.read() == "weights", "content")
        before = os.stat(os.path.join(path, "17")).st_ino
        ddict(d, "put", "ü", "v")
        said = json.loads(ddict(d, "save", "--files", "--json", path)[0])
        check(said["items"] == 5 and said["there_already"] == 4, "%r" % said)
        check(os.stat(os.path.join(path, "17")).st_ino == before and open(os.path.join(path, "ü")).read() == "v", "only what is new is written")


def no_file_is_of_two_keys():
    with Folder() as folder, Dictionary(managers=2, mem="64M") as d:
        path = os.path.join(folder, "out")
        for k, v in (("17", "str"), ("a/b", "own"), ("/a//b", "other"), ("c//d", "alone")):
            ddict(d, "put", k, v)
        ddict(d, "put", "--int", "17", "int")
        out, err = ddict(d, "save", "--files", "--json", path, code=1)
        check(json.loads(out)["left_out"] == 2 and json.loads(out)["items"] == 3, out)
        for name, v in (("17", "str"), ("a/b", "own"), ("c/d", "alone")):
            with open(os.path.join(path, name)) as f:
                check(f.read() == v, "%s is another key's" % name)
        said = json.loads(ddict(d, "save", "--files", "--json", "--prefix=/a", os.path.join(folder, "part"))[0])
        check(said["items"] == 1 and said["left_out"] == 0, "%r" % said)


def names_that_are_no_files_are_told():
    with Folder() as folder, Dictionary(managers=2, mem="64M") as d:
        path = os.path.join(folder, "in", "out")
        os.mkdir(os.path.join(folder, "in"))
        for k in ("../escape", "a/../../escape2", "good", "x" * 300, "file", "file/below"):
            ddict(d, "put", k, "v")
        err = ddict(d, "save", "--files", path, code=1)[1]
        check("were left out" in err, err)
        said = json.loads(ddict(d, "save", "--files", "--json", path, code=1)[0])
        check(said["left_out"] in (4, 5) and said["items"] + said["left_out"] == 6, "%r" % said)
        check(sorted(os.listdir(folder)) == ["in"] and sorted(os.listdir(os.path.join(folder, "in"))) == ["out"], "it escaped")


def no_link_leads_out_of_the_folder():
    with Folder() as folder, Dictionary(managers=1, mem="32M") as d:
        path, elsewhere = os.path.join(folder, "out"), os.path.join(folder, "elsewhere")
        os.mkdir(path)
        os.mkdir(elsewhere)
        os.symlink(elsewhere, os.path.join(path, "link"))
        os.symlink(os.path.join(elsewhere, "file"), os.path.join(path, "plain"))
        for k in ("link/y", "link/deeper/z", "plain", "good/y"):
            ddict(d, "put", k, "v")
        said = json.loads(ddict(d, "save", "--files", "--json", path, code=1)[0])
        check(os.listdir(elsewhere) == [] and said["left_out"] == 2 and said["items"] == 2, "%r, elsewhere: %r" % (said, os.listdir(elsewhere)))
        check(not os.path.islink(os.path.join(path, "plain")) and open(os.path.join(path, "good/y")).read() == "v", "files")
        check("symbolic link" in ddict(d, "save", "--files", path, code=1)[1], "not said")


def a_saved_dictionary_is_its_owners_alone():
    before = os.umask(0o022)
    try:
        with Folder() as folder, Dictionary(nodes=1, managers=2, mem="32M") as d:
            ddict(d, "put", "a", "secret")
            ddict(d, "save", os.path.join(folder, "saved"))
            ddict(d, "save", os.path.join(folder, "one.ddict"))
            paths = [folder + "/saved", folder + "/one.ddict", *(os.path.join(folder, "saved", n) for n in os.listdir(folder + "/saved"))]
            modes = {p: os.stat(p).st_mode & 0o077 for p in paths}
            check(len(paths) >= 4 and not any(modes.values()), "%r" % modes)
    finally:
        os.umask(before)


def wrong_usage():
    with Dictionary(managers=1, mem="16M") as d:
        for args in (["save"], ["save", "a", "b"], ["save", "--keep", "a"], ["restore", "--files", "a"], ["save", ""]):
            ddict(d, *args, code=2)
        check("usage: ddict save" in ddict(d, "save", "--help")[0] and "usage: ddict restore" in ddict(d, "restore", "--help")[0], "help")


# --save: ddictd does it itself.

def manifest(path):
    try:
        with open(os.path.join(path, "manifest.json")) as f:
            return json.load(f)
    except OSError:
        return None


def saves(log):
    with open(log) as f:
        return [e for e in map(json.loads, f) if e["event"] == "save"]


def said(d, start):
    return [t[7:] for t in d.nodes[0].lines if t.startswith("ddict1 " + start)]


def saver_of(d):
    found = []
    for p in children(d.nodes[0].proc.pid):
        with open("/proc/%d/cmdline" % p, "rb") as f:
            if b"--stage" in f.read():
                found.append(p)
    check(len(found) == 1, "%r" % found)
    return found[0]


def it_is_saved_at_its_end():
    with Folder() as folder:
        path, log = os.path.join(folder, "a", "saved"), os.path.join(folder, "log")
        with Dictionary(nodes=2, managers=3, mem="192M", args=("--save", path, "--record", log)) as d:
            big = fill(d)
            was = content(d)
            d.end()
            check(any("; saved %d items, " % len(was) in t for t in said(d, "summary")) and not said(d, "warn") and not said(d, "unsaved"), "%r" % d.nodes[0].lines[-5:])
        check(manifest(path)["items"] == len(was) and [(e["final"], e["complete"], e["items"], e["of"]) for e in saves(log)] == [(True, True, len(was), len(was))], "%r" % saves(log))
        first = sorted(os.listdir(path))
        check(len(first) == 4 and "manifest.json" in first, "%r" % first)
        with Dictionary(managers=4, mem="256M", args=("--save", path)) as d:
            check("restored %d items" % len(was) in ddict(d, "restore", path)[1], "restore")
            for name in ("model.part", "12345678-a.part", "0a1b2c3d-0-7.part"):  # of a day long ago; the last is of a job that was killed
                open(os.path.join(path, name), "w").close()
                os.utime(os.path.join(path, name), (1, 1))
            check(content(d) == was and ddict(d, "get", "big", text=False)[0] == big, "not what was saved")
            ddict(d, "put", "more", "1")
            d.end()
        check({"model.part", "12345678-a.part"} == {f for f in os.listdir(path) if os.stat(os.path.join(path, f)).st_mtime == 1}, "%r" % os.listdir(path))
        check(manifest(path)["items"] == len(was) + 1 and not set(first) & set(os.listdir(path)) - {"manifest.json"}, "the first save is not replaced: %r" % os.listdir(path))


def saved_after_a_loss(form):
    """With two copies; also where the last client leaves before somebody serves its keys, and where a pass is under way."""
    for promoted in (True, False):
        with Folder() as folder:
            path, log = os.path.join(folder, "saved"), os.path.join(folder, "log")
            args = ("--save", path, "--record", log, "--replicas", "2") + (("--save-prefix", "") if form == "files" else ())
            with Dictionary(nodes=3, managers=3, mem="384M", args=args) as d:
                fill(d)
                was = content(d)
                d.lose(1)
                if promoted:
                    wait_for("another node serves", lambda: d.nodes[0].read(0) or any("are served by" in t for t in said(d, "warn")), 15)
                d.end(30)
                check(not said(d, "unsaved"), "%r" % d.nodes[0].lines[-5:])
            last = saves(log)[-1]
            check(last["final"] and last["complete"] and last["items"] == len(was), "%r" % saves(log))
            if form == "files":
                check(len(files_in(path)) == len(was), "%r" % files_in(path))
                continue
            with Dictionary(managers=2, mem="256M") as d:
                check("restored %d items" % len(was) in ddict(d, "restore", path)[1], "restore")
                check(content(d) == was, "not what was saved")
                d.end()


def what_a_lost_node_had_is_saved_as_parts():
    saved_after_a_loss("parts")


def what_a_lost_node_had_is_saved_as_files():
    saved_after_a_loss("files")


def files_in(folder):
    return {os.path.relpath(os.path.join(r, f), folder) for r, _, fs in os.walk(folder) for f in fs}


def saved_files(folder, log):
    """How many files a pass that is over has made of keys."""
    passes = os.path.exists(log) and saves(log)
    return len(files_in(folder)) if passes and passes[-1]["complete"] and passes[-1]["items"] == len(files_in(folder)) else None


def it_is_saved_before_the_time_limit():
    """An early pass is whole by itself; the next one writes what has changed; and after SIGTERM with a client that does not go the last one comes in time."""
    for prefix in ((), ("--save-prefix", "out/")):  # a dump, and files
        with Folder() as folder:
            path, log = os.path.join(folder, "saved"), os.path.join(folder, "log")
            args = ("--save", path, "--record", log, "--save-end", str(int(time.time()) + 4), "--save-lead", "60", "--kill-wait", "9" if prefix else "15", *prefix)
            with Dictionary(nodes=2, managers=4, mem="64M", args=args) as d:
                d.run("fill", "k", 500, 100)
                was = content(d)
                for i in range(20 if prefix else 0):
                    ddict(d, "put", "out/%d" % i, "x" * i)
                wait_for("an early pass", lambda: saved_files(path, log) == 20 if prefix else (manifest(path) or {}).get("items") == len(was), 60)
                early = manifest(path)
                before = {f: os.stat(os.path.join(path, f)).st_ino for f in files_in(path)}
                ddict(d, "put", "out/late", "1")
                client = d.probe("hold", "k", 0)
                client.stdout.readline()
                for node in d.nodes:
                    node.proc.terminate()
                check([n.wait(30) for n in d.nodes] == [0, 0], "exit codes")
                client.kill()
                client.communicate()
                check(not said(d, "warn") and not said(d, "unsaved"), "%r" % said(d, "warn"))
            check([e["final"] for e in saves(log)][-1] and not saves(log)[0]["final"] and all(e["complete"] for e in saves(log)), "%r" % saves(log))
            if prefix:
                check(files_in(path) == set(before) | {"out/late"}, "%r" % files_in(path))
                check({f: os.stat(os.path.join(path, f)).st_ino for f in before} == before, "files without a change were written again")
                continue
            last = manifest(path)
            check(last["items"] == early["items"] + 1, "%d then %d items" % (early["items"], last["items"]))
            kept = {p["file"] for p in early["parts"]} & {p["file"] for p in last["parts"]}
            check(len(kept) == 3, "parts of managers without a change are not kept: %r, %r" % (early, last))


def a_prefix_becomes_files_again_and_again():
    with Folder() as folder:
        with Dictionary(nodes=2, managers=2, args=("--save", folder, "--save-prefix", "out/")) as d:
            ddict(d, "put", "out/a", "1")
            ddict(d, "put", "out/b/c", "2")
            ddict(d, "put", "in", "3")
            d.end()
        a = os.path.join(folder, "out", "a")
        check(sorted(os.listdir(folder)) == ["out"] and sorted(os.listdir(os.path.join(folder, "out"))) == ["a", "b"], "%r" % os.listdir(folder))
        os.utime(a, (1, 1))
        with Dictionary(managers=1, args=("--save", folder, "--save-prefix", "")) as d:
            ddict(d, "put", "out/a", "1")
            ddict(d, "put", "out/b/c", "4")
            ddict(d, "put", "in", "3")
            d.end()
        with open(os.path.join(folder, "out", "b", "c")) as f:
            check(f.read() == "4" and os.stat(a).st_mtime == 1 and os.path.exists(os.path.join(folder, "in")), "not gone on with")


def a_folder_that_cannot_be_written_is_an_error_at_the_start():
    with Folder() as folder:
        plain = os.path.join(folder, "file")
        open(plain, "w").close()
        other = os.path.join(folder, "other")
        os.mkdir(other)
        with open(os.path.join(other, "manifest.json"), "w") as f:
            f.write('{"version": 3, "icons": []}')
        for path, why in ((plain, "Not a directory"), ("/proc/no/where", "No such file or directory"), (other, "a folder of its own")):
            with Dictionary(nodes=2, managers=2, args=("--save", path + "/x" if path == plain else path), ready=False) as d:
                check([n.wait(20) for n in d.nodes] == [1, 1], "exit codes")
                errors = [t for n in d.nodes for t in n.lines if t.startswith("ddict1 error cannot save to ")]
                check(errors and why in errors[0] and d.tag in errors[0] and not d.nodes[0].has("ready"), "%r" % [n.lines for n in d.nodes])
        check(manifest(other)["version"] == 3, "replaced")
        with Dictionary(managers=1, args=("--save", other, "--save-prefix", "")) as d:  # files do not mind
            d.end()


def what_was_not_saved_is_said():
    with Folder() as folder:
        disk, log, saved = os.path.join(folder, "disk"), os.path.join(folder, "log"), os.path.join(folder, "saved")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], stderr=subprocess.DEVNULL).returncode == 0:
            try:
                for args in ((), ("--save-prefix", "")):
                    with Dictionary(managers=1, mem="64M", args=("--save", disk, *args)) as d:
                        d.run("fill", "k", 10, 1 << 20)
                        d.end(30)
                        check(any(t.startswith("unsaved NOT ALL WAS SAVED to %s" % disk) and "No space left on device" in t for t in said(d, "unsaved")), "%r" % d.nodes[0].lines[-5:])
            finally:
                subprocess.run(["umount", disk], check=True)
        with Dictionary(managers=1, args=("--save", saved + ".late", "--kill-wait", "2")) as d:
            ddict(d, "put", "k", "v")
            os.kill(saver_of(d), signal.SIGSTOP)
            d.nodes[0].proc.terminate()
            check(d.nodes[0].wait(20) == 0, "exit code")
            check(any(t.startswith("unsaved NOT ALL WAS SAVED") and "the time was over" in t for t in said(d, "unsaved")), "%r" % d.nodes[0].lines)
        with Dictionary(nodes=2, managers=2, args=("--save", saved, "--record", log)) as d:
            ddict(d, "put", "k", "v")
            d.nodes[1].proc.kill()
            check(d.nodes[0].wait(20) == 1, "the dictionary is not lost")
            check(any("NOT ALL WAS SAVED" in t and "was lost" in t for t in said(d, "unsaved")) and any("NOT ALL WAS SAVED" in t for t in said(d, "summary")), "%r" % d.nodes[0].lines)
        check([(e["complete"], e["final"]) for e in saves(log)] == [(False, True)] and manifest(saved) is None, "%r" % saves(log))


def an_early_pass_that_failed_counts_only_if_the_last_one_fails_too():
    for mended, form in ((True, ()), (False, ("--save-prefix", ""))):  # a file's name is in the text, and each pass of a saved dictionary has another one
        with Folder() as folder:
            path, away, log = os.path.join(folder, "saved"), os.path.join(folder, "away"), os.path.join(folder, "log")
            with Dictionary(managers=1, args=("--save", path, "--record", log, "--save-end", str(int(time.time()) + 4), "--save-lead", "60", *form)) as d:
                d.run("fill", "k", 50, 100)
                os.rename(path, away)
                open(path, "w").close()
                wait_for("an early pass to fail", lambda: os.path.exists(log) and saves(log), 20)
                if mended:
                    os.unlink(path)
                    os.rename(away, path)
                d.end(30)
                check(said(d, "warn")[0].startswith("warn NOT ALL WAS SAVED to " + path) and len(said(d, "warn")) == 1, "%r" % said(d, "warn"))
                check(len(said(d, "unsaved")) == (0 if mended else 1), "%r" % d.nodes[0].lines[-5:])
                check(any(("; saved 50 items, " if mended else "NOT ALL WAS SAVED") in t for t in said(d, "summary")), "%r" % said(d, "summary"))
            check([(e["complete"], e["final"]) for e in saves(log)] == [(False, False), (mended, True)], "%r" % saves(log))
            check(not mended or manifest(path)["items"] == 50, "%r" % os.listdir(folder))


def a_pass_that_began_before_the_last_client_left_is_not_the_last_one():
    """The time for saving is over while such a pass is at work, and it is done all the same: it may lack what was put since, so not all was saved."""
    with Folder() as folder:
        path, log, mark, program = (os.path.join(folder, name) for name in ("saved", "log", "mark", "ddictd"))
        shutil.copy(cluster.DDICTD, program)
        with open(os.path.join(folder, "ddict"), "w") as f:  # in the place of `ddict save --stage`: one whose pass ends after it was told to stop
            f.write("#!/bin/sh\necho ready\nwhile read -r word; do\n  case $word in size) echo size 1 ;; pass) : >%s ;; stop) echo done 1 1 0 0 0.0 ;; esac\ndone\n" % mark)
        os.chmod(os.path.join(folder, "ddict"), 0o755)
        program, cluster.DDICTD = cluster.DDICTD, program
        try:
            d = Dictionary(managers=1, args=("--save", path, "--save-prefix", "", "--record", log, "--kill-wait", "4", "--save-end", str(int(time.time()) + 4), "--save-lead", "60"))
        finally:
            cluster.DDICTD = program
        with d:
            wait_for("an early pass to begin", lambda: os.path.exists(mark), 30)
            ddict(d, "put", "late", "v")
            d.nodes[0].proc.terminate()
            check(d.nodes[0].wait(20) == 0, "exit code")
            check(any(t.startswith("unsaved NOT ALL WAS SAVED") and "the time was over" in t for t in said(d, "unsaved")), "%r" % d.nodes[0].lines[-5:])
        check([(e["complete"], e["final"]) for e in saves(log)] == [(False, True)], "%r" % saves(log))


def parts_that_another_job_removed_are_written_again():
    with Folder() as folder:
        with Dictionary(managers=2, args=("--save", folder, "--save-end", str(int(time.time()) + 4), "--save-lead", "60")) as d:
            d.run("fill", "k", 50, 100)
            wait_for("an early pass", lambda: (manifest(folder) or {}).get("items") == 50, 60)
            for p in manifest(folder)["parts"]:
                os.unlink(os.path.join(folder, p["file"]))
            d.end(30)
            check(not said(d, "warn") and not said(d, "unsaved"), "%r" % said(d, "warn"))
        last = manifest(folder)
        check(last["items"] == 50 and {p["file"]: p["size"] for p in last["parts"]} == {f: os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder) if f != "manifest.json"},
              "%r: %r" % (last, os.listdir(folder)))


def parts_that_were_not_published_do_not_pile_up():
    with Folder() as folder, Dictionary(managers=1) as d:
        p = subprocess.Popen([DDICT, "save", "--stage", "--name", d.name, "--", folder], env=d.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def tell(command, answer):
            p.stdin.write(command + "\n")
            p.stdin.flush()
            line = "at "
            while line.startswith("at "):
                line = p.stdout.readline()
            check(line.startswith(answer), line)
            return {f for f in os.listdir(folder) if f.endswith(".part")}

        try:
            check(p.stdout.readline() == "ready\n", "ready")
            tell("publish", "failed ")
            check(manifest(folder) is None, "nothing was published in the place of something")
            seen = []
            for i, commands in enumerate((["pass"], ["pass"], ["pass", "publish"], ["pass"], ["pass", "publish"])):
                ddict(d, "put", "k%d" % i, "v")
                for c in commands:
                    seen.append(tell(c, {"pass": "done ", "publish": "published "}[c]))
            check([len(s) for s in seen] == [1, 1, 1, 1, 2, 2, 1], "%r" % seen)
            check(seen[3] < seen[4] and seen[3] < seen[5], "what was published went before its time: %r" % seen)
        finally:
            p.stdin.close()
            p.stdout.close()
            p.wait(30)


def who_saves_is_killed_and_another_one_does():
    with Folder() as folder:
        with Dictionary(managers=2, args=("--save", folder, "--save-end", str(int(time.time()) + 4), "--save-lead", "60")) as d:
            d.run("fill", "k", 50, 100)
            wait_for("an early pass", lambda: (manifest(folder) or {}).get("items") == 50, 60)
            first = manifest(folder)
            ddict(d, "put", "late", "1")
            saver = saver_of(d)
            os.kill(saver, signal.SIGKILL)
            wait_for("it to end", lambda: saver not in children(d.nodes[0].proc.pid))
            d.end(30)
            check(not said(d, "warn") and not said(d, "unsaved"), "%r" % said(d, "warn"))
        last = manifest(folder)
        check(last["items"] == 51 and not {p["file"] for p in first["parts"]} & {p["file"] for p in last["parts"]}, "%r, %r" % (first, last))
        check(sorted(os.listdir(folder)) == sorted(["manifest.json"] + [p["file"] for p in last["parts"]]), "%r" % os.listdir(folder))


def jobs_in_a_chain_go_on_from_one_folder():
    """Each restores what the last one saved; one that could not leaves that as it was."""
    with Folder() as folder:
        state = folder + "/state"

        def job(mem, *command, code=0):
            env = {k: v for k, v in os.environ.items() if not k.startswith(("DDICT_", "SLURM_"))}
            p = subprocess.run([DDICT, "run", "--managers=2", "--mem=" + mem, "--restore=-" + state, "--save=" + state, "--", *command], env=env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
            check(p.returncode == code, "exit code %d: %s" % (p.returncode, p.stderr))
            return p.stdout + p.stderr
        check("is not there" in job("64M", DDICT, "put", "a", "1"), "the first one")
        job("64M", "sh", "-c", "%s ls && head -c 30000000 /dev/zero | %s put big -" % (DDICT, DDICT))
        before = manifest(state)
        check(before["items"] == 2, "%r" % before)
        text = job("16M", DDICT, "put", "c", "3", code=1)
        check("what was saved before is left as it was" in text, text)
        check(manifest(state) == before, "written over by less")
        listed = job("64M", DDICT, "ls", "-a")
        check("'a'" in listed and "'big'" in listed and "'c'" not in listed, listed)
        check(manifest(state)["items"] == 2, "with words of our own: %r" % manifest(state))


main([jobs_in_a_chain_go_on_from_one_folder, it_comes_back_elsewhere, a_prefix_alone, what_is_damaged_is_refused, it_does_not_fit, nothing_is_written_over_and_nothing_stays, a_full_disk_is_told,
      files_are_named_by_keys, no_file_is_of_two_keys, names_that_are_no_files_are_told, no_link_leads_out_of_the_folder, a_saved_dictionary_is_its_owners_alone, wrong_usage, it_is_saved_at_its_end, what_a_lost_node_had_is_saved_as_parts, what_a_lost_node_had_is_saved_as_files, it_is_saved_before_the_time_limit, a_prefix_becomes_files_again_and_again,
      a_folder_that_cannot_be_written_is_an_error_at_the_start, what_was_not_saved_is_said, an_early_pass_that_failed_counts_only_if_the_last_one_fails_too,
      a_pass_that_began_before_the_last_client_left_is_not_the_last_one, parts_that_another_job_removed_are_written_again, parts_that_were_not_published_do_not_pile_up, who_saves_is_killed_and_another_one_does], at_once=3)
