/* SPDX-License-Identifier: Apache-2.0 */
/* replica_flight.c - changes in flight at the primary of an owner. */
#include "replica_flight.h"

#include "answers.h"
#include "ledger.h"
#include "manager.h"
#include "results.h"
#include <base/clock.h>
#include <base/hash.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- who is gone --- */
static void nobody_send(struct requester *a, struct msg *r, const void *payload, size_t len) {
}

static bool nobody_idle(struct requester *a) {
    return true;
}

static void nobody_source(const struct requester *a, struct store_source *from) {
}

static const struct carrier_ops nobody_ops = {
    .name = "nobody", .send = nobody_send, .idle = nobody_idle, .source = nobody_source};

bool flight_for_nobody(const struct requester *a) {
    return a->ops == &nobody_ops;
}

/* Those of nobody are of several requesters: it stands for that of f now. */
static void nobody_is(struct flights *fl, const struct flight *f) {
    fl->nobody.kind = f->kind;
    fl->nobody.who = f->who;
}

int flights_init(struct manager *m) {
    struct flights *fl = calloc(1, sizeof *fl);
    if (!fl)
        return -ENOMEM;
    fl->m = m;
    fl->air_end = &fl->air;
    fl->behind_end = &fl->behind;
    fl->took_end = &fl->took;
    requester_init(&fl->nobody, m, REQUESTER_SELF, &nobody_ops, 0);
    m->flights = fl;
    return 0;
}

/* A key is copied, and nothing else is here. */
static bool only_copies(const struct flights *fl) {
    const struct flight *f = fl->copy;
    return fl->keys == 1 && f && f->state == FLIGHT_COPIES && !f->behind;
}

bool flights_open(const struct manager *m) {
    const struct flights *fl = m->flights;
    return fl && (fl->air || fl->behind || fl->clear || (fl->keys && !only_copies(fl)));
}

/* --- busy keys --- */
static bool key_is(const struct flight *f, const void *key, uint32_t key_len, uint64_t hash) {
    return f->hash == hash && f->key_len == key_len && memcmp(f->key, key, key_len) == 0;
}

/* The first of this key, or NULL. */
static struct flight *key_find(const struct flights *fl, const void *key, uint32_t key_len,
                               uint64_t hash) {
    struct flight *f = fl->keys ? fl->chain[hash % FLIGHT_CHAINS] : NULL;
    while (f && !key_is(f, key, key_len, hash))
        f = f->chain;
    return f;
}

/* What is run for the first of a key from within its run comes before all that waits. */
static bool is_run(const struct flight *first) {
    return first->state == FLIGHT_TURN || first->state == FLIGHT_COMMITS;
}

static void key_enter(struct flights *fl, struct flight *f) {
    struct flight *first = key_find(fl, f->key, f->key_len, f->hash);
    f->linked = true;
    f->behind = NULL;
    if (!first) {
        f->last = f;
        f->chain = fl->chain[f->hash % FLIGHT_CHAINS];
        fl->chain[f->hash % FLIGHT_CHAINS] = f;
        fl->keys++;
        return;
    }
    struct flight *at = is_run(first) ? first : first->last;
    f->behind = at->behind;
    at->behind = f;
    if (first->last == at)
        first->last = f;
}

/* Returns the one that is the first of the key now, or NULL. */
static struct flight *key_leave(struct flights *fl, struct flight *f) {
    struct flight **at = &fl->chain[f->hash % FLIGHT_CHAINS], *first, *next = f->behind;
    while (!key_is(*at, f->key, f->key_len, f->hash))
        at = &(*at)->chain;
    first = *at;
    f->linked = false;
    if (first != f) {
        struct flight *before = first;
        while (before->behind != f)
            before = before->behind;
        before->behind = next;
        if (first->last == f)
            first->last = before;
        return first;
    }
    *at = next ? next : f->chain;
    if (next) {
        next->chain = f->chain;
        next->last = f->last;
    } else
        fl->keys--;
    return next;
}

