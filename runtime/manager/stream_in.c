/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_in.c - values that come in pieces, received straight from the lane or the socket into
 * their block. The block is reserved at the header and published with the last piece. A put_in
 * lives until a piece with LAST or an ABORT has come, even if the put was refused: its pieces are
 * known until its sender has stopped.
 *
 * Where a put goes on to another manager whose connection ended, its pieces are dropped until the
 * owner says how much it has. Then the client is asked for the rest (REWIND): pieces with an older
 * number of REWINDs were on their way before. The owner keeps what it has of such a put, without its
 * requester, until the proxy asks for it again (PROTOCOL 12).
 */
#include "stream_in.h"

#include "answers.h"
#include "forward_put.h"
#include "ledger.h"
#include "manager.h"
#include "record_rate.h"
#include "requester.h"
#include "results.h"
#include "rooms.h"
#include <base/clock.h>
#include <base/copy.h>
#include <base/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PUTS_MAX 4096 /* of one requester at once; more is a fault of the client */

struct put_in {
    struct put_in *next;
    struct manager *m;
    struct requester *requester; /* NULL: its connection has ended; in manager.puts_kept */
    struct msg req;
    enum { PUT_FILLS, PUT_PASSES, PUT_PARKED, PUT_REFUSED } state;
    uint32_t to;          /* PUT_PARKED */
    struct store_ref ref; /* PUT_FILLS, and while `doomed` */
    /* PUT_FILLS: the value is complete, but not yet on disk */
    bool complete;
    bool landing; /* a connection is receiving a piece into the block */
    /* refused while landing: the block is given up when the piece is in */
    bool doomed;
    struct forward *forward;    /* PUT_PASSES: sends the pieces on */
    struct ledger_entry *entry; /* PUT_FILLS: in the ledger, a later life goes on with it */
    bool again;                 /* the piece that comes next may be in the block already */
    uint32_t rewind;            /* number of the last REWIND that its sender was told; 0: none */
    /* PUT_PASSES, or refused then: the last piece has come, at any time, so its sender gives up by
     * CANCEL and sends nothing more; the last one since the last REWIND, and it was dropped */
    bool closed, dropped;
    uint64_t got, began; /* bytes so far; when the put began */
    struct timer timer;
};

static struct put_in *put_in_find(struct requester *a, uint64_t id) {
    for (struct put_in **at = &a->puts; *at; at = &(*at)->next) {
        if ((*at)->req.id != id)
            continue;
        struct put_in *p = *at;
        *at = p->next; /* move it to the front: pieces come in runs */
        p->next = a->puts;
        a->puts = p;
        return p;
    }
    return NULL;
}

/* --- a later life --- */
/* Its entry is made: what it names is the later life's to go on with. */
static void put_in_entered(struct put_in *p, struct ledger_entry *e) {
    p->entry = e;
    e->value = p->ref.off;
}

static void put_in_enter(struct put_in *p, const uint8_t *key) {
    struct requester *a = p->requester;
    struct ledger_entry *e = NULL;
    /* what else is known of a value in the spill dies with the manager */
    if (p->ref.fill)
        return;
    if (a->kind == REQUESTER_LANE)
        e = requester_enter(a, &p->req, key, NULL, p->began);
    else if (proxy_returns(a, MSG_PUT, p->req.id)) {
        manager_ledger_look(p->m);
        e = ledger_add(p->m->setup->ledger, a->who, 0, p->began, &p->req, key, NULL, 0);
    }
    if (e)
        put_in_entered(p, e);
}

/* No later life can go on with it from now on. */
static void put_in_leave(struct put_in *p) {
    if (!p->entry)
        return;
    ledger_end(p->m->setup->ledger, p->entry);
    p->entry = NULL;
}

