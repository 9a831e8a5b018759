#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is a history of calls linearizable? Each key by itself, which is enough (Herlihy and Wing); by the search of Wing and Gong with Lowe's remembered states.

A state of the search is what the key holds, which of the open calls have had their effect, and how many of the calls of unknown outcome are still to have theirs. Two things keep the states few: a call that
reads what the state has takes effect at once, and a state that has more unknown calls left than another stands for that one, as they may as well never happen. Unknown calls whose value nobody read are alike.

What one client has of one key in its asynchronous set takes effect in the order of submission, but for reads: of two such calls that both were answered the first must come first (ordered()).

Queues have a checker of their own (check_queue()), and so have counters (check_counter()) and freezes (check_freezes()).

    linear.py FILE...          what the workers of one dictionary noted (record.h)
"""
import bisect
import errno
import os
import struct
import sys
from collections import Counter, namedtuple

PUT, NEW, EXISTING, GET, DEL, POP, HAS, PUSH, FREEZE, UNFREEZE, PUT_IF, ADD = range(1, 13)
VERBS = ["", "put", "put new", "put existing", "get", "del", "pop", "has", "push", "freeze", "unfreeze", "put if", "add"]
HOWS = ["", " (view)", " (many)", " (place)", " (pieces)", " (async)"]
MANY, ASYNC = 2, 5  # of Call.how
QUEUE, COUNT = 40, 44  # keys from these on are queues and counters
ENOKEY, EEXISTS, EFULL, EGONE, ELOST, EVIEWS, EFROZEN, ECHANGED = -4001, -4002, -4003, -4005, -4006, -4009, -4015, -4020
TORN = 0xffffffff
ABSENT, ANY, UNREAD = 0, -1, -2  # what a key can hold beside the number of a value; UNREAD: one that nobody ever read
CODES = {0: "done", ENOKEY: "no such key", EEXISTS: "there already", EFULL: "full", EGONE: "gone", ELOST: "lost", EVIEWS: "too many views", EFROZEN: "frozen", ECHANGED: "changed"}
NOTHING = {EFULL, EVIEWS, EFROZEN, -errno.ENOMEM, -errno.EAGAIN, -errno.ECANCELED}  # nothing has happened, whatever the key held
OPEN = {-errno.ETIMEDOUT, EGONE, ELOST}                                          # it may have, or may yet

HEAD = struct.Struct("<QII48s")
CALL = struct.Struct("<QQBBHiQQQiIQ")
# ended None: it has not, or nobody knows what it did; wrote and read: numbers of values; owner: the manager of the key
Call = namedtuple("Call", "client verb key began ended code wrote read how timeout_ms version length owner", defaults=(0, 0, 0, 0, 0, 0, None))


class Unexpected(Exception):
    """A call's answer is one that nothing allows, or the history has no explanation; the text says all."""


def read_file(path, last=None):
    """The calls of one worker; last: so many of the last ones."""
    with open(path, "rb") as f:
        magic, client, n, owner = HEAD.unpack(f.read(HEAD.size).ljust(HEAD.size, b"\0"))
        if last is not None and n > last:
            f.seek((n - last) * CALL.size, os.SEEK_CUR)
            n = last
        data = f.read(n * CALL.size)
    if magic == 0:  # killed before it began
        return []
    found = []
    for began, ended, verb, how, key, timeout_ms, wrote, read, version, code, _, length in CALL.iter_unpack(data):
        found.append(Call(client, verb, key, began, ended or None, code if ended else -errno.ETIMEDOUT, wrote, read, how, timeout_ms if ended else -1, version, length, owner[key]))
    return found


def so_far(calls, when):
    """As they stood at that moment, which was before the first of their files was read: what began later was not there, and what ended later had not. Workers may go on meanwhile: a call is noted before
    it is sent, so what an answer of before that moment rests on is in the files."""
    return [c._replace(ended=None, code=-errno.ETIMEDOUT, timeout_ms=-1) if c.ended is not None and c.ended > when else c for c in calls if c.began <= when]


