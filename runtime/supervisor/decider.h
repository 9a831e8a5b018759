/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decider.h - what nodes say of the keys of one owner to who decides (control_decides()), which may be
 * this node. Such a message, PLACED, WHOLE, PRIMARY_LOST or REFILLED, is about one epoch of a row of
 * the map (owner_map.h). It may be lost: who says it says it again until the map has it.
 */
#ifndef DDICT_SUPERVISOR_DECIDER_H
#define DDICT_SUPERVISOR_DECIDER_H

#include "control.h"
#include "owner_map.h"
#include "supervisor.h"

/* heard: what such a message does where it is decided. */
void decider_tell(struct supervisor *s, unsigned type, control_heard *heard, uint32_t owner,
                  uint64_t epoch, const void *word, size_t len);
/* Whether there is a map, and a row in it that such a message can be about. */
bool decider_has_row(const struct supervisor *s, const struct control_said *m);
/* Of such a message: the row, if we decide and it still is as the message says; else NULL. */
const struct owner_place *decider_row(const struct supervisor *s, const struct control_said *m);

#endif
