/* SPDX-License-Identifier: Apache-2.0 */
/* port.c - the sending side of a port: requests and streamed values go into the ring. */
#include "handle.h"
#include "port_inside.h"
#include <base/copy.h>

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

int port_open(struct port *p, struct node_manager *m, int lane_fd, int event_fd) {
    memset(p, 0, sizeof *p);
    int rc = lane_map(&p->lane, lane_fd, true);
    if (rc < 0)
        return rc;
    /* A forked child must not touch our rings: it has none of these pages. */
    madvise(p->lane.page, LANE_RINGS_SIZE, MADV_DONTFORK);
    pthread_mutex_init(&p->lock, NULL);
    p->event_fd = event_fd;
    p->arena = &m->arena;
    p->manager = m;
    p->taken = p->lane.cq.pos;
    p->next_id = 1;
    for (unsigned w = 0; w < 2; w++)
        p->unsent[w].end = &p->unsent[w].first;
    return 0;
}

void port_close(struct port *p) {
    if (p->lane.page == NULL)
        return;
    places_free(p);
    free(p->owed);
    free(p->held);
    p->owed = NULL;
    p->held = NULL;
    p->nowed = p->nheld = 0;
    lane_unmap(&p->lane);
    pthread_mutex_destroy(&p->lock);
    close(p->event_fd);
    p->event_fd = -1;
}

#define YIELD_NS 100000u /* a thread that was woken runs by then, or has no core */

void port_lock(struct port *p) {
    if (likely(pthread_mutex_trylock(&p->lock) == 0))
        return;
    __atomic_fetch_add(&p->wanted, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&p->lock);
    __atomic_fetch_sub(&p->wanted, 1, __ATOMIC_RELAXED);
}

/* Without lock, which others wanted: let them have it first. A mutex is his who comes, not his who waits. */
static void port_yield(struct port *p) {
    uint32_t n = __atomic_load_n(&p->wanted, __ATOMIC_RELAXED);
    for (uint64_t end = clock_ns() + YIELD_NS;
         n > 0 && __atomic_load_n(&p->wanted, __ATOMIC_RELAXED) >= n && clock_ns() < end;)
        sched_yield();
}

void port_unlock(struct port *p) {
    pthread_mutex_unlock(&p->lock);
}

void table_put(struct port *p, struct request *r) {
    struct request **b = &p->bucket[r->id & (PORT_BUCKETS - 1)];
    r->chain = *b;
    *b = r;
}

struct request *table_get(struct port *p, uint64_t id) {
    struct request *r = p->bucket[id & (PORT_BUCKETS - 1)];
    while (r != NULL && r->id != id)
        r = r->chain;
    return r;
}

void table_remove(struct port *p, struct request *r) {
    struct request **at = &p->bucket[r->id & (PORT_BUCKETS - 1)];
    while (*at != NULL && *at != r)
        at = &(*at)->chain;
    if (*at != NULL)
        *at = r->chain;
    r->id = 0;
}

void port_owe(struct port *p, uint16_t type, uint64_t id) {
    if (p->nowed == p->owed_room) {
        unsigned room = p->owed_room > 0 ? 2 * p->owed_room : PORT_OWED;
        struct owed *more = realloc(p->owed, room * sizeof *more);
        if (more == NULL)
            return; /* the manager ends it by its own deadline */
        p->owed = more;
        p->owed_room = room;
    }
    p->owed[p->nowed].type = type;
    p->owed[p->nowed++].id = id;
}

bool port_held(const struct port *p, uint32_t manager) {
    unsigned i = 0;
    while (i < p->nheld && p->held[i] != manager)
        i++;
    return i < p->nheld;
}

void port_hold(struct port *p, uint32_t manager, bool on) {
    unsigned i = 0;
    while (i < p->nheld && p->held[i] != manager)
        i++;
    if (!on && i < p->nheld) {
        p->held[i] = p->held[--p->nheld];
        port_go(p);
    }
    if (!on || i < p->nheld)
        return;
    if (p->nheld == p->held_room) {
        unsigned room = p->held_room > 0 ? 2 * p->held_room : 8;
        uint32_t *more = realloc(p->held, room * sizeof *more);
        if (more == NULL)
            return; /* the manager keeps or refuses what we send */
        p->held = more;
        p->held_room = room;
    }
    p->held[p->nheld++] = manager;
}

/* NULL: no room now, or *rc is a negative code. */
static struct msg *reserve(struct port *p, uint32_t len, int *rc) {
    bool bad = false;
    struct msg *m = (struct msg *)ring_reserve(&p->lane.sq, len, &bad);
    if (bad)
        *rc = p->broken =
            dd_error(DDICT_EPROTO, "the lane to manager %u is damaged", p->manager->id);
    return m;
}