def settle(calls, moved=()):
    """Those that say something: without calls that did nothing, and with those of unknown outcome open for ever. moved: see check_history()."""
    kept = []
    for c in calls:
        if c.verb in (FREEZE, UNFREEZE):
            continue
        if c.read == TORN:
            raise Unexpected("the bytes of a value are torn: %s" % text(c, c.began))
        if c.code in OPEN:
            if (c.code == -errno.ETIMEDOUT and c.timeout_ms == 0) or c.verb in (GET, HAS):
                continue
            kept.append(c._replace(ended=None))
        elif c.code in NOTHING or (c.code == ECHANGED and c.owner in moved and c.ended > moved[c.owner]):
            continue
        elif c.code == 0 or (c.code == ENOKEY and c.verb in (EXISTING, GET, DEL, POP, HAS)) or (c.code == EEXISTS and c.verb == NEW) or (c.code == ECHANGED and c.verb == PUT_IF):
            kept.append(c)
        else:
            raise Unexpected("an answer that nothing allows: %s" % text(c, c.began))
    return kept


def name(value):
    return "%d.%d" % (value >> 32, value & 0xffffffff) if value > 0 else {ABSENT: "absent", ANY: "anything", UNREAD: "a value that nobody reads"}[value]


def text(c, since):
    """For people: since when, by whom, what, and what came of it."""
    what = VERBS[c.verb] + HOWS[c.how] + (" " + name(c.wrote) if c.wrote else "") + (" over " + name(c.read) if c.verb == PUT_IF else "")
    if c.ended is None:
        came = "unknown"
    else:
        came = CODES.get(c.code, "code %d" % c.code)
        if c.code == 0 and c.verb == ADD:
            came = "sum %d" % c.read
        if c.code == 0 and c.verb in (GET, POP):
            came = ("torn" if c.read == TORN else name(c.read)) + (", version %d" % c.version if c.version else "")
    end = "%12s" % "" if c.ended is None else "%12.3f" % ((c.ended - since) / 1e6)
    return "%12.3f %s ms  client %-4d key %-3d %s%s: %s" % ((c.began - since) / 1e6, end, c.client, c.key, what, " (%d bytes)" % c.length if c.length else "", came)


def effect(state, c):
    """What the key holds after c with its answer; None: that answer cannot be."""
    verb, code = c.verb, c.code
    if verb == PUT:
        return c.wrote
    if verb == PUT_IF:
        if code == ECHANGED:
            return state if state != c.read else None
        return c.wrote if state in (c.read, ANY) else None
    if code == ENOKEY:
        return ABSENT if state in (ABSENT, ANY) else None
    if code == EEXISTS:
        return state if state != ABSENT else None
    if verb == NEW:
        return c.wrote if state in (ABSENT, ANY) else None
    if state == ABSENT:
        return None
    if verb == EXISTING:
        return c.wrote
    if verb == DEL:
        return ABSENT
    if verb == HAS:
        return state
    if state not in (c.read, ANY):
        return None
    return c.read if verb == GET else ABSENT


def late(state, verb, value, over=ABSENT):
    """The same of an unknown call that has an effect; None: it has none. over: what a PUT_IF wants."""
    if verb == PUT:
        return value
    if verb == PUT_IF:
        return value if state in (over, ANY) else None
    if verb == NEW:
        return value if state in (ABSENT, ANY) else None
    if state == ABSENT:
        return None
    return value if verb == EXISTING else ABSENT


def ordered(calls):
    """{index: index of the call before which it must not take effect}, of one key: the last one of the same set that was submitted before it and answered. One of unknown outcome has no place: it may
    have been given up before it was sent."""
    before, last = {}, {}
    for i in sorted(range(len(calls)), key=lambda i: calls[i].began):
        c = calls[i]
        if c.how != ASYNC or c.ended is None or c.verb not in (PUT, NEW, EXISTING, DEL, POP):
            continue
        if c.client in last:
            before[i] = last[c.client]
        last[c.client] = i
    return before