/* A CLEAR waits or is in the air, and others behind it. */
static bool is_barred(const struct flights *fl) {
    return fl->behind || fl->clear;
}

bool flights_busy(const struct manager *m, const void *key, uint32_t key_len, uint64_t hash) {
    const struct flights *fl = m->flights;
    const struct flight *first = key_find(fl, key, key_len, hash);
    if (first && is_run(first))
        return first->behind && first->behind->state != FLIGHT_WAITS;
    return first || (is_barred(fl) && !(fl->clear && is_run(fl->clear)));
}

/* --- in the ledger --- */
static bool note_make(struct flight *f) {
    struct manager *m = f->pending.requester->m;
    struct msg note = {.type = MSG_REPL,
                       .status = f->op,
                       .key_len = f->key_len,
                       .id = flight_result_id(f),
                       .manager = (uint32_t)f->who};
    if (f->note || !m->setup->ledger)
        return true;
    manager_ledger_look(m);
    f->note = ledger_add(m->setup->ledger, LEDGER_FLIGHT, 0, 0, &note, f->key, NULL, 0);
    return f->note;
}

static void note_end(struct manager *m, struct flight *f) {
    if (f->note)
        ledger_end(m->setup->ledger, f->note);
}

uint64_t flight_result_id(const struct flight *f) {
    const struct manager *m = f->pending.requester->m;
    bool has = f->kind == REQUESTER_PEER && m->setup->results && f->op != REPL_LIMIT;
    return has && result_fits(f->pending.req.id) ? f->pending.req.id : 0;
}

/* --- one flight --- */
static const struct pending_ops flight_ops;
static void flight_late(struct timer *t);

/* waits: behind others, for the time that its request has. */
static struct flight *flight_new(struct requester *a, const struct msg *req, const void *key,
                                 uint64_t hash, const struct store_ref *ref, uint64_t began,
                                 bool waits) {
    struct flight *f = calloc(1, sizeof *f + req->key_len);
    bool timed = req->flags & MSGF_WAIT && req->aux > 0;
    if (!f)
        return NULL;
    f->pending.timer.fire = flight_late;
    if (waits && timed && timer_after(&a->m->timers, &f->pending.timer, pending_ns(req)) < 0) {
        free(f);
        return NULL;
    }
    if (req->key_len)
        memcpy(f->key, key, req->key_len);
    f->key_len = req->key_len;
    f->hash = hash;
    f->kind = a->kind;
    f->who = a->who;
    f->began = began;
    if (ref)
        f->ref = *ref;
    if (timed)
        f->deadline = clock_ns() + pending_ns(req);
    pending_add(&f->pending, a, req, ref && ref->fill ? NULL : f->key, f->deadline, &flight_ops);
    if (ref)
        pending_value(&f->pending, ref->off);
    store_begin(a->m->store, NULL); /* nothing is changed for it yet */
    return f;
}

static void flight_free(struct flights *fl, struct flight *f) {
    struct manager *m = fl->m;
    nobody_is(fl, f);
    pending_end(&f->pending);
    note_end(m, f);
    free(f);
}

static struct flight **proxy_chain(struct flights *fl, uint64_t id) {
    return &fl->proxy[(uint32_t)id % FLIGHT_PROXIES];
}

static void proxy_enter(struct flights *fl, struct flight *f) {
    struct flight **at = proxy_chain(fl, f->pending.req.id);
    if (f->kind != REQUESTER_PEER)
        return;
    f->proxy_next = *at;
    *at = f;
}

static void proxy_leave(struct flights *fl, struct flight *f) {
    struct flight **at = proxy_chain(fl, f->pending.req.id);
    if (f->kind != REQUESTER_PEER)
        return;
    while (*at != f)
        at = &(*at)->proxy_next;
    *at = f->proxy_next;
}

