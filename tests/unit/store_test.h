/* SPDX-License-Identifier: Apache-2.0 */
/* store_test.h - an arena with one reader, and values that tell by every byte what they are. */
#ifndef DDICT_TESTS_STORE_TEST_H
#define DDICT_TESTS_STORE_TEST_H

#include "unit.h"
#include <base/error.h>
#include <base/hash.h>
#include <store/find.h>
#include <store/spill_file.h>
#include <store/state.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1ull << 20)

struct box {
    int fd, ro, spill; /* spill 0: none */
    struct store *s;
    struct arena_view view;
    struct lease_chunk *page; /* LEASE_FILE_SIZE */
};

/* Out of line: inlined for a short array, the compiler warns of the branches for long keys. */
static __attribute__((noipa, unused)) uint64_t hash_of(const void *key, uint32_t len) {
    return key_hash(key, len);
}

static struct box box;

static inline void *lease_page_make(void) {
    struct lease_chunk *p = mmap(NULL, LEASE_FILE_SIZE, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    p->chunks = 1;
    return p;
}

static inline int box_spill(void) {
    return box.spill ? box.spill : -1;
}
static inline void box_open_at(int fd) {
    box.fd = fd;
    ck_assert_int_ge(box.fd, 0);
    box.ro = arena_reopen_readonly(box.fd);
    ck_assert_int_ge(box.ro, 0);
    ck_assert_int_eq(store_open(&box.s, box.fd, box_spill(), 7), 0);
    ck_assert_int_eq(arena_view_map(&box.view, box.ro, box_spill(), 7), 0);
    box.page = lease_page_make();
    ck_assert_int_eq(store_leases_add(box.s, 1, box.page, 4242), 0);
}

static inline void box_open(uint64_t budget) {
    struct store_options o = {
        .budget = budget, .manager_id = 3, .managers = 5, .huge_page = HUGE_ADVISE};
    box_open_at(arena_create(&o));
}

/* The spill is a file of the working folder, or memory where that is no disk: the store does not
 * mind. */
static inline void box_open_spill(uint64_t budget, uint64_t spill) {
    struct store_options o = {
        .budget = budget, .manager_id = 3, .managers = 5, .huge_page = HUGE_ADVISE, .spill = spill};
    if ((box.spill = spill_create(".", spill, 1)) < 0) {
        box.spill = memfd_create("spill", MFD_CLOEXEC);
        ck_assert_int_eq(ftruncate(box.spill, (off_t)spill), 0);
    }
    box_open_at(arena_create(&o));
}

static inline void box_close(void) {
    store_close(box.s);
    arena_view_unmap(&box.view);
    if (box.page)
        munmap(box.page, LEASE_FILE_SIZE);
    if (box.fd > 0)
        close(box.fd);
    if (box.ro > 0)
        close(box.ro);
    if (box.spill > 0)
        close(box.spill);
    memset(&box, 0, sizeof box);
}

/* The manager ends and another one opens the arena. */
static inline void box_reopen(void) {
    store_close(box.s);
    ck_assert_int_eq(store_open(&box.s, box.fd, box_spill(), 7), 0);
    ck_assert_int_eq(store_leases_add(box.s, 1, box.page, 4242), 0);
}

/* Memory that the kernel has given to the arena. */
static inline uint64_t box_memory(void) {
    struct stat st;
    ck_assert_int_eq(fstat(box.fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

static inline void value_fill(uint8_t *v, uint64_t len, uint64_t seed) {
    for (uint64_t i = 0; i < len; i++)
        v[i] = (uint8_t)((seed * 0x9E3779B97F4A7C15ull + i * 0x100000001b3ull) >> 23);
}
static inline int value_right(const uint8_t *v, uint64_t len, uint64_t seed) {
    for (uint64_t i = 0; i < len; i++)
        if (v[i] != (uint8_t)((seed * 0x9E3779B97F4A7C15ull + i * 0x100000001b3ull) >> 23))
            return 0;
    return 1;
}

/* Half of all items have the mark: each test says where one is lost, or moves a value. */
static inline bool is_marked(uint64_t seed) {
    return seed & 1;
}
static inline void ref_fill_in(struct store_ref *ref, uint64_t len, uint64_t seed) {
    value_fill(ref->value, len, seed);
    if (is_marked(seed))
        store_mark_loaded(ref);
}
static inline int put_bytes(const void *key, uint32_t key_len, uint64_t len, uint64_t seed,
                            enum store_mode mode) {
    struct store_ref ref;
    int rc;
    /* as a manager does, a turn later */
    while ((rc = store_reserve(box.s, key, key_len, len, 9, &ref)) == -EINPROGRESS)
        store_work(box.s);
    if (rc < 0)
        return rc;
    ref_fill_in(&ref, len, seed);
    rc = store_commit(box.s, &ref, mode, NULL);
    if (rc < 0)
        store_abort(box.s, &ref);
    return rc;
}
static inline uint32_t key_name(char *key, uint64_t k) {
    return (uint32_t)sprintf(key, "k%llu", (unsigned long long)k);
}
static inline int put(uint64_t k, uint64_t len, uint64_t seed) {
    char key[32];
    return put_bytes(key, key_name(key, k), len, seed, STORE_ANY);
}
static inline int del(uint64_t k) {
    char key[32];
    return store_remove(box.s, key, key_name(key, k), NULL);
}

/* Find as a client does, into lease slot i. */
static inline int look_slot(uint64_t k, unsigned i, struct found *f) {
    char key[32];
    uint32_t n = key_name(key, k);
    return reader_find(&box.view, hash_of(key, n), key, n, &box.page->slot[i], f);
}
enum look_way { LOOK_PLAIN, LOOK_FAST, LOOK_MANY, LOOK_WAYS };
/* The same by one of the ways of clients; LOOK_MANY: as the second of two, the first being key
 * `other`. */
static inline int look_by(enum look_way way, uint64_t k, uint64_t other, unsigned i,
                          struct found *f) {
    char key[32], first[32];
    uint32_t n = key_name(key, k), m = key_name(first, other);
    uint64_t h = hash_of(key, n);
    if (way == LOOK_FAST && find_fast(&box.view, h, key, n, &box.page->slot[i], f))
        return 0;
    if (way == LOOK_MANY) {
        struct find_one two[2] = {
            {.a = &box.view,
             .h = hash_of(first, m),
             .key = first,
             .key_len = m,
             .slot = &box.page->slot[i + 1]},
            {.a = &box.view, .h = h, .key = key, .key_len = n, .slot = &box.page->slot[i]}};
        reader_find_many(two, 2);
        if (two[0].found)
            reader_release(&box.page->slot[i + 1]);
        else
            ck_assert_uint_eq(box.page->slot[i + 1], 0);
        if (two[1].found) {
            *f = two[1].f;
            return 0;
        }
    }
    return reader_find(&box.view, h, key, n, &box.page->slot[i], f);
}
/* 1: there, and every byte is right; 0: a miss. */
static inline int seen(uint64_t k, uint64_t len, uint64_t seed) {
    struct found f;
    int rc = look_slot(k, 0, &f);
    if (rc == DDICT_ENOKEY && box.page->slot[0] == 0)
        return 0;
    /* Few calls of libcheck: each costs a system call. */
    if (rc || f.val_len != len || f.item->tag != 9 ||
        item_is_loaded(f.item) != (is_marked(seed) && !(f.item->version & ITEM_CACHED)) ||
        (uintptr_t)f.value % (len >= DD_VALUE_ALIGN_MIN ? 64 : 16) ||
        !value_right(f.value, len, seed))
        ck_abort_msg("key %llu: code %d, %llu bytes", (unsigned long long)k, rc,
                     rc ? 0ull : (unsigned long long)f.val_len);
    reader_release(&box.page->slot[0]);
    return 1;
}

static inline int count_key(void *arg, const void *key, uint32_t key_len) {
    ++*(uint64_t *)arg;
    return 0;
}
/* Keys by the writer's walk and by the reader's: the same number. */
static inline uint64_t keys_count(void) {
    uint64_t a = 0, b = 0, cursor = 0;
    int rc;
    do
        rc = store_keys(box.s, &cursor, count_key, &a);
    while (rc >= 0 && cursor);
    ck_assert_int_ge(rc, 0);
    do
        rc = reader_keys(&box.view, &cursor, &box.page->slot[0], count_key, &b);
    while (rc >= 0 && cursor);
    ck_assert_int_ge(rc, 0);
    ck_assert_uint_eq(a, b);
    return a;
}

static inline struct manager_stats stats(void) {
    struct manager_stats s = {0};
    store_stats(box.s, &s);
    return s;
}

#endif
