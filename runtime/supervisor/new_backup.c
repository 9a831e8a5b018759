/* SPDX-License-Identifier: Apache-2.0 */
/* new_backup.c - a second copy in place of one that is lost. */
#include "new_backup.h"

#include "coordinator.h"
#include "decider.h"
#include "managers.h"
#include "new_primary.h"
#include "owner_map.h"
#include "owner_steps.h"
#include "shadow_tries.h"
#include "shadows.h"
#include <base/error.h>
#include <base/log.h>
#include <base/text.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ull

struct second_copy { /* of an owner; times are of our timers */
    /* at who decides */
    uint64_t missing; /* since then there is no whole backup; 0: there is */
    uint64_t whole;   /* since then there was one, before */
    /* at its nodes */
    uint64_t began;  /* epoch for which a shadow was started, or could not be */
    uint64_t copied; /* epoch in which our primary has copied all */
};

int new_backups_init(struct supervisor *s) {
    s->second_copies = calloc(s->managers, sizeof *s->second_copies);
    return s->second_copies ? 0 : -ENOMEM;
}

void new_backups_end(struct supervisor *s) {
    free(s->second_copies);
    s->second_copies = NULL;
}

static bool is_making(const struct owner_place *row) {
    return row->backup != SHADOW_NONE && !row->whole;
}

/* --- this node --- */
static void placed_say(struct supervisor *s, uint32_t owner, uint64_t epoch, uint16_t port,
                       const char *why) {
    char text[sizeof(struct placed_word) + OWNER_MAP_WHY];
    struct placed_word w = {.port = port};
    size_t n = strnlen(why, OWNER_MAP_WHY);
    memcpy(text, &w, sizeof w);
    memcpy(text + sizeof w, why, n);
    decider_tell(s, MSG_CTL_PLACED, new_backup_placed_heard, owner, epoch, text, sizeof w + n);
}

/* The row names a shadow here that has no port yet. */
static void shadow_start(struct supervisor *s, uint32_t owner, const struct owner_place *row) {
    struct second_copy *c = &s->second_copies[owner];
    struct local_manager *mgr = shadow_find(s, row->backup);
    if (!mgr && c->began == row->epoch)
        return; /* it could not be, or is lost */
    c->began = row->epoch;
    if (!mgr && !(mgr = shadow_begin(s, row->backup))) {
        log_warn("%s", dd_errmsg());
        placed_say(s, owner, row->epoch, 0, dd_errmsg());
    } else if (mgr->ready) {
        placed_say(s, owner, row->epoch, mgr->port, "");
    }
}

bool new_backup_look(struct supervisor *s, uint32_t owner) {
    const struct owner_place *row = &s->owner_map[owner];
    struct second_copy *c = &s->second_copies[owner];
    if (!is_making(row))
        return false;
    if (row->backup % s->nodes == s->node_id && !row->backup_port) {
        shadow_start(s, owner, row);
        return true;
    }
    if (c->copied != row->epoch)
        return false;
    decider_tell(s, MSG_CTL_WHOLE, new_backup_whole_heard, owner, row->epoch, NULL, 0);
    return true;
}

void new_backup_copied(struct supervisor *s, uint32_t owner, uint64_t epoch) {
    if (!s->second_copies)
        return;
    s->second_copies[owner].copied = epoch;
    owner_steps_take(s);
}

/* --- who decides --- */
void new_backups_clear(struct supervisor *s) {
    for (uint32_t i = 0; s->second_copies && i < s->managers; i++)
        s->second_copies[i].missing = s->second_copies[i].whole = 0;
}

bool new_backup_decide(struct supervisor *s, uint32_t owner, uint64_t now) {
    struct owner_tries *t = &s->shadow_tries->of[owner];
    struct second_copy *c = &s->second_copies[owner];
    const struct owner_place *row = owner_map_next(s, owner);
    bool busy = false;
    if (!has_copies(s))
        return false;
    if (t->primary != row->primary || t->anew) {
        owner_tries_begin(t, row->primary, false);
        c->whole = 0;
    }
    if (row->backup != SHADOW_NONE && row->whole) {
        c->whole = c->missing || !c->whole ? now : c->whole;
        c->missing = 0;
        return false;
    }
    if (!c->missing && c->whole && now - c->whole > DD_BACKUP_STEADY_MS * 1000000ull)
        owner_tries_begin(t, row->primary, false);
    c->missing = c->missing ? c->missing : now;
    c->whole = 0;
    if (is_making(row)) {
        shadow_try_check(s, owner, now);
        return true;
    }
    t->asked = 0;
    if (t->n >= DD_BACKUP_TRIES || coordinator_is_lost(s, row->primary % s->nodes))
        return false;
    if (now < t->next)
        return true;
    uint32_t node = shadow_try_node(s, owner, &busy);
    if (node == UINT32_MAX)
        return busy;
    shadow_try_begin(s, owner, node, now);
    return true;
}

/* --- messages to who decides --- */
int new_backup_placed_heard(struct supervisor *s, const struct control_said *m) {
    struct placed_word w;
    char why[OWNER_MAP_WHY + 1];
    if (!decider_has_row(s, m))
        return DDICT_EPROTO;
    memcpy(&w, m->payload, sizeof w);
    snprintf(why, sizeof why, "%.*s", (int)(m->len - sizeof w), m->payload + sizeof w);
    text_plain(why);
    const struct owner_place *row = decider_row(s, m);
    if (!row || !is_making(row) || row->backup_port || row->backup % s->nodes != m->node)
        return 0;
    if (!w.port) {
        shadow_try_failed(s, m->manager, why);
        return 0;
    }
    struct owner_place to = *row;
    to.backup_port = w.port;
    if (row->keys == OWNER_LOST)
        new_primary_begin(s, m->manager, &to);
    else
        owner_map_change(s, m->manager, &to, NULL);
    return 0;
}

int new_backup_whole_heard(struct supervisor *s, const struct control_said *m) {
    char why[192];
    if (!decider_has_row(s, m))
        return DDICT_EPROTO;
    const struct owner_place *row = decider_row(s, m);
    if (!row || !is_making(row) || !row->backup_port || row->primary % s->nodes != m->node)
        return 0;
    uint64_t missing = s->second_copies[m->manager].missing, now = timers_now(&s->timers);
    snprintf(why, sizeof why,
             "the keys of manager %u have a second copy again, on node %s, after %llu s",
             m->manager, node_name(s, row->backup % s->nodes),
             (unsigned long long)(missing ? (now - missing + SECOND / 2) / SECOND : 0));
    struct owner_place to = *row;
    to.whole = true;
    owner_map_change(s, m->manager, &to, why);
    return 0;
}
