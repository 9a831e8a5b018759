/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow_pieces.c - fetch the pieces of a value to this node, and pass them on to the next node of
 * the chain. So a value is on its way to all nodes at once, and each link carries it once. Who gets
 * nothing from the node before takes the rest from the origin.
 */
#include "publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GETS 2u /* pieces asked for ahead: more would come together, and be passed on later */
#define PUTS 8u /* pieces being passed on */
#define DELS 64u
/* a piece that is waited for: the time without any is what counts. ms */
#define PIECE_MS 30000
#define PAUSE_NS 20000000 /* before an origin that was lost is asked again */

/* PASS_NONE: in place of a piece that found no room here, an empty one, so that nobody waits for it */
enum { ASK_UP, ASK_ORIGIN, PASS_ON, PASS_NONE, REMOVE, KINDS };
enum { TODO, ASKED, GOT };

struct fetching {
    struct pub_fetch *f;
    struct pub_call *c;
    const struct pub_entry *e;
    ddict_async_t *q;
    uint64_t n, got, first; /* pieces; those there; below first none is to be asked for */
    uint8_t *state;         /* [n] */
    uint64_t *ticket;       /* [n], of the request for it */
    unsigned under_way[KINDS];
    uint64_t passed; /* those below it are passed on or on their way */
    bool followed;   /* a node of the chain takes from this one */
    uint64_t moved_ns, patience_ms;
    int failed; /* the origin does not have it any more, or another failure */
};

static char *piece_at(const struct fetching *x, uint64_t i) {
    return x->f->mem + i * x->e->piece;
}

static void over(struct fetching *x, unsigned kind, uint64_t i, int status, size_t len);

/* Begin one request about a piece. */
static void begin(struct fetching *x, unsigned kind, uint64_t i) {
    static const unsigned what[KINDS] = {DDICT_OP_GET, DDICT_OP_GET, DDICT_OP_PUT, DDICT_OP_PUT,
                                         DDICT_OP_DEL};
    bool passes = kind == PASS_ON || kind == PASS_NONE;
    unsigned node = kind == ASK_ORIGIN ? x->e->origin : passes ? x->c->home : x->f->up;
    struct pub_key k;
    int rc = pub_key_of(x->c, x->e, kind == ASK_ORIGIN ? PUB_PIECE : PUB_PASSED, node, i, &k);
    struct ddict_op op = {.what = what[kind],
                          .flags = kind == ASK_UP ? DDICT_WAIT : 0,
                          .key = k.bytes,
                          .klen = k.len,
                          .timeout_ms = kind == ASK_UP ? PIECE_MS : -1,
                          .user = (void *)(uintptr_t)(i * KINDS + kind)};
    if (kind != REMOVE) {
        op.buf = piece_at(x, i);
        op.len = kind == PASS_NONE ? 0 : pub_piece_len(x->e, i);
    }
    if (rc == 0)
        rc = (int)ddict_async_submit(x->q, &op, 1);
    x->under_way[kind]++;
    if (kind <= ASK_ORIGIN) {
        x->state[i] = ASKED;
        x->ticket[i] = rc == 1 ? op.ticket : 0;
    }
    if (rc != 1) {
        over(x, kind, i, rc < 0 ? rc : op.status, op.vlen);
        free(op.text);
    }
}

/* The node before does not go on: nothing more is asked of it. */
static void leave_up(struct fetching *x) {
    for (uint64_t i = 0; i < x->n; i++)
        if (x->state[i] == ASKED && x->ticket[i] != 0)
            ddict_async_cancel(x->q, x->ticket[i]);
    x->f->up = PUB_NONE;
    x->f->up_was_clean = false;
}

/* Whether who fetches for the node before is there and not ready yet. */
static bool up_goes_on(const struct fetching *x) {
    struct pub_held h;
    return pub_held_get(x->c, x->f->up, &x->e->uid, &h) == 1 && h.state == PUB_FETCHING &&
           ddict_alive(x->c->d, h.who, x->c->s->timeout_ms) == 1;
}

static void piece_came(struct fetching *x, unsigned kind, uint64_t i) {
    x->state[i] = GOT;
    x->patience_ms = PUB_UPSTREAM_MS;
    x->got++;
    x->moved_ns = clock_ns();
    if (kind == ASK_UP && x->f->up != PUB_NONE)
        begin(x, REMOVE, i);
}

static void over(struct fetching *x, unsigned kind, uint64_t i, int status, size_t len) {
    x->under_way[kind]--;
    if (kind == REMOVE && status < 0 && !key_is_absent(status))
        x->f->up_was_clean = false;
    if (kind == PASS_ON && status < 0) { /* who comes behind takes the rest from the origin */
        x->passed = x->n;
        begin(x, PASS_NONE, i);
    }
    if (kind > ASK_ORIGIN)
        return;
    if (status == 0 && len == pub_piece_len(x->e, i)) {
        piece_came(x, kind, i);
        return;
    }
    x->state[i] = TODO;
    if (i < x->first)
        x->first = i;
    if (kind == ASK_UP) {
        if (x->f->up != PUB_NONE)
            leave_up(x);
    } else if (key_is_absent(status) || status == 0) {
        x->failed = -EAGAIN;
    } else if (status == DDICT_ELOST) { /* with two copies the other node has it soon */
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    } else {
        x->failed = status;
    }
}