static void air_enter(struct flights *fl, struct flight *f) {
    f->state = FLIGHT_AIR;
    f->number = 0;
    f->acked = f->asked = f->made = false;
    f->next = NULL;
    *fl->air_end = f;
    fl->air_end = &f->next;
    if (!fl->unsent)
        fl->unsent = f;
    proxy_enter(fl, f);
    fl->m->peers_busy++; /* the loop looks at the sockets each turn */
}

static struct flight *air_leave(struct flights *fl) {
    struct flight *f = fl->air;
    fl->air = f->next;
    if (!fl->air)
        fl->air_end = &fl->air;
    if (fl->unsent == f)
        fl->unsent = f->next;
    proxy_leave(fl, f);
    fl->m->peers_busy--;
    return f;
}

/* It could not be made: it stays the first. */
static void air_return(struct flights *fl, struct flight *f) {
    f->state = FLIGHT_AIR;
    f->next = fl->air;
    if (!fl->air)
        fl->air_end = &f->next;
    fl->air = f;
    proxy_enter(fl, f);
    fl->m->peers_busy++;
}

static void behind_enter(struct flights *fl, struct flight *f) {
    f->next = NULL;
    *fl->behind_end = f;
    fl->behind_end = &f->next;
}

static void behind_leave(struct flights *fl, struct flight *f) {
    struct flight **at = &fl->behind;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    if (fl->behind_end == &f->next)
        fl->behind_end = at;
}

/* --- runs --- */
/* What it changes from now on is its: as for a request that is taken again (recovery.c). */
static void run_begin(struct flights *fl, struct flight *f) {
    struct manager *m = fl->m;
    struct requester *a = f->pending.requester;
    const struct msg *req = &f->pending.req;
    nobody_is(fl, f);
    fl->m->flight = f;
    if (f->pending.entry) {
        m->resumed = f->pending.entry;
        f->pending.entry = NULL;
        requester_begin(a, &m->resumed);
    } else if (a->kind == REQUESTER_PEER && m->setup->results && req->type != MSG_GET &&
               req->type != MSG_HEAD)
        results_begin(a, req);
}

static void run_end(struct flights *fl, struct flight *f) {
    struct manager *m = fl->m;
    m->flight = NULL;
    if (m->resumed && f->state == FLIGHT_AIR)
        f->pending.entry = m->resumed;
    else if (m->resumed)
        requester_entry_end(m, &m->resumed);
    m->resumed = NULL;
    m->answering = NULL;
    store_begin(m->store, NULL);
}

/* Run it once. Returns what is the first of its key then, or NULL. */
static struct flight *flight_run(struct flights *fl, struct flight *f) {
    struct manager *m = fl->m;
    struct requester *a = f->pending.requester;
    struct msg *req = &f->pending.req;
    uint64_t now = f->deadline ? clock_ns() : 0;
    bool clear = fl->clear == f, failed = fl->failed,
         changes = req->type != MSG_GET && req->type != MSG_HEAD;
    if (f == fl->copy) {
        f->state = FLIGHT_COPIES;
        return f;
    }
    f->state = f->state == FLIGHT_WAITS ? FLIGHT_TURN : FLIGHT_COMMITS;
    timer_clear(&m->timers, &f->pending.timer);
    if (f->deadline)
        req->aux = f->deadline > now + 1000 ? (f->deadline - now) / 1000 : 1;
    run_begin(fl, f);
    m->up->run(a, req, f->key, f->hash, &f->ref, f->began);
    if (fl->failed && !failed)
        air_return(fl, f);
    run_end(fl, f);
    if (f->state == FLIGHT_AIR)
        return f;
    f->state = FLIGHT_COMMITS;
    if (!clear && changes)
        m->up->key_next(m, f->key, f->key_len, f->hash);
    struct flight *first = clear ? NULL : key_leave(fl, f);
    if (clear)
        fl->clear = NULL;
    flight_free(fl, f);
    return first;
}

/* It waited, and is not carried out. */
static void flight_drop(struct flights *fl, struct flight *f) {
    struct manager *m = fl->m;
    struct store_ref ref = f->ref;
    if (f->linked)
        key_leave(fl, f);
    else
        behind_leave(fl, f);
    flight_free(fl, f); /* before its block: the ledger names no free one */
    if (ref.item)
        store_abort(m->store, &ref);
}

