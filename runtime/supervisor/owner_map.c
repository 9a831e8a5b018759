/* SPDX-License-Identifier: Apache-2.0 */
/* owner_map.c - who serves the keys of each owner, and who has their second copy. */
#include "owner_map.h"

#include "held_map.h"
#include "managers.h"
#include "owner_steps.h"
#include "shadow_tries.h"
#include "shadows.h"
#include "startup_output.h"
#include <base/log.h>
#include <base/text.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int owner_map_init(struct supervisor *s) {
    s->owner_map = calloc(s->managers, sizeof *s->owner_map);
    if (!s->owner_map)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->managers; i++)
        s->owner_map[i] = (struct owner_place){.primary = i,
                                               .backup = has_copies(s) && deal_owns(&s->deal, i)
                                                             ? shadow_of(&s->deal, i)
                                                             : SHADOW_NONE,
                                               .epoch = 1,
                                               .whole = has_copies(s)};
    return 0;
}

bool owner_is_ours(const struct supervisor *s, uint32_t owner) {
    uint32_t primary = s->owner_map ? s->owner_map[owner].primary : owner;
    return primary % s->nodes == s->node_id;
}

/* --- our managers and shadows --- */
static struct sup_msg row_message(const struct supervisor *s, uint32_t owner) {
    const struct owner_place *p = &s->owner_map[owner];
    struct sup_msg m = {.type = SUP_MAP,
                        .id = owner,
                        .count = p->epoch,
                        .pid = p->primary,
                        .room = p->backup,
                        .used_bytes = p->primary_port,
                        .total_bytes = p->backup_port,
                        .status = p->whole + 2 * (int)p->keys};
    if (p->keys)
        snprintf(m.text, sizeof m.text, "%s", node_name(s, p->lost_node));
    return m;
}

static struct sup_msg gone_message(uint32_t manager) {
    return (struct sup_msg){
        .type = SUP_MAP, .id = manager, .count = 2, .pid = SHADOW_NONE, .room = SHADOW_NONE};
}

static bool is_gone(const struct supervisor *s, uint32_t manager) {
    return !deal_owns(&s->deal, manager) && s->held && s->held->lost[manager % s->nodes];
}

void owner_map_node_lost(struct supervisor *s, uint32_t node) {
    for (uint32_t i = node; i < s->managers; i += s->nodes) {
        struct sup_msg m = gone_message(i);
        if (is_gone(s, i))
            processes_send(s, &m);
    }
}

void owner_map_tell(struct local_manager *mgr) {
    struct supervisor *s = mgr->s;
    for (uint32_t i = 0; s->owner_map && i < s->managers; i++) {
        bool gone = is_gone(s, i);
        struct sup_msg m = gone ? gone_message(i) : row_message(s, i);
        if (gone || s->owner_map[i].epoch > 1)
            manager_send(mgr, &m, NULL, 0);
    }
}

void owner_map_set(struct supervisor *s, uint32_t owner, const struct owner_place *to) {
    s->owner_map[owner] = *to;
    struct sup_msg m = row_message(s, owner);
    processes_send(s, &m);
    shadows_look(s);
    owner_steps_take(s);
}

/* --- changes --- */
const struct owner_place *owner_map_next(const struct supervisor *s, uint32_t owner) {
    return s->held && control_decides(s) ? &s->held->next.rows[owner] : &s->owner_map[owner];
}

void owner_map_change(struct supervisor *s, uint32_t owner, const struct owner_place *to,
                      const char *why) {
    enum owner_keys before = owner_map_next(s, owner)->keys, now = to->keys;
    bool anew = before == OWNER_LOST || now == OWNER_LOST ||
                (now != before && (now == OWNER_REFILLING || now == OWNER_REFILLED));
    held_map_row(s, owner, to);
    if (!why)
        return;
    const struct owner_place *p = owner_map_next(s, owner);
    struct note n = {.kind = anew ? NOTE_REFILL : NOTE_COPIES, .manager = owner, .count = p->epoch};
    snprintf(n.node, sizeof n.node, "%s", node_name(s, p->primary % s->nodes));
    snprintf(n.text, sizeof n.text, "%s", why);
    log_warn("%s", n.text);
    startup_print("warn %s", n.text);
    control_note(s, &n);
}

/* --- a backup is given up --- */
void owner_map_backup_lost(struct supervisor *s, uint32_t owner, uint64_t epoch, const char *why) {
    const struct owner_place *p = owner_map_next(s, owner);
    char text[OWNER_MAP_WHY + 128];
    if (s->stage >= STAGE_ENDING || p->epoch != epoch || p->backup == SHADOW_NONE)
        return;
    if (!control_decides(s)) {
        s->held->drops[owner] = epoch;
        control_drop(s, owner, epoch, why);
        return;
    }
    if (p->keys == OWNER_LOST) {
        shadow_try_failed(s, owner, why);
        return;
    }
    snprintf(text, sizeof text, "the keys of manager %u have no second copy %s: %s", owner,
             p->whole ? "any more" : "yet", why);
    struct owner_place to = owner_place_alone(p);
    owner_map_change(s, owner, &to, text);
}

/* --- a primary is gone --- */
void owner_map_lose(struct supervisor *s, uint32_t owner, const char *how) {
    struct owner_place to = owner_place_alone(owner_map_next(s, owner));
    char text[OWNER_MAP_WHY + 128];
    if (to.keys == OWNER_LOST)
        return;
    snprintf(text, sizeof text,
             "the keys of manager %u are lost, and begin anew on another node: %s", owner, how);
    to.keys = OWNER_LOST;
    to.lost_node = to.primary % s->nodes;
    owner_map_change(s, owner, &to, text);
}

void owner_map_drops_again(struct supervisor *s) {
    for (uint32_t i = 0; i < s->managers; i++)
        if (s->held->drops[i])
            owner_map_backup_lost(s, i, s->held->drops[i], "it did not answer, or could not go on");
}

int owner_map_drop_heard(struct supervisor *s, const struct control_said *m) {
    char why[OWNER_MAP_WHY + 1];
    if (!s->owner_map || m->manager >= s->managers)
        return DDICT_EPROTO;
    memcpy(why, m->payload, m->len);
    why[m->len] = 0;
    text_plain(why);
    owner_map_backup_lost(s, m->manager, m->aux, why);
    return 0;
}
