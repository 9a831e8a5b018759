/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results.h - what became of the changes that managers of other nodes asked for, in memory that
 * outlives the manager. A proxy whose connection broke asks again with the same id (AGAIN), and is
 * answered from here, so each change is made once (PROTOCOL 12). The place of a result is that of
 * the proxy's forward: when its id comes again with a later number, the result was received. Numbers
 * go on over the lives of a proxy. ddictd makes the memory before the fork; only the manager writes
 * it.
 */
#ifndef DDICT_MANAGER_RESULTS_H
#define DDICT_MANAGER_RESULTS_H

#include "manager.h"
#include "requester.h"

struct result {
    uint64_t id;      /* of the request; 0: none. Stored last, and first when it ends */
    uint64_t version; /* or the sum, as in the REPLY (rules.h) */
    uint64_t item;    /* what a POP has taken: pinned until the proxy has it; 0: nothing, or over */
    uint64_t asked;   /* 1: asked for again over the last connection */
};
struct results {   /* of one proxy */
    uint64_t life; /* the last of the proxy that has connected */
    uint64_t top;  /* places so far that were ever used */
    struct result at[DD_RESULTS];
};

/* Whether it was asked for before `id`. Numbers of ids begin anew after the last. */
static inline bool id_is_before(uint64_t asked, uint64_t id) {
    return (int32_t)((uint32_t)(id >> 32) - (uint32_t)(asked >> 32)) > 0;
}
/* Whether a request with this id can have a result. */
static inline bool result_fits(uint64_t id) {
    return (uint32_t)id < DD_RESULTS;
}
/* The requester of this request is a proxy that asks again when the connection ends. */
static inline bool proxy_returns(const struct requester *a, unsigned type, uint64_t id) {
    bool changes = type == MSG_POP || type == MSG_PUT || type == MSG_DEL || type == MSG_CLEAR;
    return a->kind == REQUESTER_PEER && a->m->setup->results && (!changes || result_fits(id));
}
/* A later life knows all leases, and nothing has changed the heap yet: what an earlier life popped
 * is kept, and what it was carrying out when it died is entered. */
void results_open(struct manager *m);
/* A proxy has connected anew, in this life of it. False: a later one has connected already. */
bool results_connect(struct manager *m, uint32_t proxy, uint32_t life);
/* Its node is lost, and it never connects again: what was popped for it is freed, now and later. */
void results_proxy_lost(struct manager *m, uint32_t proxy);
/* It asks this for the first time, so it has asked for all before that it asks again: popped values
 * that it did not ask for are with it. */
void results_settle(struct manager *m, uint32_t proxy, uint64_t id);
bool result_is_there(const struct manager *m, uint64_t who, uint64_t id);
/* request_take() for a message of a proxy. */
int results_take(struct requester *a, const struct msg *m, const uint8_t *payload);
/* The next change is made for this request of a proxy. */
void results_begin(struct requester *a, const struct msg *req);
/* It is made, and not answered yet. popped: the item that it took, or NULL. */
void results_add(struct requester *a, uint64_t id, uint64_t version,
                 const struct store_ref *popped);
/* The same two without a requester: a backup does what its primary did for this proxy (PROTOCOL 13). id
 * 0: the next change is made for none. */
void results_note(struct manager *m, uint32_t proxy, uint64_t id, unsigned rule);
void results_enter(struct manager *m, uint32_t proxy, uint64_t id, uint64_t version,
                   const struct store_ref *popped);
static inline void requester_changed(struct requester *a, uint64_t id, uint64_t version,
                                     const struct store_ref *popped) {
    if (a->kind == REQUESTER_PEER && a->m->setup->results)
        results_add(a, id, version, popped);
}
void results_took(struct requester *a, uint64_t id); /* the proxy has the value that it popped */
void results_leave(struct manager *m, uint32_t proxy, uint64_t id);

/*
 * --- a backup that is filled ---
 * The next result from (*proxy, *place) on, which then name the one behind it; NULL: there is none.
 */
const struct result *results_next(struct manager *m, uint32_t *proxy, uint64_t *place);
/* What r has taken: 1, *item is it; 0: nothing, or its proxy has it; -ENOENT: it is lost. */
int result_popped(struct manager *m, const struct result *r, struct store_ref *item);
/* r of its primary, but not in place of a later one. What is here of the same request is no better: it may
 * have taken another value of a key that was not copied yet. popped: a block that was reserved and filled, and
 * is not published; NULL: nothing. The caller gives it back with store_abort(). lost: it took what is
 * lost. */
void results_copy(struct manager *m, uint32_t proxy, const struct result *r,
                  const struct store_ref *popped, bool lost);
void results_empty(struct manager *m);

#endif
