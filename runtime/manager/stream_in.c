/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_in.c - values that come in pieces, received straight from the lane or the socket into
 * their block. The block is reserved at the header and published with the last piece. A put_in
 * lives until a piece with LAST or an ABORT has come, even if the put was refused: its pieces are
 * known until its sender has stopped.
 */
#include "stream_in.h"

#include "answers.h"
#include "forward_put.h"
#include "ledger.h"
#include "manager.h"
#include "record_rate.h"
#include "requester.h"
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
    struct requester *requester;
    struct msg req;
    enum { PUT_FILLS, PUT_PASSES, PUT_PARKED, PUT_REFUSED } state;
    uint32_t to;          /* PUT_PARKED */
    struct store_ref ref; /* PUT_FILLS, and while `doomed` */
    /* PUT_FILLS: the value is complete, but not yet on disk */
    bool complete;
    bool landing; /* a connection is receiving a piece into the block */
    /* refused while landing: the block is given up when the piece is in */
    bool doomed;
    struct forward *forward; /* PUT_PASSES: sends the pieces on */
    /* PUT_FILLS of a lane: in the ledger, a later life goes on with it; NULL: none can, it is held */
    struct ledger_entry *entry;
    bool again;          /* the piece that comes next may be in the block already */
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
    manager_holds(p->requester->m, -1);
}

static void put_in_enter(struct put_in *p, const uint8_t *key) {
    /* a value in the spill is held: what else is known of it dies with the manager */
    struct ledger_entry *e =
        p->ref.fill ? NULL : requester_enter(p->requester, &p->req, key, NULL, p->began);
    if (e)
        put_in_entered(p, e);
}

/* No later life can go on with it from now on. */
static void put_in_leave(struct put_in *p) {
    if (!p->entry)
        return;
    manager_holds(p->requester->m, 1);
    ledger_end(p->requester->m->setup->ledger, p->entry);
    p->entry = NULL;
}

/* Its bytes are in the block, before their record leaves SQ. */
static void put_in_note(struct put_in *p, bool last) {
    if (!p->entry)
        return;
    if (last)
        p->entry->end = p->requester->ops->position(p->requester);
    __atomic_store_n(&p->entry->got, p->got, __ATOMIC_RELEASE);
}

static void put_in_refuse(struct put_in *p, int status, const char *text) {
    put_in_leave(p); /* before its block: the ledger names no free one */
    if (p->state == PUT_FILLS)
        p->requester->m->puts_open--;
    if (p->state == PUT_FILLS && !p->landing)
        store_abort(p->requester->m->store, &p->ref);
    p->doomed = p->state == PUT_FILLS && p->landing;
    p->state = PUT_REFUSED;
    timer_clear(&p->requester->m->timers, &p->timer);
    requester_reply(p->requester, &p->req, status, text);
}

static void put_in_late(struct timer *t) {
    struct put_in *p = (struct put_in *)(void *)((char *)t - offsetof(struct put_in, timer));
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
        p->requester->m->puts_open--;
    timer_clear(&p->requester->m->timers, &p->timer);
    if (p->doomed)
        store_abort(p->requester->m->store, &p->ref);
    if (!p->entry)
        manager_holds(p->requester->m, -1);
    free(p);
}

static int put_in_new(struct requester *a, const struct msg *m, struct put_in **out) {
    unsigned n = 0;
    for (struct put_in *p = a->puts; p; p = p->next, n++)
        if (p->req.id == m->id)
            return DDICT_EPROTO;
    if (n >= PUTS_MAX)
        return DDICT_EPROTO;
    struct put_in *p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->requester = a;
    p->req = *m;
    p->began = clock_ns();
    p->timer.fire = put_in_late;
    p->next = a->puts;
    a->puts = p;
    manager_holds(a->m, 1);
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
        a->m->puts_open++;
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

void put_in_forget(struct requester *a, const struct forward *f) {
    for (struct put_in *p = a->puts; p; p = p->next) {
        if (p->state == PUT_PASSES && p->forward == f) {
            p->state = PUT_REFUSED;
            p->forward = NULL;
        }
    }
}

void *put_in_place(struct requester *a, const struct msg *m) {
    struct put_in *p = put_in_find(a, m->id);
    if (!p || p->state != PUT_FILLS || m->aux != p->got ||
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

/* The last piece is in; p is the first in the list. Its entry ends with the record of that piece,
 * unless the value waits for room: then it is the entry of that. */
static void put_in_end(struct put_in *p) {
    struct requester *a = p->requester;
    struct msg req = p->req;
    struct store_ref ref = p->ref;
    uint64_t began = p->began;
    bool fills = p->state == PUT_FILLS, held = !p->entry;
    if (held)
        manager_holds(a->m, 1); /* until its last piece leaves the ring */
    a->m->resumed = p->entry;
    put_in_free(p);
    if (fills)
        a->m->up->commit(a, &req, &ref, began);
    requester_taken(a, req.id);
    if (a->m->resumed) /* its lane is gone */
        requester_entry_end(a->m, &a->m->resumed);
    if (held)
        manager_holds(a->m, -1);
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
    a->m->puts_open++;
    put_in_entered(p, e);
    if (timer_after(&a->m->timers, &p->timer, DD_STREAM_MS * 1000000ull) < 0)
        put_in_refuse(p, -ENOMEM, "manager has no memory");
    return 0;
}

int put_in_rest(struct requester *a, const struct msg *m, uint64_t got) {
    struct put_in *p;
    int rc = put_in_new(a, m, &p);
    if (rc < 0)
        return rc;
    p->state = PUT_REFUSED;
    p->got = got;
    return 0;
}

int put_in_data(struct requester *a, const struct msg *m, const uint8_t *payload) {
    struct put_in *p = put_in_find(a, m->id);
    uint32_t len = m->len - MSG_HEADER;
    bool last = m->flags & MSGF_LAST;
    if (!p)
        return DDICT_EPROTO;
    p->landing = false;
    if (p->doomed) {
        store_abort(a->m->store, &p->ref);
        p->doomed = false;
    }
    if (faults.on)
        faults_sleep(faults.piece_ms);
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
        int e = forward_put_data(p->forward, m, payload);
        if (e != 0)
            return e;
    }
    if (p->state == PUT_FILLS && payload != p->ref.value + p->got)
        copy_value(p->ref.value + p->got, payload, len, p->req.val_len);
    p->got += len;
    put_in_note(p, last);
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

int put_in_hold(struct requester *a, const struct msg *m, struct store_ref *ref, uint64_t began) {
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
    a->m->puts_open++;
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
    if (p->state == PUT_PARKED)
        requester_reply(a, &p->req, -ECANCELED, "put was given up by its sender");
    else if (p->state == PUT_PASSES)
        forward_put_abort(p->forward);
    else if (p->state == PUT_FILLS)
        put_in_refuse(p, -ECANCELED, "put was given up by its sender");
    put_in_free(p);
    return true;
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

void puts_end(struct requester *a) {
    while (a->puts) {
        struct put_in *p = a->puts;
        put_in_leave(p);
        if (p->state == PUT_FILLS)
            store_abort(a->m->store, &p->ref);
        put_in_free(p);
    }
}
