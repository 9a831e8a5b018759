/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c - keys with several values: push behind the last, and count them. ddict_pop() takes the
 * first. */
#include "request.h"
#include "window.h"

#include <errno.h>

/* Where several values of one key would have to be kept at each checkpoint. */
static int no_queue(void) {
    return dd_error(-EOPNOTSUPP,
                    "a key of a dictionary with a working set is no queue; ddict.Queue "
                    "works, and so do hidden keys");
}

#define VALUES_MAX (1ull << 62)

int ddict_pushv(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
                unsigned flags, uint64_t most, int timeout_ms) {
    struct target t;
    uint64_t vlen;
    int rc = target_init(&t, d, key, klen, timeout_ms);
    if (rc < 0)
        return rc;
    if (window_has(t.s, key, klen))
        return no_queue();
    if (n < 0 || n > DDICT_PIECES_MAX || flags & ~(DDICT_WAIT | DDICT_SURE | DDICT_TAG(0xff)) ||
        most > VALUES_MAX)
        return dd_error(-EINVAL, "push of %d pieces with flags 0x%x and at most %llu values", n,
                        flags, (unsigned long long)most);
    struct outgoing out = {.key = key, .iov = iov, .niov = n};
    if ((rc = pieces_length(iov, n, &vlen)) < 0 ||
        (rc = put_head(&out.head, t.owner, klen, vlen, flags & ~(DDICT_WAIT | DDICT_SURE))) < 0)
        return rc;
    out.head.flags |= MSGF_APPEND;
    out.head.version = most;
    struct request r = {.sink = SINK_NONE};
    if (!(flags & DDICT_WAIT)) {
        rc = request_call(t.s, session_route(t.s, t.owner), &out, &r, timeout_ms);
    } else {
        struct call_deadline w;
        if (timeout_ms == 0)
            return dd_error(-ETIMEDOUT,
                            "manager %u must be asked, which a timeout of 0 does not allow",
                            t.owner);
        call_deadline_init(&w, t.s, session_wait_ms(t.s, flags, timeout_ms));
        rc = request_call_waiting(t.s, session_route(t.s, t.owner), &out, &r, &w, flags);
        if (request_was_late(&r))
            rc = -EAGAIN;
    }
    if (rc == DDICT_ELINK)
        return dd_error(-EINVAL, "the key's value was put near: nothing can be pushed behind it");
    return rc == -EAGAIN ? dd_error(rc, "the key has as many values as it may") : rc;
}

int ddict_push(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
               unsigned flags, uint64_t most, int timeout_ms) {
    struct iovec v = {.iov_base = (void *)(uintptr_t)val, .iov_len = vlen};
    return ddict_pushv(d, key, klen, &v, 1, flags, most, timeout_ms);
}

static int queue_ask(ddict_t *d, const void *key, size_t klen, uint64_t most, struct request *r,
                     int timeout_ms) {
    struct target t;
    int rc = target_init(&t, d, key, klen, timeout_ms);
    if (rc < 0)
        return rc;
    if (window_has(t.s, key, klen))
        return no_queue();
    if (most > VALUES_MAX)
        return dd_error(-EINVAL, "a queue of at most %llu values", (unsigned long long)most);
    struct outgoing out = {.head = {.type = MSG_HEAD,
                                    .flags = MSGF_APPEND,
                                    .key_len = (uint32_t)klen,
                                    .version = most,
                                    .manager = t.owner},
                           .key = key};
    *r = (struct request){.sink = SINK_NONE};
    return request_call(t.s, session_route(t.s, t.owner), &out, r, timeout_ms);
}

int ddict_queue_open(ddict_t *d, const void *key, size_t klen, uint64_t most, uint64_t *own,
                     int timeout_ms) {
    struct request r;
    int rc = queue_ask(d, key, klen, most, &r, timeout_ms);
    if (rc == 0 && own)
        *own = r.reply.version;
    return rc;
}

int64_t ddict_queued(ddict_t *d, const void *key, size_t klen, int timeout_ms) {
    struct request r;
    int rc = queue_ask(d, key, klen, 0, &r, timeout_ms);
    return rc < 0 ? rc : (int64_t)r.reply.aux;
}
