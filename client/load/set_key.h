/* SPDX-License-Identifier: Apache-2.0 */
/*
 * set_key.h - the pieces of a set's description (SETS 2), and in a dictionary with --refill their
 * copies (SETS 4): each is on another node than the piece itself, so that one is left when a node
 * is lost. With two copies one is left, too, if a second node is lost before what the first had is
 * put again. A piece is the head, whose `what` is NULL, or part `part` of its keys, sizes or
 * labels.
 */
#ifndef DDICT_LOAD_SET_KEY_H
#define DDICT_LOAD_SET_KEY_H

#include <ddict.h>

#include <common/lost_keys.h>
#include <stddef.h>
#include <stdint.h>

#define SET_KEY_CAP  512 /* bytes of a key */
#define SET_COPIES   2u  /* of a piece, beside it, where there are so many other nodes */
#define SET_KEY_HEAD "t\x0a\0\0\0sddict.set" /* how keys of pieces begin, FORMAT */

/* Write the key of a piece; its length. */
size_t set_key(uint8_t *key, const char *name, const char *what, int64_t part);
/* Write the key of copy c = 0, 1, ... of a piece; its length, 0: there is no such copy. The nodes
 * that managers began on count, so it stays the same. */
size_t set_copy_key(uint8_t *key, const char *name, const char *what, int64_t part, unsigned c);
/* Put a piece, and where the dictionary has --refill before it its copies: they are sealed. flags
 * as in ddict_put(). 0 or a negative code with the sentence set. */
int set_piece_put(const char *name, const char *what, int64_t part, const void *value, size_t len,
                  unsigned flags);
/* View a piece, or if it is not there one of its copies. 1; DDICT_ENOKEY; DDICT_EKEYLOST: it may
 * have been lost with nodes; or another negative code with the sentence set. */
int set_piece_view(const char *name, const char *what, int64_t part, struct ddict_view *v);
/* Remove a piece's copies. 0, also if there is none; or a negative code with the sentence set. */
int set_copies_remove(const char *name, const char *what, int64_t part);
/* The same, and then the piece. */
int set_piece_remove(const char *name, const char *what, int64_t part);

#endif
