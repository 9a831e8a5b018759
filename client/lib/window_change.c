/* SPDX-License-Identifier: Apache-2.0 */
/* window_change.c - calls that change one key of a working set: put, del, pop. */
#include "window_change.h"

#include "window_sweep.h"
#include "window_wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- the index --- */

void window_value_remove(struct window_call *c, const struct window_entry *e) {
    struct window_key k;
    int left = window_left_ms(c);
    if (window_value_key(c, e, &k) < 0)
        return;
    ddict_del(c->d, k.at, k.len, left > WINDOW_TIDY_MS ? left : WINDOW_TIDY_MS);
    window_key_free(&k);
}

int window_commit(struct window_call *c, struct window_edit *e) {
    size_t size = window_index_size(e->now->n);
    int rc = e->now->n == 0 ? ddict_del_if(c->d, c->index_key.at, c->index_key.len,
                                           c->index.version, window_left_ms(c))
                            : ddict_put_if(c->d, c->index_key.at, c->index_key.len, e->now, size, 0,
                                           c->index.version, NULL, window_left_ms(c));
    for (uint32_t i = 0; rc == 0 && i < e->ndropped; i++)
        window_remove_later(c, &e->dropped[i]);
    return rc;
}

/* An empty index, so that the window is read after there is one (W3). */
static int index_create(struct window_call *c) {
    const struct window_index none = {.floor = c->state.oldest};
    uint64_t version;
    int rc = ddict_put_if(c->d, c->index_key.at, c->index_key.len, &none, sizeof none, 0, 0,
                          &version, window_left_ms(c));
    c->made = rc == 0 ? version : 0;
    return rc;
}

/* --- the value --- */

int window_change_name(struct window_call *c, struct window_change *g, struct window_key *k) {
    g->put = (struct window_entry){.checkpoint = c->checkpoint,
                                   .length = g->length,
                                   .client = c->s->client,
                                   .number = __atomic_add_fetch(&c->d->values, 1, __ATOMIC_RELAXED),
                                   .node = c->s->node_id,
                                   .tag = (uint8_t)DDICT_TAG_OF(g->flags),
                                   .flags = g->flags & DDICT_PERSISTENT ? WINDOW_PERSISTENT : 0};
    return window_value_key(c, &g->put, k);
}

/* Whatever the index has, this put will most likely want the value: send it meanwhile. */
static void value_begin(struct window_call *c, struct window_change *g) {
    struct window_key k;
    if (g->removes || g->stored || g->judge != window_put_judge || c->timeout_ms == 0 ||
        g->flags & (DDICT_NEW | DDICT_EXISTING) || g->length > WINDOW_ASK_MAX ||
        window_change_name(c, g, &k) < 0)
        return;
    window_ask_put(&g->ask, c->s, c->owner, &k, g->iov, g->n, g->put.tag);
    g->asked = true;
    window_ask_send(&g->ask, &c->w);
    window_key_free(&k);
}

static int value_await(struct window_call *c, struct window_change *g) {
    int rc = window_ask_wait(&g->ask, &c->w);
    g->asked = false;
    g->stored = rc == 0 || change_is_unsure(rc);
    return rc;
}

static int value_store(struct window_call *c, struct window_change *g) {
    struct window_key k;
    if (g->asked)
        return value_await(c, g);
    int rc = window_change_name(c, g, &k);
    if (rc < 0)
        return rc;
    int left = window_left_ms(c);
    rc = ddict_putv(c->d, k.at, k.len, g->iov, g->n, DDICT_TAG(g->put.tag), left);
    window_key_free(&k);
    g->stored = rc == 0 || (left > 0 && change_is_unsure(rc));
    return rc;
}

/* The change was not made: remove what was stored for it. Keeps the sentence. */
static int change_undo(struct window_call *c, struct window_change *g, int rc) {
    char text[DD_ERRMSG_MAX];
    memcpy(text, dd_errmsg(), strlen(dd_errmsg()) + 1);
    if (g->asked)
        value_await(c, g);
    if (g->stored)
        window_value_remove(c, &g->put);
    if (c->x && c->x->n == 0 && window_left_ms(c) > 0)
        ddict_del_if(c->d, c->index_key.at, c->index_key.len, c->index.version, window_left_ms(c));
    return dd_error(rc, "%s", text);
}

/* --- the change --- */

/* Refuse by what is seen, which has to stand (W4). */
static int change_refuse(struct window_call *c, struct window_change *g) {
    int rc = window_raise(c);
    g->refused = rc == 0;
    return rc < 0 ? rc : dd_error_plain(g->refusal);
}

bool window_change_is_awaited(const struct window_call *c, const struct window_change *g) {
    return c->s->working_flags & DDICT_WAIT_FOR_KEYS && !g->removes &&
           !(g->put.flags & WINDOW_PERSISTENT);
}

void window_change_edit(struct window_call *c, struct window_change *g, struct window_edit *e) {
    const struct window_entry *is = window_index_at(e->now, c->checkpoint);
    g->had = is != NULL;
    if (is)
        g->before = *is;
    g->put.version = c->index.version;
    if (g->removes) {
        window_edit_remove(e, c->checkpoint, c->index.version);
        return;
    }
    uint32_t others = e->ndropped;
    window_edit_put(e, &g->put);
    g->kept = e->ndropped > others && window_change_is_awaited(c, g);
    if (g->kept)
        e->ndropped = others;
}

