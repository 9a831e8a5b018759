/* SPDX-License-Identifier: Apache-2.0 */
/* give_up.c - a manager or shadow of this node that serves keys has no next life. */
#include "give_up.h"

#include "coordinator.h"
#include "decider.h"
#include "life_events.h"
#include "new_primary.h"
#include "owner_map.h"
#include "owner_steps.h"
#include <base/error.h>
#include <base/text.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lost_primary { /* of an owner */
    bool gone;        /* its primary was of this node, and is given up */
    uint32_t number;  /* which that was */
    char *why;
};

int lost_primaries_init(struct supervisor *s) {
    s->lost_primaries = calloc(s->managers, sizeof *s->lost_primaries);
    return s->lost_primaries ? 0 : -ENOMEM;
}

void lost_primaries_end(struct supervisor *s) {
    for (uint32_t i = 0; s->lost_primaries && i < s->managers; i++)
        free(s->lost_primaries[i].why);
    free(s->lost_primaries);
    s->lost_primaries = NULL;
}

/* --- a primary --- */
bool primary_give_up(struct supervisor *s, uint32_t owner, const char *why) {
    const struct owner_place *row = s->owner_map ? &s->owner_map[owner] : NULL;
    struct lost_primary *p = row && s->lost_primaries ? &s->lost_primaries[owner] : NULL;
    if (!p || s->stage < STAGE_READY || s->stage >= STAGE_ENDING ||
        (!s->opt.refill && (row->backup == SHADOW_NONE || !row->whole)))
        return false;
    free(p->why);
    if (!(p->why = strndup(why, OWNER_MAP_WHY)))
        return false;
    p->gone = true;
    p->number = row->primary;
    owner_steps_take(s);
    return true;
}

bool primary_is_given_up(const struct supervisor *s, uint32_t owner) {
    const struct lost_primary *p = s->lost_primaries ? &s->lost_primaries[owner] : NULL;
    return p && p->gone && p->number == s->owner_map[owner].primary;
}

bool lost_primary_look(struct supervisor *s, uint32_t owner) {
    const struct owner_place *row = &s->owner_map[owner];
    struct lost_primary *p = &s->lost_primaries[owner];
    /* also when its backup was dropped meanwhile: then these keys are gone, and all are told */
    p->gone = p->gone && row->primary == p->number && row->keys != OWNER_LOST;
    if (!p->gone)
        return false;
    decider_tell(s, MSG_CTL_PRIMARY_LOST, primary_lost_heard, owner, row->epoch, p->why,
                 strlen(p->why));
    return true;
}

/* --- this node --- */
/* All keys that are served here are as a whole elsewhere, or can begin anew there. */
static bool node_can_leave(const struct supervisor *s) {
    for (uint32_t i = 0; i < s->managers && !s->opt.refill; i++) {
        const struct owner_place *row = &s->owner_map[i];
        if (deal_owns(&s->deal, i) && row->primary % s->nodes == s->node_id &&
            (row->backup == SHADOW_NONE || !row->whole))
            return false;
    }
    return true;
}

bool node_leave(struct supervisor *s, const char *why) {
    if (!s->owner_map || control_decides(s) || s->lost || s->stage < STAGE_READY ||
        s->stage >= STAGE_ENDING || !node_can_leave(s))
        return false;
    s->leaves = true;
    supervisor_lost(s, "%s: the others go on without node %s", why, s->node);
    control_done(s); /* nobody awaits our figures */
    return true;
}

/* --- who decides --- */
int primary_lost_heard(struct supervisor *s, const struct control_said *m) {
    char said[OWNER_MAP_WHY + 1], why[OWNER_MAP_WHY + 192];
    if (!decider_has_row(s, m))
        return DDICT_EPROTO;
    snprintf(said, sizeof said, "%.*s", (int)m->len, m->payload);
    text_plain(said);
    const struct owner_place *row = decider_row(s, m);
    if (!row || row->primary % s->nodes != m->node || row->keys == OWNER_LOST)
        return 0;
    if (row->backup == SHADOW_NONE || !row->whole ||
        coordinator_is_lost(s, row->backup % s->nodes)) {
        new_primary_need(s, m->manager, m->node, said);
        return 0;
    }
    snprintf(why, sizeof why,
             "the keys of manager %u are served by node %s, without a second copy: %s", m->manager,
             node_name(s, row->backup % s->nodes), said);
    struct owner_place to = owner_place_promoted(row);
    owner_map_change(s, m->manager, &to, why);
    return 0;
}
