/* SPDX-License-Identifier: Apache-2.0 */
/* store_rebuild.c - another manager opens the arena (LAYOUT 7): nothing that was acknowledged is
 * lost, nothing that is held is reused. */
#include "store_test.h"
#include <store/budget.h>
#include <store/heap.h>
#include <store/index.h>
#include <store/lease.h>

#include <errno.h>

static void before(void) {
    box_open(64 * MIB);
}
static void after(void) {
    box_close();
}

START_TEST(all_keys_and_figures_are_the_same_afterwards) {
    uint64_t rng = 9;
    for (int i = 0; i < 60000; i++) {
        uint64_t k = unit_random(&rng) % 5000;
        if (unit_random(&rng) % 4)
            put(k, k * 7 % 3000 + (k % 50 == 0) * 60000, k);
        else
            del(k);
    }
    heap_relieve(box.s, 0); /* empty runs are no runs afterwards */
    struct manager_stats a = stats();
    uint64_t version = box.s->header->version;
    box_reopen();
    ck_assert_uint_eq(keys_count(), a.num_keys);
    struct manager_stats b = stats();
    ck_assert_int_eq(memcmp(&a, &b, sizeof a), 0);
    for (uint64_t k = 0; k < 5000; k++) {
        char key[32];
        struct store_ref ref;
        if (store_find(box.s, key, key_name(key, k), &ref))
            continue;
        if (!seen(k, k * 7 % 3000 + (k % 50 == 0) * 60000, k))
            ck_abort_msg("%llu", (unsigned long long)k);
    }
    put(1, 1, 1);
    ck_assert_uint_eq(box.s->header->version, version + 1);
}
END_TEST

START_TEST(hidden_keys_are_counted_apart_in_every_life) {
    char key[32];
    for (int i = 0; i < 3000; i++) {
        int n = snprintf(key, sizeof key, i % 3 ? "sddict.%d" : "sddict%d", i);
        ck_assert_int_eq(put_bytes(key, (uint32_t)n, 100, 1, STORE_ANY), 0);
        ck_assert_int_eq(put_bytes(key, (uint32_t)n, 200, 2, STORE_ANY), 0);
    }
    struct store_ref ref, next;
    ck_assert_int_eq(store_reserve(box.s, "sddict.1", 8, 10, 0, &ref), 0);
    ck_assert_int_eq(store_queue_push(box.s, &ref), 0);
    for (int life = 0; life < 3; life++) {
        ck_assert_uint_eq(box.s->header->num_keys, 1000);
        ck_assert_uint_eq(box.s->header->hidden_keys, 2000);
        ck_assert_uint_eq(stats().num_keys, 3000);
        ck_assert_uint_eq(stats().hidden_keys, 2000);
        if (life == 0) {
            ck_assert_int_eq(store_pop(box.s, "sddict.1", 8, &ref, &next), 0);
            ck_assert_ptr_nonnull(next.item);
            store_unpin(box.s, ref.off);
        }
        box_reopen();
    }
    ck_assert_int_eq(store_remove(box.s, "sddict.1", 8, NULL), 0);
    ck_assert_int_eq(store_remove(box.s, "sddict0", 7, NULL), 0);
    box_reopen();
    ck_assert_uint_eq(box.s->header->num_keys, 999);
    ck_assert_uint_eq(box.s->header->hidden_keys, 1999);
    ck_assert_int_eq(store_clear(box.s), 0);
    ck_assert_uint_eq(box.s->header->hidden_keys, 0);
    box_reopen();
    ck_assert_uint_eq(box.s->header->num_keys + box.s->header->hidden_keys, 0);
}
END_TEST

START_TEST(work_goes_on_for_many_managers) {
    uint64_t rng = 4;
    int8_t there[2000] = {0};
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 3000; i++) {
            uint64_t k = unit_random(&rng) % 2000;
            if (unit_random(&rng) % 3) {
                int rc = put(k, k * 31 % 30000, k + (uint64_t)round);
                if (rc)
                    ck_abort_msg("code %d", rc);
                there[k] = (int8_t)(round + 1);
            } else {
                del(k);
                there[k] = 0;
            }
        }
        if (round % 7 == 6) {
            ck_assert_int_eq(store_clear(box.s), 0);
            memset(there, 0, sizeof there);
            store_work(box.s); /* the sweep has only begun */
        }
        box_reopen();
        ck_assert_uint_eq(keys_count(), box.s->header->num_keys);
        for (uint64_t k = 0; k < 2000; k++)
            if (seen(k, k * 31 % 30000, k + (uint64_t)there[k] - 1) != !!there[k])
                ck_abort_msg("key %llu", (unsigned long long)k);
    }
    ck_assert_uint_le(box_memory(), 64 * MIB);
    ck_assert_int_eq(store_clear(box.s), 0);
    while (store_work(box.s)) {
    }
    ck_assert_uint_eq(stats().total_used_bytes, budget_fixed(box.s));
}
END_TEST

