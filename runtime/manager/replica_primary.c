/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replica_primary.c - a primary and its backup. What is sent by one connection is counted, and so is
 * what its backup acknowledges. When it breaks, all that was sent and not acknowledged is in doubt: it is
 * sent again by the next one. What the backup would carry out twice (APPEND, POP) says how many values
 * the key has without it: of a key only one change is in the air. So the backup has at any time all
 * that was acknowledged, and results of what it has.
 */
#include "replica_primary.h"

#include "ledger.h"
#include "replica_flight.h"
#include "requester.h"
#include "supmsg.h"
#include <base/error.h>
#include <base/hash.h>
#include <base/log.h>
#include <base/shadow.h>
#include <wire/conn.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS \
    500u /* between looks whether a backup that is connected has acknowledged something */

struct note { /* of the life before: a key that is to be made the same on both */
    struct note *next;
    struct ledger_entry *entry;
    uint64_t number; /* of the last REPL of it on this connection; 0: not all was sent */
    bool sent;
};
/* All values of a key are being sent, as they are here. */
struct copy {
    enum { COPY_NONE, COPY_DEL, COPY_LIMIT, COPY_FIRST, COPY_MORE } step;
    const uint8_t *key;
    uint32_t key_len;
    uint64_t hash, n; /* of the next value behind the first */
    enum repl_op op;  /* what is undone, if it was carried out */
    bool stays;       /* no value that is here has left the backup: it is not removed first */
    uint64_t id;      /* the request whose change that was, of this proxy; 0: none */
    uint32_t proxy;
};
/* A value that goes in pieces. */
struct value {
    bool on;
    uint64_t id, off, len, sent;
    const uint8_t *bytes;
    struct store_reading *reading; /* it is in the spill */
};
struct pin {
    struct manager *m;
    uint64_t off;
};
struct replica_primary {
    struct manager *m;
    uint32_t backup;
    uint64_t epoch;
    struct conn *conn;
    bool up;
    bool lost;            /* ddictd was told that this backup cannot go on, in this epoch */
    uint64_t sent, acked; /* REPL of this connection */
    uint64_t opened;      /* connections of this life */
    struct copy copy;
    struct value value;
    struct note *notes;
    uint8_t *note_key; /* of the note that is copied */
    struct timer tick;
    uint64_t
        heard_ns; /* by the clock of timers: when it acknowledged something, or nothing waited */
};

static void primary_lost(struct replica_primary *p, const char *why) {
    static struct sup_msg s;
    struct manager *m = p->m;
    if (p->lost)
        return;
    p->lost = true;
    memset(&s, 0, sizeof s);
    s.type = SUP_BACKUP_LOST;
    s.id = m->setup->id;
    s.count = p->epoch;
    snprintf(s.text, sizeof s.text, "the backup of manager %u on %s %s", m->setup->id,
             m->setup->peers[p->backup].node, why);
    log_warn("%s", s.text);
    manager_tell(m, &s);
}

/* --- values --- */
static void pin_done(void *arg) {
    struct pin *pin = arg;
    store_unpin(pin->m->store, pin->off);
    free(pin);
}

static void value_end(struct replica_primary *p) {
    struct value *v = &p->value;
    if (v->reading)
        store_read_end(v->reading);
    *v = (struct value){0};
}

static void primary_end(struct replica_primary *p, int code) {
    if (p->conn)
        conn_end(p->conn, code);
}

/* The block stays until done(), or until the change behind it is acknowledged. */
static bool repl_send(struct replica_primary *p, struct msg *r, const void *key, const void *bytes,
                      uint64_t len, void (*done)(void *), void *arg) {
    int e = conn_send(p->conn, r, key, r->key_len, len ? bytes : NULL, len, done, arg);
    if (e == 0)
        return true;
    primary_end(p, e);
    return false;
}

static struct msg repl_of(struct replica_primary *p, enum repl_op op, uint32_t key_len) {
    p->sent++;
    return (struct msg){.type = MSG_REPL,
                        .status = op,
                        .key_len = key_len,
                        .manager = p->m->setup->id,
                        .version = p->m->header->version};
}

