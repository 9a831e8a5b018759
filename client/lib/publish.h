/* SPDX-License-Identifier: Apache-2.0 */
/*
 * publish.h - one value on every node: what its items are (FORMAT 8), and what publishing and
 * following share.
 *
 *     index        of a name: which version is the newest, and the one before; small values too
 *     pieces       of a large value, on managers of the node that published it (its origin)
 *     chain        of a large value: the nodes that fetch it, and from whom each does
 *     passed on    pieces that a node has fetched and the next node of the chain has not yet
 *     whole        the value in one, on each node that has fetched it
 *     held         of a name, on each node: the versions that it has fetched or is fetching
 *
 * All are changed by put_if alone, or have one writer. A change of the index is the moment of a
 * publication.
 */
#ifndef DDICT_LIB_PUBLISH_H
#define DDICT_LIB_PUBLISH_H

#include "handle.h"

/* a value up to this size stands in the index: it costs no message more than its version. Bytes */
#define PUB_INLINE 65536u
/* pieces of a large value: the last node of a chain has it as many pieces after the first as there
 * are nodes between them */
#define PUB_PIECES    256u
#define PUB_PIECE_MIN 65536u
#define PUB_PIECE_MAX (8u << 20)
/* in an index, with the newest and the one before */
#define PUB_ENTRIES 32u
/* without a piece from the node before: look whether it goes on; and then, although it lives: take
 * them from the origin. ms */
#define PUB_UPSTREAM_MS      1000u
#define PUB_UPSTREAM_LAST_MS 10000u
/* between looks whether who fetches for this node lives. ms */
#define PUB_HOLDER_MS 250
#define PUB_KEY_MAX   80u /* bytes, of a key that is not by name */
#define PUB_NONE      UINT32_MAX
#define PUB_INDEX     "\0ddict.pub/i" /* then the name: the key of its index */
#define PUB_INDEX_LEN (sizeof PUB_INDEX - 1)
#define PUB_FORMAT    1u

struct pub_uid {
    uint64_t node, client, count;
};

enum { PUB_READY, PUB_OLD, PUB_MAKING };
struct pub_entry {
    uint64_t version; /* 0: there is none */
    struct pub_uid uid;
    uint64_t len;
    uint64_t piece;  /* bytes of each piece but the last; 0: the value stands in the index */
    uint32_t tag;    /* DDICT_TAG of the value */
    uint16_t state;  /* PUB_* */
    uint16_t spare;  /* 0 */
    uint32_t origin; /* node */
    uint32_t spare2;
};

struct pub_index { /* followed by the value, if entry[0] has it */
    uint32_t format, entries;
    uint8_t pad[56];
    struct pub_entry entry[];
};
/* Whether len bytes are an index, by its numbers. */
static inline bool pub_is_index(const struct pub_index *x, size_t len) {
    return len >= sizeof *x && x->format == PUB_FORMAT && x->entries >= 2 &&
           x->entries <= PUB_ENTRIES && len >= sizeof *x + x->entries * sizeof x->entry[0];
}

/* One call: its dictionary, name and time. */
struct pub_call {
    ddict_t *d;
    struct session *s;
    struct ddict_client me;
    uint64_t hash; /* of the name */
    uint8_t *key;  /* of the index; malloc'ed */
    size_t klen;
    uint64_t until_ns;
    unsigned home;   /* the node whose managers hold what this node holds */
    unsigned makers; /* other publishers of whom was asked whether they live */
};

/* --- publish_items.c --- */
/* Check the name and begin. pub_end() also after a failure. */
int pub_begin(struct pub_call *c, ddict_t *d, const void *name, size_t nlen, int timeout_ms);
void pub_end(struct pub_call *c);
int pub_left_ms(const struct pub_call *c); /* 0: the time is over */
static inline uint64_t pub_pieces(const struct pub_entry *e) {
    return (e->len + e->piece - 1) / e->piece;
}
static inline uint64_t pub_piece_len(const struct pub_entry *e, uint64_t i) {
    return i + 1 < pub_pieces(e) ? e->piece : e->len - i * e->piece;
}
bool pub_same(const struct pub_uid *a, const struct pub_uid *b);

struct pub_key {
    uint8_t bytes[PUB_KEY_MAX];
    size_t len;
};
enum pub_kind { PUB_CHAIN = 'c', PUB_PIECE = 'p', PUB_PASSED = 't', PUB_WHOLE = 'v' };
/* The key of an item of one value on a node. */
int pub_key_of(const struct pub_call *c, const struct pub_entry *e, enum pub_kind kind,
               unsigned node, uint64_t number, struct pub_key *k);

