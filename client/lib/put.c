/* SPDX-License-Identifier: Apache-2.0 */
/* put.c - calls that change one key: put, del. */
#include "near.h"
#include "request.h"
#include "window.h"

#include <errno.h>
#include <string.h>

int ddict_put(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
              unsigned flags, int timeout_ms) {
    struct iovec v = {.iov_base = (void *)(uintptr_t)val, .iov_len = vlen};
    return ddict_putv(d, key, klen, &v, 1, flags, timeout_ms);
}

int put_head(struct msg *head, unsigned owner, size_t klen, uint64_t vlen, unsigned flags) {
    if (unlikely((flags & (DDICT_NEW | DDICT_EXISTING)) == (DDICT_NEW | DDICT_EXISTING)))
        return dd_error(-EINVAL, "put with both DDICT_NEW and DDICT_EXISTING");
    if (unlikely(flags & ~(DDICT_NEW | DDICT_EXISTING | DDICT_LOADED | DDICT_REFILL |
                           DDICT_PERSISTENT | DDICT_TAG(0xff))))
        return dd_error(-EINVAL, "put with unknown flags 0x%x", flags);
    if (unlikely(vlen >= MSG_VALUE_MAX))
        return dd_error(DDICT_EVALSIZE, "a value of %llu bytes", (unsigned long long)vlen);
    memset(head, 0, sizeof *head);
    head->type = MSG_PUT;
    /* MSGF_NEW, MSGF_EXISTING are the same bits */
    head->flags = (uint16_t)((flags & (DDICT_NEW | DDICT_EXISTING)) |
                             (flags & DDICT_LOADED ? MSGF_LOADED : 0) |
                             (flags & DDICT_REFILL ? MSGF_REFILL : 0));
    head->key_len = (uint32_t)klen;
    head->val_len = vlen;
    head->manager = owner;
    head->tag = DDICT_TAG_OF(flags);
    return 0;
}

int pieces_length(const struct iovec *iov, int n, uint64_t *len) {
    *len = 0;
    for (int i = 0; i < n; i++)
        if (unlikely(iov[i].iov_len >= MSG_VALUE_MAX || (*len += iov[i].iov_len) >= MSG_VALUE_MAX))
            return dd_error(DDICT_EVALSIZE, "a value of more than %llu bytes",
                            (unsigned long long)MSG_VALUE_MAX);
    return 0;
}

int ddict_putv(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
               unsigned flags, int timeout_ms) {
    struct target t;
    uint64_t vlen;
    int rc = target_init(&t, d, key, klen, timeout_ms);
    if (unlikely(rc < 0))
        return rc;
    if (unlikely(n < 0 || n > DDICT_PIECES_MAX))
        return dd_error(-EINVAL, "a value of %d pieces: at most %d", n, DDICT_PIECES_MAX);
    if (unlikely(flags & DDICT_NEAR))
        return near_put(d, key, klen, iov, n, flags, timeout_ms);
    if (window_has(t.s, key, klen))
        return window_put(d, key, klen, iov, n, flags, timeout_ms);
    struct outgoing out = {.key = key, .iov = iov, .niov = n};
    if (unlikely((rc = pieces_length(iov, n, &vlen)) < 0) ||
        unlikely((rc = put_head(&out.head, t.owner, klen, vlen, flags)) < 0))
        return rc;
    struct request r = {.sink = SINK_NONE};
    rc = request_call(t.s, session_route(t.s, t.owner), &out, &r, timeout_ms);
    return unlikely(rc == DDICT_ELINK) ? near_put(d, key, klen, iov, n, flags, timeout_ms) : rc;
}

static int del(ddict_t *d, const void *key, size_t klen, uint16_t flags, int timeout_ms) {
    struct target t;
    int rc = target_init(&t, d, key, klen, timeout_ms);
    if (rc < 0)
        return rc;
    if (window_has(t.s, key, klen))
        return window_del(d, key, klen, timeout_ms);
    struct outgoing out = {
        .head = {.type = MSG_DEL, .flags = flags, .key_len = (uint32_t)klen, .manager = t.owner},
        .key = key};
    struct request r = {.sink = SINK_NONE};
    rc = request_call(t.s, session_route(t.s, t.owner), &out, &r, timeout_ms);
    return rc == DDICT_ELINK ? near_del(d, key, klen, timeout_ms) : rc;
}

int ddict_del(ddict_t *d, const void *key, size_t klen, int timeout_ms) {
    return del(d, key, klen, 0, timeout_ms);
}
int ddict_unload(ddict_t *d, const void *key, size_t klen, int timeout_ms) {
    return del(d, key, klen, MSGF_LOADED, timeout_ms);
}
