/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze.c - ddictd's part in freeze and unfreeze (PROTOCOL 9): it passes on what its managers ask
 * and answer, and on node 0 takes all managers from one state to the next. A failure in between
 * ends the dictionary, so nothing has to be undone; a manager that is started again goes on where
 * it was (freezes_tell()). A manager or a node that does not answer ends it too (watch.c,
 * control_links.c), so no wait here needs a deadline of its own.
 */
#include "freeze.h"

#include "control.h"
#include "coordinator.h"
#include "managers.h"
#include "record.h"
#include "supervisor.h"
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

struct freezes {
    /* of this node */
    unsigned managers_left; /* managers and shadows that have not answered GO */
    struct freeze_word go;
    /* node 0 */
    /* OPEN or FROZEN: the state that all managers are in, and the one that is wanted */
    enum freeze_state now, goal;
    bool moving;
    uint64_t epoch;
    uint32_t nodes_left;
    bool *left; /* [nodes]: it has not arrived */
    struct freeze_ask *asks, **asks_end;
    unsigned asks_n;
};

static void asks_next(struct supervisor *s);

int freezes_init(struct supervisor *s) {
    s->freezes = calloc(1, sizeof *s->freezes);
    if (!s->freezes)
        return -ENOMEM;
    s->freezes->asks_end = &s->freezes->asks;
    s->freezes->left = calloc(s->nodes, sizeof *s->freezes->left);
    return s->freezes->left ? 0 : -ENOMEM;
}

void freezes_end(struct supervisor *s) {
    if (!s->freezes)
        return;
    while (s->freezes->asks) {
        struct freeze_ask *a = s->freezes->asks;
        s->freezes->asks = a->next;
        free(a);
    }
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

void freezes_tell(struct local_manager *mgr) {
    if (mgr->freezes)
        manager_go(mgr);
}

void freezes_shadow_filled(struct local_manager *mgr) {
    if (mgr->s->freezes->go.state != FREEZE_OPEN)
        manager_go(mgr); /* nobody awaits its answer */
}

static void manager_answer(struct supervisor *s, const struct freeze_word *w) {
    struct local_manager *mgr = manager_of(s, w->manager);
    struct sup_msg m = {.type = SUP_FREEZE_SAID, .id = w->id, .status = w->refused ? -ENOMEM : 0};
    if (mgr)
        manager_send(mgr, &m, NULL, 0);
}

/* --- node 0 --- */
static void all_nodes_go(struct supervisor *s, enum freeze_state state) {
    struct freezes *f = s->freezes;
    struct freeze_word w = {.what = FREEZE_GO, .id = f->epoch, .state = state};
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
    record_freeze(s, f->now == FREEZE_FROZEN, f->epoch);
    log_info("%s, epoch %llu", f->now == FREEZE_FROZEN ? "frozen" : "not frozen any more",
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
    while (f->asks && !f->moving) {
        struct freeze_ask *a = f->asks;
        if (a->w.state != f->now) {
            f->moving = true;
            f->goal = (enum freeze_state)a->w.state;
            if (f->goal == FREEZE_FROZEN)
                f->epoch++;
            all_nodes_go(s, FREEZE_CLOSED);
            return;
        }
        f->asks = a->next;
        if (!f->asks)
            f->asks_end = &f->asks;
        f->asks_n--;
        struct freeze_word w = a->w;
        free(a);
        w.what = FREEZE_SAID;
        ask_answer(s, &w);
    }
}

static void ask_add(struct supervisor *s, const struct freeze_word *w) {
    struct freezes *f = s->freezes;
    struct freeze_ask *a = f->asks_n < ASKS_MAX ? malloc(sizeof *a) : NULL;
    if (!a) {
        struct freeze_word no = *w;
        no.what = FREEZE_SAID;
        no.refused = 1;
        ask_answer(s, &no);
        return;
    }
    *a = (struct freeze_ask){.w = *w};
    *f->asks_end = a;
    f->asks_end = &a->next;
    f->asks_n++;
    asks_next(s);
}

/* --- messages --- */
static void word_pass_up(struct supervisor *s, const struct freeze_word *w) {
    if (s->node_id != 0)
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
                                .state = m->status ? FREEZE_FROZEN : FREEZE_OPEN};
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
    if (w.state > FREEZE_FROZEN || w.manager >= s->managers)
        return DDICT_EPROTO;
    if (from_parent && w.what == FREEZE_GO)
        node_go(s, &w);
    else if (from_parent && w.what == FREEZE_SAID)
        manager_answer(s, &w);
    else if (!from_parent && w.what == FREEZE_ASK && w.state != FREEZE_CLOSED)
        ask_add(s, &w);
    else if (from_parent || w.what != FREEZE_AT)
        return DDICT_EPROTO;
    else if (w.id == s->freezes->epoch)
        node_arrived(s, node, (enum freeze_state)w.state);
    return 0;
}
