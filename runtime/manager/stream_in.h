/* SPDX-License-Identifier: Apache-2.0 */
/* stream_in.h - values that come in pieces. */
#ifndef DDICT_MANAGER_STREAM_IN_H
#define DDICT_MANAGER_STREAM_IN_H

#include "manager.h"

struct forward;
int put_in_begin(struct requester *a, const struct msg *m, const uint8_t *key);
/* A streamed put that goes on to another manager, or was refused already (f NULL). */
int put_in_pass(struct requester *a, const struct msg *m, struct forward *f);
/* f ended: what still comes is dropped */
void put_in_forget(struct requester *a, const struct forward *f);
int put_in_data(struct requester *a, const struct msg *m, const uint8_t *payload);
/* where this DATA shall be received; NULL: anywhere */
void *put_in_place(struct requester *a, const struct msg *m);
/* Its sender gives it up. false: it had its last piece before. What of it is parked is the caller's
 * to drop. */
bool put_in_abort(struct requester *a, uint64_t id);
/* A put that is complete but for the disk, which does not have it yet: takes over ref. TAKE_PAUSE,
 * or it was answered: TAKE_DONE. */
int put_in_hold(struct requester *a, const struct msg *m, struct store_ref *ref, uint64_t began);
/* publish those that the disk has now; true: none waits for it any more, the requester may go on */
bool puts_look(struct requester *a);
void puts_end(struct requester *a);

/* As put_in_abort(), only for a put that goes on to another manager. */
bool put_in_cancel(struct requester *a, uint64_t id);
/* its header was parked and was answered; last: so was its last piece */
void put_in_dropped(struct requester *a, const struct msg *m, bool last);
/* The put goes on to manager `to`, by *f; NULL: its header is parked. */
bool put_in_goes_on(struct requester *a, uint64_t id, uint32_t *to, struct forward **f);
/* its header was parked: its pieces are still to be known */
int put_in_park(struct requester *a, const struct msg *m, uint32_t to);

#endif
