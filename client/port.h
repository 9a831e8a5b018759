/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.h - the client's end of a lane: many threads send requests, replies find their way back to who asked.
 *
 * One mutex guards both rings and the table of requests under way; it is held for copying as many messages in and out as there is room for,
 * but for one at a time where others want it, and never while waiting. A waiting thread first spins (more than one core), taking replies for everybody that it finds. Then one
 * waiting thread sleeps on the lane's bell; the others sleep each on a word of their own request, and are woken by whoever takes their
 * reply out of the ring. Who leaves while others sleep makes sure that one of them is at the bell.
 *
 * A request that its asker gives up is taken out of the table; ids are never used twice on a lane, so a late reply finds nobody and is dropped.
 */
#ifndef DDICT_CLIENT_PORT_H
#define DDICT_CLIENT_PORT_H

#include <base/clock.h>
#include <store/reader.h>
#include <wire/lane.h>

#include <pthread.h>
#include <stdbool.h>
#include <sys/uio.h>

struct session;
struct node_manager;
struct batch;
struct job;
struct place;

#define PORT_BUCKETS \
    512u              /* of the table of requests; a full ring of 1 KiB values has about as many */
#define PORT_OWED 64u /* notices waiting for room, at first */
#define NEED_GO   UINT32_MAX

enum sink {
    SINK_NONE,   /* the status and the header are all */
    SINK_BUFFER, /* the value into buf, if cap allows, else DDICT_ESMALL */
    SINK_MEMORY  /* the value or the payload into memory that is allocated for it (buf, free()) */
};
enum asleep { AWAKE, ON_BELL, ON_WORD };

struct request {
    /* set by the asker before it sends */
    enum sink sink;
    uint8_t *buf;
    uint64_t cap;
    uint64_t *slot;      /* lease slot reserved for a PLACED reply; NULL: none */
    struct batch *batch; /* NULL, or who collects */
    uint32_t index;      /* the batch's own */
    bool job;            /* it is the beginning of a struct job (jobs.h), which collects itself */
    /* result; valid once done */
    uint32_t
        done; /* atomic; release pairs with the asker's acquire: all of the result is written before */
    int status;
    bool placed; /* *slot holds the lease on reply.aux */
    struct msg reply;
    char *text;   /* sentence of a refusal, malloc'ed, or NULL */
    uint64_t got; /* bytes in buf */
    /* under port.lock */
    uint64_t id;    /* 0: not in the table */
    uint16_t type;  /* what was asked: decides what is owed when it is given up */
    bool streaming; /* reply: DATA is awaited */
    bool sending;   /* put: LAST was not sent yet */
    bool waits;     /* asked with WAIT */
    uint32_t
        need; /* bytes of room in SQ that it waits for; NEED_GO: that its manager is not held any more; 0: it waits for the reply */
    uint32_t to; /* whose key it is, or whose answer */
    enum asleep asleep;
    uint32_t word;               /* futex: 1 when woken */
    struct request *chain;       /* table bucket */
    struct request *next, *prev; /* sleepers; or the batch's list of the done */
};

/* What one call has under way on one port. */
struct batch {
    struct request *done;   /* under port.lock */
    struct request *napper; /* under port.lock; the collector while it sleeps in port_nap() */
};

struct port_jobs {
    struct job *first, **end;
}; /* in their order */
struct port {
    pthread_mutex_t lock;
    uint32_t wanted; /* atomic; threads that wait for lock */
    struct lane lane;
    int event_fd;                   /* wakes the manager */
    const struct arena_view *arena; /* of the same manager */
    struct node_manager *manager;
    int broken;     /* 0, or DDICT_EPROTO: the lane can not be trusted any more */
    uint64_t taken; /* atomic copy of lane.cq.pos for those that spin without the lock */
    uint64_t next_id;
    uint32_t watched;            /* atomic; threads that sleep on the port */
    struct request *bell_holder; /* sleeps on the lane's bell */
    struct request *sleepers;    /* sleep on their own words; first in, last out */
    struct owed {
        uint16_t type;
        uint64_t id;
    } * owed;
    unsigned nowed, owed_room;
    uint32_t *held; /* managers that nothing is to be sent for (PROTOCOL 2) */
    unsigned nheld, held_room;
    struct port_jobs unsent[2]; /* jobs of sets (jobs.h); those that wait for their keys apart */
    uint32_t unsent_n, jobs;    /* written under lock, atomic; jobs that are not done */
    uint32_t sent[2];           /* of them, waiting for their answer */
    struct place *places;       /* in the lane's area (reserve.c), by their offsets */
    struct request *bucket[PORT_BUCKETS];
};

