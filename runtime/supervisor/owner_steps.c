/* SPDX-License-Identifier: Apache-2.0 */
/* owner_steps.c - what is to be done for the keys of each owner after a loss, step by step. */
#include "owner_steps.h"

#include "control.h"
#include "give_up.h"
#include "new_backup.h"
#include "new_primary.h"
#include "owner_map.h"
#include "refill.h"
#include "shadow_tries.h"
#include <base/log.h>

#include <errno.h>
#include <stdlib.h>

struct owner_steps {
    struct supervisor *s;
    struct timer timer;
    bool taking, again;
};

static void steps_fire(struct timer *t) {
    struct owner_steps *o =
        (struct owner_steps *)(void *)((char *)t - offsetof(struct owner_steps, timer));
    owner_steps_take(o->s);
}

int owner_steps_init(struct supervisor *s) {
    struct owner_steps *o = s->owner_steps = calloc(1, sizeof *o);
    if (!o)
        return -ENOMEM;
    o->s = s;
    o->timer.fire = steps_fire;
    if (shadow_tries_init(s) < 0 || new_backups_init(s) < 0 || new_primaries_init(s) < 0 ||
        lost_primaries_init(s) < 0)
        return -ENOMEM;
    return 0;
}

void owner_steps_end(struct supervisor *s) {
    struct owner_steps *o = s->owner_steps;
    if (!o)
        return;
    timer_clear(&s->timers, &o->timer);
    free(o);
    s->owner_steps = NULL;
    shadow_tries_end(s);
    new_backups_end(s);
    new_primaries_end(s);
    lost_primaries_end(s);
}

void owner_steps_decide(struct supervisor *s) {
    shadow_tries_clear(s);
    new_backups_clear(s);
    new_primaries_clear(s);
}

static bool step_decide(struct supervisor *s, uint32_t owner, uint64_t now) {
    if (owner_map_next(s, owner)->keys == OWNER_LOST)
        return new_primary_look(s, owner, now);
    return new_backup_decide(s, owner, now);
}

/* Each step may end the dictionary, and then there is no other. True: some are left. */
static bool steps_take(struct supervisor *s) {
    uint64_t now = timers_now(&s->timers);
    bool some = false, decides = control_decides(s);
    if (decides)
        shadow_tries_count_load(s);
    for (uint32_t i = 0; i < s->managers && !s->lost; i++) {
        if (!deal_owns(&s->deal, i))
            continue;
        some |= lost_primary_look(s, i) || new_backup_look(s, i);
        some |= s->refills && refill_look(s, i);
        some |= decides && step_decide(s, i, now);
    }
    return !s->lost && some | (s->refills && refill_go(s));
}

void owner_steps_take(struct supervisor *s) {
    struct owner_steps *o = s->owner_steps;
    bool some = false;
    if (!o || s->lost || s->stage < STAGE_READY || s->stage >= STAGE_ENDING)
        return;
    o->again = true;
    if (o->taking) /* a step changes the map */
        return;
    o->taking = true;
    for (unsigned i = 0; o->again && !s->lost && i < 8; i++) {
        o->again = false;
        some = steps_take(s);
    }
    o->taking = false;
    timer_clear(&s->timers, &o->timer);
    if ((some || o->again) && !s->lost &&
        timer_after(&s->timers, &o->timer, DD_BACKUP_LOOK_MS * 1000000ull) < 0)
        log_error("no memory to look after new backups");
}