/* Its bytes are in the block, before their record leaves SQ. */
static void put_in_note(struct put_in *p, bool last) {
    if (!p->entry)
        return;
    if (last && p->requester->ops->position)
        p->entry->end = p->requester->ops->position(p->requester);
    __atomic_store_n(&p->entry->got, p->got, __ATOMIC_RELEASE);
}

/* A freeze waits for those that fill a block, but for what a refill puts. */
static void put_in_counts(const struct put_in *p, int more) {
    if (!request_is_refill(p->m, &p->req))
        p->m->puts_open += (unsigned)more;
}

static void put_in_refuse(struct put_in *p, int status, const char *text) {
    put_in_leave(p); /* before its block: the ledger names no free one */
    if (p->state == PUT_FILLS)
        put_in_counts(p, -1);
    if (p->state == PUT_FILLS && !p->landing)
        store_abort(p->m->store, &p->ref);
    p->doomed = p->state == PUT_FILLS && p->landing;
    p->state = PUT_REFUSED;
    timer_clear(&p->m->timers, &p->timer);
    requester_reply(p->requester, &p->req, status, text);
}

static struct put_in *put_in_of(struct timer *t) {
    return (struct put_in *)(void *)((char *)t - offsetof(struct put_in, timer));
}

static void put_in_late(struct timer *t) {
    struct put_in *p = put_in_of(t);
    const struct requester *a = p->requester;
    /* The end of the value may be in its lane, behind answers that it has not read. While a piece
     * lands, the block can't be given up anyway, and whether its bytes come is the connection's. */
    if ((p->landing || (a->ops->unread && a->ops->unread(a))) &&
        timer_after(&a->m->timers, t, DD_STREAM_MS * 1000000ull) == 0)
        return;
    put_in_refuse(p, -ETIMEDOUT, "the value of a streamed put did not come on for 30 s");
}

static void put_in_free(struct put_in *p) { /* it is the first in the list */
    p->requester->puts = p->next;
    if (p->state == PUT_FILLS)
        put_in_counts(p, -1);
    timer_clear(&p->m->timers, &p->timer);
    if (p->doomed)
        store_abort(p->m->store, &p->ref);
    free(p);
}

/* Whether another one with this id may begin. */
static int puts_look_up(const struct requester *a, uint64_t id) {
    unsigned n = 0;
    for (const struct put_in *p = a->puts; p; p = p->next, n++)
        if (p->req.id == id)
            return DDICT_EPROTO;
    return n < PUTS_MAX ? 0 : DDICT_EPROTO;
}

static void put_in_add(struct requester *a, struct put_in *p) {
    p->requester = a;
    p->timer.fire = put_in_late;
    p->next = a->puts;
    a->puts = p;
}

static int put_in_new(struct requester *a, const struct msg *m, struct put_in **out) {
    int e = puts_look_up(a, m->id);
    if (e < 0)
        return e;
    struct put_in *p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->m = a->m;
    p->req = *m;
    p->began = clock_ns();
    put_in_add(a, p);
    *out = p;
    return 0;
}

int put_in_begin(struct requester *a, const struct msg *m, const uint8_t *key) {
    struct put_in *p;
    struct store_ref ref;
    int e = request_reserve(a, m, key, &ref), known;
    if (e > 0)
        return e;
    if ((known = put_in_new(a, m, &p)) < 0) {
        if (e == 0)
            store_abort(a->m->store, &ref);
        return known;
    }
    p->state = PUT_REFUSED;
    if (e == 0) {
        p->ref = ref;
        p->state = PUT_FILLS;
        put_in_counts(p, 1);
        if (timer_after(&a->m->timers, &p->timer, DD_STREAM_MS * 1000000ull) < 0)
            put_in_refuse(p, -ENOMEM, "manager has no memory");
        else
            put_in_enter(p, key);
        return 0;
    }
    const char *text = request_full_text(a->m, e, m->val_len);
    if (e == DDICT_EFULL)
        a->m->count->full_errors++;
    if (e == DDICT_EFULL)
        note_full(a->m, text);
    put_in_refuse(p, e, text);
    return 0;
}

