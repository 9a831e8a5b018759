/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shadows.c - the shadows of this node, by the map of owners: one that is a primary is as a manager,
 * so its loss for good is the dictionary's. One that is a backup is given up: node 0 makes a map
 * without it, and its memory is free from then on.
 */
#include "shadows.h"

#include "freeze.h"
#include "give_up.h"
#include "held_map.h"
#include "life_events.h"
#include "owner_map.h"
#include <base/log.h>

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

bool process_serves(const struct local_manager *mgr) {
    return !mgr->shadow || mgr->s->owner_map[mgr->id].primary == mgr->number;
}

bool shadow_can_go(const struct local_manager *mgr) {
    return mgr->shadow && mgr->s->stage >= STAGE_READY && !process_serves(mgr);
}

static void backup_lost(struct local_manager *mgr, const char *why) {
    struct supervisor *s = mgr->s;
    char text[256];
    if (s->stage >= STAGE_ENDING || s->owner_map[mgr->id].backup != mgr->number)
        return;
    snprintf(text, sizeof text, "%s on node %s %.130s", mgr->name, s->node, why);
    log_warn("%s: the dictionary goes on without it", text);
    owner_map_backup_lost(s, mgr->id, s->owner_map[mgr->id].epoch, text);
}

void shadow_lost(struct local_manager *mgr, const char *why) {
    if (mgr->given_up)
        return;
    mgr->given_up = true;
    freezes_shadow_lost(mgr);
    backup_lost(mgr, why);
}

bool process_moves(struct local_manager *mgr, const char *how) {
    char why[512];
    snprintf(why, sizeof why, "%s on node %s %.150s", mgr->name, mgr->s->node, how);
    if (!mgr->shadow)
        return node_leave(mgr->s, why);
    if (mgr->given_up || !process_serves(mgr))
        return false;
    mgr->given_up = true;
    if (!primary_give_up(mgr->s, mgr->id, why)) {
        mgr->given_up = false;
        return false;
    }
    log_warn("%s: others take its place", why);
    freezes_shadow_lost(mgr);
    return true;
}

void shadow_kill(struct local_manager *mgr) {
    mgr->given_up = true;
    freezes_shadow_lost(mgr);
    kill(mgr->pid, SIGKILL);
}

struct local_manager *shadow_find(struct supervisor *s, uint32_t number) {
    for (unsigned i = 0; i < s->shadows_n; i++)
        if (s->shadows[i].number == number && !s->shadows[i].given_up)
            return &s->shadows[i];
    return NULL;
}

/* The map changed otherwise when it was lost, so who decides has not dropped it. */
static bool is_backup_still(const struct local_manager *mgr, const struct owner_place *place) {
    struct supervisor *s = mgr->s;
    return mgr->given_up && place->backup == mgr->number && (place->whole || place->backup_port) &&
           owner_map_next(s, mgr->id)->backup == mgr->number &&
           s->held->drops[mgr->id] != place->epoch && !shadow_find(s, mgr->number);
}

/* The map names a shadow of this node as the primary, and it was lost before: another may have its
 * slot by now. */
static void primary_look(struct supervisor *s, uint32_t owner) {
    const struct owner_place *place = &s->owner_map[owner];
    char why[256];
    if (place->keys == OWNER_LOST || !is_shadow(&s->deal, place->primary) ||
        place->primary % s->nodes != s->node_id || s->stage >= STAGE_ENDING ||
        shadow_find(s, place->primary) || primary_is_given_up(s, owner))
        return;
    snprintf(why, sizeof why, "the shadow of manager %u on node %s was lost before it was to serve",
             owner, s->node);
    if (!primary_give_up(s, owner, why))
        supervisor_lost(s, "manager %u is lost with its node, and its shadow on node %s before",
                        owner, s->node);
}

void shadows_look(struct supervisor *s) {
    for (unsigned i = 0; i < s->shadows_n; i++) {
        struct local_manager *mgr = &s->shadows[i];
        const struct owner_place *place = &s->owner_map[mgr->id];
        if (mgr->filling &&
            (place->primary == mgr->number || (place->whole && place->backup == mgr->number))) {
            mgr->filling = false;
            freezes_shadow_filled(mgr);
        }
        if (is_backup_still(mgr, place))
            backup_lost(mgr, "is lost");
        if (mgr->pid > 0 && place->primary != mgr->number && place->backup != mgr->number)
            shadow_kill(mgr);
    }
    for (uint32_t i = 0; s->owner_map && i < s->managers; i++)
        primary_look(s, i);
}

static void fd_close(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void shadow_forget(struct local_manager *mgr) {
    fd_close(&mgr->arena_fd);
    fd_close(&mgr->arena_ro_fd);
    fd_close(&mgr->spill_fd);
    fd_close(&mgr->spill_ro_fd);
    fd_close(&mgr->listen_fd);
}
