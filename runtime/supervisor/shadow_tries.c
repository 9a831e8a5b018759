/* SPDX-License-Identifier: Apache-2.0 */
/* shadow_tries.c - who decides has a shadow started for an owner, on one node after the other. */
#include "shadow_tries.h"

#include "coordinator.h"
#include "managers.h"
#include <base/log.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node_load {   /* of a node */
    uint32_t copies; /* of keys, as primary or backup */
    uint32_t fills;  /* of these, those that are being made there, or from there */
};

int shadow_tries_init(struct supervisor *s) {
    struct shadow_tries *tries = s->shadow_tries = calloc(1, sizeof *tries);
    if (!tries)
        return -ENOMEM;
    tries->of = calloc(s->managers, sizeof *tries->of);
    tries->load = calloc(s->nodes, sizeof *tries->load);
    return tries->of && tries->load ? 0 : -ENOMEM;
}

void shadow_tries_end(struct supervisor *s) {
    struct shadow_tries *tries = s->shadow_tries;
    if (!tries)
        return;
    for (uint32_t i = 0; tries->of && i < s->managers; i++)
        free(tries->of[i].on);
    free(tries->of);
    free(tries->load);
    free(tries);
    s->shadow_tries = NULL;
}

void shadow_tries_clear(struct supervisor *s) {
    for (uint32_t i = 0; s->shadow_tries && i < s->managers; i++)
        owner_tries_begin(&s->shadow_tries->of[i], 0, false);
}

void owner_tries_begin(struct owner_tries *t, uint32_t primary, bool anew) {
    free(t->on);
    *t = (struct owner_tries){.primary = primary, .anew = anew};
}

/* --- where --- */
static void load_add(struct supervisor *s, const struct owner_place *row) {
    struct node_load *load = s->shadow_tries->load;
    load[row->primary % s->nodes].copies++;
    if (row->backup == SHADOW_NONE)
        return;
    load[row->backup % s->nodes].copies++;
    load[row->primary % s->nodes].fills += !row->whole;
    load[row->backup % s->nodes].fills += !row->whole;
}

void shadow_tries_count_load(struct supervisor *s) {
    memset(s->shadow_tries->load, 0, s->nodes * sizeof *s->shadow_tries->load);
    for (uint32_t i = 0; i < s->managers; i++)
        if (deal_owns(&s->deal, i))
            load_add(s, owner_map_next(s, i));
}

uint32_t shadow_try_node(struct supervisor *s, uint32_t owner, bool *busy) {
    const struct owner_tries *t = &s->shadow_tries->of[owner];
    const struct owner_place *row = owner_map_next(s, owner);
    const struct node_load *load = s->shadow_tries->load;
    uint32_t best = UINT32_MAX, from = row->primary % s->nodes;
    for (uint32_t i = 1; i < s->nodes; i++) {
        uint32_t n = (from + i) % s->nodes;
        if (coordinator_is_lost(s, n))
            continue;
        if (row->keys != OWNER_LOST &&
            (load[n].fills >= DD_COPIES_AT_ONCE || load[from].fills >= DD_COPIES_AT_ONCE)) {
            *busy = true;
            continue;
        }
        uint8_t on = t->on ? t->on[n] : 0, least = best < s->nodes && t->on ? t->on[best] : 0;
        if (best == UINT32_MAX || on < least || (on == least && load[n].copies < load[best].copies))
            best = n;
    }
    return best;
}

/* --- a try --- */
void shadow_try_begin(struct supervisor *s, uint32_t owner, uint32_t node, uint64_t now) {
    struct owner_tries *t = &s->shadow_tries->of[owner];
    struct owner_place to = *owner_map_next(s, owner);
    unsigned shift = t->n < 6 ? t->n : 6;
    if (!t->on)
        t->on = calloc(s->nodes, sizeof *t->on);
    if (t->on)
        t->on[node]++;
    t->n++;
    t->asked = now;
    t->next = now + (DD_BACKUP_TRY_MS * 1000000ull << shift);
    log_info("the keys of manager %u %s on node %s", owner,
             t->anew ? "are to begin anew" : "get a second copy", node_name(s, node));
    to.backup = shadow_on(&s->deal, owner, node);
    to.backup_port = 0;
    to.whole = false;
    owner_map_change(s, owner, &to, NULL);
    s->shadow_tries->load[node].copies++;
    s->shadow_tries->load[node].fills++;
    s->shadow_tries->load[to.primary % s->nodes].fills++;
}

void shadow_try_check(struct supervisor *s, uint32_t owner, uint64_t now) {
    struct owner_tries *t = &s->shadow_tries->of[owner];
    if (owner_map_next(s, owner)->backup_port)
        t->asked = 0;
    else if (!t->asked) /* who decided before has asked for it */
        t->asked = now;
    else if (now - t->asked > DD_BACKUP_PLACE_MS * 1000000ull)
        shadow_try_failed(s, owner, "its ddictd has not started it");
}

void shadow_try_failed(struct supervisor *s, uint32_t owner, const char *why) {
    struct owner_tries *t = &s->shadow_tries->of[owner];
    const struct owner_place *row = owner_map_next(s, owner);
    bool anew = row->keys == OWNER_LOST;
    const char *node = node_name(s, row->backup % s->nodes);
    char text[OWNER_MAP_WHY + 128];
    snprintf(text, sizeof text,
             anew ? "the keys of manager %u cannot begin anew on node %s: %s"
                  : "no second copy of the keys of manager %u can be made on node %s: %s",
             owner, node, why);
    if (t->said)
        log_info("%s", text);
    struct owner_place to = owner_place_alone(row);
    owner_map_change(s, owner, &to, t->said ? NULL : text);
    t->said = true;
    if (anew)
        snprintf(t->why, sizeof t->why, "%s", text);
}