/* Those of this key have their turns, up to one that is in the air. */
static void key_go_on(struct flights *fl, struct flight *first) {
    while (first && first->state == FLIGHT_WAITS) {
        if (!first->pending.requester->gone) {
            first = flight_run(fl, first);
            continue;
        }
        struct flight *next = first->behind;
        flight_drop(fl, first);
        first = next;
    }
}

static bool is_clear(const struct flight *f) {
    return f->pending.req.type == MSG_CLEAR;
}

/* CLEAR has its turn when all before it are over, the others when it is. */
static void behind_go_on(struct flights *fl) {
    struct flight *f;
    if (!fl->behind)
        return;
    while ((f = fl->behind) && !fl->clear && (!is_clear(f) || fl->keys == 0)) {
        if (f->pending.requester->gone) {
            flight_drop(fl, f);
            continue;
        }
        behind_leave(fl, f);
        if (is_clear(f)) {
            fl->clear = f;
            flight_run(fl, f);
            continue;
        }
        key_enter(fl, f);
        if (key_find(fl, f->key, f->key_len, f->hash) == f)
            key_go_on(fl, f);
    }
    if (!is_barred(fl))
        fl->m->up->key_next(fl->m, NULL, 0, 0);
}

/* Two and four of them ahead. */
static void commits_expect(struct flights *fl, const struct flight *f) {
    const struct flight *ahead[5] = {f};
    for (unsigned i = 1; i < 5; i++)
        if (!(ahead[i] = ahead[i - 1]->next))
            return;
    store_expect(fl->m->store, ahead[4]->hash, ahead[2]->hash);
    if (ahead[4]->ref.item)
        __builtin_prefetch(ahead[4]->ref.item);
}

/* --- copies for a new backup --- */
int flight_copy(struct manager *m, const void *key, uint32_t key_len, uint64_t hash) {
    struct flights *fl = m->flights;
    struct flight *f = calloc(1, sizeof *f + key_len);
    if (!f)
        return -ENOMEM;
    memcpy(f->key, key, key_len);
    f->key_len = key_len;
    f->hash = hash;
    f->kind = REQUESTER_SELF;
    f->pending.requester = &fl->nobody;
    f->pending.req.type = MSG_REPL;
    fl->copy = f;
    if (is_barred(fl)) {
        behind_enter(fl, f);
        return 0;
    }
    key_enter(fl, f);
    if (key_find(fl, key, key_len, hash) == f)
        f->state = FLIGHT_COPIES;
    return flight_copies(m);
}

bool flight_copies(const struct manager *m) {
    const struct flights *fl = m->flights;
    return fl && fl->copy && fl->copy->state == FLIGHT_COPIES && !fl->copied;
}

void flight_copied(struct manager *m) {
    if (m->flights && m->flights->copy)
        m->flights->copied = true;
}

/* What came for its key meanwhile has its turn. */
static void copy_end(struct flights *fl) {
    struct manager *m = fl->m;
    struct flight *f = fl->copy, *next = NULL;
    bool turn = f->state == FLIGHT_COPIES;
    fl->copied = false;
    if (turn) {
        f->state = FLIGHT_COMMITS;
        m->up->key_next(m, f->key, f->key_len, f->hash);
    }
    if (f->linked)
        next = key_leave(fl, f);
    else
        behind_leave(fl, f);
    fl->copy = NULL;
    free(f);
    if (turn)
        key_go_on(fl, next);
    behind_go_on(fl);
}

bool flights_commit(struct manager *m) {
    struct flights *fl = m->flights;
    bool some = fl->copied && !fl->over && manager_may_serve(m);
    if (some)
        copy_end(fl);
    while (fl->air && (fl->air->acked || fl->alone) && !fl->failed && !fl->over &&
           manager_may_serve(m)) {
        struct flight *f = air_leave(fl);
        commits_expect(fl, f);
        if (faults.on)
            faults_step(STEP_HEARD);
        key_go_on(fl, flight_run(fl, f));
        if (!fl->failed)
            behind_go_on(fl);
        some = true;
    }
    return some;
}

