/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze.c - ddictd's part in freeze and unfreeze (PROTOCOL 9): it passes on what its managers ask
 * and answer, and on the node that decides takes all managers from one state to the next. A failure
 * in between ends the dictionary, so nothing has to be undone; a manager that is started again goes
 * on where it was (freezes_tell()). A manager or a node that does not answer ends it too (watch.c,
 * control_links.c), so no wait here needs a deadline of its own.
 *
 * Where another node decides from now on (takeover.h), it takes all to what was told last, by CLOSED
 * again, which does no harm to who is there already.
 */
#include "freeze.h"

#include "control.h"
#include "coordinator.h"
#include "managers.h"
#include "record.h"
#include "supervisor.h"
#include "takeover.h"
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ASKS_MAX 65536u /* of all nodes at once; each is of a client that waits */

struct freeze_ask {
    struct freeze_ask *next;
    struct freeze_word w;
};

struct asks {
    struct freeze_ask *first, **end;
    unsigned n;
};
struct freezes {
    /* of this node */
    unsigned managers_left; /* managers and shadows that have not answered GO */
    struct freeze_word go;
    struct asks ours; /* of our managers, sent to who decides and not answered */
    /* who decides */
    /* OPEN, FROZEN or RESTORING: the state that all managers are in, and the one that is wanted */
    enum freeze_state now, goal;
    bool moving;
    uint64_t epoch;
    uint32_t nodes_left;
    bool *left; /* [nodes]: it has not arrived */
    struct asks asks;
    /* another node decided before: the last word of all, and whether one is not there yet */
    struct freeze_word was;
    bool behind;
};

static void asks_next(struct supervisor *s);

/* --- lists --- */
static bool asks_put(struct asks *l, const struct freeze_word *w) {
    struct freeze_ask *a = l->n < ASKS_MAX ? malloc(sizeof *a) : NULL;
    if (!a)
        return false;
    *a = (struct freeze_ask){.w = *w};
    *l->end = a;
    l->end = &a->next;
    l->n++;
    return true;
}

/* The one at *at. */
static void asks_drop(struct asks *l, struct freeze_ask **at) {
    struct freeze_ask *a = *at;
    *at = a->next;
    if (!*at)
        l->end = at;
    l->n--;
    free(a);
}

static void asks_drop_all(struct asks *l) {
    while (l->first)
        asks_drop(l, &l->first);
}

int freezes_init(struct supervisor *s) {
    s->freezes = calloc(1, sizeof *s->freezes);
    if (!s->freezes)
        return -ENOMEM;
    s->freezes->asks.end = &s->freezes->asks.first;
    s->freezes->ours.end = &s->freezes->ours.first;
    s->freezes->left = calloc(s->nodes, sizeof *s->freezes->left);
    return s->freezes->left ? 0 : -ENOMEM;
}

void freezes_end(struct supervisor *s) {
    if (!s->freezes)
        return;
    asks_drop_all(&s->freezes->asks);
    asks_drop_all(&s->freezes->ours);
    free(s->freezes->left);
    free(s->freezes);
    s->freezes = NULL;
}

/* --- this node --- */
static struct local_manager *manager_of(struct supervisor *s, uint32_t manager) {
    for (unsigned i = 0; i < s->local_n; i++)
        if (s->local[i].id == manager)
            return &s->local[i];
    return NULL;
}

static void manager_go(struct local_manager *mgr) {
    const struct freeze_word *w = &mgr->s->freezes->go;
    struct sup_msg m = {.type = SUP_FREEZE, .id = w->id, .status = (int32_t)w->state};
    manager_send(mgr, &m, NULL, 0);
}

static void node_go(struct supervisor *s, const struct freeze_word *w) {
    s->freezes->go = *w;
    s->freezes->managers_left = 0;
    for (unsigned i = 0; i < processes_n(s); i++) {
        if (s->local[i].given_up || s->local[i].filling)
            continue;
        s->freezes->managers_left++;
        s->local[i].freezes = true;
        manager_go(&s->local[i]);
    }
}

/* One that was started behind the start may have died before it had read what it was told. */
void freezes_tell(struct local_manager *mgr) {
    bool was_told = mgr->late && !mgr->filling && mgr->s->freezes->go.state != FREEZE_OPEN;
    if (mgr->freezes || was_told)
        manager_go(mgr);
}

