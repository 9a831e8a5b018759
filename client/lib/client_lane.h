/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_lane.h - the client's end of a lane: many threads send requests, and each reply finds its
 * way back to the thread that asked.
 *
 * One mutex guards both rings and the table of requests under way. A thread holds it to copy as
 * many messages in and out as there is room for (one at a time if other threads want it), and never
 * while it waits. A waiting thread first spins, if there is more than one core, and takes replies
 * for everybody. Then one waiting thread sleeps on the lane's doorbell. Each of the others sleeps
 * on a futex of its own request, and is woken by the thread that takes its reply out of the ring. A
 * thread that leaves while others sleep makes sure that one of them is at the doorbell.
 *
 * A request that is given up is taken out of the table. Ids are never used twice on a lane, so a
 * late reply finds no request and is dropped.
 */
#ifndef DDICT_LIB_CLIENT_LANE_H
#define DDICT_LIB_CLIENT_LANE_H

#include <base/clock.h>
#include <store/reader.h>
#include <wire/lane.h>

#include <pthread.h>
#include <stdbool.h>
#include <sys/uio.h>

struct session;
struct node_manager;
struct batch;
struct async_op;
struct place;

/* of the table of requests; a full ring of 1 KiB values has about as many */
#define CLIENT_LANE_BUCKETS 512u
#define CLIENT_LANE_NOTICES 64u /* notices waiting for room, at first */
#define CLIENT_LANE_LEADERS 64u /* buckets of ops of sets that others follow, at first */
#define NEED_GO             UINT32_MAX

enum sink {
    SINK_NONE,   /* the status and the header are all */
    SINK_BUFFER, /* the value into buf, if cap allows, else DDICT_ESMALL */
    /* the value or the payload into memory that is allocated for it (buf, free()) */
    SINK_MEMORY
};
enum asleep { AWAKE, ON_DOORBELL, ON_FUTEX };

struct request {
    /* set by the requester before it sends */
    enum sink sink;
    uint8_t *buf;
    uint64_t cap;
    /* SINK_MEMORY: bytes that request_aside() set aside for the value before it was sent; 0:
     * none */
    uint64_t room;
    uint64_t *slot;      /* lease slot reserved for a PLACED reply; NULL: none */
    struct batch *batch; /* the batch that collects it, or NULL */
    uint32_t index;      /* the batch's own */
    /* the request is the beginning of a struct async_op (async.h), which collects it */
    bool is_async_op;
    /* result; valid once done */
    /* atomic; release pairs with the requester's acquire: all of the result is written before */
    uint32_t done;
    /* of a put, atomic likewise; 1: its manager wants the value again, from byte `from` on, and
     * client_lane_push() is to be called again */
    uint32_t rewound;
    int status;
    bool placed; /* *slot holds the lease on reply.aux */
    struct msg reply;
    char *text;   /* sentence of a refusal, malloc'ed, or NULL */
    uint64_t got; /* bytes in buf */
    /* under lane.lock */
    uint64_t id;     /* 0: not in the table */
    uint16_t type;   /* of the request: decides which notice is due if it is given up */
    bool streaming;  /* more DATA of the reply is to come */
    bool sending;    /* of a put: LAST was not sent yet */
    bool streams;    /* of a put: its value goes out in pieces, */
    uint32_t rewind; /* the last number with which it was rewound, to this byte */
    uint64_t from;
    bool notice_reserved; /* it has a place in lane.notices, should it be given up */
    bool unsure;          /* whether its manager knows it is to be asked */
    /* of a put in pieces: LAST was not sent when this life of its manager began; that forgot it, and
     * it is to be sent from its header on */
    bool partly, anew;
    bool waits; /* asked with WAIT */
    /* what it waits for: bytes of room in SQ; NEED_GO: that its manager is held no more; 0: the
     * reply */
    uint32_t need;
    uint32_t to; /* the manager that owns the key, or answers */
    enum asleep asleep;
    uint32_t futex_word;         /* 1 when woken */
    struct request *chain;       /* table bucket */
    struct request *next, *prev; /* sleepers; or the batch's list of the done */
};

/* What one call has under way on one lane. */
struct batch {
    /* all under lane.lock; sleeper: the thread that collects, while it sleeps in
     * client_lane_wait_any() */
    struct request *done, *sleeper;
    bool rewound; /* one of its requests is, and it was not looked which */
};

struct client_lane_ops { /* a list, first in, first out */
    struct async_op *first, **end;
};
struct client_lane {
    pthread_mutex_t lock;
    uint32_t wanted; /* atomic; threads that wait for lock */
    struct lane lane;
    int event_fd;                   /* wakes the manager */
    const struct arena_view *arena; /* of the same manager */
    struct node_manager *manager;
    int broken; /* 0, or DDICT_EPROTO: the lane cannot be trusted any more */
    /* MSGF_RESTORE: a restore sends its changes here (freeze.c); else 0 */
    uint16_t right;
    /* atomic copy of lane.cq.pos for those that spin without the lock */
    uint64_t taken;
    uint64_t next_id;
    uint32_t watched;                /* atomic; threads that sleep on the lane */
    struct request *doorbell_holder; /* sleeps on the lane's doorbell */
    struct request *sleepers;        /* sleep on their own futexes; first in, last out */
    struct notice {
        uint16_t type;
        uint64_t id;
    } * notices;
    unsigned notices_n;
    size_t notices_cap;
    /* requests that have a place in notices: notices_n + notices_reserved <= notices_cap */
    unsigned notices_reserved;
    unsigned unsure; /* requests that are */
    uint32_t *held;  /* managers that nothing is to be sent for (PROTOCOL 2) */
    unsigned nheld;
    size_t held_room;
    uint32_t holds; /* how often held has changed */
    /* ops of sets (async.h); those that wait for their keys apart */
    struct client_lane_ops unsent[2];
    uint32_t unsent_n, ops; /* written under lock, atomic; ops that are not done */
    uint32_t sent[2];       /* of them, waiting for their answer */
    /* ops of sets that may have to be sent again (async.h, Q4), by the hash of their keys */
    struct async_op *few_leaders[CLIENT_LANE_LEADERS];
    struct async_op **leaders; /* [leaders_cap]; NULL: few_leaders has all */
    uint32_t leaders_n, leaders_cap;
    bool turns;           /* client_lane_turn() has the lock: it sends what becomes unsent */
    struct place *places; /* in the lane's area (place.c), by their offsets */
    int strays; /* replies to no request, less requests that were given up: for tests, at most 0 */
    struct request *bucket[CLIENT_LANE_BUCKETS];
};

