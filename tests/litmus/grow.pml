/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grow.pml - I11 and I12: the directory grows from depth 0 to 1, then a clear swings the root to a
 * new generation of depth 0, whose word is used again. A key that is there until the clear is not
 * missed before it; a segment of before the clear, whose words are swept, is not taken for one that
 * never had it.
 */
#include "weak.inc"
#define ROOT_BEFORE_THE_DIRECTORY   MUTANT(1)
#define CLEAR_WITHOUT_GROWTH        MUTANT(2)
#define WORDS_WITHOUT_RELEASE       MUTANT(3)
#define MISS_WITHOUT_VALIDATION     MUTANT(4)
#define NO_FENCE_BEFORE_VALIDATION  MUTANT(5)
#define SWEPT_BEFORE_THE_ROOT       MUTANT(6)
#define ROOT_READ_WITHOUT_ACQUIRE   VARIANT(7) /* validation finds it */

/* root: 0 depth 0, 1 depth 1, 2 the next generation. Words of the directory: 1 the segment with the
 * key, 2 the empty one, 0 what stood there in an earlier life: an empty one, too. */
byte root, word0 = 1, word1, slot = 1;
byte r_root, r_word, r_slot, r_word2, r_root2;
#define KEPT(n) UNLESS(WORDS_WITHOUT_RELEASE, BEFORE(n))

/* growth: word of depth 1, root; clear: word of depth 0, root; sweep: EMPTY */
proctype writer() {
    do
    STEP(0, 0, IF(ROOT_BEFORE_THE_DIRECTORY, BIT(1)),
         if :: !CLEAR_WITHOUT_GROWTH -> word1 = 1 :: else -> skip fi)
    STEP(0, 1, UNLESS(ROOT_BEFORE_THE_DIRECTORY, KEPT(1)),
         if :: !CLEAR_WITHOUT_GROWTH -> root = 1 :: else -> skip fi)
    STEP(0, 2, KEPT(2), word0 = 2)
    STEP(0, 3, BIT(1) | (SWEPT_BEFORE_THE_ROOT -> BIT(4) : KEPT(3)), root = 2)
    STEP(0, 4, (SWEPT_BEFORE_THE_ROOT -> BIT(2) : KEPT(4)), slot = 0)
    :: ENDED(0, 5) -> break
    od
}
proctype reader() {
    do
    STEP(1, 0, 0, r_root = root)
    STEP(1, 1, UNLESS(ROOT_READ_WITHOUT_ACQUIRE, BIT(0)), r_word = (r_root == 1 -> word1 : word0))
    STEP(1, 2, BEFORE(2), r_slot = (r_word == 1 -> slot : 0))
    STEP(1, 3, BIT(0) | BIT(1) | UNLESS(NO_FENCE_BEFORE_VALIDATION, BEFORE(3)), r_root2 = root)
    STEP(1, 4, BEFORE(4), r_word2 = (r_root == 1 -> word1 : word0))
    :: ENDED(1, 5) -> break
    od
}
init {
    CHOOSE;
    atomic { run writer(); run reader() };
    ENDED(0, 5) && ENDED(1, 5);
    /* a miss of the time before the clear */
    assert(!(r_slot == 0 && r_root != 2 &&
             (MISS_WITHOUT_VALIDATION || (r_root2 == r_root && r_word2 == r_word))))
}
