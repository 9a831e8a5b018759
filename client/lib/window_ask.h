/* SPDX-License-Identifier: Apache-2.0 */
/* window_ask.h - requests about items of a working set, which are sent before they are waited for. */
#ifndef DDICT_LIB_WINDOW_ASK_H
#define DDICT_LIB_WINDOW_ASK_H

#include "window.h"

/* of a value that is sent so, in bytes: it goes in one message */
#define WINDOW_ASK_MAX (32u << 10)

/* One of them. It stays where it is, and what it sends is there, until it was waited for. */
struct window_ask {
    struct session *s;
    uint64_t session; /* its id */
    struct node_manager *m;
    struct outgoing out;
    struct iovec iov;
    struct request r;
    bool under_way;
    int rc; /* of the request that is over, as of the call that does the same */
};

/* Prepare one, on an item of `owner`. */
void window_ask_put(struct window_ask *a, struct session *s, unsigned owner,
                    const struct window_key *k, const struct iovec *iov, int n, unsigned tag);
void window_ask_put_if(struct window_ask *a, struct session *s, unsigned owner,
                       const struct window_key *k, const void *bytes, size_t len, uint64_t version);
void window_ask_del(struct window_ask *a, struct session *s, unsigned owner,
                    const struct window_key *k);
/* Send it. 0, or a negative code, which is its rc. */
int window_ask_send(struct window_ask *a, struct call_deadline *w);
/* Its rc, when it is over. */
int window_ask_wait(struct window_ask *a, struct call_deadline *w);
/*
 * Remove the value of an entry that no index names any more, without waiting for the answer: that is
 * taken by the next such call on the handle, or when it is detached.
 */
void window_remove_later(struct window_call *c, const struct window_entry *e);
/* n of them at once. The time of w begins anew at each answer. */
void window_ask_all(struct window_ask *a, uint32_t n, struct call_deadline *w);
/* Of a put_if that is over: the version that the item has now. */
static inline uint64_t window_ask_version(const struct window_ask *a) {
    return a->r.reply.version;
}

#endif
