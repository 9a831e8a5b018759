/* SPDX-License-Identifier: Apache-2.0 */
/* near_change.c - put a value near, and change a key whose value lies near who put it (near.h). */
#include "near.h"
#include "window.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TAG_INT 5u /* doc/FORMAT.md */

struct near_change {
    bool removes; /* else it puts */
    bool near;    /* the value becomes one that a link names */
    bool by_version;
    uint64_t version, now; /* by_version: the expected one; now: that of the key, as far as known */
    unsigned flags;
    const struct iovec *iov;
    int n;
    uint64_t length; /* of the pieces */
    bool stored;     /* the value that `link` names is */
    bool unknown;    /* whether the change was made */
    bool over;       /* the code is final */
    struct near_link link;
};

/* --- steps --- */

/* A manager of this node; the calls of a process for one key take the same. NULL: none owns keys. */
static struct node_manager *near_manager(const struct near_call *c) {
    struct session *s = c->t.s;
    for (unsigned i = 0; i < s->nlocal; i++) {
        struct node_manager *m = &s->local[(c->t.h + i) % s->nlocal];
        if (deal_owns(&s->deal, m->id))
            return m;
    }
    return NULL;
}

static int value_store(struct near_call *c, struct near_change *g) {
    uint8_t key[NEAR_KEY_LEN];
    struct node_manager *m = near_manager(c);
    if (!m || session_local(c->t.s, c->t.owner)) {
        g->near = false; /* it is near, or nowhere */
        return 0;
    }
    g->link = (struct near_link){.length = g->length,
                                 .client = c->t.s->client,
                                 .number = __atomic_add_fetch(&c->d->values, 1, __ATOMIC_RELAXED),
                                 .node = c->t.s->node_id,
                                 .manager = m->id};
    near_value_key(&g->link, key);
    int rc = ddict_putv(c->d, key, sizeof key, g->iov, g->n, DDICT_TAG(DDICT_TAG_OF(g->flags)),
                        near_left_ms(c));
    g->stored = rc == 0;
    return rc;
}

/* Put the item under the key, in place of what was found. */
static int item_put(struct near_call *c, struct near_change *g, bool blind) {
    struct iovec link = {.iov_base = &g->link, .iov_len = sizeof g->link};
    struct outgoing out = {
        .key = c->t.key, .iov = g->near ? &link : g->iov, .niov = g->near ? 1 : g->n};
    struct request r = {.sink = SINK_NONE};
    int rc = put_head(&out.head, c->t.owner, c->t.klen, g->near ? sizeof g->link : g->length,
                      g->flags & ~(DDICT_NEW | DDICT_EXISTING | DDICT_NEAR));
    if (rc < 0)
        return rc;
    if (g->near)
        out.head.flags |= MSGF_LINK;
    if (!blind) {
        out.head.rule = g->near || c->item.version == 0 ? RULE_IF : RULE_LINKED;
        out.head.version = c->item.version;
    }
    rc = request_call_within(c->t.s, session_route(c->t.s, c->t.owner), &out, &r, &c->w);
    if (rc == 0)
        g->now = r.reply.version;
    return rc;
}

/* What the key has refuses the change: a code, or 0. */
static int change_judge(struct near_call *c, struct near_change *g) {
    bool is = c->is != NEAR_ABSENT;
    int rc = 0;
    if (g->by_version && c->item.version != g->version)
        rc = DDICT_ECHANGED;
    else if (is && g->flags & DDICT_NEW)
        rc = DDICT_EEXISTS;
    else if (!is && (g->removes || g->flags & DDICT_EXISTING))
        rc = DDICT_ENOKEY;
    g->over = rc != 0;
    g->now = c->item.version;
    return rc == 0 ? 0 : dd_error_plain(rc);
}

static int change_once(struct near_call *c, struct near_change *g) {
    int rc = near_look(c);
    /* whether the key was there is not known, and does not matter */
    bool blind = rc == DDICT_EKEYLOST && !g->removes && !g->by_version &&
                 !(g->flags & (DDICT_NEW | DDICT_EXISTING));
    if (rc < 0 && !blind)
        return rc;
    if (!blind && (rc = change_judge(c, g)) < 0)
        return rc;
    if (g->near && !g->stored && (rc = value_store(c, g)) < 0)
        return rc;
    if (near_left_ms(c) == 0)
        return dd_error(-ETIMEDOUT, "no time was left for the change");
    rc = g->removes ? near_link_remove(c) : item_put(c, g, blind);
    g->unknown = change_is_unsure(rc);
    if (rc == 0 && c->is == NEAR_LINK)
        near_value_remove(c, &c->item.link);
    return rc == DDICT_ELINK || (rc == DDICT_ENOKEY && !g->over) ? DDICT_ECHANGED : rc;
}

