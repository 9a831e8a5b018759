/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pending.h - a request that is not answered yet: in the list of its requester until it is answered,
 * cancelled or late, or its requester ends. It is a member of what its module keeps of the request:
 * a waiter (waiters.c), a push (queues.c), a listener (subscriptions.c).
 */
#ifndef DDICT_MANAGER_PENDING_H
#define DDICT_MANAGER_PENDING_H

#include "requester.h"

struct ledger_entry;
struct pending;
/* Each frees the object that p is part of; late() may leave it where an answer is on its way. */
struct pending_ops {
    void (*late)(struct pending *p); /* its time is over: answer it as its type wants */
    void (*refuse)(struct pending *p, int status); /* answer it with status */
};
struct pending {
    const struct pending_ops *ops;
    struct requester *requester;
    struct pending *next, **prev; /* of the requester */
    struct timer timer;
    /* in the ledger: a later life answers it; NULL when answered, or when it goes with an answer
     * that waits for room */
    struct ledger_entry *entry;
    struct msg req;
};

/*
 * For req->aux microseconds; the memory stays the caller's. key: of req->key_len bytes, with which a
 * later life takes the request again: both are copied into the ledger. NULL: no later life does.
 * 0 or -ENOMEM.
 */
int pending_begin(struct pending *p, struct requester *a, const struct msg *req, const void *key,
                  const struct pending_ops *ops);
uint64_t pending_ns(const struct msg *req); /* so long it waits, at most */
/* The same for one whose time is none of this module's: late() is not called. deadline: for the ledger;
 * 0: none. A request that is being answered (pending_answers()) gives up its entry to this one. */
void pending_add(struct pending *p, struct requester *a, const struct msg *req, const void *key,
                 uint64_t deadline, const struct pending_ops *ops);
/* It is answered to another requester from now on; hand: after pending_end(). */
void pending_hand(struct pending *p, struct requester *to);
void pending_move(struct pending *p, struct requester *to);
/* It is answered now, and ended then. What it changes in the index is the next change, if any;
 * pending_stays() after it was not answered after all. */
void pending_answers(struct pending *p);
void pending_stays(struct pending *p);
/* It will be answered with this item, which is pinned until after pending_end(). Of a PUT: its block,
 * which is reserved until then. */
void pending_value(struct pending *p, uint64_t off);
/* Before its memory is freed. */
void pending_end(struct pending *p);
/* The request of this id is refused; false: none such is pending. */
bool pending_cancel(struct requester *a, uint64_t id, int status);
bool pending_knows(const struct requester *a, uint64_t id); /* whether one is */
/* The requester ends: all of its requests are refused. */
void pending_requester_end(struct requester *a);

#endif