class Search:
    """One key, or a window of its history. states: {(holds, mask): [left, ...]}."""

    def __init__(self, calls, first=(ABSENT,)):
        read = {c.read for c in calls if c.verb == PUT_IF or (c.code == 0 and c.ended is not None)}
        self.calls = [c._replace(wrote=UNREAD) if c.wrote and c.wrote not in read else c for c in calls]
        self.kinds = sorted({(self.kind(c)) for c in self.calls if c.ended is None})
        self.number = {k: i for i, k in enumerate(self.kinds)}
        self.states = {(s, 0): [(0,) * len(self.kinds)] for s in first}
        self.open = {}  # bit: call, as they began
        self.before = ordered(self.calls)
        self.behind = {}  # bit: that of the open call that must have had its effect first
        self.held = None  # what the key could hold before the call that failed

    @staticmethod
    def kind(c):
        return (DEL if c.verb == POP else c.verb, c.wrote, c.read if c.verb == PUT_IF else ABSENT)

    @staticmethod
    def writes(c):
        """It can leave the state as it seems to be, and be another value all the same: of those that nobody reads."""
        return c.verb == PUT or (c.verb == EXISTING and c.code == 0)

    def events(self):
        found = []
        for i, c in enumerate(self.calls):
            found.append((c.began, 0, i))
            if c.ended is not None:
                found.append((c.ended, 1, i))
        return sorted(found)

    @staticmethod
    def add(states, key, left):
        """Unless another one there stands for it; True when it is new."""
        have = states.get(key)
        if have is None:
            states[key] = [left]
            return True
        for other in have:
            if all(a >= b for a, b in zip(other, left)):
                return False
        have[:] = [o for o in have if not all(a >= b for a, b in zip(left, o))]
        have.append(left)
        return True

    def seen(self, holds, mask):
        """The mask with all calls that leave this state as it is."""
        for bit, c in self.open.items():
            if not mask & bit and not self.writes(c) and self.may(bit, mask) and effect(holds, c) == holds:
                mask |= bit
        return mask

    def may(self, bit, mask):
        """Whether the calls that must come before have had their effect."""
        return bit not in self.behind or mask & self.behind[bit]

    def begin(self, i, bits):
        c = self.calls[i]
        if c.ended is None:
            k = self.number[self.kind(c)]
            self.states = {key: [left[:k] + (left[k] + 1,) + left[k + 1:] for left in lefts] for key, lefts in self.states.items()}
            return
        bit = 1
        while bit in self.open:
            bit <<= 1
        bits[i] = bit
        self.open[bit] = c
        if self.before.get(i) in bits:
            self.behind[bit] = bits[self.before[i]]
        if not self.writes(c):
            states = {}
            for (holds, mask), lefts in self.states.items():
                key = (holds, mask | bit if self.may(bit, mask) and effect(holds, c) == holds else mask)
                for left in lefts:
                    self.add(states, key, left)
            self.states = states

    def end(self, i, bits):
        """The call has returned: only states in which it had its effect go on. False: none."""
        bit, states, work, have = bits.pop(i), {}, [], {}

        def reached(holds, mask, left):
            mask = self.seen(holds, mask)
            if mask & bit:
                self.add(states, (holds, mask & ~bit), left)
            elif self.add(have, (holds, mask), left):
                work.append((holds, mask, left))

        for (holds, mask), lefts in self.states.items():
            for left in lefts:
                reached(holds, mask, left)
        while work:
            holds, mask, left = work.pop()
            for other, c in self.open.items():
                if not mask & other and self.may(other, mask):
                    after = effect(holds, c)
                    if after is not None:
                        reached(after, mask | other, left)
            for k, n in enumerate(left):
                if n:
                    after = late(holds, *self.kinds[k])
                    if after is not None and after != holds:
                        reached(after, mask, left[:k] + (n - 1,) + left[k + 1:])
        del self.open[bit]
        self.behind.pop(bit, None)
        self.behind = {b: first for b, first in self.behind.items() if first != bit}
        if not states:
            self.held = sorted({key[0] for key in self.states})
            return False
        self.states = states
        return True

    def run(self):
        """None, or the index of the call that cannot have had its answer."""
        bits = {}
        for _, ends, i in self.events():
            if not ends:
                self.begin(i, bits)
            elif not self.end(i, bits):
                return i
        return None


