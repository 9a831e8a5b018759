/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.h - what the files of libddict share: the handle, and the session behind it.
 *
 * A handle (ddict_t) is the user's. A session is one attach generation: socket to ddictd, status
 * page, lease page, and for each manager of this node its arena and a lane. After fork() the
 * child's handle has no session and opens a new one at its first call, while the old session stays
 * for the views that the child inherited.
 *
 * Life of a session: opened -> live -> (detach) closing while views are held -> closed. Structs of
 * closed sessions are kept in a pool and used again, never freed: ddict_release() of another thread
 * may still look at one (lease.h).
 *
 * Locks, in this order: handle.lock, registry_lock, session.lease_lock, lane.lock. None is held
 * while waiting, except handle.lock in an attach and registry_lock in the fork handlers.
 */
#ifndef DDICT_LIB_HANDLE_H
#define DDICT_LIB_HANDLE_H

#include "client_lane.h"
#include <base/clock.h>
#include <base/deal.h>
#include <base/error.h>
#include <ddict.h>
#include <store/reader.h>
#include <wire/attach.h>
#include <wire/status_page.h>

#include <pthread.h>
#include <stdbool.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
/* code reaches it without the dynamic linker's table */
#define HIDDEN __attribute__((visibility("hidden")))

struct lease_thread; /* lease.h */

struct node_manager { /* a manager of this node */
    struct arena_view arena;
    uint32_t id;             /* in the whole dictionary */
    struct client_lane lane; /* our end of its lane */
};

/* What the parent prepares for a child that is about to be forked (fork.c). */
struct hold {
    uint8_t *page;  /* hold page in the format of a lease page, shared */
    uint16_t *refs; /* for each slot: processes that hold it, shared */
    int pipe;       /* write end; its last close makes ddictd drop the page; -1 none */
    uint64_t count; /* views in it */
    bool late;      /* the managers do not know it yet: shadows */
    bool unsafe;    /* nothing protects what the child inherits */
};

struct session {
    uint64_t id;          /* unique in this process, never used again; 0: closed */
    struct session *next; /* registry, or pool */
    /* no handle has the session any more; it waits for its views; under registry_lock */
    bool closing;
    /* in a child: there is no hold page for the views. The session stays, so that releasing them
     * does nothing */
    bool lost;
    unsigned stage;     /* of opening: 0, 1 greeted, 2 welcomed, 2 + managers known */
    int sock;           /* to ddictd; -1 in a child that inherited the session */
    int client_eventfd; /* managers write it for threads that poll; -1 likewise */
    const struct status_page *status_page;
    int timeout_ms; /* what -1 means */
    int wait_ms;    /* and with DDICT_WAIT */
    /* atomic; bytes that are set aside for the value of a pop (request.h) */
    uint64_t pop_room;
    unsigned managers, nodes, node_id, nlocal;
    uint64_t client;  /* number of this client on its node */
    struct deal deal; /* of the keys over managers and nodes */
    bool refill;      /* with --refill */
    /* --working-set: checkpoints that are kept, 0: it has none; DDICT_WAIT_FOR_* */
    uint32_t working_set;
    unsigned working_flags;
    uint64_t total_bytes, spill_bytes;
    unsigned char dict_id[16];
    char name[DICT_NAME_MAX], node[NODE_NAME_MAX];
    struct node_manager *local;     /* [nlocal], by local index */
    struct node_manager **local_of; /* [managers]: in local, or NULL: on another node */
    struct node_manager **route_of; /* [managers]: as local_of; for one of another node its proxy */
    /* [owners]: local_of of the n-th owner; the fast reads go by it */
    struct node_manager **local_owner;

    /* LEASE_FILE_SIZE, shared with ddictd and the managers; in a child the hold page */
    uint8_t *lease_page;
    pthread_mutex_t lease_lock; /* guards chunks and orphans */
    unsigned chunks;            /* in use */
    unsigned orphans;           /* of them without an owner */
    /* atomic; the thread that takes slots from it */
    struct lease_thread *owner[DD_LEASE_CHUNKS];
    /* atomic; slots that other threads released since the owner last looked */
    uint32_t freed[DD_LEASE_CHUNKS];

    struct hold hold; /* prepared for the next child; only inside fork() */
    /* answers to HOLD that have not come yet; under registry_lock, atomic */
    unsigned held_due;
    bool held_bad;      /* one was no; its shadows stay */
    uint16_t *refs;     /* inherited session: see struct hold; NULL otherwise */
    int pipe;           /* inherited session: kept open as long as views are held */
    uint64_t inherited; /* atomic; inherited views not yet released */
};

struct ddict_handle {
    struct session *session; /* atomic; NULL after fork until the first call */
    /* the session's id, or 0; atomic; set after `session` and cleared before it. A thread whose
     * lease_last_used has this id knows the session */
    uint64_t session_id;
    pthread_mutex_t lock; /* guards opening the session anew */
    char name[DICT_NAME_MAX];
    /* the session as far as calls had time to open it; under lock */
    struct session *opening;
    uint64_t checkpoint; /* atomic; of a working set: at which it reads and writes */
    uint64_t values;     /* atomic; of a working set: stored by it so far */
    /* atomic; of a working set that waits for writers: the last checkpoint that its client is known
     * to have written at, + 1; and the session of that client */
    uint64_t marked, marked_session;
    struct window_ask *removal; /* atomic; of a working set: its answer was not waited for yet */
    struct window_removals {    /* of a working set: see window_sweep.h */
        bool held;              /* atomic; a thread has the rest */
        uint32_t n;
        struct window_removal *first, *last;
    } removals;
    struct near_left *near_left; /* atomic; values that could not be removed yet (near.h) */
    struct ddict_async *asyncs;  /* under registry_lock */
    struct ddict_handle *next;   /* registry */
};

