/* SPDX-License-Identifier: Apache-2.0 */
/* requester.h - who sends requests: a client over a lane, or another manager over a connection. */
#ifndef DDICT_MANAGER_REQUESTER_H
#define DDICT_MANAGER_REQUESTER_H

#include "carrier.h"
#include "manager.h"

enum requester_kind {
    REQUESTER_LANE,
    REQUESTER_PEER,
    REQUESTER_SELF /* prefetch: takes no answers */
};
struct requester {
    struct manager *m;
    const struct carrier_ops *ops;
    enum requester_kind kind; /* decides what it may ask, and how it is counted */
    /* It broke a rule, or its carrier ended: nothing more is sent to it. Freed at the end of the
     * turn. */
    bool gone;
    uint64_t who; /* client id, or manager id | 1 << 63 */
    struct put_in *puts;
    struct stream_out *streams_out; /* round robin: the first sends next */
    struct stream_out **streams_out_end;
    struct rma_export *rma_exports;
    struct pending *pending;
    /* see store_reserve_again(); of a lane: for all requests before this position */
    uint64_t room_scan, room_upto;
    uint64_t room_since; /* since when its put waits for room that is being made; 0: none waits */
    struct forward *forwards, **forwards_end; /* the first gets credit next */
    struct parking *parkings; /* of a lane: requests for managers that do not move */
    bool unparks;             /* while parked requests are passed on */
    /* forwards: those that do not wait for their key; those that do; those that wait for events;
     * those whose reply comes in pieces */
    unsigned forwards_n, forward_waits_n, forward_events_n, streams_n;
    /* bytes of values that are kept to be sent again: of those on their way; of those that wait for
     * room */
    size_t forward_copies, forward_wait_copies;
};

/* Results of request_take(). */
enum { TAKE_DONE = 0, TAKE_STALL = 1, TAKE_LATER = 2, TAKE_PAUSE = 3 };

void requester_init(struct requester *a, struct manager *m, enum requester_kind kind,
                    const struct carrier_ops *ops, uint64_t who);
/* Send a message with a copy of the payload (at most DD_MSG_INLINE bytes); sets r->len. Never
 * fails: a requester that cannot be reached any more is `gone`. */
void requester_send(struct requester *a, struct msg *r, const void *payload, size_t len);
/* Answer req with a status; text: a sentence, or NULL */
void requester_reply(struct requester *a, const struct msg *req, int status, const char *text);
/* The requester broke a rule, or memory is short: end it alone. */
void requester_drop(struct requester *a, const char *why);

/* --- its carrier: see carrier.h --- */
static inline bool requester_idle(struct requester *a) {
    return a->ops->idle(a);
}
static inline const struct link *requester_link(const struct requester *a) {
    return a->ops->link ? a->ops->link(a) : NULL;
}
void requester_entry_taken(struct requester *a, uint64_t id);
/* Request id is answered, and what follows from it (events, who waits for the key) has not begun:
 * its record leaves SQ, or its entry ends. The order in which a later life of the manager can go on
 * (PROTOCOL 12). */
static inline void requester_taken(struct requester *a, uint64_t id) {
    if (a->ops->taken)
        a->ops->taken(a, id);
    if (a->m->answering)
        requester_entry_taken(a, id);
}
struct ledger_entry;
/* An entry for a request that waits; of one that is taken again (manager.resumed) the entry that it
 * has. value: the rest of its payload, if that is to be kept, too, or NULL. NULL: it has none,
 * because it is of another node, key is NULL, or the ledger is full. */
struct ledger_entry *requester_enter(struct requester *a, const struct msg *req, const void *key,
                                     const void *value, uint64_t deadline);
/* The same for one that is being answered by a value in pieces; its entry, if it has one, is not
 * m->answering's any more. */
struct ledger_entry *requester_enter_rest(struct requester *a, const struct msg *req,
                                          const void *key);
/* The request of a lane whose entry *e is answered next. *e: NULL when the entry has ended, or goes
 * with an answer that waits for room. */
void requester_begin(struct requester *a, struct ledger_entry **e);
/* It is answered: its entry ends. */
void requester_entry_end(struct manager *m, struct ledger_entry **e);
/* With --refill, a PUT of ddict-load as it reads again what was lost (PROTOCOL 13). */
static inline bool request_is_refill(const struct manager *m, const struct msg *req) {
    unsigned all = MSGF_REFILL | MSGF_LOADED | MSGF_NEW;
    return m->setup->refill && (req->flags & all) == all;
}
/* A change of a restore, while nobody else may write (PROTOCOL 9). */
static inline bool request_is_restore(const struct manager *m, const struct msg *req) {
    return m->restoring && req->flags & MSGF_RESTORE;
}
static inline void requester_send_placed(struct requester *a, const struct msg *r, uint64_t off) {
    a->ops->send_placed(a, r, off);
}

static inline void reply_init(struct msg *r, uint64_t id, uint32_t manager) {
    *r = (struct msg){.type = MSG_REPLY, .id = id, .manager = manager};
}

#endif
