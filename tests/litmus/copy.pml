/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.pml - PROTOCOL 13, the copy for a new backup: one key, put and deleted while the walk over the primary's
 * keys comes by. Once all is acknowledged the backup has what the primary has: no value from before a change, and
 * none that was deleted.
 */
#include "weak.inc"
#define ITEM_OF_A_KEY_IN_FLIGHT MUTANT(1)
#define ITEM_BY_ANOTHER_WAY     MUTANT(2)
#define ITEM_READ_BEFORE        MUTANT(3)

#define CHANGES 3
#define NONE    255

byte word = 1, flight = NONE; /* of the primary: the value, 0 for none; what will be there after the acknowledgement */
byte shadow;                  /* of the backup */
byte made;                    /* changes so far */
byte item = NONE;             /* what the walk has read */
bool walked;
chan link = [4] of { byte, bool }; /* a value, and whether it is a change */
chan side = [1] of { byte };
chan acks = [4] of { bit };

active proctype backup() {
    byte v;
    bool change;
end_backup:
    do
    :: atomic { link?v, change -> shadow = v; if :: change -> acks!1 :: else fi; v = 0; change = 0 }
    :: atomic { side?v -> shadow = v; v = 0 }
    od
}

proctype primary() {
    do
    :: atomic { made < CHANGES && flight == NONE ->
        made++;
        if :: flight = 1 + made :: flight = 0 fi;
        link!flight, 1 }
    :: atomic { acks?_ -> word = flight; flight = NONE }
    /* the walk comes to the key, and has its turn when nothing of it is in flight */
    :: atomic { ITEM_READ_BEFORE && item == NONE && flight == NONE -> item = word }
    :: atomic { !walked && (ITEM_READ_BEFORE -> item != NONE : flight == NONE || ITEM_OF_A_KEY_IN_FLIGHT) ->
        item = (ITEM_READ_BEFORE -> item : word);
        if
        :: item == 0
        :: else -> if :: ITEM_BY_ANOTHER_WAY -> side!item :: else -> link!item, 0 fi
        fi;
        walked = 1;
        item = 0 }
    :: walked && made == CHANGES && flight == NONE && empty(link) && empty(side) && empty(acks) -> break
    od;
    assert(shadow == word)
}

init { CHOOSE; run primary() }
