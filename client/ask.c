/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - one request to a manager and its answer. */
#include "ask.h"

#include <errno.h>

int ask_within(struct session *s, struct node_manager *m, struct outgoing *out, struct request *r,
               struct patience *w) {
    int rc = port_send(&m->port, out, r, w);
    if (likely(rc == 0))
        rc = port_wait(&m->port, r, w);
    if (unlikely(rc < 0)) { /* never answered; the sentence is set */
        request_drop(r);
        return rc;
    }
    return likely(r->status >= 0) ? r->status : request_error(s, m, r, r->status);
}

int ask(struct session *s, struct node_manager *m, struct outgoing *out, struct request *r,
        int timeout_ms) {
    struct patience w;
    if (unlikely(timeout_ms == 0))
        return dd_error(-ETIMEDOUT, "manager %u must be asked, which a timeout of 0 does not allow",
                        m->id);
    patience_init(&w, s, timeout_ms);
    return ask_within(s, m, out, r, &w);
}

bool request_was_late(const struct request *r) {
    return r->reply.status ==
           -ETIMEDOUT; /* not: its value did not come on, or nobody answered us */
}

void request_again(struct request *r) {
    *r = (struct request){.sink = r->sink,
                          .buf = r->sink == SINK_BUFFER ? r->buf : NULL,
                          .cap = r->cap,
                          .slot = r->slot,
                          .batch = r->batch,
                          .index = r->index,
                          .job = r->job};
}

int ask_waiting(struct session *s, struct node_manager *m, struct outgoing *out, struct request *r,
                struct patience *w, unsigned flags) {
    const struct outgoing first = *out;
    int rc;
    int grace =
        flags & DDICT_SURE && s->timeout_ms > ANSWER_GRACE_MS ? s->timeout_ms : ANSWER_GRACE_MS;
    uint64_t left = patience_left_us(w);
    for (;;) {
        out->head.flags |= MSGF_WAIT;
        out->head.aux = left;
        patience_extend(w, grace);
        rc = ask_within(s, m, out, r, w);
        patience_extend(w, -grace);
        /* We are the judge: time in which we were suspended and the manager was not, is not over. */
        if (!request_was_late(r) || (left = patience_left_us(w)) == 0)
            break;
        *out = first;
        request_again(r);
    }
    if (rc == -ETIMEDOUT)
        dd_error(rc, "the key did not appear within %.3g s", w->timeout_ms / 1000.0);
    return rc;
}