def window(calls, at):
    """The last calls up to calls[at] that have no explanation whatever was before them: (calls, index of the failed one in them)."""
    end = calls[at].ended
    calls = [c._replace(ended=None, code=-errno.ETIMEDOUT) if c.ended is not None and c.ended > end and c.verb not in (GET, HAS) else c for c in calls if c.began <= end]
    calls = [c for c in calls if c.ended is None or c.ended <= end]
    starts = sorted({c.began for c in calls})

    def since(start):
        """Calls that were open then may have had their effect before: of those only the unknown ones go on."""
        kept = [c for c in calls if c.began >= start or (c.ended is None and c.began < start)]
        early = [c._replace(ended=None, code=-errno.ETIMEDOUT) for c in calls if c.began < start and c.ended is not None and c.ended >= start and c.verb not in (GET, HAS)]
        return early + kept

    low, high = 0, len(starts) - 1  # since(starts[low]) has no explanation
    while low < high:
        middle = (low + high + 1) // 2
        if Search(since(starts[middle]), first=(ANY, ABSENT)).run() is not None:
            low = middle
        else:
            high = middle - 1
    if low == 0 and Search(since(starts[0]), first=(ANY, ABSENT)).run() is None:
        return calls  # all of it, from an empty key
    return since(starts[low])


def explain(calls, at, before):
    """The text of a history without explanation."""
    failed = calls[at]
    part = sorted(window(calls, at), key=lambda c: c.began)
    shown = [c for c in part if c.ended is not None or not c.wrote or any(o.read == c.wrote for o in part)]
    since = shown[0].began
    lines = ["key %d: no order of its calls explains what client %d was told" % (failed.key, failed.client)]
    if failed.read and failed.read not in {c.wrote for c in calls}:
        lines.append("    %s was never written to this key" % name(failed.read))
    lines += [("  > " if (c.client, c.began) == (failed.client, failed.began) else "    ") + text(c, since) for c in shown[-60:]]
    lines.append("    before that answer the key could hold: " + ", ".join(name(s) for s in before[:8]) + (", ..." if len(before) > 8 else ""))
    return "\n".join(lines)


def check_versions(calls, moved=()):
    """Of two reads, one after the other, the second has no older version; and a version has one value, and a value one version: what was put once was stored once. moved: see check_history()."""
    value, version = {}, {}
    for c in calls:
        loss = moved[c.owner] if c.owner in moved else float("inf")
        there = c.read, c.began > loss
        # one of several keys may have been read before the loss, though its call ended behind it
        if c.version and c.ended is not None and not c.began <= loss < c.ended and version.setdefault(there, c.version) != c.version:
            raise Unexpected("key %d: %s was stored twice, as versions %d and %d: %s" % (c.key, name(c.read), version[there], c.version, text(c, c.began)))
        if c.version and c.ended is not None and value.setdefault(c.version, c.read) != c.read:
            raise Unexpected("key %d: version %d is of two values, %s and %s: %s" % (c.key, c.version, name(value[c.version]), name(c.read), text(c, c.began)))
    most, by, events = 0, None, []
    for c in calls:
        if c.version and c.ended is not None:
            events += [(c.ended, 1, c), (c.began, 0, c)]
    floor = {}
    for _, ends, c in sorted(events, key=lambda e: e[:2]):
        if not ends:
            floor[c.client, c.began] = (most, by)
            continue
        least, other = floor.pop((c.client, c.began))
        if c.version < least:
            raise Unexpected("key %d: an older version than before:\n    %s\n    %s" % (c.key, text(other, other.began), text(c, other.began)))
        if c.version > most:
            most, by = c.version, c


