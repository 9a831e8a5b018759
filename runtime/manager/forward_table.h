/* SPDX-License-Identifier: Apache-2.0 */
/* forward_table.h - all forwards of a manager: by id, by requester, by peer. Private to
 * forward*.c. */
#ifndef DDICT_MANAGER_FORWARD_TABLE_H
#define DDICT_MANAGER_FORWARD_TABLE_H

#include "requester.h"
#include "results.h"

#define FORWARD_BUCKETS 256u

/* See the picture in forward.c. */
enum forward_state {
    FORWARD_NEW,     /* not sent, or to be sent again */
    FORWARD_FOLLOWS, /* not sent, without id and peer: will get its leader's answer */
    FORWARD_REWINDS, /* a put in pieces, sent again: the owner will say from where; pieces are dropped */
    FORWARD_PUTS,   /* sent, except for pieces of its value */
    FORWARD_ASKED,  /* sent completely; no answer yet */
    FORWARD_LANDS,  /* the answer, with the whole value, is being received into the block */
    FORWARD_PASSES, /* the value comes in pieces, which go on to the requester's lane */
    FORWARD_FILLS,  /* the value comes in pieces, which go into the block */
    FORWARD_PIECE,  /* as FILLS, and a piece is being received into the block */
    FORWARD_DROPS,  /* the value comes in pieces, which nobody wants */
    FORWARD_OVER,   /* the block was handed over; only forward_free() remains */
    FORWARD_STATE_N
};

struct forward {
    enum forward_state state;
    struct requester *requester;      /* NULL: gone */
    uint64_t who;                     /* that was it */
    struct forward *a_next, **a_prev; /* in the requester's list */
    struct forward *p_next, **p_prev; /* in the peer's list */
    struct peer *peer;
    uint32_t from;  /* the peer's manager id */
    uint64_t id;    /* our id, which the owner sees; 0: none */
    struct msg req; /* as the requester sent it */
    uint64_t began;
    uint64_t age_ms; /* since it began, counted by forwards_late() */
    unsigned via;    /* connection of the peer: see forward_route.h */
    uint32_t copied; /* bytes of its value that are kept to be sent again */
    bool rests;      /* its value waits for room, and is not on its way any more */
    /* in the ledger: a later life asks the owner again; NULL when answered */
    struct ledger_entry *entry;
    bool kept; /* key[] has what is kept of the payload; else the entry has */
    /* its answer waits for room in CQ, with the entry: the place of its id is that one's */
    bool queued;
    /* when it was last sent again, after the connection was lost; 0: never */
    uint64_t again_ns;
    /* of a put in pieces: numbers of the last REWIND, to its lane, and from the owner by this
     * connection */
    uint32_t rewind, told;
    uint64_t owner_had; /* the most bytes of it that the owner has said to have */
    uint64_t epoch;     /* of a get that was sent while FROZEN: m->frozen; else 0 */
    struct store_ref block;
    bool caches;               /* the block is to become a cached item */
    struct rma_read *rma_read; /* reads the value; NULL: the value comes in messages */
    struct msg reply;          /* header of a value in pieces */
    uint64_t got, allowed;     /* bytes of the value that came, and that may come */
    /* The requester has the reply, and so many bytes, from a connection that ended: what comes of
     * them again is dropped. */
    bool begun;
    uint64_t passed;
    struct forward *leader;              /* see forward_followers.h */
    struct forward *followers, *follows; /* a leader's followers, linked by `follows` */
    /* list of gets, or of writes, whose hash is in the same bucket; same_prev NULL: in none */
    struct forward *same_next, **same_prev;
    /* hash: of the key; position: end of a get in the byte stream of the connection */
    uint64_t hash, position;
    /* of a get or head, which may lead, follow, or be sent again; with --restarts the payload of all,
     * but of a put that has an entry */
    uint8_t key[];
};

/* A part of the table. */
struct forward_places {
    struct forward **slot;
    uint32_t *unused;
    uint32_t n, cap, unused_n;
};
struct forwards {
    /* By the lower half of the id. Below DD_RESULTS are changes alone, so that what reads or waits
     * for events takes no place that has a result (PROTOCOL 12); from there on are all others, and
     * changes that found no place below. */
    struct forward_places changes, others;
    /* of the last id, its upper half; in the ledger, if there is one: no life gives an id twice */
    uint64_t *number, own_number;
    struct forward *resumed;                /* see forward_resumed() */
    struct forward *same[FORWARD_BUCKETS];  /* gets that may lead */
    struct forward *write[FORWARD_BUCKETS]; /* writes without an answer */
    uint32_t writes_aside;
};

