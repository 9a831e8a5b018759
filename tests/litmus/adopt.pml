/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adopt.pml - a block that a completion names (reader_adopt): pinned until the client has consumed
 * the completion; its lease needs no fence and no second look. A scan may be under way meanwhile:
 * it has passed the slot, and then the pin goes (I6).
 */
#include "weak.inc"
#define CONSUMED_BEFORE_LEASED      MUTANT(1)
#define CONSUMED_WITHOUT_RELEASE    MUTANT(2)
#define CLEAR_WITHOUT_RELEASE       MUTANT(3)
#define PIN_FORGOTTEN_IN_A_SCAN     MUTANT(4)
#define HEAD_READ_WITHOUT_ACQUIRE   MUTANT(5)

byte slot, head, block;
byte head_seen, first_slot, second_slot, seen;

/* The word is replaced already. First scan: slot; head, the pin goes; free unless it was pinned.
 * Second scan: F, slot, free. */
proctype manager() {
    do
    STEP(0, 0, 0, first_slot = slot)
    STEP(0, 1, BIT(0), head_seen = head)
    STEP(0, 2, BIT(0) | BIT(1),
         if :: PIN_FORGOTTEN_IN_A_SCAN && first_slot == 0 && head_seen -> block = 1
         :: else -> skip fi)
    STEP(0, 3, UNLESS(HEAD_READ_WITHOUT_ACQUIRE, BEFORE(3)), second_slot = slot)
    STEP(0, 4, BEFORE(4), if :: head_seen && second_slot == 0 -> block = 1 :: else -> skip fi)
    :: ENDED(0, 5) -> break
    od
}
/* lease; consume the completion; read; release */
proctype client() {
    do
    STEP(1, 0, IF(CONSUMED_BEFORE_LEASED, BIT(1)), slot = 1)
    STEP(1, 1, UNLESS(CONSUMED_BEFORE_LEASED || CONSUMED_WITHOUT_RELEASE, BEFORE(1)), head = 1)
    STEP(1, 2, 0, seen = block)
    STEP(1, 3, BIT(0) | UNLESS(CLEAR_WITHOUT_RELEASE, BEFORE(3)), slot = 0)
    :: ENDED(1, 4) -> break
    od
}
init {
    CHOOSE;
    atomic { run manager(); run client() };
    ENDED(0, 5) && ENDED(1, 4);
    assert(!seen)
}