void freezes_shadow_filled(struct local_manager *mgr) {
    if (mgr->s->freezes->go.state != FREEZE_OPEN)
        manager_go(mgr); /* nobody awaits its answer */
}

static void manager_answer(struct supervisor *s, const struct freeze_word *w) {
    struct local_manager *mgr = manager_of(s, w->manager);
    struct freeze_ask **at = &s->freezes->ours.first;
    while (*at && ((*at)->w.manager != w->manager || (*at)->w.id != w->id))
        at = &(*at)->next;
    if (*at)
        asks_drop(&s->freezes->ours, at);
    struct sup_msg m = {.type = SUP_FREEZE_SAID, .id = w->id, .status = w->refused ? -ENOMEM : 0};
    if (mgr)
        manager_send(mgr, &m, NULL, 0);
}

/* --- who decides --- */
static void all_nodes_go(struct supervisor *s, enum freeze_state state) {
    struct freezes *f = s->freezes;
    struct freeze_word w = {.what = FREEZE_GO, .id = f->epoch, .state = state, .goal = f->goal};
    f->nodes_left = 0;
    for (uint32_t i = 0; i < s->nodes; i++) {
        f->left[i] = !coordinator_is_lost(s, i);
        f->nodes_left += f->left[i];
    }
    control_freeze(s, CONTROL_CHILDREN, &w, sizeof w);
    node_go(s, &w);
}

static void node_arrived(struct supervisor *s, uint32_t node, enum freeze_state at) {
    struct freezes *f = s->freezes;
    if (!f->moving || !f->left[node])
        return;
    f->left[node] = false;
    if (--f->nodes_left > 0)
        return;
    if (at == FREEZE_CLOSED) {
        all_nodes_go(s, f->goal);
        return;
    }
    f->moving = false;
    f->now = f->goal;
    if (f->now != FREEZE_RESTORING)
        record_freeze(s, f->now == FREEZE_FROZEN, f->epoch);
    log_info("%s, epoch %llu",
             f->now == FREEZE_FROZEN      ? "frozen"
             : f->now == FREEZE_RESTORING ? "only a restore may write"
                                          : "not frozen any more",
             (unsigned long long)f->epoch);
    asks_next(s);
}

static void ask_answer(struct supervisor *s, const struct freeze_word *w) {
    if (manager_of(s, w->manager))
        manager_answer(s, w);
    else
        control_freeze(s, w->manager % s->nodes, w, sizeof *w);
}

static void asks_next(struct supervisor *s) {
    struct freezes *f = s->freezes;
    while (f->asks.first && !f->moving && !takeover_waits(s)) {
        struct freeze_word w = f->asks.first->w;
        if (w.state != f->now) {
            f->moving = true;
            f->goal = (enum freeze_state)w.state;
            if (f->goal != FREEZE_OPEN)
                f->epoch++;
            all_nodes_go(s, FREEZE_CLOSED);
            return;
        }
        asks_drop(&f->asks, &f->asks.first);
        w.what = FREEZE_SAID;
        ask_answer(s, &w);
    }
}

static void ask_add(struct supervisor *s, const struct freeze_word *w) {
    if (asks_put(&s->freezes->asks, w)) {
        asks_next(s);
        return;
    }
    struct freeze_word no = *w;
    no.what = FREEZE_SAID;
    no.refused = 1;
    ask_answer(s, &no);
}

/* --- another node decided before --- */

/* Of one epoch: to FROZEN, FROZEN, or to RESTORING, RESTORING; then to OPEN, OPEN. */
static unsigned rank_of(const struct freeze_word *w) {
    return (w->goal == FREEZE_OPEN ? 2 : 0) + (w->state == w->goal);
}

static bool is_same(const struct freeze_word *a, const struct freeze_word *b) {
    return a->id == b->id && rank_of(a) == rank_of(b);
}

static void was_add(struct freezes *f, const struct freeze_word *w) {
    f->behind |= w->refused || w->state != w->goal || !is_same(w, &f->was);
    if (w->id > f->was.id || (w->id == f->was.id && rank_of(w) > rank_of(&f->was)))
        f->was = *w;
}

