/* SPDX-License-Identifier: Apache-2.0 */
/* manager_backlog.c - answers that wait for room in a lane come out as they went in, and the memory
 * of a large backlog goes back to the kernel a block at a time. */
#include "unit.h"
#include <base/defaults.h>
#include <manager/backlog.h>

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static struct backlog b;
static uint8_t payload[DD_MSG_INLINE];
static uint8_t entries[16]; /* stand for those of the ledger: only their places count */

static void before(void) {
    b = (struct backlog){0};
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(i * 7 + i / 251);
}
static void after(void) {
    backlog_free(&b);
}

static struct ledger_entry *entry_of(uint64_t id) {
    return id % 4 == 0 ? (struct ledger_entry *)(void *)&entries[id % 16] : NULL;
}

static void add(uint64_t id, size_t len) {
    struct backlog_answer a = {.msg = {.id = id, .len = (uint32_t)(MSG_HEADER + len)},
                               .payload = payload + id % 50,
                               .off = id * 64,
                               .entry = entry_of(id)};
    a.msg.flags = id % 3 == 0 ? MSGF_PLACED : 0;
    ck_assert_int_eq(backlog_add(&b, &a), 0);
}
static size_t len_of(uint64_t id) {
    return id % 11 == 0 ? DD_MSG_INLINE - 50 : id % 5 == 0 ? 0 : id * 37 % 5000;
}
static void take(uint64_t id) {
    struct backlog_answer a;
    ck_assert(backlog_first(&b, &a));
    ck_assert_uint_eq(a.msg.id, id);
    ck_assert_uint_eq(a.off, id * 64);
    ck_assert_ptr_eq(a.entry, entry_of(id));
    ck_assert_uint_eq(a.msg.len, MSG_HEADER + len_of(id));
    ck_assert_int_eq(memcmp(a.payload, payload + id % 50, len_of(id)), 0);
    backlog_drop(&b);
}

START_TEST(answers_come_out_as_they_went_in) {
    struct backlog_answer a;
    uint64_t in = 0, out = 0, pins = 0, held = 0;
    srand(3);
    ck_assert(!backlog_first(&b, &a));
    for (int round = 0; round < 400; round++) {
        for (int n = rand() % 60; n > 0; n--, in++) {
            add(in, len_of(in));
            pins += in % 3 == 0;
            held += in % 4 == 0;
        }
        for (int n = rand() % (round < 200 ? 50 : 90); n > 0 && out < in; n--, out++) {
            take(out);
            pins -= out % 3 == 0;
            held -= out % 4 == 0;
        }
        ck_assert_uint_eq(b.n, in - out);
        ck_assert_uint_eq(b.pins, pins);
        ck_assert_uint_eq(b.entries, held);
    }
    while (out < in)
        take(out++);
    ck_assert(!backlog_first(&b, &a));
    ck_assert_ptr_null(b.first);
    ck_assert_uint_eq(b.pins + b.entries, 0);
}
END_TEST

static uint64_t dropped, next;
static void drop(void *arg, const struct backlog_answer *a) {
    ck_assert_ptr_eq(arg, &b);
    while (next % 3 && next % 4)
        next++;
    ck_assert_uint_eq(a->off, next * 64);
    ck_assert_ptr_eq(a->entry, entry_of(next));
    ck_assert_int_eq(!(a->msg.flags & MSGF_PLACED), next % 3 != 0);
    dropped++;
    next++;
}

static void drop_last(void *arg, const struct backlog_answer *a) {
    ck_assert(a->msg.flags & MSGF_LAST && a->entry == entry_of(4));
    dropped++;
}

START_TEST(what_answers_own_that_are_not_sent_is_given_up) {
    uint64_t own = 0;
    for (uint64_t i = 0; i < 1000; i++)
        add(i, len_of(i));
    for (uint64_t i = 1001; i < 13000; i += 12) /* none has a pin or an entry */
        add(i, len_of(i));
    for (uint64_t i = 0; i < 301; i++)
        take(i);
    for (uint64_t i = 301; i < 1000; i++)
        own += i % 3 == 0 || i % 4 == 0;
    next = 301;
    dropped = 0;
    backlog_end(&b, drop, &b);
    ck_assert_uint_eq(dropped, own);
    ck_assert_uint_eq(next, 1000);
    ck_assert_uint_eq(b.n + b.pins + b.entries, 0);
    backlog_end(&b, drop, &b);
    ck_assert_uint_eq(dropped, own);
}
END_TEST

