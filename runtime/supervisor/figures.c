/* SPDX-License-Identifier: Apache-2.0 */
/* figures.c - keep the last statistics of each manager. */
#include "figures.h"

#include "supervisor.h"
#include <base/error.h>
#include <base/stats.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct figures {
    bool have;
    struct manager_stats stats;
};

int figures_init(struct supervisor *s) {
    s->figures = calloc(s->managers, sizeof *s->figures);
    return s->figures ? 0
                      : dd_error(-ENOMEM, "no memory for the figures of %u managers", s->managers);
}

void figures_add(struct supervisor *s, const struct manager_stats *stats) {
    if (stats->manager_id < s->managers)
        s->figures[stats->manager_id] = (struct figures){.have = true, .stats = *stats};
}

const struct manager_stats *figures_of(const struct supervisor *s, uint32_t manager) {
    return s->figures[manager].have ? &s->figures[manager].stats : NULL;
}

uint32_t figures_total(const struct supervisor *s, struct manager_stats *total) {
    uint32_t lost = 0;
    memset(total, 0, sizeof *total);
    for (uint32_t m = 0; m < s->managers; m++) {
        if (!s->figures[m].have)
            lost++;
        else if (deal_owns(&s->deal, m))
            stats_merge(total, &s->figures[m].stats);
        else
            stats_merge_forwarder(total, &s->figures[m].stats);
    }
    return lost;
}

void figures_end(struct supervisor *s) {
    free(s->figures);
    s->figures = NULL;
}
