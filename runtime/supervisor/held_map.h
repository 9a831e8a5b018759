/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held_map.h - with --replicas=2, the map as the nodes agree about it (PROTOCOL 13): who serves the
 * keys of each owner, which nodes are lost, and who has a vote. Who decides proposes a map, the
 * voters hold it, and it counts when a majority does: of the voters before it, and of its own.
 * Nobody acts on it before. One thread.
 */
#ifndef DDICT_SUPERVISOR_HELD_MAP_H
#define DDICT_SUPERVISOR_HELD_MAP_H

#include "owner_map.h"
#include "supervisor.h"

enum map_node { /* bits of a node */
                MAP_LOST = 1,
                MAP_VOTES = 2,
                MAP_VOTED = 4 /* it was a voter of the map from which this one was made */
};
struct map_state {
    uint64_t term, version;   /* of who proposed it last; grows with each change */
    uint8_t *nodes;           /* [nodes]: enum map_node */
    struct owner_place *rows; /* [managers] */
};
struct map_name { /* payload of CTL_HELD and of CTL_MAP */
    uint64_t term, version;
};

struct held_map {
    struct supervisor *s;
    struct map_state held;
    uint8_t *lost;         /* [nodes]: by the map that counts */
    uint64_t counts_term;  /* of the map that counts */
    struct map_state next; /* who decides: as it has decided last; else as what counts */
    bool changed;          /* ... which is not held by anybody yet */
    bool waits;            /* who decides: `held` does not count yet */
    bool *holders;         /* [nodes]: who holds it, as we know */
    struct io_deferred propose;
    uint64_t *drops; /* [managers]: the epoch in which we have asked to drop the backup; 0: not */
};

int held_map_init(struct supervisor *s); /* behind owner_map_init(); -ENOMEM, -E2BIG */
void held_map_end(struct supervisor *s);

/* --- what is decided --- */
/* Its epoch is that of the row before, and one. All that is changed in one turn is one map. */
void held_map_row(struct supervisor *s, uint32_t owner, const struct owner_place *to);
void held_map_lose(struct supervisor *s, uint32_t node);
/* As decided last by us, or, where another decides, by the map that counts. */
bool held_map_lost(const struct supervisor *s, uint32_t node);
/* We decide from now on, in this term, and go on from that map; NULL: from ours. */
void held_map_decide(struct supervisor *s, uint64_t term, const struct map_state *from);
/* We do not decide any more: what does not count is forgotten. */
void held_map_undecide(struct supervisor *s);

/* A majority, of the voters of what is held and of those before: has() of each. */
bool held_majority(const struct supervisor *s, const struct map_state *of,
                   bool (*has)(const void *arg, uint32_t node), const void *arg);

/* --- messages --- */
/* The map for a payload: a new block, of *len bytes; NULL: no memory. */
void *held_map_pack(const struct supervisor *s, const struct map_state *m, size_t *len);
/* Into *m, which map_state_init() has made. DDICT_EPROTO: it makes no sense. */
int held_map_unpack(const struct supervisor *s, struct map_state *m, const void *bytes, size_t len);
int map_state_init(const struct supervisor *s, struct map_state *m); /* -ENOMEM */
void map_state_free(struct map_state *m);
void map_state_copy(const struct supervisor *s, struct map_state *to, const struct map_state *from);
/* Also the same one, where a is known to count: then the voters before it do not matter any more. */
bool map_is_newer(const struct supervisor *s, const struct map_state *a, const struct map_state *b);

/* Who decides proposes that one, in a term that is not older than any that we know. */
void held_map_take(struct supervisor *s, struct map_state *m);
/* That node holds the map of this name. */
void held_map_held(struct supervisor *s, uint32_t node, struct map_name name);
/* Who decides says that it counts; true: it is the first of its term. */
bool held_map_counts(struct supervisor *s, struct map_name name);
/* A node that is connected with us, who decide, is told all that it has to know. */
void held_map_tell(struct supervisor *s, uint32_t node);
/* Each beat. Who decides: a node that is connected and does not hold the map yet, as far as we know, is
 * told again: a message, or its answer, may have found no memory. */
void held_map_again(struct supervisor *s);

#endif
