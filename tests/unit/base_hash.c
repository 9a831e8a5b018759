/* SPDX-License-Identifier: Apache-2.0 */
/* base_hash.c - hashes of keys are spread over owners, directory, buckets and tags, and each bit of
 * a key matters. */
#include "unit.h"
#include <base/deal.h>
#include <base/hash.h>

#include <stdio.h>
#include <string.h>

#define KEYS 100000u

/* Kinds of keys that people use; returns the length. */
static size_t key_make(unsigned kind, uint64_t i, char key[48]) {
    uint64_t word[2] = {kind == 3 ? 0 : i, kind == 3 ? i : kind == 4 ? i * 64 : 0};
    switch (kind) {
    case 0:
        return (size_t)snprintf(key, 48, "key-%012lu", (unsigned long)i);
    case 1:
        return (size_t)snprintf(key, 48, "sample%lu", (unsigned long)i + 100);
    case 2:
        return (size_t)snprintf(key, 48, "%08lx-%05lu", (unsigned long)(i % 97), (unsigned long)i);
    case 5:
        return (size_t)snprintf(key, 48, "i%lu", (unsigned long)i); /* some of them short */
    case 6:
        return (size_t)snprintf(key, 48, "a/rather/long/name/of/a/file/%lu.npy", (unsigned long)i);
    default:
        memcpy(key, word, sizeof word);
        return sizeof word;
    }
}
enum { KINDS = 7 };

/* Chi squared of n places, as standard deviations from what chance gives. */
static double spread(unsigned kind, unsigned n, unsigned (*place)(uint64_t h, unsigned n)) {
    unsigned *count = calloc(n, sizeof *count);
    double even = (double)KEYS / n, sum = 0;
    char key[48];
    for (uint64_t i = 0; i < KEYS; i++)
        count[place(key_hash(key, key_make(kind, i, key)), n)]++;
    for (unsigned k = 0; k < n; k++)
        sum += (count[k] - even) * (count[k] - even) / even;
    free(count);
    sum -= n - 1;
    return sum * sum / (2.0 * (n - 1));
}

static unsigned top(uint64_t h, unsigned n) {
    return (unsigned)((h >> 32) * n >> 32);
}
static unsigned tag(uint64_t h, unsigned n) {
    return (unsigned)((h >> 16 & 0xfffff) * n >> 20);
}
static unsigned bucket(uint64_t h, unsigned n) {
    return (unsigned)((h & 0xffff) * n >> 16);
}

START_TEST(hashes_of_like_keys_are_spread_evenly) {
    for (unsigned kind = 0; kind < KINDS; kind++) {
        double far[] = {spread(kind, 4096, top), spread(kind, 1024, tag), spread(kind, 255, bucket),
                        spread(kind, 7, hash_owner), spread(kind, 100, hash_owner)};
        for (unsigned k = 0; k < 5; k++)
            ck_assert_msg(far[k] < 36, "kind %u, part %u: %.1f squared deviations", kind, k,
                          far[k]);
    }
}
END_TEST

START_TEST(each_bit_of_a_key_changes_half_of_the_bits) {
    enum { TRIES = 2000 };
    uint64_t rng = 1;
    for (unsigned len = 9; len <= 16; len++)
        for (unsigned bit = 0; bit < 8 * len; bit += 3) {
            unsigned flips[64] = {0};
            for (unsigned t = 0; t < TRIES; t++) {
                uint64_t word[2] = {unit_random(&rng), unit_random(&rng)};
                uint8_t key[16];
                memcpy(key, word, sizeof key);
                uint64_t h = key_hash(key, len);
                key[bit / 8] ^= (uint8_t)(1u << bit % 8);
                h ^= key_hash(key, len);
                for (unsigned b = 0; b < 64; b++)
                    flips[b] += h >> b & 1;
            }
            for (unsigned b = 0; b < 64; b++)
                ck_assert_msg(flips[b] > TRIES * 4 / 10 && flips[b] < TRIES * 6 / 10,
                              "length %u, bit %u to bit %u: %u", len, bit, b, flips[b]);
        }
}
END_TEST

START_TEST(the_length_counts) {
    char key[32];
    uint64_t seen[32];
    memset(key, 'a', sizeof key);
    for (unsigned len = 1; len < 32; len++) {
        seen[len] = key_hash(key, len);
        for (unsigned k = 1; k < len; k++)
            ck_assert_uint_ne(seen[k], seen[len]);
    }
}
END_TEST

