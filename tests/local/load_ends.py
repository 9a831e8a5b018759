#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`ddict load` that is killed, that meets another one, or whose dictionary ends: it goes on where it was, and leaves nothing of itself."""
import json
import os
import signal
import subprocess
import tarfile
import time

from cluster import Dictionary, Failed, check, children, wait_for
from load_folder import COMMAND, folder, get, head, keys, keys_all, LIMIT, loads, member, path, stored, tar_of, write, run


def begun(d, source):
    """A load that was stopped (SIGSTOP) when some of its units (of a compressed source, the only one: of its items) were complete and others not: let go for some ms at a
    time until it is. None: it was too fast."""
    p = subprocess.Popen([COMMAND, "load", source, "--threads=1", "--quiet"], env=d.env(), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while p.poll() is None:
        time.sleep(0.005)
        p.send_signal(signal.SIGSTOP)
        found = keys_all(d)
        done, units, items = len([k for k in found if "'done'" in k]), len([k for k in found if "'unit'" in k]), len([k for k in found if k.startswith("'m")])
        if 0 < done < units or (units == 1 and done == 0 and 20 < items < 380):
            return p
        p.send_signal(signal.SIGCONT)
    p.communicate()
    return None


def a_load_that_was_killed_goes_on_where_it_was():
    os.mkdir(path("go"))
    with tarfile.open(path("go.tar"), "w") as tar, tarfile.open(path("go.tgz"), "w:gz", compresslevel=1) as gz:
        for i in range(400):
            member(tar, "m%03d" % i, bytes([i % 256]) * (256 << 10))
            member(gz, "m%03d" % i, bytes([i % 256]) * (256 << 10))
            write("go/m%03d" % i, bytes([i % 256]) * (256 << 10))
    for source, how in (("go.tar", signal.SIGTERM), ("go", signal.SIGKILL), ("go.tgz", signal.SIGTERM)):
        for attempt in range(30):
            with Dictionary(managers=2, mem="256M") as d:
                p = begun(d, source)
                if p is None:
                    continue
                p.send_signal(how)
                p.send_signal(signal.SIGCONT)
                err = p.communicate(timeout=LIMIT)[1].decode()
                check(p.returncode == (-how if how == signal.SIGKILL else 1) and (how == signal.SIGKILL or "ended by a signal" in err), (source, p.returncode, err))
                check(not stored_or_none(d), "a set before all is there")
                began = time.monotonic()
                j = loads(d, source)
                check(j["items"] == 400 and 0 < j["there"] < 400, (source, j))
                check(how == signal.SIGKILL or time.monotonic() - began < 14, "it waited for one that said it ended")
                for i in (0, 123, 399):
                    check(get(d, "m%03d" % i) == bytes([i % 256]) * (256 << 10), "member %d" % i)
                check(len(keys(d)) == 400, "keys")
                d.end()
                break
        else:
            raise Failed("no load of %s could be stopped in its middle" % source)


def stored_or_none(d):
    return get(d, "('ddict.set', 'go')", "--literal")


def of_several_at_once_one_loads():
    tar_of("once.tar", [("c%d/%d" % (i % 3, i), os.urandom(30000)) for i in range(600)])
    with Dictionary(nodes=2, managers=2, mem="128M") as d:
        ps = [subprocess.Popen([COMMAND, "load", "--json", "once.tar"], env=d.env(i % 2), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for i in range(4)]
        out = [json.loads(p.communicate(timeout=LIMIT)[0]) for p in ps]
        check([p.returncode for p in ps] == [0] * 4, out)
        check(sum(not j["already"] for j in out) == 1 and all(j["items"] == 600 for j in out), out)
        check(len(keys(d)) == 600, "keys")
        for s in ("p", "q"):
            tar_of(s + ".tar", [(s + "%04d" % i, s.encode() * 5000) for i in range(4000)])
        ps = [subprocess.Popen([COMMAND, "load", "--json", s + ".tar", "--set=one"], env=d.env(i), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
              for i, s in enumerate("pq")]
        out = [json.loads(p.communicate(timeout=LIMIT)[0]) for p in ps]
        check(sorted(p.returncode for p in ps) == [0, 1] and sum("error" in o and '"one"' in o["error"] for o in out) == 1, "two loads of one set: %r" % out)
        won = "q" if ps[0].returncode else "p"
        check(head(d, "one")["sources"] == [path(won + ".tar")] and stored(d, "ddict.set", "one", "keys", 0)[5:6] == won.encode(), head(d, "one"))
        keys(d)
        loads(d, ("p" if won == "q" else "q") + ".tar", "--set=two")
        d.end()


def a_dictionary_that_ends_ends_the_load():
    with open(path("end.fasta"), "wb") as f:
        for i in range(40000):
            f.write(b">%d\n%s\n" % (i, b"ACGT" * 1000))
    with Dictionary(managers=2, mem="512M") as d:
        p = subprocess.Popen([COMMAND, "load", "end.fasta", "--threads=1"], env=d.env(), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for("items", lambda: p.poll() is not None or d.stats()[0]["num_keys"] > 100, 30)
        d.nodes[0].proc.kill()
        err = p.communicate(timeout=60)[1].decode()
        check(p.returncode in (0, 1) and (p.returncode == 0 or err.startswith("ddict load: ")), (p.returncode, err))


def loader_of(p):
    """The ddict-load that a `ddict up` or `ddict run` has started, stopped (SIGSTOP) when it takes signals itself. None: it was too fast."""
    while p.poll() is None:
        for child in children(p.pid):
            try:
                program = os.readlink("/proc/%d/exe" % child)  # in a build folder ddict-load is a shell's script first, which blocks signals as well
                with open("/proc/%d/status" % child) as f:
                    status = dict(line.split(":", 1) for line in f)
                if program.endswith("ddict-load") and int(status["SigBlk"], 16) >> (signal.SIGTERM - 1) & 1:
                    os.kill(child, signal.SIGSTOP)
                    return child
            except (OSError, KeyError):
                pass
    return None


def a_signal_that_nobody_sent_to_the_loader_alone_is_the_end_of_the_job():
    """scancel sends it to the loader, too, and what is said must not depend on whose end is heard of first."""
    name = "%d.ended.%d" % (os.getuid(), os.getpid())
    for words, said in ((["up", "--plugin", "--local", "--name", name], "ddict1 error %s\n"),
                        (["run"], "ddict run: %s; the command is not started\n")):
        for attempt in range(30):
            p = subprocess.Popen([COMMAND, *words, "--mem=256M", "--load=go.tgz"] + (["--", "true"] if words == ["run"] else []),
                                 cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            loader = loader_of(p)
            if loader is not None:
                os.kill(loader, signal.SIGTERM)
                os.kill(loader, signal.SIGCONT)
            out = p.communicate(timeout=LIMIT)[0].decode()
            if loader is not None and p.returncode != 0:
                break
            if words[0] == "up" and p.returncode == 0:  # the load was quicker
                subprocess.run([COMMAND, "down", "--name", name], timeout=LIMIT, check=True)
        else:
            raise Failed("no load of `ddict %s` could be ended" % words[0])
        check(said % "the job, or the dictionary, was ended before all data was in it" in out, (words, out))


if __name__ == "__main__":
    run([a_load_that_was_killed_goes_on_where_it_was, of_several_at_once_one_loads, a_dictionary_that_ends_ends_the_load,
         a_signal_that_nobody_sent_to_the_loader_alone_is_the_end_of_the_job])
