/* SPDX-License-Identifier: Apache-2.0 */
/* manager_ledger.c - the ledger keeps whole requests over the death of a manager at any moment, says
 * when it is full, and gives memory of a burst back. */
#include "unit.h"
#include <base/defaults.h>
#include <manager/ledger.h>

#include <stdlib.h>
#include <sys/mman.h>

static struct ledger *l;
static uint8_t bytes[DD_MSG_INLINE], back[DD_MSG_INLINE];

static void before(void) {
    l = ledger_map();
    ck_assert_ptr_nonnull(l);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
}
static void after(void) {
    munmap(l, sizeof *l);
}

static struct ledger_entry *add(uint32_t key, uint32_t value) {
    struct msg req = {.type = MSG_PUT,
                      .len = MSG_HEADER + key + value,
                      .key_len = key,
                      .val_len = value,
                      .id = key + 1000 * value};
    /* two places, as a key is copied and a value stands in a lane */
    return ledger_add(l, 7, 64, 99, &req, bytes, bytes + key, value);
}

static void is_whole(const struct ledger_entry *e, uint32_t key, uint32_t value) {
    ck_assert_ptr_nonnull(e);
    ck_assert_uint_eq(e->bytes, key + value);
    ck_assert_uint_eq(e->req.id, key + 1000 * value);
    ck_assert(e->client == 7 && e->at == 64 && e->deadline == 99);
    memset(back, 0xee, sizeof back);
    ledger_payload(l, e, back);
    ck_assert_int_eq(memcmp(back, bytes, key + value), 0);
    if (key + value < sizeof back)
        ck_assert_uint_eq(back[key + value], 0xee);
}

static unsigned used(void) {
    unsigned n = 0;
    for (uint32_t i = 0; i < LEDGER_CHUNKS; i++)
        n += l->chunk[i].used;
    return n;
}

START_TEST(a_request_comes_back_whole) {
    static const uint32_t edge[] = {0,
                                    1,
                                    LEDGER_KEY - 1,
                                    LEDGER_KEY,
                                    LEDGER_KEY + 1,
                                    LEDGER_KEY + LEDGER_BYTES - 1,
                                    LEDGER_KEY + LEDGER_BYTES,
                                    LEDGER_KEY + LEDGER_BYTES + 1,
                                    5000,
                                    LEDGER_KEY + LEDGER_LARGE_MIN - 1,
                                    LEDGER_KEY + LEDGER_LARGE_MIN,
                                    LEDGER_KEY + LEDGER_LARGE,
                                    LEDGER_KEY + LEDGER_LARGE + 1,
                                    LEDGER_KEY + LEDGER_LARGE + LEDGER_LARGE_MIN,
                                    DD_MSG_INLINE};
    const size_t n = sizeof edge / sizeof *edge;
    for (size_t k = 0; k < n; k++)
        for (size_t v = 0; v < n; v++) {
            uint32_t key = edge[k] < MSG_KEY_MAX ? edge[k] : MSG_KEY_MAX, value = edge[v];
            if (key + value > DD_MSG_INLINE)
                value = DD_MSG_INLINE - key;
            struct ledger_entry *e = add(key, value);
            is_whole(e, key, value);
            ledger_open(l); /* a next life */
            is_whole(e, key, value);
            struct ledger_entry *other = add(3, 300); /* takes no place of the first */
            is_whole(e, key, value);
            is_whole(other, 3, 300);
            ledger_end(l, e);
            ledger_end(l, other);
            ck_assert_uint_eq(used(), 0);
        }
    ck_assert_uint_le(l->reach, 5);
}
END_TEST

/* Bytes of a value where entries of its chunk would be look like entries. */
static void bytes_forge(void) {
    const struct ledger_entry forged = {.seq = 1000, .client = 7};
    for (size_t at = LEDGER_KEY + LEDGER_BYTES; at + sizeof forged <= sizeof bytes;
         at += sizeof forged)
        memcpy(bytes + at, &forged, sizeof forged);
}

