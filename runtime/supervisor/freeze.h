/* SPDX-License-Identifier: Apache-2.0 */
/* freeze.h - ddictd's part in freeze and unfreeze (PROTOCOL 9). */
#ifndef DDICT_SUPERVISOR_FREEZE_H
#define DDICT_SUPERVISOR_FREEZE_H

#include "supervisor.h"

int freezes_init(struct supervisor *s);
void freezes_end(struct supervisor *s);
/* SUP_FREEZE_ASK, SUP_FREEZE_AT */
void freezes_manager_message(struct local_manager *mgr, const struct sup_msg *m);
/* 0 or DDICT_EPROTO */
int freezes_hear(struct supervisor *s, bool from_parent, const void *payload, size_t len);

#endif