START_TEST(blocks_that_were_being_filled_are_free) {
    struct store_ref ref;
    put(1, 10, 1);
    heap_relieve(box.s, 0);
    uint64_t used = stats().total_used_bytes;
    ck_assert_int_eq(store_reserve(box.s, "a", 1, 300000, 0, &ref), 0);
    ck_assert_int_eq(store_reserve(box.s, "b", 1, 300, 0, &ref), 0);
    box_reopen();
    ck_assert_uint_eq(stats().total_used_bytes, used);
}
END_TEST

START_TEST(what_clients_hold_stays_until_they_let_go) {
    struct found f, g;
    put(1, 50000, 1);
    put(2, 500, 2);
    ck_assert_int_eq(look_slot(1, 0, &f), 0);
    ck_assert_int_eq(look_slot(2, 1, &g), 0);
    del(1);
    put(2, 500, 3);
    box_reopen();
    for (uint64_t k = 10; k < 600; k++)
        put(k, 50000, k);
    for (uint64_t k = 1000; k < 2000; k++)
        put(k, 500, k);
    ck_assert(value_right(f.value, 50000, 1));
    ck_assert(value_right(g.value, 500, 2));
    ck_assert_uint_eq(stats().leased_bytes, 13 * ARENA_PAGE + 576);
    reader_release(&box.page->slot[0]);
    reader_release(&box.page->slot[1]);
    ck_assert_uint_eq(stats().retired_bytes, 0);
    ck_assert(seen(2, 500, 3));
}
END_TEST

START_TEST(half_written_page_map_entries_are_free_pages) {
    put(1, 100000, 1);
    put(2, 100, 2);
    heap_relieve(box.s, 0);
    uint64_t top = box.s->header->heap_top, used = stats().total_used_bytes;
    uint64_t *map = box.s->heap.pagemap;
    /* Members whose head was never written, a head whose members were not, a head that says too
     * much, a class that is none. */
    for (uint64_t i = 1; i < 5; i++)
        map[top + i] = PAGEMAP_ENTRY(PAGE_LARGE, 0, i);
    map[top + 6] = PAGEMAP_ENTRY(PAGE_SLAB_HEAD, 3, 4);
    map[top + 10] = PAGEMAP_ENTRY(PAGE_LARGE_HEAD, 0, 1000);
    map[top + 11] = PAGEMAP_ENTRY(PAGE_SLAB_HEAD, 200, 4);
    map[top + 12] = PAGEMAP_ENTRY(PAGE_LARGE_HEAD, 0, 0);
    map[top + 13] = PAGEMAP_ENTRY(250, 0, 0);
    box.s->header->heap_top = top + 20;
    box_reopen();
    ck_assert_uint_eq(stats().total_used_bytes, used);
    for (uint64_t i = 0; i < 20; i++)
        ck_assert_uint_eq(PAGEMAP_KIND(box.s->heap.pagemap[top + i]), PAGE_FREE);
    ck_assert(seen(1, 100000, 1));
    ck_assert(seen(2, 100, 2));
    ck_assert_int_eq(put(3, 70000, 3), 0); /* into them */
    ck_assert_uint_eq(box.s->header->heap_top, top + 20);
}
END_TEST

START_TEST(holes_are_still_holes) {
    uint64_t n = 0;
    while (put(n, 60000, n) == 0)
        n++;
    for (uint64_t k = 0; k < n; k += 2)
        del(k);
    ck_assert_int_eq(put(n, 20 * MIB, 1), 0);
    heap_relieve(box.s, 0);
    uint64_t holes = box.s->heap.holes, resident = budget_resident(box.s);
    ck_assert_uint_gt(holes, 0);
    box_reopen();
    store_reclaim(box.s);
    put(n + 1, 1, 1);
    ck_assert_uint_le(box.s->heap.holes, holes);
    ck_assert_uint_ge(box.s->heap.holes + 8, holes);
    ck_assert_uint_le(budget_resident(box.s), resident + 8 * ARENA_PAGE);
    ck_assert_uint_le(box_memory(), 64 * MIB);
}
END_TEST

static void refused_for(uint64_t word) {
    char offset[32];
    sprintf(offset, "names %llx,", (unsigned long long)WORD_OFFSET(word));
    ck_assert_msg(strstr(dd_errmsg(), offset), "%s: not %s", dd_errmsg(), offset);
}

