#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Histories find intended bugs: each of those of mutants.c, soon; and the same ddictd without one has none."""
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import history  # noqa: E402
import cluster  # noqa: E402  (history.py knows the way)
from cluster import BUILD, check, main  # noqa: E402

WITHIN_S = 60  # of histories; each bug is found in the first or second
LOSSES_S = 150  # the same where each loses a node, in one of the first four
MUTANTS = {
    "pop_leaves": "a pop that leaves its value",
    "new_replaces": "a put new that replaces what is there",
    "early_answer": "a put that is answered before the swing",
    "late_del": "a del that is answered before the key goes",
    "twice": "a put that the next life carries out again",
    "twice_newest": "the newest put that the next life carries out again",
    "leases_unknown": "a block that is used again under a reader",
    "push_twice": "a push of one value twice",
    "push_lost": "a push that is answered and not carried out",
    "push_late": "a value that goes behind a later one",
    "pop_two": "a pop that removes two values",
    "frozen_open": "a change of a frozen manager",
    "frozen_once": "a next life that is not frozen",
    "memory_lost": "a block that nobody frees",
    "add_twice": "an add that is made twice",
}
# With two copies of all, of which one is lost with its node
COPIES = {
    "copy_missed": "a value that is replaced or deleted without the backup",
    "copy_early": "a change that is answered before the backup has it",
    "results_dropped": "a backup without results",
}


def histories(mutant, seconds):
    """Of that ddictd, until one has no explanation: (its text, seconds); None: all had."""
    rng, began = random.Random(history.SEED), time.monotonic()
    while time.monotonic() - began < seconds:
        dies = mutant in ("twice", "twice_newest", "frozen_once", "")
        nemeses = ["manager_killed"] if dies else []
        how = dict(words=["small"], pause_us=1000) if dies else dict(pause_us=100)
        if mutant == "leases_unknown":
            how.update(mem="4M", ballast=100)  # memory is used again soon
        how.update(emptied=mutant in ("memory_lost", ""))
        history.EMPTIED_S = 0.3 if mutant else 2
        if mutant in ("frozen_open", "frozen_once", ""):
            how.update(freezes=True)
        try:
            history.a_round(rng, 1, nemeses, pace=0.4, managers=1, args=["--restarts", "16"], env={"HISTORY_MUTANT": mutant}, may_end=dies, **how)
        except (history.Unexplained, history.LeftOver) as e:
            return str(e), time.monotonic() - began
    return None


def losses(mutant, seconds):
    """The same of losses of a node whose link is cut some moments before, where that can be. Of many keys, so that most are read before they are replaced."""
    history.KEYS = 24
    rng, began = random.Random(history.SEED), time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            history.a_loss(rng, rng.uniform(0.5, 1.5), [], nodes=3, env={"HISTORY_MUTANT": mutant}, words=["small"], pause_us=100, workers=9, cut=mutant == "copy_early")
        except history.Unexplained as e:
            return str(e), time.monotonic() - began
        except history.Ended as e:  # what diverged went where the loss left the only copy: the bug cost the dictionary, and no answer yet
            print("# %s" % e, flush=True)
    return None


def without_a_bug_all_is_explained():
    found = histories("", 4)
    check(found is None, found and found[0])


def finds(mutant, what, how=histories):
    def test():
        if mutant == "copy_early" and history.no_links():
            print("# not looked for: %s" % history.no_links())  # what was sent arrives, if processes are all that dies
            return
        seconds = WITHIN_S if how is histories else LOSSES_S
        found = how(mutant, seconds)
        check(found is not None, "%s was not found within %d s" % (what, seconds))
        print("# %s, after %.1f s:\n# %s" % (what, found[1], found[0].replace("\n", "\n# ")))
    test.__name__ = "%s_is_found" % what.replace(" ", "_")
    return test


if __name__ == "__main__":
    cluster.DDICTD = os.path.join(BUILD, "tests", "history", "ddictd_mutant")
    check(os.access(cluster.DDICTD, os.X_OK), "no " + cluster.DDICTD)
    main([without_a_bug_all_is_explained, *(finds(m, what) for m, what in MUTANTS.items()), *(finds(m, what, losses) for m, what in COPIES.items())], limit=240, at_once=3)
