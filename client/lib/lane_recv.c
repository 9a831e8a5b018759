/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane_recv.c - the receiving side of a lane: whoever finds records in the completion queue
 * delivers them to their requesters. What the manager writes is checked as if it came from a
 * stranger; a record for an id that nobody waits for is dropped.
 *
 * A PLACED reply is pinned by the manager until CQ head passes it, so the lease is stored first
 * (reader_adopt), then the record is consumed.
 */
#include "client_lane_inside.h"
#include "handle.h"
#include "view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define DRAIN_MAX    256 /* records at a time under the lock */
#define MEMORY_ALIGN 64u

void *view_memory(uint64_t len) {
    /* at least one byte */
    uint64_t room = (len + MEMORY_ALIGN) & ~(uint64_t)(MEMORY_ALIGN - 1);
    return room < len ? NULL : aligned_alloc(MEMORY_ALIGN, room);
}

int request_aside(struct request *r, uint64_t room) {
    r->room = room;
    r->buf = view_memory(room);
    return r->buf ? 0 : -ENOMEM;
}

/* For a value of n bytes: as much as it needs, or what was set aside where that is not much more,
 * or no more is to be had. */
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
        free(r->sink == SINK_MEMORY ? r->buf : NULL); /* it is not needed */
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

int client_lane_drain(struct client_lane *p) {
    struct msg m;
    const uint8_t *payload = NULL;
    int n = 0, rc = p->broken;
    while (rc == 0 && n < DRAIN_MAX && (rc = ring_peek(&p->lane.cq, &m, &payload)) > 0) {
        struct request *r = m.type != MSG_HOLD ? request_table_get(p, m.id) : NULL;
        if (unlikely(m.type == MSG_HOLD))
            client_lane_manager_hold(p, m.manager, m.aux != 0);
        if (r && m.type == MSG_REPLY)
            take_reply(p, r, &m, payload);
        else if (r && m.type == MSG_DATA)
            take_piece(p, r, &m, payload);
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
    if (rc < 0) {
        p->broken = rc;
        return dd_error(rc, "the lane to manager %u is damaged", p->manager->id);
    }
    return n;
}
