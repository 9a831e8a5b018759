/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split.pml - I8 and I9: a key whose segment splits is there throughout. A reader looks for it, and
 * another walks over the keys of the segment: it goes on behind the part of the hashes (depth) that
 * the segment has, and must not take the new depth with the old words.
 */
#include "weak.inc"
#define MOVED_BEFORE_COPIED         MUTANT(1)
#define ODD_BEHIND_THE_FIRST_MOVE   MUTANT(2)
#define EVEN_BEFORE_THE_DIRECTORY   MUTANT(3)
#define WORDS_WITHOUT_RELEASE       MUTANT(4)
#define DEPTH_WITHOUT_RELEASE       MUTANT(5)
#define NO_FENCE_BEFORE_THE_SIBLING MUTANT(6)
#define NO_FENCE_BEFORE_VALIDATION  MUTANT(7)
#define NO_SECOND_LOOK_AT_THE_COUNTER MUTANT(8)
#define WALK_WITHOUT_FENCE          MUTANT(9)

/* old: 1 the word, 2 MOVED; fresh: 1 the word, in the sibling; dir: 1 the sibling */
byte old = 1, fresh, moves, dir, depth;
byte r_dir, r_moves, r_old, r_fresh, r_dir2, r_moves2;
byte w_moves, w_old, w_depth, w_moves2;
#define KEPT(n) UNLESS(WORDS_WITHOUT_RELEASE, BEFORE(n))
#define SWAPS (MOVED_BEFORE_COPIED || ODD_BEHIND_THE_FIRST_MOVE || EVEN_BEFORE_THE_DIRECTORY)

/* odd; copy; MOVED; directory; depth; even */
proctype writer() {
    do
    STEP(0, 0, IF(ODD_BEHIND_THE_FIRST_MOVE, BIT(1) | BIT(2)), moves = 1)
    STEP(0, 1, (SWAPS -> IF(MOVED_BEFORE_COPIED, BIT(0) | BIT(2)) |
         IF(EVEN_BEFORE_THE_DIRECTORY, BIT(0)) : KEPT(1)),
         fresh = 1)
    STEP(0, 2, (SWAPS -> IF(MOVED_BEFORE_COPIED, BIT(0)) |
         UNLESS(MOVED_BEFORE_COPIED, BIT(1)) : KEPT(2)),
         old = 2)
    STEP(0, 3, (EVEN_BEFORE_THE_DIRECTORY -> BIT(5) : KEPT(3)), dir = 1)
    STEP(0, 4, UNLESS(DEPTH_WITHOUT_RELEASE, (EVEN_BEFORE_THE_DIRECTORY -> BIT(2) : KEPT(4))),
         depth = 1)
    STEP(0, 5, BIT(0) | (EVEN_BEFORE_THE_DIRECTORY -> BIT(2) | BIT(4) : BEFORE(5)), moves = 2)
    :: ENDED(0, 6) -> break
    od
}
/* find_validated(): directory, counter, old segment, fence, sibling, fence, both again */
proctype reader() {
    do
    STEP(1, 0, 0, r_dir = dir)
    STEP(1, 1, BIT(0), r_moves = moves)
    STEP(1, 2, BIT(0) | BIT(1), r_old = old)
    STEP(1, 3, BIT(1) | UNLESS(NO_FENCE_BEFORE_THE_SIBLING, BIT(2)), r_fresh = fresh)
    STEP(1, 4, BIT(1) | UNLESS(NO_FENCE_BEFORE_VALIDATION, BEFORE(4)), r_dir2 = dir)
    STEP(1, 5, BIT(4) | UNLESS(NO_FENCE_BEFORE_VALIDATION, BEFORE(5)), r_moves2 = moves)
    :: ENDED(1, 6) -> break
    od
}
/* reader_keys(): counter, words, depth, fence, counter again */
proctype walker() {
    do
    STEP(2, 0, 0, w_moves = moves)
    STEP(2, 1, BIT(0), w_old = old)
    STEP(2, 2, BIT(0), w_depth = depth)
    STEP(2, 3, BIT(0) | UNLESS(WALK_WITHOUT_FENCE, BEFORE(3)), w_moves2 = moves)
    :: ENDED(2, 4) -> break
    od
}
init {
    CHOOSE;
    atomic { run writer(); run reader(); run walker() };
    ENDED(0, 6) && ENDED(1, 6) && ENDED(2, 4);
    /* a miss is reported */
    assert(!(r_dir == 0 && r_old == 2 && !(r_moves == 1 && r_fresh) && r_dir2 == 0 &&
             (r_moves2 == r_moves || NO_SECOND_LOOK_AT_THE_COUNTER)));
    /* before the split the key is in the part up to the end of the depth, behind it not */
    assert(!(w_moves != 1 && w_moves2 == w_moves && (w_depth == 1) != (w_old == 2)))
}