/* Keep the block of ref until its bytes have left; NULL: no memory. */
static struct pin *pin_new(struct manager *m, uint64_t off) {
    struct pin *pin = malloc(sizeof *pin);
    if (!pin)
        return NULL;
    *pin = (struct pin){.m = m, .off = off};
    if (store_pin(m->store, off) == 0)
        return pin;
    free(pin);
    return NULL;
}

/* Send r with the value of ref, or its first message; the pieces follow by value_go_on(). */
static bool value_send(struct replica_primary *p, struct msg *r, const void *key,
                       const struct store_ref *ref) {
    struct manager *m = p->m;
    struct value *v = &p->value;
    const struct item *it = ref->item;
    r->val_len = item_len(it);
    r->tag = it->tag;
    if (r->val_len == 0)
        return repl_send(p, r, key, NULL, 0, NULL, NULL);
    if (!item_away(it) && r->key_len + r->val_len <= DD_MSG_INLINE) {
        struct pin *pin = pin_new(m, ref->off);
        if (!pin) {
            primary_end(p, -ENOMEM);
            return false;
        }
        if (repl_send(p, r, key, ref->value, r->val_len, pin_done, pin))
            return true;
        pin_done(pin);
        return false;
    }
    *v = (struct value){.on = true, .id = r->id, .off = ref->off, .len = r->val_len};
    v->bytes = ref->value;
    if (item_away(it) && store_read_begin(m->store, ref, &v->reading, &v->bytes) < 0) {
        *v = (struct value){0};
        primary_end(p, -ENOMEM);
        return false;
    }
    r->flags = MSGF_STREAM;
    return repl_send(p, r, key, NULL, 0, NULL, NULL);
}

/* The next piece. False: not now. */
static bool value_go_on(struct replica_primary *p) {
    struct manager *m = p->m;
    struct value *v = &p->value;
    uint64_t n = v->len - v->sent < DD_MSG_PIECE ? v->len - v->sent : DD_MSG_PIECE;
    struct msg r = {.type = MSG_DATA, .id = v->id, .aux = v->sent, .manager = m->setup->id};
    int64_t ready = v->reading ? store_read_ready(v->reading, v->sent + n) : (int64_t)v->len;
    if (ready < 0) {
        primary_lost(p, "can not be sent a value: it can not be read from the spill");
        return false;
    }
    if ((uint64_t)ready < v->sent + n)
        return false;
    struct pin *pin = v->reading ? NULL : pin_new(m, v->off);
    if (!v->reading && !pin) {
        primary_end(p, -ENOMEM);
        return false;
    }
    bool last = v->sent + n == v->len;
    r.flags = last ? MSGF_LAST : 0;
    int e = v->reading ? conn_send(p->conn, &r, v->bytes + v->sent, n, NULL, 0, NULL, NULL)
                       : conn_send(p->conn, &r, NULL, 0, v->bytes + v->sent, n, pin_done, pin);
    if (e < 0) {
        if (pin)
            pin_done(pin);
        primary_end(p, e);
        return false;
    }
    v->sent += n;
    if (v->reading)
        store_read_sent(v->reading, v->sent);
    if (last)
        value_end(p);
    return true;
}

/* --- all values of a key, as they are here --- */
/* Its result goes, too: the one before in that place was received. */
static void copy_undo(const struct copy *c, struct msg *r) {
    if (!c->id)
        return;
    r->id = c->id - (1ull << 32);
    r->manager = c->proxy;
}

static bool copy_value(struct replica_primary *p, enum repl_op op, const struct store_ref *ref) {
    const struct copy *c = &p->copy;
    struct msg r = repl_of(p, op, c->key_len);
    if (c->stays && op == REPL_PUT)
        copy_undo(c, &r);
    else if (c->stays) /* with those before it; the first has no number */
        r.aux = c->n + 2;
    return value_send(p, &r, c->key, ref);
}

/* Of a PUT the backup has another first value, of a DEL all values or none. */
static bool copy_stays(struct replica_primary *p) {
    struct copy *c = &p->copy;
    struct store_ref ref;
    c->stays = (c->op == REPL_PUT || c->op == REPL_DEL) &&
               store_find(p->m->store, c->key, c->key_len, &ref) == 0;
    return c->stays;
}

