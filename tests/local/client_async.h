/* SPDX-License-Identifier: Apache-2.0 */
/* client_async.h - a dictionary, a handle and a set of operations for each test; submitting, and
 * waiting as an event loop does. */
#ifndef CLIENT_ASYNC_H
#define CLIENT_ASYNC_H

#include "client_dict.h"

#include <poll.h>
#include <stdlib.h>

#define MIB (1u << 20)

static struct dict x;
static ddict_t *d;
static ddict_async_t *q;
static int fds_before;

static inline void begin(int nodes) {
    dict_start(&x, nodes, 2, 256 * MIB);
    d = dict_attach(&x, 0);
    fds_before = open_fds();
    ok(ddict_async_open(d, &q));
}

static inline void end(void) {
    ddict_async_close(q);
    ck_assert_int_eq(open_fds(), fds_before);
    ddict_detach(d);
    dict_stop(&x);
}

static inline bool readable(ddict_async_t *of, int ms) {
    struct pollfd p = {.fd = ddict_async_fd(of), .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

/* Nothing is under way, and the descriptor does not say otherwise. A manager may ring once more for
 * what we have taken already. */
static inline bool quiet(ddict_async_t *of) {
    struct ddict_op none;
    for (int i = 0; i < 20; i++)
        if (ddict_async_poll(of, &none, 1, 0) == 0 && !readable(of, 50))
            return true;
    return false;
}

/* As an event loop does it: asleep on the descriptor, then all that there is. Returns n or fails.
 * */
static inline size_t loop_until(ddict_async_t *of, struct ddict_op *done, size_t n) {
    size_t got = 0;
    double end_s = now_s() + 60;
    while (got < n) {
        ck_assert_msg(now_s() < end_s && readable(of, 20000), "%zu of %zu results came", got, n);
        ssize_t k;
        do {
            k = ddict_async_poll(of, done + got, n - got < 7 ? n - got : 7, 0);
            ok(k);
            got += (size_t)k;
        } while (k > 0 && got < n);
    }
    return got;
}

static inline struct ddict_op op_of(unsigned what, const char *key, size_t klen, void *buf,
                                    size_t len, uintptr_t user) {
    return (struct ddict_op){.what = what,
                             .key = key,
                             .klen = klen,
                             .buf = buf,
                             .len = len,
                             .timeout_ms = 30000,
                             .user = (void *)user};
}

static inline void submit_one(ddict_async_t *to, struct ddict_op *j, ssize_t under_way) {
    ssize_t n = ddict_async_submit(to, j, 1);
    ck_assert_msg(n == under_way, "submit: %zd, status %d %s", n, j->status, ddict_errmsg());
}

#define ASYNC_MAIN(name, ...)                                                     \
    int main(int argc, char **argv) {                                             \
        const TTest *const tests[] = {__VA_ARGS__};                               \
        return tests_main(name, argc, argv, tests, sizeof tests / sizeof *tests); \
    }

#endif
