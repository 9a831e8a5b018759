/* SPDX-License-Identifier: Apache-2.0 */
/* base_hashset.c - the set of hashes against an array: growth, removal, failures of memory. */
#include "unit.h"
#include <base/hashset.h>

#include <string.h>

#define KEYS 600u

/* Of all objects of this test (-Wl,--wrap=calloc). */
static bool memory_ends;
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) {
    return memory_ends ? NULL : __real_calloc(n, size);
}

struct element {
    uint64_t hash[2], value;
};

/* Many with the same home, also at the end of the array; some that differ in the second word only. */
static const uint64_t *hash_of(uint32_t k) {
    static uint64_t hash[2];
    hash[0] = k % 3 == 0 ? 1 + ((uint64_t)k << 40) : k % 3 == 1 ? UINT64_MAX - k % 7 : k + 1;
    hash[1] = k;
    return hash;
}

START_TEST(it_agrees_with_an_array_through_random_changes) {
    struct hashset s = HASHSET_OF(struct element, 2);
    static uint64_t model[KEYS]; /* 0: absent */
    uint64_t rng = 1;
    size_t n = 0;
    memset(model, 0, sizeof model);
    for (uint64_t step = 1; step <= 60000; step++) {
        uint32_t k = (uint32_t)(unit_random(&rng) % KEYS);
        if (unit_random(&rng) % (step / 10000 % 2 ? 3 : 2)) {
            bool is_new;
            struct element *e = hashset_add(&s, hash_of(k), &is_new);
            ck_assert_ptr_nonnull(e);
            ck_assert_int_eq(is_new, model[k] == 0);
            ck_assert_uint_eq(e->value, model[k]);
            n += is_new;
            e->value = model[k] = step;
        } else {
            ck_assert_int_eq(hashset_remove(&s, hash_of(k)), model[k] != 0);
            n -= model[k] != 0;
            model[k] = 0;
        }
        ck_assert_uint_eq(s.n, n);
        if (step % 5003 != 0)
            continue;
        for (uint32_t i = 0; i < KEYS; i++) {
            const struct element *e = hashset_find(&s, hash_of(i));
            ck_assert_uint_eq(e ? e->value : 0, model[i]);
        }
        size_t at = 0, seen = 0;
        for (const struct element *e; (e = hashset_next(&s, &at)); seen++)
            ck_assert_uint_eq(e->value, model[e->hash[1]]);
        ck_assert_uint_eq(seen, n);
    }
    ck_assert_uint_le(4 * s.n, 3 * s.cap);
    hashset_free(&s);
    ck_assert(!s.element && s.n == 0 && !hashset_find(&s, hash_of(1)));
}
END_TEST

static void *add_without_memory(struct hashset *s, uint64_t hash, bool *is_new) {
    memory_ends = true;
    void *e = hashset_add(s, &hash, is_new);
    memory_ends = false;
    return e;
}

START_TEST(without_memory_nothing_is_lost) {
    struct hashset s = HASHSET_OF(uint64_t, 1);
    uint64_t hash = 1;
    bool is_new;
    ck_assert_ptr_null(add_without_memory(&s, hash, &is_new));
    ck_assert(!is_new && !hashset_find(&s, &hash) && !hashset_remove(&s, &hash));
    ck_assert_ptr_nonnull(hashset_add(&s, &hash, &is_new));
    while (hash++, add_without_memory(&s, hash, &is_new))
        ck_assert(is_new);
    ck_assert(!is_new && !hashset_find(&s, &hash));
    ck_assert_uint_eq(s.n, hash - 1);
    ck_assert_ptr_nonnull(hashset_add(&s, &hash, &is_new));
    ck_assert(is_new && s.n == hash);
    for (; hash > 0; hash--)
        ck_assert_ptr_nonnull(hashset_find(&s, &hash));
    hashset_free(&s);
}
END_TEST

UNIT_MAIN("base_hashset", it_agrees_with_an_array_through_random_changes,
          without_memory_nothing_is_lost)