int put_in_park(struct requester *a, const struct msg *m, uint32_t to) {
    struct put_in *p;
    int e = put_in_new(a, m, &p);
    if (e < 0)
        return e;
    p->state = PUT_PARKED;
    p->to = to;
    return 0;
}

bool put_in_goes_on(struct requester *a, uint64_t id, uint32_t *to, struct forward **f) {
    const struct put_in *p = put_in_find(a, id);
    if (!p || (p->state != PUT_PASSES && p->state != PUT_PARKED))
        return false;
    *f = p->forward;
    *to = p->forward ? forward_put_owner(p->forward) : p->to;
    return true;
}

int put_in_pass(struct requester *a, const struct msg *m, struct forward *f) {
    struct put_in *p = put_in_find(a, m->id);
    int e = p && p->state == PUT_PARKED ? 0 : put_in_new(a, m, &p);
    if (e < 0)
        return e;
    p->state = f ? PUT_PASSES : PUT_REFUSED;
    p->forward = f;
    return 0;
}

void *put_in_place(struct requester *a, const struct msg *m) {
    struct put_in *p = put_in_find(a, m->id);
    if (!p || p->state != PUT_FILLS || m->rewind != p->rewind || m->aux != p->got ||
        m->len - MSG_HEADER > p->req.val_len - p->got)
        return NULL;
    p->landing = true;
    return p->ref.value + p->got;
}

static void put_in_first(struct put_in *p) {
    struct put_in **at = &p->requester->puts;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    p->next = p->requester->puts;
    p->requester->puts = p;
}

static struct put_in *passing_find(const struct requester *a, const struct forward *f) {
    struct put_in *p = a->puts;
    while (p && (p->state != PUT_PASSES || p->forward != f))
        p = p->next;
    return p;
}

void put_in_forget(struct requester *a, const struct forward *f) {
    struct put_in *p = passing_find(a, f);
    if (!p)
        return;
    p->state = PUT_REFUSED;
    p->forward = NULL;
    if (p->dropped) { /* nothing more of it comes */
        put_in_first(p);
        put_in_free(p);
    }
}

/* The last piece is in; p is the first in the list. Its entry ends with the record of that piece,
 * unless the value waits for room: then it is the entry of that. */
static void put_in_end(struct put_in *p) {
    struct requester *a = p->requester;
    struct msg req = p->req;
    struct store_ref ref = p->ref;
    uint64_t began = p->began;
    bool fills = p->state == PUT_FILLS;
    a->m->resumed = p->entry;
    put_in_free(p);
    if (fills)
        a->m->up->commit(a, &req, &ref, began);
    requester_taken(a, req.id);
    if (a->m->resumed && a->kind == REQUESTER_PEER) {
        ledger_end(a->m->setup->ledger, a->m->resumed); /* it is refused */
        a->m->resumed = NULL;
    }
    if (a->m->resumed) /* its lane is gone */
        requester_entry_end(a->m, &a->m->resumed);
}

int put_in_resume(struct requester *a, struct ledger_entry *e, const struct store_ref *ref) {
    struct put_in *p;
    int rc = put_in_new(a, &e->req, &p);
    if (rc < 0)
        return rc;
    p->state = PUT_FILLS;
    p->ref = *ref;
    p->got = e->got;
    p->again = true;
    put_in_counts(p, 1);
    put_in_entered(p, e);
    if (timer_after(&a->m->timers, &p->timer, DD_STREAM_MS * 1000000ull) < 0)
        put_in_refuse(p, -ENOMEM, "manager has no memory");
    return 0;
}

/* A piece that was on its way when its sender was told to send the value again. */
static int put_in_stale(struct put_in *p, const struct msg *m) {
    if ((int32_t)(m->rewind - p->rewind) > 0)
        return DDICT_EPROTO; /* it was not told so */
    if (!(m->flags & MSGF_LAST))
        return 0;
    p->closed = true;
    if (p->state == PUT_PASSES)
        forward_put_last(p->forward, false);
    return 0;
}

