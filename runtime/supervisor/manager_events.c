/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager_events.c - what the managers of this node say, and their end. A manager that ends without
 * having been told to is started again (lives.c), or ends the dictionary (LOST).
 */
#include "manager_events.h"

#include "clients.h"
#include "control.h"
#include "figures.h"
#include "fork_leases.h"
#include "freeze.h"
#include "life_events.h"
#include "lives.h"
#include "managers.h"
#include "save_passes.h"
#include "supervisor.h"
#include <base/log.h>
#include <manager/stats.h>
#include <store/reader.h>
#include <store/store.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- messages --- */
static void manager_note(const struct local_manager *mgr, enum note_kind kind,
                         const struct sup_msg *m) {
    struct note n = {.kind = kind,
                     .manager = mgr->id,
                     .count = m->count,
                     .used_bytes = m->used_bytes,
                     .total_bytes = m->total_bytes};
    snprintf(n.node, sizeof n.node, "%s", mgr->s->node);
    snprintf(n.text, sizeof n.text, "%s", m->text);
    control_note(mgr->s, &n);
}

void managers_ready(struct supervisor *s) {
    for (unsigned i = 0; i < s->local_n; i++)
        if (!s->local[i].ready)
            return;
    if (s->local_n > 0 && s->stage == STAGE_STARTING && save_child_is_ready(s))
        control_ready(s);
}

static void manager_message(struct local_manager *mgr, const struct sup_msg *m) {
    struct supervisor *s = mgr->s;
    switch (m->type) {
    case SUP_READY:
        if (m->status < 0) {
            supervisor_lost(s, "manager %u on node %s can not start%s: %s", mgr->id, s->node,
                            mgr->deaths > 0 ? " again" : "", m->text);
            return;
        }
        mgr->ready = true;
        if (mgr->deaths > 0)
            manager_returned(mgr);
        managers_ready(s);
        return;
    case SUP_CLIENT_ADDED:
        client_added(mgr, m);
        return;
    case SUP_CLIENT_BAD:
        client_bad(s, m->id);
        return;
    case SUP_HOLD_ADDED:
        fork_lease_added(mgr, m);
        return;
    case SUP_FULL:
        manager_note(mgr, NOTE_FULL, m);
        return;
    case SUP_REFUSED:
        manager_note(mgr, NOTE_REFUSED, m);
        return;
    case SUP_FREEZE_ASK:
    case SUP_FREEZE_AT:
        freezes_manager_message(mgr, m);
        return;
    case SUP_STATS_REPLY:
        mgr->stats = m->stats;
        mgr->has_stats = true;
        figures_add(s, &mgr->stats);
        lifecycle_check(s);
        return;
    default:
        log_error("manager %u sent message %u", mgr->id, m->type);
        return;
    }
}

/* --- death --- */
static void manager_stats_rescue(struct local_manager *mgr) {
    struct supervisor *s = mgr->s;
    const struct lease_chunk **leases;
    if (mgr->has_stats || !mgr->page || mgr->arena_ro_fd < 0)
        return;
    struct arena_view view;
    if (arena_view_map(&view, mgr->arena_ro_fd, mgr->spill_ro_fd, 0) < 0)
        return;
    unsigned n = clients_leases(s, &leases);
    figures_of_page(mgr->page, view.header, leases, n, (unsigned)(mgr - s->local), &mgr->stats);
    for (unsigned i = 0; i < n; i++)
        munmap((void *)(uintptr_t)leases[i], LEASE_FILE_SIZE);
    free(leases);
    arena_view_unmap(&view);
    mgr->stats.node_id = s->node_id;
    gethostname(mgr->stats.hostname, sizeof mgr->stats.hostname - 1);
    snprintf(mgr->stats.node, sizeof mgr->stats.node, "%s", s->node);
    mgr->has_stats = true;
    figures_add(s, &mgr->stats);
}

void managers_stats_rescue(struct supervisor *s) {
    for (unsigned i = 0; i < s->local_n; i++)
        manager_stats_rescue(&s->local[i]);
}

static void manager_died(struct local_manager *mgr, int status) {
    struct supervisor *s = mgr->s;
    if (manager_return(mgr, status))
        return;
    manager_stats_rescue(mgr);
    if (!s->lost)
        s->lost_manager = mgr->id;
    if (!s->lost)
        s->lost_node = s->node_id;
    if (!s->lost)
        s->lost_memory = mgr->no_memory;
    const char *limit = mgr->no_memory ? memlimit_reached() : "";
    supervisor_lost(s, "manager %u on node %s %s%s%s", mgr->id, s->node, mgr->death,
                    *limit ? ": " : "", limit);
    lifecycle_check(s);
}

const struct manager_handlers manager_events = {.message = manager_message, .died = manager_died};
