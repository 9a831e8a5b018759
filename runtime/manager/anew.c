/* SPDX-License-Identifier: Apache-2.0 */
/* anew.c - keys of an owner that began anew. */
#include "anew.h"

#include "answers.h"
#include "freeze.h"
#include "pending.h"
#include "supmsg.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/hashset.h>
#include <base/log.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLD_CHAINS 1024u

struct hold {               /* a request that waits */
    struct pending pending; /* first */
    struct hold *next, **prev;
    struct holds *in;
    struct store_ref ref; /* of a PUT: its block */
    uint64_t began, hash;
    uint32_t key_len;
    uint8_t key[];
};
struct holds {
    struct hold *first, **end;
};
struct removed { /* an element of anew.removed */
    uint64_t hash;
};
struct anew {
    enum owner_keys keys;
    char text[NODE_NAME_MAX + 64]; /* of DDICT_EKEYLOST */
    struct hashset removed;
    size_t waiting;
    struct holds chain[HOLD_CHAINS]; /* by hash */
    struct holds ready;              /* to be run in the next turn */
};

int anew_init(struct manager *m) {
    if (!m->setup->shadow)
        return 0;
    m->anew = calloc(1, sizeof *m->anew);
    if (!m->anew)
        return -ENOMEM;
    m->anew->removed = HASHSET_OF(struct removed, 1);
    for (unsigned i = 0; i < HOLD_CHAINS; i++)
        m->anew->chain[i].end = &m->anew->chain[i].first;
    m->anew->ready.end = &m->anew->ready.first;
    return 0;
}

/* --- who waits --- */
static void hold_enter(struct holds *in, struct hold *h) {
    h->in = in;
    h->next = NULL;
    h->prev = in->end;
    *in->end = h;
    in->end = &h->next;
}

static void hold_leave(struct hold *h) {
    *h->prev = h->next;
    if (h->next)
        h->next->prev = h->prev;
    else
        h->in->end = h->prev;
}

static void hold_ready(struct anew *anew, struct hold *h) {
    hold_leave(h);
    hold_enter(&anew->ready, h);
    anew->waiting--;
}

/* Its block is left to the caller. */
static void hold_free(struct manager *m, struct hold *h) {
    if (h->in != &m->anew->ready)
        m->anew->waiting--;
    pending_end(&h->pending);
    hold_leave(h);
    free(h);
}

static void hold_drop(struct manager *m, struct hold *h) {
    struct store_ref ref = h->ref;
    hold_free(m, h);
    if (ref.item)
        store_abort(m->store, &ref);
}

static void hold_refuse(struct pending *p, int status) {
    pending_answers(p);
    requester_reply(p->requester, &p->req, status, NULL);
    hold_drop(p->requester->m, (struct hold *)(void *)p);
}

/* They have no time of their own: the row comes, or their requester cancels them. */
static const struct pending_ops hold_ops = {.refuse = hold_refuse};

static bool hold_add(struct requester *a, const struct msg *req, const void *key, uint64_t hash,
                     struct store_ref *ref, uint64_t began) {
    struct anew *anew = a->m->anew;
    struct hold *h = calloc(1, sizeof *h + req->key_len);
    if (!h)
        return false;
    memcpy(h->key, key, req->key_len);
    h->key_len = req->key_len;
    h->hash = hash;
    h->began = began;
    if (ref)
        h->ref = *ref;
    /* Shadows have no lanes, so the requester is a proxy, and a proxy repeats it in a later life. */
    pending_add(&h->pending, a, req, h->key, 0, &hold_ops);
    hold_enter(&anew->chain[hash % HOLD_CHAINS], h);
    anew->waiting++;
    return true;
}

static void hold_run(struct manager *m, struct hold *h) {
    struct msg req = h->pending.req;
    struct requester *a = h->pending.requester;
    if (a->gone) {
        hold_drop(m, h);
        return;
    }
    pending_answers(&h->pending);
    /* of a PUT it is asked there */
    if (m->shut && (req.type == MSG_POP || req.type == MSG_DEL) && !request_is_restore(m, &req))
        freeze_refuse(a, &req);
    else
        m->up->run(a, &req, h->key, h->hash, &h->ref, h->began);
    hold_free(m, h);
}

