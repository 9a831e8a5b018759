/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rma_read.c - reads the value of another manager's item out of its arena (RMA; PROTOCOL 10).
 * Several pieces are read at a time, and end in any order; the forward gets them in order, as if
 * they had come in messages. The last piece is kept back until the owner confirms that the item
 * stayed in place until we had all of it.
 *
 * Memory that the network writes must stay until the network is done: a read outlives its forward,
 * with the block that it reads into, until its last piece is over.
 */
#include "rma_read.h"

#include "manager.h"
#include "peer_client.h"
#include <base/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* a tenth of the owner's deadline: so often it is told that the read goes on */
#define TELL_NS (DD_STREAM_MS * 100000ull)

struct piece {
    struct rma_read *p;
    uint32_t len;
    bool busy;    /* being read */
    uint8_t *buf; /* its own memory; NULL: read to its place */
};
struct rma_read {
    struct manager *m;
    struct forward *f; /* NULL: the forward has ended */
    rma_read_piece *give;
    struct peer *peer;
    uint64_t id; /* of the forward, at the owner */
    uint64_t len, asked, got, allowed;
    uint32_t piece_max;
    uint8_t *to;    /* block that is read into, or NULL */
    bool has_block; /* the block is this read's to give up */
    struct store_ref block;
    /* nobody wants the value; the owner knows that we have it all; the owner has confirmed it */
    bool stopped, told_all, good;
    int code; /* why a read failed */
    uint64_t told_ns;
    /* reports a failed read, which must not be done from within the caller */
    struct timer timer;
    unsigned first, n, reads; /* a ring of `piece`, and how many of them are being read */
    struct piece piece[DD_RMA_AHEAD];
    unsigned place_n, place_i;
    uint64_t place_at; /* bytes of place[place_i] that were asked for */
    struct fabric_place place[];
};

static void owner_tell(const struct rma_read *p, unsigned type, uint64_t aux) {
    struct msg r = {.type = (uint16_t)type, .flags = MSGF_HOP, .id = p->id, .aux = aux};
    peer_tell(p->peer, &r);
}

static void rma_read_free(struct rma_read *p) {
    timer_clear(&p->m->timers, &p->timer);
    for (unsigned i = 0; i < p->n; i++)
        free(p->piece[(p->first + i) % DD_RMA_AHEAD].buf);
    if (p->has_block)
        store_abort(p->m->store, &p->block);
    free(p);
}

static void rma_read_failed(struct timer *t) {
    struct rma_read *p = (struct rma_read *)(void *)((char *)t - offsetof(struct rma_read, timer));
    if (p->f)
        owner_tell(p, MSG_CANCEL, p->id);
}

struct rma_read *rma_read_new(struct manager *m, struct forward *f, rma_read_piece *give,
                              struct peer *peer, uint64_t id, uint8_t *to, const struct msg *r,
                              const uint8_t *places) {
    uint32_t bytes = r->len - MSG_HEADER;
    struct rma_read *p =
        bytes && bytes % sizeof p->place[0] == 0 ? calloc(1, sizeof *p + bytes) : NULL;
    uint64_t sum = 0;
    if (!p)
        return NULL;
    memcpy(p->place, places, bytes);
    p->place_n = bytes / sizeof p->place[0];
    for (unsigned i = 0;
         i < p->place_n && p->place[i].len > 0 && p->place[i].len <= r->val_len - sum; i++)
        sum += p->place[i].len;
    if (sum != r->val_len || sum == 0) {
        free(p);
        return NULL;
    }
    p->m = m;
    p->f = f;
    p->give = give;
    p->peer = peer;
    p->id = id;
    p->len = r->val_len;
    p->to = to;
    p->piece_max = to ? DD_RMA_PIECE : DD_MSG_PIECE; /* for a lane: it fits into one record */
    p->told_ns = m->now;
    p->timer.fire = rma_read_failed;
    for (unsigned i = 0; i < DD_RMA_AHEAD; i++)
        p->piece[i].p = p;
    return p;
}

static void rma_read_deliver(struct rma_read *p);

