/* SPDX-License-Identifier: Apache-2.0 */
/* rma_read.h - values that we read out of other managers' arenas. */
#ifndef DDICT_MANAGER_RMA_READ_H
#define DDICT_MANAGER_RMA_READ_H

#include "manager.h"

struct forward;
struct peer;
/* a piece, or the status with which no more comes */
typedef void rma_read_piece(struct manager *m, struct forward *f, const struct msg *r,
                            const uint8_t *payload);
/* Read for f the value of reply r, whose payload `places` says where the bytes are. to: the block
 * that they go to; NULL: to the requester's lane. piece is called for each piece, in order. NULL: r
 * is malformed, or there is no memory. */
struct rma_read *rma_read_new(struct manager *m, struct forward *f, rma_read_piece *piece,
                              struct peer *peer, uint64_t id, uint8_t *to, const struct msg *r,
                              const uint8_t *places);
/* bytes of the value that may be read so far */
void rma_read_more(struct rma_read *p, uint64_t upto);
int rma_read_heard(struct rma_read *p, const struct msg *r); /* DATA of the owner */
/* The requester is gone. rma_read_heard() is still called, or the connection ends. */
void rma_read_stop(struct rma_read *p);
/* The forward ends. block: read into until now; it is the read's from then on. Or NULL. */
void rma_read_forget(struct rma_read *p, const struct store_ref *block);

#endif
