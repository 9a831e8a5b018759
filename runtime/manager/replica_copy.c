/* SPDX-License-Identifier: Apache-2.0 */
/* replica_copy.c - what a primary is to send next to a new backup. */
#include "replica_copy.h"

#include "replica_flight.h"
#include "results.h"
#include <base/hash.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BURST_NS 10000000u /* what was not sent so long ago may be made up for */

static void wake_fire(struct timer *t) { /* the turn goes on */
}

void replica_copy_init(struct replica_copy *c, struct manager *m) {
    *c = (struct replica_copy){.m = m, .wake.fire = wake_fire};
}

void replica_copy_stop(struct replica_copy *c) {
    flight_copied(c->m); /* if there is a key at hand */
    timer_clear(&c->m->timers, &c->wake);
    c->at = COPY_OFF;
}

void replica_copy_free(struct replica_copy *c) {
    replica_copy_stop(c);
    free(c->keys);
    c->keys = NULL;
    c->cap = 0;
}

void replica_copy_begin(struct replica_copy *c) {
    c->at = COPY_ASKED;
    c->cursor = c->place = c->proxy = 0;
    c->used = c->next = 0;
    c->last = c->waits = false;
}

/* --- keys --- */
static int key_note(void *arg, const void *key, uint32_t key_len) {
    struct replica_copy *c = arg;
    size_t need = c->used + sizeof key_len + key_len;
    if (need > c->cap) {
        size_t cap = need < 65536 ? 65536 : 2 * need;
        uint8_t *more = realloc(c->keys, cap);
        if (!more)
            return -ENOMEM;
        c->keys = more;
        c->cap = cap;
    }
    memcpy(c->keys + c->used, &key_len, sizeof key_len);
    memcpy(c->keys + c->used + sizeof key_len, key, key_len);
    c->used = need;
    return 0;
}

/* The keys of the next segment. False: there is no memory for that. */
static bool segment_note(struct replica_copy *c) {
    c->used = c->next = 0;
    if (store_keys_and_limits(c->m->store, &c->cursor, key_note, c) < 0)
        return false; /* the next turn tries again */
    c->last = c->cursor == 0;
    return true;
}

/* 1: it is there, and is sent at once; 0: it has to wait for its turn; -ENOENT: it is gone. */
static int key_judge(const struct replica_copy *c, const struct copy_next *n) {
    struct store *s = c->m->store;
    struct store_queue q;
    struct store_ref first;
    bool queue = store_queue_look(s, n->key, n->key_len, n->hash, &q);
    if (flights_busy(c->m, n->key, n->key_len, n->hash) || queue)
        return 0;
    return store_find(s, n->key, n->key_len, &first) == 0 ? 1 : -ENOENT;
}

static struct copy_next key_at(const struct replica_copy *c) {
    struct copy_next n = {.what = NEXT_KEY};
    memcpy(&n.key_len, c->keys + c->next, sizeof n.key_len);
    n.key = c->keys + c->next + sizeof n.key_len;
    n.hash = key_hash(n.key, n.key_len);
    return n;
}

static struct copy_next key_next(struct replica_copy *c) {
    if (c->next >= c->used) {
        if (c->last)
            c->at = COPY_RESULTS;
        else if (!segment_note(c))
            return (struct copy_next){.what = NEXT_NOTHING};
        return (struct copy_next){.what = NEXT_AGAIN};
    }
    struct copy_next n = key_at(c);
    int e = c->waits ? flight_copies(c->m) : key_judge(c, &n);
    if (e == 0 && !c->waits) {
        e = flight_copy(c->m, n.key, n.key_len, n.hash);
        c->waits = e >= 0;
    }
    if (e == 0 || e == -ENOMEM)
        return (struct copy_next){.what = NEXT_NOTHING};
    c->next += sizeof n.key_len + n.key_len;
    c->waits = false;
    if (e < 0)
        n.what = NEXT_AGAIN;
    return n;
}

/* --- results --- */
static struct copy_next result_next(struct replica_copy *c) {
    const struct result *r = results_next(c->m, &c->proxy, &c->place);
    if (r)
        return (struct copy_next){.what = NEXT_RESULT, .proxy = c->proxy, .result = r};
    c->at = COPY_ENDS;
    return (struct copy_next){.what = NEXT_WHOLE};
}

/* --- */
bool replica_copy_may(struct replica_copy *c) {
    if (c->at != COPY_KEYS && c->at != COPY_RESULTS)
        return false;
    if (c->due_ns > c->m->now && !c->wake.pos)
        timer_after(&c->m->timers, &c->wake, c->due_ns - c->m->now);
    return c->due_ns <= c->m->now;
}

struct copy_next replica_copy_next(struct replica_copy *c) {
    if (c->at == COPY_RESULTS)
        return result_next(c);
    if (c->at != COPY_KEYS || c->m->flights->copied) /* of the key before: in the next turn */
        return (struct copy_next){.what = NEXT_NOTHING};
    return key_next(c);
}

void replica_copy_sent(struct replica_copy *c, uint64_t bytes) {
    uint64_t now = c->m->now;
    if (c->due_ns + BURST_NS < now)
        c->due_ns = now - BURST_NS;
    c->due_ns += bytes * 1000000000ull / DD_COPY_BYTES;
}