/* It changes something. */
static inline bool request_changes(const struct msg *req) {
    return req->type == MSG_PUT || req->type == MSG_POP || req->type == MSG_DEL ||
           req->type == MSG_CLEAR;
}
static inline bool forward_changes(const struct forward *f) {
    return request_changes(&f->req);
}
/* A later life can go on in the middle of its value. */
static inline bool forward_goes_on(const struct forward *f) {
    return f->entry && (f->req.type == MSG_GET || f->req.type == MSG_POP);
}
/* It changes something, and the owner keeps what became of it. */
static inline bool forward_has_result(const struct forward *f) {
    return forward_changes(f) && result_fits(f->id);
}
int forwards_init(struct manager *m);
void forwards_free(struct manager *m);
/* id: as the owner sees it. NULL: there is none. */
struct forward *forward_find(struct manager *m, uint64_t id);
/* A forward in the list and the counts of its requester. key: to be kept, or NULL; value: what is
 * kept of the payload behind it, or NULL. NULL: no memory. */
struct forward *forward_new(struct requester *a, const struct msg *req, const uint8_t *key,
                            const uint8_t *value, uint64_t hash, uint32_t to);
/* Before and after its requester is answered, with nothing else between; or forward_stays(), and it
 * was not. */
void forward_answers(struct forward *f);
void forward_answered(struct forward *f);
void forward_stays(struct forward *f);
/* Before and after its requester gets a part of the value; last: no more comes. */
void forward_passes(struct forward *f);
void forward_passed(struct forward *f, bool last);
/* Take it out of the list and the counts of its requester, and forget the requester. */
void forward_unlink(struct forward *f);
void forward_last(struct forward *f); /* to the end of its requester's list */
/* Give it an id, unless it has one, and put it into the list of the peer. False: no memory. */
bool forward_enlist(struct forward *f, struct peer *p);
void forward_delist(struct manager *m, struct forward *f); /* undo forward_enlist() */
/* In a later life, before anything gets an id: those of these entries are not given to others. False:
 * no memory. */
bool forwards_claim(struct manager *m, struct ledger_entry *const *list, size_t n);
/* Of an entry: its request is asked again when the connection to its owner ends. */
bool forward_asks(struct manager *m, const struct ledger_entry *e);
/* The entry with this id has ended: its place may be used again, if no forward is there. */
void forward_place_over(struct manager *m, uint64_t id);
/* The request of an entry: it is kept for forwards_resume(), in the order of these calls. */
void forward_resumed(struct forward *f);
void forward_leave_peer(struct forward *f); /* the same, but it keeps its id */
/* Send the owner a message of this type, without a payload. */
void forward_tell(struct forward *f, unsigned type, uint64_t aux);
void forward_become(struct forward *f, enum forward_state state);
bool forward_has_block(const struct forward *f);
/* With --restarts, an owner that dies comes back: what was asked of it is asked again. */
static inline bool forwards_return(const struct manager *m) {
    return m->setup->ledger;
}
/* Where the next byte for the requester is in the value. */
static inline uint64_t forward_at(const struct forward *f) {
    return f->got < f->passed ? f->passed : f->got;
}
/* A request that waits for its key does not count as work. */
static inline bool forward_busy(const struct forward *f) {
    return !(f->req.flags & MSGF_WAIT);
}
void bucket_add(struct forward **buckets, struct forward *f);
void bucket_remove(struct forward *f);
/* Bytes of the value of this request that are kept to be sent again. */
uint32_t forward_copies(const struct manager *m, const struct msg *req);
/* Whether the lane has FORWARDS_MAX forwards at managers that move, or too much is kept of those
 * that are on their way: it is to be tried again. */
bool forwards_full(struct requester *a, const struct msg *req, uint32_t to);
/* Whether it has as many waiting forwards as it may, for keys or for events, or as much is kept of
 * those that wait for room as may be. */
bool forward_waits_full(struct requester *a, const struct msg *req);

#endif
