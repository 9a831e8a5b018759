/* SPDX-License-Identifier: Apache-2.0 */
/* window_ask.c - requests about items of a working set: see window_ask.h. */
#include "window_ask.h"

#include "window_change.h"
#include "window_sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void ask_begin(struct window_ask *a, struct session *s, unsigned owner,
                      const struct window_key *k) {
    memset(a, 0, sizeof *a);
    a->s = s;
    a->session = s->id;
    a->m = session_route(s, owner);
    a->r.sink = SINK_NONE;
    a->out.key = k->at;
    a->out.head.key_len = (uint32_t)k->len;
    a->out.head.manager = owner;
}

void window_ask_put(struct window_ask *a, struct session *s, unsigned owner,
                    const struct window_key *k, const struct iovec *iov, int n, unsigned tag) {
    uint64_t len;
    ask_begin(a, s, owner, k);
    a->out.iov = iov;
    a->out.niov = n;
    if ((a->rc = pieces_length(iov, n, &len)) == 0)
        a->rc = put_head(&a->out.head, owner, k->len, len, DDICT_TAG(tag));
}

void window_ask_put_if(struct window_ask *a, struct session *s, unsigned owner,
                       const struct window_key *k, const void *bytes, size_t len,
                       uint64_t version) {
    ask_begin(a, s, owner, k);
    a->iov = (struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    a->out.iov = &a->iov;
    a->out.niov = 1;
    a->rc = put_head(&a->out.head, owner, k->len, len, 0);
    a->out.head.rule = RULE_IF;
    a->out.head.version = version;
}

void window_ask_del(struct window_ask *a, struct session *s, unsigned owner,
                    const struct window_key *k) {
    ask_begin(a, s, owner, k);
    a->out.head.type = MSG_DEL;
}

int window_ask_send(struct window_ask *a, struct call_deadline *w) {
    if (a->rc == 0)
        a->rc = client_lane_send(&a->m->lane, &a->out, &a->r, w);
    a->under_way = a->rc >= 0 && !(a->out.skips && a->rc == 1);
    return a->rc;
}

int window_ask_wait(struct window_ask *a, struct call_deadline *w) {
    if (!a->under_way)
        return a->rc;
    a->under_way = false;
    a->rc = client_lane_wait(&a->m->lane, &a->r, w);
    if (a->rc < 0)
        request_drop(&a->r);
    else
        a->rc = a->r.status < 0 ? request_error(a->s, a->m, &a->r, a->r.status) : 0;
    return a->rc;
}

/* --- values that are removed --- */

/* In a forked child it is not ours. */
static void removal_end(ddict_t *d, struct window_ask *a) {
    const struct session *s = __atomic_load_n(&d->session, __ATOMIC_ACQUIRE);
    struct call_deadline w;
    if (a && s && s->id == a->session) {
        call_deadline_init(&w, a->s, WINDOW_TIDY_MS);
        window_ask_wait(a, &w);
    }
    free(a);
}

void window_remove_later(struct window_call *c, const struct window_entry *e) {
    struct window_key k;
    struct call_deadline w;
    struct window_ask *a = malloc(sizeof *a);
    if (!a || window_value_key(c, e, &k) < 0) {
        free(a);
        window_value_remove(c, e);
        return;
    }
    window_ask_del(a, c->s, c->owner, &k);
    call_deadline_init(&w, c->s, WINDOW_TIDY_MS);
    window_ask_send(a, &w);
    window_key_free(&k);
    removal_end(c->d, __atomic_exchange_n(&c->d->removal, a, __ATOMIC_ACQ_REL));
}

void window_detach(ddict_t *d) {
    window_sweep_end(d);
    removal_end(d, __atomic_exchange_n(&d->removal, NULL, __ATOMIC_ACQ_REL));
}

/* --- many at once --- */

/* Wait for all that are under way. */
static void all_wait(struct window_ask *a, uint32_t n, struct call_deadline *w) {
    for (uint32_t i = 0; i < n; i++)
        if (a[i].under_way && window_ask_wait(&a[i], w) != -ETIMEDOUT)
            call_deadline_renew(w);
}

void window_ask_all(struct window_ask *a, uint32_t n, struct call_deadline *w) {
    uint32_t held = 0;
    for (uint32_t i = 0; i < n; i++) {
        a[i].out.skips = true;
        held += window_ask_send(&a[i], w) == 1;
    }
    all_wait(a, n, w);
    for (uint32_t i = 0; held > 0 && i < n; i++) { /* their managers are held (PROTOCOL 2) */
        if (a[i].rc != 1)
            continue;
        held--;
        a[i].out.skips = false;
        a[i].r.need = 0;
        a[i].rc = 0;
        window_ask_send(&a[i], w);
    }
    all_wait(a, n, w);
}