def lines_of(*calls):
    since = min(c.began for c in calls)
    return "".join("\n    " + text(c, since) for c in sorted(calls, key=lambda c: c.began))


def check_queue(calls):
    """What was pushed is popped once, in the order of the pushes, as far as one had ended before another began; and a pop that found nothing was right. Every rule is of pairs and counts: of values
    that all differ no more is needed (Henzinger, Sezgin and Vafeiadis). A pop of unknown outcome may have taken a value, at any moment behind its beginning."""
    pushed = {c.wrote: c for c in calls if c.verb == PUSH}
    popped, unknown = {}, sorted(c.began for c in calls if c.verb == POP and c.ended is None)
    for c in sorted((c for c in calls if c.verb == POP and c.ended is not None and c.code == 0), key=lambda c: c.ended):
        a = pushed.get(c.read)
        if a is None:
            raise Unexpected("queue %d: a value was popped that nobody pushed, or that was refused:%s" % (c.key, lines_of(c)))
        if c.read in popped:
            raise Unexpected("queue %d: %s was popped twice:%s" % (c.key, name(c.read), lines_of(a, popped[c.read], c)))
        if c.ended < a.began:
            raise Unexpected("queue %d: %s was popped before it was pushed:%s" % (c.key, name(c.read), lines_of(a, c)))
        popped[c.read] = c
    # (x, y, by): a value that was there at x, pushed before, was gone at y
    empty = [c for c in calls if c.verb == POP and c.ended is not None and c.code == ENOKEY]
    gone = sorted([(pushed[v].began, c.ended, c) for v, c in popped.items()] + [(c.began, c.ended, c) for c in empty], key=lambda g: g[:2])
    surely = sorted((a for a in pushed.values() if a.ended is not None), key=lambda a: a.ended)
    at, latest, missing = 0, None, []
    for x, y, by in gone:
        while at < len(surely) and surely[at].ended < x:
            a = surely[at]
            if a.wrote in popped and (latest is None or popped[a.wrote].began > popped[latest.wrote].began):
                latest = a
            at += 1
        if latest is not None and popped[latest.wrote].began > y:
            what = "found nothing where %s was" if by.code else "was told the value behind %s"
            raise Unexpected("queue %d: a pop %s:%s" % (by.key, what % name(latest.wrote), lines_of(latest, popped[latest.wrote], by, *([] if by.code else [pushed[by.read]]))))
    # of what nobody was told: when was it gone at the latest, and which pop of unknown outcome took it?
    soonest, rest = None, sorted(gone, key=lambda g: g[0])
    for a in reversed(surely):
        while rest and rest[-1][0] > a.ended:
            g = rest.pop()
            if soonest is None or g[1] < soonest[1]:
                soonest = g
        if a.wrote not in popped and soonest:
            missing.append((soonest[1], a, soonest[2]))
    for i, (y, a, by) in enumerate(sorted(missing, key=lambda m: m[0])):
        if i >= len(unknown) or unknown[i] >= y:
            raise Unexpected("queue %d: %s is lost: %d pops of unknown outcome could have taken %d values:%s" % (a.key, name(a.wrote), sum(u < y for u in unknown), i + 1, lines_of(a, by)))
    # a pop that found nothing: each moment of it had a value that was surely there
    ends = unknown[0] if unknown else float("inf")  # what nobody was told was there until then
    there = sorted((a.ended, popped[a.wrote].began if a.wrote in popped else ends) for a in surely)
    there = [t for t in there if t[0] < t[1]]
    spans = []
    for begin, end in there:
        if spans and begin < spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([begin, end])
    begins = [s[0] for s in spans]
    for c in empty:
        i = bisect.bisect_left(begins, c.began) - 1
        if i >= 0 and spans[i][1] > c.ended:
            raise Unexpected("queue %d: a pop found nothing, but there was a value at each moment of it:%s" % (c.key, lines_of(c)))


