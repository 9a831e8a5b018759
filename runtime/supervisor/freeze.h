/* SPDX-License-Identifier: Apache-2.0 */
/* freeze.h - ddictd's part in freeze and unfreeze (PROTOCOL 9). */
#ifndef DDICT_SUPERVISOR_FREEZE_H
#define DDICT_SUPERVISOR_FREEZE_H

#include "supervisor.h"

enum { FREEZE_ASK = 1, FREEZE_GO, FREEZE_AT, FREEZE_SAID, FREEZE_WAS };
struct freeze_word { /* travels in CTL_FREEZE */
    uint32_t what;
    uint32_t manager; /* ASK, SAID: who asked */
    uint64_t id;      /* ASK, SAID: the manager's id of the request; GO, AT, WAS: the epoch */
    uint32_t state;   /* enum freeze_state; ASK: the one that is wanted */
    uint32_t refused; /* SAID: nothing was done, because memory is short; WAS: it has not arrived */
    uint32_t goal;    /* GO, WAS: the state behind CLOSED */
    uint32_t unused;
};

int freezes_init(struct supervisor *s);
void freezes_end(struct supervisor *s);
/* The manager was started again: tell it again what it has not answered. */
void freezes_tell(struct local_manager *mgr);
/* SUP_FREEZE_ASK, SUP_FREEZE_AT */
void freezes_manager_message(struct local_manager *mgr, const struct sup_msg *m);
/* A message of that node. 0 or DDICT_EPROTO */
int freezes_hear(struct supervisor *s, uint32_t node, bool from_parent, const void *payload,
                 size_t len);
/* A shadow of later has all: it comes to the state of the others. */
void freezes_shadow_filled(struct local_manager *mgr);
/* What is under way goes on without it: a shadow of this node; who decides: a node. */
void freezes_shadow_lost(struct local_manager *mgr);
void freezes_node_lost(struct supervisor *s, uint32_t node);
/* takeover.h: say what was told last (WAS), and ask again what was not answered, to who decides now; or we
 * are that: take it from ourselves; and all others have said theirs. */
void freezes_below(struct supervisor *s);
void freezes_takeover(struct supervisor *s);
void freezes_told(struct supervisor *s);

#endif
