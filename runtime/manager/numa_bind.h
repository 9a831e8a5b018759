/* SPDX-License-Identifier: Apache-2.0 */
/* numa_bind.h - a manager binds itself to the cores and the memory of the NUMA node that ddictd has
 * chosen for it (places.c), before its arena is populated, so that its pages come from there. */
#ifndef DDICT_MANAGER_NUMA_BIND_H
#define DDICT_MANAGER_NUMA_BIND_H

#include "manager.h"

/* the process; first of all: threads that are made later inherit it */
void manager_bind(struct manager *m);
/* once the store is open, before anything is populated */
void manager_bind_arena(struct manager *m);
/* Before each step of populating. Others may have filled the NUMA node meanwhile: then memory from
 * elsewhere is better than being killed for it. */
void manager_bind_look(struct manager *m);

#endif
