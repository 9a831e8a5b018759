/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_litmus.c - the orders of memory accesses that LAYOUT relies on, by trying every execution
 * that a processor allows.
 *
 * A missing fence shows itself on real hardware only within nanoseconds, and on x86 only between a
 * store and a later load; no delay that a test can insert widens that. So the protocol is modelled:
 * each thread is a list of loads, stores and fences; an instruction may execute as soon as
 * everything that the processor keeps before it has. Two sets of such rules: TSO (x86: only a load
 * may overtake an earlier store elsewhere) and WEAK (ARMv8: everything may be reordered but what a
 * fence, acquire, release, the same place, or a branch before a store keeps). All executions are
 * visited.
 */
#include "unit.h"

#include <stdbool.h>
#include <string.h>

enum rules { TSO, WEAK };
enum kind { LOAD, STORE, FENCE, EVERYWHERE };
enum order { RELAXED, ACQUIRE = 1, RELEASE = 2, FULL = 4 };

struct step {
    enum kind kind;
    int place;      /* variable; register for a load is the same number as the step */
    int value;      /* stored */
    unsigned order; /* of a fence: ACQUIRE or FULL */
    /* step of the same thread that must have loaded 0, as an earlier branch said; -1 none */
    int only_if;
};
#define LD(place, order) \
    { LOAD, place, 0, order, -1 }
#define ST(place, value, order) \
    { STORE, place, value, order, -1 }
#define ST_IF0(place, value, order, step) \
    { STORE, place, value, order, step }
#define FN(order) \
    { FENCE, 0, 0, order, -1 }
#define MEMBARRIER \
    { EVERYWHERE, 0, 0, FULL, -1 }
#define NOP \
    { FENCE, 0, 0, RELAXED, -1 }

#define STEPS  10
#define PLACES 6
struct program {
    struct step thread[2][STEPS]; /* 0 the writer, 1 the reader */
    int steps[2];
    bool (*wrong)(const uint8_t reg[2][STEPS]); /* judges what was loaded, at the end */
};
struct state {
    uint16_t done[2];
    uint8_t memory[PLACES];
    uint8_t reg[2][STEPS];
};

/* Must a execute before b, which follows it in the program? */
static bool keeps(enum rules rules, const struct step *t, int a, int b) {
    const struct step *x = &t[a], *y = &t[b];
    if (x->kind == EVERYWHERE || y->kind == EVERYWHERE)
        return true;
    if (x->kind == FENCE || y->kind == FENCE) {
        unsigned order = x->kind == FENCE ? x->order : y->order;
        if (order == FULL)
            return true;
        /* loads stay before it, everything stays behind it */
        return order == ACQUIRE && (x->kind == FENCE || x->kind == LOAD);
    }
    if (x->place == y->place)
        return true;
    if (rules == TSO)
        return !(x->kind == STORE && y->kind == LOAD);
    if (x->order & ACQUIRE || y->order & RELEASE)
        return true;
    return y->kind == STORE && y->only_if == a;
}

#define SEEN_MAX (1u << 20)
static struct state *seen;
static unsigned seen_n;
static bool visited(const struct state *s) {
    uint64_t h = 1469598103934665603ull;
    for (size_t i = 0; i < sizeof *s; i++)
        h = (h ^ ((const uint8_t *)s)[i]) * 1099511628211ull;
    for (unsigned i = (unsigned)(h >> 20) % SEEN_MAX;; i = (i + 1) % SEEN_MAX) {
        static const struct state none;
        if (memcmp(&seen[i], &none, sizeof none) == 0) {
            ck_assert_uint_lt(++seen_n, SEEN_MAX / 2);
            seen[i] = *s;
            return false;
        }
        if (memcmp(&seen[i], s, sizeof *s) == 0)
            return true;
    }
}

