/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_lane.h - the client's end of a lane: many threads send requests, replies find their way
 * back to who asked.
 *
 * One mutex guards both rings and the table of requests under way; it is held for copying as many
 * messages in and out as there is room for, but for one at a time where others want it, and never
 * while waiting. A waiting thread first spins (more than one core), taking replies for everybody
 * that it finds. Then one waiting thread sleeps on the lane's doorbell; the others sleep each on a
 * futex of their own request, and are woken by whoever takes their reply out of the ring. Who
 * leaves while others sleep makes sure that one of them is at the doorbell.
 *
 * A request that its requester gives up is taken out of the table; ids are never used twice on a
 * lane, so a late reply finds nobody and is dropped.
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
    /* SINK_MEMORY: bytes that request_aside() set aside for the value before it was asked for; 0:
     * none */
    uint64_t room;
    uint64_t *slot;      /* lease slot reserved for a PLACED reply; NULL: none */
    struct batch *batch; /* NULL, or who collects */
    uint32_t index;      /* the batch's own */
    /* it is the beginning of a struct async_op (async.h), which collects itself */
    bool is_async_op;
    /* result; valid once done */
    /* atomic; release pairs with the requester's acquire: all of the result is written before */
    uint32_t done;
    int status;
    bool placed; /* *slot holds the lease on reply.aux */
    struct msg reply;
    char *text;   /* sentence of a refusal, malloc'ed, or NULL */
    uint64_t got; /* bytes in buf */
    /* under lane.lock */
    uint64_t id;          /* 0: not in the table */
    uint16_t type;        /* what was asked: decides which notice is due when it is given up */
    bool streaming;       /* reply: DATA is awaited */
    bool sending;         /* put: LAST was not sent yet */
    bool notice_reserved; /* it has a place in lane.notices, should it be given up */
    bool waits;           /* asked with WAIT */
    /* bytes of room in SQ that it waits for; NEED_GO: that its manager is not held any more; 0: it
     * waits for the reply */
    uint32_t need;
    uint32_t to; /* whose key it is, or whose answer */
    enum asleep asleep;
    uint32_t futex_word;         /* 1 when woken */
    struct request *chain;       /* table bucket */
    struct request *next, *prev; /* sleepers; or the batch's list of the done */
};

/* What one call has under way on one lane. */
struct batch {
    struct request *done; /* under lane.lock */
    struct request
        *sleeper; /* under lane.lock; the collector while it sleeps in client_lane_wait_any() */
};

struct client_lane_ops {
    struct async_op *first, **end;
}; /* in their order */
struct client_lane {
    pthread_mutex_t lock;
    uint32_t wanted; /* atomic; threads that wait for lock */
    struct lane lane;
    int event_fd;                   /* wakes the manager */
    const struct arena_view *arena; /* of the same manager */
    struct node_manager *manager;
    int broken; /* 0, or DDICT_EPROTO: the lane can not be trusted any more */
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
    uint32_t *held; /* managers that nothing is to be sent for (PROTOCOL 2) */
    unsigned nheld;
    size_t held_room;
    uint32_t holds; /* how often held has changed */
    /* ops of sets (async.h); those that wait for their keys apart */
    struct client_lane_ops unsent[2];
    uint32_t unsent_n, ops; /* written under lock, atomic; ops that are not done */
    uint32_t sent[2];       /* of them, waiting for their answer */
    struct place *places;   /* in the lane's area (place.c), by their offsets */
    struct request *bucket[CLIENT_LANE_BUCKETS];
};

/* How long a call may still wait. The clock is read only when it has to wait indeed. */
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
/* The manager is the judge: give its answer time to arrive; with a negative ms that is taken back.
 * */
void call_deadline_extend(struct call_deadline *w, int ms);
void call_deadline_renew(struct call_deadline *w); /* something has come: the timeout begins anew */

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
    bool placed; /* the value stands in the lane's area, from `place` on */
    uint64_t place;
    /* client_lane_send() is over with 1, and nothing was sent, where the manager is held */
    bool skips;
    /* client_lane_push() stops when so many bytes are sent, with r->need 0; 0: never */
    uint64_t pause;
};

/* event_fd is taken over */
int client_lane_open(struct client_lane *p, struct node_manager *m, int lane_fd, int event_fd);
void client_lane_close(struct client_lane *p);

/* Send all of out; r is in the table then. Waits for room. On a refusal in the middle of a stream:
 * 0, r is done. */
int client_lane_send(struct client_lane *p, struct outgoing *out, struct request *r,
                     struct call_deadline *w);
/* Wait until r is done. When the deadline ends first r is given up: negative code, r (and its buf)
 * is the caller's again. */
int client_lane_wait(struct client_lane *p, struct request *r, struct call_deadline *w);
void client_lane_cancel(struct client_lane *p, struct request *r); /* no-op when it is done */
void request_drop(struct request *r); /* free text, and buf of SINK_MEMORY */
/* before it is sent: memory that takes a value of up to room bytes. 0 or -ENOMEM, without a
 * sentence */
int request_aside(struct request *r, uint64_t room);

/* --- for batches, which fill several rings without waiting for one (many.c) --- */
void client_lane_lock(struct client_lane *p);
void client_lane_unlock(struct client_lane *p);
/* Under lock: 1 all of it is in the ring, 0 no room now (or r->need is 0: another thread wants the
 * lock), or a negative code. A refused stream ends with 1 and r done. */
int client_lane_push(struct client_lane *p, struct outgoing *out, struct request *r);
/* With a lock of its own, and never waiting: 1 a request of one record is sent, 0 there is no room
 * now or its manager is held, or a negative code. */
int client_lane_try_send(struct client_lane *p, struct outgoing *out, struct request *r);
/* under lock: deliver what is there; number of records, or a negative code */
int client_lane_drain(struct client_lane *p);
void client_lane_wake(struct client_lane *p); /* without lock: the manager, if it sleeps */
/* Is something to be drained? Without lock. */
static inline bool client_lane_has_records(const struct client_lane *p) {
    /* Acquire pairs with the manager's release of tail; `taken` is stored under lock after each
     * drain, a stale one only costs a look. */
    return __atomic_load_n(&p->lane.page->cq_tail, __ATOMIC_ACQUIRE) !=
           __atomic_load_n(&p->taken, __ATOMIC_RELAXED);
}
/* Take what is there; if the batch has no result then and SQ no room for need bytes (0: does not
 * matter), sleep at most slice_ms. */
int client_lane_wait_any(struct client_lane *p, struct batch *b, uint32_t need, int slice_ms);

/*
 * The same for n lanes with a batch for each: until one of them has a result. Sleeps on all their
 * bells at once, where the kernel can (5.16), else on each in turn for a moment.
 */
int client_lanes_wait_any(struct client_lane *const *p, struct batch *const *b, unsigned n,
                          int slice_ms);

#endif
