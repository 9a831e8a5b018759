/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - one request to a manager and its answer, as the calls of the API need it. */
#ifndef DDICT_LIB_REQUEST_H
#define DDICT_LIB_REQUEST_H

#include "handle.h"
#include "local_read.h"

/* A waiting request is ended by its manager; its answer gets so long to arrive. */
static inline int answer_grace_ms(unsigned type) {
    return type == MSG_POP || type == MSG_PUT ? DD_GRACE_TAKE_MS : DD_GRACE_READ_MS;
}

/* bytes that are set aside for the value of a pop: most are shorter, and asking twice costs a turn
 * over the network */
#define POP_ROOM_MIN 4096u
/* ... at most, before a longer one is met: then asking twice costs less than the value's way */
#define POP_ROOM_MAX   (1u << 20)
#define POP_ROOM_LEAST 64u

/* Where a key is, worked out once a call: how each that is about one key begins. */
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
    t->owner = hash_owner(t->h, t->s->managers);
    t->key = key;
    t->klen = klen;
    return 0;
}

/* Send, wait, and turn a refusal into its sentence. Returns the status. timeout_ms 0: nothing is
 * sent, -ETIMEDOUT. */
int request_call(struct session *s, struct node_manager *m, struct outgoing *out, struct request *r,
                 int timeout_ms);
/* The same within a deadline that other requests share. */
int request_call_within(struct session *s, struct node_manager *m, struct outgoing *out,
                        struct request *r, struct call_deadline *w);
/* As request_call_within for WAIT requests: the manager gets the time that is left, and is given
 * time to answer (flags & DDICT_SURE: as much as any call has). It is asked again when its time is
 * over before ours. */
int request_call_waiting(struct session *s, struct node_manager *m, struct outgoing *out,
                         struct request *r, struct call_deadline *w, unsigned flags);

/* --- iter.c --- */
/*
 * As ddict_iter_next() within a deadline, that of each answer (renews) or of the whole call:
 * -ETIMEDOUT leaves what was asked under way, and the next call goes on with it.
 */
int iter_next_within(ddict_iter_t *it, const void **key, size_t *klen, struct session *s,
                     struct call_deadline *w, bool renews);

/* the manager's answer: its key has not come in time */
bool request_was_late(const struct request *r);
/* make one that was refused, and dropped, ready to be sent once more. -ENOMEM: not as much could be
 * set aside as before */
int request_again(struct request *r);
/*
 * A POP whose value may have to come into our memory: set aside what values took so far, at least
 * len bytes, and say so in out. Its owner removes no value that is longer, but says DDICT_ESMALL
 * and its length. So none is lost for want of memory. 0 or -ENOMEM.
 */
int request_pop(struct session *s, struct request *r, struct outgoing *out, uint64_t len);
/* It was refused so; *len: what it needs. */
static inline bool request_pop_refused(const struct request *r, uint64_t *len) {
    *len = r->reply.val_len;
    return r->reply.type == MSG_REPLY && r->reply.status == DDICT_ESMALL && *len > r->room;
}

/* put.c */
int put_head(struct msg *head, unsigned owner, size_t klen, uint64_t vlen, unsigned flags);
/* of a value, together; put.c */
int pieces_length(const struct iovec *iov, int n, uint64_t *len);

#endif
