/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window_put_many.c - many puts at the checkpoint of a handle, step by step for a slab of keys: all
 * indexes are read, with the window; those that are missing are made; all values are stored; all indexes
 * are written; what no index names any more is removed. A key of which something else comes between is
 * put by itself.
 */
#include "window_ask.h"
#include "window_wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLAB 256u

enum stage { ALONE, READ, MADE, STORED, WRITTEN, OVER };

struct one {
    struct ddict_pair *pair;
    enum stage stage;
    bool made;     /* its index, which is empty until then; index.version is that one's */
    bool replaced; /* the index is, by that of `edit`; perhaps it was withdrawn since */
    uint64_t hash;
    unsigned owner;
    struct window_key name, value; /* of its index, and of the new value */
    struct ddict_view index;
    struct iovec iov;
    struct window_change g;
    struct window_edit edit;
};
struct slab {
    struct window_call c; /* on one key after the other */
    uint32_t n, nask;
    struct one one[SLAB];
    struct one *of[SLAB]; /* ask[i], want[i] and store[i] are for this one */
    struct ddict_want want[SLAB + 1];
    struct ddict_pair store[SLAB];
    struct window_ask ask[SLAB];
    struct window_key gone[SLAB]; /* values that no index names any more */
};

/* --- a slab --- */

static void one_end(struct one *o) {
    ddict_release(&o->index);
    window_edit_end(&o->edit);
    window_key_free(&o->name);
    window_key_free(&o->value);
}

/* 0; or a negative code, and it is OVER. */
static int one_begin(struct slab *s, struct one *o, struct ddict_pair *p, uint64_t hash) {
    struct msg head;
    memset(o, 0, offsetof(struct one, name));
    memset(&o->index, 0, sizeof *o - offsetof(struct one, index));
    o->name.at = o->name.room;
    o->value.at = o->value.room;
    o->pair = p;
    o->hash = hash;
    o->stage = ALONE;
    p->status = 0;
    if (!window_has(s->c.s, p->key, p->klen) || key_check(p->klen) < 0 ||
        p->klen > WINDOW_KEY_MAX || put_head(&head, 0, p->klen, p->vlen, p->flags) < 0)
        return 0;
    o->owner = deal_owner(&s->c.s->deal, p->key, p->klen, hash);
    o->iov = (struct iovec){.iov_base = (void *)(uintptr_t)p->val, .iov_len = p->vlen};
    o->g = (struct window_change){
        .iov = &o->iov, .n = 1, .length = p->vlen, .flags = p->flags, .judge = window_put_judge};
    o->stage = READ;
    return window_item_key(&o->name, o->owner, WINDOW_INDEX, NULL, 0, p->key, p->klen);
}

