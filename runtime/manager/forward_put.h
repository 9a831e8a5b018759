/* SPDX-License-Identifier: Apache-2.0 */
/* forward_put.h - the pieces of a put that goes on to its owner; for stream_in.c and parked.c. */
#ifndef DDICT_MANAGER_FORWARD_PUT_H
#define DDICT_MANAGER_FORWARD_PUT_H

#include "manager.h"

struct forward;

uint32_t forward_put_owner(const struct forward *f); /* manager id */
/* The connection to the owner has no room for a piece now. */
bool forward_put_full(const struct forward *f);
/* Send a piece. 0 or -ENOMEM; a lost connection answers the put later, and is no error here. */
int forward_put_data(struct forward *f, const struct msg *m, const uint8_t *payload);
/* No more pieces come: the owner is told, and answers the put. */
void forward_put_abort(struct forward *f);

#endif
