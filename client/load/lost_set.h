/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lost_set.h - in a refill: the sets that may have lost keys, what is left of their descriptions,
 * and which keys are there. These are listed once, because that waits for nothing: asking for a key
 * that was lost would.
 */
#ifndef DDICT_LOAD_LOST_SET_H
#define DDICT_LOAD_LOST_SET_H

#include "load.h"

#include <jansson.h>

/* Longest wait for a key that was listed: it may be lost by now, and is then read again, perhaps by
 * us. */
#define LISTED_WAIT_MS 5000

struct lost_set {
    char name[256];
    json_t *head; /* its description; NULL: none is left */
    uint64_t lost, items, bytes;
    json_int_t time;          /* when it was loaded */
    char why[LOAD_ERROR_MAX]; /* "": no error */
    bool is_final;            /* another try will not help */
    bool is_whole;            /* its description is */
};

/* Find the sets, and put what was lost of their descriptions (only: of the set of this name; NULL:
 * of all) with the_load.wanted_flags. anew: [managers], whose keys began anew; in use until
 * lost_sets_free(). 0 or a negative code with the sentence set; what concerns one set is in its
 * why. */
int lost_sets_find(const bool *anew, const char *only);
/* These sets, *n of them. The one that was loaded last comes first. */
struct lost_set *lost_sets(size_t *n);
void lost_sets_free(void);
/* Why not all of it can be put again: the first reason is kept. */
void lost_set_failed(struct lost_set *l, const char *why);

/* --- keys --- */

/* Of a piece, of a copy, or of a manager whose keys began anew: whether it was listed. */
bool key_is_there(const void *key, size_t len);
bool key_began_anew(const void *key, size_t len);
/* Claim a key for a set. 0; 1: one that was loaded later has; or -ENOMEM with the sentence set. */
int key_claim(const void *key, size_t len);

/* --- descriptions --- */

/* View a piece (set_key.h), or if it is not there one of its copies. 1; 0: none is there; or a
 * negative code with the sentence set. */
int lost_piece_view(const char *name, const char *what, int64_t part, struct ddict_view *v);
/* Members of the head, and of its "refill" (SETS 2, 4). */
json_int_t head_int(const struct lost_set *l, const char *member);
bool head_is_true(const struct lost_set *l, const char *member);
json_int_t refill_int(const struct lost_set *l, const char *member);
/* Samples of Python have no sizes, SETS 3. */
bool head_has_sizes(const struct lost_set *l);

#endif