static bool explore(enum rules rules, const struct program *p, const struct state *s) {
    bool end = true;
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < p->steps[t]; i++) {
            if (s->done[t] >> i & 1)
                continue;
            end = false;
            bool ready = true;
            for (int j = 0; j < i && ready; j++)
                ready = (s->done[t] >> j & 1) || !keeps(rules, p->thread[t], j, i);
            const struct step *x = &p->thread[t][i];
            /* A membarrier comes over the other thread between two of its instructions: all before
             * have executed, none behind has. */
            if (x->kind == EVERYWHERE)
                ready &= (s->done[!t] & (s->done[!t] + 1)) == 0;
            if (!ready)
                continue;
            struct state n = *s;
            n.done[t] |= (uint16_t)(1u << i);
            if (x->kind == LOAD)
                n.reg[t][i] = n.memory[x->place];
            if (x->kind == STORE && (x->only_if < 0 || n.reg[t][x->only_if] == 0))
                n.memory[x->place] = (uint8_t)x->value;
            if (!visited(&n) && explore(rules, p, &n))
                return true;
        }
    return end && p->wrong(s->reg);
}

/* Is there an execution with a wrong end? */
static bool can_go_wrong(enum rules rules, struct program p) {
    for (int t = 0; t < 2; t++)
        for (p.steps[t] = STEPS; p.steps[t] && memcmp(&p.thread[t][p.steps[t] - 1],
                                                      &(struct step){0}, sizeof(struct step)) == 0;
             p.steps[t]--) {
        }
    seen = calloc(SEEN_MAX, sizeof *seen);
    seen_n = 0;
    struct state s = {0};
    bool wrong = explore(rules, &p, &s);
    free(seen);
    return wrong;
}

/* --- I5 and I6: lease against reuse. A block is old (0) until it is reused (1). --- */
enum { WORD = 1, SLOT, BLOCK, BLOCK_END };
/* Writer: swing; fence; scan; reuse when the slot was 0. Reader: lease; fence; look at the word
 * again; read both ends of the block; clear. */
/* the word was unchanged, the bytes were not */
static bool torn(const uint8_t reg[2][STEPS]) {
    return reg[1][2] == 0 && (reg[1][3] || reg[1][4]);
}

#define REUSE(writer_fence)                                                                  \
    {                                                                                        \
        ST(WORD, 1, RELEASE), writer_fence, LD(SLOT, ACQUIRE), ST_IF0(BLOCK, 1, RELAXED, 2), \
            ST_IF0(BLOCK_END, 1, RELAXED, 2)                                                 \
    }
#define VIEW(reader_fence)                                                         \
    {                                                                              \
        ST(SLOT, 1, RELAXED), reader_fence, LD(WORD, ACQUIRE), LD(BLOCK, RELAXED), \
            LD(BLOCK_END, RELAXED), ST(SLOT, 0, RELEASE)                           \
    }

START_TEST(with_both_fences_no_view_is_torn) {
    struct program p = {.thread = {REUSE(FN(FULL)), VIEW(FN(FULL))}, .wrong = torn};
    ck_assert(!can_go_wrong(TSO, p));
    ck_assert(!can_go_wrong(WEAK, p));
}
END_TEST

START_TEST(without_the_readers_fence_a_view_can_be_torn) {
    struct program p = {.thread = {REUSE(FN(FULL)), VIEW(NOP)}, .wrong = torn};
    ck_assert(can_go_wrong(TSO, p));
    ck_assert(can_go_wrong(WEAK, p));
}
END_TEST

START_TEST(without_the_writers_fence_a_view_can_be_torn) {
    struct program p = {.thread = {REUSE(NOP), VIEW(FN(FULL))}, .wrong = torn};
    ck_assert(can_go_wrong(TSO, p));
    ck_assert(can_go_wrong(WEAK, p));
}
END_TEST

START_TEST(an_acquire_fence_is_not_enough) {
    struct program p = {.thread = {REUSE(FN(FULL)), VIEW(FN(ACQUIRE))}, .wrong = torn};
    ck_assert(can_go_wrong(TSO, p));
    ck_assert(can_go_wrong(WEAK, p));
}
END_TEST

/* The reader's fence is left to the writer. */
START_TEST(with_a_membarrier_the_reader_needs_no_fence) {
    struct program p = {.thread = {REUSE(MEMBARRIER), VIEW(NOP)}, .wrong = torn};
    ck_assert(!can_go_wrong(TSO, p));
    ck_assert(!can_go_wrong(WEAK, p));
}
END_TEST