static void ask_more(struct fetching *x) {
    while (x->failed == 0 && x->under_way[ASK_UP] + x->under_way[ASK_ORIGIN] < GETS) {
        while (x->first < x->n && x->state[x->first] != TODO)
            x->first++;
        if (x->first == x->n)
            return;
        uint64_t before = x->first;
        begin(x, x->f->up == PUB_NONE ? ASK_ORIGIN : ASK_UP, before);
        if (x->first == before && x->state[before] == TODO)
            return; /* it failed at once */
    }
}

/* Whether a node of the chain takes the pieces from this one. */
static bool look_behind(const struct fetching *x, const struct pub_chain *ch) {
    for (uint32_t i = 0; i < ch->n; i++)
        if (ch->link[i].up == x->c->home)
            return true;
    return false;
}

static void pass_on(struct fetching *x) {
    struct pub_chain ch;
    if (!x->followed && x->passed < x->got && pub_chain_read(x->c, x->e, &ch) == 0) {
        x->followed = look_behind(x, &ch);
        free(ch.link);
    }
    while (x->followed && x->passed < x->n && x->state[x->passed] == GOT &&
           x->under_way[PASS_ON] < PUTS)
        begin(x, PASS_ON, x->passed++);
}

/* All is there. Whether nobody comes behind; then nobody will. */
static bool close_behind(struct fetching *x) {
    struct pub_chain ch;
    int rc;
    do {
        if (pub_chain_read(x->c, x->e, &ch) < 0)
            return true;
        x->followed = look_behind(x, &ch);
        for (uint32_t i = 0; i < ch.n; i++)
            if (ch.link[i].node == x->c->home)
                ch.link[i].state = PUB_CLOSED;
        rc = x->followed ? 0 : pub_chain_put(x->c, x->e, &ch);
        free(ch.link);
    } while (rc == DDICT_ECHANGED);
    return !x->followed;
}

/* Take the results that there are. */
static void turn(struct fetching *x) {
    struct ddict_op done[16];
    ssize_t n = ddict_async_poll(x->q, done, 16, 200);
    if (n < 0)
        x->failed = (int)n;
    for (ssize_t j = 0; j < n; j++) {
        uint64_t user = (uint64_t)(uintptr_t)done[j].user;
        over(x, user % KINDS, user / KINDS, done[j].status, done[j].vlen);
        free(done[j].text);
    }
    uint64_t idle_ms = (clock_ns() - x->moved_ns) / 1000000u;
    if (x->f->up != PUB_NONE && idle_ms > x->patience_ms && x->got < x->n) {
        x->patience_ms += PUB_UPSTREAM_MS;
        if (idle_ms > PUB_UPSTREAM_LAST_MS || !up_goes_on(x))
            leave_up(x);
    }
    if (x->failed == 0 && x->got < x->n && idle_ms > (uint64_t)x->c->s->timeout_ms)
        x->failed = dd_error(-ETIMEDOUT, "no piece of what was published came within %.3g s",
                             x->c->s->timeout_ms / 1000.0);
}

static void run(struct fetching *x) {
    x->moved_ns = clock_ns();
    x->patience_ms = PUB_UPSTREAM_MS;
    while (x->failed == 0 && x->got < x->n) {
        ask_more(x);
        if (x->f->in_chain)
            pass_on(x);
        if (x->failed == 0)
            turn(x);
    }
    if (x->failed == 0 && x->f->in_chain && !x->followed)
        close_behind(x);
    uint64_t until_ms = clock_ms() + (uint64_t)x->c->s->timeout_ms;
    while (x->failed == 0 && ddict_async_len(x->q) + (x->followed ? x->n - x->passed : 0) > 0 &&
           clock_ms() < until_ms) {
        if (x->followed)
            pass_on(x);
        turn(x);
    }
}

int pub_fetch_pieces(struct pub_fetch *f) {
    struct fetching x = {.f = f, .c = f->c, .e = f->e, .n = pub_pieces(f->e)};
    int rc = ddict_async_open(f->c->d, &x.q);
    if (rc < 0)
        return rc;
    f->up_was_clean = f->up != PUB_NONE;
    x.state = calloc(x.n, 1);
    x.ticket = calloc(x.n, sizeof *x.ticket);
    if (x.state && x.ticket)
        run(&x);
    else
        x.failed = dd_error(-ENOMEM, "no memory to fetch what was published");
    ddict_async_close(x.q);
    free(x.state);
    free(x.ticket);
    return x.failed;
}
