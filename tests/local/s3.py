#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`ddict load s3://...`, against a server that checks signatures and has faults (s3_server.py)."""
import json
import os
import signal
import subprocess
import tempfile
import time

from cluster import BUILD, Dictionary, Failed, check, main, wait_for
from s3_server import KEY, SECRET, TOKEN, Server

DDICT = os.path.join(BUILD, "ddict")
NOTHING = {k: "" for k in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
                            "AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_MAX_ATTEMPTS", "http_proxy", "HOME")}


def ddict(d, *args, env=None, code=0, text=True):
    p = subprocess.run([DDICT, *args], env={**d.env(), **NOTHING, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=text, timeout=90)
    check(code is None or p.returncode == code, "ddict %s: exit code %d: %s" % (" ".join(args), p.returncode, p.stderr))
    return p.stdout, p.stderr


def load(d, server, *args, code=0, **env):
    return ddict(d, "load", *args, env={**server.environment(), "DDICT_S3_STALL": "2", **env}, code=code)


def keys(d):
    return {k.strip("'\"") for k in ddict(d, "ls", "--prefix", "")[0].splitlines() if k.startswith(("'", '"'))}


def a_folder_of_a_bucket():
    objects = {"train/%s/%04d.bin" % (c, i): os.urandom(i * 37) for c in ("dog", "cat") for i in range(60)}
    objects.update({"train/": b"", "train/cat/": b"", "trainer/x": b"not below it", "train/dog/a b+é&%?=.txt": b"odd", "train/dog/a=b:c*d'(e)!@$,;.txt": b"signed as it is", "train/cat/large": os.urandom(9 << 20)})
    with Dictionary(managers=2, mem="128M") as d, Server(objects, page=50) as s:
        said = json.loads(load(d, s, "--json", "--prefix=i/", "s3://bucket/train")[0])
        want = {"i/" + k[6:]: v for k, v in objects.items() if k.startswith("train/") and not k.endswith("/")}
        check(said["items"] == len(want) and said["bytes"] == sum(map(len, want.values())), "%r" % said)
        check(keys(d) == set(want), "%r" % (keys(d) ^ set(want)))
        for k, v in want.items():
            if k.endswith(("7.bin", ".txt", "large")):
                check(ddict(d, "get", k, text=False)[0] == v, k)
        sets = json.loads(ddict(d, "ls", "--sets", "--json")[0])
        check(sets[0]["kind"] == "s3" and sets[0]["classes"] in (2, ["cat", "dog"]), "%r" % sets)
        check(len([p for p, _, _ in s.seen if "list-type" in p]) == 3, "the list was read once, in pages")


def one_object_and_none():
    with Dictionary(managers=1, mem="32M") as d, Server({"a/b.bin": b"x" * 10, "a/b.bin.old": b"y"}) as s:
        load(d, s, "s3://bucket/a/b.bin")
        check(keys(d) == {"b.bin"}, "%r" % keys(d))
        err = load(d, s, "s3://bucket/a/none", code=1)[1]
        check("no such object" in err and "s3://bucket/a/none" in err, err)
        check("NoSuchBucket" in load(d, s, "s3://other/", code=1)[1], "bucket")
        check("s3://BUCKET/PREFIX" in load(d, s, "s3://", code=1)[1], "no bucket")


def what_passes_is_tried_again():
    objects = {"p/fault500-list": b"", "fault500-2/a": b"a" * 1000, "half-3/b": os.urandom(300000), "full/c": os.urandom(50000)}
    objects["fault500-list"] = b""
    with Dictionary(managers=1, mem="32M") as d, Server(objects) as s:
        for k in ("fault500-2/a", "half-3/b", "full/c"):
            load(d, s, "s3://bucket/" + k)
            check(ddict(d, "get", k.split("/")[1], text=False)[0] == objects[k], k)
        check([r for p, r, _ in s.seen if "half-3/b" in p and r], "the rest was asked for, not all again")


def each_pause_is_longer():
    objects = {"fault500-3/%d" % i: b"x" for i in range(5)}
    with Dictionary(managers=1, mem="32M") as d, Server(objects) as s:
        for k in objects:
            load(d, s, "s3://bucket/" + k)
            times = s.when[k]
            pauses = [b - a for a, b in zip(times, times[1:])]
            check(len(pauses) == 3 and all(p > least for p, least in zip(pauses, (0.1, 0.2, 0.4))), "%r" % pauses)
            if pauses[0] < pauses[2]:
                return
        raise Failed("a busy machine, or the pauses do not grow: %r" % pauses)


def many_small_ones_are_on_their_way_at_once():
    objects = {"p/%02d" % i: os.urandom(1000 + i) for i in range(64)}
    with Dictionary(managers=1, mem="32M") as d, Server(objects) as s:
        s.gather = 16
        load(d, s, "--threads=1", "s3://bucket/p/", DDICT_S3_STALL="60")
        check(16 <= s.most <= 32, "%d at once, of one thread" % s.most)
        for k in ("p/00", "p/17", "p/63"):
            check(ddict(d, "get", k[2:], text=False)[0] == objects[k], k)


def a_bucket_may_be_a_part_of_the_host():
    objects = {"p/%d" % i: b"%d" % i for i in range(5)}
    objects["p/a b+é/bucket"] = b"odd"
    with tempfile.TemporaryDirectory() as home, Dictionary(managers=1, mem="32M") as d, Server(objects, page=2) as s:
        where = "localhost:%s" % s.url.rsplit(":", 1)[1]
        for style, host, begins in (("virtual", "bucket." + where, ("/?", "/p/")), ("path", where, ("/bucket/?", "/bucket/p/"))):
            with open(os.path.join(home, "config"), "w") as f:
                f.write("[default]\ns3 =\n    addressing_style = %s\n" % style)
            s.hosts.clear()
            s.seen.clear()
            load(d, s, "--prefix=%s/" % style, "s3://bucket/p/", AWS_CONFIG_FILE=f.name, AWS_ENDPOINT_URL="http://" + where)
            check(s.hosts == {host} and len(s.seen) == 9 and all(p.startswith(begins) for p, _, _ in s.seen), "%s: %r %r" % (style, s.hosts, s.seen))
        check(keys(d) == {s + k[1:] for s in ("virtual", "path") for k in objects}, "%r" % keys(d))
        check(ddict(d, "get", "virtual/a b+é/bucket", text=False)[0] == b"odd", "its value")
        with open(f.name, "w") as f:
            f.write("[default]\ns3 =\n    addressing_style = sideways\n")
        check("path, virtual or auto, not \"sideways\"" in load(d, s, "s3://bucket/p/", code=1, AWS_CONFIG_FILE=f.name)[1], "another style")


def what_cannot_pass_is_named():
    for fault, word, tries in (("fault403", "403 AccessDenied: said AccessDenied & so on", 1), ("gone", "the object is gone", 1), ("other", "another object now", 1),
                               ("half-99", "(tried 2 times)", 2), ("fault500-99", "500 InternalError: said InternalError & so on (tried 2 times)", 2)):
        bad = "%s/object" % fault
        with Dictionary(managers=1, mem="32M") as d, Server({"t/" + bad: b"y" * 100, "t/well/a": b"z", "t/well/b": b"zz"}) as s:
            err = load(d, s, "s3://bucket/t/", code=1, AWS_MAX_ATTEMPTS="2")[1]
            check(word in err and bad in err and s.count["t/" + bad] == tries, "%s, %d times: %s" % (fault, s.count["t/" + bad], err))
            out, err = load(d, s, "--json", "--on-error=skip", "s3://bucket/t/", AWS_MAX_ATTEMPTS="2")
            said = json.loads(out)
            check(said["items"] == 2 and said["skipped"] == 1 and len(said["errors"]) == 1, "%s: %r" % (fault, said))
            check(word in said["errors"][0] and bad in said["errors"][0] and said["errors"][0] in err, "%s: %r %s" % (fault, said, err))
            check(keys(d) == {"well/a", "well/b"} and s.count["t/" + bad] == 2 * tries, "%r, %d times" % (keys(d), s.count["t/" + bad]))


def a_list_that_goes_round_is_refused():
    with Dictionary(managers=1, mem="32M") as d, Server({"p/%d" % i: b"x" for i in range(9)}, page=2) as s:
        for tokens in (["p/3"], ["p/3", "p/1"], ["p/1", "p/5", "p/3"]):
            s.tokens, s.count["list"] = tokens, 0
            err = load(d, s, "s3://bucket/p/", code=1)[1]
            check("s3://bucket/p/: the list of objects does not end" in err and s.count["list"] <= 3 * len(tokens), "%d lists: %s" % (s.count["list"], err))
        s.tokens = []
        check("9 items" in load(d, s, "s3://bucket/p/")[0], "a list that ends")


def what_does_not_fit_is_not_asked_for():
    large = bytes(4 << 20)
    with Dictionary(managers=2, mem="32M") as d, Server({"p/%d" % i: large for i in range(10)}) as s:
        err = load(d, s, "s3://bucket/p/", code=1)[1]
        check("s3://bucket/p/ needs 40.0 MiB at the least, and the dictionary has " in err and "MiB free of its 32.0 MiB" in err and not s.when, err)


def silence_ends():
    with Dictionary(managers=1, mem="32M") as d, Server({"never/x": b"x"}) as s:
        began = time.monotonic()
        err = load(d, s, "s3://bucket/never/x", code=1, AWS_MAX_ATTEMPTS="2")[1]
        check("too slow" in err and "never/x" in err and time.monotonic() - began < 60, err)
        p = subprocess.Popen([DDICT, "load", "s3://bucket/never/x"], env={**d.env(), **NOTHING, **s.environment()}, stderr=subprocess.PIPE)
        wait_for("the request", lambda: s.count.get("never/x", 0) >= 3, 30)
        p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=20)[1]
        check(p.returncode != 0 and b"signal" in err, "exit code %d: %s" % (p.returncode, err))