/* An entry of a value in parts is noted by each, and ends with the last. */
START_TEST(an_entry_ends_with_the_last_part) {
    struct backlog_answer a = {.entry = entry_of(4), .passes = true};
    a.msg = (struct msg){.type = MSG_REPLY, .flags = MSGF_STREAM, .len = MSG_HEADER};
    ck_assert(!backlog_ends(&a));
    ck_assert_int_eq(backlog_add(&b, &a), 0);
    a.msg = (struct msg){.type = MSG_DATA, .id = 4, .len = MSG_HEADER};
    ck_assert(!backlog_ends(&a));
    ck_assert_int_eq(backlog_add(&b, &a), 0);
    a.msg.flags = MSGF_LAST;
    ck_assert(backlog_ends(&a));
    ck_assert_int_eq(backlog_add(&b, &a), 0);
    ck_assert_uint_eq(b.entries, 3); /* none is held */
    ck_assert(backlog_first(&b, &a) && a.passes && a.entry == entry_of(4));
    a = (struct backlog_answer){.msg = {.type = MSG_DATA, .flags = MSGF_LAST}};
    ck_assert(!backlog_ends(&a));
    a = (struct backlog_answer){.msg = {.type = MSG_REPLY}, .entry = entry_of(4)};
    ck_assert(backlog_ends(&a));
    dropped = 0;
    backlog_end(&b, drop_last, &b);
    ck_assert_uint_eq(dropped, 1);
}
END_TEST

static bool is_over(void *arg, const struct ledger_entry *e) {
    return e == entry_of(4);
}

static void forget(void *arg, const struct backlog_answer *a) {
    ck_assert_ptr_eq(a->entry, entry_of(4));
    dropped++;
}

START_TEST(an_entry_may_end_before_its_answer) {
    struct backlog_answer a;
    for (uint64_t i = 0; i < 100; i++)
        add(i, len_of(i));
    for (uint64_t i = 0; i < 10; i++)
        take(i);
    unsigned pins = b.pins, had = b.entries;
    dropped = 0;
    backlog_forget(&b, is_over, forget, &b);
    ck_assert_uint_eq(dropped, 5); /* 20, 36, 52, 68 and 84; 4 has gone */
    ck_assert(b.entries == had - dropped && b.pins == pins && b.n == 90);
    for (uint64_t i = 10; i < 100; i++) {
        ck_assert(backlog_first(&b, &a) && a.msg.id == i);
        ck_assert_ptr_eq(a.entry, i % 16 == 4 ? NULL : entry_of(i));
        ck_assert_int_eq(memcmp(a.payload, payload + i % 50, len_of(i)), 0);
        backlog_drop(&b);
    }
    ck_assert_uint_eq(b.n + b.pins + b.entries, 0);
}
END_TEST

START_TEST(what_is_left_is_freed) {
    for (uint64_t i = 0; i < 1000; i++)
        add(i, len_of(i));
    for (uint64_t i = 0; i < 3; i++)
        take(i);
    backlog_free(&b);
    ck_assert_ptr_null(b.first);
    ck_assert_uint_eq(b.n, 0);
}
END_TEST

#ifndef __SANITIZE_ADDRESS__
START_TEST(memory_goes_back_a_block_at_a_time) {
    size_t most = 0;
    mallopt(M_MMAP_THRESHOLD, 1 << 20); /* as manager_run() */
    for (uint64_t i = 0; i < 10000; i++)
        add(1, 4000);
    struct mallinfo2 full = mallinfo2();
    ck_assert_uint_ge(full.hblkhd, 30u << 20);
    ck_assert_uint_le(full.arena, 4u << 20);
    for (uint64_t i = 0; i < 10000; i++) {
        size_t had = mallinfo2().hblkhd;
        backlog_drop(&b);
        size_t now = mallinfo2().hblkhd;
        if (had - now > most)
            most = had - now;
    }
    ck_assert_uint_le(most, 2u << 20);
    ck_assert_uint_lt(mallinfo2().hblkhd, 1u << 20);
}
END_TEST
#endif

UNIT_MAIN_WITH("manager_backlog", before, after, answers_come_out_as_they_went_in,
               what_answers_own_that_are_not_sent_is_given_up, an_entry_ends_with_the_last_part,
               an_entry_may_end_before_its_answer, what_is_left_is_freed
#ifndef __SANITIZE_ADDRESS__
               ,
               memory_goes_back_a_block_at_a_time
#endif
)
