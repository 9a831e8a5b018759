/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.pml - I5 and I6: take, look again, release, scan, reuse. The reader's slot goes to another
 * thread of its process afterwards, which leases another block (L3): a scan that finds that lease
 * must have the reads of the first behind it, too.
 */
#include "weak.inc"
#define MEMBARRIER                  VARIANT(1)
#define NO_READER_FENCE             MUTANT(2)
#define NO_WRITER_FENCE             MUTANT(3)
#define SCAN_FIRST                  MUTANT(4)
#define CLEAR_WITHOUT_RELEASE       MUTANT(5)
#define UNFENCED_WITHOUT_MEMBARRIER MUTANT(6)
#define SLOT_TAKEN_WITHOUT_ACQUIRE  MUTANT(7)
#define LEASE_BEHIND_THE_LOOK       MUTANT(8)

#define OLD 1
#define OTHER 2
byte word = OLD, slot, freed, block; /* block: 1 once it is used again */
byte again, seen, last, scanned;
#define FENCED (!MEMBARRIER && !NO_READER_FENCE && !UNFENCED_WITHOUT_MEMBARRIER)

/* replace the word; F; scan; use the block again */
proctype writer() {
    do
    STEP(0, 0, 0, word = 0)
    STEP_WHEN(0, 1, UNLESS(SCAN_FIRST, BEFORE(1)), !MEMBARRIER || (STOPPED(1) && STOPPED(2)), skip)
    STEP(0, 2, UNLESS(NO_WRITER_FENCE || SCAN_FIRST, BIT(1)), scanned = slot)
    STEP(0, 3, BIT(2), if :: scanned != OLD -> block = 1 :: else -> skip fi)
    :: ENDED(0, 4) -> break
    od
}
/* lease; G; look again; read two bytes of the block; release; count */
proctype reader() {
    do
    STEP(1, 0, IF(LEASE_BEHIND_THE_LOOK, BIT(2)), slot = OLD)
    STEP(1, 1, UNLESS(!FENCED, UNLESS(LEASE_BEHIND_THE_LOOK, BIT(0))), skip)
    STEP(1, 2, UNLESS(!FENCED, BIT(1)), again = word)
    STEP(1, 3, BIT(2), seen = block)
    STEP(1, 4, BIT(2), last = block)
    STEP(1, 5, BIT(0) | UNLESS(CLEAR_WITHOUT_RELEASE, BEFORE(5)), slot = 0)
    STEP(1, 6, BEFORE(6), freed = 1)
    :: ENDED(1, 7) -> break
    od
}
/* another thread finds the slot free and leases another block */
proctype heir() {
    do
    STEP_WHEN(2, 0, 0, SLOT_TAKEN_WITHOUT_ACQUIRE || freed == 1, skip)
    STEP_WHEN(2, 1, BIT(0), slot == 0 || SLOT_TAKEN_WITHOUT_ACQUIRE, slot = OTHER)
    :: ENDED(2, 2) -> break
    od
}
init {
    CHOOSE;
    atomic { run writer(); run reader(); run heir() };
    ENDED(0, 4) && ENDED(1, 7) && ENDED(2, 2);
    assert(!(again == OLD && (seen || last)))
}
