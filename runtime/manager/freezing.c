/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freezing.c - ddictd's part in freeze and unfreeze (PROTOCOL 9): it passes on what its managers ask and answer, and on node 0 takes all managers from one state to
 * the next. What breaks in the middle ends the dictionary, so there is nothing to take back; so does a manager or a node that does not answer (watch.c, control.c), so no wait
 * here needs a deadline of its own.
 */
#include <base/error.h>
#include <base/log.h>
#include <manager/supervisor.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ASKS_MAX 65536u /* of all nodes at once: clients wait for theirs */

enum { FREEZE_ASK = 1, FREEZE_GO, FREEZE_AT, FREEZE_SAID };
struct freeze_word {
    uint32_t what;
    uint32_t manager; /* ASK, SAID: who asked */
    uint64_t id;      /* ASK, SAID: its number for it; GO, AT: the epoch */
    uint32_t state;   /* enum freeze_state; ASK: the one that is wanted */
    uint32_t refused; /* SAID: nothing was done, for want of memory */
};
struct ask {
    struct ask *next;
    struct freeze_word w;
};

struct freezing {
    /* of this node */
    unsigned shards_left; /* that have not answered GO */
    struct freeze_word go;
    /* node 0 */
    enum freeze_state now,
        goal; /* OPEN or FROZEN; what all are, and what they are on their way to */
    bool moving;
    uint64_t epoch;
    uint32_t nodes_left;
    struct ask *asks, **asks_end;
    unsigned asks_n;
};

static void next(struct supervisor *s);

int freezing_init(struct supervisor *s) {
    s->freezing = calloc(1, sizeof *s->freezing);
    if (!s->freezing)
        return -ENOMEM;
    s->freezing->asks_end = &s->freezing->asks;
    return 0;
}

void freezing_end(struct supervisor *s) {
    if (!s->freezing)
        return;
    while (s->freezing->asks) {
        struct ask *a = s->freezing->asks;
        s->freezing->asks = a->next;
        free(a);
    }
    free(s->freezing);
    s->freezing = NULL;
}

/* --- this node --- */
static struct shard *shard_of(struct supervisor *s, uint32_t manager) {
    for (unsigned i = 0; i < s->shards_n; i++)
        if (s->shards[i].id == manager)
            return &s->shards[i];
    return NULL;
}

static void go(struct supervisor *s, const struct freeze_word *w) {
    struct sup_msg m = {.type = SUP_FREEZE, .id = w->id, .status = (int32_t)w->state};
    s->freezing->go = *w;
    s->freezing->shards_left = s->shards_n;
    shards_send(s, &m);
}

static void said(struct supervisor *s, const struct freeze_word *w) {
    struct shard *h = shard_of(s, w->manager);
    struct sup_msg m = {.type = SUP_FREEZE_SAID, .id = w->id, .status = w->refused ? -ENOMEM : 0};
    if (h)
        shard_send(h, &m, NULL, 0);
}

/* --- node 0 --- */
static void go_all(struct supervisor *s, enum freeze_state state) {
    struct freezing *f = s->freezing;
    struct freeze_word w = {.what = FREEZE_GO, .id = f->epoch, .state = state};
    f->nodes_left = s->nodes;
    control_freeze(s, CONTROL_CHILDREN, &w, sizeof w);
    go(s, &w);
}

static void node_at(struct supervisor *s, const struct freeze_word *w) {
    struct freezing *f = s->freezing;
    if (!f->moving || w->id != f->epoch || --f->nodes_left > 0)
        return;
    if (w->state == FREEZE_CLOSED) {
        go_all(s, f->goal);
        return;
    }
    f->moving = false;
    f->now = f->goal;
    record_freeze(s, f->now == FREEZE_FROZEN, f->epoch);
    log_info("%s, epoch %llu", f->now == FREEZE_FROZEN ? "frozen" : "not frozen any more",
             (unsigned long long)f->epoch);
    next(s);
}

static void said_to(struct supervisor *s, const struct freeze_word *w) {
    if (shard_of(s, w->manager))
        said(s, w);
    else
        control_freeze(s, w->manager % s->nodes, w, sizeof *w);
}

static void next(struct supervisor *s) {
    struct freezing *f = s->freezing;
    while (f->asks && !f->moving) {
        struct ask *a = f->asks;
        if (a->w.state != f->now) {
            f->moving = true;
            f->goal = (enum freeze_state)a->w.state;
            if (f->goal == FREEZE_FROZEN)
                f->epoch++;
            go_all(s, FREEZE_CLOSED);
            return;
        }
        f->asks = a->next;
        if (!f->asks)
            f->asks_end = &f->asks;
        f->asks_n--;
        struct freeze_word w = a->w;
        free(a);
        w.what = FREEZE_SAID;
        said_to(s, &w);
    }
}

static void asked(struct supervisor *s, const struct freeze_word *w) {
    struct freezing *f = s->freezing;
    struct ask *a = f->asks_n < ASKS_MAX ? malloc(sizeof *a) : NULL;
    if (!a) {
        struct freeze_word no = *w;
        no.what = FREEZE_SAID;
        no.refused = 1;
        said_to(s, &no);
        return;
    }
    *a = (struct ask){.w = *w};
    *f->asks_end = a;
    f->asks_end = &a->next;
    f->asks_n++;
    next(s);
}

/* --- what is heard --- */
static void up(struct supervisor *s, const struct freeze_word *w) {
    if (s->node_id != 0)
        control_freeze(s, CONTROL_PARENT, w, sizeof *w);
    else if (w->what == FREEZE_ASK)
        asked(s, w);
    else
        node_at(s, w);
}

void freezing_shard(struct shard *h, const struct sup_msg *m) {
    struct supervisor *s = h->s;
    struct freezing *f = s->freezing;
    if (m->type == SUP_FREEZE_ASK) {
        struct freeze_word w = {.what = FREEZE_ASK,
                                .manager = h->id,
                                .id = m->id,
                                .state = m->status ? FREEZE_FROZEN : FREEZE_OPEN};
        up(s, &w);
    } else if (m->id == f->go.id && m->status == (int32_t)f->go.state && f->shards_left > 0 &&
               --f->shards_left == 0) {
        struct freeze_word w = f->go;
        w.what = FREEZE_AT;
        up(s, &w);
    }
}

int freezing_heard(struct supervisor *s, bool from_parent, const void *payload, size_t len) {
    struct freeze_word w;
    if (len != sizeof w)
        return DDICT_EPROTO;
    memcpy(&w, payload, sizeof w);
    if (w.state > FREEZE_FROZEN || w.manager >= s->managers)
        return DDICT_EPROTO;
    if (from_parent && w.what == FREEZE_GO)
        go(s, &w);
    else if (from_parent && w.what == FREEZE_SAID)
        said(s, &w);
    else if (!from_parent && w.what == FREEZE_ASK && w.state != FREEZE_CLOSED)
        asked(s, &w);
    else if (!from_parent && w.what == FREEZE_AT)
        node_at(s, &w);
    else
        return DDICT_EPROTO;
    return 0;
}
