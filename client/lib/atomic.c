/* SPDX-License-Identifier: Apache-2.0 */
/* atomic.c - calls that depend on what the key has: add, put_if, del_if, append, wait_change,
 * wait_for. The manager of the key judges; append asks it until nobody else was in between. */
#include "cached_read.h"
#include "near.h"
#include "request.h"
#include "window.h"

#include <errno.h>
#include <string.h>

#define TAG_INT 5u /* doc/FORMAT.md */

static int ask(const struct target *t, struct outgoing *out, struct request *r,
               struct call_deadline *w) {
    *r = (struct request){.sink = SINK_NONE};
    return request_call_within(t->s, session_route(t->s, t->owner), out, r, w);
}

static int begin(struct target *t, ddict_t *d, const void *key, size_t klen, int timeout_ms,
                 struct call_deadline *w) {
    int rc = target_init(t, d, key, klen, timeout_ms);
    if (rc < 0)
        return rc;
    if (timeout_ms == 0)
        return dd_error(-ETIMEDOUT, "manager %u must be asked, which a timeout of 0 does not allow",
                        t->owner);
    call_deadline_init(w, t->s, timeout_ms);
    return 0;
}

int ddict_add(ddict_t *d, const void *key, size_t klen, int64_t delta, int64_t *sum,
              int timeout_ms) {
    struct target t;
    struct call_deadline w;
    struct request r;
    int rc = begin(&t, d, key, klen, timeout_ms, &w);
    if (rc < 0)
        return rc;
    if (window_has(t.s, key, klen))
        return window_add(d, key, klen, delta, sum, timeout_ms);
    struct outgoing out = {.head = {.type = MSG_PUT,
                                    .rule = RULE_ADD,
                                    .key_len = (uint32_t)klen,
                                    .aux = (uint64_t)delta,
                                    .tag = TAG_INT,
                                    .manager = t.owner},
                           .key = key};
    rc = ask(&t, &out, &r, &w);
    if (rc == DDICT_ELINK)
        return near_add(d, key, klen, delta, sum, timeout_ms);
    if (rc == -ERANGE)
        return dd_error(rc, "the sum is no integer of 64 bits");
    if (rc == 0 && sum)
        *sum = (int64_t)r.reply.version;
    return rc;
}

/* Store the n pieces if the key's version is still `version`. */
static int put_if(ddict_t *d, const struct target *t, const struct iovec *iov, int n,
                  unsigned flags, uint64_t version, uint64_t *now, struct call_deadline *w) {
    struct outgoing out = {.key = t->key, .iov = iov, .niov = n};
    struct request r;
    uint64_t vlen;
    int rc;
    if ((rc = pieces_length(iov, n, &vlen)) < 0 ||
        (rc = put_head(&out.head, t->owner, t->klen, vlen, flags)) < 0)
        return rc;
    out.head.rule = RULE_IF;
    out.head.version = version;
    rc = ask(t, &out, &r, w);
    if (rc == DDICT_ELINK)
        return near_put_if(d, t->key, t->klen, iov, n, flags, version, now, w->timeout_ms);
    if ((rc == 0 || rc == DDICT_ECHANGED) && now)
        *now = r.reply.version;
    return rc;
}

static int tag_check(const char *call, unsigned flags) {
    return flags & ~DDICT_TAG(0xff)
               ? dd_error(-EINVAL, "%s with flags 0x%x: only a tag is allowed", call, flags)
               : 0;
}

int ddict_put_if(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
                 unsigned flags, uint64_t version, uint64_t *now, int timeout_ms) {
    struct iovec v = {.iov_base = (void *)(uintptr_t)val, .iov_len = vlen};
    struct target t;
    struct call_deadline w;
    int rc = begin(&t, d, key, klen, timeout_ms, &w);
    if (rc < 0)
        return rc;
    if ((rc = tag_check("put_if", flags)) < 0)
        return rc;
    if (window_has(t.s, key, klen))
        return window_put_if(d, key, klen, &v, 1, flags, version, now, timeout_ms);
    return put_if(d, &t, &v, 1, flags, version, now, &w);
}

int ddict_del_if(ddict_t *d, const void *key, size_t klen, uint64_t version, int timeout_ms) {
    struct target t;
    struct call_deadline w;
    struct request r;
    int rc = begin(&t, d, key, klen, timeout_ms, &w);
    if (rc < 0)
        return rc;
    if (version == 0)
        return dd_error(-EINVAL, "del_if of version 0, which an absent key has");
    if (window_has(t.s, key, klen))
        return window_del_if(d, key, klen, version, timeout_ms);
    struct outgoing out = {.head = {.type = MSG_DEL,
                                    .rule = RULE_IF,
                                    .key_len = (uint32_t)klen,
                                    .version = version,
                                    .manager = t.owner},
                           .key = key};
    rc = ask(&t, &out, &r, &w);
    return rc == DDICT_ELINK ? near_del_if(d, key, klen, version, timeout_ms) : rc;
}

/* Whether values of this tag are still such ones with more bytes behind them. */
static bool tag_can_grow(unsigned tag) {
    return tag < 2 || tag == 4 || tag > 7;
}

static int cannot_grow(unsigned tag) {
    static const char *const is[] = {
        [2] = "a pickle", [3] = "a pickle", [5] = "an integer", [6] = "a float", [7] = "an array"};
    return dd_error(-EINVAL,
                    "append to %s (tag %u), which would be none then: only bytes and text "
                    "can be appended to",
                    is[tag], tag);
}

static int grow_check(unsigned tag) {
    return tag_can_grow(tag) ? 0 : cannot_grow(tag);
}