static int put_in_skip(struct put_in *p, bool last) {
    if (last)
        put_in_end(p);
    return 0;
}

/* The owner has not said yet how much it has. */
static int put_in_drop(struct put_in *p, bool last) {
    if (!last)
        return 0;
    p->closed = p->dropped = true;
    forward_put_last(p->forward, true);
    return 0;
}

int put_in_data(struct requester *a, const struct msg *m, const uint8_t *payload) {
    struct put_in *p = put_in_find(a, m->id);
    uint32_t len = m->len - MSG_HEADER;
    bool last = m->flags & MSGF_LAST;
    if (!p) /* its sender does not know yet that this life knows nothing of it */
        return a->kind == REQUESTER_LANE && manager_has_lived(a->m) ? 0 : DDICT_EPROTO;
    p->landing = false;
    if (p->doomed) {
        store_abort(a->m->store, &p->ref);
        p->doomed = false;
    }
    if (faults.on)
        faults_sleep(faults.piece_ms);
    if (m->rewind != p->rewind)
        return put_in_stale(p, m);
    if (p->state == PUT_REFUSED)
        return put_in_skip(p, last);
    if (p->state == PUT_PASSES && !forward_put_takes(p->forward))
        return put_in_drop(p, last);
    if (p->again && m->aux != p->got && m->aux == p->got - len)
        len = 0; /* its record had not left SQ */
    else if (m->aux != p->got || len > p->req.val_len - p->got)
        return DDICT_EPROTO;
    p->again = false;
    if (last != (p->got + len == p->req.val_len))
        return DDICT_EPROTO;
    if (p->state == PUT_PASSES) {
        if (forward_put_full(p->forward)) {
            manager_stalls(a->m);
            return TAKE_STALL;
        }
        if (last)
            forward_put_last(p->forward, true);
        int e = forward_put_data(p->forward, m, payload);
        if (e != 0)
            return e;
    }
    if (p->state == PUT_FILLS && payload != p->ref.value + p->got)
        copy_value(p->ref.value + p->got, payload, len, p->req.val_len);
    p->got += len;
    put_in_note(p, last);
    if (faults.on && a->kind == REQUESTER_PEER)
        faults_step(STEP_TAKEN);
    /* it made progress */
    if (p->timer.pos)
        timer_after(&a->m->timers, &p->timer, DD_STREAM_MS * 1000000ull);
    int e = p->state == PUT_FILLS ? store_fill(a->m->store, &p->ref, p->got) : 0;
    if (e == -EAGAIN) {
        p->complete = last;
        manager_waits_for_room(a->m);
        return TAKE_PAUSE;
    }
    if (e < 0)
        put_in_refuse(p, e, request_full_text(a->m, e, p->req.val_len));
    if (last)
        put_in_end(p);
    return 0;
}

int put_in_await(struct requester *a, const struct msg *m, struct store_ref *ref, uint64_t began) {
    struct put_in *p;
    int e = put_in_new(a, m, &p);
    if (e == 0 && timer_after(&a->m->timers, &p->timer, DD_STREAM_MS * 1000000ull) < 0) {
        put_in_free(p);
        e = -ENOMEM;
    }
    if (e < 0) {
        store_abort(a->m->store, ref);
        requester_reply(a, m, e, NULL);
        return TAKE_DONE;
    }
    p->state = PUT_FILLS;
    p->ref = *ref;
    p->began = began;
    p->got = m->val_len;
    p->complete = true;
    put_in_counts(p, 1);
    manager_waits_for_room(a->m);
    return TAKE_PAUSE;
}

