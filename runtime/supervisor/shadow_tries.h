/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shadow_tries.h - who decides has a shadow started for an owner, on one node after the other: as its
 * new backup, or as the process in which its lost keys begin anew. Until that one serves it is the
 * backup of the row, too. What was tried is known here alone; it counts for one primary and one
 * purpose.
 */
#ifndef DDICT_SUPERVISOR_SHADOW_TRIES_H
#define DDICT_SUPERVISOR_SHADOW_TRIES_H

#include "owner_map.h"
#include "supervisor.h"

struct owner_tries { /* times are of our timers */
    uint32_t primary;
    bool anew; /* its keys are to begin anew in the shadow */
    unsigned n;
    bool said;                     /* a line of the record has told why one could not be */
    uint64_t next;                 /* not before */
    uint64_t asked;                /* since then its node is to start it */
    uint8_t *on;                   /* [nodes], tries there; NULL: none */
    char why[OWNER_MAP_WHY + 128]; /* anew: of the last that failed */
};
struct shadow_tries {
    struct owner_tries *of; /* [managers] */
    struct node_load *load; /* [nodes] */
};

int shadow_tries_init(struct supervisor *s); /* behind owner_map_init(); -ENOMEM */
void shadow_tries_end(struct supervisor *s);
/* We decide from now on: what was tried when we did before is forgotten. */
void shadow_tries_clear(struct supervisor *s);
/* Tries of an owner from now on, as if there had been none. */
void owner_tries_begin(struct owner_tries *t, uint32_t primary, bool anew);

/* What is on each node is counted, for shadow_try_node(). */
void shadow_tries_count_load(struct supervisor *s);
/* Where the next one is to be: few tries there, then few copies, then the next node behind the primary.
 * UINT32_MAX: nowhere; *busy: a node that could have it has enough to do. */
uint32_t shadow_try_node(struct supervisor *s, uint32_t owner, bool *busy);
/* The shadow on that node is the backup of the row from now on, which its node starts. */
void shadow_try_begin(struct supervisor *s, uint32_t owner, uint32_t node, uint64_t now);
/* There is such a backup, which is not whole: the try has failed if its node does not start it in time. */
void shadow_try_check(struct supervisor *s, uint32_t owner, uint64_t now);
/* Its node can not start it, or it is lost: the row is without it. */
void shadow_try_failed(struct supervisor *s, uint32_t owner, const char *why);

#endif