static int change_write(struct window_call *c, struct window_change *g) {
    struct window_edit e;
    int rc;
    if (!g->removes && !c->x)
        return (rc = index_create(c)) < 0 ? rc : DDICT_ECHANGED;
    if (!g->removes && !g->stored && (rc = value_store(c, g)) < 0)
        return rc;
    if (window_edit_begin(&e, c->x, c->state.oldest, window_keeps(c->s)) < 0)
        return dd_error(-ENOMEM, "no memory for the index of a key");
    window_change_edit(c, g, &e);
    bool sent = window_left_ms(c) > 0;
    rc = sent ? window_commit(c, &e) : dd_error(-ETIMEDOUT, "no time was left for the change");
    g->unknown = sent && change_is_unsure(rc);
    const struct window_entry *is = window_index_at(e.now, c->checkpoint);
    g->marked = g->removes && is && is->flags & WINDOW_REMOVED;
    window_edit_end(&e);
    return rc;
}

static int change_once(struct window_call *c, struct window_change *g) {
    const struct window_entry *e;
    int rc = window_look(c);
    if (rc < 0 || (rc = window_open(c)) < 0)
        return rc;
    enum window_seen is = window_see(c, &e);
    if (g->removes && g->waits && is == WINDOW_AWAITED)
        return (rc = window_await(c, g->flags)) < 0 ? rc : DDICT_ECHANGED;
    if (is != WINDOW_FOUND)
        e = NULL;
    if (c->checkpoint > window_newest(c) && !(g->removes && !e))
        return (rc = window_advance(c)) < 0 ? rc : DDICT_ECHANGED;
    if (g->judge && (rc = g->judge(c, g, e)) != 0)
        return rc == WINDOW_REFUSED ? change_refuse(c, g) : rc;
    return change_write(c, g);
}

int window_change(struct window_call *c, struct window_change *g) {
    int rc = window_mark(c);
    if (rc < 0)
        return rc;
    value_begin(c, g);
    do
        rc = change_once(c, g);
    while (rc == DDICT_ECHANGED && !g->refused);
    if (rc == 0)
        rc = window_confirm(c, g);
    if (rc == 0 && g->marked)
        window_sweep_later(c);
    if (rc == 0)
        window_sweep_next(c);
    return rc < 0 && !g->unknown ? change_undo(c, g, rc) : rc;
}

/* --- the calls --- */

int window_put_judge(struct window_call *c, struct window_change *g, const struct window_entry *e) {
    (void)c;
    g->refusal = e ? DDICT_EEXISTS : DDICT_ENOKEY;
    return (e && g->flags & DDICT_NEW) || (!e && g->flags & DDICT_EXISTING) ? WINDOW_REFUSED : 0;
}

int window_put(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
               unsigned flags, int timeout_ms) {
    struct window_call c;
    struct window_change g = {.iov = iov, .n = n, .flags = flags, .judge = window_put_judge};
    struct msg head;
    int rc;
    if ((rc = pieces_length(iov, n, &g.length)) < 0 ||
        (rc = put_head(&head, 0, klen, g.length, flags)) < 0 ||
        (rc = window_call_begin(&c, d, key, klen, 0, timeout_ms)) < 0)
        return rc;
    rc = window_change(&c, &g);
    window_call_end(&c);
    return rc;
}

int window_absent_judge(struct window_call *c, struct window_change *g,
                        const struct window_entry *e) {
    (void)c;
    g->refusal = DDICT_ENOKEY;
    return e ? 0 : WINDOW_REFUSED;
}

int window_del(ddict_t *d, const void *key, size_t klen, int timeout_ms) {
    struct window_call c;
    struct window_change g = {.removes = true, .waits = true, .judge = window_absent_judge};
    int rc = window_call_begin(&c, d, key, klen, 0, timeout_ms);
    if (rc < 0)
        return rc;
    rc = window_change(&c, &g);
    window_call_end(&c);
    return rc;
}

/* Have the value in a view before it is removed. */
static int pop_judge(struct window_call *c, struct window_change *g, const struct window_entry *e) {
    int rc;
    ddict_release(g->view);
    if (!e && g->flags & DDICT_WAIT)
        return (rc = window_await(c, g->flags)) < 0 ? rc : DDICT_ECHANGED;
    if (!e) {
        g->refusal = DDICT_ENOKEY;
        return WINDOW_REFUSED;
    }
    return window_value_view(c, e, g->view);
}

int window_pop(ddict_t *d, const void *key, size_t klen, struct ddict_view *v, unsigned flags,
               int timeout_ms) {
    struct window_call c;
    struct window_change g = {
        .removes = true, .waits = true, .flags = flags, .judge = pop_judge, .view = v};
    v->kind_ = 0;
    if (flags & ~(DDICT_WAIT | DDICT_SURE))
        return dd_error(-EINVAL, "pop with unknown flags 0x%x", flags);
    int rc = window_call_begin(&c, d, key, klen, flags, timeout_ms);
    if (rc < 0)
        return rc;
    rc = window_change(&c, &g);
    if (rc == -ETIMEDOUT && !g.unknown && flags & DDICT_WAIT && flags & DDICT_SURE)
        rc = dd_error_plain(DDICT_ENOKEY);
    if (rc < 0)
        ddict_release(v);
    window_call_end(&c);
    return rc;
}
