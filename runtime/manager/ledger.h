/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.h - requests of clients that were taken and wait, in memory that outlives the manager: its
 * next life takes them again (PROTOCOL 12). ddictd makes it before the fork; only the manager
 * writes it. Where there is none, or no room in it, a request is counted in `held`.
 */
#ifndef DDICT_MANAGER_LEDGER_H
#define DDICT_MANAGER_LEDGER_H

#include <wire/msg.h>

#include <stddef.h>
#include <stdint.h>

#define LEDGER_KEY     128u   /* bytes of the key in one entry */
#define LEDGER_LIVES   2u     /* so many end at a request; then it is not taken again */
#define LEDGER_ENTRIES 32768u /* 8 MiB of address space; memory is taken as they are used */
/* in store_source.at: not a position of SQ, but the number of an entry */
#define LEDGER_SOURCE (1ull << 63)
/* in ledger_entry.seq: not a request, but more of the key of the one with this number */
#define LEDGER_PART (1ull << 63)

struct ledger_entry {
    uint64_t seq; /* its number, from 1; 0: free. Stored last, and first when it ends */
    /* whose; where its record began in SQ. Free: at is the next free one. A part: its request's */
    uint64_t client, at;
    uint64_t deadline; /* ns of clock_ns() */
    /* offset of the item that answers it, which is pinned; of a PUT: of its block, which is
     * reserved; 0: not known yet */
    uint64_t value;
    uint64_t more; /* the entry with the rest of its key; 0: none */
    /* of a PUT whose value comes in pieces: the bytes that are in its block; where the last piece
     * began in SQ, 0: it has not come */
    uint64_t got, end;
    struct msg req;
    uint8_t key[LEDGER_KEY];
};
_Static_assert(sizeof(struct ledger_entry) == 256, "some whole cache lines");

/* the request at which lives ended by a fault */
struct ledger_fatal {
    uint64_t client, at, id; /* as in store_source */
    uint64_t lives;
};

struct ledger {
    uint64_t seq;  /* the last number */
    uint64_t top;  /* entries so far that were ever used */
    uint64_t free; /* entries are named by their place from 1 */
    struct ledger_fatal fatal;
    struct ledger_entry entry[LEDGER_ENTRIES];
};

/* Of a manager that starts: which entries are free. */
void ledger_open(struct ledger *l);
/* NULL: no room. */
struct ledger_entry *ledger_add(struct ledger *l, uint64_t client, uint64_t at, uint64_t deadline,
                                const struct msg *req, const void *key);
void ledger_end(struct ledger *l, struct ledger_entry *e);
/* Copy its key, of e->req.key_len bytes. */
void ledger_key(const struct ledger *l, const struct ledger_entry *e, uint8_t *key);
/* The entry of that number, or NULL. */
struct ledger_entry *ledger_find(struct ledger *l, uint64_t seq);
/* All requests in the order in which they were taken, to be freed; *n: their number. NULL: no
 * memory. */
struct ledger_entry **ledger_list(struct ledger *l, size_t *n);

#endif
