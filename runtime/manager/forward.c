/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.c - requests for keys of other managers: passed on with an id of our own, the answer passed back. A value that is to be viewed is
 * received into a transit block of our arena; else what comes of it is received into the lane's ring itself, at most DD_STREAM_WINDOW ahead of what the
 * client has taken. A forward whose asker is gone stays in the table until the owner is done with it, so every id that comes back is known.
 *
 * A get that finds another of the same key on its way whose bytes the socket has not taken yet follows that one: it is not sent, and gets the same
 * answer. Never one that was sent: its value may be older than a put that was acknowledged since. Where the answer can not be
 * shared (it is passed on in pieces, or breaks off) the followers are sent after all.
 *
 * While FROZEN the transit block of a get becomes an item of the node cache, and a get may follow one that was sent (PROTOCOL 9).
 */
#include <base/clock.h>
#include <base/error.h>
#include <manager/manager.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FORWARDS_MAX 512u /* of one lane: the answers of so many may have to be kept for it */
#define WAITS_MAX \
    4096u /* of one lane that wait for their key, apart from those; more are refused: they must not keep the put that they wait for */
#define EVENTS_MAX 65536u /* likewise for events: one of each subscription at each manager */
#define WINDOW_FIRST \
    (2 *             \
     DD_MSG_PIECE) /* of a stream that nobody takes yet: 512 of them may stand before a client that takes nothing */
#define SAME_BUCKETS 256u
#define ID_INDEX(id) ((uint32_t)(id))

struct forward {
    struct asker *asker;              /* NULL: gone */
    struct forward *a_next, **a_prev; /* of the asker */
    struct forward *p_next, **p_prev; /* of the peer */
    struct peer *peer;
    uint32_t from;  /* the peer's manager id */
    uint64_t id;    /* ours, as the owner sees it */
    struct msg req; /* as the asker sent it */
    uint64_t began;
    uint64_t age_ms; /* since it began, counted by forwards_late() */
    unsigned
        via;    /* of the peer's connections; all of a request that comes in pieces goes over one */
    bool again; /* it was asked for once more already, after the connection was lost */
    bool put_open;            /* pieces of the put may still come */
    bool streams;             /* the reply comes in pieces */
    bool passes;              /* they go on to the asker's lane; counted in its streams_n */
    bool in_transit, landing; /* into a transit block; the connection is receiving into it now */
    uint64_t epoch;           /* of a get that was sent while FROZEN; else 0 */
    bool caches;              /* the transit block is to become a cached item */
    struct store_ref transit;
    struct pull *pull; /* reads the value out of the owner's arena */
    struct msg reply;  /* of a streamed one: its header */
    uint64_t got, allowed;
    struct forward *leader; /* whose answer it gets; then it has no id, no peer and was not sent */
    struct forward *followers, *follows; /* those of a leader, linked by follows */
    struct forward *same_next,
        **same_prev; /* gets, or writes, whose keys have like hashes; same_prev NULL: not among them */
    uint64_t hash, position; /* of a get: of its key; of its end in the connection */
    uint8_t key[]; /* of a get or head: others may follow it, it may follow, or be sent again */
};
struct forwards {
    struct forward **slot;
    uint32_t *unused;
    uint32_t n, cap, unused_n;
    uint64_t generation;
    struct forward *same[SAME_BUCKETS];  /* gets that were not sent when they were looked at last */
    struct forward *write[SAME_BUCKETS]; /* of values: not answered yet */
    uint32_t writes_aside; /* of them those that do not go over the first connection */
};

int forwards_init(struct manager *m) {
    m->forward_table = calloc(1, sizeof *m->forward_table);
    return m->forward_table ? 0 : -ENOMEM;
}

void forwards_free(struct manager *m) {
    if (!m->forward_table)
        return;
    free(m->forward_table->slot);
    free(m->forward_table->unused);
    free(m->forward_table);
}

