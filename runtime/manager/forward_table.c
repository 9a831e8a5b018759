/* SPDX-License-Identifier: Apache-2.0 */
/* forward_table.c - forwards by id, requester and peer; how many a requester may have. */
#include "forward_table.h"

#include "forward.h"
#include "ledger.h"
#include "manager.h"
#include "peer_client.h"
#include <base/clock.h>
#include <base/log.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* without an answer, of one lane: the answers of so many may have to be queued for it */
#define FORWARDS_MAX 512u
/* Of one lane, that wait for their keys; not counted among FORWARDS_MAX, so that they cannot keep
 * back the put that they wait for. More are refused. */
#define WAITS_MAX 4096u
/* likewise, bytes that are kept of values for keys that are being read again, which may wait for them */
#define HELD_MAX     (4u * DD_COPIES_MAX)
#define EVENTS_MAX   65536u /* likewise for events: one for each subscription at each manager */
#define ID_INDEX(id) ((uint32_t)(id))

static const char *const state_names[FORWARD_STATE_N] = {
    [FORWARD_NEW] = "new",       [FORWARD_FOLLOWS] = "follows", [FORWARD_REWINDS] = "rewinds",
    [FORWARD_PUTS] = "puts",     [FORWARD_ASKED] = "asked",     [FORWARD_LANDS] = "lands",
    [FORWARD_PASSES] = "passes", [FORWARD_FILLS] = "fills",     [FORWARD_PIECE] = "piece",
    [FORWARD_DROPS] = "drops",   [FORWARD_OVER] = "over",
};

int forwards_init(struct manager *m) {
    struct forwards *t = m->forward_table = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    t->number = m->setup->ledger ? &m->setup->ledger->number : &t->own_number;
    return 0;
}

void forwards_free(struct manager *m) {
    if (!m->forward_table)
        return;
    free(m->forward_table->changes.slot);
    free(m->forward_table->changes.unused);
    free(m->forward_table->others.slot);
    free(m->forward_table->others.unused);
    free(m->forward_table);
}

void forward_become(struct forward *f, enum forward_state state) {
    log_debug("forward %llx, %s of manager %u: %s, was %s", (unsigned long long)f->id,
              msg_name(f->req.type), f->from, state_names[state], state_names[f->state]);
    f->state = state;
}

bool forward_has_block(const struct forward *f) {
    return f->state == FORWARD_LANDS || f->state == FORWARD_FILLS || f->state == FORWARD_PIECE;
}

/* --- by id, and by peer --- */
/* The part in which this id has its place, and the index there. */
static struct forward_places *part_of(struct forwards *t, uint64_t id, uint32_t *i) {
    bool low = ID_INDEX(id) < DD_RESULTS;
    *i = ID_INDEX(id) - (low ? 0 : DD_RESULTS);
    return low ? &t->changes : &t->others;
}

static bool part_full(const struct forward_places *p) {
    return p->n == DD_RESULTS && p->unused_n == 0;
}

static bool part_grow(struct forward_places *p) {
    uint32_t cap = p->cap ? 2 * p->cap : 256;
    struct forward **slot = realloc(p->slot, cap * sizeof *slot);
    if (slot)
        p->slot = slot;
    uint32_t *unused = realloc(p->unused, cap * sizeof *unused);
    if (unused)
        p->unused = unused;
    if (!slot || !unused)
        return false;
    p->cap = cap;
    return true;
}

static uint64_t number_next(struct forwards *t) {
    *t->number += 1;
    if ((uint32_t)*t->number == 0) /* id 0 is none */
        *t->number += 1;
    return *t->number;
}

static bool slot_take(struct forwards *t, struct forward *f) {
    bool low = forward_changes(f) && !part_full(&t->changes);
    struct forward_places *p = low ? &t->changes : &t->others;
    if (p->unused_n == 0 && p->n == p->cap && !part_grow(p))
        return false;
    uint32_t i = p->unused_n ? p->unused[--p->unused_n] : p->n++;
    p->slot[i] = f;
    f->id = number_next(t) << 32 | (i + (low ? 0 : DD_RESULTS));
    return true;
}

