/* SPDX-License-Identifier: Apache-2.0 */
/* wanted.c - the lost records of a set, wanted.h */
#include "wanted.h"

#include "load.h"
#include "names.h"
#include <base/error.h>
#include <base/vec.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <xxhash.h>

enum lost_state { LOST, PUT, THERE }; /* THERE: another value is */

struct lost {
    uint64_t size;
    int state; /* enum lost_state, atomic; it orders nothing */
};

struct wanted {
    struct names *names; /* hash of a key: its place in lost */
    struct lost *lost;
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
    free(w->lost);
    pack_free(&w->links);
    pack_free(&w->failures);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

int wanted_add(struct wanted *w, const void *key, size_t klen, uint64_t size) {
    if (VEC_ROOM(&w->lost, &w->cap, w->n + 1, 1024) < 0)
        return dd_error(-ENOMEM, "out of memory");
    int rc = names_add(w->names, XXH3_64bits(key, klen), w->n, NULL);
    if (rc == 0)
        w->lost[w->n++] = (struct lost){.size = size};
    return rc < 0 ? rc : 0;
}

uint64_t wanted_count(const struct wanted *w) {
    return w->n;
}

static int state_of(const struct lost *l) {
    return __atomic_load_n(&l->state, __ATOMIC_RELAXED);
}

uint64_t wanted_done(const struct wanted *w, uint64_t *bytes, uint64_t *missing) {
    uint64_t n = 0;
    *bytes = *missing = 0;
    for (uint64_t i = 0; i < w->n; i++) {
        int state = state_of(&w->lost[i]);
        *missing += state == LOST;
        n += state == PUT;
        *bytes += state == PUT ? w->lost[i].size : 0;
    }
    return n;
}

const struct pack *wanted_links(const struct wanted *w) {
    return &w->links;
}

const struct pack *wanted_failures(const struct wanted *w) {
    return &w->failures;
}

static struct lost *lost_find(const void *key, size_t klen) {
    const struct wanted *w = the_load.wanted;
    uint64_t at;
    return names_find(w->names, XXH3_64bits(key, klen), &at) ? &w->lost[at] : NULL;
}

bool wanted_has(const void *key, size_t klen) {
    return lost_find(key, klen) != NULL;
}

bool wanted_fits(const void *key, size_t klen, uint64_t size) {
    const struct lost *l = lost_find(key, klen);
    return l && l->size == size;
}

bool wanted_is_there(const void *key, size_t klen) {
    const struct lost *l = lost_find(key, klen);
    return l && state_of(l) != LOST;
}

void wanted_put(const void *key, size_t klen, bool ours) {
    struct lost *l = lost_find(key, klen);
    if (l) /* one thread puts a key */
        __atomic_store_n(&l->state, ours ? PUT : THERE, __ATOMIC_RELAXED);
}

int wanted_unit_end(const struct pack *links, const struct pack *failures) {
    struct wanted *w = the_load.wanted;
    pthread_mutex_lock(&w->lock);
    pack_bytes(&w->links, links->data, links->len);
    pack_bytes(&w->failures, failures->data, failures->len);
    bool bad = w->links.bad || w->failures.bad;
    pthread_mutex_unlock(&w->lock);
    return bad ? dd_error(-ENOMEM, "out of memory") : 0;
}
