/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window_wait.c - how the window moves on. Where it waits for keys or writers, one checkpoint at a time:
 * W is set to `closing`, and all is looked at. Who writes at the oldest checkpoint and then finds W
 * closing opens it (window_confirm()), and that makes the put_if of the next W fail. So nothing is
 * written there between the look and the end. If something is missing, W is opened again, and all is
 * awaited; then it is looked at once more, since what came first may have changed since.
 */
#include "window_wait.h"

#include "persist.h"
#include "window_change.h"
#include "window_list.h"

#include <errno.h>
#include <string.h>

#define NAME_SHOWN 64 /* bytes of a key in a sentence */

/* Put next in the place of W as it was read. DDICT_ECHANGED: it is another one. */
static int state_put(struct window_call *c, uint64_t oldest, bool closing) {
    const struct window_state next = {.oldest = oldest, .closing = closing};
    int rc = ddict_put_if(c->d, WINDOW_KEY, WINDOW_LEN, &next, sizeof next, 0, c->state_version,
                          &c->state_version, window_left_ms(c));
    if (rc == 0)
        c->state = next;
    return rc;
}

/* --- keys --- */

/* Whether a checkpoint cannot be retired for this key: it has it, and the next one does not. */
static bool key_is_due(const struct window_index *x, uint64_t oldest) {
    const struct window_entry *e = window_index_at(x, oldest);
    if (!e || e->checkpoint != oldest || e->flags & (WINDOW_REMOVED | WINDOW_PERSISTENT))
        return false;
    const struct window_entry *next = window_index_at(x, oldest + 1);
    return next == e;
}

static int key_await(struct window_call *c, const struct window_call *of) {
    struct window_call k;
    uint64_t oldest = c->state.oldest;
    int rc = window_call_begin(&k, c->d, of->key, of->klen, 0, c->timeout_ms);
    if (rc < 0)
        return rc;
    k.checkpoint = oldest;
    k.w = c->w;
    while ((rc = window_look(&k)) == 0 && k.state.oldest == oldest && key_is_due(k.x, oldest)) {
        int left = window_left_ms(&k);
        rc = left == 0 ? -ETIMEDOUT
                       : ddict_wait_change(c->d, k.index_key.at, k.index_key.len, k.index.version,
                                           NULL, left < WINDOW_SLICE_MS ? left : WINDOW_SLICE_MS);
        if (rc == -ETIMEDOUT && left <= WINDOW_SLICE_MS) {
            dd_error(rc,
                     "checkpoint %llu cannot be retired: the key %.*s has no value at checkpoint "
                     "%llu yet",
                     (unsigned long long)oldest, (int)(k.klen < NAME_SHOWN ? k.klen : NAME_SHOWN),
                     (const char *)k.key, (unsigned long long)oldest + 1);
            break;
        }
        if (rc < 0 && rc != -ETIMEDOUT)
            break;
    }
    window_call_end(&k);
    return rc == DDICT_ERETIRED ? DDICT_ECHANGED : rc;
}

static int keys_came(struct window_call *c, bool waits) {
    struct window_list *l;
    struct window_call *of;
    int rc = window_list_open(c->d, -1, NULL, 0, &l, c->timeout_ms);
    if (rc < 0)
        return rc;
    while ((rc = window_list_next(l, &of)) > 0) {
        rc = !key_is_due(of->x, c->state.oldest) ? 0 : waits ? key_await(c, of) : WINDOW_DUE;
        if (rc != 0)
            break;
    }
    window_list_close(l);
    return rc;
}

/* --- writers --- */

/* The manager that has the window has the marks, too. */
static unsigned marks_owner(const struct session *s) {
    return deal_owner(&s->deal, WINDOW_KEY, WINDOW_LEN, key_hash(WINDOW_KEY, WINDOW_LEN));
}

/* The mark of a key: *last, 0 if there is none (any more), is the checkpoint + 1. */
static int mark_read(struct window_call *c, const void *key, size_t klen, uint64_t *last,
                     uint64_t *version) {
    struct ddict_want w = {.key = key, .klen = klen};
    *last = *version = 0;
    ssize_t n = ddict_get_many(c->d, &w, 1, 0, window_left_ms(c));
    if (n < 0 || (w.status < 0 && w.status != DDICT_ENOKEY))
        return n < 0 ? (int)n : w.status;
    if (w.status < 0)
        return 0;
    if (w.view.len == sizeof *last)
        memcpy(last, w.view.data, sizeof *last);
    *version = w.view.version;
    ddict_release(&w.view);
    return 0;
}