/* Before it is sent, and before its record leaves SQ: from now on its entry is its source. */
static void forward_note(struct forward *f) {
    if (!f->entry || !forward_changes(f))
        return;
    if (!result_fits(f->id)) {
        forward_answered(f);
        return;
    }
    ledger_id(f->entry, f->from, f->id);
    if (faults.on)
        faults_step(STEP_ENTERED);
}

struct forward *forward_find(struct manager *m, uint64_t id) {
    uint32_t i;
    const struct forward_places *p = part_of(m->forward_table, id, &i);
    struct forward *f = i < p->n ? p->slot[i] : NULL;
    return f && f->id == id ? f : NULL;
}

bool forward_enlist(struct forward *f, struct peer *p) {
    if (!f->id) {
        if (!slot_take(f->requester->m->forward_table, f))
            return false;
        forward_note(f);
    }
    f->peer = p;
    peer_asked(p);
    f->p_prev = peer_forwards(p);
    f->p_next = *f->p_prev;
    if (f->p_next)
        f->p_next->p_prev = &f->p_next;
    *f->p_prev = f;
    return true;
}

void forward_leave_peer(struct forward *f) {
    if (!f->p_prev)
        return;
    *f->p_prev = f->p_next;
    if (f->p_next)
        f->p_next->p_prev = f->p_prev;
    f->p_prev = NULL;
}

void forward_delist(struct manager *m, struct forward *f) {
    uint32_t i;
    struct forward_places *p = part_of(m->forward_table, f->id, &i);
    forward_leave_peer(f);
    p->slot[i] = NULL;
    if (!f->queued)
        p->unused[p->unused_n++] = i;
    f->id = 0;
}

/* --- of clients that are gone --- */
static bool part_of_gone(const struct forward_places *p, uint64_t client) {
    for (uint32_t i = 0; i < p->n; i++)
        if (p->slot[i] && !p->slot[i]->requester && p->slot[i]->who == client &&
            forward_changes(p->slot[i]))
            return true;
    return false;
}

bool forwards_of_gone(const struct manager *m, uint64_t client) {
    return part_of_gone(&m->forward_table->changes, client) ||
           part_of_gone(&m->forward_table->others, client);
}

/* --- a later life --- */
bool forwards_claim(struct manager *m, struct ledger_entry *const *list, size_t n) {
    struct forward_places *p = &m->forward_table->changes;
    bool taken[DD_RESULTS] = {false};
    for (size_t k = 0; k < n; k++) {
        uint32_t i = ID_INDEX(list[k]->id);
        if (!list[k]->id)
            continue;
        taken[i] = true;
        if (p->n <= i)
            p->n = i + 1;
    }
    while (p->cap < p->n)
        if (!part_grow(p))
            return false;
    for (uint32_t i = p->n; i-- > 0;) {
        p->slot[i] = NULL;
        if (!taken[i])
            p->unused[p->unused_n++] = i;
    }
    return true;
}

/* It has the id of its entry. */
static void slot_claim(struct forwards *t, struct forward *f) {
    uint32_t i;
    struct forward_places *p = part_of(t, f->entry->id, &i);
    f->id = f->entry->id;
    p->slot[i] = f;
}

bool forward_asks(struct manager *m, const struct ledger_entry *e) {
    return e->id && forward_find(m, e->id);
}

void forward_place_over(struct manager *m, uint64_t id) {
    uint32_t i;
    struct forward_places *p = part_of(m->forward_table, id, &i);
    if (p->slot[i]) /* given up, and not answered by its owner yet */
        p->slot[i]->queued = false;
    else
        p->unused[p->unused_n++] = i;
}

void forward_resumed(struct forward *f) {
    struct forwards *t = f->requester->m->forward_table;
    const struct ledger_pass *p = &f->entry->pass;
    f->again_ns = clock_ns();
    if (p->upto) {
        f->begun = true;
        f->passed = p->upto - 1;
        f->reply =
            (struct msg){.val_len = p->val_len, .version = p->version, .tag = (uint8_t)p->tag};
    }
    f->p_next = t->resumed;
    t->resumed = f;
}

void forward_tell(struct forward *f, unsigned type, uint64_t aux) {
    struct msg r = {
        .type = (uint16_t)type, .flags = MSGF_HOP, .id = f->id, .aux = aux, .manager = f->from};
    /* errors are left to the end of the connection */
    peer_send(f->peer, f->via, &r, NULL, 0);
}

