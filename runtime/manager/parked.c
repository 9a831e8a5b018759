/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parked.c - requests of lanes for managers that do not move (PROTOCOL 2). They are taken out of
 * the ring, so that requests for other managers go on, and kept in order for each lane and manager.
 * HOLD tells the client to send nothing more for that manager; what still comes was on its way.
 */
#include "parked.h"

#include "forward.h"
#include "forward_put.h"
#include "manager.h"
#include "peer_client.h"
#include "requester.h"
#include "stream_in.h"
#include <base/error.h>
#include <base/hash.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct parked {
    struct parked *next;
    uint64_t since; /* by the clock of the manager's timers */
    struct msg m;
    uint8_t bytes[]; /* of its payload */
};
/* What one lane has parked for one manager; exists while that is something. */
struct parking {
    struct parking *a_next;       /* of the lane */
    struct parking *next, **prev; /* of all */
    struct requester *requester;
    uint32_t to;
    struct parked *first, **end;
    size_t bytes;
};

static struct parking *parking_of(const struct requester *a, uint32_t to) {
    for (struct parking *p = a->parkings; p; p = p->a_next)
        if (p->to == to)
            return p;
    return NULL;
}

/* The lane has something parked for this manager: what follows goes behind it. */
static bool parked_before(const struct requester *a, uint32_t to) {
    return a->parkings && parking_of(a, to);
}

static void hold_send(struct requester *a, uint32_t to, bool on) {
    struct msg r = {.type = MSG_HOLD, .manager = to, .aux = on};
    requester_send(a, &r, NULL, 0);
}

static struct parking *parking_new(struct requester *a, uint32_t to) {
    struct manager *m = a->m;
    struct parking *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->requester = a;
    p->to = to;
    p->end = &p->first;
    p->a_next = a->parkings;
    a->parkings = p;
    p->next = m->parkings;
    p->prev = &m->parkings;
    if (p->next)
        p->next->prev = &p->next;
    m->parkings = p;
    hold_send(a, to, true);
    manager_stalls(m);
    return p;
}

static void parking_free(struct parking *p) {
    struct parking **at = &p->requester->parkings;
    while (*at != p)
        at = &(*at)->a_next;
    *at = p->a_next;
    *p->prev = p->next;
    if (p->next)
        p->next->prev = p->prev;
    free(p);
}

static void parked_remove(struct parking *p, struct parked **at) {
    struct parked *q = *at;
    *at = q->next;
    if (!q->next)
        p->end = at;
    p->bytes -= q->m.len;
    free(q);
}

/* The client may send again. */
static void parking_free_when_empty(struct parking *p) {
    if (p->first)
        return;
    hold_send(p->requester, p->to, false);
    parking_free(p);
}

static int parked_add(struct requester *a, const struct msg *m, const uint8_t *payload,
                      uint32_t to) {
    bool stream = m->type == MSG_PUT && m->flags & MSGF_STREAM;
    struct parking *p = parking_of(a, to);
    if (p && m->type != MSG_DATA && p->bytes > DD_PARK_BYTES) {
        int e = stream ? put_in_pass(a, m, NULL) : TAKE_DONE;
        if (e >= 0)
            requester_reply(a, m, DDICT_EBUSY,
                            "the manager of this key does not answer, and much is waiting for it");
        return e;
    }
    /* the client ignores HOLD */
    if (p && p->bytes > 4 * (size_t)DD_PARK_BYTES)
        return DDICT_EPROTO;
    struct parked *q = malloc(sizeof *q + m->len - MSG_HEADER);
    if (!q || (!p && !(p = parking_new(a, to)))) {
        free(q);
        return -ENOMEM;
    }
    *q = (struct parked){.m = *m, .since = timers_now(&a->m->timers)};
    if (m->len > MSG_HEADER)
        memcpy(q->bytes, payload, m->len - MSG_HEADER);
    *p->end = q;
    p->end = &q->next;
    p->bytes += m->len;
    return stream ? put_in_park(a, m, to) : TAKE_DONE;
}

int parked_begin(struct requester *a, const struct msg *req, const uint8_t *payload,
                 const uint8_t *key, uint64_t hash, uint32_t to) {
    if (parked_before(a, to))
        return parked_add(a, req, payload, to);
    int e = forward_begin(a, req, payload, key, hash, to);
    return e == TAKE_STALL && peer_stuck(a->m, to) ? parked_add(a, req, payload, to) : e;
}

