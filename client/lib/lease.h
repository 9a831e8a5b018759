/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.h - lease slots of threads. A thread owns chunks of slots of the lease page and takes slots
 * only from them, so taking one needs no lock. Slot k of chunk c has number 2048 c + 1 + k: it is
 * word n of the page.
 *
 *  L1  A slot is free when its word is 0 and no thread has it in hand. Its owner has all its free
 *      slots on `stack`, each once, but those that other threads released since it last looked
 *      (session.freed counts them by chunk). A thread that has slots of word 0 in hand neither
 *      fills the stack again (lease_refill) nor calls what may do that (lease_take, local_view); a
 *      release of a slot whose word is 0 already does nothing. So the stack never holds more than
 *      the chunks have slots.
 *  L2  A slot in hand whose lease will be stored later (PLACED replies) holds LEASE_MARK, so it
 *      does not look free.
 *  L3  The owner pushes the number first and stores 0 then; another thread stores 0 first and
 *      counts then. After its last store a release touches nothing of the session but `freed`,
 *      whose memory is never freed (handle.h).
 *  L4  The last release of a closing session must notice that: detach counts in closing_sessions,
 *      executes a membarrier, and looks at the slots; a release clears its slot and looks at
 *      closing_sessions. One of the two sees the other.
 *  L5  One slot of each thread's first chunk, `scratch`, is never a view: copying reads use it, and
 *      still work when all others are taken.
 */
#ifndef DDICT_LIB_LEASE_H
#define DDICT_LIB_LEASE_H

#include "handle.h"

/* no arena has this index: the managers' scans pass over it */
#define LEASE_MARK    LEASE_WORD(0xffffu, 0)
#define LEASE_NONE    UINT32_MAX
#define LEASE_STRIDE  (LEASE_CHUNK_SIZE / (uint32_t)sizeof(uint64_t))
#define LEASE_NUMBERS ((size_t)DD_LEASE_CHUNKS * LEASE_STRIDE)
#define LEASE_NUMBER(c, k) \
    ((c)*LEASE_STRIDE + (uint32_t)(offsetof(struct lease_chunk, slot) / sizeof(uint64_t)) + (k))
#define LEASE_CHUNK_OF(n) ((n) / LEASE_STRIDE)

struct lease_thread { /* one thread in one session */
    uint64_t session_id;
    struct session *session;
    uint8_t *page; /* session->lease_page; these four as in the session */
    const struct status_page *status_page;
    struct node_manager **local_owner;
    uint64_t owners;
    /* free slots, from stack[1] on: room for all slots of the chunks; stack[0] is LEASE_NONE */
    uint32_t *stack;
    uint32_t *top;     /* the last one, or stack */
    uint64_t *scratch; /* NULL: this thread has no chunk */
    struct lease_counters *row;
    uint32_t *chunk; /* numbers */
    unsigned chunks, room;
    struct lease_thread *next; /* same thread, other sessions */
};

/* This thread's, one for each session that it uses: the one used last comes first, lease_nobody
 * ends the list. */
extern HIDDEN __thread struct lease_thread *lease_last_used
    __attribute__((tls_model("initial-exec")));
/* owner of the chunks with copies of leases for children whose hold pages are not known yet
 * (fork.c) */
extern HIDDEN struct lease_thread lease_shadow;
extern HIDDEN struct lease_thread lease_nobody; /* of no session, owner of nothing */

/* out of line; NULL without memory */
struct lease_thread *lease_thread_find(struct session *s);
int lease_refill(struct lease_thread *t); /* 0, DDICT_EVIEWS, -ENOMEM */
/* by a thread that is not the owner */
void lease_release_far(struct session *s, uint32_t n);
/* in a forked child: this thread's list belongs to the parent */
void lease_threads_forget(void);
bool lease_any(struct session *s);                    /* any slot held? */
bool lease_is_scratch(struct session *s, uint32_t n); /* fork handler only */

static inline struct lease_thread *lease_thread(struct session *s) {
    struct lease_thread *t = lease_last_used;
    return likely(t->session_id == s->id) ? t : lease_thread_find(s);
}
static inline uint64_t *lease_slot(uint8_t *page, uint32_t n) {
    return (uint64_t *)(void *)page + n;
}
/* Take a slot in hand. */
static inline int lease_take(struct lease_thread *t, uint32_t *n) {
    if (unlikely(*t->top == LEASE_NONE)) {
        int rc = lease_refill(t);
        if (rc < 0)
            return rc;
    }
    *n = *t->top--;
    return 0;
}
/* Give back what lease_take() gave; its word is 0. */
static inline void lease_return(struct lease_thread *t, uint32_t n) {
    t->top[1] = n;
    t->top++;
}

static inline bool owner_is(struct session *s, uint64_t chunk, const struct lease_thread *t) {
    return __atomic_load_n(&s->owner[chunk], __ATOMIC_RELAXED) == t;
}

static inline bool lease_is_free(const uint64_t *slot) {
    return __atomic_load_n(slot, __ATOMIC_RELAXED) == 0;
}

/* End the lease in slot n, when this thread took it. */
static inline bool lease_release_own(struct session *s, uint64_t n) {
    struct lease_thread *t = lease_last_used;
    /* Relaxed: only this thread makes itself the owner or ceases to be it. */
    if (unlikely(!owner_is(s, LEASE_CHUNK_OF(n), t)))
        return false;
    if (unlikely(lease_is_free((uint64_t *)(void *)t->page + n)))
        return true;              /* L1 */
    lease_return(t, (uint32_t)n); /* L3 */
    reader_release((uint64_t *)(void *)t->page + n);
    /* L4: the membarrier is the other half; sessions_reap() is for the caller to see to */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return true;
}
/* End the lease in slot n, whichever thread took it. */
static inline void lease_release(struct session *s, uint32_t n) {
    if (!lease_release_own(s, n))
        lease_release_far(s, n);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (unlikely(__atomic_load_n(&closing_sessions, __ATOMIC_RELAXED) != 0))
        sessions_reap();
}

static inline void counter_add(uint64_t *c, uint64_t n) {
    /* one writer; who reads it, in another process, sees whole words */
    __atomic_store_n(c, __atomic_load_n(c, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

#endif