/* Called by the network, or at the end of the connection; then nothing can be sent to the owner. */
static void piece_read(void *arg, int code) {
    struct piece *piece = arg;
    struct rma_read *p = piece->p;
    piece->busy = false;
    p->reads--;
    if (code < 0 && p->code == 0) {
        p->code = code;
        if (p->f)
            timer_after(&p->m->timers, &p->timer, 0);
    }
    if (!p->f && p->reads == 0)
        rma_read_free(p);
    else if (p->f && p->code == 0)
        rma_read_deliver(p);
}

/* Begin to read the next piece. False: not now. */
static bool piece_ask(struct rma_read *p) {
    if (p->n == DD_RMA_AHEAD || p->asked == p->len || p->code || p->stopped)
        return false;
    struct piece *piece = &p->piece[(p->first + p->n) % DD_RMA_AHEAD];
    const struct fabric_place *at = &p->place[p->place_i];
    uint64_t n = at->len - p->place_at;
    if (n > p->piece_max)
        n = p->piece_max;
    /* no parts of pieces: the forward counts whole ones, as the owner does */
    if (p->asked + n > p->allowed)
        return false;
    struct fabric_place from = {at->at + p->place_at, at->key, n};
    piece->len = (uint32_t)n;
    piece->buf = p->to ? NULL : malloc(n);
    int e = p->to || piece->buf ? peer_read(p->peer, p->to ? p->to + p->asked : piece->buf, &from,
                                            piece_read, piece)
                                : -ENOMEM;
    if (e < 0) {
        free(piece->buf);
        p->code = e;
        timer_after(&p->m->timers, &p->timer, 0);
        return false;
    }
    piece->busy = true;
    p->reads++;
    p->n++;
    p->asked += n;
    p->place_at += n;
    if (p->place_at == at->len) {
        p->place_i++;
        p->place_at = 0;
    }
    return true;
}

void rma_read_more(struct rma_read *p, uint64_t upto) {
    if (upto > p->allowed)
        p->allowed = upto;
    while (piece_ask(p)) {
    }
}

/* Give the forward the pieces that are there. The last one may end the forward, and this read. */
static void rma_read_deliver(struct rma_read *p) {
    while (p->n > 0 && !p->stopped && !p->code) {
        struct piece *piece = &p->piece[p->first];
        struct msg r = {.len = MSG_HEADER + piece->len,
                        .type = MSG_DATA,
                        .id = p->id,
                        .aux = p->got,
                        .val_len = p->len};
        bool last = p->got + piece->len == p->len;
        uint8_t *buf = piece->buf, *at = buf ? buf : p->to + p->got;
        if (piece->busy)
            break;
        if (last && !p->good) {
            if (!p->told_all)
                owner_tell(p, MSG_CREDIT, p->len);
            p->told_all = true;
            break;
        }
        if (last)
            r.flags = MSGF_LAST;
        piece->buf = NULL;
        p->got += piece->len;
        p->first = (p->first + 1) % DD_RMA_AHEAD;
        p->n--;
        p->m->count->rma_bytes += piece->len;
        p->give(p->m, p->f, &r, at);
        free(buf);
        if (last)
            return;
    }
    if (!p->told_all && p->m->now - p->told_ns > TELL_NS) {
        owner_tell(p, MSG_CREDIT, p->got);
        p->told_ns = p->m->now;
    }
    rma_read_more(p, 0);
}

int rma_read_heard(struct rma_read *p, const struct msg *r) {
    if (!(r->flags & MSGF_LAST) || r->len != MSG_HEADER ||
        (r->status >= 0 && (!p->told_all || r->aux != p->len)))
        return DDICT_EPROTO;
    struct msg out = {.len = MSG_HEADER,
                      .type = MSG_DATA,
                      .flags = MSGF_LAST,
                      .id = p->id,
                      .aux = p->got,
                      .val_len = p->len,
                      .status = r->status};
    if (p->code)
        out.status = DDICT_ELOST;
    else if (p->stopped)
        out.status = -ECANCELED;
    if (out.status < 0) {
        p->give(p->m, p->f, &out, NULL);
    } else {
        p->good = true;
        rma_read_deliver(p);
    }
    return 0;
}

void rma_read_stop(struct rma_read *p) {
    p->stopped = true;
}

void rma_read_forget(struct rma_read *p, const struct store_ref *block) {
    p->f = NULL;
    timer_clear(&p->m->timers, &p->timer);
    if (block) {
        p->has_block = true;
        p->block = *block;
    }
    if (p->reads == 0)
        rma_read_free(p);
}