/* The next step. False: the connection is broken. */
static bool copy_go_on(struct replica_primary *p) {
    struct copy *c = &p->copy;
    struct store *s = p->m->store;
    struct store_queue q;
    struct store_ref ref;
    struct msg r;
    store_queue_look(s, c->key, c->key_len, c->hash, &q);
    switch (c->step) {
    case COPY_DEL:
        c->step = COPY_LIMIT;
        if (copy_stays(p))
            return true;
        r = repl_of(p, REPL_DEL, c->key_len);
        copy_undo(c, &r);
        return repl_send(p, &r, c->key, NULL, 0, NULL, NULL);
    case COPY_LIMIT:
        c->step = COPY_FIRST;
        if (!q.most)
            return true;
        r = repl_of(p, REPL_LIMIT, c->key_len);
        r.aux = q.most;
        return repl_send(p, &r, c->key, NULL, 0, NULL, NULL);
    case COPY_FIRST:
        c->step = COPY_MORE;
        if (store_find(s, c->key, c->key_len, &ref) == 0)
            return copy_value(p, REPL_PUT, &ref);
        return true;
    default:
        if (store_queue_value(s, c->key, c->key_len, c->hash, c->n, &ref) == 0) {
            bool ok = copy_value(p, REPL_APPEND, &ref);
            c->n++;
            return ok;
        }
        c->step = COPY_NONE;
        return true;
    }
}

/* --- what the life before had sent --- */
static void note_free(struct replica_primary *p, struct note **at) {
    struct note *n = *at;
    *at = n->next;
    ledger_end(p->m->setup->ledger, n->entry);
    free(n);
}

static void notes_end(struct replica_primary *p) {
    while (p->notes)
        note_free(p, &p->notes);
}

void replica_primary_note(struct manager *m, struct ledger_entry *e) {
    struct replica_primary *p = m->primary;
    struct note *n = p ? malloc(sizeof *n) : NULL;
    if (n) {
        *n = (struct note){.next = p->notes, .entry = e};
        p->notes = n;
        return;
    }
    ledger_end(m->setup->ledger, e);
    if (p) /* nobody knows what it has */
        primary_lost(p, "is in doubt: there is no memory to bring it up to date");
}

void replica_primary_go_on(struct manager *m) {
    struct replica_primary *p = m->primary;
    for (struct note **at = p ? &p->notes : NULL; at && *at;) {
        const struct msg *r = &(*at)->entry->req;
        if (r->status != REPL_CLEAR) {
            at = &(*at)->next;
            continue;
        }
        if (flight_clear_again(m, r->manager, r->id) < 0)
            primary_lost(p, "is in doubt: there is no memory to clear it again");
        note_free(p, at);
    }
}

/* Copy the key of a note. False: there is none, or no memory. */
static bool note_go_on(struct replica_primary *p) {
    struct note *n = p->notes;
    while (n && n->sent)
        n = n->next;
    if (!n)
        return false;
    uint8_t *key = realloc(p->note_key, n->entry->bytes + 1);
    if (!key) {
        primary_end(p, -ENOMEM);
        return false;
    }
    p->note_key = key;
    ledger_payload(p->m->setup->ledger, n->entry, key);
    p->copy = (struct copy){.step = COPY_DEL,
                            .key = key,
                            .key_len = n->entry->bytes,
                            .hash = key_hash(key, n->entry->bytes),
                            .op = (enum repl_op)n->entry->req.status,
                            .id = n->entry->req.id,
                            .proxy = n->entry->req.manager};
    n->sent = true;
    return true;
}

/* The copy that has just ended was of the note that was sent last. */
static void notes_number(struct replica_primary *p) {
    for (struct note *n = p->notes; n; n = n->next)
        if (n->sent && !n->number)
            n->number = p->sent;
}

static void notes_acked(struct replica_primary *p) {
    for (struct note **at = &p->notes; *at;)
        if ((*at)->number && (*at)->number <= p->acked)
            note_free(p, at);
        else
            at = &(*at)->next;
}

