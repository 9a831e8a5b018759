/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.c - requests for keys of other managers: passed on with an id of our own, the answer passed back. A value that is to be viewed is
 * received into a transit block of our arena; else its pieces go on to the lane as they come, at most DD_STREAM_WINDOW ahead of what the
 * client has taken. A forward whose asker is gone stays in the table until the owner is done with it, so every id that comes back is known.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/error.h>
#include <manager/manager.h>

#define FORWARDS_MAX 512u /* of one lane: the answers of so many may have to be kept for it */
#define WAITS_MAX 4096u   /* of one lane that wait for their key, apart from those: they must not keep the put that they wait for */
#define WINDOW_FIRST (2 * DD_MSG_PIECE) /* of a stream that nobody takes yet: 512 of them may stand before a client that takes nothing */
#define ID_INDEX(id) ((uint32_t)(id))

struct forward {
    struct asker *asker;                /* NULL: gone */
    struct forward *a_next, **a_prev;   /* of the asker */
    struct forward *p_next, **p_prev;   /* of the peer */
    struct peer *peer;
    uint32_t from;                      /* the peer's manager id */
    uint64_t id;                        /* ours, as the owner sees it */
    struct msg req;                     /* as the asker sent it */
    uint64_t began;
    bool put_open;                      /* pieces of the put may still come */
    bool streams;                       /* the reply comes in pieces */
    bool passes;                        /* they go on to the asker's lane; counted in its streams_n */
    bool in_transit, landing;           /* into a transit block; the connection is receiving into it now */
    struct store_ref transit;
    struct msg reply;                   /* of a streamed one: its header */
    uint64_t got, allowed;
};
struct forwards {
    struct forward **slot;
    uint32_t *unused;
    uint32_t n, cap, unused_n;
    uint64_t generation;
};

int forwards_init(struct manager *m) {
    m->forward_table = calloc(1, sizeof *m->forward_table);
    return m->forward_table ? 0 : -ENOMEM;
}

void forwards_free(struct manager *m) {
    if (!m->forward_table) return;
    free(m->forward_table->slot);
    free(m->forward_table->unused);
    free(m->forward_table);
}

static bool slot_take(struct forwards *t, struct forward *f) {
    if (t->unused_n == 0 && t->n == t->cap) {
        uint32_t cap = t->cap ? 2 * t->cap : 256;
        struct forward **slot = realloc(t->slot, cap * sizeof *slot);
        if (slot) t->slot = slot;
        uint32_t *unused = realloc(t->unused, cap * sizeof *unused);
        if (unused) t->unused = unused;
        if (!slot || !unused) return false;
        t->cap = cap;
    }
    uint32_t i = t->unused_n ? t->unused[--t->unused_n] : t->n++;
    t->slot[i] = f;
    f->id = ++t->generation << 32 | i;
    return true;
}

static struct forward *forward_find(struct manager *m, uint64_t id) {
    struct forwards *t = m->forward_table;
    struct forward *f = ID_INDEX(id) < t->n ? t->slot[ID_INDEX(id)] : NULL;
    return f && f->id == id ? f : NULL;
}

/* A request that waits for its key keeps nobody busy. */
static bool counts_busy(const struct forward *f) { return !(f->req.flags & MSGF_WAIT); }

static void list_append(struct asker *a, struct forward *f) {
    f->a_next = NULL;
    f->a_prev = a->forwards_end;
    *f->a_prev = f;
    a->forwards_end = &f->a_next;
}

static void list_remove(struct asker *a, struct forward *f) {
    *f->a_prev = f->a_next;
    if (f->a_next) f->a_next->a_prev = f->a_prev;
    else a->forwards_end = f->a_prev;
}

static void asker_unlink(struct forward *f) {
    struct asker *a = f->asker;
    list_remove(a, f);
    if (f->passes) a->streams_n--;
    f->passes = false;
    if (counts_busy(f) ? a->forwards_n-- == FORWARDS_MAX : a->forward_waits_n-- == WAITS_MAX) lanes_unstall(a->m);
    if (f->req.type == MSG_PUT) put_in_forget(a, f);
    f->asker = NULL;
}

