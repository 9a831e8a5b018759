/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator.c - the loss of a node, where it is decided. */
#include "coordinator.h"

#include "control.h"
#include "election.h"
#include "held_map.h"
#include "life_events.h"
#include "owner_map.h"
#include "owner_steps.h"
#include "save_passes.h"
#include "startup_output.h"
#include <base/log.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct lost_node {
    struct supervisor *s;
    struct timer timer; /* its lease is over then */
};
struct coordinator {
    struct lost_node *node; /* [nodes] */
};

int coordinator_init(struct supervisor *s) {
    struct coordinator *c = s->coordinator = calloc(1, sizeof *c);
    if (c)
        c->node = calloc(s->nodes, sizeof *c->node);
    return c && c->node ? 0 : -ENOMEM;
}

bool coordinator_is_lost(const struct supervisor *s, uint32_t node) {
    return held_map_lost(s, node);
}

bool coordinator_all_served(const struct supervisor *s) {
    for (uint32_t i = 0; s->coordinator && i < s->managers; i++)
        if (deal_owns(&s->deal, i) && (s->owner_map[i].keys == OWNER_LOST ||
                                       coordinator_is_lost(s, s->owner_map[i].primary % s->nodes)))
            return false;
    return true;
}

static bool is_on(const struct supervisor *s, uint32_t number, uint32_t node) {
    return number != SHADOW_NONE && number % s->nodes == node;
}

/* Whether its keys are on another node that is there. */
static bool has_copy(const struct supervisor *s, const struct owner_place *p) {
    return p->backup != SHADOW_NONE && p->whole && !coordinator_is_lost(s, p->backup % s->nodes);
}

/* The first owner whose keys are gone with this node, or `managers`. */
static uint32_t gone_find(const struct supervisor *s, uint32_t node) {
    uint32_t i = 0;
    while (i < s->managers &&
           (!deal_owns(&s->deal, i) || !is_on(s, owner_map_next(s, i)->primary, node) ||
            has_copy(s, owner_map_next(s, i))))
        i++;
    return i;
}

static void keys_gone(struct supervisor *s, uint32_t node, uint32_t owner) {
    s->lost_node = node;
    supervisor_lost(
        s, "node %s is lost, and so are the keys of manager %u: there was no second copy any more",
        node_name(s, node), owner);
}

/* Its lease is over: nobody reads there any more what is read elsewhere from now on. */
static void lease_over(struct timer *t) {
    struct lost_node *n =
        (struct lost_node *)(void *)((char *)t - offsetof(struct lost_node, timer));
    struct supervisor *s = n->s;
    uint32_t node = (uint32_t)(n - s->coordinator->node), gone = gone_find(s, node);
    char why[256];
    if (s->stage >= STAGE_ENDING)
        return;
    if (gone < s->managers && !s->opt.refill) { /* its backup was given up meanwhile */
        keys_gone(s, node, gone);
        return;
    }
    for (uint32_t i = 0; i < s->managers; i++) {
        struct owner_place p = *owner_map_next(s, i);
        if (!deal_owns(&s->deal, i) || !is_on(s, p.primary, node))
            continue;
        if (!has_copy(s, &p)) {
            snprintf(why, sizeof why, "node %s is lost", node_name(s, node));
            owner_map_lose(s, i, why);
            continue;
        }
        snprintf(
            why, sizeof why,
            "the keys of manager %u are served by node %s, without a second copy: node %s is lost",
            i, node_name(s, p.backup % s->nodes), node_name(s, node));
        struct owner_place to = owner_place_promoted(&p);
        owner_map_change(s, i, &to, why);
    }
    owner_steps_take(s);
}

void coordinator_counts(struct supervisor *s) {
    if (coordinator_all_served(s))
        save_passes_served(s);
}

static void backups_drop(struct supervisor *s, uint32_t node) {
    char why[128];
    snprintf(why, sizeof why, "node %s is lost", node_name(s, node));
    for (uint32_t i = 0; i < s->managers; i++)
        if (is_on(s, owner_map_next(s, i)->backup, node))
            owner_map_backup_lost(s, i, owner_map_next(s, i)->epoch, why);
}

bool coordinator_can_lose(const struct supervisor *s, uint32_t node) {
    return s->coordinator && control_decides(s) && s->stage >= STAGE_READY &&
           (s->opt.refill || gone_find(s, node) == s->managers);
}

bool coordinator_can_spare(const struct supervisor *s, uint32_t node) {
    return s->coordinator && s->stage >= STAGE_READY && gone_find(s, node) == s->managers;
}

/* Nothing is served by its backups before: of who decided before us we do not know which leases it
 * gave, but that it gave none after we were elected. */
static bool lease_await(struct supervisor *s, uint32_t node, uint64_t heard) {
    struct lost_node *n = &s->coordinator->node[node];
    uint64_t since = election_since(s), now = timers_now(&s->timers);
    uint64_t over = (heard > since ? heard : since) + DD_LEASE_WAIT_MS * 1000000ull;
    n->s = s;
    n->timer.fire = lease_over;
    if (timer_after(&s->timers, &n->timer, over > now ? over - now : 0) == 0)
        return true;
    s->lost_node = node;
    supervisor_lost(s, "node %s is lost, and there is no memory to go on without it",
                    node_name(s, node));
    return false;
}

bool coordinator_node_lost(struct supervisor *s, uint32_t node, uint64_t heard, const char *how) {
    struct note note = {.kind = NOTE_NODE, .manager = UINT32_MAX, .count = node};
    if (!coordinator_can_lose(s, node))
        return false;
    snprintf(note.node, sizeof note.node, "%s", node_name(s, node));
    snprintf(note.text, sizeof note.text, "node %s is lost: %s; the dictionary goes on without it",
             note.node, how);
    log_warn("%s", note.text);
    startup_print("warn %s", note.text);
    control_note(s, &note);
    held_map_lose(s, node);
    backups_drop(s, node);
    lease_await(s, node, heard);
    return true;
}

void coordinator_begin(struct supervisor *s) {
    for (uint32_t i = 0; i < s->nodes; i++)
        if (coordinator_is_lost(s, i) && !lease_await(s, i, 0))
            return;
}

void coordinator_pause(struct supervisor *s) {
    for (uint32_t i = 0; i < s->nodes; i++)
        timer_clear(&s->timers, &s->coordinator->node[i].timer);
}

void coordinator_end(struct supervisor *s) {
    struct coordinator *c = s->coordinator;
    for (uint32_t i = 0; c && c->node && i < s->nodes; i++)
        timer_clear(&s->timers, &c->node[i].timer);
    if (c)
        free(c->node);
    free(c);
    s->coordinator = NULL;
}
