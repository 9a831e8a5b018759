/* SPDX-License-Identifier: Apache-2.0 */
/* window_list.c - list the keys of a working set: their indexes are listed, and read many at a time. */
#include "window_list.h"

#include "window_change.h"
#include "window_sweep.h"
#include <base/vec.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 256u
#define HEAD  (DIRECT_HEAD + WINDOW_LEN + sizeof WINDOW_INDEX - 1)

struct window_list {
    struct window_call c; /* on the key that was given last; the window as of the batch */
    int manager, end;     /* the present one; the first that is not listed */
    bool here_only;
    ddict_iter_t *it; /* over its indexes */
    bool over;        /* it has no more */
    /* the batch: `n` keys of indexes, in bytes; read: wants have their views, from `at` on */
    uint8_t *bytes;
    size_t used, cap;
    size_t from[BATCH], len[BATCH];
    struct ddict_want want[BATCH + 1];
    uint32_t n, at;
    bool read;
    size_t plen;
    uint8_t prefix[];
};

bool window_owns_item(const void *key, size_t klen) {
    if (klen == WINDOW_LEN)
        return memcmp(key, WINDOW_KEY, WINDOW_LEN) == 0;
    return klen > DIRECT_HEAD + WINDOW_LEN && memcmp(key, DIRECT_WORD, DIRECT_LEN) == 0 &&
           memcmp((const uint8_t *)key + DIRECT_HEAD, WINDOW_KEY "/", WINDOW_LEN + 1) == 0;
}

int window_list_open(ddict_t *d, int manager, const void *prefix, size_t plen,
                     struct window_list **out, int timeout_ms) {
    struct window_list *l = *out = calloc(1, sizeof *l + plen);
    if (!l)
        return dd_error(-ENOMEM, "no memory for a list of keys");
    int rc = session_enter(d, &l->c.s, timeout_ms);
    if (rc < 0) {
        free(l);
        *out = NULL;
        return rc;
    }
    l->c.d = d;
    l->c.timeout_ms = timeout_ms;
    l->c.checkpoint = __atomic_load_n(&d->checkpoint, __ATOMIC_RELAXED);
    l->here_only = manager == -2;
    l->manager = manager < 0 ? 0 : manager;
    l->end = manager < 0 ? (int)l->c.s->managers : manager + 1;
    l->plen = plen;
    if (plen > 0)
        memcpy(l->prefix, prefix, plen);
    return 0;
}

static void batch_drop(struct window_list *l) {
    for (uint32_t i = l->at; l->read && i < l->n; i++)
        if (l->want[i].status == 0)
            ddict_release(&l->want[i].view);
    ddict_release(&l->c.index);
    l->c.index = (struct ddict_view){0};
    l->n = l->at = 0;
    l->used = 0;
    l->read = false;
}

void window_list_close(struct window_list *l) {
    if (!l)
        return;
    batch_drop(l);
    ddict_iter_close(l->it);
    free(l->bytes);
    free(l);
}

/* Begin the present manager. 1: it is open; 0: it has no keys. */
static int manager_open(struct window_list *l) {
    struct window_key k;
    unsigned m = (unsigned)l->manager;
    if (!deal_owns(&l->c.s->deal, m) || (l->here_only && !session_local(l->c.s, m)))
        return 0;
    int rc = window_item_key(&k, m, WINDOW_INDEX, NULL, 0, l->prefix, l->plen);
    if (rc < 0)
        return rc == DDICT_EKEYSIZE ? 0 : rc;
    rc = ddict_iter_open_flags(l->c.d, l->manager, k.at, k.len, DDICT_ITER_HIDDEN, &l->it,
                               l->c.timeout_ms);
    window_key_free(&k);
    return rc < 0 ? rc : 1;
}

/* Collect the keys of the next batch. */
static int batch_fill(struct window_list *l) {
    const void *key;
    size_t klen;
    while (l->n < BATCH && l->manager < l->end) {
        int rc = l->it ? 1 : manager_open(l);
        if (rc > 0)
            rc = ddict_iter_next(l->it, &key, &klen);
        if (rc < 0)
            return rc;
        if (rc == 0) {
            ddict_iter_close(l->it);
            l->it = NULL;
            l->manager++;
            continue;
        }
        if (VEC_ROOM(&l->bytes, &l->cap, l->used + klen, 16384) < 0)
            return dd_error(-ENOMEM, "no memory for %zu bytes of keys", l->used + klen);
        memcpy(l->bytes + l->used, key, klen);
        l->from[l->n] = l->used;
        l->len[l->n++] = klen;
        l->used += klen;
    }
    return 0;
}

