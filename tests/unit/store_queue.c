/* SPDX-License-Identifier: Apache-2.0 */
/* Queues in the store: order, memory, moves, deletion, and what another manager finds. */
#include "store_test.h"
#include <store/budget.h>
#include <store/heap.h>
#include <store/index.h>
#include <store/intent.h>
#include <store/spill.h>

static void open_box(void) {
    box_open(64 * MIB);
}

static int push(const char *key, uint64_t len, uint64_t seed) {
    struct store_ref ref, there;
    uint32_t n = (uint32_t)strlen(key);
    int rc = store_reserve(box.s, key, n, len, 9, &ref);
    if (rc < 0)
        return rc;
    value_fill(ref.value, len, seed);
    rc = store_find(box.s, key, n, &there) == 0 ? store_queue_push(box.s, &ref)
                                                : store_commit(box.s, &ref, STORE_NEW, NULL);
    if (rc < 0)
        store_abort(box.s, &ref);
    return rc;
}

static uint64_t more(const char *key) {
    struct store_queue q;
    store_queue_look(box.s, key, (uint32_t)strlen(key), hash_of(key, (uint32_t)strlen(key)), &q);
    return q.more;
}

/* The first value is that of seed, for the manager and for a reader; it is taken. */
static void pop_is(const char *key, uint64_t len, uint64_t seed, bool last) {
    struct store_ref ref, next;
    struct found f;
    uint32_t n = (uint32_t)strlen(key);
    if (reader_find(&box.view, hash_of(key, n), key, n, &box.page->slot[0], &f) ||
        f.val_len != len || !value_right(f.value, len, seed))
        ck_abort_msg("the reader does not see value %llu", (unsigned long long)seed);
    reader_release(&box.page->slot[0]);
    int rc = store_pop(box.s, key, n, &ref, &next);
    if (rc || item_len(ref.item) != len || !value_right(store_value(box.s, ref.item), len, seed))
        ck_abort_msg("code %d instead of value %llu", rc, (unsigned long long)seed);
    if (!next.item != last)
        ck_abort_msg("value %llu: next is %p", (unsigned long long)seed, (void *)next.item);
    store_unpin(box.s, ref.off);
}

static void quiet(void) {
    while (store_work(box.s)) {
    }
    heap_relieve(box.s, 0);
    heap_relieve(box.s, 0);
    ck_assert_uint_eq(box.s->header->hidden, 0);
    ck_assert_uint_eq(box.s->header->used_bytes, budget_fixed(box.s));
}

START_TEST(values_behind_the_first_are_found_by_their_number) {
    struct store_ref ref;
    for (uint64_t i = 0; i < 9; i++)
        ck_assert_int_eq(push("q", 10 + i, i), 0);
    pop_is("q", 10, 0, false);
    uint64_t hash = hash_of("q", 1);
    for (uint64_t i = 0; i < 7; i++) {
        ck_assert_int_eq(store_queue_value(box.s, "q", 1, hash, i, &ref), 0);
        ck_assert_uint_eq(item_len(ref.item), 12 + i);
        ck_assert(value_right(ref.value, 12 + i, 2 + i));
    }
    ck_assert_int_eq(store_queue_value(box.s, "q", 1, hash, 7, &ref), DDICT_ENOKEY);
    ck_assert_int_eq(store_queue_value(box.s, "r", 1, hash_of("r", 1), 0, &ref), DDICT_ENOKEY);
}
END_TEST

START_TEST(values_come_out_in_their_order) {
    uint64_t in = 0, out = 0, rng = 3;
    for (int round = 0; round < 40; round++) {
        for (uint64_t n = unit_random(&rng) % 2000; n > 0; n--, in++)
            if (push("queue", in % 300, in))
                ck_abort_msg("push %llu", (unsigned long long)in);
        ck_assert_uint_eq(box.s->header->num_keys, in > out);
        ck_assert_uint_eq(keys_count(), in > out);
        if (in > out)
            ck_assert_uint_eq(more("queue"), in - out - 1);
        for (uint64_t n = unit_random(&rng) % 2000; n > 0 && out < in; n--, out++)
            pop_is("queue", out % 300, out, out + 1 == in);
    }
    for (; out < in; out++)
        pop_is("queue", out % 300, out, out + 1 == in);
    ck_assert_int_eq(store_find(box.s, "queue", 5, &(struct store_ref){0}), DDICT_ENOKEY);
    quiet();
}
END_TEST

