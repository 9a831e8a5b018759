/* SPDX-License-Identifier: Apache-2.0 */
/* freeze.c - make the dictionary read-only, and prefetch values into the node cache meanwhile. */
#include "cached_read.h"
#include "request.h"
#include <base/persist_text.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int freeze_ask(struct session *s, enum freeze_want want, int timeout_ms) {
    struct outgoing out = {.head = {.type = MSG_FREEZE, .aux = want, .manager = s->local[0].id}};
    struct request r = {.sink = SINK_NONE};
    int rc = request_call(s, &s->local[0], &out, &r, timeout_ms);
    return rc < 0 ? rc : 0;
}

/* A dictionary that only reads states on disk: it is frozen by its starter, and for good (SAVE 4). */
static bool is_read_only(const struct session *s, struct persist_text *p) {
    const char *text = s->status_page->persist;
    return *text != 0 && persist_text_parse(text, p) == 0 && p->read_only;
}

static unsigned state_of(const struct session *s) {
    return FREEZE_STATE(__atomic_load_n(&s->local[0].arena.header->freeze, __ATOMIC_ACQUIRE));
}

int ddict_freeze(ddict_t *d, int timeout_ms) {
    struct persist_text p;
    struct session *s;
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    /* a restore that is under way freezes it at its end, and must not be stopped by this */
    if (state_of(s) == FREEZE_RESTORING && s->local[0].lane.right == 0 && is_read_only(s, &p))
        return 0;
    return freeze_ask(s, WANT_FROZEN, timeout_ms);
}

int ddict_unfreeze(ddict_t *d, int timeout_ms) {
    struct persist_text p;
    struct session *s;
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    if (is_read_only(s, &p))
        return dd_error(DDICT_EFROZEN,
                        "the dictionary only reads the states in %.*s (read-only), so it stays "
                        "frozen; a restore or advance gives it another state",
                        (int)p.dir_len, s->status_page->persist);
    return freeze_ask(s, WANT_OPEN, timeout_ms);
}

int ddict_freeze_restoring(ddict_t *d, int ask, int timeout_ms) {
    struct persist_text p;
    struct session *s;
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    if (!is_read_only(s, &p))
        return dd_error(-EINVAL, "the dictionary is not read-only: whoever restores may put");
    for (unsigned i = 0; i < s->nlocal; i++)
        s->local[i].lane.right = MSGF_RESTORE;
    return ask ? freeze_ask(s, WANT_RESTORING, timeout_ms) : 0;
}

int ddict_is_frozen(ddict_t *d) {
    struct session *s;
    int rc = session_enter(d, &s, -1);
    if (rc < 0)
        return rc;
    unsigned state = state_of(s);
    return state == FREEZE_FROZEN || state == FREEZE_RESTORING;
}

/* --- prefetch --- */

struct ahead {
    struct session *s;
    struct call_deadline w;
    uint8_t *bytes; /* [DD_MSG_INLINE]; records of u32 length and key */
    size_t len;
    ssize_t taken;
};

static int ahead_flush(struct ahead *a, struct node_manager *m) {
    struct iovec v = {.iov_base = a->bytes, .iov_len = a->len};
    struct outgoing out = {
        .head = {.type = MSG_PREFETCH, .manager = m->id, .val_len = a->len}, .iov = &v, .niov = 1};
    struct request r = {.sink = SINK_NONE};
    if (a->len == 0)
        return 0;
    int rc = request_call_within(a->s, m, &out, &r, &a->w);
    a->len = 0;
    if (rc < 0)
        return rc;
    a->taken += (ssize_t)r.reply.aux;
    return 0;
}

static int ahead_add(struct ahead *a, struct node_manager *m, const struct iovec *key) {
    uint32_t len = (uint32_t)key->iov_len;
    int rc = DD_MSG_INLINE - a->len < sizeof len + len ? ahead_flush(a, m) : 0;
    if (rc < 0)
        return rc;
    memcpy(a->bytes + a->len, &len, sizeof len);
    memcpy(a->bytes + a->len + sizeof len, key->iov_base, len);
    a->len += sizeof len + len;
    return 0;
}

_Static_assert(sizeof(uint32_t) + MSG_KEY_MAX <= DD_MSG_INLINE,
               "the longest key fits into one message");

ssize_t ddict_prefetch(ddict_t *d, const struct iovec *keys, size_t n, int timeout_ms) {
    struct ahead a = {0};
    int rc = session_enter(d, &a.s, timeout_ms);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = key_check(keys[i].iov_len);
    if (rc < 0 || n == 0 || !session_cache(a.s, 0))
        return rc;
    if (timeout_ms == 0)
        return dd_error(-ETIMEDOUT, "a manager must be asked, which a timeout of 0 does not allow");
    a.bytes = malloc(DD_MSG_INLINE);
    if (!a.bytes)
        return dd_error(-ENOMEM, "no memory for the keys of a prefetch");
    call_deadline_init(&a.w, a.s, timeout_ms);
    for (unsigned l = 0; rc == 0 && l < a.s->nlocal; l++) {
        struct node_manager *m = &a.s->local[l];
        for (size_t i = 0; rc == 0 && i < n; i++) {
            uint64_t h = key_hash(keys[i].iov_base, keys[i].iov_len);
            unsigned owner = deal_owner(&a.s->deal, keys[i].iov_base, keys[i].iov_len, h);
            if (!session_local(a.s, owner) && session_route(a.s, owner) == m)
                rc = ahead_add(&a, m, &keys[i]);
        }
        if (rc == 0)
            rc = ahead_flush(&a, m);
    }
    free(a.bytes);
    return rc < 0 ? rc : a.taken;
}
