/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane.h - two byte rings in a memfd between one client and one manager. PROTOCOL 3. Each side
 * keeps its positions in private memory, and trusts nothing that it reads from the lane. Each end
 * of each ring is used by one thread at a time (the client has a lock).
 */
#ifndef DDICT_WIRE_LANE_H
#define DDICT_WIRE_LANE_H

#include "msg.h"
#include <ddict_types.h>

#include <stdbool.h>
#include <stddef.h>

#define LANE_MAGIC      0x314e414c54434944ull
#define LANE_RECORD_MAX MSG_LEN_MAX
_Static_assert((DD_LANE_RING & (DD_LANE_RING - 1)) == 0, "positions are masked");
/* a ring with no more bytes than this has room for any record, and a PAD before it */
#define LANE_ROOM_ALWAYS (DD_LANE_RING - 2 * lane_round(LANE_RECORD_MAX))
_Static_assert(2 * LANE_RECORD_MAX + 64 <= DD_LANE_RING, "a record and the PAD before it must fit");

struct lane_page { /* first page of the memfd */
    uint64_t magic;
    /* PROTOCOL_VERSION; bytes of each ring */
    uint32_t version, ring;
    uint64_t sq_tail __attribute__((aligned(64))); /* client writes */
    uint64_t cq_head;                              /* client writes */
    /* LANE_SLEEPS, LANE_POLLS: the client sets them; the manager clears them when it wakes the
     * client, and a thread of the client while it looks at the rings itself */
    uint32_t client_sleeps;
    uint64_t sq_head __attribute__((aligned(64))); /* manager writes */
    uint64_t cq_tail;                              /* manager writes */
    /* the manager sets it: "write my eventfd when cq_head moves"; the client clears it then */
    uint32_t want_space;
    /* futex word: the manager adds 1, the client waits for that */
    uint32_t doorbell __attribute__((aligned(64)));
    /* the manager sets it: "write my eventfd when sq_tail moves"; the client clears it then. Seldom
     * written, so it costs a client nothing */
    uint32_t unwatched __attribute__((aligned(64)));
    /* manager writes: 1 while it gives back memory of SQ or of the area */
    uint32_t taking;
    /* client writes: LANE_AREA_*, whether places of the area are in use (R4) */
    uint64_t area __attribute__((aligned(64)));
    /* client writes: 1 while it writes into SQ (R1 to R3). The manager seldom reads this line, so
     * it costs a client nothing */
    uint32_t sq_used;
};
/* where the rings begin: the area behind them is mapped by itself, so it begins at a border of pages
 * on any machine */
#define LANE_HEAD       DD_PAGE_MAX
#define LANE_RINGS_SIZE (LANE_HEAD + 2u * DD_LANE_RING) /* of the file, from its start */
_Static_assert(LANE_RINGS_SIZE % DD_PAGE_MAX == 0, "the area can be mapped");
/* sparse: of the area behind the rings, only what the client has written takes memory */
#define LANE_FILE_SIZE  ((uint64_t)LANE_RINGS_SIZE + DD_LANE_AREA)
#define LANE_WINDOWS    16u
#define LANE_AREA_FREE  0u /* no places in the area */
#define LANE_AREA_USED  1u /* places in use */
#define LANE_AREA_UNTIL 2u /* none, once SQ head is at the position in the other bits */
#define LANE_SLEEPS     1u /* a thread sleeps, or is about to, on `doorbell` */
#define LANE_POLLS      2u /* the client polls its eventfd, or is about to */

/* One end of one ring. */
struct ring {
    uint8_t *data;
    uint64_t *tail, *head; /* in the lane */
    uint64_t pos;          /* own position: tail of a producer, head of a consumer */
    uint64_t seen;         /* the other side's position, when last read and checked */
    uint64_t reserved;     /* producer: bytes reserved, with padding */
};