/* A death between two stores of what makes it, or ends it. */
START_TEST(a_large_part_is_whole_or_free) {
    struct ledger_entry *kept, *e, *part = &l->entry[LEDGER_CHUNK];
    bytes_forge();
    kept = add(20, 2000);
    unsigned full = used();
    for (unsigned dies = 0; dies < 4; dies++) {
        ck_assert_ptr_nonnull(e = add(0, 40000));
        ck_assert(l->chunk[1].large && l->chunk[1].top == 1);
        ck_assert_uint_eq(used(), full + 1 + LEDGER_CHUNK);
        uint64_t seq = e->seq;
        if (dies == 0) {
            ledger_open(l); /* when it is whole */
            is_whole(e, 0, 40000);
            ledger_end(l, e);
            continue;
        }
        e->seq = 0; /* its part came first; or it ended first */
        if (dies > 1)
            part->seq = 0;
        if (dies > 2)
            l->chunk[1].top = 0; /* the chunk had no memory, and was about to be taken */
        ledger_open(l);
        ck_assert(!l->chunk[1].large && l->chunk[1].used == 0);
        ck_assert_uint_eq(used(), full);
        ck_assert_ptr_null(ledger_find(l, seq));
    }
    is_whole(kept, 20, 2000);
}
END_TEST

START_TEST(bytes_of_a_large_part_are_no_entries) {
    static struct ledger_entry *e[2 * LEDGER_CHUNK];
    unsigned n = 0;
    bytes_forge();
    ck_assert_ptr_nonnull(e[n++] = add(0, 0));
    struct ledger_entry *large = add(0, 60000);
    ck_assert_uint_eq(l->entry[LEDGER_CHUNK + 1].seq, 1000);
    ck_assert_ptr_null(ledger_find(l, 1000));
    ledger_end(l, large);
    while (l->chunk[1].used < LEDGER_CHUNK / 2) { /* others take these places */
        ck_assert_ptr_nonnull(e[n++] = add(5, 0));
        ck_assert_ptr_null(ledger_find(l, 1000));
    }
    ledger_open(l);
    ck_assert_uint_eq(used(), n);
    ck_assert_ptr_null(ledger_find(l, 1000));
    while (n-- > 0)
        ledger_end(l, e[n]);
    ck_assert_uint_eq(used(), 0);
    ck_assert_ptr_nonnull(add(0, 60000)); /* the chunk is empty again */
    ck_assert(l->chunk[1].large);
}
END_TEST

START_TEST(a_part_that_is_lent_stays) {
    struct ledger_lent lent, again;
    ck_assert(!ledger_lend(l, add(10, 1000), &lent));
    ck_assert(!ledger_lend(l, add(10, LEDGER_LARGE + 1000), &lent)); /* it has another part */
    unsigned before = used();
    struct ledger_entry *e = add(10, 50000);
    for (int ends = 0; ends < 2; ends++) {
        ck_assert(ledger_lend(l, e, &lent) && ledger_lend(l, e, &again));
        ck_assert(lent.n == 50010 - LEDGER_KEY && again.bytes == lent.bytes);
        if (ends)
            ledger_end(l, e);
        ck_assert_int_eq(memcmp(lent.bytes, bytes + LEDGER_KEY, lent.n), 0);
        ledger_back(again.arg);
        ck_assert_int_eq(memcmp(lent.bytes, bytes + LEDGER_KEY, lent.n), 0);
        ck_assert_uint_eq(used(), before + LEDGER_CHUNK + !ends);
        ledger_back(lent.arg);
    }
    ck_assert_uint_eq(used(), before);
    e = add(10, 50000);
    ck_assert(ledger_lend(l, e, &lent));
    const uint8_t *there = lent.bytes;
    ledger_end(l, e);
    e = add(10, 50000);
    ck_assert(ledger_lend(l, e, &again) && again.bytes != there);
    ledger_open(l); /* nothing is sent by the next life */
    ck_assert_uint_eq(used(), before + LEDGER_CHUNK + 1);
    is_whole(e, 10, 50000);
    ledger_end(l, e);
    ck_assert_uint_eq(used(), before);
}
END_TEST

