/* SPDX-License-Identifier: Apache-2.0 */
/* store_stress_reader.c - a reader: points 1 to 4 of store_stress.c. */
#include "store_stress.h"
#include <base/error.h>
#include <base/hash.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HELD 24u /* views of one reader */

struct held {
    uint64_t key, version;
    struct found f;
    bool used;
};
static struct held held[HELD];
static struct lease_chunk *lease;

static void recheck(unsigned i) {
    struct held *h = &held[i];
    uint64_t now = value_check(h->key, h->f.value, h->f.val_len);
    if (now != h->version)
        fail("a held view of key %llu changed from version %llu to %llu",
             (unsigned long long)h->key, (unsigned long long)h->version, (unsigned long long)now);
    __atomic_fetch_add(&shared->rechecks, 1, __ATOMIC_RELAXED);
    if (next_random() % 2)
        return;
    reader_release(&lease->slot[i]);
    h->used = false;
}

/* Out of line: inlined for a short array, the compiler warns of code for long keys. */
static __attribute__((noipa)) uint64_t name_hash(const char *name, uint32_t len) {
    return key_hash(name, len);
}
/* By one of the ways of clients. */
static int look(const struct arena_view *a, const char *name, uint32_t n, uint64_t *slot,
                struct found *f) {
    uint64_t h = name_hash(name, n), way = next_random() % 3;
    if (way == 0 && find_fast(a, h, name, n, slot, f))
        return 0;
    if (way == 1) {
        char other[40];
        uint32_t m = key_name(other, next_random() % KEYS);
        struct find_one two[2] = {{.a = a,
                                   .h = name_hash(other, m),
                                   .key = other,
                                   .key_len = m,
                                   .slot = &lease->slot[HELD + 1]},
                                  {.a = a, .h = h, .key = name, .key_len = n, .slot = slot}};
        reader_find_many(two, 2);
        if (two[0].found)
            reader_release(&lease->slot[HELD + 1]);
        if (two[1].found) {
            *f = two[1].f;
            return 0;
        }
    }
    return reader_find(a, h, name, n, slot, f);
}

static void seek(const struct arena_view *a) {
    char name[40];
    unsigned i = (unsigned)(next_random() % HELD);
    if (held[i].used) {
        recheck(i);
        return;
    }
    uint64_t r = next_random(), key = r % 4 ? (r >> 8) % KEYS : KEYS + (r >> 8) % GROW, turn = 1,
             version = 0;
    if (key < KEYS) {
        turn = __atomic_load_n(&shared->key[key].turn, __ATOMIC_SEQ_CST);
        version = __atomic_load_n(&shared->key[key].version, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&shared->key[key].turn, __ATOMIC_SEQ_CST) != turn)
            turn = 1;
    }
    uint32_t n = key_name(name, key);
    struct found f;
    int rc = look(a, name, n, &lease->slot[i], &f);
    if (rc == -EAGAIN) {
        __atomic_fetch_add(&shared->again, 1, __ATOMIC_RELAXED);
        return;
    }
    if (rc && rc != DDICT_ENOKEY)
        fail("find: %s", dd_errmsg());
    uint64_t found = 0;
    if (rc == 0) {
        if (f.item->tag != (uint8_t)key ||
            (uintptr_t)f.value % (f.val_len >= DD_VALUE_ALIGN_MIN ? 64 : 16))
            fail("a wrong header for key %llu", (unsigned long long)key);
        found = value_check(key, f.value, f.val_len);
        if (!found)
            fail("a torn value of key %llu", (unsigned long long)key);
    }
    bool still = turn % 2 == 0 && __atomic_load_n(&shared->key[key].turn, __ATOMIC_SEQ_CST) == turn;
    if (still && found != version)
        fail("key %llu stands at version %llu, but %llu was seen (0: a miss)",
             (unsigned long long)key, (unsigned long long)version, (unsigned long long)found);
    /* Versions only grow; also what we saw ourselves is a lower bound. */
    static uint64_t seen[KEYS];
    if (key < KEYS && found) {
        if (found < seen[key])
            fail("key %llu went back from version %llu to %llu", (unsigned long long)key,
                 (unsigned long long)seen[key], (unsigned long long)found);
        seen[key] = found;
    }
    __atomic_fetch_add(rc ? &shared->misses : &shared->reads, 1, __ATOMIC_RELAXED);
    if (rc)
        return;
    if (next_random() % 4) {
        reader_release(&lease->slot[i]);
        return;
    }
    held[i] = (struct held){.key = key, .version = found, .f = f, .used = true};
}