static void forward_free(struct manager *m, struct forward *f) {
    struct forwards *t = m->forward_table;
    if (f->asker) asker_unlink(f);
    if (f->in_transit) transit_abort(m, &f->transit);
    *f->p_prev = f->p_next;
    if (f->p_next) f->p_next->p_prev = f->p_prev;
    t->slot[ID_INDEX(f->id)] = NULL;
    t->unused[t->unused_n++] = ID_INDEX(f->id);
    if (counts_busy(f)) m->peers_busy--;
    free(f);
}

static void tell_owner(struct forward *f, unsigned type, uint64_t aux) {
    struct msg r = {.type = (uint16_t)type, .flags = MSGF_HOP, .id = f->id, .aux = aux, .manager = f->from};
    peer_send(f->peer, &r, NULL, 0); /* an error is the connection's, whose end answers everything */
}

/* --- to the owner --- */
int forward_begin(struct asker *a, const struct msg *req, const uint8_t *payload, uint32_t to) {
    struct manager *m = a->m;
    bool stream = req->type == MSG_PUT && req->flags & MSGF_STREAM;
    int e;
    bool waits = req->flags & MSGF_WAIT;
    if (waits ? a->forward_waits_n >= WAITS_MAX : a->forwards_n >= FORWARDS_MAX) return TAKE_STALL;
    struct peer *p = peer_get(m, to, &e);
    if (p && peer_full(p)) return TAKE_STALL;
    struct forward *f = p ? calloc(1, sizeof *f) : NULL;
    if (!f || !slot_take(m->forward_table, f)) {
        if (p) e = -ENOMEM;
        free(f);
        asker_reply(a, req, e, dd_strerror(e));
        return stream ? put_in_pass(a, req, NULL) : TAKE_DONE;
    }
    f->asker = a;
    f->peer = p;
    f->from = to;
    f->req = *req;
    f->began = clock_ns();
    f->put_open = stream;
    list_append(a, f);
    if (waits) a->forward_waits_n++;
    else a->forwards_n++;
    f->p_prev = peer_forwards(p);
    f->p_next = *f->p_prev;
    if (f->p_next) f->p_next->p_prev = &f->p_next;
    *f->p_prev = f;
    if (counts_busy(f)) m->peers_busy++;

    struct msg r = *req;
    r.id = f->id;
    r.manager = to;
    r.flags = (uint16_t)((req->flags & ~MSGF_VIEW) | MSGF_HOP);
    if (req->type == MSG_GET || req->type == MSG_POP || req->type == MSG_KEYS) r.val_len = f->allowed = WINDOW_FIRST;
    e = stream ? put_in_pass(a, req, f) : 0;
    if (e == 0) e = peer_send(p, &r, payload, req->len - MSG_HEADER);
    if (e < 0 && e != -ENOMEM && e != DDICT_EPROTO) e = DDICT_ELOST;
    if (e < 0) {
        forward_free(m, f);
        if (e == DDICT_EPROTO) return e;
        asker_reply(a, req, e, dd_strerror(e));
    }
    return TAKE_DONE;
}

bool forward_stalled(struct forward *f) { return peer_full(f->peer); }

int forward_data(struct forward *f, const struct msg *m, const uint8_t *payload) {
    struct msg r = *m;
    r.id = f->id;
    r.flags |= MSGF_HOP;
    r.manager = f->from;
    if (m->flags & MSGF_LAST) f->put_open = false;
    int e = peer_send(f->peer, &r, payload, m->len - MSG_HEADER);
    return e == -ENOMEM ? e : 0; /* a lost connection answers the put when it is reaped */
}

void forward_abort(struct forward *f, uint64_t id) {
    if (f->put_open) tell_owner(f, MSG_ABORT, 0); /* the owner answers the put */
    f->put_open = false;
}