static int near_change(struct near_call *c, struct near_change *g) {
    int rc;
    if (c->timeout_ms == 0)
        return dd_error(-ETIMEDOUT, "manager %u must be asked, which a timeout of 0 does not allow",
                        c->t.owner);
    do
        rc = change_once(c, g);
    while (rc == DDICT_ECHANGED && !g->over && near_left_ms(c) > 0);
    if (rc == DDICT_ECHANGED && !g->over)
        rc = dd_error(-ETIMEDOUT, "others changed the key all the time");
    if (rc == -EINVAL && g->near)
        rc = dd_error(rc, "the key has several values, as a queue: none can be put near");
    if (rc == 0)
        near_left_remove(c);
    if (rc < 0 && g->stored && !g->unknown)
        near_value_remove(c, &g->link);
    return rc;
}

/* --- the calls --- */

int near_check(const struct session *s, const void *key, size_t klen, unsigned flags) {
    if (!(flags & DDICT_NEAR))
        return 0;
    if (flags & (DDICT_LOADED | DDICT_REFILL))
        return dd_error(-EINVAL, "put with both DDICT_NEAR and DDICT_LOADED");
    if (key_is_hidden(key, klen))
        return dd_error(-EINVAL, "put with DDICT_NEAR of a hidden key: ddict_key_at() places one");
    if (s->working_set)
        return dd_error(-EINVAL, "put with DDICT_NEAR in a dictionary with a working set");
    return 0;
}

int near_put(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
             unsigned flags, int timeout_ms) {
    struct near_call c;
    struct near_change g = {.near = flags & DDICT_NEAR, .flags = flags, .iov = iov, .n = n};
    struct msg head;
    int rc = near_begin(&c, d, key, klen, timeout_ms);
    if (rc < 0 || (rc = near_check(c.t.s, key, klen, flags)) < 0 ||
        (rc = pieces_length(iov, n, &g.length)) < 0 ||
        (rc = put_head(&head, 0, klen, g.length, flags & ~DDICT_NEAR)) < 0)
        return rc;
    if (g.near && session_local(c.t.s, c.t.owner))
        return ddict_putv(d, key, klen, iov, n, flags & ~DDICT_NEAR, timeout_ms);
    return near_change(&c, &g);
}

int near_del(ddict_t *d, const void *key, size_t klen, int timeout_ms) {
    struct near_call c;
    struct near_change g = {.removes = true};
    int rc = near_begin(&c, d, key, klen, timeout_ms);
    return rc < 0 ? rc : near_change(&c, &g);
}

int near_put_if(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
                unsigned flags, uint64_t version, uint64_t *now, int timeout_ms) {
    struct near_call c;
    struct near_change g = {
        .by_version = true, .version = version, .flags = flags, .iov = iov, .n = n};
    int rc = near_begin(&c, d, key, klen, timeout_ms);
    if (rc < 0 || (rc = pieces_length(iov, n, &g.length)) < 0)
        return rc;
    rc = near_change(&c, &g);
    if (now && (rc == 0 || rc == DDICT_ECHANGED))
        *now = g.now;
    return rc;
}

int near_del_if(ddict_t *d, const void *key, size_t klen, uint64_t version, int timeout_ms) {
    struct near_call c;
    struct near_change g = {.removes = true, .by_version = true, .version = version};
    int rc = near_begin(&c, d, key, klen, timeout_ms);
    return rc < 0 ? rc : near_change(&c, &g);
}

/* One try: 0, DDICT_ECHANGED: again, or a negative code. */
static int add_once(struct near_call *c, int64_t delta, int64_t *sum) {
    struct ddict_view v = {0};
    char text[24];
    int rc = ddict_view(c->d, c->t.key, c->t.klen, &v, 0, near_left_ms(c));
    if (rc < 0 && rc != DDICT_ENOKEY)
        return rc;
    rc = value_sum(rc == 0 ? &v : NULL, delta, sum);
    uint64_t version = v.version;
    ddict_release(&v);
    if (rc < 0)
        return rc;
    struct iovec iov = {.iov_base = text};
    iov.iov_len = (size_t)snprintf(text, sizeof text, "%" PRId64, *sum);
    return near_put_if(c->d, c->t.key, c->t.klen, &iov, 1, DDICT_TAG(TAG_INT), version, NULL,
                       near_left_ms(c));
}

int near_add(ddict_t *d, const void *key, size_t klen, int64_t delta, int64_t *sum,
             int timeout_ms) {
    struct near_call c;
    int64_t next = 0;
    int rc = near_begin(&c, d, key, klen, timeout_ms);
    if (rc < 0)
        return rc;
    do
        rc = add_once(&c, delta, &next);
    while (rc == DDICT_ECHANGED && near_left_ms(&c) > 0);
    if (rc == DDICT_ECHANGED)
        rc = dd_error(-ETIMEDOUT, "others changed the key all the time");
    if (rc == 0 && sum)
        *sum = next;
    return rc;
}
