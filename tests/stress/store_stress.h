/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_stress.h - what the processes of store_stress.c share: the keys and their states, and how a
 * value follows from key and version. Each field of struct shared is atomic, and written by the
 * writer, unless many count in it.
 */
#ifndef DDICT_TESTS_STORE_STRESS_H
#define DDICT_TESTS_STORE_STRESS_H

#include <store/find.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* keys that are there from shortly after a clear until the next */
#define STABLE        400u
#define CHURN         400u             /* keys that come and go */
#define KEYS          (STABLE + CHURN) /* keys whose state is known */
#define GROW          12000u           /* more keys, to make segments split */
#define FOREIGN       300u /* keys of other owners, cached while frozen; behind all others */
#define FOREIGN_FIRST (KEYS + GROW)

struct key_state {
    uint64_t turn;    /* odd: an operation is under way */
    uint64_t version; /* our own count; 0: absent */
};
struct shared {
    uint64_t stop, failed;
    uint64_t loaded; /* odd: a clear or the loading of the stable keys is under way */
    struct key_state key[KEYS];
    /* the version that its owner has; changed only while the writer is open */
    uint64_t owner[FOREIGN];
    uint64_t cached, freezes, evicted;
    uint64_t writes, splits, clears, reads, misses, walks, again, rechecks, spilled, moved;
    char what[512];
};
extern struct shared *shared;

extern uint64_t rng; /* of this process */
static inline uint64_t next_random(void) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    return rng ^= rng << 17;
}

/* Ends all processes; the first sentence is printed. */
void fail(const char *fmt, ...);
bool freezes(void); /* the writer of this run does, now and then */

/* --- values: length and every word follow from key and version --- */
static inline uint64_t value_word(uint64_t key, uint64_t version, uint64_t i) {
    uint64_t x =
        key * 0x9E3779B97F4A7C15ull + version * 0xC2B2AE3D27D4EB4Full + i * 0x165667B19E3779F9ull;
    return x ^ x >> 29;
}
static inline uint64_t value_words(uint64_t key, uint64_t version) {
    uint64_t r = value_word(key, version, ~0ull) >> 7;
    return r % 64 ? 2 + r / 64 % 150 : 2 + r / 64 % 9000;
}
/* The version a value claims, or 0 when a word is wrong. Word 0 is the version, word 1 the key. */
static inline uint64_t value_check(uint64_t key, const uint64_t *w, uint64_t bytes) {
    uint64_t version = w[0], n = bytes / 8;
    if (w[1] != key || bytes % 8 || n != value_words(key, version))
        return 0;
    for (uint64_t i = 2; i < n; i++)
        if (w[i] != value_word(key, version, i))
            return 0;
    return version;
}
static inline uint32_t key_name(char *buf, uint64_t key) {
    if (key % 3)
        return (uint32_t)snprintf(buf, 40, "key %llu", (unsigned long long)key);
    return (uint32_t)snprintf(buf, 40, "a longer name, number %llu", (unsigned long long)key);
}

/* --- store_stress_reader.c --- */
/* Until shared->stop: find, hold and walk with this lease page. */
void reader(const struct arena_view *a, struct lease_chunk *page);

#endif
