/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence.pml - PROTOCOL 13, the lease: a primary that is cut off, or whose coordinator is, has stopped serving
 * before another takes its place. Three voters, of which voter 0 is the primary; the coordinators of two terms,
 * of which the first does not know that there is a second. Messages may be late or lost.
 *
 * A coordinator sends beats. The answers of a majority to a beat are its leave to grant, for LEASE from the moment
 * at which it sent that beat. What is left of that the primary may serve, from the moment at which it sent its own
 * last answer that the coordinator has. A coordinator proposes a map without the primary when it has heard nothing
 * of it, and has been coordinator, for WAIT. A beat is sent and answered in one moment here: a later answer to it
 * gives less leave. What comes late are an answer (of a mutant only: else it gives no more) and a grant.
 */
#include "weak.inc"
#define LARGE
#define WAIT_IS_NO_LONGER          MUTANT(1)
#define GRANTED_WITHOUT_A_MAJORITY MUTANT(2)
#define COUNTED_FROM_ITS_ARRIVAL   MUTANT(3)
#define LEAVE_COUNTED_FROM_ARRIVAL MUTANT(4)
#define ELECTED_AND_NO_WAIT        MUTANT(5)
#define OLD_TERMS_ARE_ANSWERED     MUTANT(6)
#define GRANTS_NAME_NO_MAP         MUTANT(7)
#define SILENCE_NOT_AWAITED        MUTANT(8)

#define LEASE 2
#define WAIT  (WAIT_IS_NO_LONGER -> 1 : 3)
#define END   7

byte now = 1;                 /* moments; 0: long ago, or never */
byte term[3] = 1;             /* of each voter */
byte elected[3];              /* of each term: since when */
byte lease = 1 + LEASE;       /* the primary serves before this moment */
bool promoted;                /* the map has another primary, and counts */
bool proposed[3];             /* ... as the coordinator of this term has proposed */
byte came[6];                 /* of each term and voter: the last answer */
bool late;                    /* an answer of voter 1 to the first term is on its way */
byte grant_until, grant_sent; /* a grant is on its way: until when, from which answer of the primary */
bool grant_new;               /* ... and it names the map without the primary */

#define CAME(t, i) came[3 * ((t) - 1) + (i)]
#define MIDDLE(a, b, c) ((a) > (b) -> ((b) > (c) -> (b) : ((a) > (c) -> (c) : (a))) : ((a) > (c) -> (a) : ((b) > (c) -> (c) : (b))))
#define SERVES (now < lease)
#define TERM_COUNTS(t) ((term[0] <= t) + (term[1] <= t) + (term[2] <= t) >= 2)

proctype coordinator(byte t) {
    byte i, until;
end_coordinator:
    do
    /* a vote; two are enough */
    :: atomic { elected[t] == 0 && t == 2 ->
        if :: term[0] != t -> i = 0 :: term[1] != t -> i = 1 :: term[2] != t -> i = 2 fi;
        term[i] = t;
        if :: (term[0] == t) + (term[1] == t) + (term[2] == t) == 2 -> elected[t] = now; proposed[t] = promoted :: else fi;
        i = 0 }
    /* a beat, and its answer */
    :: atomic { elected[t] != 0 ->
        if :: i = 0 :: i = 1 :: i = 2 fi;
        if
        :: term[i] == t || (OLD_TERMS_ARE_ANSWERED && term[i] > t) ->
            if :: CAME(t, i) = now :: LEAVE_COUNTED_FROM_ARRIVAL && t == 1 && i == 1 -> late = 1 fi
        :: else
        fi; i = 0 }
    :: atomic { late -> CAME(1, 1) = now; late = 0 }
    /* a grant for the primary */
    :: atomic { elected[t] != 0 && CAME(t, 0) != 0 && grant_until == 0 ->
        until = LEASE + (GRANTED_WITHOUT_A_MAJORITY -> now : MIDDLE(CAME(t, 0), CAME(t, 1), CAME(t, 2)));
        if
        :: until > now && CAME(t, 0) + until - now >= now -> grant_until = until - now; grant_sent = CAME(t, 0); grant_new = proposed[t]
        :: else
        fi; until = 0 }
    /* the map without the primary */
    :: atomic { elected[t] != 0 && !proposed[t] && now >= (SILENCE_NOT_AWAITED -> 0 : CAME(t, 0)) + WAIT &&
                now >= (ELECTED_AND_NO_WAIT -> 0 : elected[t]) + WAIT -> proposed[t] = 1 }
    /* ... counts only while a majority has heard of no newer term */
    :: atomic { proposed[t] && !promoted && TERM_COUNTS(t) ->
        assert(!SERVES);
        promoted = 1 }
    od
}

/* The primary takes a grant for the map that it knows, which may be lost. */
proctype primary() {
    byte until;
end_primary:
    do
    :: atomic { grant_until != 0 ->
        if
        :: !grant_new || GRANTS_NAME_NO_MAP ->
            until = grant_until + (COUNTED_FROM_ITS_ARRIVAL -> now : grant_sent);
            lease = (until > lease -> until : lease);
            assert(!promoted || !SERVES)
        :: true
        fi; grant_until = 0; grant_sent = 0; grant_new = 0; until = 0 }
    od
}

/* What was long ago does not matter any more. */
#define FORGET(moment) if :: moment != 0 && moment + 3 < now -> moment = 0 :: else fi
proctype clock() {
    do
    :: atomic { now < END ->
        now++;
        FORGET(came[0]); FORGET(came[1]); FORGET(came[2]); FORGET(came[3]); FORGET(came[4]); FORGET(came[5]);
        lease = (lease < now -> now : lease) }
    :: else -> break
    od
}

init {
    CHOOSE;
    atomic {
        elected[1] = 1;
        came[0] = 1; came[1] = 1; came[2] = 1;
        run coordinator(1); run coordinator(2); run primary(); run clock()
    }
}