bool forward_cancel(struct asker *a, uint64_t id) {
    for (struct forward *f = a->forwards; f; f = f->a_next) {
        if (f->req.id != id) continue;
        tell_owner(f, MSG_CANCEL, f->id);
        return true;
    }
    return false;
}

void forwards_end(struct asker *a) {
    while (a->forwards) {
        struct forward *f = a->forwards;
        if (f->put_open) tell_owner(f, MSG_ABORT, 0);
        else if (f->streams || f->req.flags & MSGF_WAIT) tell_owner(f, MSG_CANCEL, f->id);
        f->put_open = false;
        asker_unlink(f);
        if (f->in_transit && !f->landing) {
            transit_abort(a->m, &f->transit);
            f->in_transit = false;
        }
    }
}

void forwards_took(struct asker *a) {
    uint64_t open = 0; /* bytes that may come and have not: of all streams of this asker */
    for (const struct forward *f = a->forwards; f; f = f->a_next)
        if (f->passes) open += (f->allowed < f->reply.val_len ? f->allowed : f->reply.val_len) - f->got;
    for (struct forward *f = a->forwards, *next; f && open < DD_STREAM_WINDOW; f = next) {
        next = f->a_next;
        if (!f->passes || f->allowed >= f->reply.val_len || f->allowed - f->got > DD_STREAM_WINDOW / 2) continue;
        open += f->got + DD_STREAM_WINDOW - f->allowed;
        f->allowed = f->got + DD_STREAM_WINDOW;
        tell_owner(f, MSG_CREDIT, f->allowed);
        list_remove(a, f); /* to the end: next time it is the others' turn */
        list_append(a, f);
    }
}

/* --- from the owner --- */
static bool wants_place(const struct forward *f, const struct msg *r) {
    return f->asker && f->req.flags & MSGF_VIEW && r->status == 0 && r->val_len > DD_VIEW_INLINE;
}

static bool take_transit(struct manager *m, struct forward *f, const struct msg *r) {
    f->in_transit = transit_reserve(m, r->val_len, r->tag, r->version, &f->transit);
    return f->in_transit;
}

void *forward_place(struct manager *m, const struct msg *r) {
    struct forward *f = forward_find(m, r->id);
    uint64_t len = r->len - MSG_HEADER;
    if (!f) return NULL;
    if (r->type == MSG_REPLY) {
        if (f->streams || r->flags & MSGF_STREAM || !wants_place(f, r) || len != r->val_len || !take_transit(m, f, r)) return NULL;
        f->landing = true;
        return f->transit.value;
    }
    if (!f->in_transit || r->aux != f->got || len > f->reply.val_len - f->got) return NULL;
    f->landing = true;
    return f->transit.value + f->got;
}

/* The value is in its transit block: tell the asker where. */
static void forward_placed(struct manager *m, struct forward *f, const struct msg *r) {
    struct msg out;
    if (!f->asker) return; /* forward_free() gives the block back */
    reply_init(&out, f->req.id, m->setup->id);
    out.val_len = r->val_len;
    out.tag = r->tag;
    out.version = r->version;
    if (store_pin(m->store, f->transit.off) < 0) {
        asker_reply(f->asker, &f->req, -ENOMEM, NULL);
        return;
    }
    store_retire(m->store, f->transit.off);
    f->in_transit = false;
    out.flags = MSGF_PLACED;
    out.aux = f->transit.off;
    out.len = MSG_HEADER;
    lane_send_placed(f->asker, &out, f->transit.off);
}

static void forward_end(struct manager *m, struct forward *f) {
    if ((f->req.type == MSG_GET || f->req.type == MSG_POP) && counts_busy(f)) count_latency(m, DDICT_OP_FETCH, f->began, clock_ns());
    forward_free(m, f);
}

