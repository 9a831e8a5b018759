/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_out.c - values that go out in pieces, straight from a pinned item into the lane or the
 * socket. The streams of one requester take turns, a piece each. A stream ends when all is sent and
 * the socket has taken its last piece, so its bytes stay until then.
 */
#include "stream_out.h"

#include "faults.h"
#include "manager.h"
#include "requester.h"
#include "results.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct stream_out {
    struct stream_out *next;
    struct manager *m;
    struct requester *requester; /* NULL: it has ended, but pieces are under way */
    /* the connection for all messages of this reply; else the requester itself */
    struct requester *carrier;
    uint64_t id;
    bool held; /* the requester would not ask again */
    const uint8_t *data;
    uint64_t len, sent, allowed;
    unsigned under_way; /* pieces that the socket has not taken */
    void (*done)(struct manager *m, uint64_t arg, void *ptr);
    uint64_t arg;
    void *ptr;
    /* of a value in the spill: data is read while it is sent; NULL: it is in memory */
    struct store_reading *reading;
    struct timer timer;
};

static void stream_out_free_when_quiet(struct stream_out *g) {
    if (g->requester || g->under_way)
        return;
    g->done(g->m, g->arg, g->ptr);
    free(g);
}

static void stream_out_unlink(struct stream_out *g) {
    struct requester *a = g->requester;
    struct stream_out **at = &a->streams_out;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    if (!*at)
        a->streams_out_end = at;
    timer_clear(&g->m->timers, &g->timer);
    if (g->held)
        manager_holds(g->m, -1);
    g->requester = NULL;
}

static void stream_out_break(struct stream_out *g, int status) {
    struct msg r = {.type = MSG_DATA,
                    .flags = MSGF_LAST,
                    .id = g->id,
                    .aux = g->sent,
                    .status = status,
                    .manager = g->m->setup->id};
    requester_send(g->carrier, &r, NULL, 0);
    stream_out_unlink(g);
    stream_out_free_when_quiet(g);
}

static void stream_out_late(struct timer *t) {
    stream_out_break((struct stream_out *)(void *)((char *)t - offsetof(struct stream_out, timer)),
                     -ETIMEDOUT);
}

static void read_done(struct manager *m, uint64_t arg, void *ptr) {
    store_read_end(ptr);
}

struct stream_out *stream_out_new(struct manager *m, const struct store_ref *away) {
    struct stream_out *g = faults.on && faults_give() ? NULL : calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->m = m;
    g->timer.fire = stream_out_late;
    if (timer_after(&m->timers, &g->timer, DD_STREAM_MS * 1000000ull) < 0 ||
        (away && store_read_begin(m->store, away, &g->reading, &g->data) < 0)) {
        stream_out_drop(g);
        return NULL;
    }
    return g;
}

void stream_out_drop(struct stream_out *g) {
    if (!g)
        return;
    timer_clear(&g->m->timers, &g->timer);
    if (g->reading)
        store_read_end(g->reading);
    free(g);
}

/* of: type of the request */
static void stream_out_start(struct stream_out *g, struct requester *a, struct msg *r, unsigned of,
                             const void *data, uint64_t len, uint64_t window,
                             void (*done)(struct manager *m, uint64_t arg, void *ptr), uint64_t arg,
                             void *ptr) {
    g->requester = a;
    g->carrier = a->ops->bulk ? a->ops->bulk(a) : a;
    g->id = r->id;
    g->data = data;
    g->len = len;
    g->allowed = window ? window : UINT64_MAX;
    g->done = done;
    g->arg = arg;
    g->ptr = ptr;
    *a->streams_out_end = g;
    a->streams_out_end = &g->next;
    g->held = !proxy_returns(a, of, r->id);
    if (g->held)
        manager_holds(a->m, 1);
    r->flags = MSGF_STREAM;
    requester_send(g->carrier, r, NULL, 0);
    streams_out_pump(a);
}

static void unpin_done(struct manager *m, uint64_t off, void *ptr) {
    store_unpin(m->store, off);
}

void stream_out_item(struct stream_out *g, struct requester *a, struct msg *r,
                     const struct msg *req, const struct store_ref *ref) {
    unsigned of = req->type;
    uint64_t window = req->val_len;
    if (g->reading) {
        stream_out_start(g, a, r, of, g->data, r->val_len, window, read_done, 0, g->reading);
        store_unpin(a->m->store, ref->off); /* the reading has a pin of its own */
    } else
        stream_out_start(g, a, r, of, ref->value, r->val_len, window, unpin_done, ref->off, NULL);
}

