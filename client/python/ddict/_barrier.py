# SPDX-License-Identifier: Apache-2.0
"""Barriers between the processes of a job."""

import os
from collections import Counter
from threading import BrokenBarrierError

from ._holders import Named, Wait, no_nan

_KEPT = 16  # rounds that broke: who waits in one looks at the barrier long before so many more are over


class Barrier(Named):
    """Barrier(name, parties, action=None, timeout=None, d=None)

    A barrier of the job for that many parties: all processes that make a Barrier with this name share it, on any node. As threading.Barrier, with these differences:
    it breaks, for all, when a process dies that waits, or that is one of the parties: it took part in the last round, or made its Barrier since. wait() without a
    timeout breaks it when the handle's is over. parties belongs to the barrier: another number is a ValueError. d: the dictionary, None for the job's. Can be pickled.
    """

    _kind = "barrier"

    def __init__(self, name, parties, action=None, timeout=None, d=None):
        super().__init__(name, d)
        if parties < 1:
            raise ValueError("parties must be > 0")
        self._parties, self._action, self._timeout = parties, action, timeout
        while True:
            version, there = self._there()
            own = list(self._d._self())
            if version and own in there["members"]:
                break
            if self._swap(version, {**there, "members": [*there["members"], own]}):
                break

    def _there(self, turn=None):
        """The version and what is there: id, round, the rounds that broke, who waits in this one, who waited in the last one, and who takes part. turn: (id, round)
        of who waits; BrokenBarrierError if that barrier is not there any more, as after clear()."""
        version, there = self._read()
        if turn is not None and (there is None or there["id"] != turn[0]):
            raise BrokenBarrierError
        if there is None:
            there = {"id": os.urandom(8).hex(), "parties": self._parties, "round": 0, "broke": [], "waits": [], "last": [], "members": []}
        if there["parties"] != self._parties:
            raise ValueError(f"{self!r} is for {there['parties']} parties, not {self._parties}")
        return version, there

    @staticmethod
    def _after(there):
        """What is there when the round is over"""
        return {**there, "round": there["round"] + 1, "waits": [], "last": there["waits"], "members": [h[:2] for h in there["waits"]]}

    @staticmethod
    def _broken(there):
        """What is there when the round has broken"""
        return {**there, "broke": [*there["broke"][-_KEPT:], there["round"]]}

    @staticmethod
    def _is_broken(there):
        return there["round"] in there["broke"]

    def _end(self, turn, change):
        """Change what is there as long as this round is not over."""
        while True:
            version, there = self._there(turn)
            if there["round"] != turn[1] or self._is_broken(there) or self._swap(version, change(there)):
                return

    def _leave(self, me):
        """Break the round in which this one waits: it does not any more."""
        while True:
            version, there = self._read()
            if there is None or me not in there["waits"] or self._is_broken(there) or self._swap(version, self._broken(there)):
                return

    def wait(self, timeout=None):
        """wait(timeout=None) -- wait until all parties do: the number of this one, 0 to parties - 1. threading.BrokenBarrierError if the barrier breaks, as it does
        when timeout seconds are over, and when its key is removed, as by clear()"""
        seconds = self._timeout if timeout is None else timeout
        wait, me = Wait(self, self._d._seconds if seconds is None else no_nan(seconds)), self._me()
        try:
            turn, index = self._come_in(wait, me)
            if turn is not None:
                if index == self._parties - 1:
                    self._finish(turn)
                self._stay(wait, turn)
        except BaseException:  # of the action, or Ctrl-C: it would count as one that waits
            self._leave(me)
            raise
        return index

    def _come_in(self, wait, me):
        """The turn in which this one waits, None: it is over already; and its number"""
        while True:
            version, there = self._there()
            if me in there["last"]:  # nobody knew that it was in, and the others came
                return None, there["last"].index(me)
            if self._is_broken(there):
                raise BrokenBarrierError
            turn = there["id"], there["round"]
            if me in there["waits"]:
                return turn, there["waits"].index(me)
            if len(there["waits"]) < self._parties:
                if self._swap(version, {**there, "waits": [*there["waits"], me]}):
                    return turn, len(there["waits"])
            elif self._is_lost(wait, there) or not wait.go_on(version):  # the round before is not over
                self._end(turn, self._broken)

    def _finish(self, turn):
        if self._action:
            self._action()
        self._end(turn, self._after)

    def _stay(self, wait, turn):
        """Wait until the round is over."""
        while True:
            version, there = self._there(turn)
            if turn[1] in there["broke"]:
                raise BrokenBarrierError
            if there["round"] != turn[1]:
                return
            if self._is_lost(wait, there) or not wait.go_on(version):
                self._end(turn, self._broken)

    def _is_lost(self, wait, there):
        """Whether one of those is dead without whom the round does not end."""
        waits, members = (Counter(tuple(h[:2]) for h in there[which]) for which in ("waits", "members"))
        parties = waits | members
        gone = wait.dead(parties)
        return any(who in gone for who in waits) or bool(gone) and sum(n for who, n in parties.items() if who not in gone) < self._parties

    def reset(self):
        """reset() -- as new; who waits gets BrokenBarrierError. Who is dead is no party any more"""
        while True:
            version, there = self._there()
            dead = Wait(self, 0).dead(there["members"], len(there["members"]))
            broke = there["broke"]
            if there["waits"] and there["round"] not in broke:
                broke = [*broke[-_KEPT:], there["round"]]
            members = [h for h in there["members"] if tuple(h) not in dead]
            if self._swap(version, {**there, "round": there["round"] + 1, "broke": broke, "waits": [], "last": [], "members": members}):
                return

    def abort(self):
        """abort() -- break it: who waits, or does later, gets BrokenBarrierError until reset()"""
        while True:
            version, there = self._there()
            if self._is_broken(there) or self._swap(version, self._broken(there)):
                return

    @property
    def parties(self):
        """how many are to wait"""
        return self._parties

    @property
    def n_waiting(self):
        """how many wait now"""
        there = self._there()[1]
        return 0 if self._is_broken(there) else len(there["waits"])

    @property
    def broken(self):
        """whether it is broken"""
        return self._is_broken(self._there()[1])

    def __reduce__(self):
        return type(self), (self.name, self._parties, self._action, self._timeout, self._given)
