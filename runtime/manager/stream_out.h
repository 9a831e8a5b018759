/* SPDX-License-Identifier: Apache-2.0 */
/* stream_out.h - values that go out in pieces. */
#ifndef DDICT_MANAGER_STREAM_OUT_H
#define DDICT_MANAGER_STREAM_OUT_H

#include "manager.h"

struct ledger_entry;

/* Send len bytes at data as the reply r: its header, then pieces. done is called once, when the
 * bytes are not needed any more. window: bytes before the first CREDIT; 0: no limit. 0 or -ENOMEM
 * (nothing was sent, done is not called). */
int stream_out_begin(struct requester *a, struct msg *r, const void *data, uint64_t len,
                     uint64_t window, void (*done)(struct manager *m, uint64_t arg, void *ptr),
                     uint64_t arg, void *ptr);
/* Allocate what it takes to stream an item; nothing is sent yet. away: the item is in the spill,
 * and begins to be read; else NULL. NULL: no memory. */
struct stream_out *stream_out_new(struct manager *m, const struct store_ref *away);
void stream_out_drop(struct stream_out *g); /* it is not needed; NULL is allowed */
/* Stream the item of ref, the answer r to req; g is from stream_out_new() for it. Cannot fail. Takes
 * over a pin of the item. */
void stream_out_item(struct stream_out *g, struct requester *a, struct msg *r,
                     const struct msg *req, const struct store_ref *ref);
/* In a later life: go on with the value in pieces that entry e names, which is in the ledger until the
 * last one stands in CQ. 0, and a pin of the item is taken over, or -ENOMEM. */
int stream_out_resume(struct requester *a, struct ledger_entry *e, const struct store_ref *ref);
/* send pieces while there is room; true: something was sent */
bool streams_out_pump(struct requester *a);
void stream_out_more(struct requester *a, uint64_t id, uint64_t upto);
bool stream_out_cancel(struct requester *a, uint64_t id, int status);
bool stream_out_knows(const struct requester *a, uint64_t id);
void streams_out_end(struct requester *a);

#endif