void port_pay(struct port *p) {
    int rc = 0;
    unsigned paid = 0;
    while (paid < p->nowed) {
        struct msg *m = reserve(p, MSG_HEADER, &rc);
        if (m == NULL)
            break;
        uint64_t id = p->owed[paid].id;
        memset(m, 0, sizeof *m);
        m->len = MSG_HEADER;
        m->type = p->owed[paid].type;
        if (m->type == MSG_CANCEL)
            m->aux = id;
        m->id = m->type == MSG_CANCEL ? p->next_id++ : id;
        m->manager = p->manager->id;
        ring_commit(&p->lane.sq);
        paid++;
    }
    p->nowed -= paid;
    if (p->nowed > 0)
        memmove(p->owed, p->owed + paid, p->nowed * sizeof p->owed[0]);
}

void port_wake(struct port *p) {
    /* Fence pairs with the manager's between its store of `sleeping` and its last look at the lanes, and with that of lane_leave(). */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (unlikely(lane_is_left(&p->lane) ||
                 __atomic_load_n(&p->arena->header->sleeping, __ATOMIC_RELAXED) == 1))
        eventfd_write(p->event_fd, 1);
}

/*
 * The next n bytes of the value. A large one past the caches: the manager reads it on another core, and lines that one core has just written and has in its cache
 * come to another at a rate that depends on where the two are; from memory they come as fast as the processor can ask ahead.
 */
static void gather(struct outgoing *out, uint8_t *to, size_t n) {
    while (n > 0) {
        const struct iovec *v = &out->iov[out->at];
        size_t k = v->iov_len - out->at_off;
        if (k > n)
            k = n;
        if (k > 0)
            copy_value(to, (const uint8_t *)v->iov_base + out->at_off, k, out->head.val_len);
        to += k;
        n -= k;
        out->at_off += k;
        if (out->at_off == v->iov_len && n > 0) {
            out->at++;
            out->at_off = 0;
        }
    }
}

static int push_header(struct port *p, struct outgoing *out, struct request *r) {
    uint64_t val =
        out->head.type == MSG_PUT || out->head.type == MSG_PREFETCH ? out->head.val_len : 0;
    bool whole = !out->placed && val <= DD_MSG_INLINE - out->head.key_len;
    uint32_t len = MSG_HEADER + out->head.key_len + (whole ? (uint32_t)val : 0);
    int rc = 0;
    struct msg *m = reserve(p, len, &rc);
    if (m == NULL) {
        r->need = len;
        return rc;
    }
    out->head.len = len;
    out->head.id = p->next_id++;
    if (!whole)
        out->head.flags |= MSGF_STREAM;
    uint8_t *payload = (uint8_t *)m + MSG_HEADER;
    if (out->head.key_len > 0)
        memcpy(payload, out->key, out->head.key_len);
    if (whole && val > 0)
        gather(out, payload + out->head.key_len, (size_t)val);
    memcpy(m, &out->head, sizeof *m);
    r->id = out->head.id;
    r->type = out->head.type;
    r->waits = (out->head.flags & MSGF_WAIT) != 0;
    r->sending = !whole;
    table_put(p, r);
    ring_commit(&p->lane.sq);
    if (whole)
        out->sent = val;
    out->begun = true;
    return 1;
}

/* The value stands in the area: the piece only names its place. */
static int push_place(struct port *p, struct outgoing *out, struct request *r) {
    uint64_t left = out->head.val_len - out->sent;
    uint32_t n = left < DD_MSG_PIECE ? (uint32_t)left : DD_MSG_PIECE;
    int rc = 0;
    struct msg *m = reserve(p, MSG_HEADER, &rc);
    if (m == NULL) {
        r->need = MSG_HEADER;
        return rc;
    }
    *m = (struct msg){.len = MSG_HEADER,
                      .type = MSG_DATA,
                      .flags = MSGF_AREA,
                      .id = out->head.id,
                      .aux = out->sent,
                      .manager = out->head.manager,
                      .val_len = n,
                      .version = out->place + out->sent};
    if (n == left)
        m->flags |= MSGF_LAST;
    ring_commit(&p->lane.sq);
    out->sent += n;
    if (n == left)
        r->sending = false;
    return 1;
}

