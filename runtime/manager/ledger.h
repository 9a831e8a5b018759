/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.h - requests of clients that were taken and are not answered, in memory that outlives the
 * manager: its next life takes them again (PROTOCOL 12). ddictd makes it before the fork; only the
 * manager writes it. A request for which there is no room in it is not known to the next life, which
 * answers KNOWS with FORGOT (knows.h).
 *
 * Memory is taken by chunks as they are used, the first that have room first, and given back by
 * chunks: ledger_shrink().
 */
#ifndef DDICT_MANAGER_LEDGER_H
#define DDICT_MANAGER_LEDGER_H

#include <wire/msg.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEDGER_KEY     64u            /* bytes of the payload in one entry */
#define LEDGER_BYTES   232u           /* ... and in each further one */
#define LEDGER_LARGE   65512u         /* ... and in a whole chunk of further ones, as one part */
#define LEDGER_LIVES   2u             /* so many end at a request; then it is not taken again */
#define LEDGER_CHUNK   256u           /* entries: 64 KiB, a page of any machine */
#define LEDGER_CHUNKS  8192u          /* room for a hundred lanes with DD_COPIES_MAX bytes each */
#define LEDGER_ENTRIES (8192u * 256u) /* of all chunks: 512 MiB of address space */
#define LEDGER_HEAD    (128u << 10)   /* bytes before the first entry: pages of any machine */
/* chunks whose memory stays, 1 MiB: it is used again at once */
#define LEDGER_KEPT 16u
/* one chunk of so many is for LEDGER_FLIGHT alone: what waits keeps nobody from changing something */
#define LEDGER_SPARE 64u
/* so much of a payload gets a chunk of its own: copied at once, not by entries */
#define LEDGER_LARGE_MIN 8192u
/* ... one of so many, an eighth of all, as such a chunk may be used for an eighth alone */
#define LEDGER_LARGE_CHUNKS 1024u
/* chunks that are given back in one turn, 4 MiB: half a millisecond */
#define LEDGER_STEP 64u
/* in store_source.at: not a position of SQ, but the number of an entry */
#define LEDGER_SOURCE (1ull << 63)
/* in ledger_pass.upto: all of it stands in CQ, or why it ends before */
#define LEDGER_OVER UINT64_MAX
/* in ledger_entry.client: not a client, but another manager */
#define LEDGER_PROXY (1ull << 63)
/* in ledger_entry.client: of nobody; a change that was sent to the backup (PROTOCOL 13), with its key.
 * req: its REPL */
#define LEDGER_FLIGHT (1ull << 62)
/* in ledger_entry.seq: not a request, but more of the payload of the one with this number */
#define LEDGER_PART (1ull << 63)

/* Of a value that comes in pieces from another manager, and goes on to the lane: what of it stands in
 * CQ. Where CQ still ends at `pos` it is `from`, else `upto`: 0: nothing; else one more than the bytes
 * behind the reply. Each is stored by itself; see ledger_note(). Of a put in pieces for another
 * manager: see ledger_rewinds(). */
struct ledger_pass {
    uint64_t pos, from, upto;
    uint64_t version, val_len, tag; /* of the value */
};

struct ledger_entry {
    uint64_t seq; /* its number, from 1; 0: free. Stored last, and first when it ends */
    /* where its record began in SQ. Free: at is the next free one of the chunk. A part: its
     * request's place */
    uint64_t at;
    uint64_t more; /* place of the entry with the rest of its payload; 0: none */
    union {
        uint8_t part[LEDGER_BYTES];
        struct {
            uint64_t client; /* whose; LEDGER_PROXY: of a PUT whose value comes over a connection */
            uint64_t deadline; /* ns of clock_ns() */
            /* offset of the item that answers it, which is pinned; of a PUT: of its block, which is
             * reserved; 0: not known yet */
            uint64_t value;
            /* of a PUT whose value comes in pieces: the bytes that are in its block; for another
             * manager (id): see ledger_rewind(). Where the last piece began in SQ, 0: it has not come.
             * Of a GET or POP: got is 1 when the rest of its value is not sent */
            uint64_t got, end;
            /* of a change for another manager, `to`: its id there; 0: it was not sent */
            uint64_t id;
            uint32_t to;
            uint32_t bytes; /* of its payload that are kept */
            struct ledger_pass pass;
            struct msg req;
            uint8_t key[LEDGER_KEY];
        };
    };
};
_Static_assert(sizeof(struct ledger_entry) == 256, "some whole cache lines");

/* the request at which lives ended by a fault */
struct ledger_fatal {
    uint64_t client, at, id; /* as in store_source */
    uint64_t lives;
};

