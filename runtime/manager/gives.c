/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gives.c - values that go out in pieces, straight from where they lie (a pinned item) into the lane or the socket. Several of one asker take turns
 * by the piece. A give ends when all was sent and no piece is under way any more, so its bytes stay until the socket has them.
 */
#include <manager/manager.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct give {
    struct give *next;
    struct manager *m;
    struct asker *asker; /* NULL: ended, pieces are still under way */
    struct asker *
        carrier; /* of the asker's connections that which they go over, with all of the reply; else the asker */
    uint64_t id;
    const uint8_t *data;
    uint64_t len, sent, allowed;
    unsigned under_way; /* pieces that the socket still reads from data */
    void (*done)(struct manager *m, uint64_t arg, void *ptr);
    uint64_t arg;
    void *ptr;
    struct store_reading *reading; /* of the spill: data comes as it goes; NULL: it is all there */
    struct timer timer;
};

static void give_free_when_quiet(struct give *g) {
    if (g->asker || g->under_way)
        return;
    g->done(g->m, g->arg, g->ptr);
    free(g);
}

static void give_unlink(struct give *g) {
    struct asker *a = g->asker;
    struct give **at = &a->gives;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    if (!*at)
        a->gives_end = at;
    timer_clear(&g->m->timers, &g->timer);
    g->asker = NULL;
}

static void give_break(struct give *g, int status) {
    struct msg r = {.type = MSG_DATA,
                    .flags = MSGF_LAST,
                    .id = g->id,
                    .aux = g->sent,
                    .status = status,
                    .manager = g->m->setup->id};
    asker_send(g->carrier, &r, NULL, 0);
    give_unlink(g);
    give_free_when_quiet(g);
}

static void give_late(struct timer *t) {
    give_break((struct give *)(void *)((char *)t - offsetof(struct give, timer)), -ETIMEDOUT);
}

static int begin(struct asker *a, struct msg *r, const void *data, uint64_t len, uint64_t window,
                 void (*done)(struct manager *m, uint64_t arg, void *ptr), uint64_t arg, void *ptr,
                 struct store_reading *reading) {
    struct give *g = calloc(1, sizeof *g);
    if (!g)
        return -ENOMEM;
    g->timer.fire = give_late;
    if (timer_after(&a->m->timers, &g->timer, DD_STREAM_MS * 1000000ull) < 0) {
        free(g);
        return -ENOMEM;
    }
    g->m = a->m;
    g->asker = a;
    g->carrier = a->kind == ASKER_PEER ? inbound_bulk(a) : a;
    g->id = r->id;
    g->data = data;
    g->len = len;
    g->allowed = window ? window : UINT64_MAX;
    g->done = done;
    g->arg = arg;
    g->ptr = ptr;
    g->reading = reading;
    *a->gives_end = g;
    a->gives_end = &g->next;
    r->flags = MSGF_STREAM;
    asker_send(g->carrier, r, NULL, 0);
    gives_pump(a);
    return 0;
}

int give_begin(struct asker *a, struct msg *r, const void *data, uint64_t len, uint64_t window,
               void (*done)(struct manager *m, uint64_t arg, void *ptr), uint64_t arg, void *ptr) {
    return begin(a, r, data, len, window, done, arg, ptr, NULL);
}

static void read_done(struct manager *m, uint64_t arg, void *ptr) {
    store_read_end(ptr);
}

int give_from_spill(struct asker *a, struct msg *r, const struct store_ref *ref, uint64_t window) {
    struct store_reading *reading;
    const uint8_t *data;
    int e = store_read_begin(a->m->store, ref, &reading, &data);
    if (e == 0 && (e = begin(a, r, data, r->val_len, window, read_done, 0, reading, reading)) < 0)
        store_read_end(reading);
    return e;
}

static void piece_done(void *arg) {
    struct give *g = arg;
    g->under_way--;
    if (g->reading && g->asker && !g->under_way)
        store_read_sent(g->reading, g->sent);
    give_free_when_quiet(g);
}

static uint32_t give_next_piece(const struct give *g) {
    uint64_t n = g->len - g->sent;
    if (n > DD_MSG_PIECE)
        n = DD_MSG_PIECE;
    if (g->reading && g->sent + n > (uint64_t)store_read_ready(g->reading))
        return 0;
    /* Whole pieces only, so a window of any size makes progress in few messages; the rest of a window waits for CREDIT. */
    return g->sent + n <= g->allowed ? (uint32_t)n : 0;
}

/* One piece. false: the carrier has no room. */
static bool give_piece(struct give *g, uint32_t n) {
    struct asker *a = g->asker;
    struct msg r = {.len = MSG_HEADER + n,
                    .type = MSG_DATA,
                    .id = g->id,
                    .aux = g->sent,
                    .val_len = g->len,
                    .manager = g->m->setup->id};
    if (g->sent + n == g->len)
        r.flags = MSGF_LAST;
    if (a->kind == ASKER_LANE) {
        uint8_t *at = lane_piece(a, r.len);
        if (!at)
            return false;
        memcpy(at, &r, sizeof r);
        memcpy(at + MSG_HEADER, g->data + g->sent, n);
        lane_piece_done(a, &r);
    } else {
        if (inbound_full(g->carrier))
            return false;
        g->under_way++;
        inbound_piece(g->carrier, &r, g->data + g->sent, n, piece_done, g);
    }
    g->sent += n;
    if (g->reading && !g->under_way)
        store_read_sent(g->reading, g->sent);
    timer_after(&g->m->timers, &g->timer, DD_STREAM_MS * 1000000ull); /* it moves on */
    return true;
}

bool gives_pump(struct asker *a) {
    bool worked = false;
    if (a->kind == ASKER_LANE && a->gives && !lane_idle_out(a))
        return false;
    /* A lane is looked at again in the next turn; a connection only when it was full and has drained. */
    unsigned all = 0, most = a->kind == ASKER_LANE ? 16 : UINT_MAX;
    for (const struct give *g = a->gives; g; g = g->next)
        all++;
    for (unsigned pieces = 0, waiting = 0;
         a->gives && !a->gone && pieces < most && waiting < all;) {
        struct give *g = a->gives;
        if (g->reading && store_read_ready(g->reading) < 0) {
            give_break(g, -EIO);
            all--;
            continue;
        }
        uint32_t n = give_next_piece(g);
        if (n > 0 && give_piece(g, n)) {
            worked = true;
            pieces++;
            waiting = 0;
        } else if (n > 0 && a->kind == ASKER_LANE)
            break;
        else
            waiting++; /* for credit, or for its connection */
        if (g->sent == g->len) {
            give_unlink(g);
            give_free_when_quiet(g);
        } else if (g->next) { /* to the end of the round */
            a->gives = g->next;
            g->next = NULL;
            *a->gives_end = g;
            a->gives_end = &g->next;
        }
    }
    return worked;
}

static struct give *give_find(struct asker *a, uint64_t id) {
    struct give *g = a->gives;
    while (g && g->id != id)
        g = g->next;
    return g;
}

void give_more(struct asker *a, uint64_t id, uint64_t upto) {
    struct give *g = give_find(a, id);
    if (!g || upto <= g->allowed)
        return;
    g->allowed = upto;
    gives_pump(a);
}

bool give_cancel(struct asker *a, uint64_t id, int status) {
    struct give *g = give_find(a, id);
    if (!g)
        return false;
    give_break(g, status);
    return true;
}

void gives_end(struct asker *a) {
    while (a->gives) {
        struct give *g = a->gives;
        give_unlink(g);
        give_free_when_quiet(g);
    }
}