/* Begin with as many pairs as there are, up to the first key that comes again. */
static int slab_begin(struct slab *s, struct ddict_pair *pairs, size_t n) {
    s->n = 0;
    for (; s->n < SLAB && s->n < n; s->n++) {
        struct ddict_pair *p = &pairs[s->n];
        uint64_t hash = key_check(p->klen) < 0 ? 0 : key_hash(p->key, p->klen);
        for (uint32_t i = 0; i < s->n; i++)
            if (s->one[i].hash == hash)
                return 0;
        int rc = one_begin(s, &s->one[s->n], p, hash);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void slab_end(struct slab *s) {
    for (uint32_t i = 0; i < s->n; i++)
        one_end(&s->one[i]);
    s->n = 0;
}

/* The call is on this key, and has its index, which stays this one's. */
static struct window_call *call_on(struct slab *s, struct one *o) {
    struct window_call *c = &s->c;
    c->key = o->pair->key;
    c->klen = o->pair->klen;
    c->owner = o->owner;
    c->index = o->index;
    c->x = o->index.kind_ ? window_index_read(o->index.data, o->index.len) : NULL;
    return c;
}

static void one_fail(struct one *o, int rc) {
    o->pair->status = rc;
    o->stage = OVER;
}

/* The asks are of those that are at this stage. */
static void asks_of(struct slab *s, enum stage stage) {
    s->nask = 0;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->one[i].stage == stage)
            s->of[s->nask++] = &s->one[i];
}

/* --- the steps --- */

static int indexes_read(struct slab *s) {
    struct window_call *c = &s->c;
    asks_of(s, READ);
    for (uint32_t i = 0; i < s->nask; i++)
        s->want[i] = (struct ddict_want){.key = s->of[i]->name.at, .klen = s->of[i]->name.len};
    s->want[s->nask] = (struct ddict_want){.key = WINDOW_KEY, .klen = WINDOW_LEN};
    ssize_t got = ddict_get_many(c->d, s->want, s->nask + 1, 0, window_left_ms(c));
    if (got < 0)
        return (int)got;
    int rc = window_state_take(c, &s->want[s->nask]);
    for (uint32_t i = 0; i < s->nask; i++) {
        struct one *o = s->of[i];
        if (s->want[i].status == 0)
            o->index = s->want[i].view;
        if (s->want[i].status != 0 && s->want[i].status != DDICT_ENOKEY)
            one_fail(o, s->want[i].status);
        else if (s->want[i].status == 0 && !window_index_read(o->index.data, o->index.len))
            o->stage = ALONE;
    }
    return rc;
}

/* W3: those that have no index get an empty one; where one is empty the window is read after that. */
static int indexes_make(struct slab *s) {
    const struct window_index none = {.floor = s->c.state.oldest};
    uint32_t n = 0;
    bool fresh = false;
    asks_of(s, READ);
    for (uint32_t i = 0; i < s->nask; i++) {
        struct one *o = s->of[i];
        o->stage = MADE;
        fresh |= !o->index.kind_ || o->index.len <= sizeof none;
        if (o->index.kind_)
            continue;
        window_ask_put_if(&s->ask[n], s->c.s, o->owner, &o->name, &none, sizeof none, 0);
        s->of[n++] = o;
    }
    window_ask_all(s->ask, n, &s->c.w);
    for (uint32_t i = 0; i < n; i++) {
        int rc = s->ask[i].rc;
        s->of[i]->made = rc == 0;
        if (rc == 0)
            s->of[i]->index.version = window_ask_version(&s->ask[i]);
        else if (change_is_unsure(rc))
            one_fail(s->of[i], rc);
        else
            s->of[i]->stage = ALONE;
    }
    return fresh ? window_state_look(&s->c) : 0;
}

/* Whether what is seen allows the put, at once. */
static bool one_may(struct slab *s, struct one *o) {
    const struct window_entry *e;
    struct window_call *c = call_on(s, o);
    if (c->state.oldest > c->checkpoint || (c->x && c->x->floor > c->checkpoint))
        return false;
    if (window_see(c, &e) != WINDOW_FOUND)
        e = NULL;
    return window_put_judge(c, &o->g, e) == 0;
}

static int values_store(struct slab *s) {
    uint32_t n = 0;
    asks_of(s, MADE);
    for (uint32_t i = 0; i < s->nask; i++) {
        struct one *o = s->of[i];
        if (!one_may(s, o)) {
            o->stage = ALONE;
            continue;
        }
        int rc = window_change_name(&s->c, &o->g, &o->value);
        if (rc < 0)
            return rc;
        s->store[n] = (struct ddict_pair){.key = o->value.at,
                                          .klen = o->value.len,
                                          .val = o->pair->val,
                                          .vlen = o->pair->vlen,
                                          .flags = DDICT_TAG(o->g.put.tag)};
        s->of[n++] = o;
    }
    ssize_t stored = n > 0 ? ddict_put_many(s->c.d, s->store, n, window_left_ms(&s->c)) : 0;
    for (uint32_t i = 0; i < n; i++) {
        int rc = s->store[i].status;
        s->of[i]->g.stored = rc == 0 || change_is_unsure(rc);
        s->of[i]->stage = STORED;
        if (rc < 0 || stored < 0)
            one_fail(s->of[i], rc < 0 ? rc : (int)stored);
    }
    return 0;
}

static int indexes_edit(struct slab *s) {
    asks_of(s, STORED);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->nask; i++) {
        struct one *o = s->of[i];
        struct window_call *c = call_on(s, o);
        if (window_edit_begin(&o->edit, c->x, c->state.oldest, window_keeps(c->s)) < 0)
            return dd_error(-ENOMEM, "no memory for the index of a key");
        window_change_edit(c, &o->g, &o->edit);
        size_t size = window_index_size(o->edit.now->n);
        if (size > WINDOW_ASK_MAX) {
            o->stage = ALONE;
            continue;
        }
        window_ask_put_if(&s->ask[n], s->c.s, o->owner, &o->name, o->edit.now, size,
                          o->index.version);
        s->of[n++] = o;
    }
    s->nask = n;
    return 0;
}