START_TEST(a_membarrier_before_the_swing_or_behind_the_scan_can_tear) {
    struct program early = {
        .thread = {{MEMBARRIER, ST(WORD, 1, RELEASE), LD(SLOT, ACQUIRE),
                    ST_IF0(BLOCK, 1, RELAXED, 2), ST_IF0(BLOCK_END, 1, RELAXED, 2)},
                   VIEW(NOP)},
        .wrong = torn};
    struct program late = {
        .thread = {{ST(WORD, 1, RELEASE), LD(SLOT, ACQUIRE), MEMBARRIER,
                    ST_IF0(BLOCK, 1, RELAXED, 1), ST_IF0(BLOCK_END, 1, RELAXED, 1)},
                   VIEW(NOP)},
        .wrong = torn};
    ck_assert(can_go_wrong(TSO, early));
    ck_assert(can_go_wrong(TSO, late));
}
END_TEST

/* Two leases, one fence; the writer replaces what the second holds. */
enum { SLOT_FIRST = 5 };
static bool torn_second(const uint8_t reg[2][STEPS]) {
    return reg[1][4] == 0 && (reg[1][5] || reg[1][6]);
}
#define VIEWS(one, two)                                                          \
    {                                                                            \
        ST(SLOT_FIRST, 1, RELAXED), one, two, LD(0, ACQUIRE), LD(WORD, ACQUIRE), \
            LD(BLOCK, RELAXED), LD(BLOCK_END, RELAXED), ST(SLOT, 0, RELEASE)     \
    }
START_TEST(one_fence_does_for_all_leases_that_were_stored_before_it) {
    struct program p = {.thread = {REUSE(FN(FULL)), VIEWS(ST(SLOT, 1, RELAXED), FN(FULL))},
                        .wrong = torn_second};
    ck_assert(!can_go_wrong(TSO, p));
    ck_assert(!can_go_wrong(WEAK, p));
    struct program barrier = {.thread = {REUSE(MEMBARRIER), VIEWS(ST(SLOT, 1, RELAXED), NOP)},
                              .wrong = torn_second};
    ck_assert(!can_go_wrong(TSO, barrier));
    ck_assert(!can_go_wrong(WEAK, barrier));
}
END_TEST

START_TEST(a_lease_stored_behind_the_fence_of_the_others_can_be_torn) {
    struct program p = {.thread = {REUSE(FN(FULL)), VIEWS(FN(FULL), ST(SLOT, 1, RELAXED))},
                        .wrong = torn_second};
    ck_assert(can_go_wrong(TSO, p));
    ck_assert(can_go_wrong(WEAK, p));
}
END_TEST

static bool torn_late(const uint8_t reg[2][STEPS]) {
    return reg[1][1] == 0 && (reg[1][3] || reg[1][4]);
}
START_TEST(a_lease_stored_after_the_look_can_be_torn) {
    struct program p = {
        .thread = {REUSE(FN(FULL)),
                   {FN(FULL), LD(WORD, ACQUIRE), ST(SLOT, 1, RELAXED), LD(BLOCK, RELAXED),
                    LD(BLOCK_END, RELAXED), ST(SLOT, 0, RELEASE)}},
        .wrong = torn_late};
    ck_assert(can_go_wrong(TSO, p));
}
END_TEST

START_TEST(a_scan_before_the_swing_can_tear) {
    struct program p = {.thread = {{LD(SLOT, ACQUIRE), ST(WORD, 1, RELEASE), FN(FULL),
                                    ST_IF0(BLOCK, 1, RELAXED, 0), ST_IF0(BLOCK_END, 1, RELAXED, 0)},
                                   VIEW(FN(FULL))},
                        .wrong = torn};
    ck_assert(can_go_wrong(TSO, p));
}
END_TEST

START_TEST(a_look_again_that_does_not_acquire_can_be_torn_on_weak_machines) {
    struct program p = {
        .thread = {REUSE(FN(FULL)),
                   {ST(SLOT, 1, RELAXED), NOP, LD(WORD, RELAXED), LD(BLOCK, RELAXED),
                    LD(BLOCK_END, RELAXED), ST(SLOT, 0, RELEASE)}},
        .wrong = torn};
    ck_assert(can_go_wrong(WEAK, p));
}
END_TEST

