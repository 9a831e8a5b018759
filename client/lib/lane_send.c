/* SPDX-License-Identifier: Apache-2.0 */
/* lane_send.c - the sending side of a lane: write requests and streamed values into the ring. */
#include "client_lane_inside.h"
#include "handle.h"
#include <base/copy.h>
#include <base/vec.h>

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

int client_lane_open(struct client_lane *p, struct node_manager *m, int lane_fd, int event_fd) {
    memset(p, 0, sizeof *p);
    int rc = lane_map(&p->lane, lane_fd, true);
    if (rc < 0)
        return rc;
    /* A forked child must not write our rings, so they are not mapped there. */
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

void client_lane_close(struct client_lane *p) {
    if (!p->lane.page)
        return;
    places_free(p);
    free(p->notices);
    free(p->held);
    free(p->leaders);
    p->notices = NULL;
    p->held = NULL;
    p->leaders = NULL;
    p->notices_n = p->nheld = 0;
    lane_unmap(&p->lane);
    pthread_mutex_destroy(&p->lock);
    close(p->event_fd);
    p->event_fd = -1;
}

#define YIELD_NS 100000u /* a woken thread runs within this time, or has no core */

void client_lane_lock(struct client_lane *p) {
    if (likely(pthread_mutex_trylock(&p->lock) == 0))
        return;
    __atomic_fetch_add(&p->wanted, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&p->lock);
    __atomic_fetch_sub(&p->wanted, 1, __ATOMIC_RELAXED);
}

/* Called without lock after other threads wanted it: let one of them take it first, because a mutex
 * goes to the first thread that tries, not to the one that waits. */
static void client_lane_yield(struct client_lane *p) {
    uint32_t n = __atomic_load_n(&p->wanted, __ATOMIC_RELAXED);
    for (uint64_t end = clock_ns() + YIELD_NS;
         n > 0 && __atomic_load_n(&p->wanted, __ATOMIC_RELAXED) >= n && clock_ns() < end;)
        sched_yield();
}

void client_lane_unlock(struct client_lane *p) {
    pthread_mutex_unlock(&p->lock);
}

void request_table_put(struct client_lane *p, struct request *r) {
    struct request **b = &p->bucket[r->id & (CLIENT_LANE_BUCKETS - 1)];
    r->chain = *b;
    *b = r;
}

struct request *request_table_get(struct client_lane *p, uint64_t id) {
    struct request *r = p->bucket[id & (CLIENT_LANE_BUCKETS - 1)];
    while (r && r->id != id)
        r = r->chain;
    return r;
}

void request_table_remove(struct client_lane *p, struct request *r) {
    struct request **at = &p->bucket[r->id & (CLIENT_LANE_BUCKETS - 1)];
    while (*at && *at != r)
        at = &(*at)->chain;
    if (*at)
        *at = r->chain;
    p->unsure -= r->unsure;
    r->unsure = false;
    r->id = 0;
}

/* Before a request is sent, memory for the notice that gives it up is reserved: without the notice,
 * a value could be popped for nobody. */
static int notices_reserve(struct client_lane *p) {
    if (VEC_ROOM(&p->notices, &p->notices_cap, p->notices_n + p->notices_reserved + 1,
                 CLIENT_LANE_NOTICES) < 0)
        return dd_error(-ENOMEM, "no memory for another request");
    return 0;
}

static void notice_reserve(struct client_lane *p, struct request *r) {
    p->notices_reserved++;
    r->notice_reserved = true;
}

void notice_release(struct client_lane *p, struct request *r) {
    p->notices_reserved -= r->notice_reserved;
    r->notice_reserved = false;
}

void client_lane_notice_add(struct client_lane *p, struct request *r, uint16_t type, uint64_t id) {
    if (!r->notice_reserved)
        return; /* added already */
    notice_release(p, r);
    p->notices[p->notices_n++] = (struct notice){.type = type, .id = id};
}

bool client_lane_manager_is_held(const struct client_lane *p, uint32_t manager) {
    unsigned i = 0;
    while (i < p->nheld && p->held[i] != manager)
        i++;
    return i < p->nheld;
}

void client_lane_manager_hold(struct client_lane *p, uint32_t manager, bool on) {
    unsigned i = 0;
    while (i < p->nheld && p->held[i] != manager)
        i++;
    if (!on && i < p->nheld) {
        p->held[i] = p->held[--p->nheld];
        p->holds++;
        client_lane_manager_go(p);
    }
    if (!on || i < p->nheld)
        return;
    if (VEC_ROOM(&p->held, &p->held_room, p->nheld + 1, 8) < 0)
        return; /* no memory to remember it: the manager queues or refuses what we send */
    p->held[p->nheld++] = manager;
    p->holds++;
}

/* Begin to write. The manager may be giving memory of the unused ring back to the kernel: wait a
 * moment. */
static bool lane_write_begin_wait(struct client_lane *p) {
    for (uint64_t end = clock_ns() + DD_WAIT_SLICE_MS * 1000000ull; clock_ns() < end; sched_yield())
        if (lane_write_begin(&p->lane))
            return true;
    return false; /* the manager has no core: wait as for room */
}

/* NULL: no room now, or *rc is a negative code. After success call sq_publish(). */
static struct msg *sq_reserve(struct client_lane *p, uint32_t len, int *rc) {
    bool bad = false;
    if (unlikely(!lane_write_begin(&p->lane)) && !lane_write_begin_wait(p))
        return NULL;
    struct msg *m = (struct msg *)ring_reserve(&p->lane.sq, len, &bad);
    if (unlikely(!m))
        lane_write_end(&p->lane);
    if (bad)
        *rc = p->broken =
            dd_error(DDICT_EPROTO, "the lane to manager %u is damaged", p->manager->id);
    return m;
}

static void sq_publish(struct client_lane *p) {
    ring_commit(&p->lane.sq);
    lane_write_end(&p->lane);
}

bool client_lane_tell(struct client_lane *p, const struct msg *m) {
    int rc = 0;
    struct msg *to = sq_reserve(p, MSG_HEADER, &rc);
    if (!to)
        return false;
    memcpy(to, m, sizeof *m);
    to->len = MSG_HEADER;
    to->manager = p->manager->id;
    sq_publish(p);
    return true;
}

void client_lane_notices_send(struct client_lane *p) {
    unsigned sent = 0;
    while (sent < p->notices_n) {
        const struct notice *n = &p->notices[sent];
        bool cancel = n->type == MSG_CANCEL;
        struct msg m = {
            .type = n->type, .id = cancel ? p->next_id : n->id, .aux = cancel ? n->id : 0};
        if (!client_lane_tell(p, &m))
            break;
        p->next_id += cancel;
        sent++;
    }
    p->notices_n -= sent;
    if (p->notices_n > 0)
        memmove(p->notices, p->notices + sent, p->notices_n * sizeof p->notices[0]);
}

void client_lane_wake(struct client_lane *p) {
    /* The fence pairs with the manager's fence between its store of `sleeping` and its last look at
     * the lanes, and with that of lane_leave(). */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (unlikely(lane_is_left(&p->lane) ||
                 __atomic_load_n(&p->arena->header->sleeping, __ATOMIC_RELAXED) == 1))
        eventfd_write(p->event_fd, 1);
}

/*
 * Copy the next n bytes of the value. A large value is written past the caches: the manager reads
 * it on another core, and reading lines that are dirty in another core's cache has a rate that
 * depends on where both cores are; from memory the processor can prefetch them.
 */
static void outgoing_copy(struct outgoing *out, uint8_t *to, size_t n) {
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

/* Its manager knows nothing of it any more. */
static void push_anew(struct outgoing *out, struct request *r) {
    r->anew = false;
    __atomic_store_n(&r->rewound, 0, __ATOMIC_RELAXED);
    r->rewind = 0;
    outgoing_again(out);
}

/* Its manager wants the value from an earlier byte on again. */
static int push_rewind(struct client_lane *p, struct outgoing *out, struct request *r) {
    uint64_t skip = r->from;
    __atomic_store_n(&r->rewound, 0, __ATOMIC_RELAXED);
    if (skip >= out->head.val_len)
        return p->broken =
                   dd_error(DDICT_EPROTO, "the lane to manager %u is damaged", p->manager->id);
    if (out->pause != 0)
        out->pause += skip - out->sent; /* as much is left of this turn */
    out->sent = skip;
    for (out->at = 0; skip >= out->iov[out->at].iov_len; out->at++)
        skip -= out->iov[out->at].iov_len;
    out->at_off = skip;
    return 0;
}

static int push_header(struct client_lane *p, struct outgoing *out, struct request *r) {
    uint64_t val =
        out->head.type == MSG_PUT || out->head.type == MSG_PREFETCH ? out->head.val_len : 0;
    bool whole = !out->placed && val <= DD_MSG_INLINE - out->head.key_len;
    uint32_t len = MSG_HEADER + out->head.key_len + (whole ? (uint32_t)val : 0);
    int rc = notices_reserve(p);
    struct msg *m = rc == 0 ? sq_reserve(p, len, &rc) : NULL;
    if (!m) {
        r->need = len;
        return rc;
    }
    out->head.len = len;
    out->head.id = p->next_id++;
    if (out->head.type == MSG_PUT || out->head.type == MSG_DEL)
        out->head.flags |= p->right;
    if (!whole)
        out->head.flags |= MSGF_STREAM;
    uint8_t *payload = (uint8_t *)m + MSG_HEADER;
    if (out->head.key_len > 0)
        memcpy(payload, out->key, out->head.key_len);
    if (whole && val > 0)
        outgoing_copy(out, payload + out->head.key_len, (size_t)val);
    memcpy(m, &out->head, sizeof *m);
    r->id = out->head.id;
    r->type = out->head.type;
    r->waits = (out->head.flags & MSGF_WAIT) != 0;
    r->sending = r->streams = !whole;
    request_table_put(p, r);
    notice_reserve(p, r);
    sq_publish(p);
    if (whole)
        out->sent = val;
    out->begun = true;
    return 1;
}

/* Send the next piece of the value: its bytes, or, if the value was built in the area, their offset
 * there. */
static int push_piece(struct client_lane *p, struct outgoing *out, struct request *r) {
    uint64_t left = out->head.val_len - out->sent;
    uint32_t n = left < DD_MSG_PIECE ? (uint32_t)left : DD_MSG_PIECE,
             len = out->placed ? MSG_HEADER : MSG_HEADER + n;
    int rc = 0;
    struct msg *m = sq_reserve(p, len, &rc);
    if (!m) {
        r->need = len;
        return rc;
    }
    struct msg head = {.len = len,
                       .type = MSG_DATA,
                       .id = out->head.id,
                       .aux = out->sent,
                       .manager = out->head.manager,
                       .rewind = r->rewind};
    if (out->placed) {
        head.flags = MSGF_AREA;
        head.val_len = n;
        head.version = out->place + out->sent;
    } else
        outgoing_copy(out, (uint8_t *)m + MSG_HEADER, n);
    if (n == left)
        head.flags |= MSGF_LAST;
    memcpy(m, &head, sizeof head);
    sq_publish(p);
    out->sent += n;
    if (n == left)
        r->sending = false;
    return 1;
}

/* What its manager has asked for since the last record of it. */
static int push_back(struct client_lane *p, struct outgoing *out, struct request *r) {
    if (r->anew)
        push_anew(out, r);
    return r->rewound ? push_rewind(p, out, r) : 0;
}

static bool push_is_over(const struct outgoing *out) {
    return out->begun && (out->head.type != MSG_PUT || out->sent == out->head.val_len);
}

/* The manager has refused the put in the middle: the id is free again only after ABORT. */
static int push_abort(struct client_lane *p, struct outgoing *out, struct request *r) {
    if (r->sending)
        client_lane_notice_add(p, r, MSG_ABORT, out->head.id);
    r->sending = false;
    client_lane_notices_send(p);
    if (p->notices_n == 0 || p->broken)
        return 1;
    r->need = MSG_HEADER;
    return 0;
}

int client_lane_push(struct client_lane *p, struct outgoing *out, struct request *r) {
    if (p->broken)
        return dd_error(p->broken, "the lane to manager %u is damaged", p->manager->id);
    if (unlikely(r->done && r->sending)) /* the requester may not call again */
        return push_abort(p, out, r);
    if (unlikely(p->notices_n > 0)) {
        client_lane_notices_send(p);
        if (p->notices_n > 0) {
            r->need = MSG_HEADER;
            return p->broken;
        }
    }
    if (unlikely(p->unsure > 0))
        client_lane_unsure_ask(p);
    r->to = out->head.manager;
    if (unlikely(p->nheld > 0) && !r->done && client_lane_manager_is_held(p, r->to)) {
        r->need = NEED_GO;
        return 0;
    }
    if (unlikely(r->rewound || r->anew) && push_back(p, out, r) < 0)
        return p->broken;
    int rc = out->begun ? 1 : push_header(p, out, r);
    while (rc > 0 && !push_is_over(out)) {
        if (client_lane_has_records(p) && client_lane_drain(p) < 0) /* a refusal may have arrived */
            return p->broken;
        if (r->done)
            return push_abort(p, out, r);
        if (unlikely(p->nheld > 0) && client_lane_manager_is_held(p, r->to)) {
            r->need = NEED_GO;
            return 0;
        }
        if (unlikely(r->rewound || r->anew) && push_back(p, out, r) < 0)
            return p->broken;
        if (out->pause != 0 && out->sent >= out->pause)
            return 0;
        rc = out->begun ? push_piece(p, out, r) : push_header(p, out, r);
        if (rc > 0 && out->sent < out->head.val_len) {
            client_lane_wake(p); /* the manager copies this piece while we write the next one */
            if (unlikely(__atomic_load_n(&p->wanted, __ATOMIC_RELAXED) > 0)) {
                r->need = 0;
                return 0;
            }
        }
    }
    return rc;
}

void request_give_up(struct client_lane *p, struct request *r) {
    if (r->id == 0)
        return;
    uint64_t id = r->id;
    p->strays--; /* it may be answered all the same */
    request_table_remove(p, r);
    client_lane_notice_add(p, r, r->sending ? MSG_ABORT : MSG_CANCEL, id);
    client_lane_notices_send(p);
}

void client_lane_cancel(struct client_lane *p, struct request *r) {
    client_lane_lock(p);
    request_give_up(p, r);
    client_lane_unlock(p);
    client_lane_wake(p);
}

int client_lane_try_send(struct client_lane *p, struct outgoing *out, struct request *r) {
    client_lane_lock(p);
    int rc = client_lane_push(p, out, r);
    client_lane_unlock(p);
    client_lane_wake(p);
    return rc;
}

int client_lane_send(struct client_lane *p, struct outgoing *out, struct request *r,
                     struct call_deadline *w) {
    if ((out->head.flags & MSGF_WAIT) == 0)
        out->head.patience_ms = w->timeout_ms > 0 ? (uint32_t)w->timeout_ms : 0;
    for (;;) {
        client_lane_lock(p);
        if (unlikely(p->doorbell_holder != NULL)) /* this thread looks itself: see lane_wait.c */
            __atomic_fetch_and(&p->lane.page->client_sleeps, ~LANE_SLEEPS, __ATOMIC_RELAXED);
        int rc = client_lane_push(p, out, r);
        if (unlikely(rc < 0))
            request_give_up(p, r);
        client_lane_unlock(p);
        client_lane_wake(p);
        if (likely(rc != 0))
            return rc < 0 ? rc : 0;
        if (r->need == 0) {
            client_lane_yield(p);
            continue;
        }
        if (out->skips && r->need == NEED_GO)
            return 1;
        rc = client_lane_wait(p, r, w);
        r->need = 0;
        if (rc < 0) /* refused meanwhile: only the notice is still unsent */
            return __atomic_load_n(&r->done, __ATOMIC_ACQUIRE) ? 0 : rc;
    }
}

int client_lane_ask(struct client_lane *p, struct outgoing *out, struct request *r,
                    struct call_deadline *w) {
    for (;;) {
        int rc = client_lane_send(p, out, r, w);
        if (likely(rc == 0))
            rc = client_lane_wait(p, r, w);
        if (likely(rc <= 0))
            return rc;
        if ((rc = call_deadline_slice(w)) < 0) { /* the manager may always ask again */
            client_lane_cancel(p, r);
            return rc;
        }
    }
}

void request_drop(struct request *r) {
    free(r->text);
    r->text = NULL;
    if (r->sink == SINK_MEMORY) {
        free(r->buf);
        r->buf = NULL;
    }
}
