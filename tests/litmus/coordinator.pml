/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coordinator.pml - PROTOCOL 13, the map: the nodes agree about it, one version after the other, although
 * the coordinator may be lost or cut off at any moment and another takes its place. Three voters; terms, each
 * of one coordinator, which may be slow: its messages come late, or never. Who is coordinator asks all for
 * their votes, in any order, and with two of three goes on from the newest map among those that voted. A map
 * counts, and nodes act on it, once two of three hold it. No two maps of one version ever count, and each that
 * counts was made from the one of the version before. (The synod of L. Lamport, The part-time parliament,
 * 1998, again and again; a map is a whole state and no log, so only the newest is held.)
 */
#include "weak.inc"
#define ONE_VOTE_IS_ENOUGH       MUTANT(1)
#define MAP_OF_ANY_VOTER         MUTANT(2)
#define OLD_TERMS_ARE_ACCEPTED   MUTANT(3)
#define ONE_HOLDER_IS_ENOUGH     MUTANT(4)
#define VOTES_TWICE_IN_A_TERM    MUTANT(5)
#define VERSION_BEFORE_TERM      MUTANT(6)
#define VERSIONS_NOT_COMPARED    MUTANT(7)
#define GOES_ON_BEFORE_IT_COUNTS MUTANT(8)
#define LATE_MAPS_ARE_TAKEN      MUTANT(9)

#define VOTERS 3
#define CHANGES 3
#define MAPS    8 /* 1 is that of the start; then each term makes CHANGES - 1, with numbers of its own */
#define MAJORITY(n, mutant) ((n) >= ((mutant) -> 1 : 2))

byte version_of[MAPS], made_from[MAPS];
byte term[VOTERS], held_term[VOTERS], held[VOTERS];
byte counts[MAPS + 1]; /* the map that counts, for each version */

inline map_counts(m) {
    assert(counts[version_of[m]] == 0 || counts[version_of[m]] == m);
    assert(version_of[m] == 1 || counts[version_of[m] - 1] == made_from[m]);
    assert(counts[version_of[m] + 1] == 0 || made_from[counts[version_of[m] + 1]] == m);
    counts[version_of[m]] = m
}
#define NEWER(i) (MAP_OF_ANY_VOTER || (VERSION_BEFORE_TERM -> version_of[held[i]] > version_of[best] : \
    held_term[i] > best_term || (held_term[i] == best_term && !VERSIONS_NOT_COMPARED && \
                                 version_of[held[i]] > version_of[best])))

#define N_ASKED ((asked & 1) + ((asked >> 1) & 1) + (asked >> 2))
#define CHOOSE_VOTER(says_yes) \
    if :: !(asked & 1) && says_yes(0) -> i = 0 :: !(asked & 2) && says_yes(1) -> i = 1 :: !(asked & 4) && says_yes(2) -> i = 2 fi
#define VOTES(i)   (term[i] < t || (VOTES_TWICE_IN_A_TERM && term[i] == t + 1))
#define TAKES_LATE(i) \
    (ACCEPTS(i) && (held_term[i] != t || LATE_MAPS_ARE_TAKEN || version_of[held[i]] < version_of[made_from[best]]))
#define ACCEPTS(i) (term[i] <= t || OLD_TERMS_ARE_ACCEPTED)

/* `asked`: the voters that said yes. Of the others nothing is heard; who hears of no majority stays where it is. */
proctype coordinator(byte t) {
    byte i, asked, best, best_term, changes, made;
end_votes:
    do
    :: atomic { CHOOSE_VOTER(VOTES);
        term[i] = t;
        asked = asked | (1 << i);
        if :: best == 0 || NEWER(i) -> best = held[i]; best_term = held_term[i] :: else fi;
        i = 0 }
    :: atomic { MAJORITY(N_ASKED, ONE_VOTE_IS_ENOUGH) -> best_term = 0; asked = 0 } break
    od;
    /* The first change gives all voters the newest map, whether it counted or not. */
end_changes:
    do
    :: atomic { CHOOSE_VOTER(ACCEPTS);
        term[i] = (term[i] < t -> t : term[i]);
        held_term[i] = t;
        held[i] = best;
        asked = asked | (1 << i);
        if :: MAJORITY(N_ASKED, ONE_HOLDER_IS_ENOUGH) -> map_counts(best) :: else fi;
        i = 0 }
    /* what was on its way when it went on */
    :: atomic { changes > 0 && (TAKES_LATE(0) || TAKES_LATE(1) || TAKES_LATE(2));
        if :: TAKES_LATE(0) -> i = 0 :: TAKES_LATE(1) -> i = 1 :: TAKES_LATE(2) -> i = 2 fi;
        term[i] = (term[i] < t -> t : term[i]);
        held_term[i] = t;
        held[i] = made_from[best];
        i = 0 }
    :: atomic { (MAJORITY(N_ASKED, ONE_HOLDER_IS_ENOUGH) || GOES_ON_BEFORE_IT_COUNTS) && changes < CHANGES - 1 ->
        made = 2 + (t - 1) * (CHANGES - 1) + changes;
        version_of[made] = version_of[best] + 1;
        made_from[made] = best;
        best = made;
        made = 0; asked = 0; changes++ }
    od
}

init {
    CHOOSE;
    atomic {
        version_of[1] = 1;
        counts[1] = 1;
        held[0] = 1; held[1] = 1; held[2] = 1;
        run coordinator(1);
        run coordinator(2);
        run coordinator(3)
    }
}