static int push_piece(struct port *p, struct outgoing *out, struct request *r) {
    uint64_t left = out->head.val_len - out->sent;
    uint32_t n = left < DD_MSG_PIECE ? (uint32_t)left : DD_MSG_PIECE;
    int rc = 0;
    struct msg *m = reserve(p, MSG_HEADER + n, &rc);
    if (m == NULL) {
        r->need = MSG_HEADER + n;
        return rc;
    }
    struct msg head = {.len = MSG_HEADER + n,
                       .type = MSG_DATA,
                       .id = out->head.id,
                       .aux = out->sent,
                       .manager = out->head.manager};
    if (n == left)
        head.flags = MSGF_LAST;
    gather(out, (uint8_t *)m + MSG_HEADER, n);
    memcpy(m, &head, sizeof head);
    ring_commit(&p->lane.sq);
    out->sent += n;
    if (n == left)
        r->sending = false;
    return 1;
}

/* Refused in the middle: the id is free again only after ABORT. */
static int push_abort(struct port *p, struct outgoing *out, struct request *r) {
    if (r->sending)
        port_owe(p, MSG_ABORT, out->head.id);
    r->sending = false;
    port_pay(p);
    if (p->nowed == 0 || p->broken)
        return 1;
    r->need = MSG_HEADER;
    return 0;
}

int port_push(struct port *p, struct outgoing *out, struct request *r) {
    if (p->broken)
        return dd_error(p->broken, "the lane to manager %u is damaged", p->manager->id);
    if (unlikely(p->nowed > 0)) {
        port_pay(p);
        if (p->nowed > 0) {
            r->need = MSG_HEADER;
            return p->broken;
        }
    }
    r->to = out->head.manager;
    if (unlikely(p->nheld > 0) && !r->done && port_held(p, r->to)) {
        r->need = NEED_GO;
        return 0;
    }
    int rc = out->begun ? 1 : push_header(p, out, r);
    while (rc > 0 && out->head.type == MSG_PUT && out->sent < out->head.val_len) {
        if (port_ready(p) && port_drain(p) < 0) /* a refusal may have come */
            return p->broken;
        if (r->done)
            return push_abort(p, out, r);
        if (unlikely(p->nheld > 0) && port_held(p, r->to)) {
            r->need = NEED_GO;
            return 0;
        }
        if (out->pause != 0 && out->sent >= out->pause)
            return 0;
        rc = out->placed ? push_place(p, out, r) : push_piece(p, out, r);
        if (rc > 0 && out->sent < out->head.val_len) {
            port_wake(p); /* let the manager copy while we do */
            if (unlikely(__atomic_load_n(&p->wanted, __ATOMIC_RELAXED) > 0)) {
                r->need = 0;
                return 0;
            }
        }
    }
    return rc;
}

void give_up(struct port *p, struct request *r) {
    if (r->id == 0)
        return;
    uint64_t id = r->id;
    table_remove(p, r);
    if (r->sending)
        port_owe(p, MSG_ABORT, id);
    else
        port_owe(p, MSG_CANCEL, id);
    port_pay(p);
}

void port_give_up(struct port *p, struct request *r) {
    port_lock(p);
    give_up(p, r);
    port_unlock(p);
    port_wake(p);
}

int port_send(struct port *p, struct outgoing *out, struct request *r, struct patience *w) {
    if ((out->head.flags & MSGF_WAIT) == 0)
        out->head.patience_ms = w->timeout_ms > 0 ? (uint32_t)w->timeout_ms : 0;
    for (;;) {
        port_lock(p);
        if (unlikely(p->bell_holder != NULL)) /* we look ourselves: see wait.c */
            __atomic_fetch_and(&p->lane.page->client_sleeps, ~LANE_SLEEPS, __ATOMIC_RELAXED);
        int rc = port_push(p, out, r);
        if (unlikely(rc < 0))
            give_up(p, r);
        port_unlock(p);
        port_wake(p);
        if (likely(rc != 0))
            return rc < 0 ? rc : 0;
        if (r->need == 0) {
            port_yield(p);
            continue;
        }
        rc = port_wait(p, r, w);
        r->need = 0;
        if (rc < 0) /* with a refusal at hand the notice is all that did not go out */
            return __atomic_load_n(&r->done, __ATOMIC_ACQUIRE) ? 0 : rc;
    }
}

int port_call(struct port *p, struct outgoing *out, struct request *r, struct patience *w) {
    int rc = port_send(p, out, r, w);
    if (likely(rc == 0))
        rc = port_wait(p, r, w);
    return likely(rc == 0) ? r->status : rc;
}

void request_drop(struct request *r) {
    free(r->text);
    r->text = NULL;
    if (r->sink == SINK_MEMORY) {
        free(r->buf);
        r->buf = NULL;
    }
}