def while_it_lists_it_beats_and_can_be_ended():
    """Workers on other nodes give a leader up that says nothing for 15 s; a list of a million objects takes longer."""
    beat = lambda d: [k for k in ddict(d, "ls", "-a")[0].splitlines() if "'ddict.load'" in k]
    with Dictionary(managers=1, mem="32M") as d, Server({"p/%d" % i: b"x" for i in range(9)}) as s:
        s.listing.clear()
        p = subprocess.Popen([DDICT, "load", "s3://bucket/p/"], env={**d.env(), **NOTHING, **s.environment()}, stderr=subprocess.PIPE)
        key = wait_for("a beat", lambda: s.seen and beat(d), 30)[0]
        first = ddict(d, "get", "--literal", key)[0]
        wait_for("another", lambda: ddict(d, "get", "--literal", key)[0] != first, 30)
        p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=20)[1]
        check(p.returncode != 0 and b"ended by a signal" in err and not beat(d), "exit code %d: %s" % (p.returncode, err))


def credentials_are_found_as_aws_does():
    with tempfile.TemporaryDirectory() as home, Dictionary(managers=1, mem="32M") as d, Server({"a": b"1", "b": b"2", "c": b"3"}, region="eu-west-3") as s:
        os.mkdir(os.path.join(home, ".aws"))

        def files(credentials, config):
            for name, text in (("credentials", credentials), ("config", config)):
                with open(os.path.join(home, ".aws", name), "w") as f:
                    f.write(text)

        files("# mine\n[default]\naws_access_key_id = nobody\naws_secret_access_key = x\n\n[work]\naws_access_key_id=%s\naws_secret_access_key = %s\naws_session_token=%s\n"
              % (KEY, SECRET, TOKEN),
              "[default]\nregion = us-east-1\n[profile work]\nregion = eu-west-3\nendpoint_url = %s/\ns3 =\n    addressing_style = path\n    max_concurrent_requests = 3\n" % s.url)
        env = {"HOME": home, "AWS_PROFILE": "work"}
        ddict(d, "load", "s3://bucket/a", env=env)
        check(s.seen[-1][2] == TOKEN, "the token is sent, and signed")
        env["AWS_PROFILE"] = "play"
        err = ddict(d, "load", "s3://bucket/b", env=env, code=1)[1]
        check("AWS_PROFILE is play" in err and home in err, err)
        del env["AWS_PROFILE"]
        err = ddict(d, "load", "s3://bucket/b", env={**env, "AWS_ENDPOINT_URL": s.url}, code=1)[1]
        check("InvalidAccessKeyId" in err, err)
        err = ddict(d, "load", "s3://bucket/b", env={"AWS_ENDPOINT_URL": s.url}, code=1)[1]
        check("no credentials were found" in err, err)
        check("SECRET_ACCESS_KEY" in ddict(d, "load", "s3://bucket/b", env={"AWS_ACCESS_KEY_ID": KEY}, code=1)[1], "half of them")
        check("SignatureDoesNotMatch" in load(d, s, "s3://bucket/b", code=1, AWS_SECRET_ACCESS_KEY="wrong")[1], "a wrong secret")
        check("is a URL" in load(d, s, "s3://bucket/b", code=1, AWS_ENDPOINT_URL="s3.example.org")[1], "endpoint")
        check("1 to 100" in load(d, s, "s3://bucket/b", code=1, AWS_MAX_ATTEMPTS="many")[1], "attempts")
        before = len(s.seen)
        for region in ("evil.example", "a/b", "x@evil.example", "A", "-a"):
            err = load(d, s, "s3://bucket/b", code=1, AWS_REGION=region)[1]
            check('letters, digits and \'-\', not "%s"' % region in err, err)
        check(len(s.seen) == before, "somebody was asked, by a region that is none")
        s.region = "evil.example/"
        load(d, s, "s3://bucket/b", code=1, AWS_REGION="eu-west-3")
        check(not any("evil" in sent for sent in s.sent), "a region that S3 says was signed, and is none: %r" % s.sent[-1])
        s.region = "eu-west-3"
        load(d, s, "s3://bucket/b", AWS_REGION="us-east-1")  # S3 says which it is
        s.signed = False
        ddict(d, "load", "s3://bucket/c", env={"AWS_ENDPOINT_URL": s.url})
        check(SECRET not in json.dumps(s.seen), "the secret itself went out")
        files("[default\n", "")
        check("section without ]" in ddict(d, "load", "s3://bucket/b", env={"HOME": home}, code=1)[1], "damaged file")