struct ledger_chunk {
    uint16_t top;  /* entries so far that were ever used; 0: it has no memory */
    uint16_t used; /* entries in use; this and the rest is found anew by ledger_open() */
    uint16_t free; /* the first free one, from 1; 0: none below top */
    uint16_t lent; /* of a large one: see ledger_lend() */
    bool touched;  /* since ledger_shrink() looked at it last */
    bool large; /* its first entry is a part of LEDGER_LARGE bytes, or free; there are no others */
    uint16_t number;
};

struct ledger {
    union {
        struct {
            uint64_t seq;    /* the last number of an entry */
            uint64_t number; /* of the last id that a forward got, in any life */
            struct ledger_fatal fatal;
            uint32_t most;  /* chunks that may be used, for tests; 0: all */
            uint32_t reach; /* no chunk from here on has memory */
            uint32_t low;   /* no chunk below has room */
            uint32_t empty; /* no chunk below is empty */
            uint32_t next;  /* where ledger_shrink() goes on */
            struct ledger_chunk chunk[LEDGER_CHUNKS];
        };
        uint8_t head[LEDGER_HEAD];
    };
    struct ledger_entry entry[LEDGER_ENTRIES]; /* named by their place from 1 */
};
_Static_assert(offsetof(struct ledger, entry) == LEDGER_HEAD, "entries begin with a page");
_Static_assert(LEDGER_ENTRIES == LEDGER_CHUNK * LEDGER_CHUNKS, "all entries are of a chunk");

/* Memory for one, all zero, in none of which a page is taken. NULL with errno. */
struct ledger *ledger_map(void);
/*
 * Of a PUT in pieces for another manager: the number of the last REWIND of its client, and whether the
 * last piece since then has come.
 */
static inline void ledger_rewind(struct ledger_entry *e, uint32_t number, bool last) {
    __atomic_store_n(&e->got, (uint64_t)number << 1 | last, __ATOMIC_RELEASE);
}
static inline uint32_t ledger_rewound(const struct ledger_entry *e) {
    return (uint32_t)(e->got >> 1);
}
/* This REWIND is about to be published in CQ, which ends at pos now. */
void ledger_rewinds(struct ledger_entry *e, uint64_t pos, uint32_t number);
/* A last piece has left SQ, whose head is at `head`. */
static inline bool ledger_closed(const struct ledger_entry *e, uint64_t head) {
    return e->end && (int64_t)(head - e->end) > 0;
}
static inline bool ledger_pieces_come(const struct ledger_entry *e, uint64_t head) {
    return !(e->got & 1) || !ledger_closed(e, head);
}
/* Of a manager that starts: which entries are free. */
void ledger_open(struct ledger *l);
/* An entry for a request, with its key and the n bytes of its value. NULL: no room. */
struct ledger_entry *ledger_add(struct ledger *l, uint64_t client, uint64_t at, uint64_t deadline,
                                const struct msg *req, const void *key, const void *value,
                                uint32_t n);
void ledger_end(struct ledger *l, struct ledger_entry *e);
/* It is a change that goes to manager `to` with this id. */
void ledger_id(struct ledger_entry *e, uint32_t to, uint64_t id);
/* This value goes on to its lane from now on. */
void ledger_passes(struct ledger_entry *e, const struct msg *reply);
/* Something of that value is about to be published in CQ, which ends at pos now; then it is `upto`. */
void ledger_note(struct ledger_entry *e, uint64_t pos, uint64_t upto);
/* A later life, before anything is published in CQ, which ends at pos: what was published is noted
 * alone. A REWIND that was not published was never about to be: its client does not know of it. */
void ledger_settle(struct ledger_entry *e, uint64_t pos);
/* Copy its key, and the value that was given with it: e->bytes bytes. */
void ledger_payload(const struct ledger *l, const struct ledger_entry *e, uint8_t *to);
struct ledger_lent {
    const uint8_t *bytes; /* the last n of its payload */
    uint32_t n;
    void *arg;
};
/* The end of its payload, if that is one large part: it is sent from there, and stays there until
 * ledger_back(lent->arg), also when the entry ends before. */
bool ledger_lend(struct ledger *l, const struct ledger_entry *e, struct ledger_lent *lent);
void ledger_back(void *arg);
/* The first request, or the next behind e, in any order; NULL: there is none. */
struct ledger_entry *ledger_next(struct ledger *l, const struct ledger_entry *e);
/* The entry of that number, or NULL. */
struct ledger_entry *ledger_find(struct ledger *l, uint64_t seq);
/* All requests in the order in which they were taken, to be freed; *n: their number. NULL: no
 * memory. */
struct ledger_entry **ledger_list(struct ledger *l, size_t *n);
/* Whether it has memory that may be given back once it is free. */
static inline bool ledger_grown(const struct ledger *l) {
    return l->reach > LEDGER_KEPT;
}
/* Give back memory of chunks that nothing used between two passes, at most LEDGER_STEP. True: this
 * pass is not over. */
bool ledger_shrink(struct ledger *l);

#endif