/* --- session.c --- */
extern pthread_mutex_t registry_lock;
extern struct session *sessions;         /* live and closing; under registry_lock */
extern struct ddict_handle *handles;     /* under registry_lock */
extern HIDDEN uint32_t closing_sessions; /* atomic; how many sessions wait for their views */

/* Attach to the dictionary of that name. 0, and *out is the caller's until session_close(); or a
 * negative code with the sentence set. It may take several calls: each goes on where the last one
 * ended with -ETIMEDOUT. *part keeps what was done; it is NULL before the first call, and after each
 * other result. A fork() meanwhile finds it by the handle that has it. */
int session_open_by(struct session **out, struct session **part, const char *name,
                    struct deadline *d);
int session_timeout(int timeout_ms); /* what it means where there is no session */
/* The timeout of a call with these flags. */
static inline int session_wait_ms(const struct session *s, unsigned flags, int timeout_ms) {
    return timeout_ms < 0 && flags & DDICT_WAIT ? s->wait_ms : timeout_ms;
}
/* Give up what session_open_by() has begun. NULL is allowed. busy: another thread was opening it at
 * the fork, so it cannot be used again. */
void session_abandon(struct session *part, bool busy);
void session_close(struct session *s); /* now, or with the release of the last view */
/* In a forked child, under registry_lock: close the child's copies of the descriptors, and tell
 * nobody. */
void session_forget(struct session *s);
/* Close those of the closing sessions whose last view was released. */
void sessions_reap(void);
/* 0 while the dictionary serves, else DDICT_EGONE or DDICT_ELOST with the sentence set. Looks at
 * the socket too. */
int session_check(struct session *s);
int session_state_error(struct session *s); /* the same by the status page alone, never 0 */
int handle_revive(ddict_t *d, struct session **out, int timeout_ms); /* after fork */
const char *no_name_text(void);
/* When this returns every thread of this process has passed a fence. Under registry_lock. */
void barrier_everywhere(void);

/* The dictionary serves, as far as the status page says. */
static inline bool status_page_serves(const struct status_page *b) {
    return likely((__atomic_load_n(&b->state, __ATOMIC_RELAXED) & STATUS_ENDED) == 0 &&
                  !status_page_keeper_dead(b));
}

bool status_page_lease_lasts(const struct status_page *b); /* by the clock; session.c */

/* ... and what is in this node's memory may be read in place (PROTOCOL 13): as ddictd says, and if
 * that stands still, as the clock says. If not, its managers are asked; they answer when it may be
 * again. */
static inline bool status_page_reads(const struct status_page *b) {
    uint32_t bits = __atomic_load_n(&b->state, __ATOMIC_RELAXED) &
                    (STATUS_ENDED | STATUS_SUSPENDED | STATUS_LEASED);
    return likely(bits == 0 || (bits == STATUS_LEASED && status_page_lease_lasts(b))) &&
           likely(!status_page_keeper_dead(b));
}

/* Begin of every call: the session, or a negative code. After a fork that may take up to
 * timeout_ms. */
static inline int session_enter(ddict_t *d, struct session **out, int timeout_ms) {
    struct session *s = __atomic_load_n(&d->session, __ATOMIC_ACQUIRE);
    if (unlikely(!s)) {
        int rc = handle_revive(d, &s, timeout_ms);
        if (rc < 0)
            return rc;
    }
    *out = s;
    return likely(status_page_serves(s->status_page)) ? 0 : session_state_error(s);
}

/* The manager of this node that owns the hash, or NULL. */
static inline struct node_manager *session_local(struct session *s, unsigned owner) {
    return s->local_of[owner];
}
/* Whom we ask about a manager, or a key of its: itself if it is here, else its proxy. */
static inline struct node_manager *session_route(struct session *s, unsigned owner) {
    return s->route_of[owner];
}

static inline int key_check(size_t klen) {
    return likely(klen - 1 < DDICT_KEY_MAX)
               ? 0
               : dd_error(DDICT_EKEYSIZE, "a key of %zu bytes: it must have 1 to %u", klen,
                          DDICT_KEY_MAX);
}

/* --- request_error.c --- */
/* The failure of a request: takes the manager's sentence from r, or that of the dictionary where it
 * has ended, and frees it. code < 0. */
int request_error(struct session *s, struct node_manager *m, struct request *r, int code);

/* --- fork.c --- */
/* atomic; forks between the first process and this one */
extern uint32_t fork_generation;
extern HIDDEN uint32_t fork_under_way; /* atomic; a fork handler is copying the leases */
int fork_handlers_install(void);
/* Take the answers to HOLD that have come. Not under registry_lock. */
void holds_settle(struct session *s);
void fork_gate_wait(void);
static inline bool fork_gate_shut(void) {
    bool shut = __atomic_load_n(&fork_under_way, __ATOMIC_RELAXED) != 0;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return shut;
}
/* After a lease was stored and fenced: wait while a fork is under way, so that it either copies our
 * lease or we return after it. */
static inline void fork_gate(void) {
    if (unlikely(fork_gate_shut()))
        fork_gate_wait();
}

#endif
