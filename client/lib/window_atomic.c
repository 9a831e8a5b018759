/* SPDX-License-Identifier: Apache-2.0 */
/* window_atomic.c - calls on a key of a working set that depend on what it has: add, put_if, del_if,
 * append, wait_change. */
#include "near.h"
#include "window_change.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_INT 5u /* doc/FORMAT.md */

/* --- versions --- */

static int version_judge(struct window_call *c, struct window_change *g,
                         const struct window_entry *e) {
    uint64_t is = e ? e->version : 0;
    (void)c;
    if (is == g->version)
        return 0;
    g->is = is;
    g->refusal = DDICT_ECHANGED;
    return WINDOW_REFUSED;
}

/* One change, whose refusal is DDICT_ECHANGED. *now: the version that the key has then. */
static int change_if(struct window_call *c, struct window_change *g, uint64_t *now) {
    g->judge = version_judge;
    int rc = window_change(c, g);
    if (now && rc == 0)
        *now = g->put.version;
    else if (now && rc == DDICT_ECHANGED)
        *now = g->is;
    return rc;
}

int window_put_if(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
                  unsigned flags, uint64_t version, uint64_t *now, int timeout_ms) {
    struct window_call c;
    struct window_change g = {.iov = iov, .n = n, .flags = flags, .version = version};
    struct msg head;
    int rc;
    if ((rc = pieces_length(iov, n, &g.length)) < 0 ||
        (rc = put_head(&head, 0, klen, g.length, flags)) < 0 ||
        (rc = window_call_begin(&c, d, key, klen, 0, timeout_ms)) < 0)
        return rc;
    rc = change_if(&c, &g, now);
    window_call_end(&c);
    return rc;
}

int window_del_if(ddict_t *d, const void *key, size_t klen, uint64_t version, int timeout_ms) {
    struct window_call c;
    struct window_change g = {.removes = true, .version = version};
    int rc = window_call_begin(&c, d, key, klen, 0, timeout_ms);
    if (rc < 0)
        return rc;
    rc = change_if(&c, &g, NULL);
    window_call_end(&c);
    return rc;
}

/* What the key has now, within a call: *e, NULL: nothing; if it has a value, and v is not NULL, a view
 * of it. */
static int current(struct window_call *c, const struct window_entry **e, struct ddict_view *v) {
    int rc;
    do {
        if ((rc = window_look(c)) < 0 || (rc = window_raise(c)) < 0)
            continue;
        if (window_see(c, e) != WINDOW_FOUND)
            *e = NULL;
        else if (v)
            rc = window_value_view(c, *e, v);
    } while (rc == DDICT_ECHANGED);
    return rc;
}

int window_key_version(ddict_t *d, const void *key, size_t klen, uint64_t *version,
                       int timeout_ms) {
    struct window_call c;
    const struct window_entry *e;
    *version = 0;
    int rc = window_call_begin(&c, d, key, klen, 0, timeout_ms);
    if (rc < 0)
        return rc;
    rc = current(&c, &e, NULL);
    if (rc == 0 && e)
        *version = e->version;
    window_call_end(&c);
    return rc;
}

int window_wait_change(ddict_t *d, const void *key, size_t klen, uint64_t version, uint64_t *now,
                       int timeout_ms) {
    struct window_call c;
    const struct window_entry *e;
    uint64_t is = version;
    int rc = window_call_begin(&c, d, key, klen, DDICT_WAIT, timeout_ms);
    if (rc < 0)
        return rc;
    while ((rc = current(&c, &e, NULL)) == 0 && (is = e ? e->version : 0) == version)
        if ((rc = window_await(&c, DDICT_WAIT)) < 0)
            break;
    window_call_end(&c);
    if (rc == -ETIMEDOUT && is == version && timeout_ms != 0)
        return dd_error(rc, "the key did not change within %.3g s", c.w.timeout_ms / 1000.0);
    if (rc == 0 && now)
        *now = is;
    return rc;
}

/* --- the next value out of the present one --- */

static int number_of(const struct ddict_view *v, int64_t *x) {
    char text[24], *end;
    if (v->tag != TAG_INT || v->len == 0 || v->len >= sizeof text)
        return DDICT_ENOTINT;
    memcpy(text, v->data, v->len);
    text[v->len] = 0;
    errno = 0;
    *x = strtoll(text, &end, 10);
    return errno != 0 || *end != 0 || end == text ||
                   (text[0] != '-' && (text[0] < '0' || text[0] > '9'))
               ? DDICT_ENOTINT
               : 0;
}

int value_sum(const struct ddict_view *v, int64_t delta, int64_t *sum) {
    int64_t was = 0;
    if (v && number_of(v, &was) < 0)
        return dd_error(DDICT_ENOTINT, "the value is no integer of 64 bits");
    return __builtin_add_overflow(was, delta, sum)
               ? dd_error(-ERANGE, "the sum is no integer of 64 bits")
               : 0;
}

int window_add(ddict_t *d, const void *key, size_t klen, int64_t delta, int64_t *sum,
               int timeout_ms) {
    struct window_call c;
    const struct window_entry *e = NULL;
    char text[24];
    int64_t next = 0;
    int rc = window_call_begin(&c, d, key, klen, 0, timeout_ms);
    if (rc < 0)
        return rc;
    do {
        struct ddict_view v = {0};
        if ((rc = current(&c, &e, &v)) < 0)
            break;
        uint64_t version = e ? e->version : 0;
        rc = value_sum(e ? &v : NULL, delta, &next);
        ddict_release(&v);
        if (rc < 0)
            break;
        struct iovec iov = {.iov_base = text};
        iov.iov_len = (size_t)snprintf(text, sizeof text, "%" PRId64, next);
        struct window_change g = {.iov = &iov,
                                  .n = 1,
                                  .length = iov.iov_len,
                                  .flags = DDICT_TAG(TAG_INT) | DDICT_PERSISTENT,
                                  .version = version};
        rc = change_if(&c, &g, NULL);
    } while (rc == DDICT_ECHANGED);
    window_call_end(&c);
    if (rc == 0 && sum)
        *sum = next;
    return rc;
}

int window_append(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
                  unsigned flags, size_t *total, int (*check)(unsigned tag), int timeout_ms) {
    struct window_call c;
    const struct window_entry *e = NULL;
    size_t length = 0;
    int rc = window_call_begin(&c, d, key, klen, 0, timeout_ms);
    if (rc < 0)
        return rc;
    do {
        struct ddict_view v = {0};
        if ((rc = current(&c, &e, &v)) < 0)
            break;
        struct iovec iov[2] = {{.iov_base = (void *)(uintptr_t)v.data, .iov_len = v.len},
                               {.iov_base = (void *)(uintptr_t)val, .iov_len = vlen}};
        struct window_change g = {.iov = iov, .n = 2, .flags = flags};
        if (e) {
            g.version = e->version;
            g.flags = DDICT_TAG(v.tag) | (e->flags & WINDOW_PERSISTENT ? DDICT_PERSISTENT : 0);
            rc = check(v.tag);
        }
        if (rc == 0 && (rc = pieces_length(iov, 2, &g.length)) == 0)
            rc = change_if(&c, &g, NULL);
        length = g.length;
        ddict_release(&v);
    } while (rc == DDICT_ECHANGED);
    window_call_end(&c);
    if (rc == 0 && total)
        *total = length;
    return rc;
}
