/* SPDX-License-Identifier: Apache-2.0 */
/* held_map.c - the map as the nodes hold it, and when it counts. */
#include "held_map.h"

#include "control.h"
#include "coordinator.h"
#include "election.h"
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- a map --- */
int map_state_init(const struct supervisor *s, struct map_state *m) {
    *m = (struct map_state){.nodes = calloc(s->nodes, 1),
                            .rows = calloc(s->managers, sizeof *m->rows)};
    return m->nodes && m->rows ? 0 : -ENOMEM;
}

void map_state_free(struct map_state *m) {
    free(m->nodes);
    free(m->rows);
    *m = (struct map_state){.nodes = NULL};
}

void map_state_copy(const struct supervisor *s, struct map_state *to,
                    const struct map_state *from) {
    to->term = from->term;
    to->version = from->version;
    memcpy(to->nodes, from->nodes, s->nodes);
    memcpy(to->rows, from->rows, s->managers * sizeof *to->rows);
}

static bool same_voters(const struct supervisor *s, const struct map_state *m) {
    for (uint32_t i = 0; i < s->nodes; i++)
        if (!(m->nodes[i] & MAP_VOTES) != !(m->nodes[i] & MAP_VOTED))
            return false;
    return true;
}

bool map_is_newer(const struct supervisor *s, const struct map_state *a,
                  const struct map_state *b) {
    if (a->term != b->term)
        return a->term > b->term;
    return a->version != b->version ? a->version > b->version
                                    : same_voters(s, a) && !same_voters(s, b);
}

/* Where two nodes are left, the one that decides is the only voter. */
static void voters_set(const struct supervisor *s, struct map_state *m) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < s->nodes; i++) {
        m->nodes[i] =
            (uint8_t)((m->nodes[i] & MAP_LOST) | (m->nodes[i] & MAP_VOTES ? MAP_VOTED : 0));
        left += !(m->nodes[i] & MAP_LOST);
    }
    for (uint32_t i = 0; i < s->nodes; i++)
        if (!(m->nodes[i] & MAP_LOST) && (left > 2 || i == s->node_id))
            m->nodes[i] |= MAP_VOTES;
}

static bool majority_of(const struct supervisor *s, const struct map_state *m, uint8_t bit,
                        bool (*has)(const void *arg, uint32_t node), const void *arg) {
    uint32_t all = 0, n = 0;
    for (uint32_t i = 0; i < s->nodes; i++) {
        all += (m->nodes[i] & bit) != 0;
        n += (m->nodes[i] & bit) && has(arg, i);
    }
    return n > all / 2;
}

bool held_majority(const struct supervisor *s, const struct map_state *of,
                   bool (*has)(const void *arg, uint32_t node), const void *arg) {
    return majority_of(s, of, MAP_VOTES, has, arg) && majority_of(s, of, MAP_VOTED, has, arg);
}

/* --- in a message --- */
struct packed_row {
    uint64_t epoch;
    struct map_word word;
};
struct packed_head {
    uint64_t term, version;
};

static size_t packed_size(const struct supervisor *s) {
    return sizeof(struct packed_head) + s->managers * sizeof(struct packed_row) + s->nodes;
}

void *held_map_pack(const struct supervisor *s, const struct map_state *m, size_t *len) {
    char *bytes = calloc(1, packed_size(s)), *at = bytes;
    struct packed_head head = {.term = m->term, .version = m->version};
    if (!bytes)
        return NULL;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (uint32_t i = 0; i < s->managers; i++, at += sizeof(struct packed_row)) {
        const struct owner_place *p = &m->rows[i];
        struct packed_row r = {.epoch = p->epoch,
                               .word = {.primary = p->primary,
                                        .backup = p->backup,
                                        .primary_port = p->primary_port,
                                        .backup_port = p->backup_port,
                                        .whole = p->whole,
                                        .keys = (uint8_t)p->keys,
                                        .lost_node = (uint16_t)p->lost_node}};
        memcpy(at, &r, sizeof r);
    }
    memcpy(at, m->nodes, s->nodes);
    *len = packed_size(s);
    return bytes;
}