/* 0: the writer is not awaited, or not any more; WINDOW_DUE: it is. */
static int writer_came(struct window_call *c, const void *key, size_t klen, bool waits) {
    struct ddict_client who;
    uint64_t last, version;
    memcpy(&who, (const uint8_t *)key + klen - sizeof who, sizeof who);
    for (;;) {
        int rc = mark_read(c, key, klen, &last, &version);
        if (rc < 0 || last != c->state.oldest + 1)
            return rc;
        rc = ddict_alive(c->d, who, window_left_ms(c));
        if (rc == -EINVAL) /* no client of this dictionary has that name */
            rc = 0;
        if (rc == 0)
            ddict_del_if(c->d, key, klen, version, window_left_ms(c));
        if (rc <= 0)
            return rc;
        if (!waits)
            return WINDOW_DUE;
        int left = window_left_ms(c), slice = left < WINDOW_SLICE_MS ? left : WINDOW_SLICE_MS;
        rc = slice == 0 ? -ETIMEDOUT : ddict_wait_change(c->d, key, klen, version, NULL, slice);
        if (rc == -ETIMEDOUT && slice == left)
            return dd_error(
                rc,
                "checkpoint %llu cannot be retired: client %llu of node %llu wrote at it, "
                "and has not gone on yet",
                (unsigned long long)c->state.oldest, (unsigned long long)who.id,
                (unsigned long long)who.node);
        if (rc < 0 && rc != -ETIMEDOUT)
            return rc;
    }
}

static int writers_came(struct window_call *c, bool waits) {
    struct window_key k;
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    unsigned m = marks_owner(c->s);
    int rc = window_item_key(&k, m, WINDOW_MARK, NULL, 0, NULL, 0);
    if (rc == 0)
        rc = ddict_iter_open_flags(c->d, (int)m, k.at, k.len, DDICT_ITER_HIDDEN, &it,
                                   window_left_ms(c));
    if (rc < 0)
        return rc;
    while ((rc = ddict_iter_next(it, &key, &klen)) > 0)
        if (klen == k.len + sizeof(struct ddict_client) &&
            (rc = writer_came(c, key, klen, waits)) != 0)
            break;
    ddict_iter_close(it);
    window_key_free(&k);
    return rc;
}

static int mark_at(struct window_call *c, uint64_t checkpoint) {
    struct window_key k;
    const struct ddict_client me = {.node = c->s->node_id, .id = c->s->client};
    uint64_t last, version, next = checkpoint + 1;
    if (__atomic_load_n(&c->d->marked_session, __ATOMIC_RELAXED) == c->s->id &&
        __atomic_load_n(&c->d->marked, __ATOMIC_RELAXED) >= next)
        return 0;
    int rc = window_item_key(&k, marks_owner(c->s), WINDOW_MARK, &me, sizeof me, NULL, 0);
    if (rc < 0)
        return rc;
    do {
        if ((rc = mark_read(c, k.at, k.len, &last, &version)) < 0 || last >= next)
            break;
        rc = ddict_put_if(c->d, k.at, k.len, &next, sizeof next, 0, version, NULL,
                          window_left_ms(c));
    } while (rc == DDICT_ECHANGED);
    window_key_free(&k);
    if (rc < 0)
        return rc;
    __atomic_store_n(&c->d->marked, last > next ? last : next, __ATOMIC_RELAXED);
    __atomic_store_n(&c->d->marked_session, c->s->id, __ATOMIC_RELAXED);
    return 0;
}

int window_mark(struct window_call *c) {
    return c->s->working_flags & DDICT_WAIT_FOR_WRITERS ? mark_at(c, c->checkpoint) : 0;
}

int window_pass(struct window_call *c) {
    if (!(c->s->working_flags & DDICT_WAIT_FOR_WRITERS) || c->checkpoint == 0 ||
        c->timeout_ms == 0 || __atomic_load_n(&c->d->marked_session, __ATOMIC_RELAXED) != c->s->id)
        return 0;
    return mark_at(c, c->checkpoint - 1);
}

/* --- the next window --- */

/* Whether the oldest checkpoint can be retired. 0; WINDOW_DUE; DDICT_ECHANGED: it was meanwhile. */
static int all_came(struct window_call *c, bool waits) {
    int rc = 0;
    if (c->s->working_flags & DDICT_WAIT_FOR_KEYS)
        rc = keys_came(c, waits);
    if (rc == 0 && c->s->working_flags & DDICT_WAIT_FOR_WRITERS)
        rc = writers_came(c, waits);
    return rc;
}

