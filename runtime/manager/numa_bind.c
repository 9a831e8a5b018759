/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numa_bind.c - binds a manager to the cores and the memory of the NUMA node that ddictd has chosen
 * for it (places.c), before its arena is populated, so that the pages come from there. No failure
 * is fatal: where the kernel or a container refuses, the manager runs unbound.
 */
#include "numa_bind.h"

#include "manager.h"
#include <base/error.h>
#include <base/log.h>

#include <stdint.h>

void manager_bind(struct manager *m) {
    const struct numa_place *p = m->setup->place;
    m->numa_node = -1;
    if (!p)
        return;
    int e = numa_bind_process(p);
    if (e == 0)
        m->numa_node = p->node;
    else
        log_info("not bound to NUMA node %d: %s", p->node, dd_strerror(e));
}

void manager_bind_arena(struct manager *m) {
    const struct manager_setup *s = m->setup;
    if (m->numa_node < 0)
        return;
    int e = numa_bind_range(s->place, m->header, m->header->file_size, s->place_need, "");
    if (e < 0)
        log_info("memory not bound to NUMA node %d: %s", s->place->node, dd_strerror(e));
    m->bound_strictly = e > 0;
}

void manager_bind_look(struct manager *m) {
    const struct manager_setup *s = m->setup;
    if (!m->bound_strictly || numa_available(s->place->node, "") > DD_MEM_RESERVE)
        return;
    m->bound_strictly = false;
    numa_bind_range(s->place, m->header, m->header->file_size, UINT64_MAX, "");
    log_info("NUMA node %d is full: further memory may come from others", s->place->node);
}
