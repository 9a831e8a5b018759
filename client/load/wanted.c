/* SPDX-License-Identifier: Apache-2.0 */
/* wanted.c - the lost items of a set, wanted.h */
#include "wanted.h"

#include "names.h"
#include <base/error.h>
#include <base/vec.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <xxhash.h>

enum item_state { LOST, PUT, THERE }; /* THERE: another value is */

struct wanted_item {
    uint64_t size;
    int state; /* enum item_state, atomic; it orders nothing */
};

struct wanted {
    struct names *names; /* hash of a key: its place in items */
    struct wanted_item *items;
    uint64_t n;
    size_t cap;
    pthread_mutex_t lock; /* of what follows */
    struct pack links, failures;
};

struct wanted *wanted_new(void) {
    struct wanted *w = calloc(1, sizeof *w);
    if (w && !(w->names = names_new())) {
        free(w);
        return NULL;
    }
    if (w)
        pthread_mutex_init(&w->lock, NULL);
    return w;
}

void wanted_free(struct wanted *w) {
    if (!w)
        return;
    names_free(w->names);
    free(w->items);
    pack_free(&w->links);
    pack_free(&w->failures);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

int wanted_add(struct wanted *w, const void *key, size_t klen, uint64_t size) {
    if (VEC_ROOM(&w->items, &w->cap, w->n + 1, 1024) < 0)
        return dd_error(-ENOMEM, "out of memory");
    int rc = names_add(w->names, XXH3_64bits(key, klen), w->n, NULL);
    if (rc == 0)
        w->items[w->n++] = (struct wanted_item){.size = size};
    return rc < 0 ? rc : 0;
}

uint64_t wanted_count(const struct wanted *w) {
    return w->n;
}

static int state_of(const struct wanted_item *item) {
    return __atomic_load_n(&item->state, __ATOMIC_RELAXED);
}

static struct wanted_item *item_find(const struct wanted *w, const void *key, size_t klen) {
    uint64_t at;
    return names_find(w->names, XXH3_64bits(key, klen), &at) ? &w->items[at] : NULL;
}

bool wanted_has(const struct wanted *w, const void *key, size_t klen) {
    return item_find(w, key, klen) != NULL;
}

bool wanted_fits(const struct wanted *w, const void *key, size_t klen, uint64_t size) {
    const struct wanted_item *item = item_find(w, key, klen);
    return item && item->size == size;
}

void wanted_mark(struct wanted *w, const void *key, size_t klen, bool ours) {
    struct wanted_item *item = item_find(w, key, klen);
    if (item) /* one thread puts a key */
        __atomic_store_n(&item->state, ours ? PUT : THERE, __ATOMIC_RELAXED);
}

bool wanted_is_marked(const struct wanted *w, const void *key, size_t klen) {
    const struct wanted_item *item = item_find(w, key, klen);
    return item && state_of(item) != LOST;
}

uint64_t wanted_sum(const struct wanted *w, uint64_t *bytes, uint64_t *missing) {
    uint64_t n = 0;
    *bytes = *missing = 0;
    for (uint64_t i = 0; i < w->n; i++) {
        int state = state_of(&w->items[i]);
        *missing += state == LOST;
        n += state == PUT;
        *bytes += state == PUT ? w->items[i].size : 0;
    }
    return n;
}

int wanted_unit_end(struct wanted *w, const struct pack *links, const struct pack *failures) {
    pthread_mutex_lock(&w->lock);
    pack_bytes(&w->links, links->data, links->len);
    pack_bytes(&w->failures, failures->data, failures->len);
    bool bad = w->links.bad || w->failures.bad;
    pthread_mutex_unlock(&w->lock);
    return bad ? dd_error(-ENOMEM, "out of memory") : 0;
}

const struct pack *wanted_links(const struct wanted *w) {
    return &w->links;
}

const struct pack *wanted_failures(const struct wanted *w) {
    return &w->failures;
}
