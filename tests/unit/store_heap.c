/* SPDX-License-Identifier: Apache-2.0 */
/* store_heap.c - blocks: bounded waste, no overlap, all pages come back, and memory stays within
 * the budget (LAYOUT 1 and 4). */
#include "store_test.h"
#include <store/budget.h>
#include <store/heap.h>

static void close_box(void) {
    box_close();
}
static void nothing(void) {
}

static uint64_t alloc(uint64_t size, bool aligned) {
    uint64_t off = 0;
    ck_assert_int_eq(block_alloc(box.s, size, aligned, &off), 0);
    return off;
}

START_TEST(no_block_of_128_bytes_or_more_wastes_more_than_an_eighth) {
    struct heap h = {0};
    heap_classes(&h);
    for (uint64_t size = 128; size <= CLASS_SIZE_MAX; size += size < 1100 ? 1 : 3) {
        const struct block_class *c = &h.class[h.class_of[(size + 15) / 16]];
        ck_assert_uint_ge(c->size, size);
        ck_assert_uint_le(c->blocks, RUN_BLOCKS_MAX);
        /* The uncut rest of the run, shared by its blocks, counts too. */
        double share = (double)c->pages * ARENA_PAGE / c->blocks;
        ck_assert_msg((share - (double)size) / share <= 0.125, "%llu bytes take %g",
                      (unsigned long long)size, share);
    }
    for (uint64_t size = CLASS_SIZE_MAX + 1; size < 300000; size += 7)
        ck_assert_uint_le((round_up(size, ARENA_PAGE) - size) * 8, round_up(size, ARENA_PAGE));
}
END_TEST

START_TEST(a_pair_of_16_and_1024_bytes_takes_1088) {
    box_open(16 * MIB);
    uint64_t used = box.s->header->used_bytes;
    struct store_ref ref;
    ck_assert_int_eq(store_reserve(box.s, "0123456789abcdef", 16, 1024, 0, &ref), 0);
    /* The page map's first page is taken with the first run. */
    ck_assert_uint_eq(box.s->header->used_bytes - used, 1088 + ARENA_PAGE);
    ck_assert_uint_eq((uint64_t)(ref.value - (uint8_t *)ref.item), 64);
    store_abort(box.s, &ref);
}
END_TEST