/* How long a call may still wait. The clock is read only when the call really has to wait. */
struct call_deadline {
    struct session *session;
    int timeout_ms;
    bool started;
    struct deadline deadline;
    uint64_t began_ns, checked_ns;
};
void call_deadline_init(struct call_deadline *w, struct session *s, int timeout_ms);
/* Milliseconds to sleep now, or -ETIMEDOUT, DDICT_EGONE, DDICT_ELOST with the sentence set. */
int call_deadline_slice(struct call_deadline *w);
uint64_t call_deadline_left_us(struct call_deadline *w);
/* The manager decides when the time is over: give its answer ms more to arrive. A negative ms takes
 * that back. */
void call_deadline_extend(struct call_deadline *w, int ms);
void call_deadline_renew(struct call_deadline *w); /* progress: the timeout begins anew */

/* A message on its way into the ring, possibly a streamed put. */
struct outgoing {
    /* type, flags, key_len, val_len, aux, manager, tag; id and len are set when it goes out */
    struct msg head;
    const void *key;
    const struct iovec *iov;
    int niov, at; /* the next piece */
    size_t at_off;
    uint64_t sent;
    bool begun;  /* the header is in the ring */
    bool placed; /* the value is in the lane's area, at `place` */
    uint64_t place;
    /* if the manager is held, client_lane_send() returns 1 and sends nothing */
    bool skips;
    /* bytes sent after which client_lane_push() stops, with r->need 0; 0: never */
    uint64_t pause;
};
/* It is to be sent from its header on. */
static inline void outgoing_again(struct outgoing *out) {
    out->begun = false;
    out->sent = 0;
    out->at = 0;
    out->at_off = 0;
}

/* The lane owns event_fd from now on. */
int client_lane_open(struct client_lane *p, struct node_manager *m, int lane_fd, int event_fd);
void client_lane_close(struct client_lane *p);

/* client_lane_send(), then client_lane_wait(), again whenever the manager wants the value again. */
int client_lane_ask(struct client_lane *p, struct outgoing *out, struct request *r,
                    struct call_deadline *w);
/* Send all of out and put r into the table. Waits for room. 0, also if the manager refuses a stream
 * in its middle, which leaves r done; or a negative code. */
int client_lane_send(struct client_lane *p, struct outgoing *out, struct request *r,
                     struct call_deadline *w);
/* Wait until r is done: 0; or, of a put in pieces, until it is rewound: 1. If the deadline ends first,
 * r is given up: a negative code, and r and its buf are the caller's again. */
int client_lane_wait(struct client_lane *p, struct request *r, struct call_deadline *w);
void client_lane_cancel(struct client_lane *p, struct request *r); /* nothing if it is done */
void request_drop(struct request *r); /* free text, and buf of SINK_MEMORY */
/* Before r is sent: set memory aside for a value of up to room bytes. 0 or -ENOMEM, without a
 * sentence. */
int request_aside(struct request *r, uint64_t room);

/* --- for batches, which fill several rings without waiting for one (get_many.c, put_many.c) --- */
void client_lane_lock(struct client_lane *p);
void client_lane_unlock(struct client_lane *p);
/* Under lock: put out into the ring; where r was rewound, from there on. 1: all of it; 0: there is no
 * room now, or if r->need is 0, another thread wants the lock; or a negative code. A refused stream ends
 * with 1 and r done. */
int client_lane_push(struct client_lane *p, struct outgoing *out, struct request *r);
/* Without lock, and without waiting: send a request of one record. 1: sent; 0: there is no room
 * now, or its manager is held; or a negative code. */
int client_lane_try_send(struct client_lane *p, struct outgoing *out, struct request *r);
/* Under lock: deliver the records that are there. Returns their number, or a negative code. */
int client_lane_drain(struct client_lane *p);
void client_lane_wake(struct client_lane *p); /* without lock: wake the manager, if it sleeps */
/* Whether there are records to drain. Without lock. */
static inline bool client_lane_has_records(const struct client_lane *p) {
    /* Acquire pairs with the manager's release of tail; `taken` is stored under lock after each
     * drain, a stale one only costs a look. */
    return __atomic_load_n(&p->lane.page->cq_tail, __ATOMIC_ACQUIRE) !=
           __atomic_load_n(&p->taken, __ATOMIC_RELAXED);
}
/* Drain the lane. If the batch has no result after that, and SQ no room for need bytes (0: any),
 * sleep at most slice_ms. */
int client_lane_wait_any(struct client_lane *p, struct batch *b, uint32_t need, int slice_ms);

/*
 * The same for n lanes with a batch each, until one of them has a result. Sleeps on all their
 * doorbells at once if the kernel can (5.16), otherwise on each in turn for a moment.
 */
int client_lanes_wait_any(struct client_lane *const *p, struct batch *const *b, unsigned n,
                          int slice_ms);

#endif
