/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c - keys with more than one value: push behind the last, and how many there are. The first is taken by ddict_pop(). */
#include <errno.h>

#include "ask.h"

#define VALUES_MAX (1ull << 62)

int ddict_pushv(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n, unsigned flags, uint64_t most, int timeout_ms)
{
    struct target t;
    uint64_t vlen;
    int rc = target_init(&t, d, key, klen);
    if (rc < 0)
        return rc;
    if (n < 0 || n > DDICT_PIECES_MAX || flags & ~(DDICT_WAIT | DDICT_SURE | DDICT_TAG(0xff)) || most > VALUES_MAX)
        return dd_error(-EINVAL, "push of %d pieces with flags 0x%x and at most %llu values", n, flags, (unsigned long long)most);
    struct outgoing out = {.key = key, .iov = iov, .niov = n};
    if ((rc = pieces_length(iov, n, &vlen)) < 0 || (rc = put_head(&out.head, t.owner, klen, vlen, flags & ~(DDICT_WAIT | DDICT_SURE))) < 0)
        return rc;
    out.head.flags |= MSGF_APPEND;
    out.head.version = most;
    struct request r = {.sink = SINK_NONE};
    if (!(flags & DDICT_WAIT)) {
        rc = ask(t.s, session_ask(t.s, t.owner, t.h), &out, &r, timeout_ms);
    } else {
        struct patience w;
        if (timeout_ms == 0)
            return dd_error(-ETIMEDOUT, "manager %u must be asked, which a timeout of 0 does not allow", t.owner);
        patience_init(&w, t.s, timeout_ms);
        rc = ask_waiting(t.s, session_ask(t.s, t.owner, t.h), &out, &r, &w, flags);
        if (request_was_late(&r))
            rc = -EAGAIN;
    }
    return rc == -EAGAIN ? dd_error(rc, "the key has %llu values, as many as it may", (unsigned long long)most) : rc;
}

int ddict_push(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen, unsigned flags, uint64_t most, int timeout_ms)
{
    struct iovec v = {.iov_base = (void *)(uintptr_t)val, .iov_len = vlen};
    return ddict_pushv(d, key, klen, &v, 1, flags, most, timeout_ms);
}

int64_t ddict_queued(ddict_t *d, const void *key, size_t klen, int timeout_ms)
{
    struct target t;
    int rc = target_init(&t, d, key, klen);
    if (rc < 0)
        return rc;
    struct outgoing out = {.head = {.type = MSG_HEAD, .key_len = (uint32_t)klen, .manager = t.owner}, .key = key};
    struct request r = {.sink = SINK_NONE};
    rc = ask(t.s, session_ask(t.s, t.owner, t.h), &out, &r, timeout_ms);
    return rc == DDICT_ENOKEY ? 0 : rc < 0 ? rc : (int64_t)r.reply.aux;
}