/* --- changes in flight --- */
static uint64_t values_of(struct store *s, const void *key, uint32_t key_len, uint64_t hash) {
    struct store_queue q;
    struct store_ref first;
    store_queue_look(s, key, key_len, hash, &q);
    return q.more + (store_find(s, key, key_len, &first) == 0);
}

static bool flight_repl(struct replica_primary *p, struct flight *f) {
    struct msg r = repl_of(p, f->op, f->key_len);
    r.id = flight_result_id(f);
    if (r.id)
        r.manager = (uint32_t)f->who;
    if (f->op == REPL_LIMIT)
        r.aux = f->most;
    else if (f->asked && (f->op == REPL_APPEND || f->op == REPL_POP))
        r.aux = values_of(p->m->store, f->key, f->key_len, f->hash) + 1;
    f->number = p->sent;
    f->asked = true;
    p->m->flights->unsent = f->next;
    bool ok = f->op == REPL_PUT || f->op == REPL_APPEND
                  ? value_send(p, &r, f->key, &f->ref)
                  : repl_send(p, &r, f->key, NULL, 0, NULL, NULL);
    if (ok && faults.on)
        faults_step(STEP_SENT);
    return ok;
}

static bool took_go_on(struct replica_primary *p) {
    struct flight_took *t = p->m->flights->took_unsent;
    if (!t)
        return false;
    p->m->flights->took_unsent = t->next;
    struct msg r = repl_of(p, REPL_TOOK, 0);
    r.id = t->id;
    r.manager = t->proxy;
    t->number = p->sent;
    return repl_send(p, &r, NULL, NULL, 0, NULL, NULL);
}

static void tooks_acked(struct replica_primary *p) {
    struct flights *fl = p->m->flights;
    while (fl->took && fl->took->number && fl->took->number <= p->acked) {
        struct flight_took *t = fl->took;
        fl->took = t->next;
        if (!fl->took)
            fl->took_end = &fl->took;
        free(t);
    }
}

/* Send what is next. False: nothing, or not now. */
static bool primary_go_on(struct replica_primary *p) {
    if (p->value.on)
        return value_go_on(p);
    if (p->copy.step) {
        bool ok = copy_go_on(p);
        if (ok && !p->copy.step && !p->value.on)
            notes_number(p);
        return ok;
    }
    if (note_go_on(p))
        return true;
    struct flight *f = p->m->flights->unsent;
    return f ? flight_repl(p, f) : took_go_on(p);
}

static void primary_pump(struct replica_primary *p) {
    while (p->conn && p->up && !conn_full(p->conn) && primary_go_on(p)) {
    }
}

/* --- the connection --- */
static void primary_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    struct replica_primary *p = arg;
    struct msg r = {.type = MSG_SYNC, .manager = p->m->setup->id, .aux = p->epoch};
    p->up = true;
    if (conn_send(c, &r, NULL, 0, NULL, 0, NULL, NULL) < 0)
        primary_end(p, -ENOMEM);
}

static int primary_message(struct conn *c, void *arg, const struct msg *m, void *payload) {
    struct replica_primary *p = arg;
    if (m->type != MSG_ACK || m->aux > p->sent || m->aux < p->acked)
        return DDICT_EPROTO;
    p->acked = m->aux;
    p->heard_ns = timers_now(&p->m->timers);
    for (struct flight *f = p->m->flights->air; f && f->number && f->number <= p->acked;
         f = f->next)
        f->acked = true;
    notes_acked(p);
    tooks_acked(p);
    if (m->status < 0)
        primary_lost(p, dd_strerror(m->status));
    return 0;
}

/* What it has not acknowledged is in doubt. */
static void primary_forget(struct replica_primary *p) {
    value_end(p);
    p->copy.step = COPY_NONE;
    p->sent = p->acked = 0;
    p->up = false;
    flights_doubt(p->m);
    for (struct note *n = p->notes; n; n = n->next) {
        n->sent = false;
        n->number = 0;
    }
}

