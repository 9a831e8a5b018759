/* SPDX-License-Identifier: Apache-2.0 */
/* local_read.h - reads in place, on managers of this node. No lock, no system call. */
#ifndef DDICT_LIB_LOCAL_READ_H
#define DDICT_LIB_LOCAL_READ_H

#include "lease.h"

/* Set all of the view but its slot. */
static inline void view_set(struct ddict_view *v, struct session *s, const struct found *f) {
    v->data = f->value;
    v->len = f->val_len;
    v->version = f->item->version & ~ITEM_CACHED; /* the proxy may have found it (get.c) */
    v->tag = f->item->tag;
    v->kind_ = 1;
    v->owner_ = s;
}

static inline void local_count(struct lease_thread *t, struct node_manager *m, uint64_t bytes) {
    struct lease_counters *c = (struct lease_counters *)(void *)((uint8_t *)t->row + m->arena.row);
    counter_add(&c->gets, 1);
    counter_add(&c->bytes, bytes);
}

/*
 * As view_set(), for an item held by slot n whose value may be in the spill. A value of up to
 * DD_SPILL_COPY bytes becomes private memory of the view, and slot n is given back; a longer one is
 * checked, and read where the file is mapped. 0; -EIO or -ENOMEM, with slot n given back.
 */
int view_take(struct session *s, struct node_manager *m, uint32_t n, const struct found *f,
              struct ddict_view *v);

/*
 * Read a key of manager m in place. All return 0, DDICT_ENOKEY (a true miss, which is counted; no
 * sentence is set), -EAGAIN (ask the manager through its lane) or DDICT_EPROTO; local_view() also
 * DDICT_EVIEWS, local_copy() DDICT_ESMALL, and both DDICT_ELINK (near.h); of a value in the spill also -EIO, with the sentence
 * set.
 */
int local_view(struct session *s, struct node_manager *m, uint64_t h, const void *key, size_t klen,
               struct ddict_view *v);
int local_copy(struct session *s, struct node_manager *m, uint64_t h, const void *key, size_t klen,
               void *buf, size_t cap, size_t *vlen, unsigned *tag);
int local_head(struct session *s, struct node_manager *m, uint64_t h, const void *key, size_t klen,
               size_t *vlen, uint64_t *version);
/* What the item of a key is (near_link.h). 0, DDICT_ENOKEY, -EAGAIN or DDICT_EPROTO, as above. */
struct near_item;
int local_link(struct session *s, struct node_manager *m, uint64_t h, const void *key, size_t klen,
               struct near_item *is);

#endif
