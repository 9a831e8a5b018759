/* SPDX-License-Identifier: Apache-2.0 */
/* local_read.h - reads in place, on managers of this node. No lock, no system call. */
#ifndef DDICT_LIB_LOCAL_READ_H
#define DDICT_LIB_LOCAL_READ_H

#include "lease.h"

/* All of it but the slot. */
static inline void view_set(struct ddict_view *v, struct session *s, const struct found *f) {
    v->data = f->value;
    v->len = f->val_len;
    v->version = f->item->version;
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
 * As view_set() for an item held by slot n whose value may be in the spill: up to DD_SPILL_COPY
 * bytes of it become memory of the view's own, and slot n is given back; more is looked through,
 * and read where the file is mapped. 0, -EIO, -ENOMEM, also then without slot n.
 */
int view_take(struct session *s, struct node_manager *m, uint32_t n, const struct found *f,
              struct ddict_view *v);

/*
 * All of these: 0, DDICT_ENOKEY (a true miss; counted, no sentence set), -EAGAIN (ask the manager
 * through its lane), DDICT_EPROTO, and local_view() also DDICT_EVIEWS. local_copy: DDICT_ESMALL.
 * Where the value is in the spill also -EIO, with a sentence.
 */
int local_view(struct session *s, struct node_manager *m, uint64_t h, const void *key, size_t klen,
               struct ddict_view *v);
int local_copy(struct session *s, struct node_manager *m, uint64_t h, const void *key, size_t klen,
               void *buf, size_t cap, size_t *vlen, unsigned *tag);
int local_head(struct session *s, struct node_manager *m, uint64_t h, const void *key, size_t klen,
               size_t *vlen);

#endif