START_TEST(large_parts_leave_room_for_others) {
    static struct ledger_entry *e[LEDGER_LARGE_CHUNKS + 10];
    unsigned n = 0;
    for (; n < LEDGER_LARGE_CHUNKS + 10; n++)
        ck_assert_ptr_nonnull(e[n] = add(10, 10000));
    ck_assert_uint_le(l->reach, LEDGER_LARGE_CHUNKS + 10);
    for (unsigned i = 0; i < n; i += 100)
        is_whole(e[i], 10, 10000);
    is_whole(e[n - 1], 10, 10000); /* in small parts */
    while (n-- > 0)
        ledger_end(l, e[n]);
    ck_assert_uint_eq(used(), 0);
}
END_TEST

START_TEST(requests_are_listed_in_their_order) {
    struct ledger_entry *e[600], **list;
    size_t n, left = 0;
    for (unsigned i = 0; i < 600; i++)
        ck_assert_ptr_nonnull(e[i] = add(i, i % 7 * 100));
    for (unsigned i = 0; i < 600; i += 3) {
        ledger_end(l, e[i]);
        e[i] = add(1, 1);
    }
    for (int life = 0; life < 2; life++) {
        ck_assert_ptr_nonnull(list = ledger_list(l, &n));
        ck_assert_uint_eq(n, 600);
        for (size_t i = 1; i < n; i++)
            ck_assert_uint_lt(list[i - 1]->seq, list[i]->seq);
        for (size_t i = 0; i < n; i++)
            ck_assert_ptr_eq(ledger_find(l, list[i]->seq), list[i]);
        free(list);
        ledger_open(l);
    }
    ck_assert_ptr_null(ledger_find(l, 1)); /* it has ended */
    for (struct ledger_entry *at = NULL; (at = ledger_next(l, at)); left++)
        ck_assert(!(at->seq & LEDGER_PART));
    ck_assert_uint_eq(left, 600);
}
END_TEST

/* The process dies between two stores of ledger_add() or ledger_end(). */
START_TEST(what_was_not_whole_is_free) {
    struct ledger_entry *e = add(10, 1000), *kept = add(20, 2000);
    unsigned all = used();
    uint64_t seq = e->seq;
    e->seq = 0; /* its parts came first; or it ended first */
    ledger_open(l);
    ck_assert_ptr_null(ledger_find(l, seq));
    ck_assert_uint_lt(used(), all);
    is_whole(kept, 20, 2000);
    struct ledger_entry *next = add(10, 1000); /* in the same places */
    ck_assert_uint_eq(used(), all);
    is_whole(next, 10, 1000);
    is_whole(kept, 20, 2000);
    ledger_end(l, next);
    ledger_end(l, kept);
    ck_assert_uint_eq(used(), 0);
}
END_TEST

START_TEST(an_id_stays_with_its_request) {
    struct ledger_entry *e = add(10, 10);
    ck_assert_uint_eq(e->id, 0);
    ledger_id(e, 5, 77ull << 32 | 3);
    ledger_open(l);
    ck_assert(e->id == (77ull << 32 | 3) && e->to == 5);
    ledger_end(l, e);
    ck_assert_uint_eq(add(10, 10)->id, 0); /* in the same place */
}
END_TEST

/* What the next life takes for what stands in CQ, which ends at `tail`. */
static uint64_t settled(struct ledger_entry *e, struct ledger_pass noted, uint64_t tail) {
    e->pass = noted;
    ledger_settle(e, tail);
    uint64_t is = e->pass.upto;
    ledger_settle(e, tail + 4096); /* later it says the same, wherever CQ ends */
    ck_assert_uint_eq(e->pass.upto, is);
    return is;
}