static struct freeze_word was_word(const struct freezes *f) {
    struct freeze_word w = f->go;
    w.what = FREEZE_WAS;
    w.refused = f->managers_left > 0;
    return w;
}

void freezes_below(struct supervisor *s) {
    asks_drop_all(&s->freezes->asks); /* we may have decided before; they are asked again */
    s->freezes->moving = false;
    struct freeze_word w = was_word(s->freezes);
    control_freeze(s, CONTROL_PARENT, &w, sizeof w);
    for (const struct freeze_ask *a = s->freezes->ours.first; a; a = a->next)
        control_freeze(s, CONTROL_PARENT, &a->w, sizeof a->w);
}

void freezes_takeover(struct supervisor *s) {
    struct freezes *f = s->freezes;
    f->was = was_word(f);
    f->behind = f->was.refused || f->was.state != f->was.goal;
    for (struct freeze_ask *a = f->ours.first, *next; a; a = next) {
        next = a->next; /* a refusal drops it */
        ask_add(s, &a->w);
    }
}

void freezes_told(struct supervisor *s) {
    struct freezes *f = s->freezes;
    f->epoch = f->was.id;
    f->goal = f->now = (enum freeze_state)f->was.goal;
    f->moving = f->behind;
    if (f->moving)
        all_nodes_go(s, FREEZE_CLOSED);
    else
        asks_next(s);
}

/* --- messages --- */
static void word_pass_up(struct supervisor *s, const struct freeze_word *w) {
    if (!control_decides(s))
        control_freeze(s, CONTROL_PARENT, w, sizeof *w);
    else if (w->what == FREEZE_ASK)
        ask_add(s, w);
    else if (w->id == s->freezes->epoch)
        node_arrived(s, s->node_id, (enum freeze_state)w->state);
}

static void manager_arrived(struct local_manager *mgr) {
    struct freezes *f = mgr->s->freezes;
    mgr->freezes = false;
    if (--f->managers_left > 0)
        return;
    struct freeze_word w = f->go;
    w.what = FREEZE_AT;
    word_pass_up(mgr->s, &w);
}

void freezes_shadow_lost(struct local_manager *mgr) {
    if (mgr->freezes)
        manager_arrived(mgr);
}

void freezes_node_lost(struct supervisor *s, uint32_t node) {
    node_arrived(s, node, s->freezes->go.state);
}

void freezes_manager_message(struct local_manager *mgr, const struct sup_msg *m) {
    struct supervisor *s = mgr->s;
    struct freezes *f = s->freezes;
    if (m->type == SUP_FREEZE_ASK) {
        struct freeze_word w = {.what = FREEZE_ASK,
                                .manager = mgr->id,
                                .id = m->id,
                                .state = m->status == WANT_OPEN     ? FREEZE_OPEN
                                         : m->status == WANT_FROZEN ? FREEZE_FROZEN
                                                                    : FREEZE_RESTORING};
        if (survives_nodes(s) && !asks_put(&f->ours, &w)) {
            w.refused = 1;
            manager_answer(s, &w);
            return;
        }
        word_pass_up(s, &w);
    } else if (mgr->freezes && m->id == f->go.id && m->status == (int32_t)f->go.state) {
        manager_arrived(mgr);
    }
}

int freezes_hear(struct supervisor *s, uint32_t node, bool from_parent, const void *payload,
                 size_t len) {
    struct freeze_word w;
    if (len != sizeof w)
        return DDICT_EPROTO;
    memcpy(&w, payload, sizeof w);
    if (w.state > FREEZE_RESTORING || w.goal > FREEZE_RESTORING || w.manager >= s->managers)
        return DDICT_EPROTO;
    if (from_parent && w.what == FREEZE_GO)
        node_go(s, &w);
    else if (from_parent && w.what == FREEZE_SAID)
        manager_answer(s, &w);
    else if (!from_parent && w.what == FREEZE_ASK && w.state != FREEZE_CLOSED)
        ask_add(s, &w);
    else if (!from_parent && w.what == FREEZE_WAS)
        was_add(s->freezes, &w);
    else if (from_parent || w.what != FREEZE_AT)
        return DDICT_EPROTO;
    else if (w.id == s->freezes->epoch)
        node_arrived(s, node, (enum freeze_state)w.state);
    return 0;
}