bool anew_turn(struct manager *m) {
    struct anew *anew = m->anew;
    if (!anew || !anew->ready.first || !manager_may_serve(m))
        return false;
    share_for(m, DD_WAKE_NS);
    do
        hold_run(m, anew->ready.first);
    while (anew->ready.first && !share_spent(m));
    return true;
}

/* --- keys --- */
static bool was_removed(const struct manager *m, uint64_t hash) {
    const struct anew *anew = m->anew;
    uint64_t h = hash ? hash : 1;
    return m->setup->page->cleared || hashset_find(&anew->removed, &h);
}

const char *anew_lost_text(const struct manager *m, uint64_t hash) {
    const struct anew *anew = m->anew;
    return anew && owner_began_anew(anew->keys) && !was_removed(m, hash) ? anew->text : NULL;
}

bool anew_is_awaited(const struct manager *m, uint64_t hash) {
    return m->anew && owner_is_refilling(m->anew->keys) && !was_removed(m, hash);
}

static void request_refuse(struct requester *a, const struct msg *req, struct store_ref *ref,
                           int status, const char *text) {
    requester_reply(a, req, status, text);
    if (ref)
        request_given_up(a, req, ref);
}

bool anew_hold(struct requester *a, const struct msg *req, const void *key, uint64_t hash,
               struct store_ref *ref, uint64_t began) {
    if (!anew_is_awaited(a->m, hash))
        return false;
    if (!hold_add(a, req, key, hash, ref, began))
        request_refuse(a, req, ref, -ENOMEM, NULL);
    return true;
}

bool anew_hold_or_refuse(struct requester *a, const struct msg *req, const void *key, uint64_t hash,
                         struct store_ref *ref, uint64_t began) {
    if (anew_hold(a, req, key, hash, ref, began))
        return true;
    const char *lost = anew_lost_text(a->m, hash);
    if (lost)
        request_refuse(a, req, ref, DDICT_EKEYLOST, lost);
    return lost;
}

void anew_wake_key(struct manager *m, const void *key, uint32_t key_len, uint64_t hash) {
    struct anew *anew = m->anew;
    if (!anew || !anew->waiting)
        return;
    for (struct hold *h = anew->chain[hash % HOLD_CHAINS].first, *next; h; h = next) {
        next = h->next;
        if (h->hash == hash && h->key_len == key_len && memcmp(h->key, key, key_len) == 0)
            hold_ready(anew, h);
    }
}

void anew_note_removed(struct manager *m, uint64_t hash) {
    struct anew *anew = m->anew;
    uint64_t h = hash ? hash : 1;
    bool is_new;
    if (anew && owner_began_anew(anew->keys) && anew->removed.n < DD_ANEW_KEYS_MAX)
        hashset_add(&anew->removed, &h, &is_new); /* without room the key counts as perhaps lost */
}

static void all_ready(struct anew *anew) {
    for (unsigned i = 0; i < HOLD_CHAINS && anew->waiting; i++)
        while (anew->chain[i].first)
            hold_ready(anew, anew->chain[i].first);
}

int anew_clear(struct manager *m) {
    struct anew *anew = m->anew;
    bool *cleared = &m->setup->page->cleared, was = *cleared;
    if (!anew || !owner_began_anew(anew->keys))
        return store_clear(m->store);
    *cleared = true; /* before: this life may end in the middle, and the next one clears again */
    int e = store_clear(m->store);
    if (e < 0) {
        *cleared = was;
        return e;
    }
    hashset_free(&anew->removed);
    all_ready(anew);
    return 0;
}

/* --- the map --- */
void anew_map(struct manager *m, const struct sup_msg *s) {
    struct anew *anew = m->anew;
    if (!anew || !owner_began_anew(sup_map_keys(s)))
        return;
    anew->keys = sup_map_keys(s);
    snprintf(anew->text, sizeof anew->text, "the value may have been lost with node %.*s",
             NODE_NAME_MAX - 1, s->text);
    if (anew->keys == OWNER_REFILLED)
        all_ready(anew);
}

void anew_free(struct manager *m) {
    struct anew *anew = m->anew;
    if (!anew)
        return;
    all_ready(anew);
    while (anew->ready.first)
        hold_drop(m, anew->ready.first);
    hashset_free(&anew->removed);
    free(anew);
    m->anew = NULL;
}