START_TEST(a_part_of_a_value_counts_once_it_is_published) {
    static const uint64_t upto[] = {1, 1 + 1000, 1 + 5000, LEDGER_OVER};
    struct ledger_entry *e = add(10, 0);
    struct msg reply = {.version = 3, .val_len = 6000, .tag = 9};
    uint64_t tail = 640, was = 0;
    e->req.type = MSG_GET;
    ledger_passes(e, &reply);
    ck_assert(e->pass.version == 3 && e->pass.val_len == 6000 && e->pass.tag == 9);
    for (unsigned i = 0; i < 4; i++, tail += 1024) {
        struct ledger_pass before = e->pass, between, after;
        ledger_note(e, tail, upto[i]);
        after = e->pass;
        ck_assert_uint_eq(settled(e, before, tail), was);
        /* a death between two of its stores, and one before it is published */
        between = before;
        between.from = after.from;
        ck_assert_uint_eq(settled(e, between, tail), was);
        between.pos = after.pos;
        ck_assert_uint_eq(settled(e, between, tail), was);
        ck_assert_uint_eq(settled(e, after, tail), was);
        ck_assert_uint_eq(settled(e, after, tail + 64), upto[i]);
        /* it is noted anew by the next life, behind an answer to somebody else */
        e->pass = after;
        ledger_settle(e, tail);
        tail += 128;
        ledger_note(e, tail, upto[i]);
        ck_assert_uint_eq(settled(e, e->pass, tail), was);
        e->pass = after;
        was = upto[i];
    }
    ledger_end(l, e);
    ck_assert_uint_eq(add(10, 0)->pass.upto, 0); /* in the same place */
}
END_TEST

START_TEST(a_rewind_counts_once_it_is_published) {
    struct ledger_entry *e = add(10, 0);
    uint64_t was, got, tail = 640;
    ledger_rewind(e, 0, true);
    ledger_settle(e, 0); /* there was none */
    ck_assert(ledger_rewound(e) == 0 && e->got & 1);
    ledger_rewind(e, 3, true);
    was = e->got;
    ledger_rewinds(e, tail, 4);
    struct ledger_pass noted = e->pass;
    got = e->got;
    ck_assert(ledger_rewound(e) == 4 && !(got & 1));
    /* a death between two of its stores, and one before it is published */
    e->pass.pos = 0;
    e->got = was;
    ledger_settle(e, tail);
    ck_assert_uint_eq(e->got, was);
    e->pass = noted;
    ledger_settle(e, tail);
    ck_assert_uint_eq(e->got, was);
    e->pass = noted;
    e->got = got;
    ledger_settle(e, tail);
    ck_assert_uint_eq(e->got, was);
    ledger_rewind(e, 3, false); /* what the next life notes counts, where CQ ends as before */
    ledger_settle(e, tail);
    ck_assert(ledger_rewound(e) == 3 && !(e->got & 1));
    e->pass = noted;
    e->got = got;
    ledger_settle(e, tail + 64);
    ck_assert_uint_eq(e->got, got);
    ledger_end(l, e);
}
END_TEST

START_TEST(a_full_ledger_takes_nothing_in_part) {
    static struct ledger_entry *e[2 * LEDGER_CHUNK];
    unsigned n = 0;
    l->most = 2;
    while ((e[n] = add(10, 200))) /* two places each */
        n++;
    ck_assert_uint_eq(n, LEDGER_CHUNK);
    ledger_end(l, e[5]);
    ck_assert_ptr_null(add(10, 1000));
    ck_assert_uint_eq(used(), 2 * LEDGER_CHUNK - 2);
    ck_assert_ptr_nonnull(e[5] = add(20, 200));
    ck_assert_ptr_null(add(0, 0));
    is_whole(e[5], 20, 200);
    is_whole(e[n - 1], 10, 200);
    ledger_open(l);
    ck_assert_ptr_null(add(0, 0));
    while (n-- > 0)
        ledger_end(l, e[n]);
    ck_assert_uint_eq(used(), 0);
}
END_TEST

