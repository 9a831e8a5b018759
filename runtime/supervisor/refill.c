/* SPDX-License-Identifier: Apache-2.0 */
/* refill.c - keys that began anew are read again. */
#include "refill.h"

#include "decider.h"
#include "owner_map.h"
#include "owner_steps.h"
#include <base/error.h>
#include <base/log.h>
#include <base/text.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the refill of an owner stands, at the node of its primary. */
enum refill_state {
    REFILL_NONE,
    REFILL_WANTED,  /* for the next child */
    REFILL_READING, /* a child reads for it */
    REFILL_ENDED    /* who decides is told, until the map says REFILLED */
};
struct refilling { /* of an owner */
    enum refill_state state;
    uint64_t since; /* it is REFILLING here, by our timers */
    uint64_t next;  /* WANTED: not before */
    unsigned tries; /* that failed */
    struct refilled_word word;
    char why[OWNER_MAP_WHY + 1];
};
struct refills {
    struct refilling *of; /* [managers] */
    uint32_t *owners;     /* [managers]: for which the child begins */
};

int refill_init(struct supervisor *s) {
    struct refills *r = s->refills = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    r->of = calloc(s->managers, sizeof *r->of);
    r->owners = calloc(s->managers, sizeof *r->owners);
    return r->of && r->owners ? 0 : -ENOMEM;
}

void refill_end(struct supervisor *s) {
    struct refills *r = s->refills;
    refill_child_end(s);
    if (!r)
        return;
    free(r->of);
    free(r->owners);
    free(r);
    s->refills = NULL;
}

/* --- the node of the primary --- */
static void refilled_say(struct supervisor *s, uint32_t owner) {
    const struct refilling *f = &s->refills->of[owner];
    char text[sizeof f->word + sizeof f->why];
    size_t n = strlen(f->why);
    memcpy(text, &f->word, sizeof f->word);
    memcpy(text + sizeof f->word, f->why, n);
    decider_tell(s, MSG_CTL_REFILLED, refilled_heard, owner, s->owner_map[owner].epoch, text,
                 sizeof f->word + n);
}

/* The child would put items of an older map. What it has not read of other owners is wanted again. */
static void child_stop(struct supervisor *s) {
    struct refills *r = s->refills;
    refill_child_stop(s);
    for (uint32_t i = 0; i < s->managers; i++)
        if (r->of[i].state == REFILL_READING)
            r->of[i].state = REFILL_WANTED;
}

static void owner_ended(struct supervisor *s, uint32_t owner, const struct refill_said *said) {
    struct refilling *f = &s->refills->of[owner];
    f->state = REFILL_ENDED;
    f->word.ms = (uint32_t)((timers_now(&s->timers) - f->since) / 1000000);
    f->word.failed = said->failed;
    snprintf(f->why, sizeof f->why, "%s", said->why);
}

/* Nothing that the end of the dictionary waits for is to wait for sources. */
static void owner_end_now(struct supervisor *s, uint32_t owner) {
    static const struct refill_said no = {.failed = true, .why = "the dictionary is ending"};
    enum refill_state state = s->refills->of[owner].state;
    if (state == REFILL_READING)
        child_stop(s);
    if (state != REFILL_ENDED)
        owner_ended(s, owner, &no);
}

bool refill_look(struct supervisor *s, uint32_t owner) {
    const struct owner_place *row = &s->owner_map[owner];
    struct refilling *f = &s->refills->of[owner];
    if (!owner_is_refilling(row->keys) || row->primary % s->nodes != s->node_id) {
        if (f->state == REFILL_READING)
            child_stop(s);
        f->state = REFILL_NONE;
        return false;
    }
    if (f->state == REFILL_NONE)
        *f = (struct refilling){.state = REFILL_WANTED, .since = timers_now(&s->timers)};
    if (s->stage >= STAGE_DRAINING)
        owner_end_now(s, owner);
    if (f->state == REFILL_ENDED)
        refilled_say(s, owner);
    return true;
}

