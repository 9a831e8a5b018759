/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window_many.c - a get of many keys of a working set: all indexes are asked for at once, and then all
 * values; what was in motion meanwhile is read by itself.
 */
#include "window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLAB 256u

struct slab {
    struct window_call c; /* on one key after the other */
    struct ddict_want *want;
    uint32_t n, nask;
    unsigned flags;
    size_t found;
    unsigned owner[SLAB];
    struct window_key name[SLAB]; /* of the index, then of the value */
    struct window_entry entry[SLAB];
    struct ddict_want ask[SLAB + 1];
    uint32_t of[SLAB]; /* ask[i] is for want[of[i]] */
    uint8_t alone[SLAB];
};

static void ask_add(struct slab *s, uint32_t i, const void *key, size_t klen) {
    s->of[s->nask] = i;
    s->ask[s->nask++] = (struct ddict_want){.key = key, .klen = klen};
}

static void names_free(struct slab *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        window_key_free(&s->name[i]);
        s->name[i].at = s->name[i].room;
    }
}

/* Ask for the indexes, and the window. */
static int indexes_read(struct slab *s) {
    s->nask = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        struct ddict_want *w = &s->want[i];
        s->name[i].at = s->name[i].room;
        s->alone[i] = 0;
        w->view.kind_ = 0;
        w->status = 0;
        if (!window_has(s->c.s, w->key, w->klen) || key_check(w->klen) < 0 ||
            w->klen > WINDOW_KEY_MAX) {
            s->alone[i] = 1;
            continue;
        }
        s->owner[i] = deal_owner(&s->c.s->deal, w->key, w->klen, key_hash(w->key, w->klen));
        int rc = window_item_key(&s->name[i], s->owner[i], WINDOW_INDEX, NULL, 0, w->key, w->klen);
        if (rc < 0)
            return rc;
        ask_add(s, i, s->name[i].at, s->name[i].len);
    }
    s->ask[s->nask] = (struct ddict_want){.key = WINDOW_KEY, .klen = WINDOW_LEN};
    ssize_t got = ddict_get_many(s->c.d, s->ask, s->nask + 1, 0, window_left_ms(&s->c));
    if (got < 0)
        return (int)got;
    int rc = window_state_take(&s->c, &s->ask[s->nask]);
    bool all = true;
    for (uint32_t k = 0; k < s->nask; k++)
        all &= s->ask[k].status != DDICT_ENOKEY &&
               (s->ask[k].status < 0 || s->ask[k].view.len > sizeof(struct window_index));
    if (rc == 0 && !all) /* as window_look() */
        rc = window_state_look(&s->c);
    for (uint32_t k = 0; rc < 0 && k < s->nask; k++)
        if (s->ask[k].status == 0)
            ddict_release(&s->ask[k].view);
    return rc;
}

/* See what each key has, and where its value is. 0, or a negative code of the whole call. */
static int index_judge(struct slab *s, uint32_t i, struct ddict_want *index) {
    const struct window_entry *e;
    struct window_call *c = &s->c;
    int rc = window_index_take(c, index);
    if (rc < 0) {
        s->want[i].status = rc;
        return 0;
    }
    c->key = s->want[i].key;
    c->klen = s->want[i].klen;
    c->owner = s->owner[i];
    if (c->state.oldest > c->checkpoint || (c->x && c->x->floor > c->checkpoint))
        return window_retired(c);
    enum window_seen is = window_see(c, &e);
    s->alone[i] = window_must_raise(c) || is == WINDOW_AWAITED ||
                  (is == WINDOW_ABSENT && s->flags & DDICT_WAIT);
    if (s->alone[i])
        return 0;
    if (is == WINDOW_ABSENT) {
        s->want[i].status = dd_error_plain(DDICT_ENOKEY);
        return 0;
    }
    s->entry[i] = *e;
    window_key_free(&s->name[i]);
    s->name[i].at = s->name[i].room;
    if ((rc = window_value_key(c, e, &s->name[i])) < 0)
        return rc;
    ask_add(s, i, s->name[i].at, s->name[i].len);
    return 0;
}

static int indexes_judge(struct slab *s) {
    uint32_t n = s->nask;
    int rc = 0;
    s->nask = 0;
    for (uint32_t k = 0; k < n; k++) {
        struct ddict_want index = s->ask[k];
        if (rc == 0)
            rc = index_judge(s, s->of[k], &index); /* at most k were asked for so far */
        else if (index.status == 0)
            ddict_release(&index.view);
    }
    return rc;
}

static int values_read(struct slab *s) {
    ssize_t got = ddict_get_many(s->c.d, s->ask, s->nask, 0, window_left_ms(&s->c));
    if (got < 0)
        return (int)got;
    for (uint32_t k = 0; k < s->nask; k++) {
        uint32_t i = s->of[k];
        struct ddict_want *w = &s->want[i];
        w->status = s->ask[k].status;
        w->view = s->ask[k].view;
        w->view.version = s->entry[i].version;
        s->found += w->status == 0;
        s->alone[i] = w->status == DDICT_ENOKEY; /* W5 */
    }
    return 0;
}

static int slab_get(struct slab *s) {
    int rc = indexes_read(s);
    if (rc == 0)
        rc = indexes_judge(s);
    if (rc == 0)
        rc = values_read(s);
    names_free(s);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < s->n; i++) {
        struct ddict_want *w = &s->want[i];
        if (!s->alone[i])
            continue;
        w->status = ddict_view(s->c.d, w->key, w->klen, &w->view, s->flags, window_left_ms(&s->c));
        s->found += w->status == 0;
        if (!(s->flags & DDICT_WAIT) && w->status != -ETIMEDOUT)
            call_deadline_renew(&s->c.w);
    }
    return 0;
}

ssize_t window_get_many(ddict_t *d, struct ddict_want *wants, size_t n, unsigned flags,
                        int timeout_ms) {
    struct slab *s = calloc(1, sizeof *s);
    int rc = s ? 0 : dd_error(-ENOMEM, "no memory for a get of many");
    if (rc == 0 && (rc = session_enter(d, &s->c.s, timeout_ms)) == 0) {
        s->c.d = d;
        s->flags = flags;
        s->c.checkpoint = __atomic_load_n(&d->checkpoint, __ATOMIC_RELAXED);
        s->c.timeout_ms = session_wait_ms(s->c.s, flags, timeout_ms);
        call_deadline_init(&s->c.w, s->c.s, s->c.timeout_ms);
    }
    for (size_t at = 0; rc == 0 && at < n; at += SLAB) {
        s->want = wants + at;
        s->n = n - at < SLAB ? (uint32_t)(n - at) : SLAB;
        if ((rc = slab_get(s)) == 0 && !(flags & DDICT_WAIT))
            call_deadline_renew(&s->c.w);
        for (size_t i = at; rc < 0 && i < n; i++)
            wants[i] =
                (struct ddict_want){.key = wants[i].key, .klen = wants[i].klen, .status = rc};
    }
    ssize_t found = s ? (ssize_t)s->found : 0;
    if (s)
        ddict_release(&s->c.index);
    free(s);
    return rc < 0 && found == 0 ? rc : found;
}
