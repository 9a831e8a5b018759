/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_crash.h - what store_crash.c, the client that lives on, and store_crash_steps.c, the manager
 * that is killed, share: the keys and what was acknowledged of them, in shared memory. A change is
 * noted as under way before it begins, and acknowledged when it is done.
 */
#ifndef DDICT_TESTS_STORE_CRASH_H
#define DDICT_TESTS_STORE_CRASH_H

#include <store/reader.h>
#include <store/state.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define KEYS 3000u
/* cached keys of other owners, behind ours; their version is the epoch */
#define FOREIGN   60u
#define QUEUES    3u /* keys of several values; numbers of values are their versions */
#define QUEUE_MAX 400u
#define QUEUE(q)  (KEYS + FOREIGN + (q))
enum queue_op { PUSH, POP, DEL };

struct shared {
    uint64_t version[KEYS]; /* acknowledged; 0: absent */
    struct {
        uint64_t head, tail;
    } queue[QUEUES];
    /* under way: the key (KEYS: clear; QUEUE(0) on: a queue) and the version it gets (of a queue:
     * enum queue_op) */
    uint64_t key, next;
    uint64_t was, head, tail; /* of a queue: its length before, and its ends then */
    uint64_t busy;
    uint64_t requests;    /* number of the change under way, for its record (I24) */
    uint64_t points;      /* passed by this manager */
    uint64_t last;        /* version */
    uint64_t cached_held; /* views of cached values that outlived their manager */
    uint64_t passed[STRESS_PLACES];
};
extern struct shared *shared;

extern int spill_fd; /* -1: none */
extern uint64_t rng;
static inline uint64_t next_random(void) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    return rng ^= rng << 17;
}
void fail(const char *what, uint64_t key); /* prints this, and ends the process */

/* --- values --- */
static inline uint64_t word(uint64_t key, uint64_t version, uint64_t i) {
    uint64_t x =
        key * 0x9E3779B97F4A7C15ull + version * 0xC2B2AE3D27D4EB4Full + i * 0x165667B19E3779F9ull;
    return x ^ x >> 31;
}
static inline uint64_t words(uint64_t key, uint64_t version) {
    uint64_t r = word(key, version, ~0ull);
    return r % 50 ? r / 64 % (spill_fd < 0 ? 100 : 500) : r / 64 % 8000;
}
static inline bool right(const void *value, uint64_t len, uint64_t key, uint64_t version) {
    const uint64_t *w = value;
    if (len != words(key, version) * 8)
        return false;
    for (uint64_t i = 0; i < len / 8; i++)
        if (w[i] != word(key, version, i))
            return false;
    return true;
}
static inline uint32_t name_of(char *buf, uint64_t key) {
    return (uint32_t)snprintf(buf, 32, "%s%llu", key % 2 ? "k" : "another name ",
                              (unsigned long long)key);
}

/* --- store_crash_steps.c --- */
void manager(struct store *s); /* change this and that, until it is killed */
void put(struct store *s, uint64_t key);
void push(struct store *s, uint64_t q);
void pop(struct store *s, uint64_t q);
/* More is wanted than there is in free pages: values move. */
void squeeze(struct store *s);
void acknowledge(void); /* the change under way is done */

#endif