/* Managers and clients of a dictionary must agree: whoever changes these changes the protocol. */
START_TEST(hashes_stay_what_they_are) {
    ck_assert_uint_eq(key_hash("key-000000000001", 16), 14766833384395651034ull);
    ck_assert_uint_eq(key_hash("sample/12", 9), 17115734079296369719ull);
    ck_assert_uint_eq(key_hash("a", 1), 16629034431890738719ull);
}
END_TEST

/* Each owner is one manager of a keyed node, in order, and all managers there are owners. */
static void deal_check(struct deal s) {
    uint32_t managers = deal_managers(&s), owners = 0, seen = 0;
    struct deal known = deal_known(managers, s.nodes, s.keyed);
    unsigned *local = calloc(s.nodes, sizeof *local);
    for (uint32_t m = 0; m < managers; m++) {
        local[m % s.nodes]++;
        owners += deal_owns(&s, m);
    }
    ck_assert_uint_eq(owners, s.owners);
    ck_assert_uint_eq(known.owners, s.owners);
    for (uint32_t n = 0; n < s.nodes; n++) {
        ck_assert_uint_ge(local[n], 1);
        ck_assert_uint_le(local[n], s.owners / s.keyed + 1);
    }
    for (uint64_t nth = 0; nth < s.owners; nth++) {
        /* a hash of that owner: the multiplication of hash_owner_of() undone */
        uint64_t h =
            (uint64_t)((((unsigned __int128)nth << 64) / s.owners) + 1) * 0xF1DE83E19937733Dull;
        ck_assert_uint_eq(hash_owner(h, s.owners), nth);
        uint32_t m = deal_owner(&s, "a", 1, h);
        ck_assert_uint_lt(m, managers);
        ck_assert(deal_owns(&s, m));
        ck_assert_uint_eq(deal_nth(&s, m), nth);
        ck_assert(nth == 0 || m >= seen + 1);
        seen = m;
    }
    free(local);
}

START_TEST(owners_are_the_managers_of_the_keyed_nodes) {
    for (uint32_t nodes = 1; nodes <= 9; nodes++)
        for (uint32_t keyed = 1; keyed <= nodes; keyed++)
            for (uint32_t owners = keyed; owners < 4 * nodes + 3; owners++)
                deal_check((struct deal){.owners = owners, .nodes = nodes, .keyed = keyed});
    struct deal all = {.owners = 11, .nodes = 4, .keyed = 4};
    ck_assert_uint_eq(deal_managers(&all), 11);
    ck_assert_uint_eq(deal_owner(&all, "a", 1, 12345), hash_owner(12345, 11));
}
END_TEST

static uint32_t owner_of(const char *key) {
    struct deal s = {.owners = 1000, .nodes = 10, .keyed = 10};
    return deal_owner(&s, key, strlen(key), key_hash(key, strlen(key)));
}

START_TEST(keys_with_a_tag_are_where_the_tag_is) {
    static const char *const same[] = {
        "{user1000}",  "{user1000}.following",        "s{user1000}.followers", "x{user1000}{other}",
        "{user1000}}", "a/long/name/of/{user1000}/w", "1{user1000}",           "123456{user1000}"};
    static const char *const plain[] = {
        "foo{}{bar}", "{}", "user{1000",         "user}1000",
        "}user1000{", "}{", "sddict.{user1000}", "12345678{1234567"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        ck_assert_msg(owner_of(same[i]) == owner_of("user1000"), "%s", same[i]);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        ck_assert_msg(owner_of(plain[i]) == hash_owner(key_hash(plain[i], strlen(plain[i])), 1000),
                      "%s", plain[i]);
    ck_assert_uint_eq(owner_of("foo{{bar}}zap"), owner_of("{bar"));
    ck_assert_uint_eq(owner_of("foo{bar}{zap}"), owner_of("bar"));
    for (unsigned len = 3; len < 40; len++) /* wherever it stands */
        for (unsigned at = 0; at + 3 <= len; at++) {
            char key[41];
            memset(key, 'k', len);
            key[len] = 0;
            memcpy(key + at, "{t}", 3);
            ck_assert_msg(owner_of(key) == owner_of("t"), "%s", key);
        }
}
END_TEST

UNIT_MAIN("base_hash", keys_with_a_tag_are_where_the_tag_is,
          owners_are_the_managers_of_the_keyed_nodes, hashes_of_like_keys_are_spread_evenly,
          each_bit_of_a_key_changes_half_of_the_bits, the_length_counts, hashes_stay_what_they_are)
