/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get_many.c - many views at once. Those of other nodes are asked for first; while they travel, those of this node are read in place,
 * a few at a time with their cache lines fetched ahead, so that misses of the cache overlap.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "local.h"
#include "view.h"

#define SLAB 1024u  /* wants at a time */
#define AHEAD 32u   /* keys whose cache lines are fetched ahead: about as many misses as a core has under way, times the lines of a key */

struct get_call {
    struct session *s;
    struct ddict_want *want; /* of the slab */
    uint32_t n;
    uint64_t hash[SLAB];
    struct request *r;       /* [SLAB], allocated with the first far key */
    uint32_t *slot;
    unsigned flags;
    int timeout_ms;
    struct patience w;
};

static int no_time_to_ask(void)
{
    return dd_error(-ETIMEDOUT, "a manager must be asked for this value, which a timeout of 0 does not allow");
}

static struct node_manager *want_here(struct get_call *c, uint32_t i)
{
    return session_local(c->s, hash_owner(c->hash[i], c->s->managers));
}

/* --- from other nodes --- */

/* The request for want i, r as request_slot() left it. */
static int far_ask(struct get_call *c, struct node_manager *m, uint32_t i)
{
    struct ddict_want *w = &c->want[i];
    struct outgoing out = {.head = {.type = MSG_GET, .key_len = (uint32_t)w->klen, .manager = hash_owner(c->hash[i], c->s->managers)}, .key = w->key};
    if (c->r[i].slot != NULL)
        out.head.flags = MSGF_VIEW;
    if (c->flags & DDICT_WAIT) {
        out.head.flags |= MSGF_WAIT;
        out.head.aux = patience_left_us(&c->w);
    }
    return port_send(&m->port, &out, &c->r[i], &c->w);
}

static int far_send(struct get_call *c, uint32_t i)
{
    struct ddict_want *w = &c->want[i];
    unsigned owner = hash_owner(c->hash[i], c->s->managers);
    struct node_manager *m = session_ask(c->s, owner, c->hash[i]);
    struct request *r = &c->r[i];
    memset(r, 0, sizeof *r);
    r->sink = SINK_MEMORY;
    request_slot(c->s, r, &c->slot[i]);
    int rc = far_ask(c, m, i);
    if (rc < 0) {
        request_view(c->s, m, r, c->slot[i], &w->view, &rc); /* gives the slot back */
        w->status = rc;
    }
    return rc;
}

static int far_prepare(struct get_call *c)
{
    if (c->r != NULL)
        return 0;
    c->r = malloc(SLAB * sizeof *c->r);
    c->slot = malloc(SLAB * sizeof *c->slot);
    return c->r != NULL && c->slot != NULL ? 0 : dd_error(-ENOMEM, "no memory for the requests of a get of many");
}

static void far_collect(struct get_call *c, uint32_t i)
{
    struct ddict_want *w = &c->want[i];
    unsigned owner = hash_owner(c->hash[i], c->s->managers);
    struct node_manager *m = session_ask(c->s, owner, c->hash[i]);
    bool waits = c->flags & DDICT_WAIT;
    int rc;
    for (;;) {
        if (waits)
            patience_extend(&c->w, ANSWER_GRACE_MS);
        rc = port_wait(&m->port, &c->r[i], &c->w);
        if (waits)
            patience_extend(&c->w, -ANSWER_GRACE_MS);
        else if (rc == 0)
            patience_renew(&c->w);
        if (!waits || rc < 0 || !request_was_late(&c->r[i]) || patience_left_us(&c->w) == 0)
            break;
        request_drop(&c->r[i]); /* ask again, as ask_waiting() does */
        request_again(&c->r[i]);
        if ((rc = far_ask(c, m, i)) < 0)
            break;
    }
    if (rc == 0)
        rc = c->r[i].status < 0 ? request_error(c->s, m, &c->r[i], c->r[i].status) : 0;
    request_view(c->s, m, &c->r[i], c->slot[i], &w->view, &rc);
    w->status = rc;
}

