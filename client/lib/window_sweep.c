/* SPDX-License-Identifier: Apache-2.0 */
/* window_sweep.c - remove what is left of keys that were removed: see window_sweep.h. */
#include "window_sweep.h"

#include "window_change.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* of a handle; what comes beyond is left to lists */
#define REMOVALS_MAX 65536u
/* looks whether another thread has the list. One that was forked away has it for ever */
#define TRIES_MAX 100

struct window_removal {
    struct window_removal *next;
    uint64_t session; /* its id: a forked child leaves them to its parent */
    uint64_t checkpoint;
    size_t klen;
    uint8_t key[];
};

/* Whether nobody needs a removal of that checkpoint any more. */
static bool is_over(const struct window_call *c, uint64_t checkpoint) {
    return checkpoint < c->state.oldest || (checkpoint == c->state.oldest && !window_keeps(c->s));
}

bool window_is_gone(const struct window_call *c) {
    const struct window_index *x = c->x;
    return x && x->n > 0 && x->entry[x->n - 1].flags & WINDOW_REMOVED &&
           is_over(c, x->entry[x->n - 1].checkpoint);
}

void window_sweep(ddict_t *d, const void *key, size_t klen) {
    struct window_call c;
    struct window_edit e;
    if (window_call_begin(&c, d, key, klen, 0, WINDOW_TIDY_MS) < 0)
        return;
    int rc = window_look(&c);
    if ((rc == 0 || rc == DDICT_ERETIRED) && window_is_gone(&c) &&
        window_edit_begin(&e, c.x, c.state.oldest, window_keeps(c.s)) == 0) {
        window_commit(&c, &e); /* if it is another one now, who changed it has seen to this */
        window_edit_end(&e);
    }
    window_call_end(&c);
}

/* --- those that a handle remembers, first in, first out --- */

static bool removals_hold(ddict_t *d) {
    for (int i = 0; __atomic_exchange_n(&d->removals.held, true, __ATOMIC_ACQUIRE); i++) {
        if (i == TRIES_MAX)
            return false;
        sched_yield();
    }
    return true;
}
static void removals_let_go(ddict_t *d) {
    __atomic_store_n(&d->removals.held, false, __ATOMIC_RELEASE);
}

void window_sweep_later(struct window_call *c) {
    struct window_removals *all = &c->d->removals;
    struct window_removal *r;
    if (!removals_hold(c->d))
        return;
    if (all->n < REMOVALS_MAX && (r = malloc(sizeof *r + c->klen))) {
        *r = (struct window_removal){
            .session = c->s->id, .checkpoint = c->checkpoint, .klen = c->klen};
        memcpy(r->key, c->key, c->klen);
        *(all->n > 0 ? &all->last->next : &all->first) = r;
        all->last = r;
        all->n++;
    }
    removals_let_go(c->d);
}

/* The first, if it is due. */
static struct window_removal *take(struct window_call *c) {
    struct window_removals *all = &c->d->removals;
    struct window_removal *r = NULL;
    if (!removals_hold(c->d))
        return NULL;
    if (all->n > 0 && (is_over(c, all->first->checkpoint) || all->first->session != c->s->id)) {
        r = all->first;
        all->first = r->next;
        all->n--;
    }
    removals_let_go(c->d);
    return r;
}

void window_sweep_next(struct window_call *c) {
    struct window_removal *r = take(c);
    if (r && r->session == c->s->id)
        window_sweep(c->d, r->key, r->klen);
    free(r);
}

void window_sweep_end(ddict_t *d) {
    for (struct window_removal *r = d->removals.first, *next; d->removals.n > 0;
         r = next, d->removals.n--) {
        next = r->next;
        free(r);
    }
}
