/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane_recv.c - the receiving side of a lane: the thread that finds records in the completion queue
 * delivers them to their requesters. Records are checked as if they came from an untrusted process;
 * one with an id that is not in the table is dropped.
 *
 * The manager pins the item of a PLACED reply until CQ head has passed the reply, so the lease is
 * stored first (reader_adopt), and then the record is consumed.
 */
#include "client_lane_inside.h"
#include "handle.h"
#include "view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define DRAIN_MAX    256 /* most records taken in one turn of the lock */
#define MEMORY_ALIGN 64u

void *view_memory(uint64_t len) {
    /* rounded up, and never 0 */
    uint64_t room = (len + MEMORY_ALIGN) & ~(uint64_t)(MEMORY_ALIGN - 1);
    return room < len ? NULL : aligned_alloc(MEMORY_ALIGN, room);
}

int request_aside(struct request *r, uint64_t room) {
    r->room = room;
    r->buf = view_memory(room);
    return r->buf ? 0 : -ENOMEM;
}

/* Get memory for a value of n bytes: exactly as much, or the memory set aside if it is not much
 * larger or no other is to be had. */
static bool memory_make(struct request *r, uint64_t n) {
    r->cap = n;
    bool fits = r->buf && n <= r->room;
    if (fits && n >= r->room / 2)
        return true;
    void *buf = view_memory(n);
    if (!buf && fits)
        return true;
    free(r->buf);
    r->buf = buf;
    return buf != NULL;
}

static void value_expect(struct client_lane *p, struct request *r, uint64_t len) {
    int rc = 0;
    if (r->sink == SINK_BUFFER && len > r->cap) {
        rc = DDICT_ESMALL;
    } else if (r->sink == SINK_MEMORY) {
        if (!memory_make(r, len))
            rc = -ENOMEM;
    } else if (r->sink == SINK_NONE) {
        rc = DDICT_EPROTO;
    }
    if (rc == 0) {
        r->streaming = true;
        return;
    }
    client_lane_notice_add(p, r, MSG_CANCEL, r->id);
    request_complete(p, r, rc);
}

static void take_inline(struct client_lane *p, struct request *r, const uint8_t *payload,
                        uint64_t n) {
    if (r->sink == SINK_BUFFER) {
        if (n != r->reply.val_len) {
            request_complete(p, r, DDICT_EPROTO);
            return;
        }
        if (n > r->cap) {
            request_complete(p, r, DDICT_ESMALL);
            return;
        }
    } else if (r->sink == SINK_MEMORY) {
        if (!memory_make(r, n)) {
            request_complete(p, r, -ENOMEM);
            return;
        }
    } else {
        n = 0;
    }
    if (n > 0)
        memcpy(r->buf, payload, n);
    r->got = n;
    request_complete(p, r, r->reply.status);
}

static void take_reply(struct client_lane *p, struct request *r, const struct msg *m,
                       const uint8_t *payload) {
    uint32_t n = m->len - MSG_HEADER;
    if (r->streaming) {
        request_complete(p, r, DDICT_EPROTO);
        return;
    }
    r->reply = *m;
    if (m->status < 0) {
        if (n > 0 && (r->text = malloc(n + 1))) {
            memcpy(r->text, payload, n);
            r->text[n] = 0;
        }
        request_complete(p, r, m->status);
    } else if (m->flags & MSGF_PLACED) {
        if (!r->slot || m->manager != p->manager->id) {
            request_complete(p, r, DDICT_EPROTO);
            return;
        }
        reader_adopt(p->arena, m->aux, r->slot);
        /* the value is placed, so the memory is not needed */
        free(r->sink == SINK_MEMORY ? r->buf : NULL);
        r->buf = r->sink == SINK_MEMORY ? NULL : r->buf;
        r->placed = true;
        request_complete(p, r, m->status);
    } else if (m->flags & MSGF_STREAM) {
        value_expect(p, r, m->val_len);
    } else {
        take_inline(p, r, payload, n);
    }
}

static void take_piece(struct client_lane *p, struct request *r, const struct msg *m,
                       const uint8_t *payload) {
    uint64_t n = m->len - MSG_HEADER;
    if (m->status < 0) {
        request_complete(p, r, m->status);
        return;
    }
    if (!r->streaming || m->aux != r->got || n > r->reply.val_len - r->got) {
        request_complete(p, r, DDICT_EPROTO);
        return;
    }
    memcpy(r->buf + r->got, payload, n);
    r->got += n;
    if (m->flags & MSGF_LAST)
        request_complete(p, r, r->got == r->reply.val_len ? r->reply.status : DDICT_EPROTO);
}

static void take_rewind(struct client_lane *p, struct request *r, const struct msg *m) {
    if (!r->streams || (int32_t)(m->rewind - r->rewind) <= 0) {
        request_complete(p, r, DDICT_EPROTO);
        return;
    }
    r->from = m->aux;
    r->rewind = m->rewind;
    request_rewind(p, r);
}

int client_lane_drain(struct client_lane *p) {
    struct msg m;
    const uint8_t *payload = NULL;
    int n = 0, rc = p->broken;
    while (rc == 0 && n < DRAIN_MAX && (rc = ring_peek(&p->lane.cq, &m, &payload)) > 0) {
        bool of_lane = m.type == MSG_HOLD || m.type == MSG_LIFE;
        struct request *r = likely(!of_lane) ? request_table_get(p, m.id) : NULL;
        if (unlikely(m.type == MSG_HOLD))
            client_lane_manager_hold(p, m.manager, m.aux != 0);
        else if (unlikely(m.type == MSG_LIFE))
            client_lane_life(p);
        if (r && m.type == MSG_REPLY)
            take_reply(p, r, &m, payload);
        else if (r && m.type == MSG_DATA)
            take_piece(p, r, &m, payload);
        else if (!r && m.type == MSG_REPLY)
            p->strays++;
        else if (unlikely(r && m.type == MSG_REWIND))
            take_rewind(p, r, &m);
        else if (unlikely(r && m.type == MSG_FORGOT))
            request_forgotten(p, r);
        ring_consume(&p->lane.cq, &m);
        n++;
        rc = 0;
    }
    if (n > 0) {
        __atomic_store_n(&p->taken, p->lane.cq.pos, __ATOMIC_RELAXED);
        if (lane_space_wanted(&p->lane))
            eventfd_write(p->event_fd, 1);
    }
    if (unlikely(p->notices_n > 0))
        client_lane_notices_send(p);
    if (unlikely(p->unsure > 0))
        client_lane_unsure_ask(p);
    if (rc < 0) {
        p->broken = rc;
        return dd_error(rc, "the lane to manager %u is damaged", p->manager->id);
    }
    return n;
}