/* How long a call may still wait. The clock is read only when it has to wait indeed. */
struct patience {
    struct session *session;
    int timeout_ms;
    bool started;
    struct deadline deadline;
    uint64_t began_ns, checked_ns;
};
void patience_init(struct patience *w, struct session *s, int timeout_ms);
/* Milliseconds to sleep now, or -ETIMEDOUT, DDICT_EGONE, DDICT_ELOST with the sentence set. */
int patience_slice(struct patience *w);
uint64_t patience_left_us(struct patience *w);
/* The manager is the judge: give its answer time to arrive; with a negative ms that is taken back. */
void patience_extend(struct patience *w, int ms);
void patience_renew(struct patience *w); /* something has come: the timeout begins anew */

/* A message on its way into the ring, possibly a streamed put. */
struct outgoing {
    struct msg
        head; /* type, flags, key_len, val_len, aux, manager, tag; id and len are set when it goes out */
    const void *key;
    const struct iovec *iov;
    int niov, at; /* the next piece */
    size_t at_off;
    uint64_t sent;
    bool begun;  /* the header is in the ring */
    bool placed; /* the value stands in the lane's area, from `place` on */
    uint64_t place;
    uint64_t pause; /* port_push() stops when so many bytes are sent, with r->need 0; 0: never */
};

int port_open(struct port *p, struct node_manager *m, int lane_fd,
              int event_fd); /* event_fd is taken over */
void port_close(struct port *p);

/* Send all of out; r is in the table then. Waits for room. On a refusal in the middle of a stream: 0, r is done. */
int port_send(struct port *p, struct outgoing *out, struct request *r, struct patience *w);
/* Wait until r is done. When the patience ends first r is given up: negative code, r (and its buf) is the caller's again. */
int port_wait(struct port *p, struct request *r, struct patience *w);
/* Both; returns r->status, or the negative code of a failure to send or wait. */
int port_call(struct port *p, struct outgoing *out, struct request *r, struct patience *w);
void port_give_up(struct port *p, struct request *r); /* no-op when it is done */
void request_drop(struct request *r);                 /* free text, and buf of SINK_MEMORY */

/* --- for batches, which fill several rings without waiting for one (many.c) --- */
void port_lock(struct port *p);
void port_unlock(struct port *p);
/* Under lock: 1 all of it is in the ring, 0 no room now (or r->need is 0: another thread wants the lock), or a negative code. A refused stream ends with 1 and r done. */
int port_push(struct port *p, struct outgoing *out, struct request *r);
int port_drain(
    struct port *p); /* under lock: deliver what is there; number of records, or a negative code */
void port_wake(struct port *p); /* without lock: the manager, if it sleeps */
/* Is something to be drained? Without lock. */
static inline bool port_ready(const struct port *p) {
    /* Acquire pairs with the manager's release of tail; `taken` is stored under lock after each drain, a stale one only costs a look. */
    return __atomic_load_n(&p->lane.page->cq_tail, __ATOMIC_ACQUIRE) !=
           __atomic_load_n(&p->taken, __ATOMIC_RELAXED);
}
/* Take what is there; if the batch has no result then and SQ no room for need bytes (0: does not matter), sleep at most slice_ms. */
int port_nap(struct port *p, struct batch *b, uint32_t need, int slice_ms);

/*
 * The same for n ports with a batch for each: until one of them has a result. Sleeps on all their bells at once, where the kernel can (5.16), else on each in turn for a moment.
 */
int ports_nap(struct port *const *p, struct batch *const *b, unsigned n, int slice_ms);

#endif