/* A key of another owner: its clients look here only while they see FROZEN, and ask the owner when
 * they miss. */
static void seek_foreign(const struct arena_view *a) {
    char name[40];
    unsigned i = (unsigned)(next_random() % HELD), k = (unsigned)(next_random() % FOREIGN);
    uint64_t key = FOREIGN_FIRST + k, before = __atomic_load_n(&shared->owner[k], __ATOMIC_SEQ_CST);
    struct found f;
    if (held[i].used) {
        recheck(i);
        return;
    }
    if (FREEZE_STATE(__atomic_load_n(&a->header->freeze, __ATOMIC_ACQUIRE)) != FREEZE_FROZEN)
        return;
    int rc = look(a, name, key_name(name, key), &lease->slot[i], &f);
    if (rc == -EAGAIN || rc == DDICT_ENOKEY)
        return;
    if (rc)
        fail("find: %s", dd_errmsg());
    uint64_t version = value_check(key, f.value, f.val_len),
             now = __atomic_load_n(&shared->owner[k], __ATOMIC_SEQ_CST);
    if (!version || f.item->version != (version | ITEM_CACHED))
        fail("a torn value of cached key %u", k);
    if (version < before || version > now)
        fail("cached key %u was seen in version %llu, its owner had %llu to %llu", k,
             (unsigned long long)version, (unsigned long long)before, (unsigned long long)now);
    __atomic_fetch_add(&shared->cached, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&lease->hint[lease->hints % LEASE_HINTS], lease->slot[i], __ATOMIC_RELAXED);
    __atomic_store_n(&lease->hints, lease->hints + 1, __ATOMIC_RELEASE);
    if (next_random() % 4) {
        reader_release(&lease->slot[i]);
        return;
    }
    held[i] = (struct held){.key = key, .version = version, .f = f, .used = true};
}

static uint8_t times[STABLE];
static int note_key(void *arg, const void *key, uint32_t len) {
    char name[40];
    const char *number = memrchr(key, ' ', len);
    if (!number || len >= sizeof name)
        fail("a key that nobody put: %.*s", (int)len, (const char *)key);
    memcpy(name, key, len);
    name[len] = 0;
    uint64_t k = strtoull(name + (number - (const char *)key), NULL, 10);
    char right[40];
    if (key_name(right, k) != len || memcmp(right, key, len))
        fail("a key that nobody put: %s", name);
    if (k < STABLE)
        times[k]++;
    return 0;
}

static void walk(const struct arena_view *a) {
    uint64_t loaded = __atomic_load_n(&shared->loaded, __ATOMIC_SEQ_CST), cursor = 0;
    memset(times, 0, sizeof times);
    for (;;) {
        int rc = reader_keys(a, &cursor, &lease->slot[HELD], note_key, NULL);
        if (rc < 0 && rc != -EAGAIN)
            fail("keys: %s", dd_errmsg());
        if (__atomic_load_n(&shared->stop, __ATOMIC_RELAXED))
            return;
        /* the manager would be asked */
        if (rc == -EAGAIN)
            __atomic_fetch_add(&shared->again, 1, __ATOMIC_RELAXED);
        else if (!cursor)
            break;
    }
    if (loaded % 2 || __atomic_load_n(&shared->loaded, __ATOMIC_SEQ_CST) != loaded)
        return;
    for (unsigned k = 0; k < STABLE; k++)
        if (times[k] != 1)
            fail("a walk saw key %u, which was there throughout, %u times", k, times[k]);
    __atomic_fetch_add(&shared->walks, 1, __ATOMIC_RELAXED);
}

void reader(const struct arena_view *a, struct lease_chunk *page) {
    lease = page;
    while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
        uint64_t r = next_random();
        if (r % 500 == 0)
            walk(a);
        else if (r % 4 == 1 && freezes())
            seek_foreign(a);
        else
            seek(a);
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i].used)
            recheck(i);
}
