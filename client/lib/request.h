/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - one request to a manager and its answer, as the calls of ddict.h need it. */
#ifndef DDICT_LIB_REQUEST_H
#define DDICT_LIB_REQUEST_H

#include "handle.h"
#include "local_read.h"

/* The manager ends a waiting request; the time that its answer has to arrive, in ms. */
static inline int answer_grace_ms(unsigned type) {
    return type == MSG_POP || type == MSG_PUT ? DD_GRACE_TAKE_MS : DD_GRACE_READ_MS;
}

/* bytes set aside for the value of a pop: most are shorter, and asking twice costs a turn over the
 * network */
#define POP_ROOM_MIN 4096u
/* the same, at most: of longer values asking twice costs less than the value's way */
#define POP_ROOM_MAX   (1u << 20)
#define POP_ROOM_LEAST 64u

/* Where a key is. Every call about one key begins with this. */
struct target {
    struct session *s;
    uint64_t h;
    unsigned owner;
    const void *key;
    size_t klen;
};

static inline int target_init(struct target *t, ddict_t *d, const void *key, size_t klen,
                              int timeout_ms) {
    int rc = session_enter(d, &t->s, timeout_ms);
    if (unlikely(rc < 0) || unlikely((rc = key_check(klen)) < 0))
        return rc;
    t->h = key_hash(key, klen);
    t->owner = deal_owner(&t->s->deal, key, klen, t->h);
    t->key = key;
    t->klen = klen;
    return 0;
}

/* Send out, wait for its answer, and set the sentence of a refusal. Returns the status. With a
 * timeout_ms of 0 nothing is sent: -ETIMEDOUT. */
int request_call(struct session *s, struct node_manager *m, struct outgoing *out, struct request *r,
                 int timeout_ms);
/* The same within a deadline that other requests share. */
int request_call_within(struct session *s, struct node_manager *m, struct outgoing *out,
                        struct request *r, struct call_deadline *w);
/*
 * As request_call_within() for requests with WAIT. The manager is told the time that is left, and
 * its answer gets some more (with DDICT_SURE in flags a default timeout). If its time is over
 * before ours, it is asked again.
 */
int request_call_waiting(struct session *s, struct node_manager *m, struct outgoing *out,
                         struct request *r, struct call_deadline *w, unsigned flags);

/* --- iter.c --- */
/*
 * As ddict_iter_next() within a deadline, that of each answer (renews) or of the whole call:
 * -ETIMEDOUT leaves what was asked under way, and the next call goes on with it.
 */
int iter_next_within(ddict_iter_t *it, const void **key, size_t *klen, struct session *s,
                     struct call_deadline *w, bool renews);

/* Whether the manager has answered that the key did not come in time. */
bool request_was_late(const struct request *r);
/* Whether what only reads has no answer, and there is time to ask again: it had a part of a value that
 * was replaced since, or its manager died and knows nothing of it. */
bool request_is_stale(const struct request *r, struct call_deadline *w);
/* Make a request that was refused, and dropped, ready to be sent once more. 0; -ENOMEM: as much
 * memory as before cannot be set aside. */
int request_again(struct request *r);
/*
 * Prepare a POP whose value may have to come into our memory: set aside as much as values took so
 * far, at least len bytes, and say so in out. The owner does not remove a longer value, but answers
 * DDICT_ESMALL and its length, so no value is lost for lack of memory. 0 or -ENOMEM.
 */
int request_pop(struct session *s, struct request *r, struct outgoing *out, uint64_t len);
/* Whether it was refused so; *len: the length of the value. */
static inline bool request_pop_refused(const struct request *r, uint64_t *len) {
    *len = r->reply.val_len;
    return r->reply.type == MSG_REPLY && r->reply.status == DDICT_ESMALL && *len > r->room;
}

/* Whether a change that gave this code may have been made all the same. */
static inline bool change_is_unsure(int rc) {
    return rc == -ETIMEDOUT || rc == DDICT_ELOST || rc == DDICT_EGONE;
}

/* put.c */
int put_head(struct msg *head, unsigned owner, size_t klen, uint64_t vlen, unsigned flags);
/* Sum of the lengths of the pieces of a value. 0 or a negative code with the sentence set. put.c */
int pieces_length(const struct iovec *iov, int n, uint64_t *len);

#endif
