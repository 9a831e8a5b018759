/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze.pml - LAYOUT 9: a proxy caches the item of another manager while the dictionary is frozen.
 * After the unfreeze the owner replaces the value, and its answer reaches a client of the proxy's
 * node: that client must not find the old value, even if it read FROZEN before.
 */
#include "weak.inc"
#define TOLD_BEFORE_EMPTY           MUTANT(1)
#define TOLD_WITHOUT_RELEASE        MUTANT(2)
#define OWNER_DOES_NOT_WAIT         MUTANT(3)
#define WORD_WITHOUT_RELEASE        MUTANT(4)
#define WORD_READ_WITHOUT_ACQUIRE   MUTANT(5)
#define ANSWER_READ_WITHOUT_ACQUIRE MUTANT(6)

/* frozen: 1 FROZEN, 0 OPEN; word of the cached item; item: 1 complete; told: OPEN, by the control
 * connection (a system call: release and acquire); put: the owner has replaced the value */
byte frozen = 1, word, item, told, put;
byte r_put, r_frozen, r_word, r_item;

proctype proxy() {
    do
    STEP(0, 0, 0, item = 1)
    STEP(0, 1, UNLESS(WORD_WITHOUT_RELEASE, BIT(0)), word = 1)
    STEP(0, 2, BIT(1) | IF(TOLD_BEFORE_EMPTY, BIT(4)), word = 0)
    STEP(0, 3, UNLESS(TOLD_BEFORE_EMPTY, BEFORE(3)), frozen = 0)
    STEP(0, 4, UNLESS(TOLD_BEFORE_EMPTY || TOLD_WITHOUT_RELEASE, BEFORE(4)), told = 1)
    :: ENDED(0, 5) -> break
    od
}
proctype owner() {
    do
    STEP_WHEN(1, 0, 0, told || OWNER_DOES_NOT_WAIT, skip)
    STEP(1, 1, BIT(0), put = 1)
    :: ENDED(1, 2) -> break
    od
}
/* one thread that may have got the answer; it may see FROZEN late */
proctype client() {
    do
    STEP(2, 0, 0, r_put = put)
    STEP(2, 1, 0, r_frozen = frozen)
    STEP(2, 2, BIT(1) | UNLESS(ANSWER_READ_WITHOUT_ACQUIRE, BIT(0)),
         r_word = (r_frozen -> word : 0))
    STEP(2, 3, UNLESS(WORD_READ_WITHOUT_ACQUIRE, BIT(2)), r_item = item)
    :: ENDED(2, 4) -> break
    od
}
init {
    CHOOSE;
    atomic { run proxy(); run owner(); run client() };
    ENDED(0, 5) && ENDED(1, 2) && ENDED(2, 4);
    assert(!(r_put && r_word));
    assert(!(r_word && !r_item))
}