struct lane {
    struct lane_page *page;
    struct ring sq, cq;
    int fd; /* a duplicate of its own */
    /* client: lane_write_begin() needs a fence. False: the manager's membarrier takes its place
     * (LAYOUT I5). Set by lane_map(). */
    bool fenced;
    uint8_t *area; /* client: NULL until lane_area() */
    /* manager: mapped windows of the area; used: the value of windows_used at the last use */
    struct lane_window {
        const uint8_t *map;
        uint64_t at, used;
    } window[LANE_WINDOWS];
    uint64_t windows_used;
    /* the client's eventfd, one for all its lanes; borrowed, set by whoever maps the lane; -1:
     * none */
    int client_eventfd;
};

int lane_create(void); /* a sealed, initialised memfd, or a negative code */
/* client: true on the client's end. Checks seals, size, magic, version and positions, and goes on
 * at the positions in the file. 0, DDICT_EVERSION, DDICT_EPROTO, -ENOMEM. fd stays the caller's. */
int lane_map(struct lane *l, int fd, bool client);
void lane_unmap(struct lane *l);
/* Client: the area of DD_LANE_AREA bytes, mapped at the first call. NULL: no address space. */
uint8_t *lane_area(struct lane *l);
/* Manager: len bytes (at most DD_MSG_PIECE) of the area at `off`, valid until the next call. NULL:
 * *code is DDICT_EPROTO (there are no such bytes) or -ENOMEM (no address space). */
const uint8_t *lane_window(struct lane *l, uint64_t off, uint64_t len, int *code);

static inline uint32_t lane_round(uint32_t len) {
    return (len + 63u) & ~63u;
}

/* Producer: whether there is surely room for any record; *bad as in ring_reserve(). */
bool ring_look_for_room(struct ring *r, bool *bad);
static inline bool ring_has_room(struct ring *r, bool *bad) {
    return __builtin_expect(r->pos - r->seen <= LANE_ROOM_ALWAYS, 1) || ring_look_for_room(r, bad);
}

/* Producer: contiguous room for a record of len bytes (64 .. LANE_RECORD_MAX). Write header and
 * payload there, then call ring_commit(); without that the reservation is void. NULL: no room now,
 * or, with *bad set, the other side's position is impossible. */
static inline void *ring_reserve(struct ring *r, uint32_t len, bool *bad) {
    uint64_t pos = r->pos, off = pos & (DD_LANE_RING - 1), need = lane_round(len), pad = 0;
    if (__builtin_expect(off + need > DD_LANE_RING, 0))
        pad = DD_LANE_RING - off;
    if (__builtin_expect(pos + pad + need - r->seen > DD_LANE_RING, 0)) {
        /* Acquire pairs with the release of head in ring_consume(): its reads are over before we
         * write there. */
        uint64_t head = __atomic_load_n(r->head, __ATOMIC_ACQUIRE);
        if (head - r->seen > pos - r->seen) {
            *bad = true;
            return NULL;
        }
        r->seen = head;
        if (pos + pad + need - head > DD_LANE_RING)
            return NULL;
    }
    if (__builtin_expect(pad != 0, 0)) {
        struct msg *m = (struct msg *)(void *)(r->data + off);
        m->len = (uint32_t)pad;
        m->type = MSG_PAD;
        off = 0;
    }
    r->reserved = pad + need;
    return r->data + off;
}

/*
 * Producer: room for a record of 64 bytes and a payload of at least `least` and at most *most bytes
 * (least: at most half a ring; *most: at most DD_MSG_PIECE). *most is set to the room. Call
 * ring_trim() before ring_commit(). NULL as above.
 */
void *ring_reserve_some(struct ring *r, uint32_t least, uint32_t *most, bool *bad);
/* Shorten the reserved record from `was` to len bytes. */
static inline void ring_trim(struct ring *r, uint32_t was, uint32_t len) {
    r->reserved -= lane_round(was) - lane_round(len);
}

/* Publish the reservation. */
static inline void ring_commit(struct ring *r) {
    r->pos += r->reserved;
    r->reserved = 0;
    /* Release pairs with the acquire of tail in ring_peek() and ring_ready(): the record is whole
     * when tail is seen. */
    __atomic_store_n(r->tail, r->pos, __ATOMIC_RELEASE);
}

