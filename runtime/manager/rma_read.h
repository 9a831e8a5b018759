/* SPDX-License-Identifier: Apache-2.0 */
/* rma_read.h - values that we read so. */
#ifndef DDICT_MANAGER_RMA_READ_H
#define DDICT_MANAGER_RMA_READ_H

#include "manager.h"

struct forward;
struct peer;
/* a piece that was read, or why no more comes */
typedef void rma_read_piece(struct manager *m, struct forward *f, const struct msg *r,
                            const uint8_t *payload);
/* For f, whose reply r says in `places` where the bytes are. to: the block that they go to, or
 * NULL: to the requester's lane. piece gets the pieces in their order. NULL: that makes no sense,
 * or no memory. */
struct rma_read *rma_read_new(struct manager *m, struct forward *f, rma_read_piece *piece,
                              struct peer *peer, uint64_t id, uint8_t *to, const struct msg *r,
                              const uint8_t *places);
void rma_read_more(struct rma_read *p, uint64_t upto);       /* so many bytes may come */
int rma_read_heard(struct rma_read *p, const struct msg *r); /* DATA of the owner */
/* the requester is gone; rma_read_heard() comes still, or the end of the connection */
void rma_read_stop(struct rma_read *p);
/* The forward ends. block: what is being read into, the read's then. */
void rma_read_forget(struct rma_read *p, const struct store_ref *block);

#endif