bool puts_look(struct requester *a) {
    bool waits = false;
    for (struct put_in *p = a->puts, *next; p; p = next) {
        next = p->next;
        if (p->state != PUT_FILLS || !p->ref.fill) {
            if (!p->complete)
                continue;
            put_in_first(p);
            put_in_free(p); /* refused while it was being written to disk */
            continue;
        }
        int e = store_fill(a->m->store, &p->ref, p->got);
        waits |= e == -EAGAIN;
        if (e == -EAGAIN)
            continue;
        if (e < 0)
            put_in_refuse(p, e, request_full_text(a->m, e, p->req.val_len));
        if (!p->complete)
            continue;
        put_in_first(p);
        put_in_end(p);
    }
    if (waits)
        manager_waits_for_room(a->m);
    return !waits;
}

bool put_in_abort(struct requester *a, uint64_t id) {
    struct put_in *p = put_in_find(a, id);
    if (!p)
        return false; /* its last piece has come */
    struct forward *f = p->state == PUT_PASSES ? p->forward : NULL;
    if (p->state == PUT_PARKED)
        requester_reply(a, &p->req, -ECANCELED, "put was given up by its sender");
    else if (p->state == PUT_FILLS)
        put_in_refuse(p, -ECANCELED, "put was given up by its sender");
    put_in_free(p);
    if (f)
        forward_put_abort(f);
    return true;
}

void put_in_over(struct requester *a, uint64_t id) {
    const struct put_in *p = put_in_find(a, id);
    if (p && p->closed)
        put_in_abort(a, id);
}

bool put_in_knows(const struct requester *a, uint64_t id) {
    const struct put_in *p = a->puts;
    while (p && p->req.id != id)
        p = p->next;
    return p;
}

bool put_in_cancel(struct requester *a, uint64_t id) {
    uint32_t to;
    struct forward *f;
    return put_in_goes_on(a, id, &to, &f) && put_in_abort(a, id);
}

void put_in_dropped(struct requester *a, const struct msg *m, bool last) {
    struct put_in *p = put_in_find(a, m->id);
    if (!p)
        return;
    p->state = PUT_REFUSED;
    if (last)
        put_in_free(p);
}

/* --- asked for again --- */
int put_in_rewind(struct requester *a, const struct msg *req, struct forward *f, uint64_t from,
                  uint32_t rewind) {
    struct put_in *p = put_in_find(a, req->id);
    int e = 0;
    if (p && p->forward != f) {
        requester_drop(a, "two puts with one id");
        return DDICT_EPROTO;
    }
    if (!p && (e = put_in_new(a, req, &p)) == 0)
        p->closed = true; /* its last piece has gone to the owner */
    if (e < 0)
        return e;
    p->state = PUT_PASSES;
    p->forward = f;
    p->got = from;
    p->rewind = rewind;
    p->dropped = false;
    return 0;
}

int put_in_return(struct requester *a, const struct msg *req, struct forward *f, uint32_t rewind,
                  bool closed) {
    struct put_in *p;
    int e = put_in_pass(a, req, f);
    if (e < 0)
        return e;
    p = put_in_find(a, req->id);
    p->rewind = rewind;
    p->closed = closed;
    return 0;
}

/* Its proxy does not ask for it any more. */
static void kept_end(struct put_in **at) {
    struct put_in *p = *at;
    *at = p->next;
    timer_clear(&p->m->timers, &p->timer);
    ledger_end(p->m->setup->ledger, p->entry); /* before its block: the ledger names no free one */
    store_abort(p->m->store, &p->ref);
    put_in_counts(p, -1);
    free(p);
}

static void kept_late(struct timer *t) {
    struct put_in *p = put_in_of(t), **at = &p->m->puts_kept;
    while (*at != p)
        at = &(*at)->next;
    kept_end(at);
}

static void kept_add(struct put_in *p) {
    struct manager *m = p->m;
    p->requester = NULL;
    p->timer.fire = kept_late;
    p->next = m->puts_kept;
    m->puts_kept = p;
    if (timer_after(&m->timers, &p->timer, DD_STREAM_MS * 1000000ull) < 0)
        kept_end(&m->puts_kept);
}

