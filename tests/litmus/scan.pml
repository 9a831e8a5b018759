/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.pml - I23 and LAYOUT 8: a lease is copied to a slot that the scan looks at later (hold page,
 * later chunk), and ended where it was; a new chunk is counted before it is used.
 */
#include "weak.inc"
#define SCAN_BACKWARDS              MUTANT(1)
#define ENDED_WITHOUT_RELEASE       MUTANT(2)
#define COPIED_BEHIND_THE_END       MUTANT(3)
#define SCAN_WITHOUT_ACQUIRE        MUTANT(4)
#define COUNTED_BEHIND_THE_END      MUTANT(5)
#define COUNT_READ_ONCE             MUTANT(6)

/* slot: of the first chunk, with a lease; later: of the second chunk; chunks - 1 */
byte slot = 1, later, chunks, block;
byte was, count, copy, seen;
#define LATE (COPIED_BEHIND_THE_END || COUNTED_BEHIND_THE_END)

proctype manager() {
    do
    STEP(0, 0, IF(SCAN_BACKWARDS, BIT(1) | BIT(2)), was = slot)
    STEP(0, 1, UNLESS(SCAN_WITHOUT_ACQUIRE || SCAN_BACKWARDS || COUNT_READ_ONCE, BIT(0)),
         count = chunks)
    STEP(0, 2, BIT(1) | UNLESS(SCAN_WITHOUT_ACQUIRE || SCAN_BACKWARDS, BIT(0)),
         copy = (count -> later : 0))
    STEP(0, 3, BEFORE(3), if :: !was && !copy -> block = 1 :: else -> skip fi)
    :: ENDED(0, 4) -> break
    od
}
/* count the chunk; copy; end the first lease; the child reads under the second and ends it */
proctype client() {
    do
    STEP(1, 0, IF(COUNTED_BEHIND_THE_END, BIT(2)), chunks = 1)
    STEP(1, 1, (LATE -> IF(COPIED_BEHIND_THE_END, BIT(2)) : BEFORE(1)), later = 1)
    STEP(1, 2, UNLESS(LATE || ENDED_WITHOUT_RELEASE, BEFORE(2)), slot = 0)
    STEP(1, 3, 0, seen = block)
    STEP(1, 4, BEFORE(4), later = 0)
    :: ENDED(1, 5) -> break
    od
}
init {
    CHOOSE;
    atomic { run manager(); run client() };
    ENDED(0, 4) && ENDED(1, 5);
    assert(!seen)
}