/* --- by requester --- */
static unsigned *wait_count(struct requester *a, const struct forward *f) {
    return f->req.type == MSG_EVENTS ? &a->forward_events_n : &a->forward_waits_n;
}

static size_t *copies_count(struct requester *a, const struct forward *f) {
    return f->rests ? &a->forward_wait_copies : &a->forward_copies;
}

/* A value that waits for room is on its way at first; when its answer has not come for a while it
 * waits indeed. One for a manager that does not move may be anywhere. */
static void rests_find(struct requester *a) {
    uint64_t now = clock_ns();
    for (struct forward *f = a->forwards; f; f = f->a_next) {
        if (forward_busy(f) || f->rests || f->copied == 0 ||
            now - f->began < DD_PEER_STUCK_MS * 1000000ull || peer_stuck(a->m, f->from))
            continue;
        f->rests = true;
        a->forward_copies -= f->copied;
        a->forward_wait_copies += f->copied;
    }
}

static void list_append(struct requester *a, struct forward *f) {
    f->a_next = NULL;
    f->a_prev = a->forwards_end;
    *f->a_prev = f;
    a->forwards_end = &f->a_next;
}

static void list_remove(struct requester *a, struct forward *f) {
    *f->a_prev = f->a_next;
    if (f->a_next)
        f->a_next->a_prev = f->a_prev;
    else
        a->forwards_end = f->a_prev;
}

uint32_t forward_copies(const struct manager *m, const struct msg *req) {
    return forwards_return(m) ? req->len - MSG_HEADER - req->key_len : 0;
}

/* A later life can ask again: it reads, or waits for what it reads, or changes something of which
 * the owner will know what became of it. */
static bool request_returns(const struct manager *m, const struct msg *req) {
    unsigned type = req->type;
    bool reads = type == MSG_GET || type == MSG_HEAD || type == MSG_KEYS || type == MSG_LEN ||
                 type == MSG_STATS || type == MSG_EVENTS || type == MSG_ALIVE;
    return reads ? req->len == MSG_HEADER + req->key_len
                 : request_changes(req) && !part_full(&m->forward_table->changes);
}

/* 0: it does not wait. */
static uint64_t deadline_of(const struct msg *req, uint64_t began) {
    uint64_t us = req->aux < UINT64_MAX / 4000 ? req->aux : UINT64_MAX / 4000;
    return req->flags & MSGF_WAIT ? began + us * 1000 : 0;
}

void forward_answers(struct forward *f) {
    if (f->entry && !f->requester->gone)
        requester_begin(f->requester, &f->entry);
}

void forward_answered(struct forward *f) {
    struct manager *m = f->requester->m;
    bool answered = m->answering == &f->entry;
    if (f->entry)
        requester_entry_end(m, &f->entry);
    else if (answered)
        f->queued = forward_has_result(f);
    if (answered) {
        m->answering = NULL;
        store_begin(m->store, NULL); /* the next change is not its */
    }
}

void forward_stays(struct forward *f) {
    struct manager *m = f->requester->m;
    if (m->answering != &f->entry)
        return;
    m->answering = NULL;
    store_begin(m->store, NULL);
}

void forward_passes(struct forward *f) {
    struct requester *a = f->requester;
    if (!f->entry || a->gone)
        return;
    a->m->answering = &f->entry;
    a->m->passing = true;
}

void forward_passed(struct forward *f, bool last) {
    struct manager *m = f->requester->m;
    if (faults.on && m->passing)
        faults_step(STEP_PASSED);
    m->passing = false;
    if (last)
        forward_answered(f);
    else if (m->answering == &f->entry)
        m->answering = NULL;
}

