/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane.h - two byte rings in a memfd between one client and one manager. PROTOCOL 3. Each side keeps its own positions in
 * private memory and trusts nothing that it reads from the lane. One thread at a time on each end of each ring (the
 * client locks around it).
 */
#ifndef DDICT_WIRE_LANE_H
#define DDICT_WIRE_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <wire/msg.h>

#define LANE_MAGIC 0x314e414c54434944ull
#define LANE_RECORD_MAX (DD_LANE_RING / 4)

struct lane_page { /* first page of the memfd */
    uint64_t magic;
    uint32_t version, ring;                               /* PROTOCOL_VERSION, bytes of each ring */
    uint64_t sq_tail __attribute__((aligned(64)));        /* client writes */
    uint64_t cq_head;                                     /* client writes */
    uint32_t client_sleeps;                               /* client writes */
    uint64_t sq_head __attribute__((aligned(64)));        /* manager writes */
    uint64_t cq_tail;                                     /* manager writes */
    uint32_t want_space;                                  /* manager writes: ring my eventfd when cq_head moves */
    uint32_t bell __attribute__((aligned(64)));           /* manager adds, client waits on it (futex) */
};
#define LANE_FILE_SIZE (4096u + 2u * DD_LANE_RING)

/* One end of one ring. */
struct ring {
    uint8_t *data;
    uint64_t *tail, *head;  /* in the lane */
    uint64_t pos;           /* mine: tail when producing, head when consuming */
    uint64_t seen;          /* the other side's position, last read and checked */
    uint64_t reserved;      /* producer: bytes of the reservation, padding included */
};

struct lane {
    struct lane_page *page;
    struct ring sq, cq;
};

int lane_create(void); /* a sealed, initialised memfd, or a negative code */
/* client: true on the client's end. Checks size, magic, version. DDICT_EVERSION, DDICT_EPROTO, -ENOMEM. The fd stays the caller's. */
int lane_map(struct lane *l, int fd, bool client);
void lane_unmap(struct lane *l);

/* Producer: contiguous room for a record of len bytes (<= LANE_RECORD_MAX), NULL when the ring has none now; negative positions
 * of the other side: *bad is set. Write header and payload there, then ring_commit(). */
void *ring_reserve(struct ring *r, uint32_t len, bool *bad);
void ring_commit(struct ring *r); /* tail, release */

/*
 * Consumer: 1 and the header copied into *m, *payload in the ring (m->len - 64 bytes, may change under us); 0 when empty;
 * DDICT_EPROTO. The same record is given until ring_consume(). PAD records are skipped inside.
 */
int ring_peek(struct ring *r, struct msg *m, const uint8_t **payload);
void ring_consume(struct ring *r, const struct msg *m); /* head, release */
/* Cheap look: is there anything to peek at? */
static inline bool ring_ready(const struct ring *r) { return __atomic_load_n(r->tail, __ATOMIC_ACQUIRE) != r->pos; }

/* Manager: after commits and consumes, wake the client if it sleeps. */
void lane_ring_client(struct lane *l);
/* Client: wait until bell moved from `seen`, at most slice_ms. Protocol: PROTOCOL 3. */
uint32_t lane_sleep_announce(struct lane *l);             /* returns bell; then look again; then */
void lane_sleep(struct lane *l, uint32_t bell, int slice_ms);
void lane_sleep_end(struct lane *l);

#endif
