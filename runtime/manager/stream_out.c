/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_out.c - values that go out in pieces, straight from a pinned item into the lane or the
 * socket. The streams of one requester take turns, a piece each. A stream ends when all is sent and
 * the socket has taken its last piece, so its bytes stay until then.
 */
#include "stream_out.h"

#include "faults.h"
#include "ledger.h"
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
    struct ledger_entry *entry; /* of a lane's: a later life sends the rest; NULL: none can */
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
    if (g->entry)
        requester_entry_end(g->m, &g->entry);
    g->requester = NULL;
}

/* --- a later life --- */
/* Before and after something is sent: its entry notes what of the value stands in CQ. */
static void part_begin(struct stream_out *g) {
    if (!g->entry)
        return;
    g->m->answering = &g->entry;
    g->m->passing = true;
}
static void part_end(struct stream_out *g) {
    if (faults.on && g->m->passing)
        faults_step(STEP_PASSED);
    g->m->passing = false;
    if (g->m->answering == &g->entry)
        g->m->answering = NULL;
}

static void stream_out_enter(struct stream_out *g, struct requester *a, const struct msg *r,
                             const struct msg *req, const struct store_ref *ref) {
    struct ledger_entry *e = requester_enter_rest(a, req, ref->item->key);
    if (!e)
        return;
    e->value = ref->off;
    ledger_passes(e, r);
    g->entry = e;
}

static void stream_out_break(struct stream_out *g, int status) {
    struct msg r = {.type = MSG_DATA,
                    .flags = MSGF_LAST,
                    .id = g->id,
                    .aux = g->sent,
                    .status = status,
                    .manager = g->m->setup->id};
    if (g->entry)
        g->entry->got = 1;
    part_begin(g);
    requester_send(g->carrier, &r, NULL, 0);
    part_end(g);
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

/* As stream_out_new(), of a value of which `sent` bytes are sent. */
static struct stream_out *stream_out_rest(struct manager *m, const struct store_ref *away,
                                          uint64_t sent) {
    struct stream_out *g = faults.on && faults_give() ? NULL : calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->m = m;
    g->sent = sent;
    g->timer.fire = stream_out_late;
    if (timer_after(&m->timers, &g->timer, DD_STREAM_MS * 1000000ull) < 0 ||
        (away && store_read_begin(m->store, away, sent, &g->reading, &g->data) < 0)) {
        stream_out_drop(g);
        return NULL;
    }
    return g;
}

struct stream_out *stream_out_new(struct manager *m, const struct store_ref *away) {
    return stream_out_rest(m, away, 0);
}

void stream_out_drop(struct stream_out *g) {
    if (!g)
        return;
    timer_clear(&g->m->timers, &g->timer);
    if (g->reading)
        store_read_end(g->reading);
    free(g);
}

static void stream_out_link(struct stream_out *g, struct requester *a, uint64_t id,
                            uint64_t window) {
    g->requester = a;
    g->carrier = a->ops->bulk ? a->ops->bulk(a) : a;
    g->id = id;
    g->allowed = window ? window : UINT64_MAX;
    *a->streams_out_end = g;
    a->streams_out_end = &g->next;
}

static void stream_out_start(struct stream_out *g, struct requester *a, struct msg *r,
                             uint64_t window) {
    stream_out_link(g, a, r->id, window);
    r->flags = MSGF_STREAM;
    part_begin(g);
    requester_send(g->carrier, r, NULL, 0);
    part_end(g);
    streams_out_pump(a);
}

static void unpin_done(struct manager *m, uint64_t off, void *ptr) {
    store_unpin(m->store, off);
}

/* Takes over a pin of the item. */
static void stream_out_of(struct stream_out *g, uint64_t len, const struct store_ref *ref) {
    g->len = len;
    if (g->reading) {
        g->done = read_done;
        g->ptr = g->reading;
        store_unpin(g->m->store, ref->off); /* the reading has a pin of its own */
    } else {
        g->data = ref->value;
        g->done = unpin_done;
        g->arg = ref->off;
    }
}

void stream_out_item(struct stream_out *g, struct requester *a, struct msg *r,
                     const struct msg *req, const struct store_ref *ref) {
    bool waited = a->m->answering;
    if (a->kind == REQUESTER_LANE)
        stream_out_enter(g, a, r, req, ref);
    stream_out_of(g, r->val_len, ref);
    stream_out_start(g, a, r, req->val_len);
    if (waited && !a->m->answering)
        store_begin(a->m->store, NULL); /* the entry says all now: the next change is not its */
}

int stream_out_resume(struct requester *a, struct ledger_entry *e, const struct store_ref *ref) {
    uint64_t upto = e->pass.upto;
    struct stream_out *g =
        stream_out_rest(a->m, item_away(ref->item) ? ref : NULL, upto ? upto - 1 : 0);
    struct msg r;
    if (!g)
        return -ENOMEM;
    g->entry = e;
    stream_out_of(g, e->pass.val_len, ref);
    if (upto) {
        stream_out_link(g, a, e->req.id, 0);
        return 0;
    }
    reply_init(&r, e->req.id, a->m->setup->id);
    r.val_len = e->pass.val_len;
    r.version = e->pass.version;
    r.tag = (uint8_t)e->pass.tag;
    stream_out_start(g, a, &r, 0);
    return 0;
}

int stream_out_begin(struct requester *a, struct msg *r, const void *data, uint64_t len,
                     uint64_t window, void (*done)(struct manager *m, uint64_t arg, void *ptr),
                     uint64_t arg, void *ptr) {
    struct stream_out *g = stream_out_new(a->m, NULL);
    if (!g)
        return -ENOMEM;
    g->data = data;
    g->len = len;
    g->done = done;
    g->arg = arg;
    g->ptr = ptr;
    stream_out_start(g, a, r, window);
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
    part_begin(g);
    bool sent = a->ops->piece(g->carrier, &r, g->data + g->sent, n, piece_done, g);
    part_end(g);
    if (!sent) {
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

static struct stream_out *stream_out_find(const struct requester *a, uint64_t id) {
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

bool stream_out_knows(const struct requester *a, uint64_t id) {
    return stream_out_find(a, id);
}

void streams_out_end(struct requester *a) {
    while (a->streams_out) {
        struct stream_out *g = a->streams_out;
        stream_out_unlink(g);
        stream_out_free_when_quiet(g);
    }
}
