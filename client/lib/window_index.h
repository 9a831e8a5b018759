/* SPDX-License-Identifier: Apache-2.0 */
/* window_index.h - the index of a key in a working set, as it is stored (FORMAT 9): what the key had
 * at which checkpoint. Reads and edits bytes; asks nobody. */
#ifndef DDICT_LIB_WINDOW_INDEX_H
#define DDICT_LIB_WINDOW_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WINDOW_REMOVED    1u /* the key was removed at this checkpoint; there is no value */
#define WINDOW_PERSISTENT 2u /* put with DDICT_PERSISTENT */

struct window_entry {
    uint64_t checkpoint;
    uint64_t version; /* W7 */
    uint64_t length;  /* of the value */
    uint64_t client;  /* its name: who stored it, and its number among the values of that one */
    uint64_t number;
    uint32_t node; /* of the client */
    uint8_t tag, flags;
    uint16_t zero;
};
struct window_index {
    uint64_t floor;
    uint32_t n, zero;
    struct window_entry entry[]; /* by checkpoint, of which each has one at most */
};
/* The window. */
struct window_state {
    uint64_t oldest;
    uint32_t closing; /* 1: somebody looks whether oldest may be retired */
    uint32_t zero;
};

/* The index in len bytes, or NULL: it is none. */
const struct window_index *window_index_read(const void *bytes, size_t len);
static inline size_t window_index_size(uint32_t n) {
    return sizeof(struct window_index) + n * sizeof(struct window_entry);
}
/* The last entry at the checkpoint or before, or NULL. It may say that the key was removed. */
const struct window_entry *window_index_at(const struct window_index *x, uint64_t checkpoint);

/* An index on its way to the next one. Begin, then edit, then the next index is in `now`. */
struct window_edit {
    bool keeps; /* a removal at a checkpoint of the window stays, though it hides nothing */
    struct window_index *now;     /* malloc'ed; n may be 0 */
    struct window_entry *dropped; /* that `now` has not any more, and that have values */
    uint32_t ndropped;
};
/* Copy x (NULL: none) without what no checkpoint from oldest on sees. 0 or -ENOMEM. */
int window_edit_begin(struct window_edit *e, const struct window_index *x, uint64_t oldest,
                      bool keeps);
/* Drops one value at most: the one that the checkpoint had. */
void window_edit_put(struct window_edit *e, const struct window_entry *put);
/* The key is absent at the checkpoint from now on. version: see W7. */
void window_edit_remove(struct window_edit *e, uint64_t checkpoint, uint64_t version);
/* Take out what it has at exactly that checkpoint. before: what it had there until then, which is put
 * back; or NULL: that is in the index yet, or there was nothing. */
void window_edit_withdraw(struct window_edit *e, uint64_t checkpoint,
                          const struct window_entry *before);
void window_edit_end(struct window_edit *e);

#endif
