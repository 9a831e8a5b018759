/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h - one request to a manager and its answer, as the calls of the API need it. */
#ifndef DDICT_CLIENT_ASK_H
#define DDICT_CLIENT_ASK_H

#include "handle.h"
#include "local.h"

#define ANSWER_GRACE_MS \
    1000 /* a waiting request is ended by the manager; its answer gets so long to arrive */

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

/* Send, wait, and turn a refusal into its sentence. Returns the status. timeout_ms 0: nothing is sent, -ETIMEDOUT. */
int ask(struct session *s, struct node_manager *m, struct outgoing *out, struct request *r,
        int timeout_ms);
/* The same within a patience that other requests share. */
int ask_within(struct session *s, struct node_manager *m, struct outgoing *out, struct request *r,
               struct patience *w);
/* As ask_within for WAIT requests: the manager gets the time that is left, and is given time to answer (flags & DDICT_SURE: as much as any call has). It is asked again when its time is over before ours. */
int ask_waiting(struct session *s, struct node_manager *m, struct outgoing *out, struct request *r,
                struct patience *w, unsigned flags);

bool request_was_late(
    const struct request *r);          /* the manager's answer: its key has not come in time */
void request_again(struct request *r); /* make one that was refused ready to be sent once more */

int put_head(struct msg *head, unsigned owner, size_t klen, uint64_t vlen,
             unsigned flags);                                     /* put.c */
int pieces_length(const struct iovec *iov, int n, uint64_t *len); /* of a value, together; put.c */

#endif
