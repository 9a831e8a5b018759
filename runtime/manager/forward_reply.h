/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward_reply.h - the owner's answers on their way to the requester, which must be there. Nothing
 * here changes the state of a forward or frees it.
 */
#ifndef DDICT_MANAGER_FORWARD_REPLY_H
#define DDICT_MANAGER_FORWARD_REPLY_H

#include "manager.h"

struct forward;

/* The header and the payload of an answer. */
void reply_pass(struct forward *f, const struct msg *r, const uint8_t *payload);
/* The header of f->reply, whose value comes in pieces; and len bytes of one, from forward_at() on. */
void reply_begin(struct forward *f);
void reply_piece(struct forward *f, const struct msg *r, const uint8_t *payload, size_t len);
/* Answer with an error. In PASSES the answer has begun: the stream ends with the error. */
void forward_fail(struct forward *f, int status, const char *text);
/* Answer with the value in the block: its place, for a view, or a copy, for a follower that wants
 * one. The caller keeps the block: a pin of its own keeps what is still to be sent. */
void block_give(struct manager *m, struct forward *f, const struct store_ref *at,
                const struct msg *r);
/* The requester has read pieces of streams: give their owners credit. */
void forwards_took(struct requester *a);

#endif