/* --- the end of a requester --- */
/* flight_clear_again(): it may be anybody's. */
static bool is_anybodys(const struct flight *f) {
    return f->kind == REQUESTER_SELF && f->who == 0;
}

bool flights_of_gone(const struct manager *m, uint64_t client) {
    const struct flight *f = m->flights ? m->flights->air : NULL;
    while (f && !is_anybodys(f) && (f->kind != REQUESTER_SELF || f->who != client))
        f = f->next;
    return f;
}

static bool is_awaited(const struct flight *f) {
    const struct requester *a = f->pending.requester;
    return !a->gone && !flight_for_nobody(a);
}

bool flights_of_none(const struct manager *m, uint64_t who) {
    const struct flight *f = m->flights ? m->flights->air : NULL;
    while (f && !is_anybodys(f) && (f->kind != REQUESTER_PEER || f->who != who || is_awaited(f)))
        f = f->next;
    return f;
}

/* It was sent: it is made for nobody. */
static void flight_leave(struct flights *fl, struct flight *f) {
    struct pending *p = &f->pending;
    pending_end(p);
    if (f->kind == REQUESTER_LANE)
        f->kind = REQUESTER_SELF;
    nobody_is(fl, f);
    pending_hand(p, &fl->nobody);
}

static void flight_refuse(struct pending *p, int status) {
    struct flight *f = (struct flight *)(void *)p;
    struct requester *a = p->requester;
    struct flights *fl = a->m->flights;
    if (f->state != FLIGHT_WAITS) {
        f->cancelled = true;
        if (a->gone)
            flight_leave(fl, f);
        return;
    }
    pending_answers(p);
    requester_reply(a, &p->req, status, NULL);
    bool barred = !f->linked;
    flight_drop(fl, f);
    if (barred)
        behind_go_on(fl);
}

/* What was sent is answered whenever its ACK comes: only one that waits has a timer, so there is no
 * late(). */
static const struct pending_ops flight_ops = {.refuse = flight_refuse};

static void flight_late(struct timer *t) {
    struct pending *p = (struct pending *)(void *)((char *)t - offsetof(struct pending, timer));
    if (p->req.type == MSG_GET || p->req.type == MSG_POP)
        p->requester->m->count->misses++;
    flight_refuse(p, -ETIMEDOUT);
}

/* --- requests --- */
bool flight_is_own(const struct manager *m, const struct msg *req) {
    return m->flight && req == &m->flight->pending.req;
}

bool flight_commits(const struct manager *m, const struct msg *req) {
    return flight_is_own(m, req) && m->flight->state == FLIGHT_COMMITS;
}

int flight_order(struct requester *a, const struct msg *req, const void *key, uint64_t hash,
                 const struct store_ref *ref, uint64_t began) {
    struct flights *fl = a->m->flights;
    bool clear = req->type == MSG_CLEAR, barred = is_barred(fl);
    if (flight_is_own(a->m, req) ||
        (!barred && (clear ? fl->keys == 0 : !key_find(fl, key, req->key_len, hash))))
        return 0;
    struct flight *f = flight_new(a, req, key, hash, ref, began, true);
    if (!f)
        return -ENOMEM;
    if (clear || barred)
        behind_enter(fl, f);
    else
        key_enter(fl, f);
    return 1;
}

