/* SPDX-License-Identifier: Apache-2.0 */
/* new_primary.c - keys of which no copy is left begin anew in a shadow on another node. */
#include "new_primary.h"

#include "life_events.h"
#include "owner_steps.h"
#include "shadow_tries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int new_primaries_init(struct supervisor *s) {
    s->anew_deaths = calloc(s->managers, sizeof *s->anew_deaths);
    return s->anew_deaths ? 0 : -ENOMEM;
}

void new_primaries_end(struct supervisor *s) {
    free(s->anew_deaths);
    s->anew_deaths = NULL;
}

void new_primaries_clear(struct supervisor *s) {
    for (uint32_t i = 0; s->anew_deaths && i < s->managers; i++)
        s->anew_deaths[i] = 0;
}

/* What ended their process may end the next ones, too, for ever: so not often. */
void new_primary_need(struct supervisor *s, uint32_t owner, uint32_t node, const char *why) {
    if (s->opt.refill && s->anew_deaths[owner]++ < DD_ANEW_DEATHS) {
        owner_map_lose(s, owner, why);
        owner_steps_take(s); /* before a copy that was being made is ended: it may serve instead */
        return;
    }
    s->lost_manager = owner;
    s->lost_node = node;
    if (s->opt.refill)
        supervisor_lost(s, "%s: its keys have begun anew %u times after such a death", why,
                        DD_ANEW_DEATHS);
    else
        supervisor_lost(s, "%s, and there is no second copy of its keys", why);
}

/* Each node that is there was tried, and none can have them. */
static void nowhere_left(struct supervisor *s, uint32_t owner) {
    const struct owner_place *row = owner_map_next(s, owner);
    const struct owner_tries *t = &s->shadow_tries->of[owner];
    s->lost_node = row->lost_node;
    supervisor_lost(s, "the keys of manager %u were lost with node %s%s%s", owner,
                    node_name(s, row->lost_node), t->why[0] ? ", and " : ", and no node is left",
                    t->why);
}

bool new_primary_look(struct supervisor *s, uint32_t owner, uint64_t now) {
    struct owner_tries *t = &s->shadow_tries->of[owner];
    const struct owner_place *row = owner_map_next(s, owner);
    bool busy;
    if (t->primary != row->primary || !t->anew)
        owner_tries_begin(t, row->primary, true);
    if (row->backup != SHADOW_NONE) {
        shadow_try_check(s, owner, now);
        return true;
    }
    uint32_t node = shadow_try_node(s, owner, &busy);
    if (node == UINT32_MAX || (t->on && t->on[node] > 0)) {
        nowhere_left(s, owner);
        return false;
    }
    shadow_try_begin(s, owner, node, now);
    return true;
}

void new_primary_begin(struct supervisor *s, uint32_t owner, const struct owner_place *row) {
    struct owner_place to = owner_place_promoted(row);
    char why[256];
    to.keys = OWNER_REFILLING;
    snprintf(why, sizeof why,
             "the keys of manager %u begin anew on node %s: they were lost with %s", owner,
             node_name(s, to.primary % s->nodes), node_name(s, to.lost_node));
    owner_map_change(s, owner, &to, why);
}
