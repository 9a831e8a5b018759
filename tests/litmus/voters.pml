/* SPDX-License-Identifier: Apache-2.0 */
/*
 * voters.pml - PROTOCOL 13, who decides: as coordinator.pml, where the voters are part of the map. Four nodes at
 * the start; each change of the map loses one more of them, which may live and vote on, and where two are left
 * the one that decides is the only voter. A map counts, and a candidate has won, with a majority of the voters of
 * the newest map and one of the voters before it, but where somebody who voted knows that this map counts.
 */
#include "weak.inc"
#define LARGE
#define ONE_VOTE_IS_ENOUGH       MUTANT(1)
#define BEFORE_IS_ENOUGH         MUTANT(2)
#define AFTER_IS_ENOUGH          MUTANT(3)
#define ONE_HOLDER_IS_ENOUGH     MUTANT(4)
#define OLD_TERMS_ARE_ACCEPTED   MUTANT(5)
#define GOES_ON_BEFORE_IT_COUNTS MUTANT(6)
#define MAP_OF_ANY_VOTER         MUTANT(7)

#define VOTERS  4
#define CHANGES 2 /* of each term */
#define MAPS    (2 + 2 * CHANGES)

byte version_of[MAPS], made_from[MAPS], voters[MAPS], before[MAPS], left[MAPS];
byte term[VOTERS], held_term[VOTERS], held[VOTERS];
bool knows[VOTERS];    /* that what it holds counts */
byte counts[MAPS + 1]; /* the map that counts, for each version */

inline map_counts(m) {
    assert(counts[version_of[m]] == 0 || counts[version_of[m]] == m);
    assert(version_of[m] == 1 || counts[version_of[m] - 1] == made_from[m]);
    assert(counts[version_of[m] + 1] == 0 || made_from[counts[version_of[m] + 1]] == m);
    counts[version_of[m]] = m
}
#define BITS(x)     (((x) & 1) + (((x) >> 1) & 1) + (((x) >> 2) & 1) + (((x) >> 3) & 1))
#define MAJORITY(x) (2 * BITS(asked & (x)) > BITS(x))
#define ENOUGH(one) ((one) -> asked != 0 : (AFTER_IS_ENOUGH || best_counts || MAJORITY(before[best])) && \
                                           (BEFORE_IS_ENOUGH || MAJORITY(voters[best])))
#define NEWER(i)    (MAP_OF_ANY_VOTER || held_term[i] > best_term || \
                     (held_term[i] == best_term && version_of[held[i]] > version_of[best]))
#define VOTES(i)    (!(asked & (1 << i)) && term[i] < t)
#define TAKES(i)    (!(asked & (1 << i)) && (term[i] <= t || OLD_TERMS_ARE_ACCEPTED))
#define CHOOSE_VOTER(can) if :: can(0) -> i = 0 :: can(1) -> i = 1 :: can(2) -> i = 2 :: can(3) -> i = 3 fi
#define LOSES(i)    ((left[best] & (1 << i)) && i != me)

proctype coordinator(byte t) {
    byte i, asked, best, best_term, changes, made, me;
    bool best_counts;
    me = t - 1;
end_votes:
    do
    :: atomic { CHOOSE_VOTER(VOTES);
        term[i] = t;
        asked = asked | (1 << i);
        if
        :: best == 0 || NEWER(i) -> best = held[i]; best_term = held_term[i]; best_counts = knows[i]
        :: else -> best_counts = best_counts || (held[i] == best && held_term[i] == best_term && knows[i])
        fi;
        i = 0 }
    :: atomic { best != 0 && (asked & (1 << me)) && ENOUGH(ONE_VOTE_IS_ENOUGH) -> best_term = 0; asked = 0 } break
    od;
end_changes:
    do
    :: atomic { CHOOSE_VOTER(TAKES);
        term[i] = (term[i] < t -> t : term[i]);
        held_term[i] = t;
        held[i] = best;
        knows[i] = best_counts;
        asked = asked | (1 << i);
        if :: ENOUGH(ONE_HOLDER_IS_ENOUGH) -> map_counts(best) :: else fi;
        i = 0 }
    /* a voter hears that it counts */
    :: atomic { ENOUGH(ONE_HOLDER_IS_ENOUGH) && asked != 0 ->
        if :: held[0] == best && held_term[0] == t -> knows[0] = 1 :: held[1] == best && held_term[1] == t -> knows[1] = 1
           :: held[2] == best && held_term[2] == t -> knows[2] = 1 :: held[3] == best && held_term[3] == t -> knows[3] = 1 :: else fi }
    :: atomic { (ENOUGH(ONE_HOLDER_IS_ENOUGH) || GOES_ON_BEFORE_IT_COUNTS) && changes < CHANGES && BITS(left[best]) > 2 ->
        made = 2 + (t - 1) * CHANGES + changes;
        version_of[made] = version_of[best] + 1;
        made_from[made] = best;
        before[made] = voters[best];
        if :: LOSES(0) -> i = 0 :: LOSES(1) -> i = 1 :: LOSES(2) -> i = 2 :: LOSES(3) -> i = 3 fi;
        left[made] = left[best] - (1 << i);
        voters[made] = (BITS(left[made]) > 2 -> left[made] : (1 << me));
        best = made;
        i = 0; made = 0; asked = 0; best_counts = 0; changes++ }
    od
}

init {
    CHOOSE;
    atomic {
        version_of[1] = 1; voters[1] = 15; before[1] = 15; left[1] = 15;
        counts[1] = 1;
        held[0] = 1; held[1] = 1; held[2] = 1; held[3] = 1;
        knows[0] = 1; knows[1] = 1; knows[2] = 1; knows[3] = 1;
        run coordinator(1);
        run coordinator(2)
    }
}