int flight_send(struct requester *a, const struct msg *req, enum repl_op op, const void *key,
                uint64_t hash, struct store_ref *ref, uint64_t began, uint64_t most) {
    struct manager *m = a->m;
    struct flights *fl = m->flights;
    bool own = flight_is_own(m, req);
    struct flight *f = own ? m->flight : NULL;
    if (fl->alone || (f && f->state == FLIGHT_COMMITS && f->op == op))
        return 0;
    /* its id may be another's by now, and behind that it would take the place of its result */
    if (f && f->made && f->cancelled)
        return -ECANCELED;
    int e = ref ? store_filled(m->store, ref) : 0;
    if (e < 0)
        return e;
    if (!f && !(f = flight_new(a, req, key, hash, ref, began, false)))
        return -ENOMEM;
    f->op = op;
    f->most = most;
    if (!note_make(f)) {
        if (!own)
            flight_free(fl, f);
        return -ENOMEM;
    }
    if (ref)
        f->ref = *ref;
    if (!own && op != REPL_CLEAR)
        key_enter(fl, f);
    if (op == REPL_CLEAR)
        fl->clear = f;
    air_enter(fl, f);
    if (faults.on)
        faults_step(STEP_ENTERED);
    return 1;
}

void flight_made(struct manager *m, const struct msg *req) {
    if (flight_commits(m, req))
        m->flight->made = true;
}

bool flight_fails(struct manager *m, const struct msg *req) {
    if (!m->flights || !flight_commits(m, req) || m->flight->made || m->flights->alone)
        return false;
    return m->flights->failed = true;
}

bool flight_attach(struct requester *a, const struct msg *req) {
    struct flights *fl = a->m->flights;
    struct flight *f = *proxy_chain(fl, req->id);
    while (f && (f->who != a->who || f->pending.req.id != req->id))
        f = f->proxy_next;
    if (!f)
        return false;
    nobody_is(fl, f);
    f->cancelled = false;
    pending_move(&f->pending, a);
    return true;
}

void flight_took(struct manager *m, uint32_t proxy, uint64_t id) {
    struct flights *fl = m->flights;
    struct flight_took *t = malloc(sizeof *t);
    if (!t) /* the backup keeps the value until it writes another result in its place */
        return;
    *t = (struct flight_took){.id = id, .proxy = proxy};
    *fl->took_end = t;
    fl->took_end = &t->next;
    if (!fl->took_unsent)
        fl->took_unsent = t;
}

int flight_clear_again(struct manager *m, uint32_t proxy, uint64_t id) {
    struct flights *fl = m->flights;
    struct msg req = {.type = MSG_CLEAR, .id = id, .len = MSG_HEADER, .manager = m->setup->id};
    fl->nobody.kind = id ? REQUESTER_PEER : REQUESTER_SELF;
    fl->nobody.who = id ? 1ull << 63 | proxy : 0;
    int e = flight_order(&fl->nobody, &req, NULL, 0, NULL, clock_ns());
    if (e == 0)
        e = flight_send(&fl->nobody, &req, REPL_CLEAR, NULL, 0, NULL, clock_ns(), 0);
    return e < 0 ? e : 0;
}

void flights_doubt(struct manager *m) {
    struct flights *fl = m->flights;
    fl->unsent = NULL;
    for (struct flight *f = fl->air; f; f = f->next) {
        if (f->acked)
            continue;
        f->number = 0;
        if (!fl->unsent)
            fl->unsent = f;
    }
    fl->took_unsent = fl->took;
    for (struct flight_took *t = fl->took; t; t = t->next)
        t->number = 0;
}

/* --- the end --- */
static void took_free(struct flights *fl) {
    while (fl->took) {
        struct flight_took *t = fl->took;
        fl->took = t->next;
        free(t);
    }
}

void flights_alone(struct manager *m) {
    struct flights *fl = m->flights;
    fl->alone = true;
    fl->failed = false;
    flight_copied(m);
    flights_commit(m);
    if (flights_open(m) || fl->copy)
        return; /* no lease: when there is one */
    took_free(fl);
    free(fl);
    m->flights = NULL;
}

void flights_free(struct manager *m) {
    struct flights *fl = m->flights;
    if (!fl)
        return;
    while (fl->air)
        free(air_leave(fl));
    took_free(fl);
    free(fl->copy);
    free(fl);
    m->flights = NULL;
}
