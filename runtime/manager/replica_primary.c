/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replica_primary.c - a primary and its backup. What is sent by one connection is counted, and so is
 * what its backup acknowledges. When it breaks, all that was sent and not acknowledged is in doubt: it is
 * sent again by the next one. What the backup would carry out twice (APPEND, POP) says how many values
 * the key has without it: of a key only one change is in the air. So the backup has at any time all
 * that was acknowledged, and results of what it has. One that is not whole is filled between changes;
 * what is in doubt of it needs no more, as it is emptied when its connection breaks.
 */
#include "replica_primary.h"

#include "ledger.h"
#include "peer_address.h"
#include "replica_copy.h"
#include "replica_flight.h"
#include "requester.h"
#include "results.h"
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

#define NO_FLIGHTS "can not be filled: there is no memory for changes in flight"

/* A key with a value that are sent as a copy: it costs less than to keep the block */
#define COPIED_MOST 4096u

struct note { /* of the life before: a key that is to be made the same on both */
    struct note *next;
    struct ledger_entry *entry;
    uint64_t number; /* of the last REPL of it on this connection; 0: not all was sent */
    bool sent;
};
/* All values of a key are being sent, as they are here: to bring it up to date, or to a new backup. */
struct copy {
    enum { SEND_NONE, SEND_DEL, SEND_ITEM, SEND_LIMIT, SEND_FIRST, SEND_MORE } step;
    const uint8_t *key;
    uint32_t key_len;
    uint64_t hash, n; /* of the next value behind the first */
    enum repl_op op;  /* what is undone, if it was carried out */
    bool stays;       /* no value that is here has left the backup: it is not removed first */
    bool anew;        /* to a new backup */
    uint64_t id;      /* the request whose change that was, of this proxy; 0: none */
    uint32_t proxy;
};
/* A value that goes in pieces. */
struct value {
    bool on;
    uint64_t id, off, len, sent;
    const uint8_t *bytes;
    struct store_reading *reading; /* it is in the spill */
    struct pin *pin;               /* until all is sent */
};
struct pin {
    struct manager *m;
    uint64_t off;
};
struct replica_primary {
    struct manager *m;
    uint32_t backup;
    uint16_t port; /* of the backup in the map, or 0 */
    bool whole;    /* as the map says */
    uint64_t epoch;
    struct conn *conn;
    bool up;
    bool lost;            /* ddictd was told that this backup cannot go on, in this epoch */
    uint64_t sent, acked; /* REPL of this connection */
    uint64_t opened;      /* connections of this life */
    struct copy copy;
    struct replica_copy filling; /* of a backup that is not whole */
    uint64_t last;               /* number of its WHOLE; 0: not sent */
    uint64_t copied;             /* bytes of it in this turn */
    struct value value;
    struct note *notes;
    uint8_t *note_key; /* of the note that is copied */
    struct timer tick;
    uint64_t
        heard_ns; /* by the clock of timers: when it acknowledged something, or nothing waited */
    uint8_t small[COPIED_MOST];
};

/* ddictd is told that this backup can not go on, in this epoch. */
static void lost_tell(struct manager *m, uint32_t backup, uint64_t epoch, const char *why) {
    static struct sup_msg s;
    memset(&s, 0, sizeof s);
    s.type = SUP_BACKUP_LOST;
    s.id = m->setup->id;
    s.count = epoch;
    snprintf(s.text, sizeof s.text, "the backup of manager %u on %s %s", m->setup->id,
             peer_node(m->setup, backup), why);
    log_warn("%s", s.text);
    manager_tell(m, &s);
}