static int indexes_write(struct slab *s) {
    int rc = indexes_edit(s);
    if (rc < 0)
        return rc;
    call_deadline_renew(&s->c.w);
    window_ask_all(s->ask, s->nask, &s->c.w);
    for (uint32_t i = 0; i < s->nask; i++) {
        struct one *o = s->of[i];
        rc = s->ask[i].rc;
        o->g.unknown = change_is_unsure(rc);
        o->replaced = rc == 0;
        o->stage = rc == 0 ? WRITTEN : rc == DDICT_ECHANGED ? ALONE : OVER;
        if (o->stage == OVER)
            o->pair->status = rc;
    }
    return 0;
}

/* --- one by itself --- */

/* Its value may be stored already. */
static int one_put(struct slab *s, struct one *o) {
    struct ddict_pair *p = o->pair;
    struct window_call c;
    if (!o->g.judge) /* it has no checkpoints, or is wrong */
        return ddict_put(s->c.d, p->key, p->klen, p->val, p->vlen, p->flags, s->c.timeout_ms);
    int rc = window_call_begin(&c, s->c.d, p->key, p->klen, 0, s->c.timeout_ms);
    if (rc < 0)
        return rc;
    c.checkpoint = s->c.checkpoint;
    rc = window_change(&c, &o->g);
    window_call_end(&c);
    return rc;
}

static void alone_put(struct slab *s, struct one *o) {
    o->pair->status = one_put(s, o);
    o->g.stored = false; /* it was seen to */
    o->stage = OVER;
    if (o->pair->status != -ETIMEDOUT)
        call_deadline_renew(&s->c.w);
}

/* Where the window waits for something, whether the puts came in time (window_confirm()). */
static int writes_confirm(struct slab *s) {
    struct window_call c;
    asks_of(s, WRITTEN);
    int rc = s->c.s->working_flags && s->nask > 0 ? window_state_look(&s->c) : 0;
    bool in_time = s->c.state.oldest < s->c.checkpoint ||
                   (s->c.state.oldest == s->c.checkpoint && !s->c.state.closing);
    if (rc < 0 || !s->c.s->working_flags || in_time)
        return rc;
    for (uint32_t i = 0; i < s->nask; i++) {
        struct one *o = s->of[i];
        rc = window_call_begin(&c, s->c.d, o->pair->key, o->pair->klen, 0, s->c.timeout_ms);
        if (rc == 0) {
            c.checkpoint = s->c.checkpoint;
            rc = window_confirm(&c, &o->g);
            window_call_end(&c);
        }
        if (rc < 0)
            one_fail(o, rc);
    }
    return 0;
}

/* --- what is left over --- */

static void gone_remove(struct slab *s) {
    struct call_deadline w;
    int left = window_left_ms(&s->c);
    call_deadline_init(&w, s->c.s, left > WINDOW_TIDY_MS ? left : WINDOW_TIDY_MS);
    window_ask_all(s->ask, s->nask, &w);
    for (uint32_t i = 0; i < s->nask; i++)
        window_key_free(&s->gone[i]);
    s->nask = 0;
}

static void gone_add(struct slab *s, struct one *o, const struct window_entry *e) {
    if (s->nask == SLAB)
        gone_remove(s);
    struct window_key *k = &s->gone[s->nask];
    if (window_value_key(call_on(s, o), e, k) == 0)
        window_ask_del(&s->ask[s->nask++], s->c.s, o->owner, k);
}

/* An index that was made for a put that failed. */
static void made_remove(struct slab *s, struct one *o) {
    if (o->made && o->stage == OVER && !change_is_unsure(o->pair->status))
        ddict_del_if(s->c.d, o->name.at, o->name.len, o->index.version, window_left_ms(&s->c));
}

