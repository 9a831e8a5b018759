/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_table.c - the ceiling: a hash table in shared memory with no lock, no lease, no manager.
 * Open addressing, half full; key and value lie together. One process at a time writes; it is
 * mapped by fork or by the same process, as our arena is: small pages unless the machine gives
 * others.
 */
#include "peers.h"
#include <base/hash.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct slot {
    uint64_t hash, at;
}; /* at: row + 1, 0 is free */
struct table {
    struct slot *slot;
    char *rows;
    uint64_t mask, used, room;
    size_t len, step, bytes;
};

/* Workers open it again after the fork: they find the one that was there. */
static struct table *shared;

static void close_it(void *self) {
    struct table *t = self;
    if (shared == t)
        shared = NULL;
    munmap(t->slot, t->bytes);
    free(t);
}

static int open_it(void **self, const struct where *w) {
    struct table *t = malloc(sizeof *t);
    uint64_t cap = 64;
    if (!t)
        return -ENOMEM;
    if (shared && shared->len == w->len && shared->room == w->keys) {
        *t = *shared;
        *self = t;
        return 0;
    }
    while (cap < w->keys * 2)
        cap *= 2;
    *t = (struct table){.mask = cap - 1,
                        .len = w->len,
                        .step = (KEY_BYTES + w->len + 63) / 64 * 64,
                        .room = w->keys};
    t->bytes = cap * sizeof *t->slot + t->step * w->keys;
    int fd = memfd_create("table", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)t->bytes) < 0)
        return -errno;
    t->slot = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (t->slot == MAP_FAILED)
        return -errno;
    madvise(t->slot, t->bytes, MADV_HUGEPAGE);
    t->rows = (char *)(t->slot + cap);
    shared = t;
    *self = t;
    return 0;
}

static char *find(struct table *t, const char *key, uint64_t h) {
    for (uint64_t i = h & t->mask; t->slot[i].at != 0; i = (i + 1) & t->mask) {
        char *row = t->rows + (t->slot[i].at - 1) * t->step;
        if (t->slot[i].hash == h && memcmp(row, key, KEY_BYTES) == 0)
            return row + KEY_BYTES;
    }
    return NULL;
}

static int put(void *self, const struct pair *p) {
    struct table *t = self;
    uint64_t h = key_hash(p->key, KEY_BYTES);
    char *val = find(t, p->key, h);
    if (!val) {
        if (t->used == t->room)
            return -ENOSPC;
        uint64_t i = h & t->mask;
        while (t->slot[i].at != 0)
            i = (i + 1) & t->mask;
        char *row = t->rows + t->used++ * t->step;
        memcpy(row, p->key, KEY_BYTES);
        val = row + KEY_BYTES;
        t->slot[i] = (struct slot){h, t->used};
    }
    memcpy(val, p->val, p->len);
    return 0;
}

static int put_many(void *self, const struct pair *p, unsigned n) {
    int rc = 0;
    for (unsigned i = 0; i < n && rc == 0; i++)
        rc = put(self, &p[i]);
    return rc;
}

static int view(void *self, const struct pair *p) {
    const char *val = find(self, p->key, key_hash(p->key, KEY_BYTES));
    return !val ? -ENOENT : pair_check(val, p->len, p->index);
}

/* With prefetching: all slots, then all rows, then the values line by line. */
static int view_many(void *self, const struct pair *p, unsigned n) {
    struct table *t = self;
    uint64_t h[BATCH_MAX];
    int rc = 0;
    for (unsigned i = 0; i < n; i++) {
        h[i] = key_hash(p[i].key, KEY_BYTES);
        __builtin_prefetch(&t->slot[h[i] & t->mask]);
    }
    for (unsigned i = 0; i < n; i++) {
        uint64_t at = t->slot[h[i] & t->mask].at;
        const char *row = t->rows + (at - (at != 0)) * t->step;
        for (size_t k = 0; k < t->step && k < 512; k += 64)
            __builtin_prefetch(row + k);
    }
    for (unsigned i = 0; i < n && rc == 0; i++) {
        const char *val = find(t, p[i].key, h[i]);
        rc = !val ? -ENOENT : pair_check(val, p[i].len, p[i].index);
    }
    return rc;
}

static int get(void *self, const struct pair *p) {
    const char *val = find(self, p->key, key_hash(p->key, KEY_BYTES));
    if (val)
        memcpy(p->val, val, p->len);
    return !val ? -ENOENT : 0;
}

const struct store store_table = {"table", open_it,   close_it, put, put_many,
                                  view,    view_many, get,      NULL};