static void primary_lost(struct replica_primary *p, const char *why) {
    if (!p->lost)
        lost_tell(p->m, p->backup, p->epoch, why);
    p->lost = true;
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
    if (v->pin)
        pin_done(v->pin);
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

static bool small_send(struct replica_primary *p, struct msg *r, const void *key,
                       const void *value) {
    memcpy(p->small, key, r->key_len);
    memcpy(p->small + r->key_len, value, r->val_len);
    int e = conn_send(p->conn, r, p->small, r->key_len + r->val_len, NULL, 0, NULL, NULL);
    if (e < 0)
        primary_end(p, e);
    return e == 0;
}

/* Send r with the value of ref, or its first message; the pieces follow by value_go_on(). */
static bool value_send(struct replica_primary *p, struct msg *r, const void *key,
                       const struct store_ref *ref) {
    struct manager *m = p->m;
    struct value *v = &p->value;
    const struct item *it = ref->item;
    r->val_len = item_len(it);
    r->tag = it->tag;
    if (item_is_loaded(it))
        r->flags |= MSGF_LOADED;
    if (item_is_link(it))
        r->flags |= MSGF_LINK;
    if (r->val_len == 0)
        return repl_send(p, r, key, NULL, 0, NULL, NULL);
    if (!item_away(it) && r->key_len + r->val_len <= COPIED_MOST)
        return small_send(p, r, key, ref->value);
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
    v->pin = pin_new(m, ref->off);
    if (!v->pin ||
        (item_away(it) && store_read_begin(m->store, ref, 0, &v->reading, &v->bytes) < 0)) {
        value_end(p);
        primary_end(p, -ENOMEM);
        return false;
    }
    r->flags |= MSGF_STREAM;
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

/* To a new backup: the first value takes the place of all that it has of this key. */
static bool copy_item(struct replica_primary *p, uint64_t n, const struct store_ref *ref) {
    const struct copy *c = &p->copy;
    struct msg r = repl_of(p, REPL_ITEM, c->key_len);
    r.aux = n;
    if (n == 0) /* those behind it have none yet */
        r.version = ref->item->version;
    p->copied += MSG_HEADER + c->key_len + item_len(ref->item);
    return value_send(p, &r, c->key, ref);
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
    case SEND_DEL:
        c->step = SEND_LIMIT;
        if (copy_stays(p))
            return true;
        r = repl_of(p, REPL_DEL, c->key_len);
        copy_undo(c, &r);
        return repl_send(p, &r, c->key, NULL, 0, NULL, NULL);
    case SEND_ITEM:
        c->step = q.most || q.more ? SEND_LIMIT : SEND_NONE;
        return store_find(s, c->key, c->key_len, &ref) < 0 || copy_item(p, 0, &ref);
    case SEND_LIMIT:
        c->step = c->anew ? SEND_MORE : SEND_FIRST;
        if (!q.most && c->op != REPL_LIMIT) /* which a key without values keeps */
            return true;
        r = repl_of(p, REPL_LIMIT, c->key_len);
        r.aux = q.most;
        return repl_send(p, &r, c->key, NULL, 0, NULL, NULL);
    case SEND_FIRST:
        c->step = SEND_MORE;
        if (store_find(s, c->key, c->key_len, &ref) == 0)
            return copy_value(p, REPL_PUT, &ref);
        return true;
    default:
        if (store_queue_value(s, c->key, c->key_len, c->hash, c->n, &ref) == 0) {
            bool ok = c->anew ? copy_item(p, c->n + 1, &ref) : copy_value(p, REPL_APPEND, &ref);
            c->n++;
            return ok;
        }
        c->step = SEND_NONE;
        return true;
    }
}

/* --- what the life before had sent --- */
static struct replica_primary *primary_new(struct manager *m);

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
    struct note *n;
    if (!p && m->setup->copies) /* it is a shadow that was promoted: the map is still to come */
        p = primary_new(m);
    n = p ? malloc(sizeof *n) : NULL;
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
    if (p && !m->flights) { /* and says that there is no backup */
        notes_end(p);
        replica_primary_free(m);
        return;
    }
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

bool replica_primary_doubts(const struct manager *m) {
    return m->primary && m->primary->notes;
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
    p->copy = (struct copy){.step = SEND_DEL,
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
    if (f->op == REPL_PUT && f->pending.req.rule == RULE_ADD)
        r.rule = RULE_ADD; /* its result is the sum */
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
    if (p->copy.step && !p->copy.anew) {
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

static bool primary_can(const struct replica_primary *p) {
    return p->conn && p->up && !conn_full(p->conn);
}

static void primary_pump(struct replica_primary *p) {
    while (primary_can(p) && primary_go_on(p)) {
    }
}

void replica_primary_send(struct manager *m) {
    if (m->flights && m->flights->unsent)
        primary_pump(m->primary);
}

/* --- a new backup --- */
static bool fill_key(struct replica_primary *p) {
    bool ok = copy_go_on(p);
    if (ok && p->copy.step == SEND_NONE)
        flight_copied(p->m);
    return ok;
}

static bool fill_result(struct replica_primary *p, const struct copy_next *n) {
    struct store_ref item;
    int popped = result_popped(p->m, n->result, &item);
    const struct item *it = popped > 0 ? item.item : NULL;
    struct msg r = repl_of(p, REPL_RESULT, it ? it->key_len : 0);
    r.id = n->result->id;
    r.manager = n->proxy;
    r.version = n->result->version;
    r.aux = popped != 0;
    p->copied += MSG_HEADER + (it ? r.key_len + item_len(it) : 0);
    return it ? value_send(p, &r, it->key, &item) : repl_send(p, &r, NULL, NULL, 0, NULL, NULL);
}

/* What is next of it. False: nothing, or not now. */
static bool fill_go_on(struct replica_primary *p) {
    if (p->copy.step)
        return fill_key(p);
    struct copy_next n = replica_copy_next(&p->filling);
    struct msg r;
    switch (n.what) {
    case NEXT_KEY:
        p->copy = (struct copy){
            .step = SEND_ITEM, .anew = true, .key = n.key, .key_len = n.key_len, .hash = n.hash};
        return fill_key(p);
    case NEXT_RESULT:
        return fill_result(p, &n);
    case NEXT_WHOLE:
        r = repl_of(p, REPL_WHOLE, 0);
        p->last = p->sent;
        return repl_send(p, &r, NULL, NULL, 0, NULL, NULL);
    default:
        return n.what == NEXT_AGAIN;
    }
}

/* So much of it goes before the changes of this turn. True: there may be more to send. */
static bool fill_pump(struct replica_primary *p) {
    bool more = replica_copy_may(&p->filling);
    p->copied = 0;
    for (unsigned n = 0; more && n < DD_COPY_KEYS && p->copied < DD_COPY_TURN; n++) {
        more = primary_can(p) && !p->value.on && !p->notes && fill_go_on(p);
    }
    if (p->copied)
        replica_copy_sent(&p->filling, p->copied);
    return more;
}

static void fill_over(struct replica_primary *p) {
    static struct sup_msg s;
    memset(&s, 0, sizeof s);
    s.type = SUP_COPIED;
    s.id = p->m->setup->id;
    s.count = p->epoch;
    p->filling.at = COPY_OVER;
    log_line(LOG_LVL_WARN, "the new backup of manager %u on %s has all", p->m->setup->id,
             peer_node(p->m->setup, p->backup));
    manager_tell(p->m, &s);
}

/* It has answered: SYNC, or all up to a number. */
static void fill_heard(struct replica_primary *p, int status) {
    struct replica_copy *c = &p->filling;
    if (c->at == COPY_ASKED && status == 0)
        c->at = COPY_KEYS;
    else if (c->at == COPY_ASKED || (c->at == COPY_ENDS && p->last && p->acked >= p->last))
        fill_over(p);
}

/* --- the connection --- */
static void primary_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    struct replica_primary *p = arg;
    struct msg r = {.type = MSG_SYNC, .manager = p->m->setup->id, .aux = p->epoch};
    p->up = true;
    if (!p->whole) {
        r.flags = MSGF_NEW;
        replica_copy_begin(&p->filling);
    }
    if (conn_send(c, &r, NULL, 0, NULL, 0, NULL, NULL) < 0)
        primary_end(p, -ENOMEM);
}

static int primary_message(struct conn *c, void *arg, const struct msg *m, void *payload) {
    struct replica_primary *p = arg;
    if (m->type != MSG_ACK || m->aux > p->sent || m->aux < p->acked || m->status > 1)
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
    else
        fill_heard(p, m->status);
    return 0;
}

/* What it has not acknowledged is in doubt. */
static void primary_forget(struct replica_primary *p) {
    value_end(p);
    p->copy.step = SEND_NONE;
    p->sent = p->acked = p->last = 0;
    p->up = false;
    replica_copy_stop(&p->filling);
    if (p->m->flights)
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
                 peer_node(p->m->setup, p->backup), dd_strerror(code));
    conn_free(c);
    p->conn = NULL;
    primary_forget(p);
}

static const struct conn_ops primary_ops = {
    .up = primary_up, .message = primary_message, .down = primary_down};

static void primary_open(struct replica_primary *p) {
    struct manager *m = p->m;
    struct peer_address at;
    peer_address_find(m->setup, p->backup, p->port, &at);
    struct conn_identity me = m->setup->identity;
    me.group = ++p->opened; /* the backup refuses one that comes up behind a later one */
    /* negative: again with the next tick */
    conn_open(&p->conn, m->epoll_fd, &me, ROLE_REPLICA, p->backup, at.addr, at.naddr, &primary_ops,
              p);
}

/* --- time --- */
static bool primary_waits(const struct replica_primary *p) {
    bool fills = !p->whole && p->filling.at != COPY_OVER && (!p->up || p->sent > p->acked);
    return p->notes || (p->m->flights && p->m->flights->air) || fills;
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
    /* without a lease it is we who may be cut off, and who decides knows better */
    if (!primary_waits(p) || !manager_may_serve(m))
        p->heard_ns = now;
    else if (now - p->heard_ns > DD_BACKUP_LOST_MS * 1000000ull)
        primary_lost(p, p->up ? "does not answer" : "can not be reached");
    timer_after(&m->timers, t, (p->up ? LOOK_MS : DD_PEER_TRY_MS) * 1000000ull);
}

/* Without a backup all in flight is made. Then it goes on without, or begins anew with the next one. */
static bool primary_alone(struct replica_primary *p) {
    struct manager *m = p->m;
    if (m->flights)
        flights_alone(m);
    if (m->flights)
        return false; /* no lease: when there is one */
    if (p->backup == SHADOW_NONE)
        replica_primary_free(m);
    else if (flights_init(m) < 0) {
        primary_lost(p, NO_FLIGHTS);
        p->backup = SHADOW_NONE;
        primary_end(p, -ENOMEM);
    }
    return true;
}

bool replica_primary_turn(struct manager *m) {
    struct replica_primary *p = m->primary;
    if (!m->flights)
        return false;
    if (m->flights->alone)
        return primary_alone(p);
    if (!p->tick.pos)
        timer_after(&m->timers, &p->tick, 0);
    bool some = flights_commit(m);
    if (m->flights->failed)
        primary_lost(p, "has a change that could not be made here");
    some |= fill_pump(p) || m->flights->copied;
    primary_pump(p);
    return some;
}

/* --- the map --- */
static struct replica_primary *primary_new(struct manager *m) {
    struct replica_primary *p = m->primary = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct replica_primary){.m = m, .backup = SHADOW_NONE, .whole = true};
    p->tick.fire = tick_fire;
    p->heard_ns = timers_now(&m->timers);
    replica_copy_init(&p->filling, m);
    return p;
}

int replica_primary_init(struct manager *m) {
    const struct manager_setup *s = m->setup;
    if (!s->copies || s->shadow || !deal_owns(&s->deal, s->id))
        return 0;
    if (!primary_new(m))
        return -ENOMEM;
    m->primary->backup = shadow_of(&s->deal, s->id);
    m->primary->epoch = 1;
    return flights_init(m);
}

/* A new row, with or without a backup that can be reached. */
static void primary_row(struct replica_primary *p, const struct sup_msg *s, bool has) {
    p->epoch = s->count;
    p->backup = has ? s->room : SHADOW_NONE;
    p->port = (uint16_t)s->total_bytes;
    p->whole = sup_map_whole(s);
    p->lost = !has;
    p->heard_ns = timers_now(&p->m->timers);
    if (p->conn)
        conn_free(p->conn);
    p->conn = NULL;
    primary_forget(p);
}

void replica_primary_map(struct manager *m, const struct sup_msg *s) {
    bool serves = s->pid == m->setup->identity.self,
         has = serves && s->room != SHADOW_NONE && (sup_map_whole(s) || s->total_bytes != 0);
    if (m->primary ? s->count <= m->primary->epoch : !has)
        return;
    struct replica_primary *p = m->primary ? m->primary : primary_new(m);
    bool begins = p && !m->flights;
    if (!p || (begins && has && flights_init(m) < 0)) {
        lost_tell(m, s->room, s->count, NO_FLIGHTS);
        return;
    }
    primary_row(p, s, has);
    if (m->flights)
        m->flights->over = !serves;
    /* a backup that is to be filled needs nothing of what is in flight: it gets that with the keys */
    if (!serves || (has && (p->whole || !flights_open(m))))
        return;
    if (!has) {
        log_warn("manager %u on %s goes on without a backup", m->setup->id, m->setup->node);
        notes_end(p);
    }
    primary_alone(p);
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
    replica_copy_free(&p->filling);
    free(p->note_key);
    free(p);
    m->primary = NULL;
    flights_free(m);
}

unsigned replica_copies(const struct manager *m) {
    const struct manager_setup *s = m->setup;
    const struct replica_primary *p = m->primary;
    if (!s->copies || !deal_owns(&s->deal, s->id))
        return 0;
    return p && m->flights && p->backup != SHADOW_NONE && p->whole && !p->lost ? 2 : 1;
}