static size_t resident(void) {
    static unsigned char page[sizeof l->entry / 4096];
    size_t n = 0, pages = sizeof l->entry / (size_t)sysconf(_SC_PAGESIZE);
    ck_assert_int_eq(mincore(l->entry, sizeof l->entry, page), 0);
    for (size_t i = 0; i < pages; i++)
        n += page[i] & 1;
    return n * (size_t)sysconf(_SC_PAGESIZE);
}

START_TEST(some_room_is_left_for_changes_in_flight) {
    const struct msg note = {.type = MSG_REPL, .key_len = 200};
    struct ledger_entry *e, *last = NULL;
    unsigned n = 0;
    l->most = 2 * LEDGER_SPARE;
    while ((e = add(10, 0)))
        last = e;
    while (ledger_add(l, LEDGER_FLIGHT, 0, 0, &note, bytes, NULL, 0))
        n++;
    ck_assert_uint_eq(n, LEDGER_CHUNK); /* of two chunks, in two entries each */
    ck_assert_ptr_null(add(10, 0));
    ledger_end(l, last);
    is_whole(add(10, 0), 10, 0);
    ck_assert_ptr_null(add(10, 0));
}
END_TEST

START_TEST(memory_of_a_burst_goes_back) {
    enum { MANY = 100 };
    const size_t chunk = LEDGER_CHUNK * sizeof(struct ledger_entry);
    struct ledger_entry *e[MANY];
    unsigned turns = 0;
    ck_assert_uint_eq(resident(), 0);
    struct ledger_entry *first = add(10, 10);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert_ptr_nonnull(e[i] = add(10, DD_MSG_INLINE - 10));
    struct ledger_entry *last = add(20, 300);
    size_t most = resident();
    ck_assert_uint_ge(most, (size_t)MANY * DD_MSG_INLINE);
    ck_assert(ledger_grown(l));
    while (ledger_shrink(l)) { /* all is in use */
    }
    ck_assert_uint_eq(resident(), most);
    for (unsigned i = 0; i < MANY; i++)
        ledger_end(l, e[i]);
    while (ledger_shrink(l)) /* some each time */
        turns++;
    ck_assert_uint_gt(turns, 1);
    ck_assert_uint_le(resident(), (LEDGER_KEPT + 2) * chunk);
    is_whole(first, 10, 10);
    is_whole(last, 20, 300); /* behind the hole */
    ledger_open(l);
    is_whole(last, 20, 300);
    ck_assert_ptr_nonnull(e[0] = add(10, DD_MSG_INLINE - 10));
    is_whole(e[0], 10, DD_MSG_INLINE - 10);
    ledger_end(l, e[0]);
    ledger_end(l, last);
    for (int pass = 0; pass < 2; pass++)
        while (ledger_shrink(l)) {
        }
    ck_assert(!ledger_grown(l));
    ck_assert_uint_le(resident(), LEDGER_KEPT * chunk);
    is_whole(first, 10, 10);
}
END_TEST

/* What is used each time is not given back in between. */
START_TEST(memory_in_use_stays) {
    for (unsigned round = 0; round < 5; round++) {
        struct ledger_entry *e[20];
        for (unsigned i = 0; i < 20; i++)
            ck_assert_ptr_nonnull(e[i] = add(10, DD_MSG_INLINE - 10));
        size_t has = resident();
        for (unsigned i = 0; i < 20; i++)
            ledger_end(l, e[i]);
        while (ledger_shrink(l)) {
        }
        ck_assert_uint_eq(resident(), has);
    }
}
END_TEST

UNIT_MAIN_WITH("manager_ledger", before, after, a_request_comes_back_whole,
               a_large_part_is_whole_or_free, bytes_of_a_large_part_are_no_entries,
               a_part_that_is_lent_stays, large_parts_leave_room_for_others,
               requests_are_listed_in_their_order, what_was_not_whole_is_free,
               an_id_stays_with_its_request, a_part_of_a_value_counts_once_it_is_published,
               a_rewind_counts_once_it_is_published, a_full_ledger_takes_nothing_in_part,
               some_room_is_left_for_changes_in_flight, memory_of_a_burst_goes_back,
               memory_in_use_stays)
