/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - one request to a manager and its answer. */
#include "request.h"

#include <errno.h>

static int ask_once(struct session *s, struct node_manager *m, struct outgoing *out,
                    struct request *r, struct call_deadline *w) {
    int rc = client_lane_ask(&m->lane, out, r, w);
    if (unlikely(rc < 0)) { /* there was no answer; the sentence is set */
        request_drop(r);
        return rc;
    }
    return likely(r->status >= 0) ? r->status : request_error(s, m, r, r->status);
}

int request_call_within(struct session *s, struct node_manager *m, struct outgoing *out,
                        struct request *r, struct call_deadline *w) {
    for (;;) {
        int rc = ask_once(s, m, out, r, w);
        if (likely(!request_is_stale(r, w)))
            return rc;
        outgoing_again(out);
        if ((rc = request_again(r)) < 0)
            return rc;
    }
}

int request_call(struct session *s, struct node_manager *m, struct outgoing *out, struct request *r,
                 int timeout_ms) {
    struct call_deadline w;
    if (unlikely(timeout_ms == 0))
        return dd_error(-ETIMEDOUT, "manager %u must be asked, which a timeout of 0 does not allow",
                        m->id);
    call_deadline_init(&w, s, timeout_ms);
    return request_call_within(s, m, out, r, &w);
}

static int no_memory_for_value(uint64_t n) {
    return dd_error(-ENOMEM, "no memory for a value of %llu bytes", (unsigned long long)n);
}

bool request_was_late(const struct request *r) {
    /* reply.status only comes from the manager; r->status is also -ETIMEDOUT if the value's stream
     * stopped or no answer came */
    return r->reply.status == -ETIMEDOUT;
}

bool request_is_stale(const struct request *r, struct call_deadline *w) {
    return r->status == -ESTALE && call_deadline_left_us(w) > 0;
}

int request_again(struct request *r) {
    uint64_t room = r->room;
    *r = (struct request){.sink = r->sink,
                          .buf = r->sink == SINK_BUFFER ? r->buf : NULL,
                          .cap = r->cap,
                          .slot = r->slot,
                          .batch = r->batch,
                          .index = r->index,
                          .is_async_op = r->is_async_op};
    return room > 0 && request_aside(r, room) < 0 ? no_memory_for_value(room) : 0;
}

int request_pop(struct session *s, struct request *r, struct outgoing *out, uint64_t len) {
    uint64_t room = __atomic_load_n(&s->pop_room, __ATOMIC_RELAXED);
    if (room < len) {
        room = len;
        /* if two threads store it, either value will do */
        __atomic_store_n(&s->pop_room, len < POP_ROOM_MAX ? len : POP_ROOM_MAX, __ATOMIC_RELAXED);
    }
    if (room < POP_ROOM_MIN)
        room = POP_ROOM_MIN;
    for (;;) {
        out->head.version = room;
        if (request_aside(r, room) == 0)
            return 0;
        if (room <= len || room <= POP_ROOM_LEAST)
            return no_memory_for_value(len);
        room = room > POP_ROOM_MIN && len < POP_ROOM_MIN ? POP_ROOM_MIN
               : len > POP_ROOM_LEAST                    ? len
                                                         : POP_ROOM_LEAST;
    }
}

int request_call_waiting(struct session *s, struct node_manager *m, struct outgoing *out,
                         struct request *r, struct call_deadline *w, unsigned flags) {
    const struct outgoing first = *out;
    int rc;
    int grace = answer_grace_ms(out->head.type);
    if (flags & DDICT_SURE && s->wait_ms > grace)
        grace = s->wait_ms;
    uint64_t left = call_deadline_left_us(w);
    for (;;) {
        out->head.flags |= MSGF_WAIT;
        out->head.aux = left;
        call_deadline_extend(w, grace);
        rc = ask_once(s, m, out, r, w);
        call_deadline_extend(w, -grace);
        /* Our clock decides: if we were suspended and the manager was not, our deadline is not
         * over. */
        if ((!request_was_late(r) && !request_is_stale(r, w)) ||
            (left = call_deadline_left_us(w)) == 0)
            break;
        *out = first;
        if ((rc = request_again(r)) < 0)
            break;
    }
    if (rc == -ETIMEDOUT)
        dd_error(rc, "the key did not appear within %.3g s", w->timeout_ms / 1000.0);
    return rc;
}