/* Save what is to be saved before it is retired (--persist); that does not count as time of the call. */
static int save_first(struct window_call *c, uint64_t oldest) {
    if (c->timeout_ms == 0)
        return 0;
    /* what lies beyond was never in the window */
    uint64_t last = c->state.oldest + c->s->working_set, began = clock_ns();
    int rc = persist_retiring(c->d, c->s, c->state.oldest, oldest < last ? oldest : last);
    uint64_t ms = (clock_ns() - began) / 1000000;
    if (rc == 0 && ms > 0)
        call_deadline_extend(&c->w, ms < INT32_MAX ? (int)ms : INT32_MAX);
    return rc;
}

/* One checkpoint further; 0: or everything came that was awaited. */
static int step(struct window_call *c) {
    uint64_t oldest = c->state.oldest;
    int rc = c->state.closing ? 0 : state_put(c, oldest, true);
    if (rc < 0)
        return rc;
    rc = all_came(c, false);
    if (rc == 0)
        rc = save_first(c, oldest + 1);
    if (rc == 0)
        return state_put(c, oldest + 1, false);
    int open = state_put(c, oldest, false);
    return rc != WINDOW_DUE ? rc : open < 0 ? open : all_came(c, true);
}

/* Nothing is waited for: to where the handle is. */
static int leap(struct window_call *c) {
    uint64_t oldest = c->checkpoint - (c->s->working_set - 1);
    int rc = save_first(c, oldest);
    return rc < 0 ? rc : state_put(c, oldest, false);
}

int window_advance(struct window_call *c) {
    int rc = c->s->working_flags == 0 ? leap(c) : step(c);
    return rc == DDICT_ECHANGED ? 0 : rc;
}

/* --- a change at a checkpoint that is being retired --- */

int window_open(struct window_call *c) {
    if (!(c->s->working_flags & DDICT_WAIT_FOR_WRITERS) || !c->state.closing ||
        c->state.oldest != c->checkpoint)
        return 0;
    int rc = state_put(c, c->state.oldest, false);
    return rc < 0 ? rc : DDICT_ECHANGED;
}

/* Whether the put made its checkpoint one that waits for the key. Before, there was none, or what was
 * there was persistent. */
static bool makes_due(const struct window_call *c, const struct window_change *g) {
    return window_change_is_awaited(c, g) &&
           !(g->had && g->before.checkpoint == c->checkpoint &&
             !(g->before.flags & (WINDOW_PERSISTENT | WINDOW_REMOVED)));
}

/* The put came after the last look at its key. It stays if the next checkpoint has the key, too; else
 * the key has again what it had before. */
static int withdraw(struct window_call *c, struct window_change *g) {
    struct window_edit e;
    int rc;
    do {
        if ((rc = window_look(c)) < 0 && rc != DDICT_ERETIRED)
            return rc;
        const struct window_entry *is = window_index_at(c->x, c->checkpoint);
        if (!is || is->number != g->put.number || is->client != g->put.client ||
            is->node != g->put.node || window_index_at(c->x, c->state.oldest) != is)
            return 0;
        if (window_edit_begin(&e, c->x, 0, window_keeps(c->s)) < 0)
            return dd_error(-ENOMEM, "no memory for the index of a key");
        bool removed = g->had && g->before.checkpoint == c->checkpoint;
        window_edit_withdraw(&e, c->checkpoint, g->kept || removed ? &g->before : NULL);
        rc = window_commit(c, &e);
        window_edit_end(&e);
    } while (rc == DDICT_ECHANGED);
    if (rc < 0)
        return rc;
    g->stored = g->kept = false;
    return window_retired(c);
}

int window_confirm(struct window_call *c, struct window_change *g) {
    int rc = 0;
    if (c->s->working_flags == 0 || g->removes)
        return 0;
    do {
        if ((rc = window_state_look(c)) == 0 && c->state.closing &&
            c->state.oldest == c->checkpoint)
            rc = state_put(c, c->state.oldest, false);
    } while (rc == DDICT_ECHANGED);
    if (rc == 0 && c->state.oldest > c->checkpoint && makes_due(c, g))
        rc = withdraw(c, g);
    if (rc == 0 && g->kept)
        window_remove_later(c, &g->before);
    if (rc < 0 && rc != DDICT_ERETIRED)
        g->unknown = true;
    return rc;
}
