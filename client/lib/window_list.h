/* SPDX-License-Identifier: Apache-2.0 */
/* window_list.h - the keys of a working set, with their indexes, manager by manager. */
#ifndef DDICT_LIB_WINDOW_LIST_H
#define DDICT_LIB_WINDOW_LIST_H

#include "window.h"

struct window_list;

/* Whether it is one of the items of a working set itself. */
bool window_owns_item(const void *key, size_t klen);

/* manager: as for ddict_iter_open(). At the checkpoint that the handle has now. 0 or a negative code. */
int window_list_open(ddict_t *d, int manager, const void *prefix, size_t plen,
                     struct window_list **out, int timeout_ms);
void window_list_close(struct window_list *l); /* l may be NULL */
/*
 * The next key, whatever its index says: 1, 0 at the end, or a negative code. *c: a call on it, with
 * its index and the window, which the list owns; valid until the next call. After -ETIMEDOUT the list
 * can go on. The timeout is for each answer.
 */
int window_list_next(struct window_list *l, struct window_call **c);
/* The same, only the keys that the checkpoint has. DDICT_ERETIRED: it has left the window. */
int window_list_next_seen(struct window_list *l, const void **key, size_t *klen);

/* The calls of ddict.h. */
int64_t window_len(ddict_t *d, int manager, int timeout_ms);
int window_clear(ddict_t *d, int timeout_ms);

#endif
