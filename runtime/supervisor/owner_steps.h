/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner_steps.h - what is to be done for the keys of each owner after a loss, step by step, until the map
 * of owners has it (PROTOCOL 13). Each step is taken where it belongs, by this node or by who decides,
 * and told again until the map shows it, so that nothing is lost with who decided before.
 *
 *     give_up.h      a process here that serves keys has no next life
 *     new_backup.h   a second copy in place of one that is lost
 *     new_primary.h  without one the keys begin anew,
 *     refill.h       and are read again
 */
#ifndef DDICT_SUPERVISOR_OWNER_STEPS_H
#define DDICT_SUPERVISOR_OWNER_STEPS_H

#include "supervisor.h"

int owner_steps_init(struct supervisor *s); /* behind owner_map_init(); -ENOMEM */
void owner_steps_end(struct supervisor *s);
/* The map has changed, or who decides, or a new shadow is ready, or the time of something is over: take
 * the next steps of all owners. While some are left it is done again by a timer. */
void owner_steps_take(struct supervisor *s);
/* We decide from now on: what was tried when we did before is forgotten. */
void owner_steps_decide(struct supervisor *s);

#endif