/* Slow parts of ring_peek(): read tail again; skip a PAD. 1: go on; 0: empty; or DDICT_EPROTO. */
int ring_refill(struct ring *r);
int ring_skip_pad(struct ring *r, uint32_t len);

/*
 * Consumer: 1, with a copy of the header in *m and *payload in the ring (m->len - 64 bytes, which
 * may change at any time); 0: empty; or DDICT_EPROTO. Gives the same record until ring_consume().
 * Skips PAD records.
 */
static inline int ring_peek(struct ring *r, struct msg *m, const uint8_t **payload) {
    for (;;) {
        if (r->pos == r->seen) {
            int e = ring_refill(r);
            if (e <= 0)
                return e;
        }
        uint64_t off = r->pos & (DD_LANE_RING - 1);
        const uint8_t *at = r->data + off;
        __builtin_memcpy(m, at, sizeof *m);
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* only the copy is used from here on */
        if (__builtin_expect(m->type == MSG_PAD, 0)) {
            int e = ring_skip_pad(r, m->len);
            if (e < 0)
                return e;
            continue;
        }
        int e = msg_check(m, LANE_RECORD_MAX);
        if (e < 0)
            return e;
        uint32_t need = lane_round(m->len);
        if (need > r->seen - r->pos || off + need > DD_LANE_RING)
            return DDICT_EPROTO;
        *payload = at + MSG_HEADER;
        return 1;
    }
}

static inline void ring_consume(struct ring *r, const struct msg *m) {
    r->pos += lane_round(m->len);
    /* Release pairs with the acquire of head in ring_reserve(): we have read the record before it
     * is written over. */
    __atomic_store_n(r->head, r->pos, __ATOMIC_RELEASE);
}

/*
 * Manager: the records of CQ that the client may not have consumed yet, one with each call: 1, with
 * its header in *m, and *at (first the head, r->seen) behind it; 0: there are no more; or
 * DDICT_EPROTO.
 */
int ring_look(const struct ring *r, uint64_t *at, struct msg *m);

/* Cheap: whether there may be a record. */
static inline bool ring_ready(const struct ring *r) {
    return __atomic_load_n(r->tail, __ATOMIC_ACQUIRE) != r->pos;
}

/* Wake all who have announced that they sleep or poll; the slow part of the next two functions. */
void lane_wake_sleepers(struct lane *l);
/* Manager: after commits and consumes, wake the client if it sleeps: no system call otherwise. Once
 * after a batch is enough. */
