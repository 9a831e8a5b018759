/* SPDX-License-Identifier: Apache-2.0 */
/* model_client_queues.c - calls for keys of several values. */
#include "model_client.h"

#include <errno.h>

static const uint64_t most_of[MODEL_QUEUES] = {0, 20, 0};

void push_one(void) {
    unsigned q = (unsigned)below(MODEL_QUEUES), flags = one_in(2) ? DDICT_WAIT : 0;
    char key[64];
    size_t klen = model_queue_name(q, key), len;
    int ms = flags ? (int)below(100) : LONG_MS;
    int64_t there = ddict_queued(d, key, klen, LONG_MS);
    if (there < 0)
        found(model_wrong("queued: %lld %s", (long long)there, ddict_errmsg()));
    if (most_of[q] != 0 && there > (int64_t)most_of[q])
        found(model_wrong("queue %u has %lld values and may have %llu", q, (long long)there,
                          (unsigned long long)most_of[q]));
    if (there > 300)
        return;
    if (one_in(20)) {
        uint64_t own = 77;
        int rc = ddict_queue_open(d, key, klen, most_of[q], &own, LONG_MS);
        if (rc < 0 && rc != DDICT_EFULL && rc != DDICT_EFROZEN)
            found(model_wrong("queue_open of %u: %d %s", q, rc, ddict_errmsg()));
        else if (rc == 0 && own != most_of[q] && own != 0)
            found(model_wrong("queue_open of %u: own %llu", q, (unsigned long long)own));
    }
    uint64_t e = model_push(q, &len);
    if (e == 0)
        return;
    model_fill(out, 1000 + q, e, len);
    size_t a = below(len);
    struct iovec v[2] = {{out, a}, {out + a, len - a}};
    int rc = one_in(2) ? ddict_push(d, key, klen, out, len, flags, most_of[q], ms)
                       : ddict_pushv(d, key, klen, v, 2, flags, most_of[q], ms);
    uint32_t state = rc == 0                                                     ? MODEL_OK
                     : rc == DDICT_EFULL || rc == DDICT_EFROZEN || rc == -EAGAIN ? MODEL_FAILED
                                                                                 : MODEL_UNKNOWN;
    if (state == MODEL_UNKNOWN && (rc != -ETIMEDOUT || ms == LONG_MS))
        found(model_wrong("push to queue %u, flags %x, %d ms: %d %s", q, flags, ms, rc,
                          ddict_errmsg()));
    if (rc == -EAGAIN && most_of[q] == 0)
        found(model_wrong("push to queue %u: %s", q, ddict_errmsg()));
    model_pushed(q, e, state);
    model_count(state == MODEL_OK ? "push" : "push refused", 1);
}

int take_one(unsigned q, unsigned flags, int ms) {
    char key[64];
    size_t klen = model_queue_name(q, key);
    struct ddict_view v;
    model_pop(q);
    int rc = ddict_pop(d, key, klen, &v, flags, ms);
    if (rc < 0 && rc != DDICT_ENOKEY && rc != DDICT_EFROZEN && (rc != -ETIMEDOUT || ms == LONG_MS))
        found(model_wrong("pop of queue %u, flags %x, %d ms: %d %s", q, flags, ms, rc,
                          ddict_errmsg()));
    found(
        model_popped(q, rc == 0 ? v.data : NULL, rc == 0 ? v.len : 0, rc == -ETIMEDOUT && ms > 0));
    if (rc == 0) {
        ddict_release(&v);
        model_count("pop of queue", 1);
    } else {
        model_count("pop, empty", 1);
    }
    return rc;
}

void take_any(void) {
    unsigned q = (unsigned)below(MODEL_QUEUES);
    for (uint64_t n = 1 + below(3); n > 0; n--)
        switch (below(3)) {
        case 0:
            take_one(q, DDICT_WAIT, (int)below(60));
            break;
        case 1:
            take_one(q, DDICT_WAIT | DDICT_SURE, (int)below(60));
            break;
        default:
            take_one(q, 0, LONG_MS);
        }
}
