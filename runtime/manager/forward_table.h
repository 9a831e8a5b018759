/* SPDX-License-Identifier: Apache-2.0 */
/* forward_table.h - forwards, their states, and where they are found; for forward.c alone and what
 * is part of it. */
#ifndef DDICT_MANAGER_FORWARD_TABLE_H
#define DDICT_MANAGER_FORWARD_TABLE_H

#include "requester.h"

#define FORWARD_BUCKETS 256u

/* forward.c has the picture. */
enum forward_state {
    FORWARD_NEW,     /* not sent, or to be sent again */
    FORWARD_FOLLOWS, /* not sent: gets its leader's answer; has no id and no peer */
    FORWARD_PUTS,    /* sent, but for pieces of its value that still come */
    FORWARD_ASKED,   /* all of it was sent; the owner has not answered */
    FORWARD_LANDS,   /* the answer, with all of the value, is received into the block */
    FORWARD_PASSES,  /* the value comes in pieces, which go on to the requester's lane */
    FORWARD_FILLS,   /* the value comes in pieces, which go into the block */
    FORWARD_PIECE,   /* as FILLS, and a piece is being received into the block */
    FORWARD_DROPS,   /* the value comes in pieces, which nobody wants */
    FORWARD_OVER,    /* the block was given away: only forward_free() is left */
    FORWARD_STATE_N
};

struct forward {
    enum forward_state state;
    struct requester *requester;      /* NULL: gone */
    struct forward *a_next, **a_prev; /* of the requester */
    struct forward *p_next, **p_prev; /* of the peer */
    struct peer *peer;
    uint32_t from;  /* the peer's manager id */
    uint64_t id;    /* ours, as the owner sees it; 0: none */
    struct msg req; /* as the requester sent it */
    uint64_t began;
    uint64_t age_ms; /* since it began, counted by forwards_late() */
    unsigned via;    /* see forward_route.h */
    bool again;      /* it was asked for once more already, after the connection was lost */
    uint64_t epoch;  /* of a get that was sent while FROZEN; else 0 */
    struct store_ref block;
    bool caches;                         /* the block is to become a cached item */
    struct rma_read *rma_read;           /* brings the value; NULL: messages do */
    struct msg reply;                    /* of a value in pieces: its header */
    uint64_t got, allowed;               /* bytes of it that came, and that may come */
    struct forward *leader;              /* see forward_followers.h */
    struct forward *followers, *follows; /* those of a leader, linked by follows */
    /* gets, or writes, whose keys have like hashes; same_prev NULL: not among them */
    struct forward *same_next, **same_prev;
    uint64_t hash, position; /* of a get: of its key; of its end in the connection */
    /* of a get or head: others may follow it, it may follow, or be sent again */
    uint8_t key[];
};

struct forwards {
    struct forward **slot; /* by the lower half of the id */
    uint32_t *unused;
    uint32_t n, cap, unused_n;
    uint64_t generation;
    struct forward *same[FORWARD_BUCKETS];  /* forward_followers.c */
    struct forward *write[FORWARD_BUCKETS]; /* forward_route.c */
    uint32_t writes_aside;
};

int forwards_init(struct manager *m);
void forwards_free(struct manager *m);
/* With the id that the owner has of it; NULL: none. */
struct forward *forward_find(struct manager *m, uint64_t id);
/* In its requester's list and counts. key: the payload's, to be kept, or NULL. NULL: no memory. */
struct forward *forward_new(struct requester *a, const struct msg *req, const uint8_t *key,
                            uint64_t hash, uint32_t to);
/* Out of its requester's list and counts: the requester is gone. */
void forward_unlink(struct forward *f);
void forward_last(struct forward *f); /* to the end of its requester's list */
/* Of the peer, with an id; false: no memory. */
bool forward_enlist(struct forward *f, struct peer *p);
void forward_delist(struct manager *m, struct forward *f); /* with no id, as before */
/* Tell the owner, by a message of this type without a payload. */
void forward_tell(struct forward *f, unsigned type, uint64_t aux);
void forward_become(struct forward *f, enum forward_state state);
bool forward_has_block(const struct forward *f);
/* A request that waits for its key keeps nobody busy. */
static inline bool forward_busy(const struct forward *f) {
    return !(f->req.flags & MSGF_WAIT);
}
void bucket_add(struct forward **buckets, struct forward *f);
void bucket_remove(struct forward *f);
/* FORWARDS_MAX requests of a lane may be under way at managers that move. */
bool forwards_full(const struct requester *a, uint32_t to);
/* as many as may wait for their keys, or for events */
bool forward_waits_full(const struct requester *a, unsigned type);

#endif