static void primary_down(struct conn *c, void *arg, int code) {
    struct replica_primary *p = arg;
    if (p->up)
        log_line(p->m->ending ? LOG_LVL_DEBUG : LOG_LVL_WARN,
                 "the connection to the backup of manager %u on %s has ended: %s", p->m->setup->id,
                 p->m->setup->peers[p->backup].node, dd_strerror(code));
    conn_free(c);
    p->conn = NULL;
    primary_forget(p);
}

static const struct conn_ops primary_ops = {
    .up = primary_up, .message = primary_message, .down = primary_down};

static void primary_open(struct replica_primary *p) {
    struct manager *m = p->m;
    const struct peer_address *at = &m->setup->peers[p->backup];
    struct conn_identity me = m->setup->identity;
    me.group = ++p->opened; /* the backup refuses one that comes up behind a later one */
    /* negative: again with the next tick */
    conn_open(&p->conn, m->epoll_fd, &me, ROLE_REPLICA, p->backup, at->addr, at->naddr,
              &primary_ops, p);
}

/* --- time --- */
static bool primary_waits(const struct replica_primary *p) {
    return p->notes || (p->m->flights && p->m->flights->air);
}

static void tick_fire(struct timer *t) {
    struct replica_primary *p =
        (struct replica_primary *)(void *)((char *)t - offsetof(struct replica_primary, tick));
    struct manager *m = p->m;
    uint64_t now = timers_now(&m->timers);
    if (p->conn)
        conn_tick(p->conn, m->now);
    if (!p->conn && p->backup != SHADOW_NONE)
        primary_open(p);
    if (!primary_waits(p))
        p->heard_ns = now;
    else if (now - p->heard_ns > DD_BACKUP_LOST_MS * 1000000ull)
        primary_lost(p, p->up ? "does not answer" : "can not be reached");
    timer_after(&m->timers, t, (p->up ? LOOK_MS : DD_PEER_TRY_MS) * 1000000ull);
}

bool replica_primary_turn(struct manager *m) {
    struct replica_primary *p = m->primary;
    if (m->flights && m->flights->alone) {
        flights_alone(m); /* there was no lease before */
        if (m->flights)
            return false;
        replica_primary_free(m);
        return true;
    }
    if (!p->tick.pos)
        timer_after(&m->timers, &p->tick, 0);
    bool some = flights_commit(m);
    if (m->flights->failed)
        primary_lost(p, "has a change that could not be made here");
    primary_pump(p);
    return some;
}

/* --- the map --- */
int replica_primary_init(struct manager *m) {
    const struct manager_setup *s = m->setup;
    if (!s->replicas || s->shadow || !deal_owns(&s->deal, s->id))
        return 0;
    m->primary = calloc(1, sizeof *m->primary);
    if (!m->primary)
        return -ENOMEM;
    *m->primary =
        (struct replica_primary){.m = m, .backup = shadow_of(&s->deal, s->id), .epoch = 1};
    m->primary->tick.fire = tick_fire;
    m->primary->heard_ns = timers_now(&m->timers);
    return flights_init(m);
}

void replica_primary_map(struct manager *m, const struct sup_msg *s) {
    struct replica_primary *p = m->primary;
    if (s->count <= p->epoch)
        return;
    bool serves = s->pid == m->setup->identity.self;
    p->epoch = s->count;
    p->backup = serves ? s->room : SHADOW_NONE;
    p->lost = p->backup == SHADOW_NONE;
    if (p->conn)
        conn_free(p->conn);
    p->conn = NULL;
    primary_forget(p);
    m->flights->over = !serves;
    if (!serves || !p->lost)
        return;
    log_warn("manager %u on %s goes on without a backup", m->setup->id, m->setup->node);
    notes_end(p);
    flights_alone(m);
    if (!m->flights)
        replica_primary_free(m);
}

void replica_primary_free(struct manager *m) {
    struct replica_primary *p = m->primary;
    if (!p)
        return;
    if (p->conn)
        conn_free(p->conn);
    value_end(p);
    while (p->notes) { /* their entries are the next life's */
        struct note *n = p->notes;
        p->notes = n->next;
        free(n);
    }
    timer_clear(&m->timers, &p->tick);
    free(p->note_key);
    free(p);
    m->primary = NULL;
    flights_free(m);
}
