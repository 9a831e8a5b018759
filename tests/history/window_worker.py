# SPDX-License-Identifier: Apache-2.0
"""A process of windows.py. It reads its calls, a line of JSON for each run, and notes in memory that outlives it when each began and ended and what it was
told."""
import json
import struct
import time

SLOT = struct.Struct("<qqqqq")  # when it began and ended, an index of SAID, what was got, the handle's checkpoint behind it
SAID = ["", "ok", "no key", "there", "retired", "time", "awaited"]


def value_of(number, words):
    return number.to_bytes(4, "little") * words


def number_of(value):
    """All its words are one number, or it is a mixture of two values"""
    if value[:4] * (len(value) // 4) != value:
        raise ValueError("a value of several numbers: %r" % value[:64])
    return int.from_bytes(value[:4], "little")


def call(d, head, what, key, value, words):
    """(what was said, what was got)"""
    key = head + str(key)
    if what == "put":
        d[key] = value_of(value, words)
    elif what == "mput":
        d.put_many({key: value_of(value, words)})
    elif what == "pput":
        d.pput(key, value_of(value, words))
    elif what == "put_new":
        if not d.put_new(key, value_of(value, words)):
            return "there", 0
    elif what == "get":
        return "ok", number_of(d[key])
    elif what == "contains":
        return "ok", key in d
    elif what == "del":
        del d[key]
    elif what == "pop":
        return "ok", number_of(d.pop(key))
    elif what == "keys":
        return "ok", sum(1 << int(key[len(head):]) for key in d.keys(prefix=head))
    elif what == "len":
        return "ok", len(d)
    elif what == "sync":
        return "ok", d.sync_to_newest_checkpoint()
    elif what == "checkpoint":
        d.checkpoint()
    elif what == "rollback":
        d.rollback()
    elif what == "set":
        d.checkpoint_id = value
    return "ok", 0


def attached(ddict, seconds):
    """The time of the handle's calls is that of this one, too, and it may be short"""
    end = time.monotonic() + 60
    while True:
        try:
            return ddict.attach(timeout=seconds)
        except ddict.TimeoutError:
            if time.monotonic() > end:
                raise


def serve(memory, requests, answers, seconds):
    """Read calls from a file and say `done` in another one, until there is null to be done"""
    import ddict  # not where windows.py imports this file

    d = attached(ddict, seconds)
    print("ready", file=answers, flush=True)
    for head, checkpoint, calls in iter(lambda: json.loads(requests.readline()), None):
        d.checkpoint_id = checkpoint
        for i, (what, key, value, words) in enumerate(calls):
            began, got = time.monotonic_ns(), 0
            SLOT.pack_into(memory, i * SLOT.size, began, 0, 0, 0, 0)
            try:
                said, got = call(d, head, what, key, value, words)
            except KeyError:
                said = "no key"
            except ddict.RetiredError:
                said = "retired"
            except ddict.TimeoutError as e:
                said = "awaited" if "did not appear at checkpoint" in str(e) else "time"
            SLOT.pack_into(memory, i * SLOT.size, began, time.monotonic_ns(), SAID.index(said), got, d.checkpoint_id)
        print("done", file=answers, flush=True)
    d.detach()