START_TEST(block_numbers_need_no_division_for_any_class) {
    struct heap h = {0};
    uint64_t wrong = 0;
    heap_classes(&h);
    for (unsigned c = 0; c < CLASSES; c++)
        for (uint64_t off = 0; off < (uint64_t)h.class[c].pages * ARENA_PAGE; off += 16)
            wrong += off / 16 * h.class[c].inverse >> 32 != off / h.class[c].size;
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

START_TEST(values_of_256_bytes_and_more_are_aligned_for_every_key_length) {
    box_open(64 * MIB);
    char key[300];
    memset(key, 'k', sizeof key);
    for (uint32_t k = 1; k < 200; k += 7)
        for (uint64_t v = 0; v < 2200; v += v < 700 ? 13 : 171) {
            struct store_ref ref;
            ck_assert_int_eq(store_reserve(box.s, key, k, v, 0, &ref), 0);
            ck_assert_uint_eq((uintptr_t)ref.value % (v >= 256 ? 64 : 16), 0);
            ck_assert(ref.value >= ref.item->key + k);
            ck_assert_uint_le((uint64_t)(ref.value + v - (uint8_t *)ref.item),
                              block_bytes(box.s, ref.off));
        }
}
END_TEST

#define LIVE 4000u
START_TEST(random_blocks_never_overlap_and_every_offset_finds_its_block) {
    struct {
        uint64_t off, size;
    } live[LIVE] = {{0, 0}};
    uint64_t rng = 5, wrong = 0; /* counted: a check of libcheck costs a system call */
    uint32_t *owner;             /* by granule */
    box_open(128 * MIB);
    struct arena_header *h = box.s->header;
    owner = calloc(h->heap_len / 16, sizeof *owner);
    for (int step = 0; step < 60000; step++) {
        uint32_t i = (uint32_t)(unit_random(&rng) % LIVE);
        if (live[i].off) {
            uint64_t from = (live[i].off - h->heap_off) / 16;
            for (uint64_t g = 0; g < live[i].size / 16; g++) {
                wrong += owner[from + g] != i + 1;
                owner[from + g] = 0;
            }
            block_free(box.s, live[i].off);
            live[i].off = 0;
            continue;
        }
        uint64_t r = unit_random(&rng), size = r % 16 < 12   ? 48 + r / 16 % 3000
                                               : r % 16 < 15 ? 48 + r / 16 % 40000
                                                             : r / 16 % 400000 + 1;
        bool aligned = r >> 60 & 1;
        live[i].off = alloc(size, aligned);
        live[i].size = block_bytes(box.s, live[i].off);
        wrong += live[i].size < size || (aligned && live[i].off % 64);
        uint64_t from = (live[i].off - h->heap_off) / 16;
        for (uint64_t g = 0; g < live[i].size / 16; g++) {
            wrong += owner[from + g] != 0;
            owner[from + g] = i + 1;
        }
        wrong += block_of(box.s, live[i].off) != live[i].off;
        wrong += block_of(box.s, live[i].off + live[i].size - 16) != live[i].off;
        wrong += block_of(box.s, live[i].off + unit_random(&rng) % live[i].size) != live[i].off;
    }
    ck_assert_uint_eq(wrong, 0);
    for (uint32_t i = 0; i < LIVE; i++)
        if (live[i].off)
            block_free(box.s, live[i].off);
    free(owner);
    heap_relieve(box.s, 0);
    /* All pages are one free stretch again. */
    const struct heap *p = &box.s->heap;
    ck_assert_uint_eq(PAGEMAP_KIND(p->pagemap[0]), PAGE_FREE);
    ck_assert_uint_eq(p->span[p->ref[0]].first, 0);
    ck_assert_uint_eq(p->span[p->ref[0]].pages, h->heap_top);
    ck_assert_uint_eq(h->used_bytes, budget_fixed(box.s));
}
END_TEST

START_TEST(offsets_that_nobody_should_trust_find_no_block) {
    box_open(16 * MIB);
    struct arena_header *h = box.s->header;
    uint64_t a = alloc(100, false), b = alloc(100000, true);
    ck_assert_uint_eq(block_of(box.s, 0), 0);
    ck_assert_uint_eq(block_of(box.s, h->heap_off - 16), 0);
    ck_assert_uint_eq(block_of(box.s, h->heap_off + h->heap_top * ARENA_PAGE), 0);
    ck_assert_uint_eq(block_of(box.s, UINT64_MAX), 0);
    ck_assert_uint_eq(block_of(box.s, UINT64_MAX - h->heap_off), 0);
    ck_assert_uint_eq(block_of(box.s, a + 99), a);
    ck_assert_uint_eq(block_of(box.s, b + 99999), b);
    block_free(box.s, b);
    ck_assert_uint_eq(block_of(box.s, b), 0);
}
END_TEST

START_TEST(a_small_arena_holds_blocks_of_many_sizes) {
    box_open(DD_MANAGER_MEM_MIN);
    unsigned sizes = 0;
    for (uint64_t size = 48; size <= 32768; size += size / 4) {
        alloc(size, false);
        sizes++;
    }
    ck_assert_uint_ge(sizes, 25);
    /* And most of it can be used by one value. */
    box_close();
    box_open(DD_MANAGER_MEM_MIN);
    ck_assert_int_eq(put(1, DD_MANAGER_MEM_MIN * 95 / 100, 1), 0);
    ck_assert(seen(1, DD_MANAGER_MEM_MIN * 95 / 100, 1));
}
END_TEST

START_TEST(memory_never_exceeds_the_budget_while_sizes_change) {
    uint64_t rng = 11, budget = 16 * MIB, fulls = 0;
    box_open(budget);
    for (int step = 0; step < 30000; step++) {
        uint64_t k = unit_random(&rng) % 3000, phase = (uint64_t)step / 3000 % 3;
        uint64_t len = phase == 0   ? unit_random(&rng) % 2000
                       : phase == 1 ? unit_random(&rng) % 100000
                                    : unit_random(&rng) % 64;
        int rc = unit_random(&rng) % 4 ? put(k, len, k) : del(k);
        fulls += rc == DDICT_EFULL;
        ck_assert(rc == 0 || rc == DDICT_EFULL || rc == DDICT_ENOKEY);
        if (step % 64)
            continue;
        ck_assert_uint_le(budget_resident(box.s), budget);
        ck_assert_uint_le(box_memory(), budget);
        store_work(box.s);
    }
    ck_assert_uint_gt(fulls, 0);
}
END_TEST

START_TEST(a_value_fits_when_free_pages_are_scattered) {
    box_open(16 * MIB);
    uint64_t n = 0;
    while (put(n, 60000, n) == 0)
        n++;
    ck_assert_uint_gt(n, 230);
    for (uint64_t k = 0; k < n; k += 2)
        ck_assert_int_eq(del(k), 0);
    /* Half of it is free, in pieces of 64 KiB. */
    ck_assert_int_eq(put(n, 6 * MIB, 99), 0);
    ck_assert_uint_gt(box.s->heap.holes, 0);
    ck_assert(seen(n, 6 * MIB, 99));
    for (uint64_t k = 1; k < n; k += 2)
        ck_assert(seen(k, 60000, k));
    ck_assert_uint_le(box_memory(), 16 * MIB);
    ck_assert_uint_eq(budget_resident(box.s) <= 16 * MIB, 1);
}
END_TEST

START_TEST(the_index_grows_into_memory_that_large_values_left) {
    box_open(DD_MANAGER_MEM_MIN);
    ck_assert_int_eq(put(1, 3 * MIB + 900000, 1), 0);
    ck_assert_int_eq(del(1), 0);
    uint64_t n = 0;
    while (put(n, 4, n) == 0)
        n++;
    /* 64 bytes a pair and some 20 of index. */
    ck_assert_uint_gt(n, 45000);
    for (uint64_t k = 0; k < n; k++)
        ck_assert(seen(k, 4, k));
    ck_assert_uint_le(box_memory(), DD_MANAGER_MEM_MIN);
}
END_TEST

START_TEST(free_blocks_are_counted_by_powers_of_two) {
    box_open(64 * MIB);
    struct manager_stats s = stats();
    ck_assert_uint_eq(s.free_blocks[25], 1); /* all of the heap, below 64 MiB */
    uint64_t a = alloc(100000, false), b = alloc(100000, false), c = alloc(100000, false);
    block_free(box.s, a);
    s = stats();
    ck_assert_uint_eq(s.free_blocks[16], 1); /* 25 pages */
    block_free(box.s, c);
    block_free(box.s, b);
    s = stats();
    ck_assert_uint_eq(s.free_blocks[16], 0);
    ck_assert_uint_eq(s.free_blocks[18], 1);
    alloc(1000, false);
    s = stats();
    ck_assert_uint_eq(s.free_blocks[10],
                      (uint64_t)box.s->heap.class[box.s->heap.class_of[63]].blocks - 1);
}
END_TEST

START_TEST(full_says_how_full_and_changes_nothing) {
    box_open(DD_MANAGER_MEM_MIN);
    uint64_t n = 0;
    while (put(n, 1000, n) == 0)
        n++;
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "manager 3 is full"));
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "of 4.0 MiB"));
    struct manager_stats a = stats();
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(put(1000000 + (uint64_t)i, 1000, 1), DDICT_EFULL);
    struct manager_stats b = stats();
    ck_assert_uint_eq(a.total_used_bytes, b.total_used_bytes);
    ck_assert_uint_eq(a.num_keys, b.num_keys);
    ck_assert_uint_eq(b.num_keys, n);
    for (uint64_t k = 0; k < n; k++)
        ck_assert(seen(k, 1000, k));
    /* A deletion makes room for another one. */
    ck_assert_int_eq(del(0), 0);
    ck_assert_int_eq(put(n, 1000, n), 0);
}
END_TEST

UNIT_MAIN_WITH("store_heap", nothing, close_box,
               no_block_of_128_bytes_or_more_wastes_more_than_an_eighth,
               a_pair_of_16_and_1024_bytes_takes_1088, block_numbers_need_no_division_for_any_class,
               values_of_256_bytes_and_more_are_aligned_for_every_key_length,
               random_blocks_never_overlap_and_every_offset_finds_its_block,
               offsets_that_nobody_should_trust_find_no_block,
               a_small_arena_holds_blocks_of_many_sizes,
               memory_never_exceeds_the_budget_while_sizes_change,
               a_value_fits_when_free_pages_are_scattered,
               the_index_grows_into_memory_that_large_values_left,
               free_blocks_are_counted_by_powers_of_two, full_says_how_full_and_changes_nothing)