int ddict_append(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
                 unsigned flags, size_t *total, int timeout_ms) {
    struct target t;
    struct call_deadline w;
    int rc = begin(&t, d, key, klen, timeout_ms, &w);
    if (rc < 0)
        return rc;
    if ((rc = tag_check("append", flags)) < 0)
        return rc;
    if (!tag_can_grow(DDICT_TAG_OF(flags)))
        return cannot_grow(DDICT_TAG_OF(flags));
    if (window_has(t.s, key, klen))
        return window_append(d, key, klen, val, vlen, flags, total, grow_check, timeout_ms);
    do {
        struct ddict_view had = {0};
        uint64_t left = call_deadline_left_us(&w) / 1000;
        if (left == 0)
            return dd_error(-ETIMEDOUT, "others changed the value all the time");
        rc = ddict_view(d, key, klen, &had, 0, left < INT32_MAX ? (int)left : INT32_MAX);
        if (rc < 0 && rc != DDICT_ENOKEY)
            return rc;
        if (rc == 0 && !tag_can_grow(had.tag)) {
            rc = cannot_grow(had.tag);
            ddict_release(&had);
            return rc;
        }
        struct iovec v[2] = {{.iov_base = (void *)(uintptr_t)had.data, .iov_len = had.len},
                             {.iov_base = (void *)(uintptr_t)val, .iov_len = vlen}};
        rc = put_if(d, &t, v, 2, rc == 0 ? DDICT_TAG(had.tag) : flags, had.version, NULL, &w);
        if (rc == 0 && total)
            *total = had.len + vlen;
        ddict_release(&had);
    } while (rc == DDICT_ECHANGED);
    return rc;
}

int ddict_key_version(ddict_t *d, const void *key, size_t klen, uint64_t *version, int timeout_ms) {
    struct target t;
    int rc = target_init(&t, d, key, klen, timeout_ms);
    if (rc < 0)
        return rc;
    if (window_has(t.s, key, klen))
        return window_key_version(d, key, klen, version, timeout_ms);
    struct node_manager *m = session_local(t.s, t.owner);
    *version = 0;
    rc = m ? local_head(t.s, m, t.h, key, klen, NULL, version)
           : cached_head(t.s, t.h, key, klen, NULL, version);
    if (rc == -EAGAIN) {
        struct outgoing out = {
            .head = {.type = MSG_HEAD, .key_len = (uint32_t)klen, .manager = t.owner}, .key = key};
        struct request r = {.sink = SINK_NONE};
        rc = request_call(t.s, session_route(t.s, t.owner), &out, &r, timeout_ms);
        if (rc == 0)
            *version = r.reply.version;
    }
    return rc == DDICT_ENOKEY ? 0 : rc;
}

int ddict_wait_change(ddict_t *d, const void *key, size_t klen, uint64_t version, uint64_t *now,
                      int timeout_ms) {
    struct target t;
    struct call_deadline w;
    uint64_t is;
    int rc = target_init(&t, d, key, klen, timeout_ms);
    if (rc < 0)
        return rc;
    if (window_has(t.s, key, klen))
        return window_wait_change(d, key, klen, version, now, timeout_ms);
    rc = ddict_key_version(d, key, klen, &is, timeout_ms);
    if (rc == DDICT_EKEYLOST && version == 0) /* it is not there; the manager waits until it is */
        rc = 0;
    if (rc == 0 && is == version) {
        if ((rc = begin(&t, d, key, klen, timeout_ms, &w)) < 0)
            return rc;
        call_deadline_init(&w, t.s, session_wait_ms(t.s, DDICT_WAIT, timeout_ms));
        struct outgoing out = {.head = {.type = MSG_HEAD,
                                        .rule = RULE_IF,
                                        .key_len = (uint32_t)klen,
                                        .version = version,
                                        .manager = t.owner},
                               .key = key};
        struct request r = {.sink = SINK_NONE};
        rc = request_call_waiting(t.s, session_route(t.s, t.owner), &out, &r, &w, 0);
        if (request_was_late(&r))
            return dd_error(rc, "the key did not change within %.3g s", w.timeout_ms / 1000.0);
        is = r.reply.version;
    }
    if (rc == 0 && now)
        *now = is;
    return rc;
}

static int left_ms(struct call_deadline *w) {
    uint64_t left = call_deadline_left_us(w) / 1000;
    return left < INT32_MAX ? (int)left : INT32_MAX;
}

int ddict_wait_for(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
                   unsigned flags, int timeout_ms) {
    struct target t;
    struct call_deadline w;
    struct ddict_view v;
    int rc = target_init(&t, d, key, klen, timeout_ms);
    if (rc < 0 || (rc = tag_check("wait_for", flags)) < 0)
        return rc;
    call_deadline_init(&w, t.s, session_wait_ms(t.s, DDICT_WAIT, timeout_ms));
    do {
        v = (struct ddict_view){0};
        rc = ddict_view(d, key, klen, &v, 0, left_ms(&w));
        if (rc < 0 && rc != DDICT_ENOKEY)
            return rc;
        bool is_it = rc == 0 && v.tag == DDICT_TAG_OF(flags) && v.len == vlen &&
                     (vlen == 0 || memcmp(v.data, val, vlen) == 0);
        ddict_release(&v);
        if (is_it)
            return 0;
        rc = ddict_wait_change(d, key, klen, v.version, NULL, left_ms(&w));
    } while (rc == 0);
    return rc != -ETIMEDOUT ? rc
                            : dd_error(rc, "the key did not get this value within %.3g s",
                                       w.timeout_ms / 1000.0);
}
