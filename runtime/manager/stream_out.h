/* SPDX-License-Identifier: Apache-2.0 */
/* stream_out.h - values that go out in pieces. */
#ifndef DDICT_MANAGER_STREAM_OUT_H
#define DDICT_MANAGER_STREAM_OUT_H

#include "manager.h"

/* Stream len bytes at data as the reply r of a: its header, then the pieces. done is called once
 * when nothing needs the bytes any more. window 0: no limit. 0 or -ENOMEM (nothing was sent, done
 * was not called). */
int stream_out_begin(struct requester *a, struct msg *r, const void *data, uint64_t len,
                     uint64_t window, void (*done)(struct manager *m, uint64_t arg, void *ptr),
                     uint64_t arg, void *ptr);
/* What an item's value needs of memory to go out so, and nothing sent yet; away: it is in the
 * spill, and being read from now on. NULL: no memory. */
struct stream_out *stream_out_new(struct manager *m, const struct store_ref *away);
void stream_out_drop(struct stream_out *g); /* it was not needed; NULL is allowed */
/* Stream the item, g as stream_out_new() made it for it. Nothing can fail. The item has a pin that
 * is ours to give up. */
void stream_out_item(struct stream_out *g, struct requester *a, struct msg *r,
                     const struct store_ref *ref, uint64_t window);
/* send what there is room for; true when something was sent */
bool streams_out_pump(struct requester *a);
void stream_out_more(struct requester *a, uint64_t id, uint64_t upto);
bool stream_out_cancel(struct requester *a, uint64_t id, int status);
void streams_out_end(struct requester *a);

#endif
