/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply.c - the receiving side of a port: whoever finds records in the completion queue delivers them to their askers.
 * What the manager writes is checked as if it came from a stranger; a record for an id that nobody waits for is dropped.
 *
 * A PLACED reply is pinned by the manager until CQ head passes it, so the lease is stored first (reader_adopt), then the record is consumed.
 */
#include "handle.h"
#include "port_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define DRAIN_MAX    256 /* records at a time under the lock */
#define MEMORY_ALIGN 64u

static void value_expect(struct port *p, struct request *r, uint64_t len) {
    int rc = 0;
    if (r->sink == SINK_BUFFER && len > r->cap) {
        rc = DDICT_ESMALL;
    } else if (r->sink == SINK_MEMORY) {
        uint64_t room =
            (len + MEMORY_ALIGN) & ~(uint64_t)(MEMORY_ALIGN - 1); /* at least one byte */
        r->buf = room < len ? NULL : aligned_alloc(MEMORY_ALIGN, room);
        r->cap = len;
        if (r->buf == NULL)
            rc = -ENOMEM;
    } else if (r->sink == SINK_NONE) {
        rc = DDICT_EPROTO;
    }
    if (rc == 0) {
        r->streaming = true;
        return;
    }
    port_owe(p, MSG_CANCEL, r->id);
    request_complete(p, r, rc);
}

static void take_inline(struct port *p, struct request *r, const uint8_t *payload, uint64_t n) {
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
        r->buf = aligned_alloc(MEMORY_ALIGN, (n + MEMORY_ALIGN) & ~(uint64_t)(MEMORY_ALIGN - 1));
        r->cap = n;
        if (r->buf == NULL) {
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

static void take_reply(struct port *p, struct request *r, const struct msg *m,
                       const uint8_t *payload) {
    uint32_t n = m->len - MSG_HEADER;
    if (r->streaming) {
        request_complete(p, r, DDICT_EPROTO);
        return;
    }
    r->reply = *m;
    if (m->status < 0) {
        if (n > 0 && (r->text = malloc(n + 1)) != NULL) {
            memcpy(r->text, payload, n);
            r->text[n] = 0;
        }
        request_complete(p, r, m->status);
    } else if (m->flags & MSGF_PLACED) {
        if (r->slot == NULL || m->manager != p->manager->id) {
            request_complete(p, r, DDICT_EPROTO);
            return;
        }
        reader_adopt(p->arena, m->aux, r->slot);
        r->placed = true;
        request_complete(p, r, m->status);
    } else if (m->flags & MSGF_STREAM) {
        value_expect(p, r, m->val_len);
    } else {
        take_inline(p, r, payload, n);
    }
}

static void take_piece(struct port *p, struct request *r, const struct msg *m,
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

int port_drain(struct port *p) {
    struct msg m;
    const uint8_t *payload = NULL;
    int n = 0, rc = p->broken;
    while (rc == 0 && n < DRAIN_MAX && (rc = ring_peek(&p->lane.cq, &m, &payload)) > 0) {
        struct request *r = m.type != MSG_HOLD ? table_get(p, m.id) : NULL;
        if (unlikely(m.type == MSG_HOLD))
            port_hold(p, m.manager, m.aux != 0);
        if (r != NULL && m.type == MSG_REPLY)
            take_reply(p, r, &m, payload);
        else if (r != NULL && m.type == MSG_DATA)
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
    if (unlikely(p->nowed > 0))
        port_pay(p);
    if (rc < 0) {
        p->broken = rc;
        return dd_error(rc, "the lane to manager %u is damaged", p->manager->id);
    }
    return n;
}
