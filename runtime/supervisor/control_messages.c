/* SPDX-License-Identifier: Apache-2.0 */
/* control_messages.c - what each message of another ddictd does, and who may send it. */
#include "control_messages.h"

#include "attach_counts.h"
#include "control.h"
#include "election.h"
#include "figures.h"
#include "freeze.h"
#include "give_up.h"
#include "life_events.h"
#include "new_backup.h"
#include "owner_map.h"
#include "refill.h"
#include "rendezvous.h"
#include "save_passes.h"
#include "supervisor.h"
#include "takeover.h"
#include "tasks.h"
#include <base/error.h>

#include <string.h>

/* --- what each does --- */
static int ready_from_parent(struct supervisor *s, const struct control_said *m) {
    supervisor_ready(s);
    return 0;
}

static int ready_from_child(struct supervisor *s, const struct control_said *m) {
    control_node_ready(s, m->node);
    takeover_told(s, m->node);
    return 0;
}

static int drain_heard(struct supervisor *s, const struct control_said *m) {
    supervisor_drain(s, m->aux < 86400000 ? (int)m->aux : s->opt.drain_ms,
                     (enum end_reason)m->manager);
    return 0;
}

static int drained_heard(struct supervisor *s, const struct control_said *m) {
    control_node_drained(s, m->node, m->aux == 0);
    return 0;
}

static int end_from_parent(struct supervisor *s, const struct control_said *m) {
    supervisor_end(s);
    return 0;
}

/* Who decided is gone, and has told it that the dictionary ends, but not us. */
static int end_from_voter(struct supervisor *s, const struct control_said *m) {
    if (s->election && s->election->looks)
        supervisor_end(s);
    return 0;
}

static int end_from_below(struct supervisor *s, const struct control_said *m) {
    if (m->aux >= s->nodes)
        return DDICT_EPROTO;
    control_node_ended(s, (uint32_t)m->aux);
    return 0;
}

static int done_heard(struct supervisor *s, const struct control_said *m) {
    if (m->from == FROM_VOTER && control_orphan_errs(s))
        return 0;
    control_done(s);
    return 0;
}

static int lost_heard(struct supervisor *s, const struct control_said *m) {
    if (m->from & (FROM_ORPHAN | FROM_VOTER) && control_orphan_errs(s))
        return 0;
    if (s->lost_manager == UINT32_MAX && s->lost_node == UINT32_MAX) {
        s->lost_manager = m->manager;
        s->lost_node = m->aux < s->nodes ? (uint32_t)m->aux : UINT32_MAX;
    }
    if (!s->lost) {
        s->lost_memory = m->tag != 0;
        s->cut_off = survives_nodes(s) && m->aux == s->node_id; /* cut_off_tell() */
    }
    supervisor_lost(s, "%.*s", (int)(m->len < 400 ? m->len : 400), m->payload);
    if (m->aux < s->nodes)
        control_node_silent(s, (uint32_t)m->aux);
    return 0;
}

static int stats_heard(struct supervisor *s, const struct control_said *m) {
    struct manager_stats stats;
    int rc = stats_read(&stats, m->payload, m->len);
    if (rc == 0)
        figures_add(s, &stats);
    return rc;
}

static int step_heard(struct supervisor *s, const struct control_said *m) {
    char step[STEP_NAME_MAX];
    if (m->manager >= s->nodes)
        return DDICT_EPROTO;
    memcpy(step, m->payload, m->len);
    step[m->len] = 0;
    attach_counts_set(s, m->manager, step, m->aux);
    return 0;
}

static int note_heard(struct supervisor *s, const struct control_said *m) {
    struct note n;
    memcpy(&n, m->payload, sizeof n);
    n.node[sizeof n.node - 1] = n.text[sizeof n.text - 1] = 0;
    control_note(s, &n);
    return 0;
}

static int meet_heard(struct supervisor *s, const struct control_said *m) {
    return rendezvous_hear(s, m->node, m->manager, m->aux, m->payload, m->len);
}

static int tasks_heard(struct supervisor *s, const struct control_said *m) {
    tasks_set(s, m->node, m->manager, m->aux < m->manager ? (uint32_t)m->aux : m->manager);
    return 0;
}

static int freeze_heard(struct supervisor *s, const struct control_said *m) {
    return freezes_hear(s, m->node, m->from == FROM_PARENT, m->payload, m->len);
}

static int save_heard(struct supervisor *s, const struct control_said *m) {
    return save_passes_hear(s, m->from == FROM_PARENT, m->payload, m->len);
}

static int beat_heard(struct supervisor *s, const struct control_said *m) {
    return 0;
}

/* --- the table --- */
#define FROM_BELOW (FROM_CHILD | FROM_ORPHAN)

/* A message that has no row with its type and its sender, or whose payload is shorter or longer
 * than the row says, closes the connection. One that comes in a stage that has no use for it is
 * ignored, as the table in lifecycle.c says. */