def the_secret_is_never_sent():
    """Not even by a libcurl that was built without AWS signatures, which refuses to sign and would send the secret as a password."""
    with tempfile.TemporaryDirectory() as tmp, Dictionary(managers=1, mem="32M") as d, Server({"a": b"1"}) as s:
        with open(os.path.join(tmp, "old.c"), "w") as f:
            f.write("#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdarg.h>\n"
                    "int curl_easy_setopt(void *h, int option, ...) {\n    va_list l;\n    va_start(l, option);\n    void *arg = va_arg(l, void *);\n    va_end(l);\n"
                    "    int (*real)(void *, int, ...) = (int (*)(void *, int, ...))dlsym(RTLD_NEXT, \"curl_easy_setopt\");\n"
                    "    return option == 10305 /* CURLOPT_AWS_SIGV4 */ ? 48 /* CURLE_UNKNOWN_OPTION */ : real(h, option, arg);\n}\n")
        library = os.path.join(tmp, "old.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, f.name, "-ldl"], check=True)
        load(d, s, "s3://bucket/a", LD_PRELOAD=library, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
        check(keys(d) == {"a"} and s.sent and all(a.startswith("AWS4-HMAC-SHA256 ") for a in s.sent), "%r" % s.sent)


def what_is_complete_is_not_read_again():
    objects = {"p/%04d" % i: bytes([i % 256]) * 5000 for i in range(1500)}
    with Dictionary(managers=1, mem="64M") as d:
        with Server(objects) as s:
            load(d, s, "--prefix=q/", "s3://bucket/p/")
        with Server(objects) as s:
            out = load(d, s, "--prefix=q/", "s3://bucket/p/")[0]
            check("loaded already: 1500 items" in out and not [p for p, _, _ in s.seen if "list-type" not in p], out)


def what_is_there_is_not_asked_for_again():
    objects = {"p/%04d" % i: os.urandom(3000) for i in range(1500)}
    with Dictionary(managers=1, mem="64M") as d:
        with Server({**objects, "p/0777/fault403": b""}) as s:
            s.objects["p/0777"] = objects["p/0777"] + b"longer than listed, as if it was changed"
            s.listed = {"p/0777": objects["p/0777"]}
            err = load(d, s, "--prefix=q/", "s3://bucket/p/", code=1)[1]
            check("0777" in err and "another object" in err, err)
            before = keys(d)
        with Server({**objects, "p/0777/fault403": b""}) as s:
            load(d, s, "--prefix=q/", "s3://bucket/p/")
            asked = {p.split("/bucket/")[1][2:] for p, _, _ in s.seen if "list-type" not in p}
            check(len(keys(d)) == 1501 and not {"q/" + a for a in asked} & before and "0777" in asked, "%d asked for again" % len({"q/" + a for a in asked} & before))


main([a_folder_of_a_bucket, one_object_and_none, what_passes_is_tried_again, each_pause_is_longer, many_small_ones_are_on_their_way_at_once, a_bucket_may_be_a_part_of_the_host,
      what_cannot_pass_is_named, a_list_that_goes_round_is_refused, what_does_not_fit_is_not_asked_for, silence_ends, while_it_lists_it_beats_and_can_be_ended, credentials_are_found_as_aws_does, the_secret_is_never_sent,
      what_is_complete_is_not_read_again, what_is_there_is_not_asked_for_again])
