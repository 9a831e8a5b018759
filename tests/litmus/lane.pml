/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane.pml - PROTOCOL 3: a record is whole when its position is seen, and read before it is written
 * over; the manager sleeps only if the client will wake it (W5, lane_leave), and gives back memory
 * of a ring only while the client writes nothing (R1).
 */
#include "weak.inc"
#define MEMBARRIER                  VARIANT(1)
#define NO_CLIENT_FENCE             MUTANT(2)
#define NO_MANAGER_FENCE            MUTANT(3)
#define TAIL_WITHOUT_RELEASE        MUTANT(4)
#define TAIL_READ_WITHOUT_ACQUIRE   MUTANT(5)
#define HEAD_WITHOUT_RELEASE        MUTANT(6)
#define WRITE_WITHOUT_FENCE         MUTANT(7)
#define TAKE_WITHOUT_FENCE          MUTANT(8)
#define USED_CLEARED_WITHOUT_RELEASE MUTANT(9)

/* record: 1 written, 2 written over, 3 its memory was given back */
byte record, tail, head, sleeping, used, taking;
byte m_used, m_ready, m_tail, m_record, c_taking, c_sleeping, c_head;

/* R: taking; fence; used? ring empty? give back. W: sleeping; fence; tail? read the record; head */
proctype manager() {
    do
    STEP(0, 0, 0, taking = 1)
    STEP_WHEN(0, 1, BEFORE(1), !MEMBARRIER || STOPPED(1), skip)
    STEP(0, 2, UNLESS(TAKE_WITHOUT_FENCE, BIT(1)), m_used = used)
    STEP(0, 3, BIT(2) | UNLESS(TAKE_WITHOUT_FENCE, BIT(1)), m_ready = tail)
    STEP(0, 4, BIT(1) | BIT(2) | BIT(3),
         if :: !m_used && !m_ready && record != 0 -> record = 3 :: else -> skip fi)
    STEP(0, 5, BEFORE(5), taking = 0)
    STEP(0, 6, BEFORE(6), sleeping = 1)
    STEP(0, 7, UNLESS(NO_MANAGER_FENCE, BEFORE(7)) | BEFORE(5), m_tail = tail)
    STEP(0, 8, UNLESS(TAIL_READ_WITHOUT_ACQUIRE, BIT(7)) | BEFORE(5), m_record = record)
    STEP(0, 9, BIT(7) | UNLESS(HEAD_WITHOUT_RELEASE, BEFORE(9)), head = m_tail)
    :: ENDED(0, 10) -> break
    od
}
/* used; fence; taking? (waits until it may) write the record; tail; not used; fence; sleeping?;
 * room again? write over */
proctype client() {
    do
    STEP(1, 0, 0, used = 1)
    STEP_WHEN(1, 1, UNLESS(MEMBARRIER || WRITE_WITHOUT_FENCE, BIT(0)), taking == 0, c_taking = 0)
    STEP(1, 2, BIT(1), record = 1)
    STEP(1, 3, BIT(1) | UNLESS(TAIL_WITHOUT_RELEASE, BEFORE(3)), tail = 1)
    STEP(1, 4, BIT(0) | UNLESS(USED_CLEARED_WITHOUT_RELEASE, BEFORE(4)), used = 0)
    STEP(1, 5, BIT(1) | UNLESS(NO_CLIENT_FENCE, BEFORE(5)), c_sleeping = sleeping)
    STEP(1, 6, BIT(1), c_head = head)
    STEP(1, 7, BIT(2) | BIT(6), if :: c_head -> record = 2 :: else -> skip fi)
    :: ENDED(1, 8) -> break
    od
}
init {
    CHOOSE;
    atomic { run manager(); run client() };
    ENDED(0, 10) && ENDED(1, 8);
    assert(!(m_tail == 0 && c_sleeping == 0)); /* nobody wakes it */
    assert(!(m_tail == 1 && m_record != 1))
}