/* --- from this node --- */

static void here_take(struct get_call *c, const uint32_t *index, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        reader_prefetch(&want_here(c, index[k])->arena, c->hash[index[k]], 0);
    for (uint32_t k = 0; k < n; k++)
        reader_prefetch(&want_here(c, index[k])->arena, c->hash[index[k]], 1);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = index[k];
        struct ddict_want *w = &c->want[i];
        w->status = local_view(c->s, want_here(c, i), c->hash[i], w->key, w->klen, &w->view);
    }
}

static void here_all(struct get_call *c)
{
    uint32_t index[AHEAD], n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->want[i].status != -EINPROGRESS || want_here(c, i) == NULL)
            continue;
        index[n++] = i;
        if (n == AHEAD) {
            here_take(c, index, n);
            n = 0;
        }
    }
    here_take(c, index, n);
}

/* What could not be decided in place: lane, or waiting for the key. All within the time of one call. */
static void here_slow(struct get_call *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        struct ddict_want *w = &c->want[i];
        bool waits = c->flags & DDICT_WAIT && c->timeout_ms != 0;
        if (want_here(c, i) == NULL || (w->status != -EAGAIN && (w->status != DDICT_ENOKEY || !waits)))
            continue;
        if (c->timeout_ms == 0) {
            w->status = no_time_to_ask();
            continue;
        }
        w->status = view_within(c->s, c->hash[i], w->key, w->klen, w->status, &w->view, c->flags, &c->w);
        if (w->status == DDICT_ENOKEY && waits)
            w->status = dd_error(-ETIMEDOUT, "the key did not appear within %.3g s", c->w.timeout_ms / 1000.0);
        else if (w->status == 0 && !waits)
            patience_renew(&c->w);
    }
}

/* --- the call --- */

static uint32_t slab_get(struct get_call *c)
{
    uint32_t far = 0, found = 0;
    int rc = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        struct ddict_want *w = &c->want[i];
        w->view.kind_ = 0;
        w->status = key_check(w->klen);
        if (w->status < 0) {
            c->hash[i] = 0;
            continue;
        }
        c->hash[i] = key_hash(w->key, w->klen);
        w->status = -EINPROGRESS;
        if (want_here(c, i) != NULL)
            continue;
        if (rc == 0 && c->timeout_ms == 0)
            rc = no_time_to_ask();
        if (rc == 0)
            rc = far_prepare(c);
        if (rc == 0)
            rc = far_send(c, i);
        if (rc < 0)
            w->status = rc;
        else
            far++;
    }
    here_all(c);
    for (uint32_t i = 0; i < c->n && far > 0; i++) {
        if (c->want[i].status == -EINPROGRESS) {
            far_collect(c, i);
            far--;
        }
    }
    here_slow(c);
    for (uint32_t i = 0; i < c->n; i++)
        found += c->want[i].status == 0;
    return found;
}

ssize_t ddict_get_many(ddict_t *d, struct ddict_want *wants, size_t n, unsigned flags, int timeout_ms)
{
    struct get_call c;
    int rc = session_enter(d, &c.s);
    if (rc < 0)
        return rc;
    if (flags & ~DDICT_WAIT)
        return dd_error(-EINVAL, "get of many with unknown flags 0x%x", flags);
    c.r = NULL;
    c.slot = NULL;
    c.flags = flags;
    c.timeout_ms = timeout_ms;
    ssize_t found = 0;
    patience_init(&c.w, c.s, timeout_ms);
    for (size_t at = 0; at < n; at += SLAB) {
        c.want = wants + at;
        c.n = n - at < SLAB ? (uint32_t)(n - at) : SLAB;
        found += slab_get(&c);
    }
    free(c.r);
    free(c.slot);
    return found;
}