def check_counter(calls):
    """Each add of 1 is told a sum of its own, later ones later sums; and sums that nobody was told are those of adds of unknown outcome, which had begun before a greater one was told."""
    told = sorted((c for c in calls if c.ended is not None), key=lambda c: c.read)
    unknown = sorted(c.began for c in calls if c.ended is None)
    for a, b in zip(told, told[1:]):
        if a.read == b.read:
            raise Unexpected("counter %d: sum %d was told twice:%s" % (a.key, a.read, lines_of(a, b)))
    latest = None
    for c in told:
        if c.read < 1 or (latest is not None and c.ended < latest.began):
            raise Unexpected("counter %d: sum %d was told before a smaller one, or never added up:%s" % (c.key, c.read, lines_of(c, *([latest] if latest else []))))
        if latest is None or c.began > latest.began:
            latest = c
    have, soonest, missing = {c.read for c in told}, None, []
    for c in reversed(told):
        if soonest is None or c.ended < soonest.ended:
            soonest = c
        before = c.read - 1
        while before > 0 and before not in have:
            missing.append((soonest.ended, before, soonest))
            before -= 1
    for i, (y, number, by) in enumerate(sorted(missing, key=lambda m: m[:2])):
        if i >= len(unknown) or unknown[i] >= y:
            raise Unexpected("counter %d: sum %d is nobody's: %d adds of unknown outcome could have made %d sums:%s" % (by.key, number, sum(u < y for u in unknown), i + 1, lines_of(by)))


def check_freezes(calls):
    """One process froze and unfroze: nothing is changed between the end of a freeze and the beginning of the unfreeze, and nothing refused between the end of that and the next freeze."""
    freezes = sorted((c for c in calls if c.verb in (FREEZE, UNFREEZE)), key=lambda c: c.began)
    begins, spans, by = [], [], []  # when a state is certain
    if freezes:
        begins, spans, by = [0], [(UNFREEZE, freezes[0].began)], [freezes[0]]
    for c, after in zip(freezes, freezes[1:] + [None]):
        if c.ended is None or c.code != 0:  # it may happen yet
            break
        begins.append(c.ended)
        spans.append((c.verb, after.began if after else float("inf")))
        by.append(c)
    for c in calls:
        if c.ended is None or c.verb in (GET, HAS, FREEZE, UNFREEZE) or c.code not in (0, EFROZEN):
            continue
        i = bisect.bisect_left(begins, c.began) - 1
        if i < 0 or spans[i][1] <= c.ended:
            continue
        if (spans[i][0] == FREEZE) != (c.code == EFROZEN):
            raise Unexpected("%s:%s" % ("a change while all was frozen" if c.code == 0 else "a refusal while nothing was frozen", lines_of(by[i], c)))


def check_history(calls, moved=()):
    """Raises Unexpected, or returns how many calls of which outcome there were. moved: {manager: when its node was lost}: its backup may have a value as a later version, where the primary had sent it
    again over a new connection (PROTOCOL 13)."""
    keys = {}
    check_freezes(calls)
    for c in settle(calls, moved):
        keys.setdefault(c.key, []).append(c)
    for key in sorted(keys):
        mine = sorted(keys[key], key=lambda c: c.began)
        if key >= QUEUE:
            (check_counter if key >= COUNT else check_queue)(mine)
            continue
        search = Search(mine)
        at = search.run()
        if at is not None:
            raise Unexpected(explain(mine, at, search.held))
        check_versions(mine, moved)
    counts = Counter(calls=len(calls))
    for c in calls:
        counts["lost"] += c.code == ELOST
        counts["full"] += c.code == EFULL
        counts["unknown" if c.ended is None or c.code in OPEN else "refused" if c.code in NOTHING else "answered"] += 1
    return counts


if __name__ == "__main__":
    try:
        print(", ".join("%s %d" % item for item in sorted(check_history([c for path in sys.argv[1:] for c in read_file(path)]).items())))
    except Unexpected as e:
        print(e)
        sys.exit(1)