START_TEST(entries_are_in_the_budget_and_cost_what_keys_cost) {
    const uint64_t n = 200000;
    for (uint64_t i = 0; i < n; i++)
        ck_assert_int_eq(push("queue", 4, i), 0);
    uint64_t used = stats().total_used_bytes;
    /* a block of 48 bytes, a word of 8 in an index that is at least half full, and its share of the
     * page map */
    ck_assert_uint_lt(used, n * 90);
    ck_assert_uint_gt(used, n * 48);
    ck_assert_uint_le(box_memory(), 64 * MIB);
    /* The budget ends it, not the manager's memory, and what is there stays. */
    uint64_t in = n;
    int rc;
    while ((rc = push("queue", 4, in)) == 0)
        in++;
    ck_assert_int_eq(rc, DDICT_EFULL);
    ck_assert_uint_gt(in, 500000);
    for (uint64_t i = 0; i < in; i++)
        pop_is("queue", 4, i, i + 1 == in);
    quiet();
}
END_TEST

START_TEST(a_deleted_queue_is_freed_a_few_at_a_time) {
    const uint64_t n = 20 * DD_QUEUE_SWEEP;
    for (uint64_t i = 0; i < n; i++)
        ck_assert_int_eq(push("queue", 500, i), 0);
    ck_assert_int_eq(store_remove(box.s, "queue", 5, NULL), 0);
    ck_assert_int_eq(store_remove(box.s, "queue", 5, NULL), DDICT_ENOKEY);
    ck_assert_uint_eq(more("queue"), 0);
    uint64_t left = box.s->header->hidden, steps = 0;
    ck_assert_uint_eq(left, n - 1 + 1); /* values behind the first, and the record */
    /* It can be used at once, and be deleted again. */
    for (uint64_t i = 0; i < 700; i++)
        ck_assert_int_eq(push("queue", 40, n + i), 0);
    for (uint64_t i = 0; i < 300; i++)
        pop_is("queue", 40, n + i, false);
    ck_assert_int_eq(store_remove(box.s, "queue", 5, NULL), 0);
    for (uint64_t i = 0; i < 10; i++)
        ck_assert_int_eq(push("queue", 40, i), 0);
    for (bool going = true; going; steps++) {
        left = box.s->header->hidden;
        going = store_work(box.s);
        ck_assert_uint_le(left - box.s->header->hidden, DD_QUEUE_SWEEP + 1);
    }
    ck_assert_uint_ge(steps, 20);
    for (uint64_t i = 0; i < 10; i++)
        pop_is("queue", 40, i, i == 9);
    quiet();
}
END_TEST

START_TEST(clear_takes_all_of_it) {
    struct store_queue q;
    for (uint64_t i = 0; i < 5000; i++)
        ck_assert_int_eq(push(i % 2 ? "one" : "two", 100, i), 0);
    ck_assert_int_eq(store_queue_limit(box.s, "three", 5, 7), 0);
    ck_assert_int_eq(store_remove(box.s, "one", 3, NULL), 0);
    ck_assert_int_eq(store_clear(box.s), 0);
    ck_assert(!store_queue_look(box.s, "three", 5, hash_of("three", 5), &q));
    ck_assert_int_eq(push("one", 10, 1), 0);
    ck_assert_int_eq(push("one", 10, 2), 0);
    while (store_work(box.s)) {
    }
    pop_is("one", 10, 1, false);
    pop_is("one", 10, 2, true);
    quiet();
}
END_TEST