static bool row_makes_sense(const struct supervisor *s, uint32_t owner, const struct map_word *w) {
    uint32_t end = shadow_end(&s->deal);
    if (w->primary >= end || shadow_owner(&s->deal, w->primary) != owner ||
        w->keys > OWNER_READ_ON || w->lost_node >= s->nodes)
        return false;
    return w->backup == SHADOW_NONE ||
           (w->backup < end && shadow_owner(&s->deal, w->backup) == owner &&
            w->backup % s->nodes != w->primary % s->nodes);
}

int held_map_unpack(const struct supervisor *s, struct map_state *m, const void *bytes,
                    size_t len) {
    const char *at = bytes;
    struct packed_head head;
    if (len != packed_size(s))
        return DDICT_EPROTO;
    memcpy(&head, at, sizeof head);
    at += sizeof head;
    m->term = head.term;
    m->version = head.version;
    for (uint32_t i = 0; i < s->managers; i++, at += sizeof(struct packed_row)) {
        struct packed_row r;
        memcpy(&r, at, sizeof r);
        if (!row_makes_sense(s, i, &r.word))
            return DDICT_EPROTO;
        m->rows[i] = (struct owner_place){.primary = r.word.primary,
                                          .backup = r.word.backup,
                                          .primary_port = r.word.primary_port,
                                          .backup_port = r.word.backup_port,
                                          .whole = r.word.whole,
                                          .keys = (enum owner_keys)r.word.keys,
                                          .lost_node = r.word.lost_node,
                                          .epoch = r.epoch};
    }
    memcpy(m->nodes, at, s->nodes);
    return 0;
}

static void map_send(struct supervisor *s, uint32_t node) {
    size_t len = 0;
    void *bytes = held_map_pack(s, &s->held->held, &len);
    if (bytes)
        control_map(s, node, MSG_CTL_HOLD_MAP, bytes, len);
    else
        log_error("no memory to tell the other nodes of the map of owners");
    free(bytes);
}

static void count_send(struct supervisor *s, uint32_t node) {
    struct map_name name = {.term = s->held->held.term, .version = s->held->held.version};
    control_map(s, node, MSG_CTL_MAP, &name, sizeof name);
}

/* --- who decides --- */
static bool holds(const void *arg, uint32_t node) {
    const bool *holders = arg;
    return holders[node];
}

/* What is held counts: rows that are newer are acted on, and who had a vote before has none. */
static void act(struct supervisor *s) {
    struct held_map *h = s->held;
    h->counts_term = h->held.term;
    for (uint32_t i = 0; i < s->nodes; i++) {
        uint8_t *bits = &h->held.nodes[i];
        *bits = (uint8_t)((*bits & ~MAP_VOTED) | (*bits & MAP_VOTES ? MAP_VOTED : 0));
        bool was_lost = h->lost[i];
        h->lost[i] = *bits & MAP_LOST;
        if (h->lost[i] && !was_lost)
            owner_map_node_lost(s, i);
    }
    for (uint32_t i = 0; i < s->managers; i++)
        if (h->held.rows[i].epoch > s->owner_map[i].epoch)
            owner_map_set(s, i, &h->held.rows[i]);
}

static void counts_check(struct supervisor *s) {
    struct held_map *h = s->held;
    if (!h->waits || !held_majority(s, &h->held, holds, h->holders))
        return;
    h->waits = false;
    /* first the others: a primary that commits alone must not be the only one that knows */
    count_send(s, CONTROL_CHILDREN);
    act(s);
    election_counts(s);
    coordinator_counts(s);
    if (h->changed)
        io_defer(&h->propose);
}

static void map_hold(struct supervisor *s) {
    struct held_map *h = s->held;
    memset(h->holders, 0, s->nodes * sizeof *h->holders);
    h->holders[s->node_id] = true;
    h->waits = true;
    map_send(s, CONTROL_CHILDREN);
    counts_check(s);
}

static void propose_run(struct io_deferred *d) {
    struct held_map *h =
        (struct held_map *)(void *)((char *)d - offsetof(struct held_map, propose));
    struct supervisor *s = h->s;
    if (!h->changed || h->waits || !control_decides(s) || s->stage >= STAGE_ENDING)
        return;
    h->changed = false;
    h->next.version++;
    voters_set(s, &h->next);
    map_state_copy(s, &h->held, &h->next);
    map_hold(s);
}