static void slab_tidy(struct slab *s) {
    s->nask = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        struct one *o = &s->one[i];
        for (uint32_t k = 0; o->replaced && k < o->edit.ndropped; k++)
            gone_add(s, o, &o->edit.dropped[k]);
        if (o->stage == WRITTEN && o->g.kept)
            gone_add(s, o, &o->g.before);
        if (o->stage == OVER && o->g.stored && !o->g.unknown)
            gone_add(s, o, &o->g.put);
    }
    if (s->nask > 0)
        gone_remove(s);
    for (uint32_t i = 0; i < s->n; i++)
        made_remove(s, &s->one[i]);
}

/* --- the call --- */

static void indexes_drop(struct slab *s) {
    for (uint32_t i = 0; i < s->n; i++)
        ddict_release(&s->one[i].index);
}

/* Read all, until the window has the checkpoint: the first put makes it one of the window. */
static int slab_read(struct slab *s) {
    struct window_call *c = &s->c;
    for (;;) {
        int rc = indexes_read(s);
        asks_of(s, READ);
        if (rc < 0 || s->nask == 0)
            return rc;
        if (c->state.oldest > c->checkpoint)
            return window_retired(c);
        bool ahead = c->checkpoint > window_newest(c);
        if (!ahead && (rc = window_open(c)) != DDICT_ECHANGED)
            return rc;
        indexes_drop(s);
        if (!ahead)
            continue;
        alone_put(s, s->of[0]);
        if (change_is_unsure(s->of[0]->pair->status))
            return -ECANCELED;
    }
}

static void slab_put(struct slab *s) {
    int rc = window_mark(&s->c);
    if (rc < 0 || (rc = slab_read(s)) < 0 || (rc = indexes_make(s)) < 0 ||
        (rc = values_store(s)) < 0 || (rc = indexes_write(s)) < 0 || (rc = writes_confirm(s)) < 0) {
        for (uint32_t i = 0; i < s->n; i++) {
            struct one *o = &s->one[i];
            o->g.unknown |= o->stage == WRITTEN; /* whether it came in time */
            if (o->stage != OVER && o->stage != ALONE)
                one_fail(o, rc);
        }
    }
    slab_tidy(s);
    for (uint32_t i = 0; i < s->n; i++)
        if (s->one[i].stage == ALONE)
            alone_put(s, &s->one[i]);
}

/* Whether those after this slab are put, too: all of its managers have answered. */
static bool slab_count(const struct slab *s, size_t *stored) {
    bool on = true;
    for (uint32_t i = 0; i < s->n; i++) {
        *stored += s->one[i].pair->status == 0;
        on &= !change_is_unsure(s->one[i].pair->status);
    }
    return on;
}

ssize_t window_put_many(ddict_t *d, struct ddict_pair *pairs, size_t n, int timeout_ms) {
    struct slab *s = calloc(1, sizeof *s);
    size_t stored = 0, i = 0;
    bool on = true;
    int rc = s ? 0 : dd_error(-ENOMEM, "no memory for a put of many");
    if (rc == 0 && (rc = session_enter(d, &s->c.s, timeout_ms)) == 0) {
        s->c.d = d;
        s->c.checkpoint = __atomic_load_n(&d->checkpoint, __ATOMIC_RELAXED);
        s->c.timeout_ms = timeout_ms;
        call_deadline_init(&s->c.w, s->c.s, timeout_ms);
    }
    for (; rc == 0 && i < n && on; i += s->n) {
        slab_end(s);
        if ((rc = slab_begin(s, pairs + i, n - i)) < 0)
            break;
        slab_put(s);
        on = slab_count(s, &stored);
        call_deadline_renew(&s->c.w);
    }
    for (; i < n; i++)
        pairs[i].status = rc < 0 ? rc : -ECANCELED;
    if (s)
        slab_end(s);
    free(s);
    if (rc < 0 && stored == 0)
        return rc;
    return n > 0 && stored == 0 && pairs[0].status == DDICT_ERETIRED ? DDICT_ERETIRED
                                                                     : (ssize_t)stored;
}