static inline void lane_wake_client(struct lane *l) {
    /* Fence pairs with that of lane_sleep_announce(): either the manager sees client_sleeps, or the
     * client sees the new tail and head. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(__atomic_load_n(&l->page->client_sleeps, __ATOMIC_RELAXED) != 0, 0))
        lane_wake_sleepers(l);
}

/* The same after consumes of SQ alone, the first of them at `from`: a client waits for room only if
 * the ring had none for some record. */
static inline void lane_wake_for_room(struct lane *l, uint64_t from) {
    /* Fence as above. A client that waits for room has stored its tail, and the oldest head that it
     * can have seen since the last call is `from`: at most tail - from bytes were in its way. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(__atomic_load_n(&l->page->client_sleeps, __ATOMIC_RELAXED) != 0, 0) &&
        __atomic_load_n(l->sq.tail, __ATOMIC_RELAXED) - from > LANE_ROOM_ALWAYS)
        lane_wake_sleepers(l);
}

/*
 * Client: wait until the manager did something, at most slice_ms: doorbell = announce; look at the
 * rings again; if nothing has changed: lane_sleep(doorbell). Any number of threads may sleep on one
 * lane; all are woken. The announcement holds until the manager wakes the client next, or the
 * client withdraws it.
 */
uint32_t lane_sleep_announce(struct lane *l);
/* The same for a client that polls its eventfd: announce; look at the rings again; if nothing has
 * changed: poll. The announcement holds as long. */
void lane_poll_announce(struct lane *l);
void lane_sleep(struct lane *l, uint32_t doorbell, int slice_ms);

/*
 * Manager: stop looking at SQ in each turn. False: there is a record after all, so it goes on
 * looking. After this, the client writes the eventfd of the lane when it has stored tail. PROTOCOL
 * 3, W1 to W5.
 */
static inline bool lane_leave(struct lane *l) {
    __atomic_store_n(&l->page->unwatched, 1, __ATOMIC_RELAXED);
    /* pairs with the client's fence between storing tail and lane_is_left() */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!ring_ready(&l->sq))
        return true;
    __atomic_store_n(&l->page->unwatched, 0, __ATOMIC_RELAXED);
    return false;
}
static inline void lane_watch(struct lane *l) {
    __atomic_store_n(&l->page->unwatched, 0, __ATOMIC_RELAXED);
}
/* Client, after ring_commit(&l->sq) and a seq_cst fence. True: it must write the eventfd of the
 * lane. */
static inline bool lane_is_left(struct lane *l) {
    return __builtin_expect(__atomic_load_n(&l->page->unwatched, __ATOMIC_RELAXED) != 0, 0) &&
           __atomic_exchange_n(&l->page->unwatched, 0, __ATOMIC_RELAXED) != 0;
}

/*
 * An idle lane gives back the memory that a burst took: PROTOCOL 3, R1 to R4. Client: write into SQ
 * (as ring_reserve() does) only between these two calls. False: not now, as if there were no room;
 * the manager wakes the client some ten microseconds later.
 */
static inline bool lane_write_begin(struct lane *l) {
    __atomic_store_n(&l->page->sq_used, 1, __ATOMIC_RELAXED);
    if (__builtin_expect(l->fenced, 0))
        __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with that of shrink_begin() */
    else
        /* the manager's membarrier makes this a fence when one is needed */
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    /* pairs with the release in shrink_end() */
    if (__builtin_expect(__atomic_load_n(&l->page->taking, __ATOMIC_ACQUIRE) == 0, 1))
        return true;
    __atomic_store_n(&l->page->sq_used, 0, __ATOMIC_RELEASE);
    return false;
}
/* pairs with the acquire in lane_shrink_rings() */
static inline void lane_write_end(struct lane *l) {
    __atomic_store_n(&l->page->sq_used, 0, __ATOMIC_RELEASE);
}
/* Client: declares places in the area in use until lane_area_end() with LANE_AREA_FREE or
 * LANE_AREA_UNTIL | position. Returns where places may begin: memory before that is being given
 * back. */
uint64_t lane_area_begin(struct lane *l);
static inline void lane_area_end(struct lane *l, uint64_t area) {
    __atomic_store_n(&l->page->area, area, __ATOMIC_RELEASE);
}

/*
 * Manager: give back memory: of both rings, except records; of len bytes of the area (below
 * DD_AREA_KEPT) at `at`. barriers: of the arena's header. No room in CQ may be reserved; windows of
 * the area are unmapped. 0, or -EBUSY: the client uses it.
 */
int lane_shrink_rings(struct lane *l, bool barriers);
int lane_shrink_area(struct lane *l, bool barriers, uint64_t at, uint64_t len);
uint64_t lane_memory(const struct lane *l); /* bytes in memory */
/* Manager: another process had this end and died at any moment: undo what it began, and wake the
 * client, which it may have left asleep (PROTOCOL 3, W6). */
void lane_resume(struct lane *l);

/* Manager, when ring_reserve(&l->cq) found no room: call this, try once more, then sleep; the
 * client will write the eventfd. */
static inline void lane_want_space(struct lane *l) {
    __atomic_store_n(&l->page->want_space, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with that of lane_space_wanted() */
}
/* Client, after ring_consume(&l->cq), once after a batch. True: it must write the eventfd of the
 * lane. */
static inline bool lane_space_wanted(struct lane *l) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with that of lane_want_space() */
    return __builtin_expect(__atomic_load_n(&l->page->want_space, __ATOMIC_RELAXED) != 0, 0) &&
           __atomic_exchange_n(&l->page->want_space, 0, __ATOMIC_RELAXED) != 0;
}

#endif
