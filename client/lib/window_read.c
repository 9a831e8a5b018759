/* SPDX-License-Identifier: Apache-2.0 */
/* window_read.c - calls that read one key of a working set. */
#include "view.h"
#include "window_wait.h"

#include <errno.h>

/* With DDICT_WAIT_FOR_KEYS. What was not put with DDICT_PERSISTENT is to be put anew at each
 * checkpoint. */
static enum window_seen see_strictly(const struct window_call *c, const struct window_entry *e) {
    bool ahead = c->checkpoint > window_newest(c);
    if (!e)
        return WINDOW_AWAITED;
    if (e->flags & WINDOW_REMOVED)
        return ahead || e->checkpoint < c->state.oldest ? WINDOW_AWAITED : WINDOW_ABSENT;
    if (e->flags & WINDOW_PERSISTENT) {
        /* of a checkpoint that does not exist yet, only what holds throughout the window */
        const struct window_entry *held = ahead ? window_index_at(c->x, c->state.oldest) : e;
        return held && held->flags & WINDOW_PERSISTENT ? WINDOW_FOUND : WINDOW_AWAITED;
    }
    return e->checkpoint == c->checkpoint && !ahead ? WINDOW_FOUND : WINDOW_AWAITED;
}

enum window_seen window_see(const struct window_call *c, const struct window_entry **e) {
    const struct window_entry *is = *e = window_index_at(c->x, c->checkpoint);
    if (c->s->working_flags & DDICT_WAIT_FOR_KEYS)
        return see_strictly(c, is);
    return is && !(is->flags & WINDOW_REMOVED) ? WINDOW_FOUND : WINDOW_ABSENT;
}

bool window_lists(const struct window_call *c) {
    const struct window_entry *e = window_index_at(c->x, c->checkpoint);
    if (!e || e->flags & WINDOW_REMOVED)
        return false;
    return !(c->s->working_flags & DDICT_WAIT_FOR_KEYS) || e->flags & WINDOW_PERSISTENT ||
           (e->checkpoint == c->checkpoint && c->checkpoint <= window_newest(c));
}

int window_await(struct window_call *c, unsigned flags) {
    int left = window_left_ms(c);
    if (left == 0)
        return c->timeout_ms == 0 && !(flags & DDICT_WAIT)
                   ? dd_error(-ETIMEDOUT, "the key is awaited, which a timeout of 0 does not allow")
                   : dd_error(-ETIMEDOUT, "the key did not appear at checkpoint %llu within %.3g s",
                              (unsigned long long)c->checkpoint, c->w.timeout_ms / 1000.0);
    /* the checkpoint may come, or be retired, meanwhile */
    int slice = left < WINDOW_SLICE_MS ? left : WINDOW_SLICE_MS;
    bool ahead = c->checkpoint > window_newest(c);
    int rc = ahead ? ddict_wait_change(c->d, WINDOW_KEY, WINDOW_LEN, c->state_version, NULL, slice)
                   : ddict_wait_change(c->d, c->index_key.at, c->index_key.len, c->index.version,
                                       NULL, slice);
    return rc == -ETIMEDOUT ? 0 : rc;
}

/* Look until the key is there, or is known to be absent. 0: *e is its entry. */
static int find(struct window_call *c, unsigned flags, const struct window_entry **e) {
    for (bool awaited = false;; awaited = true) {
        bool last = awaited && window_left_ms(c) < WINDOW_SLICE_MS;
        int rc = window_look(c);
        if (rc == -ETIMEDOUT && last) { /* it was looked at before, and did not appear */
            if ((rc = window_await(c, flags)) < 0)
                return rc;
            continue;
        }
        if (rc < 0)
            return rc;
        enum window_seen is = window_see(c, e);
        if (is != WINDOW_AWAITED && (rc = window_raise(c)) == DDICT_ECHANGED)
            continue;
        if (rc < 0)
            return rc;
        if (is == WINDOW_FOUND)
            return 0;
        if (is == WINDOW_ABSENT && !(flags & DDICT_WAIT && c->timeout_ms != 0))
            return dd_error_plain(DDICT_ENOKEY);
        if ((rc = window_await(c, flags)) < 0)
            return rc;
    }
}

int window_value_view(struct window_call *c, const struct window_entry *e, struct ddict_view *v) {
    struct window_key k;
    v->kind_ = 0;
    int rc = window_value_key(c, e, &k);
    if (rc < 0)
        return rc;
    rc = ddict_view(c->d, k.at, k.len, v, 0, window_left_ms(c));
    window_key_free(&k);
    v->version = e->version;
    if (rc != DDICT_ENOKEY)
        return rc;
    if (c->missed == c->index.version)
        return dd_error(DDICT_ELOST, "the value that the key has at checkpoint %llu was lost",
                        (unsigned long long)e->checkpoint);
    c->missed = c->index.version;
    return DDICT_ECHANGED;
}

static int fetch(struct window_call *c, unsigned flags, struct ddict_view *v) {
    const struct window_entry *e;
    int rc = window_pass(c);
    if (rc < 0)
        return rc;
    do {
        if ((rc = find(c, flags, &e)) == 0)
            rc = window_value_view(c, e, v);
    } while (rc == DDICT_ECHANGED);
    return rc;
}

static int flags_check(const char *call, unsigned flags, unsigned known) {
    return flags & ~known ? dd_error(-EINVAL, "%s with unknown flags 0x%x", call, flags) : 0;
}

int window_view(ddict_t *d, const void *key, size_t klen, struct ddict_view *v, unsigned flags,
                int timeout_ms) {
    struct window_call c;
    v->kind_ = 0;
    int rc = flags_check("view", flags, DDICT_WAIT);
    if (rc < 0 || (rc = window_call_begin(&c, d, key, klen, flags, timeout_ms)) < 0)
        return rc;
    rc = fetch(&c, flags, v);
    window_call_end(&c);
    return rc;
}

int window_get(ddict_t *d, const void *key, size_t klen, void *buf, size_t cap, size_t *vlen,
               unsigned *tag, unsigned flags, int timeout_ms) {
    struct ddict_view v;
    int rc = flags_check("get", flags, DDICT_WAIT);
    if (rc < 0 || (rc = window_view(d, key, klen, &v, flags, timeout_ms)) < 0)
        return rc;
    return view_copy(&v, buf, cap, vlen, tag);
}

int window_contains(ddict_t *d, const void *key, size_t klen, size_t *vlen, int timeout_ms) {
    struct window_call c;
    int rc = window_call_begin(&c, d, key, klen, 0, timeout_ms);
    if (rc < 0)
        return rc;
    do {
        if ((rc = window_look(&c)) == 0)
            rc = window_raise(&c);
    } while (rc == DDICT_ECHANGED);
    if (rc == 0 && window_lists(&c)) {
        rc = 1;
        if (vlen)
            *vlen = window_index_at(c.x, c.checkpoint)->length;
    }
    window_call_end(&c);
    return rc;
}