struct forward *forward_new(struct requester *a, const struct msg *req, const uint8_t *key,
                            const uint8_t *value, uint64_t hash, uint32_t to) {
    struct manager *m = a->m;
    bool resumes = m->resumed;
    uint64_t began = clock_ns();
    bool enters = forwards_return(m) && request_returns(m, req);
    struct ledger_entry *e =
        requester_enter(a, req, enters ? key : NULL, value, deadline_of(req, began));
    bool kept = key && !(e && req->type == MSG_PUT);
    uint32_t copied = value ? forward_copies(m, req) : 0, bytes = kept ? req->key_len + copied : 0;
    struct forward *f = malloc(sizeof *f + bytes);
    if (!f) {
        if (resumes)
            m->resumed = e;
        else if (e)
            ledger_end(m->setup->ledger, e);
        return NULL;
    }
    *f = (struct forward){.requester = a,
                          .who = a->who,
                          .from = to,
                          .req = *req,
                          .began = began,
                          .hash = hash,
                          .copied = copied,
                          .entry = e,
                          .kept = kept};
    if (kept && req->key_len)
        memcpy(f->key, key, req->key_len);
    if (kept && copied)
        memcpy(f->key + req->key_len, value, copied);
    *copies_count(a, f) += copied;
    list_append(a, f);
    if (e && e->id)
        slot_claim(m->forward_table, f);
    if (forward_busy(f)) {
        a->forwards_n++;
        a->m->peers_busy++;
    } else
        ++*wait_count(a, f);
    return f;
}

void forward_unlink(struct forward *f) {
    struct requester *a = f->requester;
    bool full = a->forwards_n >= FORWARDS_MAX || a->forward_copies >= DD_COPIES_MAX;
    forward_answered(f);
    list_remove(a, f);
    *copies_count(a, f) -= f->copied;
    if (f->state == FORWARD_PASSES)
        a->streams_n--;
    if (!forward_busy(f))
        --*wait_count(a, f);
    else
        a->forwards_n--;
    if (full && (forward_busy(f) || f->copied > 0))
        a->m->up->unstall(a->m);
    f->requester = NULL;
}

void forward_last(struct forward *f) {
    list_remove(f->requester, f);
    list_append(f->requester, f);
}

/* Forwards to managers that do not move are not counted: they may take any time, and no more of
 * them come, because new ones are parked. Those to keys that are being read again, which may wait for
 * them, are counted for themselves: up to as many as may wait, and HELD_MAX. */
bool forwards_full(struct requester *a, const struct msg *req, uint32_t to) {
    /* the number of those that wait has a limit of its own */
    unsigned n_most = req->flags & MSGF_WAIT ? UINT_MAX : FORWARDS_MAX, n = 0, held_n = 0;
    bool copied = forward_copies(a->m, req) > 0;
    size_t most = copied ? DD_COPIES_MAX : SIZE_MAX, copies = 0, held = 0;
    if (a->forward_copies >= most)
        rests_find(a); /* who waits for room keeps nobody from taking what fills it */
    if (a->forwards_n < n_most && a->forward_copies < most)
        return false;
    if (peer_stuck(a->m, to))
        return true;
    for (const struct forward *f = a->forwards; f; f = f->a_next)
        if (!f->rests && peer_is_refilling(a->m, f->from)) {
            held += f->copied;
            held_n += forward_busy(f);
        } else if (!f->rests && !peer_stuck(a->m, f->from)) {
            n += forward_busy(f);
            copies += f->copied;
        }
    if (n_most != UINT_MAX && held_n >= WAITS_MAX)
        return true;
    if (copied && peer_is_refilling(a->m, to))
        return n >= n_most || held >= HELD_MAX;
    return n >= n_most || copies >= most;
}

bool forward_waits_full(struct requester *a, const struct msg *req) {
    if (req->type == MSG_EVENTS)
        return a->forward_events_n >= EVENTS_MAX;
    if (a->forward_waits_n >= WAITS_MAX)
        return true;
    if (!forward_copies(a->m, req) || a->forward_copies + a->forward_wait_copies < DD_COPIES_MAX)
        return false;
    rests_find(a);
    return a->forward_wait_copies >= DD_COPIES_MAX;
}

/* --- by the key's hash --- */
void bucket_remove(struct forward *f) {
    if (!f->same_prev)
        return;
    *f->same_prev = f->same_next;
    if (f->same_next)
        f->same_next->same_prev = f->same_prev;
    f->same_prev = NULL;
}

void bucket_add(struct forward **buckets, struct forward *f) {
    f->same_prev = &buckets[f->hash % FORWARD_BUCKETS];
    f->same_next = *f->same_prev;
    if (f->same_next)
        f->same_next->same_prev = &f->same_next;
    *f->same_prev = f;
}
