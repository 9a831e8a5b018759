/* SPDX-License-Identifier: Apache-2.0 */
/* numa_bind.h - binds a manager to the cores and the memory of the NUMA node that ddictd has chosen
 * for it (places.c). */
#ifndef DDICT_MANAGER_NUMA_BIND_H
#define DDICT_MANAGER_NUMA_BIND_H

#include "manager.h"

/* The process. Call it before any thread is made, since threads inherit it. */
void manager_bind(struct manager *m);
/* The arena. Call it after the store is open, before anything is populated. */
void manager_bind_arena(struct manager *m);
/* Before each step of populating: where others have filled the NUMA node meanwhile, memory from
 * elsewhere is allowed, rather than being killed for want of it. */
void manager_bind_look(struct manager *m);

#endif