START_TEST(how_many_there_may_be_is_kept) {
    struct store_queue q;
    ck_assert_int_eq(store_queue_limit(box.s, "q", 1, 3), 0);
    ck_assert_uint_eq(keys_count(), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(push("q", 10, (uint64_t)i), 0);
    for (int i = 0; i < 3; i++)
        pop_is("q", 10, (uint64_t)i, i == 2);
    ck_assert(store_queue_look(box.s, "q", 1, hash_of("q", 1), &q)); /* an empty queue, too */
    ck_assert_uint_eq(q.most, 3);
    box_reopen();
    ck_assert(store_queue_look(box.s, "q", 1, hash_of("q", 1), &q));
    ck_assert_uint_eq(q.most, 3);
    ck_assert_int_eq(push("q", 10, 1), 0);
    ck_assert_int_eq(store_remove(box.s, "q", 1, NULL), 0); /* until it is deleted */
    ck_assert(!store_queue_look(box.s, "q", 1, hash_of("q", 1), &q));
    quiet();
}
END_TEST

START_TEST(another_manager_goes_on) {
    uint64_t in = 0, out = 0, rng = 8;
    for (int round = 0; round < 25; round++) {
        for (uint64_t n = unit_random(&rng) % 900; n > 0; n--, in++)
            ck_assert_int_eq(push("queue", in * 7 % 40000, in), 0);
        for (uint64_t n = unit_random(&rng) % 900; n > 0 && out < in; n--, out++)
            pop_is("queue", out * 7 % 40000, out, out + 1 == in);
        if (round % 6 == 5) {
            ck_assert_int_eq(store_remove(box.s, "queue", 5, NULL), out < in ? 0 : DDICT_ENOKEY);
            out = in;
        }
        if (round % 3 == 0)
            store_work(box.s);
        box_reopen();
        ck_assert_uint_eq(box.s->header->num_keys, out < in);
        if (out < in)
            ck_assert_uint_eq(more("queue"), in - out - 1);
    }
    for (; out < in; out++)
        pop_is("queue", out * 7 % 40000, out, out + 1 == in);
    quiet();
}
END_TEST

START_TEST(a_pop_that_was_cut_off_happened_or_not) {
    struct index_place first, second;
    for (uint64_t k = 0; k < 3; k++)
        ck_assert_int_eq(push("q", 100, k), 0);
    uint64_t h = hash_of("q", 1);
    for (int swung = 0; swung < 2; swung++) {
        index_find(box.s, h, "q", 1, &first);
        index_find(box.s, queue_value_hash(h, (uint64_t)swung), "q", 1, &second);
        ck_assert_ptr_nonnull(second.slot);
        struct item *item = arena_at(box.s, WORD_OFFSET(second.word));
        intent_begin(box.s, &first, WORD_MAKE(h, WORD_OFFSET(second.word)), &second, item->version);
        item->hash = h; /* and not its check */
        if (swung) {
            item->version = 77;
            item->check = item_check(item);
            word_store(first.slot, WORD_MAKE(h, WORD_OFFSET(second.word)));
        }
        box_reopen();
        ck_assert_uint_eq(box.s->header->intent.open, 0);
        ck_assert_uint_eq(more("q"), swung ? 0 : 2);
        if (!swung)
            pop_is("q", 100, 0, false);
    }
    pop_is("q", 100, 2, true);
    quiet();
}
END_TEST

START_TEST(values_move_to_the_spill_and_are_found) {
    box_close();
    box_open_spill(8 * MIB, 64 * MIB);
    const uint64_t n = 30000;
    for (uint64_t i = 0; i < n; i++)
        ck_assert_int_eq(push("queue", 500 + i % 700, i), 0);
    ck_assert_uint_gt(stats().spilled_bytes, 0);
    box_reopen();
    /* what is still in memory, but not the record */
    while (spill_make_room(box.s, MIB) == 0) {
    }
    for (uint64_t i = 0; i < n; i++)
        pop_is("queue", 500 + i % 700, i, i + 1 == n);
    while (store_work(box.s)) {
    }
    store_reclaim(box.s);
    ck_assert_uint_eq(stats().spill_used_bytes, 0);
    ck_assert_uint_eq(box.s->header->hidden, 0);
}
END_TEST

START_TEST(no_look_up_meets_a_hidden_word) {
    for (uint64_t i = 0; i < 300; i++) {
        uint64_t h = hash_of(&i, sizeof i);
        ck_assert_uint_ne(h >> 20 & 0xffff, QUEUE_RECORD_HASH(h) >> 20 & 0xffff);
        for (uint64_t n = 0; n < 300; n++) {
            uint64_t v = queue_value_hash(h, n);
            if ((v >> 20 & 0xffff) == (h >> 20 & 0xffff) || v == queue_value_hash(h, n + 1) ||
                v == QUEUE_RECORD_HASH(h))
                ck_abort_msg("%llu %llu", (unsigned long long)i, (unsigned long long)n);
        }
    }
}
END_TEST

UNIT_MAIN_WITH("store_queue", open_box, box_close, values_come_out_in_their_order,
               values_behind_the_first_are_found_by_their_number,
               entries_are_in_the_budget_and_cost_what_keys_cost,
               a_deleted_queue_is_freed_a_few_at_a_time, clear_takes_all_of_it,
               how_many_there_may_be_is_kept, another_manager_goes_on,
               a_pop_that_was_cut_off_happened_or_not, values_move_to_the_spill_and_are_found,
               no_look_up_meets_a_hidden_word)