int stream_out_begin(struct requester *a, struct msg *r, const void *data, uint64_t len,
                     uint64_t window, void (*done)(struct manager *m, uint64_t arg, void *ptr),
                     uint64_t arg, void *ptr) {
    struct stream_out *g = stream_out_new(a->m, NULL);
    if (!g)
        return -ENOMEM;
    /* of other managers only KEYS is answered so */
    stream_out_start(g, a, r, MSG_KEYS, data, len, window, done, arg, ptr);
    return 0;
}

static void piece_done(void *arg) {
    struct stream_out *g = arg;
    g->under_way--;
    if (g->reading && g->requester && !g->under_way)
        store_read_sent(g->reading, g->sent);
    stream_out_free_when_quiet(g);
}

static uint64_t stream_out_end_of_piece(const struct stream_out *g) {
    return g->len - g->sent > DD_MSG_PIECE ? g->sent + DD_MSG_PIECE : g->len;
}

static uint32_t stream_out_next_piece(const struct stream_out *g) {
    uint64_t end = stream_out_end_of_piece(g), n = end - g->sent;
    if (g->reading && store_read_ready(g->reading, end) < (int64_t)end)
        return 0;
    /* Whole pieces only: a window of any size takes few messages. The rest waits for CREDIT. */
    return g->sent + n <= g->allowed ? (uint32_t)n : 0;
}

/* Send a piece. False: the carrier has no room. */
static bool stream_out_piece(struct stream_out *g, uint32_t n) {
    const struct requester *a = g->requester;
    struct msg r = {.len = MSG_HEADER + n,
                    .type = MSG_DATA,
                    .id = g->id,
                    .aux = g->sent,
                    .val_len = g->len,
                    .manager = g->m->setup->id};
    if (g->sent + n == g->len)
        r.flags = MSGF_LAST;
    g->under_way++;
    if (!a->ops->piece(g->carrier, &r, g->data + g->sent, n, piece_done, g)) {
        g->under_way--;
        return false;
    }
    g->sent += n;
    if (g->reading && !g->under_way)
        store_read_sent(g->reading, g->sent);
    timer_after(&g->m->timers, &g->timer, DD_STREAM_MS * 1000000ull); /* it made progress */
    return true;
}

bool streams_out_pump(struct requester *a) {
    bool worked = false;
    if (a->streams_out && !requester_idle(a))
        return false;
    /* A lane is tried again in the next turn; a connection only when it was full and has
     * drained. */
    unsigned all = 0, most = a->ops->pieces_max;
    for (const struct stream_out *g = a->streams_out; g; g = g->next)
        all++;
    for (unsigned pieces = 0, waiting = 0;
         a->streams_out && !a->gone && pieces < most && waiting < all;) {
        struct stream_out *g = a->streams_out;
        if (g->reading && store_read_ready(g->reading, stream_out_end_of_piece(g)) < 0) {
            stream_out_break(g, -EIO);
            all--;
            continue;
        }
        uint32_t n = stream_out_next_piece(g);
        if (n > 0 && stream_out_piece(g, n)) {
            worked = true;
            pieces++;
            waiting = 0;
        } else if (n > 0 && !a->ops->bulk)
            break;
        else
            waiting++; /* for credit, or for room in its connection */
        if (g->sent == g->len) {
            stream_out_unlink(g);
            stream_out_free_when_quiet(g);
        } else if (g->next) { /* the next stream has its turn */
            a->streams_out = g->next;
            g->next = NULL;
            *a->streams_out_end = g;
            a->streams_out_end = &g->next;
        }
    }
    return worked;
}

static struct stream_out *stream_out_find(struct requester *a, uint64_t id) {
    struct stream_out *g = a->streams_out;
    while (g && g->id != id)
        g = g->next;
    return g;
}

void stream_out_more(struct requester *a, uint64_t id, uint64_t upto) {
    struct stream_out *g = stream_out_find(a, id);
    if (!g || upto <= g->allowed)
        return;
    g->allowed = upto;
    streams_out_pump(a);
}

bool stream_out_cancel(struct requester *a, uint64_t id, int status) {
    struct stream_out *g = stream_out_find(a, id);
    if (!g)
        return false;
    stream_out_break(g, status);
    return true;
}

void streams_out_end(struct requester *a) {
    while (a->streams_out) {
        struct stream_out *g = a->streams_out;
        stream_out_unlink(g);
        stream_out_free_when_quiet(g);
    }
}