/* What the connection that has ended left of this put, or NULL. */
static struct put_in **kept_find(const struct requester *a, const struct msg *m) {
    struct put_in **at = &a->m->puts_kept;
    if (a->kind != REQUESTER_PEER)
        return NULL;
    while (*at && ((*at)->entry->client != a->who || (*at)->req.id != m->id))
        at = &(*at)->next;
    return *at ? at : NULL;
}

bool put_in_is_kept(const struct requester *a, const struct msg *m) {
    return m->flags & MSGF_AGAIN && kept_find(a, m);
}

static bool kept_is(const struct put_in *p, const struct msg *m, const uint8_t *key) {
    return p->req.val_len == m->val_len && p->req.tag == m->tag && p->req.key_len == m->key_len &&
           memcmp(p->ref.item->key, key, m->key_len) == 0;
}

/* Go on with what is kept of this put. 0: there is nothing; 1; or negative. */
static int kept_take(struct requester *a, const struct msg *m, const uint8_t *key) {
    struct put_in **at = kept_find(a, m), *p;
    int e = puts_look_up(a, m->id);
    if (!at || e < 0)
        return e;
    if (!kept_is(*at, m, key)) {
        kept_end(at);
        return 0;
    }
    p = *at;
    *at = p->next;
    p->req = *m; /* it may have less time */
    p->rewind = 0;
    put_in_add(a, p);
    return 1;
}

int put_in_again(struct requester *a, const struct msg *m, const uint8_t *key) {
    int kept = kept_take(a, m, key), e = kept == 0 ? put_in_begin(a, m, key) : 0;
    if (kept < 0 || e != 0)
        return kept < 0 ? kept : e;
    struct put_in *p = put_in_find(a, m->id);
    if (p->state != PUT_FILLS)
        return 0; /* it was refused */
    bool whole = kept && p->got == p->req.val_len;
    if (whole) {
        put_in_end(p);
        return 0;
    }
    if (timer_after(&a->m->timers, &p->timer, DD_STREAM_MS * 1000000ull) < 0) {
        put_in_refuse(p, -ENOMEM, "manager has no memory");
        return 0;
    }
    struct msg r = {.type = MSG_REWIND, .id = m->id, .aux = p->got, .manager = a->m->setup->id};
    r.rewind = ++p->rewind;
    requester_send(a, &r, NULL, 0);
    return 0;
}

int put_in_revive(struct manager *m, struct ledger_entry *e, const struct store_ref *ref) {
    struct put_in *p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    *p = (struct put_in){.m = m,
                         .req = e->req,
                         .state = PUT_FILLS,
                         .ref = *ref,
                         .entry = e,
                         .got = e->got,
                         .began = clock_ns()};
    put_in_counts(p, 1);
    kept_add(p);
    return 0;
}

void puts_settle(struct manager *m, uint64_t who, uint64_t id) {
    for (struct put_in **at = &m->puts_kept; *at;) {
        const struct put_in *p = *at;
        if (p->entry->client == who && id_is_before(p->req.id, id))
            kept_end(at);
        else
            at = &(*at)->next;
    }
}

void puts_free(struct manager *m) {
    while (m->puts_kept)
        kept_end(&m->puts_kept);
}

/* --- the end of a requester --- */
static bool put_in_stays(const struct put_in *p) {
    const struct requester *a = p->requester;
    return a->kind == REQUESTER_PEER && p->entry && p->state == PUT_FILLS;
}

void puts_end(struct requester *a) {
    while (a->puts) {
        struct put_in *p = a->puts;
        if (put_in_stays(p)) {
            a->puts = p->next;
            p->landing = false;
            kept_add(p);
            continue;
        }
        put_in_leave(p);
        if (p->state == PUT_FILLS)
            store_abort(a->m->store, &p->ref);
        put_in_free(p);
    }
}