static int answer_reply(struct manager *m, struct forward *f, const struct msg *r, const uint8_t *payload) {
    size_t len = r->len - MSG_HEADER;
    if (f->streams || (r->flags & MSGF_STREAM && (r->status < 0 || len != 0))) return DDICT_EPROTO;
    if (r->flags & MSGF_STREAM) {
        if (f->req.type != MSG_GET && f->req.type != MSG_POP && f->req.type != MSG_KEYS) return DDICT_EPROTO;
        f->reply = *r;
        if (wants_place(f, r) && f->req.type != MSG_KEYS && take_transit(m, f, r)) {
            if (r->val_len > f->allowed) tell_owner(f, MSG_CREDIT, UINT64_MAX);
            f->allowed = UINT64_MAX;
        } else if (f->asker) {
            f->asker->streams_n++;
            f->passes = true;
        }
        f->streams = true;
        if (!f->asker) tell_owner(f, MSG_CANCEL, f->id);
        if (!f->asker || f->in_transit) return 0;
    } else if (f->in_transit) {
        f->landing = false;
        forward_placed(m, f, r);
        forward_end(m, f);
        return 0;
    }
    if (f->asker) {
        struct msg out = *r;
        out.id = f->req.id;
        out.flags &= MSGF_STREAM;
        asker_send(f->asker, &out, payload, len);
        if (f->streams && lane_idle_out(f->asker)) forwards_took(f->asker);
    }
    if (f->streams) return 0;
    if (f->put_open) tell_owner(f, MSG_ABORT, 0); /* refused in the middle: its id is free at the owner then */
    forward_end(m, f);
    return 0;
}

static int answer_data(struct manager *m, struct forward *f, const struct msg *r, const uint8_t *payload) {
    uint64_t len = r->len - MSG_HEADER;
    bool last = r->flags & MSGF_LAST, broken = r->status < 0;
    f->landing = false;
    if (!f->streams || r->aux != f->got || len > f->reply.val_len - f->got || (broken && (!last || len))) return DDICT_EPROTO;
    if (!broken && last != (f->got + len == f->reply.val_len)) return DDICT_EPROTO;
    if (f->in_transit) {
        if (!broken && payload != f->transit.value + f->got) memcpy(f->transit.value + f->got, payload, len);
        f->got += len;
        if (broken && f->asker) asker_reply(f->asker, &f->req, r->status, "the value could not be sent to its end");
        if (last && !broken) forward_placed(m, f, &f->reply);
    } else if (f->asker) {
        struct msg out = *r;
        out.id = f->req.id;
        out.flags &= MSGF_LAST;
        asker_send(f->asker, &out, payload, len);
        f->got += len;
    } else f->got += len;
    if (!f->asker && f->in_transit) {
        transit_abort(m, &f->transit);
        f->in_transit = false;
    }
    struct asker *a = f->passes ? f->asker : NULL;
    if (last) forward_end(m, f);
    if (a && lane_idle_out(a)) forwards_took(a); /* also at the end: what it was allowed and did not take is the others' */
    return 0;
}

int forward_answer(struct manager *m, uint32_t from, const struct msg *r, const uint8_t *payload) {
    struct forward *f = forward_find(m, r->id);
    if (!f || f->from != from) return DDICT_EPROTO;
    return r->type == MSG_REPLY ? answer_reply(m, f, r, payload) : answer_data(m, f, r, payload);
}

void forwards_lost(struct manager *m, struct peer *p, const char *text) {
    while (*peer_forwards(p)) {
        struct forward *f = *peer_forwards(p);
        struct asker *a = f->passes ? f->asker : NULL;
        if (a) {
            struct msg out = {.type = MSG_DATA, .flags = MSGF_LAST, .id = f->req.id, .aux = f->got, .status = DDICT_ELOST, .manager = f->from};
            asker_send(a, &out, NULL, 0);
        } else if (f->asker) asker_reply(f->asker, &f->req, DDICT_ELOST, text);
        forward_free(m, f);
        if (a && lane_idle_out(a)) forwards_took(a);
    }
}
