/* SPDX-License-Identifier: Apache-2.0 */
/* new_backup.c - a second copy in place of one that is lost. */
#include "new_backup.h"

#include "coordinator.h"
#include "decider.h"
#include "give_up.h"
#include "managers.h"
#include "new_primary.h"
#include "owner_map.h"
#include "refill.h"
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
struct new_backups {
    struct supervisor *s;
    struct timer timer;
    bool looking, again;
    struct second_copy *of; /* [managers] */
};

static void look_fire(struct timer *t) {
    struct new_backups *b =
        (struct new_backups *)(void *)((char *)t - offsetof(struct new_backups, timer));
    new_backups_look(b->s);
}

int new_backups_init(struct supervisor *s) {
    struct new_backups *b = s->new_backups = calloc(1, sizeof *b);
    if (!b)
        return -ENOMEM;
    b->s = s;
    b->timer.fire = look_fire;
    b->of = calloc(s->managers, sizeof *b->of);
    if (!b->of || shadow_tries_init(s) < 0 || new_primaries_init(s) < 0 ||
        lost_primaries_init(s) < 0)
        return -ENOMEM;
    return 0;
}

void new_backups_end(struct supervisor *s) {
    struct new_backups *b = s->new_backups;
    if (!b)
        return;
    timer_clear(&s->timers, &b->timer);
    free(b->of);
    free(b);
    s->new_backups = NULL;
    shadow_tries_end(s);
    new_primaries_end(s);
    lost_primaries_end(s);
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
static void shadow_look(struct supervisor *s, uint32_t owner, const struct owner_place *row) {
    struct second_copy *h = &s->new_backups->of[owner];
    struct local_manager *mgr = shadow_find(s, row->backup);
    if (!mgr && h->began == row->epoch)
        return; /* it could not be, or is lost */
    h->began = row->epoch;
    if (!mgr && !(mgr = shadow_begin(s, row->backup))) {
        log_warn("%s", dd_errmsg());
        placed_say(s, owner, row->epoch, 0, dd_errmsg());
    } else if (mgr->ready) {
        placed_say(s, owner, row->epoch, mgr->port, "");
    }
}

static bool here_look(struct supervisor *s, uint32_t owner) {
    const struct owner_place *row = &s->owner_map[owner];
    struct second_copy *h = &s->new_backups->of[owner];
    uint64_t epoch = row->epoch;
    if (!is_making(row))
        return false;
    if (row->backup % s->nodes == s->node_id && !row->backup_port) {
        shadow_look(s, owner, row);
        return true;
    }
    if (h->copied != epoch)
        return false;
    decider_tell(s, MSG_CTL_WHOLE, new_backup_whole_heard, owner, epoch, NULL, 0);
    return true;
}

void new_backup_copied(struct supervisor *s, uint32_t owner, uint64_t epoch) {
    if (!s->new_backups)
        return;
    s->new_backups->of[owner].copied = epoch;
    new_backups_look(s);
}

/* --- who decides --- */
void new_backups_decide(struct supervisor *s) {
    shadow_tries_clear(s);
    new_primaries_clear(s);
    for (uint32_t i = 0; s->new_backups && i < s->managers; i++) {
        struct second_copy *c = &s->new_backups->of[i];
        c->missing = c->whole = 0;
    }
}

static bool owner_look(struct supervisor *s, uint32_t owner, uint64_t now) {
    struct owner_tries *t = &s->shadow_tries->of[owner];
    struct second_copy *c = &s->new_backups->of[owner];
    const struct owner_place *row = owner_map_next(s, owner);
    bool busy = false;
    if (row->keys == OWNER_LOST)
        return new_primary_look(s, owner, now);
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

/* Each step may end the dictionary, and then there is no other. */
static bool all_look(struct supervisor *s) {
    uint64_t now = timers_now(&s->timers);
    bool some = false, decides = control_decides(s);
    if (decides)
        shadow_tries_count_load(s);
    for (uint32_t i = 0; i < s->managers && !s->lost; i++) {
        if (!deal_owns(&s->deal, i))
            continue;
        some |= lost_primary_look(s, i) || here_look(s, i);
        some |= s->refills && refill_look(s, i);
        some |= decides && owner_look(s, i, now);
    }
    return !s->lost && some | (s->refills && refill_go(s));
}

void new_backups_look(struct supervisor *s) {
    struct new_backups *b = s->new_backups;
    bool some = false;
    if (!b || s->lost || s->stage < STAGE_READY || s->stage >= STAGE_ENDING)
        return;
    b->again = true;
    if (b->looking) /* what it does changes the map */
        return;
    b->looking = true;
    for (unsigned i = 0; b->again && !s->lost && i < 8; i++) {
        b->again = false;
        some = all_look(s);
    }
    b->looking = false;
    timer_clear(&s->timers, &b->timer);
    if ((some || b->again) && !s->lost &&
        timer_after(&s->timers, &b->timer, DD_BACKUP_LOOK_MS * 1000000ull) < 0)
        log_error("no memory to look after new backups");
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
    uint64_t missing = s->new_backups->of[m->manager].missing, now = timers_now(&s->timers);
    snprintf(why, sizeof why,
             "the keys of manager %u have a second copy again, on node %s, after %llu s",
             m->manager, node_name(s, row->backup % s->nodes),
             (unsigned long long)(missing ? (now - missing + SECOND / 2) / SECOND : 0));
    struct owner_place to = *row;
    to.whole = true;
    owner_map_change(s, m->manager, &to, why);
    return 0;
}
