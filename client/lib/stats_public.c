/* SPDX-License-Identifier: Apache-2.0 */
/* stats_public.c - convert a manager's figures between the wire's struct and the public one, field
 * by field. */
#include "stats_public.h"

#include <string.h>

/* smaller than the struct of any version */
#define FIRST offsetof(struct ddict_manager_stats, pool_free_space)

/* A new figure is added at the end of both structs. */
_Static_assert(sizeof(struct manager_stats) - offsetof(struct manager_stats, manager_id) ==
                   sizeof(struct ddict_manager_stats),
               "a figure is missing in one of them");

#define COPY(field) to->field = from->field;
#define COPY_TABLE(field)                                                  \
    _Static_assert(sizeof to->field == sizeof from->field, "two lengths"); \
    memcpy(to->field, from->field, sizeof to->field);
#define COPY_ALL       \
    STATS_WORDS(COPY)  \
    STATS_SIGNED(COPY) \
    STATS_COUNTS(COPY) COPY(pool_utilization) STATS_TEXTS(COPY_TABLE) STATS_TABLES(COPY_TABLE)

bool stats_size_known(size_t size) {
    return size >= FIRST && size % sizeof(uint64_t) == 0 && size < 1u << 20;
}

void stats_to_public(void *out, size_t size, const struct manager_stats *from) {
    struct ddict_manager_stats all, *to = &all;
    memset(out, 0, size);
    COPY_ALL
    memcpy(out, to, size < sizeof *to ? size : sizeof *to);
}

void stats_from_public(struct manager_stats *to, const struct ddict_manager_stats *in,
                       size_t size) {
    struct ddict_manager_stats all = {.numa_node = -1}, *from = &all;
    memcpy(from, in, size < sizeof *from ? size : sizeof *from);
    stats_init(to);
    COPY_ALL
}
