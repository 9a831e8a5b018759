/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - a view as the answer of a request (get.c). */
#ifndef DDICT_LIB_VIEW_H
#define DDICT_LIB_VIEW_H

#include "lease.h"

/* Private memory for a value of len bytes, aligned as ddict.h says; free() gives it back. NULL
 * without memory. */
void *view_memory(uint64_t len);
/* Take a slot in hand for a PLACED reply. 0, or DDICT_EVIEWS: none is free, the value will come
 * into private memory. */
int request_slot(struct session *s, struct request *r, uint32_t *n);
/*
 * r is over with *rc; turn it into *v, or give back slot n and r's memory when *rc < 0 (also when
 * the place makes no sense: *rc then becomes DDICT_EPROTO). Any thread may do it.
 */
void request_view(struct session *s, struct node_manager *m, struct request *r, uint32_t n,
                  struct ddict_view *v, int *rc);
/*
 * What local_view() could not decide about a key of this node (rc: -EAGAIN, or DDICT_ENOKEY where
 * the key is waited for), within a deadline that other keys share. When that is over already,
 * DDICT_ENOKEY says that the key is still absent.
 */
int view_within(struct session *s, uint64_t h, const void *key, size_t klen, int rc,
                struct ddict_view *v, unsigned flags, struct call_deadline *w);

#endif