static const struct control_rule {
    enum msg_type type;
    unsigned from;      /* bits of enum control_from */
    size_t least, most; /* bytes of payload; SIZE_MAX: `heard` knows what is right */
    bool pass_on;       /* to our parent, if we have one */
    control_heard *heard;
} rules[] = {
    {.type = MSG_CTL_READY, .from = FROM_PARENT, .heard = ready_from_parent},
    {.type = MSG_CTL_READY, .from = FROM_CHILD, .heard = ready_from_child},
    {.type = MSG_CTL_DRAIN, .from = FROM_PARENT | FROM_CHILD, .heard = drain_heard},
    {.type = MSG_CTL_DRAINED, .from = FROM_CHILD, .heard = drained_heard},
    {.type = MSG_CTL_END, .from = FROM_PARENT, .heard = end_from_parent},
    {.type = MSG_CTL_END, .from = FROM_BELOW, .heard = end_from_below},
    {.type = MSG_CTL_END, .from = FROM_VOTER, .heard = end_from_voter},
    {.type = MSG_CTL_DONE, .from = FROM_PARENT | FROM_VOTER, .heard = done_heard},
    {.type = MSG_CTL_BEAT, .from = FROM_PARENT | FROM_BELOW | FROM_VOTER, .heard = beat_heard},
    {.type = MSG_CTL_LOST,
     .from = FROM_PARENT | FROM_BELOW | FROM_VOTER,
     .most = SIZE_MAX,
     .heard = lost_heard},
    {.type = MSG_CTL_STATS,
     .from = FROM_BELOW,
     .most = SIZE_MAX,
     .pass_on = true,
     .heard = stats_heard},
    {.type = MSG_CTL_STEP,
     .from = FROM_BELOW,
     .most = STEP_NAME_MAX - 1,
     .pass_on = true,
     .heard = step_heard},
    {.type = MSG_CTL_NOTE,
     .from = FROM_BELOW,
     .least = sizeof(struct note),
     .most = sizeof(struct note),
     .heard = note_heard},
    {.type = MSG_CTL_TASKS, .from = FROM_CHILD, .heard = tasks_heard},
    {.type = MSG_CTL_MEET,
     .from = FROM_PARENT | FROM_CHILD,
     .most = STEP_NAME_MAX - 1,
     .heard = meet_heard},
    {.type = MSG_CTL_FREEZE,
     .from = FROM_PARENT | FROM_CHILD,
     .most = SIZE_MAX,
     .heard = freeze_heard},
    {.type = MSG_CTL_VOTE, .from = FROM_VOTER, .heard = vote_heard},
    {.type = MSG_CTL_VOTED,
     .from = FROM_PARENT | FROM_BELOW | FROM_VOTER,
     .most = SIZE_MAX,
     .heard = voted_heard},
    {.type = MSG_CTL_HOLD_MAP,
     .from = FROM_PARENT | FROM_VOTER,
     .most = SIZE_MAX,
     .heard = hold_map_heard},
    {.type = MSG_CTL_HELD,
     .from = FROM_CHILD,
     .least = sizeof(struct map_name),
     .most = sizeof(struct map_name),
     .heard = held_heard},
    {.type = MSG_CTL_MAP,
     .from = FROM_PARENT,
     .least = sizeof(struct map_name),
     .most = sizeof(struct map_name),
     .heard = map_heard},
    {.type = MSG_CTL_ROUND,
     .from = FROM_PARENT | FROM_CHILD,
     .least = sizeof(struct round_word),
     .most = sizeof(struct round_word),
     .heard = round_heard},
    {.type = MSG_CTL_DROP,
     .from = FROM_CHILD,
     .most = OWNER_MAP_WHY,
     .heard = owner_map_drop_heard},
    {.type = MSG_CTL_PLACED,
     .from = FROM_CHILD,
     .least = sizeof(struct placed_word),
     .most = sizeof(struct placed_word) + OWNER_MAP_WHY,
     .heard = new_backup_placed_heard},
    {.type = MSG_CTL_WHOLE, .from = FROM_CHILD, .heard = new_backup_whole_heard},
    {.type = MSG_CTL_PRIMARY_LOST,
     .from = FROM_CHILD,
     .most = OWNER_MAP_WHY,
     .heard = primary_lost_heard},
    {.type = MSG_CTL_REFILLED,
     .from = FROM_CHILD,
     .least = sizeof(struct refilled_word),
     .most = sizeof(struct refilled_word) + OWNER_MAP_WHY,
     .heard = refilled_heard},
    {.type = MSG_CTL_SAVE,
     .from = FROM_PARENT | FROM_CHILD,
     .least = sizeof(struct save_word),
     .most = sizeof(struct save_word),
     .heard = save_heard},
};

static const struct control_rule *rule_of(const struct control_said *m) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].type == m->type && rules[i].from & m->from)
            return m->len >= rules[i].least && m->len <= rules[i].most ? &rules[i] : NULL;
    return NULL;
}

int control_message_heard(struct supervisor *s, const struct control_said *said) {
    const struct control_rule *rule = rule_of(said);
    int e = rule ? rule->heard(s, said) : DDICT_EPROTO;
    return e < 0 ? e : rule->pass_on;
}