static void changed(struct held_map *h) {
    h->changed = true;
    if (!h->waits)
        io_defer(&h->propose);
}

void held_map_row(struct supervisor *s, uint32_t owner, const struct owner_place *to) {
    struct owner_place *row = &s->held->next.rows[owner];
    uint64_t epoch = row->epoch + 1;
    *row = *to;
    row->epoch = epoch;
    changed(s->held);
}

void held_map_lose(struct supervisor *s, uint32_t node) {
    s->held->next.nodes[node] |= MAP_LOST;
    changed(s->held);
}

bool held_map_lost(const struct supervisor *s, uint32_t node) {
    const struct held_map *h = s->held;
    if (!h || node >= s->nodes)
        return false;
    return control_decides(s) ? h->next.nodes[node] & MAP_LOST : h->lost[node];
}

void held_map_decide(struct supervisor *s, uint64_t term, const struct map_state *from) {
    struct held_map *h = s->held;
    if (from)
        map_state_copy(s, &h->held, from);
    h->held.term = term;
    map_state_copy(s, &h->next, &h->held);
    h->changed = false;
    map_hold(s);
}

void held_map_undecide(struct supervisor *s) {
    s->held->changed = s->held->waits = false;
    io_undefer(&s->held->propose);
}

void held_map_held(struct supervisor *s, uint32_t node, struct map_name name) {
    struct held_map *h = s->held;
    if (name.term != h->held.term || name.version != h->held.version)
        return;
    h->holders[node] = true;
    counts_check(s);
}

void held_map_tell(struct supervisor *s, uint32_t node) {
    map_send(s, node);
    if (!s->held->waits)
        count_send(s, node);
}

void held_map_again(struct supervisor *s) {
    for (uint32_t i = 0; i < s->nodes; i++)
        if (control_has_child(s, i) && !s->held->holders[i])
            held_map_tell(s, i);
}

/* --- others --- */
void held_map_take(struct supervisor *s, struct map_state *m) {
    struct held_map *h = s->held;
    if (m->term > h->held.term || (m->term == h->held.term && m->version >= h->held.version))
        map_state_copy(s, &h->held, m);
}

bool held_map_counts(struct supervisor *s, struct map_name name) {
    struct held_map *h = s->held;
    bool first = h->counts_term < name.term;
    if (name.term != h->held.term || name.version != h->held.version)
        return false;
    act(s);
    return first;
}

/* --- ours --- */
int held_map_init(struct supervisor *s) {
    struct held_map *h = s->held = calloc(1, sizeof *h);
    if (!h)
        return -ENOMEM;
    h->s = s;
    h->propose.run = propose_run;
    if (packed_size(s) > DD_MSG_INLINE)
        return dd_error(-E2BIG, "%s with %u managers on %u nodes: that is too many",
                        has_copies(s) ? "--replicas=2" : "--refill", s->managers, s->nodes);
    h->lost = calloc(s->nodes, sizeof *h->lost);
    h->holders = calloc(s->nodes, sizeof *h->holders);
    h->drops = calloc(s->managers, sizeof *h->drops);
    if (!h->lost || !h->holders || !h->drops || map_state_init(s, &h->held) < 0 ||
        map_state_init(s, &h->next) < 0)
        return -ENOMEM;
    memset(h->holders, true, s->nodes * sizeof *h->holders); /* all begin with the same */
    h->held.version = 1;
    memcpy(h->held.rows, s->owner_map, s->managers * sizeof *h->held.rows);
    for (uint32_t i = 0; i < s->nodes; i++)
        if (s->nodes > 2 || i == 0)
            h->held.nodes[i] = MAP_VOTES | MAP_VOTED;
    map_state_copy(s, &h->next, &h->held);
    return 0;
}

void held_map_end(struct supervisor *s) {
    struct held_map *h = s->held;
    if (!h)
        return;
    io_undefer(&h->propose);
    map_state_free(&h->held);
    map_state_free(&h->next);
    free(h->lost);
    free(h->holders);
    free(h->drops);
    free(h);
    s->held = NULL;
}