/* Read their indexes, and the window. */
static int batch_read(struct window_list *l) {
    struct ddict_want *w = l->want;
    for (uint32_t i = 0; i < l->n; i++)
        w[i] = (struct ddict_want){.key = l->bytes + l->from[i], .klen = l->len[i]};
    w[l->n] = (struct ddict_want){.key = WINDOW_KEY, .klen = WINDOW_LEN};
    ssize_t got = ddict_get_many(l->c.d, w, l->n + 1, 0, l->c.timeout_ms);
    if (got < 0)
        return (int)got;
    int rc = window_state_take(&l->c, &w[l->n]);
    for (uint32_t i = 0; i < l->n; i++)
        if (w[i].status < 0 && w[i].status != DDICT_ENOKEY && rc == 0)
            rc = w[i].status;
    l->read = true;
    l->at = 0;
    if (rc == 0)
        return 0;
    for (uint32_t i = 0; i < l->n; i++) /* the next call reads them again */
        if (w[i].status == 0)
            ddict_release(&w[i].view);
    l->read = false;
    return rc;
}

int window_list_next(struct window_list *l, struct window_call **c) {
    *c = &l->c;
    for (;;) {
        while (l->read && l->at < l->n) {
            uint32_t i = l->at++;
            int rc = window_index_take(&l->c, &l->want[i]);
            if (rc < 0)
                return rc;
            l->c.key = (const uint8_t *)l->want[i].key + HEAD;
            l->c.klen = l->want[i].klen - HEAD;
            if (l->c.x && l->want[i].klen > HEAD)
                return 1;
        }
        if (l->read)
            batch_drop(l);
        int rc = session_enter(l->c.d, &l->c.s, l->c.timeout_ms);
        if (rc < 0)
            return rc;
        call_deadline_init(&l->c.w, l->c.s, l->c.timeout_ms);
        if ((rc = batch_fill(l)) < 0 || (l->n > 0 && (rc = batch_read(l)) < 0))
            return rc;
        if (l->n == 0)
            return 0;
    }
}

int window_list_next_seen(struct window_list *l, const void **key, size_t *klen) {
    struct window_call *c;
    int rc;
    while ((rc = window_list_next(l, &c)) > 0) {
        if (c->state.oldest > c->checkpoint)
            return window_retired(c);
        if (window_is_gone(c))
            window_sweep(c->d, c->key, c->klen);
        if (!window_lists(c))
            continue;
        *key = c->key;
        *klen = c->klen;
        return 1;
    }
    /* what newer checkpoints have not any more was not listed */
    if (rc == 0 && (rc = window_state_look(c)) == 0 && c->state.oldest > c->checkpoint)
        return window_retired(c);
    return rc;
}

int64_t window_len(ddict_t *d, int manager, int timeout_ms) {
    struct window_list *l;
    const void *key;
    size_t klen;
    int64_t n = 0;
    int rc = window_check(d, timeout_ms);
    if (rc < 0 || (rc = window_list_open(d, manager, NULL, 0, &l, timeout_ms)) < 0)
        return rc;
    while ((rc = window_list_next_seen(l, &key, &klen)) > 0)
        n++;
    window_list_close(l);
    return rc < 0 ? rc : n;
}

/* At the checkpoint of the list; and where the key was removed meanwhile, it is not awaited. */
static int listed_remove(struct window_list *l, const void *key, size_t klen, int timeout_ms) {
    struct window_call c;
    struct window_change g = {.removes = true, .judge = window_absent_judge};
    int rc = window_call_begin(&c, l->c.d, key, klen, 0, timeout_ms);
    if (rc < 0)
        return rc;
    c.checkpoint = l->c.checkpoint;
    rc = window_change(&c, &g);
    window_call_end(&c);
    return rc == DDICT_ENOKEY ? 0 : rc;
}

int window_clear(ddict_t *d, int timeout_ms) {
    struct window_list *l;
    const void *key;
    size_t klen;
    int rc = window_check(d, timeout_ms);
    if (rc < 0 || (rc = window_list_open(d, -1, NULL, 0, &l, timeout_ms)) < 0)
        return rc;
    while (rc >= 0 && (rc = window_list_next_seen(l, &key, &klen)) > 0)
        rc = listed_remove(l, key, klen, timeout_ms);
    window_list_close(l);
    return rc;
}
