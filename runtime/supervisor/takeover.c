/* SPDX-License-Identifier: Apache-2.0 */
/* takeover.c - what node 0 did goes on at another node. */
#include "takeover.h"

#include "control.h"
#include "coordinator.h"
#include "freeze.h"
#include "life_events.h"
#include "record_writer.h"
#include "rendezvous.h"
#include "results.h"
#include "save_passes.h"
#include "tasks.h"
#include <base/log.h>

#include <stdlib.h>

#define NOTES_MAX 64u /* kept; later ones are lost */

static struct {
    bool *left; /* [nodes]: it has not told yet; NULL: we do not wait */
    uint32_t left_n;
    struct note *notes; /* [NOTES_MAX]; NULL: none */
    unsigned notes_n;
} takeover;

bool takeover_waits(const struct supervisor *s) {
    return takeover.left != NULL;
}

bool takeover_note_keep(struct supervisor *s, const struct note *n) {
    if (!survives_nodes(s) || !s->was_ready || s->stage >= STAGE_ENDING || control_is_head(s) ||
        control_has_parent(s))
        return false;
    if (!takeover.notes)
        takeover.notes = calloc(NOTES_MAX, sizeof *takeover.notes);
    if (!takeover.notes || takeover.notes_n == NOTES_MAX)
        log_warn("an event is not recorded: nobody decides just now");
    else
        takeover.notes[takeover.notes_n++] = *n;
    return true;
}

static void notes_give(struct supervisor *s) {
    for (unsigned i = 0; i < takeover.notes_n; i++)
        control_note(s, &takeover.notes[i]);
    takeover.notes_n = 0;
}

static void all_told(struct supervisor *s) {
    free(takeover.left);
    takeover.left = NULL;
    if (s->stage >= STAGE_ENDING)
        return;
    log_info("all other nodes have told what they have: goes on in place of node 0");
    tasks_ready(s);
    freezes_told(s);
    save_passes_served(s);
    lifecycle_check(s);
}

static void told_set(struct supervisor *s, uint32_t node) {
    if (!takeover.left || !takeover.left[node])
        return;
    takeover.left[node] = false;
    if (--takeover.left_n == 0)
        all_told(s);
}

void takeover_told(struct supervisor *s, uint32_t node) {
    told_set(s, node);
}

void takeover_node_lost(struct supervisor *s, uint32_t node) {
    told_set(s, node);
}

static bool waits_begin(struct supervisor *s) {
    free(takeover.left);
    takeover.left_n = 0;
    takeover.left = calloc(s->nodes, sizeof *takeover.left);
    for (uint32_t i = 0; takeover.left && i < s->nodes; i++) {
        takeover.left[i] = i != s->node_id && !coordinator_is_lost(s, i);
        takeover.left_n += takeover.left[i];
    }
    return takeover.left;
}

void takeover_begin(struct supervisor *s) {
    if (s->stage >= STAGE_ENDING)
        return;
    if (!waits_begin(s)) {
        supervisor_lost(s, "no memory to go on in place of node 0");
        return;
    }
    record_writer_follows(s);
    notes_give(s);
    for (uint32_t i = 0; i < s->nodes; i++)
        if (coordinator_is_lost(s, i))
            control_node_drained(s, i, true);
    freezes_takeover(s);
    save_passes_takeover(s);
    results_start(s);
    lifecycle_moved(s);
    if (takeover.left_n == 0)
        all_told(s);
}

void takeover_below(struct supervisor *s) {
    if (s->stage >= STAGE_ENDING)
        return;
    free(takeover.left);
    takeover.left = NULL;
    notes_give(s);
    results_below(s);
    tasks_below(s);
    rendezvous_below(s);
    freezes_below(s);
    save_passes_below(s);
    lifecycle_moved(s);
    control_told(s);
}

void takeover_child(struct supervisor *s, uint32_t node) {
    if (takeover.left && s->was_ready)
        control_ready_tell(s, node);
}

void takeover_end(struct supervisor *s) {
    free(takeover.left);
    free(takeover.notes);
    takeover.left = NULL;
    takeover.notes = NULL;
    takeover.notes_n = 0;
}