/* A try has ended, and what it put stays. A source that fails may answer a little later. */
static void owner_tried(struct supervisor *s, uint32_t owner, unsigned n,
                        const struct refill_said *said) {
    struct refilling *f = &s->refills->of[owner];
    uint64_t now = timers_now(&s->timers);
    f->word.items += said->items;
    f->word.together = n - 1;
    if (said->sets > f->word.sets)
        f->word.sets = said->sets;
    if (!said->again || ++f->tries >= DD_REFILL_TRIES ||
        now - f->since >= DD_REFILL_MS * 1000000ull) {
        owner_ended(s, owner, said);
        return;
    }
    log_warn("what was lost of manager %u could not be read again: %s; it is tried again in %u s",
             owner, said->why, DD_REFILL_TRY_MS / 1000);
    f->state = REFILL_WANTED;
    f->next = now + DD_REFILL_TRY_MS * 1000000ull;
}

/* The child of others has had its time, and hangs: nobody waits longer for it. */
static void wanted_late(struct supervisor *s) {
    struct refill_said no = {.failed = true, .why = "what is read for other keys has no end"};
    uint64_t most = (DD_REFILL_MS + DD_BACKUP_PLACE_MS) * 1000000ull;
    for (uint32_t i = 0; i < s->managers; i++)
        if (s->refills->of[i].state == REFILL_WANTED &&
            timers_now(&s->timers) - s->refills->of[i].since > most)
            owner_ended(s, i, &no);
}

static void child_ended(struct supervisor *s, const uint32_t *owners, unsigned n,
                        const struct refill_said *said) {
    for (unsigned i = 0; i < n && s->refills; i++)
        if (s->refills->of[owners[i]].state == REFILL_READING)
            owner_tried(s, owners[i], n, said);
    owner_steps_take(s);
}

bool refill_go(struct supervisor *s) {
    struct refills *r = s->refills;
    uint64_t now = timers_now(&s->timers);
    unsigned n = 0;
    bool wanted = false;
    for (uint32_t i = 0; i < s->managers; i++) {
        wanted |= r->of[i].state == REFILL_WANTED;
        if (r->of[i].state == REFILL_WANTED && now >= r->of[i].next)
            r->owners[n++] = i;
    }
    if (n == 0)
        return wanted;
    int e = refill_child_begin(s, r->owners, n, child_ended);
    if (e == -EBUSY) {
        wanted_late(s);
        return true;
    }
    struct refill_said no = {.failed = true, .again = true};
    snprintf(no.why, sizeof no.why, "%s", *dd_errmsg() ? dd_errmsg() : dd_strerror(e));
    for (unsigned i = 0; i < n; i++)
        if (e == 0)
            r->of[r->owners[i]].state = REFILL_READING;
        else
            owner_tried(s, r->owners[i], n, &no);
    return true;
}

/* --- who decides --- */
int refilled_heard(struct supervisor *s, const struct control_said *m) {
    struct refilled_word w;
    char said[OWNER_MAP_WHY + 1], why[OWNER_MAP_WHY + 256], together[64] = "";
    if (!s->refills || !decider_has_row(s, m))
        return DDICT_EPROTO;
    memcpy(&w, m->payload, sizeof w);
    snprintf(said, sizeof said, "%.*s", (int)(m->len - sizeof w), m->payload + sizeof w);
    text_plain(said);
    const struct owner_place *row = decider_row(s, m);
    if (!row || !owner_is_refilling(row->keys) || row->primary % s->nodes != m->node)
        return 0;
    if (w.together)
        snprintf(together, sizeof together, " and %u more", w.together);
    snprintf(
        why, sizeof why,
        "node %s has read again %llu item%s of %llu data set%s in %u.%u s, which node %s had lost "
        "of manager %u%s; what no set has is lost%s%s",
        node_name(s, m->node), (unsigned long long)w.items, w.items == 1 ? "" : "s",
        (unsigned long long)w.sets, w.sets == 1 ? "" : "s", w.ms / 1000, w.ms / 100 % 10,
        node_name(s, row->lost_node), m->manager, together, w.failed ? ": " : "",
        w.failed ? said : "");
    struct owner_place to = *row;
    to.keys = OWNER_REFILLED;
    owner_map_change(s, m->manager, &to, why);
    return 0;
}