static void refused(const char *what) {
    struct store *s;
    int fds = unit_fds(), rc = store_open(&s, box.fd, -1, 7);
    ck_assert_msg(rc == DDICT_EPROTO, "%s: %d", what, rc);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "damaged"));
    ck_assert_int_eq(unit_fds(), fds);
}

START_TEST(a_damaged_arena_is_refused) {
    struct index_place p;
    struct arena_header *h = box.s->header;
    unsigned kinds = 0;
    put(5000, 40000, 1);
    put(5001, 10000, 1);
    for (uint64_t k = 0; k < 5000; k++)
        put(k, 100, k);
    put(5002, 40000, 1);
    del(5000); /* pages that are free */
    heap_relieve(box.s, 0);
    index_find(box.s, hash_of("k1", 2), "k1", 2, &p);
    uint64_t good = *p.slot, root = h->root, top = h->heap_top,
             *dir = &box.s->index.dir[1ull << ROOT_DEPTH(root)], word = *dir;
    *p.slot = good + 1; /* inside a block */
    refused("inside a block");
    *p.slot = (good & ~((1ull << WORD_OFFSET_BITS) - 1)) | 77; /* before the heap */
    refused("before the heap");
    *p.slot = good & ~((1ull << WORD_OFFSET_BITS) - 1); /* nowhere */
    refused("nowhere");
    *p.slot = WORD_MOVE(good, h->heap_off + top * ARENA_PAGE);
    refused("above the watermark");
    for (uint64_t page = 0; page < top; page++) {
        uint64_t e = box.s->heap.pagemap[page], off = h->heap_off + page * ARENA_PAGE;
        const struct block_class *c = &box.s->heap.class[PAGEMAP_CLASS(e)];
        if (PAGEMAP_KIND(e) == PAGE_FREE)
            *p.slot = WORD_MOVE(good, off);
        else if (PAGEMAP_KIND(e) == PAGE_LARGE)
            *p.slot = WORD_MOVE(good, off);
        else if (PAGEMAP_KIND(e) == PAGE_LARGE_HEAD)
            *p.slot = WORD_MOVE(good, off + 16);
        else if (PAGEMAP_KIND(e) == PAGE_SLAB_HEAD && c->pages * ARENA_PAGE % c->size >= 16)
            *p.slot = WORD_MOVE(good, off + (uint64_t)c->blocks * c->size);
        else
            continue;
        kinds |= 1u << PAGEMAP_KIND(e);
        refused("no block of its page");
        refused_for(*p.slot);
    }
    ck_assert_uint_eq(kinds, 1u << PAGE_FREE | 1u << PAGE_SLAB_HEAD | 1u << PAGE_LARGE_HEAD |
                                 1u << PAGE_LARGE);
    *p.slot = good;
    uint64_t *vacant = NULL, held;
    for (unsigned b = 0; b < SEGMENT_BUCKETS; b++)
        if (!WORD_LIVE(p.segment->bucket[b].slot[0]))
            vacant = &p.segment->bucket[b].slot[0];
    ck_assert_ptr_nonnull(vacant);
    held = *vacant;
    *vacant = good;
    refused("twice");
    refused_for(good);
    *vacant = held;
    h->root = ROOT_MAKE(1, 60);
    refused("depth");
    h->root = root;
    *dir = 0;
    refused("no segment");
    *dir = h->seg_off + h->seg_len;
    refused("segment beyond the region");
    *dir = word;
    h->heap_top = box.s->heap.pages + 1ull;
    refused("watermark");
    h->heap_top = top;
    uint64_t segments = h->segments;
    h->segments = 1ull << 40;
    refused("segments");
    h->segments = segments;
    box_reopen();
    ck_assert_uint_eq(keys_count(), 5002);
}
END_TEST

