/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - make a view out of the answer to a request (get.c). */
#ifndef DDICT_LIB_VIEW_H
#define DDICT_LIB_VIEW_H

#include "lease.h"

/* Private memory for a value of len bytes, aligned as ddict.h says; the caller frees it. NULL
 * without memory. */
void *view_memory(uint64_t len);
/* Take a slot in hand for a PLACED reply. 0; DDICT_EVIEWS: none is free, so the value will come
 * into private memory. */
int request_slot(struct session *s, struct request *r, uint32_t *n);
/*
 * Turn r, which is over with *rc, into *v. If *rc < 0, give back slot n and r's memory instead;
 * also if the place makes no sense, which sets *rc to DDICT_EPROTO. Any thread may do it.
 */
void request_view(struct session *s, struct node_manager *m, struct request *r, uint32_t n,
                  struct ddict_view *v, int *rc);
/*
 * View a key of this node of which local_view() returned rc: -EAGAIN, or DDICT_ENOKEY if the key is
 * waited for. w: a deadline that other keys share; if it is over already, DDICT_ENOKEY says that
 * the key is still absent.
 */
int view_within(struct session *s, uint64_t h, const void *key, size_t klen, int rc,
                struct ddict_view *v, unsigned flags, struct call_deadline *w);

/* Copy the value to the caller, as ddict_get() does, and end the view. 0 or DDICT_ESMALL. */
int view_copy(struct ddict_view *v, void *buf, size_t cap, size_t *vlen, unsigned *tag);

#endif
