/* SPDX-License-Identifier: Apache-2.0 */
/* cached_read.h - read values of other nodes in place: their proxy may have them while the
 * dictionary is frozen. No message, no lock. */
#ifndef DDICT_LIB_CACHED_READ_H
#define DDICT_LIB_CACHED_READ_H

#include "local_read.h"

/* The proxy of a manager of another node, if it may have values of its keys; else NULL. */
static inline struct node_manager *session_cache(struct session *s, unsigned owner) {
    struct node_manager *m = s->route_of[owner];
    /* Acquire pairs with store_freeze(). A reader that still sees FROZEN after the unfreeze finds
     * nothing in the index. */
    return FREEZE_STATE(__atomic_load_n(&m->arena.header->freeze, __ATOMIC_ACQUIRE)) ==
                   FREEZE_FROZEN
               ? m
               : NULL;
}

/* For keys of other nodes. 0; -EAGAIN: ask the proxy; cached_copy() also DDICT_ESMALL. */
int cached_view(struct session *s, uint64_t h, const void *key, size_t klen, struct ddict_view *v);
int cached_copy(struct session *s, uint64_t h, const void *key, size_t klen, void *buf, size_t cap,
                size_t *vlen, unsigned *tag);
int cached_head(struct session *s, uint64_t h, const void *key, size_t klen, size_t *vlen,
                uint64_t *version);

#endif