START_TEST(a_lease_that_is_cleared_without_release_can_be_torn_on_weak_machines) {
    struct program p = {
        .thread = {REUSE(FN(FULL)),
                   {ST(SLOT, 1, RELAXED), FN(FULL), LD(WORD, ACQUIRE), LD(BLOCK, RELAXED),
                    LD(BLOCK_END, RELAXED), ST(SLOT, 0, RELAXED)}},
        .wrong = torn};
    ck_assert(!can_go_wrong(TSO, p));
    ck_assert(can_go_wrong(WEAK, p));
}
END_TEST

/* --- I3: a word is stored after its item --- */
enum { PUBLISHED = 1, ITEM };
static bool half_item(const uint8_t reg[2][STEPS]) {
    return reg[1][0] == 1 && reg[1][1] == 0;
}
START_TEST(an_item_is_complete_when_its_word_is_seen) {
    struct program p = {.thread = {{ST(ITEM, 1, RELAXED), ST(PUBLISHED, 1, RELEASE)},
                                   {LD(PUBLISHED, ACQUIRE), LD(ITEM, RELAXED)}},
                        .wrong = half_item};
    ck_assert(!can_go_wrong(TSO, p));
    ck_assert(!can_go_wrong(WEAK, p));
    p.thread[0][1].order = RELAXED;
    ck_assert(can_go_wrong(WEAK, p));
}
END_TEST

/* --- I8 and I9: a key that is there throughout, while its segment splits --- */
/* OLD: 0 the word, 1 MOVED. NEW: 1 the word. DIRECTORY: 0 old, 1 new segment. */
enum { OLD = 1, NEW, MOVES, DIRECTORY };
/* Reader: directory, counter, old segment, fence, new segment (judged only where the reader would
 * look), fence, directory, counter. */
static bool missed(const uint8_t reg[2][STEPS]) {
    const uint8_t *r = reg[1];
    uint8_t dir = r[0], moves = r[1], old_slot = r[2], new_slot = r[4], dir2 = r[6], moves2 = r[7];
    if (dir == 1)
        return false; /* looked in the new segment from the start: another program */
    if (old_slot == 0)
        return false;
    if (moves % 2 && new_slot)
        return false;
    return dir2 == dir && moves2 == moves; /* reported as a miss */
}
#define SPLIT                                                            \
    {                                                                    \
        ST(MOVES, 1, RELEASE), ST(NEW, 1, RELEASE), ST(OLD, 1, RELEASE), \
            ST(DIRECTORY, 1, RELEASE), ST(MOVES, 2, RELEASE)             \
    }
#define SEEK(f1, f2)                                                                            \
    {                                                                                           \
        LD(DIRECTORY, ACQUIRE), LD(MOVES, ACQUIRE), LD(OLD, RELAXED), f1, LD(NEW, RELAXED), f2, \
            LD(DIRECTORY, ACQUIRE), LD(MOVES, ACQUIRE)                                          \
    }

START_TEST(a_key_is_not_missed_while_its_segment_splits) {
    struct program p = {.thread = {SPLIT, SEEK(FN(ACQUIRE), FN(ACQUIRE))}, .wrong = missed};
    ck_assert(!can_go_wrong(TSO, p));
    ck_assert(!can_go_wrong(WEAK, p));
}
END_TEST

START_TEST(without_the_acquire_fences_weak_machines_can_miss_it) {
    struct program p = {.thread = {SPLIT, SEEK(NOP, NOP)}, .wrong = missed};
    ck_assert(!can_go_wrong(TSO, p));
    ck_assert(can_go_wrong(WEAK, p));
}
END_TEST

START_TEST(moved_before_the_copy_can_be_missed) {
    struct program p = {.thread = {{ST(MOVES, 1, RELEASE), ST(OLD, 1, RELEASE), ST(NEW, 1, RELEASE),
                                    ST(DIRECTORY, 1, RELEASE), ST(MOVES, 2, RELEASE)},
                                   SEEK(FN(ACQUIRE), FN(ACQUIRE))},
                        .wrong = missed};
    ck_assert(can_go_wrong(TSO, p));
}
END_TEST