static bool slot_take(struct forwards *t, struct forward *f) {
    if (t->unused_n == 0 && t->n == t->cap) {
        uint32_t cap = t->cap ? 2 * t->cap : 256;
        struct forward **slot = realloc(t->slot, cap * sizeof *slot);
        if (slot)
            t->slot = slot;
        uint32_t *unused = realloc(t->unused, cap * sizeof *unused);
        if (unused)
            t->unused = unused;
        if (!slot || !unused)
            return false;
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
static bool counts_busy(const struct forward *f) {
    return !(f->req.flags & MSGF_WAIT);
}

static unsigned *wait_count(struct asker *a, const struct forward *f) {
    return f->req.type == MSG_EVENTS ? &a->forward_events_n : &a->forward_waits_n;
}

static void list_append(struct asker *a, struct forward *f) {
    f->a_next = NULL;
    f->a_prev = a->forwards_end;
    *f->a_prev = f;
    a->forwards_end = &f->a_next;
}

static void list_remove(struct asker *a, struct forward *f) {
    *f->a_prev = f->a_next;
    if (f->a_next)
        f->a_next->a_prev = f->a_prev;
    else
        a->forwards_end = f->a_prev;
}

static void asker_unlink(struct forward *f) {
    struct asker *a = f->asker;
    list_remove(a, f);
    if (f->passes)
        a->streams_n--;
    f->passes = false;
    if (!counts_busy(f))
        --*wait_count(a, f);
    else if (a->forwards_n-- >= FORWARDS_MAX)
        lanes_unstall(a->m);
    if (f->req.type == MSG_PUT)
        put_in_forget(a, f);
    f->asker = NULL;
}

static void same_remove(struct forward *f) {
    if (!f->same_prev)
        return;
    *f->same_prev = f->same_next;
    if (f->same_next)
        f->same_next->same_prev = f->same_prev;
    f->same_prev = NULL;
}

static void same_add(struct forward **list, struct forward *f) {
    f->same_prev = &list[f->hash % SAME_BUCKETS];
    f->same_next = *f->same_prev;
    if (f->same_next)
        f->same_next->same_prev = &f->same_next;
    *f->same_prev = f;
}

/* A get of this key that was not sent yet. */
static struct forward *same_find(struct manager *m, uint32_t to, const uint8_t *key,
                                 uint32_t key_len, uint64_t hash) {
    for (struct forward *f = m->forward_table->same[hash % SAME_BUCKETS], *next; f; f = next) {
        next = f->same_next;
        bool frozen =
            f->epoch && f->epoch == m->frozen; /* its answer is what is there now (PROTOCOL 9) */
        if (!frozen && !peer_unsent(f->peer, f->position))
            same_remove(f);
        else if (f->hash == hash && f->from == to && f->req.key_len == key_len &&
                 memcmp(f->key, key, key_len) == 0)
            return f;
    }
    return NULL;
}

static bool writes(unsigned type) {
    return type == MSG_PUT || type == MSG_DEL || type == MSG_POP;
}

/*
 * Which connection: requests of one key stay in order, so they follow what is on its way to write it. Else large values go aside.
 */
static unsigned via_choose(struct manager *m, struct peer *p, const struct msg *req,
                           uint64_t hash) {
    const struct forwards *t = m->forward_table;
    bool aside = req->type == MSG_PUT && req->flags & MSGF_STREAM;
    if ((!aside && t->writes_aside == 0) || req->key_len == 0)
        return 0;
    for (const struct forward *f = t->write[hash % SAME_BUCKETS]; f; f = f->same_next)
        if (f->hash == hash && f->peer == p)
            return f->via;
    return aside ? peer_via(p) : 0;
}

static void leader_leave(struct forward *f) {
    struct forward **at = &f->leader->followers;
    while (*at != f)
        at = &(*at)->follows;
    *at = f->follows;
    f->leader = NULL;
}

static void forward_free(struct manager *m, struct forward *f) {
    struct forwards *t = m->forward_table;
    if (f->asker)
        asker_unlink(f);
    if (f->pull)
        pull_forget(f->pull, f->in_transit ? &f->transit : NULL);
    else if (f->in_transit)
        transit_abort(m, &f->transit);
    if (f->same_prev && writes(f->req.type))
        t->writes_aside -= f->via != 0;
    same_remove(f);
    if (f->leader)
        leader_leave(f);
    if (f->id) {
        *f->p_prev = f->p_next;
        if (f->p_next)
            f->p_next->p_prev = f->p_prev;
        t->slot[ID_INDEX(f->id)] = NULL;
        t->unused[t->unused_n++] = ID_INDEX(f->id);
    }
    if (counts_busy(f))
        m->peers_busy--;
    free(f);
}

static void tell_owner(struct forward *f, unsigned type, uint64_t aux) {
    struct msg r = {
        .type = (uint16_t)type, .flags = MSGF_HOP, .id = f->id, .aux = aux, .manager = f->from};
    peer_send(f->peer, f->via, &r, NULL,
              0); /* an error is the connection's, whose end answers everything */
}

/* --- to the owner --- */
static struct forward *forward_new(struct asker *a, const struct msg *req, const uint8_t *key,
                                   uint64_t hash, uint32_t to) {
    size_t key_len = key ? req->key_len : 0;
    struct forward *f = malloc(sizeof *f + key_len);
    if (!f)
        return NULL;
    *f = (struct forward){.asker = a, .from = to, .req = *req, .began = clock_ns(), .hash = hash};
    if (key_len)
        memcpy(f->key, key, key_len);
    list_append(a, f);
    if (counts_busy(f)) {
        a->forwards_n++;
        a->m->peers_busy++;
    } else
        ++*wait_count(a, f);
    return f;
}

/* Negative: it has no id and no peer as before. */
static int forward_send(struct forward *f, struct peer *p, const uint8_t *payload) {
    struct manager *m = f->asker->m;
    const struct msg *req = &f->req;
    if (!slot_take(m->forward_table, f))
        return -ENOMEM;
    f->peer = p;
    peer_asked(p);
    if (req->patience_ms && !m->late.pos)
        timer_after(&m->timers, &m->late, DD_LATE_MS * 1000000ull);
    f->p_prev = peer_forwards(p);
    f->p_next = *f->p_prev;
    if (f->p_next)
        f->p_next->p_prev = &f->p_next;
    *f->p_prev = f;

    struct msg r = *req;
    r.id = f->id;
    r.manager = f->from;
    r.flags = (uint16_t)((req->flags & ~(MSGF_VIEW | MSGF_REMOTE)) | MSGF_HOP);
    if (req->type == MSG_GET || req->type == MSG_POP || req->type == MSG_KEYS)
        r.val_len = f->allowed = WINDOW_FIRST;
    if (m->setup->rma && (req->type == MSG_GET || req->type == MSG_POP))
        r.flags |= MSGF_REMOTE;
    if (req->type == MSG_GET)
        f->epoch = m->frozen;
    int e = f->put_open ? put_in_pass(f->asker, req, f) : 0;
    if (e == 0)
        e = peer_send(p, f->via, &r, payload, req->len - MSG_HEADER);
    f->position = peer_position(p);
    return e < 0 && e != -ENOMEM && e != DDICT_EPROTO ? DDICT_ELOST : e;
}

/* Those at managers that do not move do not count: they may take any time, and there are no more of them (they are parked). */
static bool too_many(const struct asker *a, uint32_t to) {
    unsigned n = 0;
    if (a->forwards_n < FORWARDS_MAX)
        return false;
    if (peer_stuck(a->m, to))
        return true;
    for (const struct forward *f = a->forwards; f; f = f->a_next)
        n += counts_busy(f) && !peer_stuck(a->m, f->from);
    return n >= FORWARDS_MAX;
}

int forward_again(struct asker *a, const struct msg *req, const uint8_t *payload,
                  const uint8_t *key, uint64_t hash, uint32_t to) {
    struct manager *m = a->m;
    bool stream = req->type == MSG_PUT && req->flags & MSGF_STREAM, waits = req->flags & MSGF_WAIT,
         joins = req->type == MSG_GET && !waits;
    int e = -ENOMEM;
    if (waits && (req->type == MSG_EVENTS ? a->forward_events_n >= EVENTS_MAX
                                          : a->forward_waits_n >= WAITS_MAX)) {
        asker_reply(a, req, DDICT_EBUSY,
                    "as many requests of this process wait at managers of other nodes as may");
        return TAKE_DONE;
    }
    if (!waits && too_many(a, to))
        return TAKE_STALL;
    struct forward *leader = joins ? same_find(m, to, key, req->key_len, hash) : NULL, *f = NULL;
    struct peer *p = leader ? NULL : peer_get(m, to, &e);
    unsigned via = p ? via_choose(m, p, req, hash) : 0;
    if (p && peer_full(p, via))
        return TAKE_STALL;
    if (p || leader) {
        f = forward_new(a, req, req->type == MSG_GET || req->type == MSG_HEAD ? key : NULL, hash,
                        to);
        e = f ? 0 : -ENOMEM;
    }
    if (!f) {
        asker_reply(a, req, e, dd_strerror(e));
        return stream ? put_in_pass(a, req, NULL) : TAKE_DONE;
    }
    if (leader) {
        f->leader = leader;
        f->follows = leader->followers;
        leader->followers = f;
        return TAKE_DONE;
    }
    f->put_open = stream;
    f->via = via;
    e = forward_send(f, p, joins ? f->key : payload);
    if (e < 0) {
        bool known = f->id != 0; /* else the pieces of a put that come are nobody's */
        forward_free(m, f);
        if (e == DDICT_EPROTO)
            return e;
        asker_reply(a, req, e, dd_strerror(e));
        return stream && !known ? put_in_pass(a, req, NULL) : TAKE_DONE;
    }
    if (joins && via == 0)
        same_add(m->forward_table->same, f);
    if (writes(req->type)) {
        same_add(m->forward_table->write, f);
        m->forward_table->writes_aside += via != 0;
    }
    return TAKE_DONE;
}

int forward_begin(struct asker *a, const struct msg *req, const uint8_t *payload,
                  const uint8_t *key, uint64_t hash, uint32_t to) {
    if (parked_before(a, to))
        return parked_add(a, req, payload, to);
    int e = forward_again(a, req, payload, key, hash, to);
    if (e != TAKE_STALL)
        return e;
    if (a->kind == ASKER_LANE && peer_stuck(a->m, to))
        return parked_add(a, req, payload, to);
    forward_stall(a->m);
    return TAKE_STALL;
}

/* The answer of f is not theirs: ask for themselves. */
static void followers_send(struct manager *m, struct forward *f) {
    while (f->followers) {
        struct forward *g = f->followers;
        int e;
        leader_leave(g);
        struct peer *p = peer_get(m, g->from, &e);
        if (p)
            e = forward_send(g, p, g->key);
        if (e == 0)
            continue;
        asker_reply(g->asker, &g->req, e, dd_strerror(e));
        forward_free(m, g);
    }
}

bool forward_stalled(struct forward *f) {
    bool full = peer_full(f->peer, f->via);
    if (full)
        forward_stall(f->asker->m);
    return full;
}

bool forward_parks(struct forward *f, uint32_t *to) {
    *to = f->from;
    return parked_before(f->asker, f->from) ||
           (peer_full(f->peer, f->via) && peer_stuck(f->asker->m, f->from));
}

int forward_data(struct forward *f, const struct msg *m, const uint8_t *payload) {
    struct msg r = *m;
    r.id = f->id;
    r.flags |= MSGF_HOP;
    r.manager = f->from;
    if (m->flags & MSGF_LAST)
        f->put_open = false;
    int e = peer_send(f->peer, f->via, &r, payload, m->len - MSG_HEADER);
    return e == -ENOMEM ? e : 0; /* a lost connection answers the put when it is reaped */
}

void forward_abort(struct forward *f, uint64_t id) {
    if (f->put_open)
        tell_owner(f, MSG_ABORT, 0); /* the owner answers the put */
    f->put_open = false;
}

/* Its asker is gone, or was answered: what comes is dropped. */
static void forward_leave(struct forward *f, bool cancel) {
    struct asker *a = f->asker;
    if (f->leader) {
        forward_free(a->m, f);
        return;
    }
    if (f->put_open)
        tell_owner(f, MSG_ABORT, 0);
    else if (cancel || f->streams || f->req.flags & MSGF_WAIT)
        tell_owner(f, MSG_CANCEL, f->id);
    f->put_open = false;
    asker_unlink(f);
    if (f->pull)
        pull_stop(f->pull);
    if (f->in_transit && !f->landing && !f->pull) {
        transit_abort(a->m, &f->transit);
        f->in_transit = false;
    }
    if (f->streams)
        same_remove(f);
    if (f->streams)
        followers_send(a->m,
                       f); /* what comes is not for them; an answer that did not come yet may be */
}

static void forward_give_up(struct forward *f, int status, const char *text) {
    if (f->passes) {
        struct msg r = {.type = MSG_DATA,
                        .flags = MSGF_LAST,
                        .id = f->req.id,
                        .aux = f->got,
                        .status = status,
                        .manager = f->from};
        asker_send(f->asker, &r, NULL, 0);
    } else
        asker_reply(f->asker, &f->req, status, text);
    forward_leave(f, true);
}

bool forward_cancel(struct asker *a, uint64_t id) {
    for (struct forward *f = a->forwards; f; f = f->a_next) {
        if (f->req.id != id)
            continue;
        forward_give_up(f, -ECANCELED, NULL);
        return true;
    }
    return false;
}

bool forwards_late(struct manager *m) {
    struct forwards *t = m->forward_table;
    bool more = false;
    for (uint32_t i = 0; i < t->n; i++) {
        struct forward *f = t->slot[i];
        if (!f || !f->asker || !f->req.patience_ms || f->streams || f->put_open)
            continue; /* what is being streamed has deadlines of its own */
        f->age_ms += DD_LATE_MS;
        if (f->age_ms > (uint64_t)f->req.patience_ms + DD_LATE_MS)
            forward_give_up(f, -ETIMEDOUT, "the manager of this key has not answered in time");
        else
            more = true;
    }
    return more;
}

void forwards_end(struct asker *a) {
    while (a->forwards)
        forward_leave(a->forwards, false);
}

void forwards_took(struct asker *a) {
    uint64_t open = 0; /* bytes that may come and have not: of all streams of this asker */
    for (const struct forward *f = a->forwards; f; f = f->a_next)
        if (f->passes)
            open += (f->allowed < f->reply.val_len ? f->allowed : f->reply.val_len) - f->got;
    for (struct forward *f = a->forwards, *next; f && open < DD_STREAM_WINDOW; f = next) {
        next = f->a_next;
        if (!f->passes || f->allowed >= f->reply.val_len ||
            f->allowed - f->got > DD_STREAM_WINDOW / 2)
            continue;
        open += f->got + DD_STREAM_WINDOW - f->allowed;
        f->allowed = f->got + DD_STREAM_WINDOW;
        if (f->pull)
            pull_more(f->pull, f->allowed);
        else
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
    f->caches =
        f->asker && f->epoch && cache_reserve(m, f->epoch, f->key, f->req.key_len, r, &f->transit);
    f->in_transit = f->caches || (wants_place(f, r) &&
                                  transit_reserve(m, r->val_len, r->tag, r->version, &f->transit));
    return f->in_transit;
}

void *forward_place(struct manager *m, const struct msg *r) {
    struct forward *f = forward_find(m, r->id);
    uint64_t len = r->len - MSG_HEADER;
    if (!f)
        return NULL;
    if (r->type == MSG_REPLY) {
        if (f->streams || r->flags & MSGF_STREAM || len != r->val_len || !take_transit(m, f, r))
            return NULL;
        f->landing = true;
        return f->transit.value;
    }
    if (!f->in_transit || f->pull || r->aux != f->got || len > f->reply.val_len - f->got)
        return NULL;
    f->landing = true;
    return f->transit.value + f->got;
}

static void unpin_done(struct manager *m, uint64_t off, void *ptr) {
    store_unpin(m->store, off);
}

/* The value of f is in a transit block: the place for a view, a copy for a follower that wants one. */
static void transit_give(struct manager *m, const struct forward *f, const struct store_ref *at,
                         const struct msg *r) {
    struct msg out;
    if (f->asker->kind == ASKER_SELF)
        return;
    bool view = f->req.flags & MSGF_VIEW, streams = !view && r->val_len > DD_MSG_INLINE;
    reply_init(&out, f->req.id, m->setup->id);
    out.val_len = r->val_len;
    out.tag = r->tag;
    out.version = r->version;
    if (!view && !streams) {
        asker_send(f->asker, &out, at->value, r->val_len);
        return;
    }
    int e = store_pin(m->store, at->off);
    if (e == 0 && streams &&
        (e = give_begin(f->asker, &out, at->value, r->val_len, 0, unpin_done, at->off, NULL)) < 0)
        store_unpin(m->store, at->off);
    if (e < 0)
        asker_reply(f->asker, &f->req, -ENOMEM, NULL);
    if (e < 0 || streams)
        return;
    out.flags = MSGF_PLACED;
    out.aux = at->off;
    out.len = MSG_HEADER;
    lane_send_placed(f->asker, &out, at->off);
}

static void forward_end(struct manager *m, struct forward *f) {
    if ((f->req.type == MSG_GET || f->req.type == MSG_POP) && counts_busy(f))
        count_latency(m, DDICT_OP_FETCH, f->began, clock_ns());
    forward_free(m, f);
}

/* Nobody else counts what the owner was not asked for. */
static void follower_count(struct manager *m, const struct forward *f, const struct msg *r) {
    if (f->asker->kind == ASKER_SELF)
        return;
    m->count->gets_remote += r->status == 0;
    m->count->misses += r->status == DDICT_ENOKEY;
}

/* All of it is in its transit block. */
static void forward_placed(struct manager *m, struct forward *f, const struct msg *r) {
    if (!f->asker && !f->followers)
        return; /* forward_free() gives the block back */
    if (f->asker)
        transit_give(m, f, &f->transit, r);
    while (f->followers) {
        follower_count(m, f->followers, r);
        transit_give(m, f->followers, &f->transit, r);
        forward_end(m, f->followers);
    }
    if (f->caches)
        cache_publish(m, f->epoch, &f->transit);
    else
        store_retire(m->store, f->transit.off);
    f->in_transit = false;
}

static void reply_pass(const struct forward *f, const struct msg *r, const uint8_t *payload) {
    struct msg out = *r;
    out.id = f->req.id;
    out.flags &= MSGF_STREAM;
    asker_send(f->asker, &out, payload, r->len - MSG_HEADER);
}

static int answer_reply(struct manager *m, struct forward *f, const struct msg *r,
                        const uint8_t *payload) {
    size_t len = r->len - MSG_HEADER;
    bool remote = r->flags & MSGF_REMOTE,
         reads = m->setup->rma && (f->req.type == MSG_GET || f->req.type == MSG_POP);
    if (f->streams || (r->flags & MSGF_STREAM && (r->status < 0 || (len != 0) != remote)))
        return DDICT_EPROTO;
    if (remote && (!(r->flags & MSGF_STREAM) || !reads))
        return DDICT_EPROTO;
    if (r->flags & MSGF_STREAM) {
        if (f->req.type != MSG_GET && f->req.type != MSG_POP && f->req.type != MSG_KEYS)
            return DDICT_EPROTO;
        f->reply = *r;
        f->reply.len = MSG_HEADER;
        f->reply.flags = MSGF_STREAM;
        if (!remote)
            peer_more(f->peer);
        if (take_transit(m, f, r)) {
            if (!remote && r->val_len > f->allowed)
                tell_owner(f, MSG_CREDIT, UINT64_MAX);
            f->allowed = UINT64_MAX;
        } else if (f->asker && f->asker->kind == ASKER_SELF) {
            asker_unlink(f);
        } else if (f->asker) {
            f->asker->streams_n++;
            f->passes = true;
        }
        f->streams = true;
        if (remote && f->asker &&
            !(f->pull = pull_new(m, f, f->peer, f->id, f->in_transit ? f->transit.value : NULL, r,
                                 payload)))
            return DDICT_EPROTO;
        if (!f->asker)
            tell_owner(f, MSG_CANCEL, f->id);
        if (!f->in_transit) {
            same_remove(f);
            followers_send(m, f);
        }
        if (f->pull && f->in_transit)
            pull_more(f->pull, f->allowed);
        if (!f->asker || f->in_transit)
            return 0;
    } else if (f->in_transit || (r->val_len == 0 && len == 0 && take_transit(m, f, r))) {
        f->landing = false;
        forward_placed(m, f, r);
        forward_end(m, f);
        return 0;
    }
    if (f->asker) {
        reply_pass(f, f->streams ? &f->reply : r, payload);
        if (f->pull)
            pull_more(f->pull, f->allowed);
        if (f->streams && lane_idle_out(f->asker))
            forwards_took(f->asker);
    }
    if (f->streams)
        return 0;
    if (r->status == -ECANCELED)
        followers_send(m, f);
    while (f->followers) {
        follower_count(m, f->followers, r);
        reply_pass(f->followers, r, payload);
        forward_end(m, f->followers);
    }
    if (f->put_open)
        tell_owner(f, MSG_ABORT, 0); /* refused in the middle: its id is free at the owner then */
    forward_end(m, f);
    return 0;
}

/* Bytes of f have come and are dealt with. */
static void data_took(struct manager *m, struct forward *f, bool last) {
    struct asker *a = f->passes ? f->asker : NULL;
    if (last && f->followers)
        followers_send(m, f); /* it broke off */
    if (last)
        forward_end(m, f);
    if (a && lane_idle_out(a))
        forwards_took(a); /* also at the end: what it was allowed and did not take is the others' */
}

static int data_in(struct manager *m, struct forward *f, const struct msg *r,
                   const uint8_t *payload) {
    uint64_t len = r->len - MSG_HEADER;
    bool last = r->flags & MSGF_LAST, broken = r->status < 0;
    f->landing = false;
    if (!f->streams || r->aux != f->got || len > f->reply.val_len - f->got ||
        (broken && (!last || len)))
        return DDICT_EPROTO;
    if (!broken && last != (f->got + len == f->reply.val_len))
        return DDICT_EPROTO;
    if (f->in_transit) {
        if (!broken && payload != f->transit.value + f->got)
            memcpy(f->transit.value + f->got, payload, len);
        f->got += len;
        if (broken && f->asker)
            asker_reply(f->asker, &f->req, r->status, "the value could not be sent to its end");
        if (last && !broken)
            forward_placed(m, f, &f->reply);
    } else if (f->asker) {
        struct msg out = *r;
        out.id = f->req.id;
        out.flags &= MSGF_LAST;
        asker_send(f->asker, &out, payload, len);
        f->got += len;
    } else
        f->got += len;
    if (!f->asker && f->in_transit && !f->pull) {
        transit_abort(m, &f->transit);
        f->in_transit = false;
    }
    data_took(m, f, last);
    return 0;
}

static int answer_data(struct manager *m, struct forward *f, const struct msg *r,
                       const uint8_t *payload) {
    return f->pull ? pull_heard(f->pull, r) : data_in(m, f, r, payload);
}

void forward_pulled(struct manager *m, struct forward *f, const struct msg *r,
                    const uint8_t *payload) {
    data_in(m, f, r, payload);
}

void *forward_part_to(struct manager *m, uint32_t from, const struct msg *r, uint32_t got,
                      uint32_t *room) {
    struct forward *f = forward_find(m, r->id);
    if (r->type != MSG_DATA || r->status < 0 || !f || f->from != from || !f->passes || f->pull ||
        r->aux + got != f->got)
        return NULL;
    uint64_t whole = r->aux + r->len - MSG_HEADER;
    bool last = r->flags & MSGF_LAST;
    if (whole > f->reply.val_len || last != (whole == f->reply.val_len))
        return NULL; /* as a message it breaks the rules */
    return lane_part(f->asker, room);
}

int forward_part(struct manager *m, const struct msg *r, uint32_t got, const void *at, uint32_t n) {
    struct forward *f = forward_find(m, r->id);
    if (!f)
        return DDICT_EPROTO;
    bool last = r->flags & MSGF_LAST && got + n == r->len - MSG_HEADER;
    if (f->asker) {
        struct msg out = *r;
        out.id = f->req.id;
        out.aux = f->got;
        out.flags = last ? MSGF_LAST : 0;
        lane_part_done(f->asker, &out, at, n);
    }
    f->got += n;
    data_took(m, f, last);
    return 0;
}

int forward_answer(struct manager *m, uint32_t from, const struct msg *r, const uint8_t *payload) {
    struct forward *f = forward_find(m, r->id);
    if (!f || f->from != from)
        return DDICT_EPROTO;
    return r->type == MSG_REPLY ? answer_reply(m, f, r, payload) : answer_data(m, f, r, payload);
}

/* Nothing of it can have happened, or it changes nothing; and its key is still here. */
static bool repeats(const struct forward *f) {
    return f->asker && !f->again && !f->streams && !f->in_transit &&
           (f->req.type == MSG_GET || f->req.type == MSG_HEAD);
}

/* Out of the peer's list, with no id, as before it was sent. */
static void unsend(struct manager *m, struct forward *f) {
    struct forwards *t = m->forward_table;
    same_remove(f);
    *f->p_prev = f->p_next;
    if (f->p_next)
        f->p_next->p_prev = f->p_prev;
    t->slot[ID_INDEX(f->id)] = NULL;
    t->unused[t->unused_n++] = ID_INDEX(f->id);
    f->id = 0;
    f->via = 0;
    f->again = true;
}

void forwards_lost(struct manager *m, struct peer *p, const char *text, bool again) {
    struct forward *repeat = NULL; /* linked by p_next */
    while (*peer_forwards(p)) {
        struct forward *f = *peer_forwards(p);
        if (again && repeats(f)) {
            unsend(m, f);
            f->p_next = repeat;
            repeat = f;
            continue;
        }
        struct asker *a = f->passes ? f->asker : NULL;
        while (f->followers) {
            asker_reply(f->followers->asker, &f->followers->req, DDICT_ELOST, text);
            forward_free(m, f->followers);
        }
        if (a) {
            struct msg out = {.type = MSG_DATA,
                              .flags = MSGF_LAST,
                              .id = f->req.id,
                              .aux = f->got,
                              .status = DDICT_ELOST,
                              .manager = f->from};
            asker_send(a, &out, NULL, 0);
        } else if (f->asker)
            asker_reply(f->asker, &f->req, DDICT_ELOST, text);
        forward_free(m, f);
        if (a && lane_idle_out(a))
            forwards_took(a);
    }
    while (repeat) {
        struct forward *f = repeat;
        uint64_t us = (clock_ns() - f->began) / 1000;
        int e;
        repeat = f->p_next;
        if (f->req.flags & MSGF_WAIT)
            f->req.aux -= us < f->req.aux ? us : f->req.aux;
        struct peer *q = peer_get(m, f->from, &e);
        if (q)
            e = forward_send(f, q, f->key);
        if (e == 0)
            continue;
        for (struct forward *g = f->followers; g; g = g->follows)
            asker_reply(g->asker, &g->req, DDICT_ELOST, text);
        while (f->followers)
            forward_free(m, f->followers);
        asker_reply(f->asker, &f->req, DDICT_ELOST, text);
        forward_free(m, f);
    }
}
