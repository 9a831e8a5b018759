# SPDX-License-Identifier: Apache-2.0
"""The rules of working sets as a model in plain Python, and the search for an order of the calls that explains all answers.

State is what a dictionary with a working set has: its oldest checkpoint, and of each key what was put and removed at which checkpoint. Search takes what
some processes called, each one call after another, when, and what they were told. A call takes effect at one moment between its begin and its end; one that
puts at a checkpoint that there is not yet makes it first, at a moment of its own, so that others can see the checkpoint before the value. A call without an
answer may have taken effect at any later moment, or not at all.
"""
from collections import namedtuple

FOUND, ABSENT, AWAITED = "found", "absent", "awaited"
NEVER = float("inf")

# what: get, contains, put, put_new, del, pop, keys, len, sync. key: its number; of keys and len None. at: the checkpoint of the handle. value: that a put has.
# said: "ok", "no key", "awaited", "there", "retired"; None: nobody knows. got: the value, True or False, a set of keys, a number. begin, end: of the call.
Call = namedtuple("Call", "process number what key at value persistent said got begin end")
Call.__hash__ = lambda c: hash((c.process, c.number))
# One of a key, in order of checkpoint; value None: it was removed.
Entry = namedtuple("Entry", "at value persistent")
CHANGES = {"put", "put_new", "del", "pop"}


class Rules:
    """K checkpoints; a state is (oldest, ((Entry, ...) of each key))"""

    def __init__(self, size, keys, waits=(), oldest=0):
        self.size, self.keys, self.waits, self.wait_for_keys, self.oldest = size, keys, waits, "wait-for-keys" in waits, oldest

    def first(self):
        return self.oldest, ((),) * self.keys

    def newest(self, state):
        return state[0] + self.size - 1

    def tidy(self, oldest, entries):
        """Without what no checkpoint sees: a key has at a checkpoint what was put last at it or before"""
        seen = [i for i, e in enumerate(entries) if e.at <= oldest]
        if seen:
            entries = entries[seen[-1]:]
            if entries[0].value is None and not (self.wait_for_keys and entries[0].at == oldest):
                entries = entries[1:]
        return entries

    def advanced(self, state, at):
        """The state in which a checkpoint is the newest one, or the next one where something is waited for; None: not yet. Writers are not known here."""
        oldest = state[0] + 1 if self.waits else at - self.size + 1
        if self.wait_for_keys:
            for entries in state[1]:
                due = any(e.at == state[0] and e.value is not None and not e.persistent for e in entries)
                if due and not any(e.at == oldest for e in entries):
                    return None
        return oldest, tuple(self.tidy(oldest, entries) for entries in state[1])

    def see(self, state, key, at):
        """(FOUND, value), or ABSENT or AWAITED and None"""
        oldest, entries = state[0], state[1][key]
        last = None
        for e in entries:
            if e.at <= at:
                last = e
        if not self.wait_for_keys:
            return (FOUND, last.value) if last and last.value is not None else (ABSENT, None)
        held = ([e for e in entries if e.at <= oldest] or [None])[-1]
        if at > self.newest(state) and not (held and held.value is not None and held.persistent):
            return AWAITED, None
        if last is None:
            return AWAITED, None
        if last.value is None:
            return ABSENT, None
        return (FOUND, last.value) if last.persistent or last.at == at else (AWAITED, None)

    def lists(self, state, key, at):
        """Whether keys and len count it, and contains says that it is there: none of them waits"""
        if not self.wait_for_keys:
            return self.see(state, key, at)[0] == FOUND
        last = ([e for e in state[1][key] if e.at <= at] or [None])[-1]
        return last is not None and last.value is not None and (last.persistent or (last.at == at and at <= self.newest(state)))

    def change(self, state, key, entry):
        oldest, all_keys = state
        before, after = (e for e in all_keys[key] if e.at < entry.at), (e for e in all_keys[key] if e.at > entry.at)
        return oldest, all_keys[:key] + (self.tidy(oldest, (*before, entry, *after)),) + all_keys[key + 1:]

    def removed(self, state, key, at):
        """A removal is noted where something older would be seen without it, or where a key that is not there would be awaited"""
        entries = tuple(e for e in state[1][key] if e.at != at)
        older = [e for e in entries if e.at < at]
        if self.wait_for_keys or (older and older[-1].value is not None):
            return self.change(state, key, Entry(at, None, False))
        return state[0], state[1][:key] + (entries,) + state[1][key + 1:]

    def reads(self, state, c):
        """Whether an answer that changed nothing is right now"""
        if c.said == "retired":
            return c.at < state[0]
        if c.what == "sync":
            return c.got == self.newest(state)
        if c.at < state[0]:
            return False
        if c.what == "contains":
            return c.got == self.lists(state, c.key, c.at)
        is_, value = self.see(state, c.key, c.at)
        if c.said == "no key":
            return is_ == ABSENT
        if c.said == "awaited":
            return is_ == AWAITED
        if c.said == "there":
            return is_ == FOUND
        return is_ == FOUND and value == c.got  # get

    def changes(self, state, c):
        """The states in which a change can end, now"""
        if not state[0] <= c.at <= self.newest(state):
            return
        is_, value = self.see(state, c.key, c.at)
        if c.what == "put" or (c.what == "put_new" and is_ != FOUND):
            yield self.change(state, c.key, Entry(c.at, c.value, c.persistent))
        elif c.what in ("del", "pop") and is_ == FOUND and (c.said is None or c.what == "del" or value == c.got):
            yield self.removed(state, c.key, c.at)


