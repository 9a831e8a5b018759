/* SPDX-License-Identifier: Apache-2.0 */
/* forward_put.h - the pieces of a put that goes on to its owner; for stream_in.c and parked.c. */
#ifndef DDICT_MANAGER_FORWARD_PUT_H
#define DDICT_MANAGER_FORWARD_PUT_H

#include "manager.h"

struct forward;

uint32_t forward_put_owner(const struct forward *f); /* manager id */
/* Its last piece leaves the ring of its lane. newest: the last one since the last REWIND. */
void forward_put_last(struct forward *f, bool newest);
/* A later life knows it again: the pieces that its lane still has are dropped. */
void forward_put_resume(struct forward *f);
/* Pieces are sent on now; else the owner will say from where on, and they are dropped. */
/* The owner has been asked again for a put of this requester, and pieces of its value are to come. */
bool forward_put_awaits(const struct requester *a, uint32_t owner);
bool forward_put_takes(const struct forward *f);
/* The connection to the owner has no room for a piece now. */
bool forward_put_full(const struct forward *f);
/* Send a piece. 0 or -ENOMEM; a lost connection answers the put later, and is no error here. */
int forward_put_data(struct forward *f, const struct msg *m, const uint8_t *payload);
/* No more pieces come: it is answered -ECANCELED. */
void forward_put_abort(struct forward *f);
/* Its requester is told what the owner says: to send the value again from there on. */
void forward_put_rewind(struct forward *f, const struct msg *r);
/* The requester of a put in pieces is gone, or was answered. */
void forward_put_leave(struct forward *f, bool cancel);
/* What writes the same key was sent: a put in pieces of the same requester that is sent again would
 * come behind it, and ends. */
void forward_puts_overtaken(struct forward *by);

#endif