START_TEST(what_was_popped_and_not_read_is_kept) {
    char key[32];
    struct store_ref ref[2], kept;
    for (uint64_t k = 0; k < 2000; k++)
        put(k, 3000, k);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(store_remove(box.s, key, key_name(key, 100 + i), &ref[i]), 0);
    uint64_t off = ref[0].off, version = ref[0].item->version;
    box_reopen(); /* the pins died with the manager */
    ck_assert_int_eq(store_keep(box.s, off), 0);
    ck_assert_int_eq(store_keep(box.s, off), 0); /* pins nest */
    ck_assert_int_eq(store_keep(box.s, off + 16), DDICT_EPROTO);
    ck_assert_int_eq(store_keep(box.s, 0), DDICT_EPROTO);
    ck_assert_int_eq(store_keep(box.s, UINT64_MAX), DDICT_EPROTO);
    for (uint64_t round = 1; round < 20; round++) /* all other memory is used again */
        for (uint64_t k = 0; k < 2000; k++)
            put(k, 3000, k + round);
    const struct item *item = arena_at(box.s, off);
    ck_assert(item->version == version && item->check == item_check(item));
    for (unsigned i = 0; i < 2; i++) {
        store_reclaim(box.s);
        ck_assert(pin_held(box.s, off));
        store_unpin(box.s, off);
    }
    store_reclaim(box.s);
    ck_assert_uint_eq(stats().retired_bytes, 0);
    ck_assert_int_eq(store_find(box.s, key, key_name(key, 1), &kept), 0);
    ck_assert_int_eq(store_keep(box.s, kept.off), 0); /* of a live item only the pin */
    put(1, 3000, 99);
    store_reclaim(box.s);
    ck_assert_uint_gt(stats().retired_bytes, 0);
    store_unpin(box.s, kept.off);
    store_reclaim(box.s);
    ck_assert_uint_eq(stats().retired_bytes, 0);
}
END_TEST

/* What a push that waits for room has filled. */
START_TEST(blocks_that_were_filled_can_be_reserved_again) {
    static const char *const name[3] = {"small", "large", "first"};
    static const uint64_t len[3] = {300, 300000, 3000};
    struct store_ref ref[3], there;
    uint64_t n = 0;
    put(1, 10, 1);
    heap_relieve(box.s, 0);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(store_reserve(box.s, name[i], 5, len[i], (uint8_t)i, &ref[i]), 0);
        ref_fill_in(&ref[i], len[i], i);
    }
    ref[0].item->hash ^= 99; /* killed while it got its place in the index, */
    ref[0].item->version = 5;
    ck_assert_int_eq(store_commit(box.s, &ref[2], STORE_ANY, NULL), 0); /* or behind that */
    box_reopen();
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(store_keep_reserved(box.s, ref[i].off), i == 2);
    ck_assert_int_eq(store_keep_reserved(box.s, ref[1].off + 16), DDICT_EPROTO);
    ck_assert_int_eq(store_keep_reserved(box.s, 0), DDICT_EPROTO);
    ck_assert_int_eq(store_keep_reserved(box.s, UINT64_MAX), DDICT_EPROTO);
    while (put(100 + n, 3000, n) == 0) /* all other memory is used */
        n++;
    ck_assert_uint_gt(n, 10000);
    ck_assert_int_eq(store_keep_reserved(box.s, ref[0].off), DDICT_EPROTO); /* too late */
    while (n-- > 0)
        del(100 + n);
    store_reclaim(box.s);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(store_item_at(box.s, ref[i].off, &ref[i]), 0);
    ck_assert_int_eq(store_commit(box.s, &ref[0], STORE_NEW, NULL), 0);
    ck_assert_int_eq(store_find(box.s, name[0], 5, &there), 0);
    ck_assert(there.off == ref[0].off && there.item->val_len == len[0]);
    ck_assert(value_right(there.value, len[0], 0));
    ck_assert(value_right(ref[1].value, len[1], 1) && item_is_loaded(ref[1].item));
    store_abort(box.s, &ref[1]);
    for (unsigned i = 0; i < 3; i += 2)
        ck_assert_int_eq(store_remove(box.s, name[i], 5, NULL), 0);
    store_reclaim(box.s);
    heap_relieve(box.s, 0);
    ck_assert_uint_eq(stats().retired_bytes, 0);
    uint64_t used = stats().total_used_bytes;
    box_reopen(); /* which counts what words name alone */
    ck_assert_uint_eq(stats().total_used_bytes, used);
}
END_TEST

START_TEST(an_arena_that_was_never_served_opens_like_a_new_one) {
    struct store *s;
    box.s->header->root = 0; /* killed before the first root: two segments are handed out */
    ck_assert_int_eq(store_open(&s, box.fd, -1, 7), 0);
    store_close(box.s);
    box.s = s;
    ck_assert_uint_eq(box.s->header->segments, 2);
    put(1, 10, 1);
    ck_assert(seen(1, 10, 1));
}
END_TEST

UNIT_MAIN_WITH("store_rebuild", before, after, all_keys_and_figures_are_the_same_afterwards,
               hidden_keys_are_counted_apart_in_every_life, work_goes_on_for_many_managers,
               blocks_that_were_being_filled_are_free, what_clients_hold_stays_until_they_let_go,
               what_was_popped_and_not_read_is_kept, blocks_that_were_filled_can_be_reserved_again,
               half_written_page_map_entries_are_free_pages, holes_are_still_holes,
               a_damaged_arena_is_refused, an_arena_that_was_never_served_opens_like_a_new_one)