def is_change(c):
    return c.what in CHANGES and c.said in ("ok", None)


class Search:
    """A place in it is (how far each process is, what of keys or len was read there already, the state)"""

    def __init__(self, rules, calls, most=2_000_000):
        self.rules, self.most, self.looked = rules, most, 0
        by_process = {}
        for c in calls:
            if c.said is None and c.what not in CHANGES:
                continue  # nothing follows from it
            # one without an answer is a process of its own: others of the same process may come before its effect
            by_process.setdefault((c.process, c.number if c.said is None else -1), []).append(c)
        self.lines = [sorted(line, key=lambda c: c.number) for _, line in sorted(by_process.items())]
        # keys and len may or may not count a key of which a change is under way whose checkpoint was retired: checkpoints of changes beside them, of each key
        self.beside = {c: [[o.at for o in calls if o.key == key and o.what in CHANGES and o.begin < c.end and o.end > c.begin] for key in range(rules.keys)]
                       for c in calls if c.what in ("keys", "len")}
        self.wanted = tuple(len(line) if line[0].said is not None else 0 for line in self.lines)

    def is_over(self, far):
        return all(n >= w for n, w in zip(far, self.wanted))

    def able(self, far):
        """The lines whose next call may take effect next: no other one has ended before it began"""
        heads = [(i, self.lines[i][n]) for i, n in enumerate(far) if n < len(self.lines[i])]
        first_end = min((c.end for _, c in heads if c.said is not None), default=NEVER)
        return [(i, c) for i, c in heads if c.begin <= first_end]

    def parts(self, c, i, place):
        """Of keys and len, which look at one key after another: the places after one more key, and whether it is the only way"""
        far, read, state = place
        mask, count = read.get(i, (0, 0))
        if c.at < state[0]:
            return [], False
        next_, sure = [], False
        for key in range(self.rules.keys):
            if mask & 1 << key:
                continue
            there = self.rules.lists(state, key, c.at)
            free = any(at < state[0] for at in self.beside[c][key])
            if c.what == "keys" and (there == (key in c.got) or free):
                next_ = [self.part_done(c, i, place, key, 0)]
                sure = True
                break
            if c.what == "len":
                next_ += [self.part_done(c, i, place, key, n) for n in ({0, 1} if free else {int(there)}) if count + n <= c.got]
        return [p for p in next_ if p], sure

    def part_done(self, c, i, place, key, there):
        far, read, state = place
        mask, count = read.get(i, (0, 0))
        new = (mask | 1 << key, count + there)
        if new[0] != (1 << self.rules.keys) - 1:
            return far, {**read, i: new}, state
        if c.what == "len" and new[1] != c.got:
            return None
        return far[:i] + (far[i] + 1,) + far[i + 1:], {k: v for k, v in read.items() if k != i}, state

    def next_places(self, place):
        far, read, state = place
        able = self.able(far)
        ways = []
        for i, c in able:
            after = far[:i] + (far[i] + 1,) + far[i + 1:]
            if is_change(c):
                ways += [(c.end, (after, read, new)) for new in self.rules.changes(state, c)]
                continue
            if c.what in ("keys", "len") and c.said == "ok":
                places, sure = self.parts(c, i, place)
                if sure:
                    return places
                ways += [(c.end, p) for p in places]
            elif self.rules.reads(state, c):
                if c.what not in CHANGES or c.at <= self.rules.newest(state):
                    return [(after, read, state)]  # it changes nothing, so now is as good as later
                ways.append((c.end, (after, read, state)))
        for i, c in able:
            if c.what in CHANGES and c.at > self.rules.newest(state):
                new = self.rules.advanced(state, c.at)
                if new:
                    ways.append((c.end, (far, read, new)))
        ways.sort(key=lambda way: -way[0])  # the last one is looked at first
        return [place for _, place in ways]

    def run(self):
        """True: there is an order; False: there is none; None: that is not known, it takes too long"""
        stack = [((0,) * len(self.lines), {}, self.rules.first())]
        seen = set()
        self.best = stack[0]
        while stack:
            place = stack.pop()
            mark = (place[0], tuple(sorted(place[1].items())), place[2])
            if mark in seen:
                continue
            seen.add(mark)
            self.looked += 1
            if self.is_over(place[0]):
                return True
            if self.looked > self.most:
                return None
            if sum(place[0]) > sum(self.best[0]):
                self.best = place
            stack += self.next_places(place)
        return False

    def story(self):
        """How far the search came, and the calls that follow there"""
        far, _, state = self.best
        lines = ["after %s calls of each process, with %r" % (far, state)]
        lines += ["  next of process %s: %r" % (c.process, c) for i, n in enumerate(far) if n < len(self.lines[i]) for c in self.lines[i][n:n + 2]]
        return "\n".join(lines)