START_TEST(a_counter_that_turns_odd_after_the_first_move_can_be_missed) {
    struct program p = {.thread = {{ST(NEW, 1, RELEASE), ST(OLD, 1, RELEASE), ST(MOVES, 1, RELEASE),
                                    ST(DIRECTORY, 1, RELEASE), ST(MOVES, 2, RELEASE)},
                                   SEEK(FN(ACQUIRE), FN(ACQUIRE))},
                        .wrong = missed};
    ck_assert(can_go_wrong(TSO, p));
}
END_TEST

static bool missed_blindly(const uint8_t reg[2][STEPS]) {
    return reg[1][0] == 0 && reg[1][2] == 1 && !(reg[1][1] % 2 && reg[1][4]);
}
START_TEST(a_miss_without_validation_can_be_wrong) {
    struct program p = {.thread = {SPLIT, SEEK(FN(ACQUIRE), FN(ACQUIRE))}, .wrong = missed_blindly};
    ck_assert(can_go_wrong(TSO, p));
}
END_TEST

/* --- I9: a walk over the keys goes on behind the part of the hashes that the segment has --- */
enum { DEPTH = NEW };
/* Reader: counter, depth, fence, counter. Wrong: it goes on by the new depth, and took the words
 * for those before the split. */
static bool walked_twice(const uint8_t reg[2][STEPS]) {
    return reg[1][0] == 0 && reg[1][1] == 1 && reg[1][3] == 0;
}
#define COVER(order) \
    { ST(MOVES, 1, RELEASE), ST(DIRECTORY, 1, RELEASE), ST(DEPTH, 1, order), ST(MOVES, 2, RELEASE) }
#define WALK(fence) \
    { LD(MOVES, ACQUIRE), LD(DEPTH, RELAXED), fence, LD(MOVES, ACQUIRE) }
START_TEST(a_walk_takes_the_depth_of_the_counter_it_saw) {
    struct program p = {.thread = {COVER(RELEASE), WALK(FN(ACQUIRE))}, .wrong = walked_twice};
    ck_assert(!can_go_wrong(TSO, p));
    ck_assert(!can_go_wrong(WEAK, p));
}
END_TEST

/* A plain store may overtake the release store before it. */
START_TEST(a_depth_stored_without_release_can_be_walked_twice_on_weak_machines) {
    struct program p = {.thread = {COVER(RELAXED), WALK(FN(ACQUIRE))}, .wrong = walked_twice};
    ck_assert(!can_go_wrong(TSO, p));
    ck_assert(can_go_wrong(WEAK, p));
    struct program unfenced = {.thread = {COVER(RELEASE), WALK(NOP)}, .wrong = walked_twice};
    ck_assert(can_go_wrong(WEAK, unfenced));
}
END_TEST

UNIT_MAIN("store_litmus", with_both_fences_no_view_is_torn,
          without_the_readers_fence_a_view_can_be_torn,
          without_the_writers_fence_a_view_can_be_torn, an_acquire_fence_is_not_enough,
          a_lease_stored_after_the_look_can_be_torn, a_scan_before_the_swing_can_tear,
          with_a_membarrier_the_reader_needs_no_fence,
          a_membarrier_before_the_swing_or_behind_the_scan_can_tear,
          one_fence_does_for_all_leases_that_were_stored_before_it,
          a_lease_stored_behind_the_fence_of_the_others_can_be_torn,
          a_look_again_that_does_not_acquire_can_be_torn_on_weak_machines,
          a_lease_that_is_cleared_without_release_can_be_torn_on_weak_machines,
          an_item_is_complete_when_its_word_is_seen, a_key_is_not_missed_while_its_segment_splits,
          without_the_acquire_fences_weak_machines_can_miss_it, moved_before_the_copy_can_be_missed,
          a_counter_that_turns_odd_after_the_first_move_can_be_missed,
          a_miss_without_validation_can_be_wrong, a_walk_takes_the_depth_of_the_counter_it_saw,
          a_depth_stored_without_release_can_be_walked_twice_on_weak_machines)