bool parked_data(struct requester *a, const struct msg *m, const uint8_t *payload, int *e) {
    struct forward *f;
    uint32_t to;
    if (a->kind != REQUESTER_LANE || a->unparks || !put_in_goes_on(a, m->id, &to, &f))
        return false;
    if (f && !parked_before(a, to) && !(forward_put_full(f) && peer_stuck(a->m, to)))
        return false;
    *e = parked_add(a, m, payload, to);
    return true;
}

bool parked_drop(struct requester *a, uint64_t id) {
    bool last = false;
    for (struct parking *p = a->parkings, *next; p; p = next) {
        next = p->a_next;
        for (struct parked **at = &p->first; *at;) {
            if ((*at)->m.id != id) {
                at = &(*at)->next;
                continue;
            }
            last |= (*at)->m.flags & MSGF_LAST;
            parked_remove(p, at);
        }
        parking_free_when_empty(p);
    }
    return last;
}

bool parked_cancel(struct requester *a, uint64_t id, int status) {
    for (struct parking *p = a->parkings; p; p = p->a_next) {
        for (struct parked *q = p->first; q; q = q->next) {
            if (q->m.id != id || q->m.type == MSG_DATA)
                continue;
            struct msg req = q->m;
            bool last = parked_drop(a, id); /* frees p if that was all */
            if (req.type == MSG_PUT && req.flags & MSGF_STREAM)
                put_in_dropped(a, &req, last);
            requester_reply(a, &req, status, dd_strerror(status));
            return true;
        }
    }
    return false;
}

bool parked_knows(const struct requester *a, uint64_t id) {
    for (const struct parking *p = a->parkings; p; p = p->a_next)
        for (const struct parked *q = p->first; q; q = q->next)
            if (q->m.id == id && q->m.type != MSG_DATA)
                return true;
    return false;
}

void parked_end(struct requester *a) {
    while (a->parkings) {
        struct parking *p = a->parkings;
        while (p->first)
            parked_remove(p, &p->first);
        parking_free(p);
    }
}

/* How long a request may be parked, in nanoseconds; 0: no limit. */
static uint64_t patience_of(const struct msg *m) {
    if (m->type == MSG_DATA)
        return 0;
    return m->flags & MSGF_WAIT ? (m->aux < UINT64_MAX / 2000 ? m->aux * 1000 : 0)
                                : m->patience_ms * 1000000ull;
}

void parked_late(struct manager *m) {
    uint64_t now = timers_now(&m->timers);
    for (struct parking *p = m->parkings, *next; p; p = next) {
        next = p->next;
        struct requester *a = p->requester;
        for (struct parked *q = p->first; q;) {
            uint64_t most = patience_of(&q->m), id = q->m.id;
            bool over = most && now - q->since > most + DD_LATE_MS * 1000000ull;
            q = q->next;
            if (!over)
                continue;
            while (q && q->m.id == id)
                q = q->next; /* its pieces go with it */
            bool last = !q;
            parked_cancel(a, id, -ETIMEDOUT);
            if (last)
                break; /* p may be freed */
        }
    }
}

/* Pass it on now. As request_take(); TAKE_STALL: it stays parked. */
static int parked_resume(struct requester *a, const struct parked *q, uint32_t to) {
    struct msg m = q->m;
    if (m.type == MSG_DATA)
        return a->m->up->take(a, &m, q->bytes);
    uint64_t hash = m.key_len ? key_hash(q->bytes, m.key_len) : 0,
             gone = (timers_now(&a->m->timers) - q->since) / 1000;
    if (m.flags & MSGF_WAIT)
        m.aux = gone < m.aux ? m.aux - gone : 1; /* 0 would not wait at all */
    else if (m.patience_ms)
        m.patience_ms -= gone / 1000 < m.patience_ms ? (uint32_t)(gone / 1000) : m.patience_ms - 1;
    return forward_begin(a, &m, q->bytes, q->bytes, hash, to);
}

bool parked_turn(struct manager *m) {
    bool worked = false;
    m->unparks = false;
    for (struct parking *p = m->parkings, *next; p; p = next) {
        struct requester *a = p->requester;
        next = p->next;
        int e = 0;
        a->unparks = true;
        while (p->first && !a->gone) {
            e = parked_resume(a, p->first, p->to);
            if (e == TAKE_STALL)
                break;
            if (e < 0)
                requester_drop(a, e == -ENOMEM ? "no memory for its request"
                                               : "malformed record in its lane");
            parked_remove(p, &p->first);
            worked = true;
        }
        a->unparks = false;
        if (!a->gone)
            parking_free_when_empty(p);
    }
    if (m->parkings)
        manager_stalls(m);
    return worked;
}