/* An index as it was read. */
struct pub_look {
    struct ddict_view view; /* of all of it; kind_ 0: there is none */
    uint64_t version;       /* of the key; 0: absent */
    bool lost;              /* then it may have been lost */
    unsigned n;             /* at least 2 */
    struct pub_entry e[PUB_ENTRIES];
    const void *value; /* of e[0], if it stands there */
};
int pub_look(struct pub_call *c, struct pub_look *l);
void pub_look_end(struct pub_look *l);
/* Whether the index names it as the newest or the one before. */
bool pub_is_current(const struct pub_look *l, const struct pub_uid *u);
/* Store e[0 .. n - 1] and the value in place of what was read. DDICT_ECHANGED. */
int pub_index_put(struct pub_call *c, const struct pub_look *l, const struct pub_entry *e,
                  unsigned n, const struct iovec *iov, int niov);

/* The chain of a value. */
enum { PUB_OPEN, PUB_CLOSED };
struct pub_link {
    uint32_t node, up; /* up: whose passed on pieces it takes; PUB_NONE: those of the origin */
    uint32_t state, spare;
};
struct pub_chain {
    uint64_t version; /* of its key */
    uint32_t closed;  /* nobody may join: its value is being removed */
    uint32_t n;
    struct pub_link *link; /* malloc'ed, room for one more */
};
int pub_chain_read(struct pub_call *c, const struct pub_entry *e, struct pub_chain *ch);
int pub_chain_put(struct pub_call *c, const struct pub_entry *e, struct pub_chain *ch);

/* What a node holds of a name. */
enum { PUB_FETCHING = 1, PUB_HAS, PUB_HAS_CLEAN };
struct pub_held {
    struct pub_uid uid;
    struct ddict_client who;
    uint64_t state; /* HAS_CLEAN: nothing is left of what was passed on to it */
};
#define PUB_HELD_MAX 64u
/* 1 with the node's entry of the value in *h, 0: it has none. */
int pub_held_get(struct pub_call *c, unsigned node, const struct pub_uid *u, struct pub_held *h);
/* Change was (NULL: none may be there) to be (NULL: remove it). DDICT_ECHANGED: it is not so. */
int pub_held_set(struct pub_call *c, unsigned node, const struct pub_held *was,
                 const struct pub_held *be);
/* Leave out who said that it fetches, and died before it joined a chain: no removal of a value finds
 * that. */
int pub_held_tidy(struct pub_call *c, unsigned node);

/* --- publish.c --- */
/* Remove what is old, and what publishers left that died, but not the value `but` (may be NULL).
 * What is left of l->e[2 ..] goes to e[2 ..]; returns their number and 2. */
unsigned pub_settle(struct pub_call *c, const struct pub_look *l, const struct pub_uid *but,
                    struct pub_entry *e);
/* There is room: who has announced a value has an entry, which is not needed then any more. */
void pub_entry_add(struct pub_entry *e, unsigned *n, const struct pub_entry *x, unsigned state);
/* Wait until the index has another version: it has no room for one more entry. DDICT_ECHANGED: look
 * again. -ETIMEDOUT */
int pub_await_room(struct pub_call *c, uint64_t version);

/* --- publish_clean.c --- */
/* Remove n keys; absent ones are no failure. make(arg, i, k) gives the i-th. */
int pub_remove(struct pub_call *c, uint64_t n,
               int (*make)(void *arg, uint64_t i, struct pub_key *k), void *arg);
int pub_remove_pieces(struct pub_call *c, const struct pub_entry *e, enum pub_kind kind,
                      unsigned node);
/* Remove a value that is old, or whose publisher is dead. 1: nothing is left. 0: not yet, because a
 * node fetches it. */
int pub_clean(struct pub_call *c, const struct pub_entry *e);

/* --- follow_fetch.c --- */
/* Fetch a large value to this node, or find it here. -EAGAIN: it is being removed. */
int pub_fetch(struct pub_call *c, const struct pub_entry *e, struct ddict_view *v);

/* --- follow_pieces.c --- */
struct pub_fetch {
    struct pub_call *c;
    const struct pub_entry *e;
    char *mem;         /* of e->len bytes */
    uint32_t up;       /* node, or PUB_NONE: the origin */
    bool in_chain;     /* others may come behind this node */
    bool up_was_clean; /* out: all that up passed on was taken and removed */
};
/* Fill mem, and pass the pieces on to who comes behind. -EAGAIN: the value is being removed. */
int pub_fetch_pieces(struct pub_fetch *f);

#endif
