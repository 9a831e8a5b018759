/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager_events.c - what the managers of this node say, and their end. A manager that ends without
 * having been told to is started again (lives.c), or ends the dictionary (LOST); a shadow that is a
 * backup alone does not (shadows.c).
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
#include "new_backup.h"
#include "owner_map.h"
#include "owner_steps.h"
#include "save_passes.h"
#include "shadows.h"
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
    for (unsigned i = 0; i < processes_n(s); i++)
        if (!s->local[i].ready)
            return;
    if (s->local_n > 0 && s->stage == STAGE_STARTING && save_child_is_ready(s))
        control_ready(s);
}

static void manager_message(struct local_manager *mgr, const struct sup_msg *m) {
    struct supervisor *s = mgr->s;
    switch (m->type) {
    case SUP_READY:
        if (m->status < 0 && shadow_can_go(mgr)) {
            char why[sizeof m->text + 32];
            snprintf(why, sizeof why, "can not start again: %s", m->text);
            shadow_lost(mgr, why);
            return;
        }
        if (m->status < 0 && (mgr->deaths > 0 || s->opt.refill)) {
            char why[sizeof m->text + 32];
            snprintf(why, sizeof why, "can not start%s: %s", mgr->deaths > 0 ? " again" : "",
                     m->text);
            if (process_moves(mgr, why))
                return;
        }
        if (m->status < 0) {
            supervisor_lost(s, "%s on node %s can not start%s: %s", mgr->name, s->node,
                            mgr->deaths > 0 ? " again" : "", m->text);
            return;
        }
        mgr->ready = true;
        if (mgr->deaths > 0)
            manager_returned(mgr);
        managers_ready(s);
        owner_steps_take(s);
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
    case SUP_BACKUP_LOST:
        owner_map_backup_lost(s, mgr->id, m->count, m->text);
        return;
    case SUP_COPIED:
        new_backup_copied(s, mgr->id, m->count);
        return;
    case SUP_STATS_REPLY:
        mgr->stats = m->stats;
        mgr->has_stats = true;
        figures_add(s, &mgr->stats);
        lifecycle_check(s);
        return;
    default:
        log_error("%s sent message %u", mgr->name, m->type);
        return;
    }
}

/* --- death --- */
static void manager_stats_rescue(struct local_manager *mgr) {
    struct supervisor *s = mgr->s;
    const struct lease_chunk **leases;
    if (!process_serves(mgr) || mgr->has_stats || !mgr->page || mgr->arena_ro_fd < 0)
        return;
    struct arena_view view;
    if (arena_view_map(&view, mgr->arena_ro_fd, mgr->spill_ro_fd, 0) < 0)
        return;
    unsigned n = mgr->shadow ? 0 : clients_leases(s, &leases); /* whose clients are elsewhere */
    figures_of_page(mgr->page, view.header, leases, n, (unsigned)(mgr - s->local), &mgr->stats);
    for (unsigned i = 0; i < n; i++)
        munmap((void *)(uintptr_t)leases[i], LEASE_FILE_SIZE);
    if (n > 0)
        free(leases);
    arena_view_unmap(&view);
    mgr->stats.node_id = s->node_id;
    gethostname(mgr->stats.hostname, sizeof mgr->stats.hostname - 1);
    snprintf(mgr->stats.node, sizeof mgr->stats.node, "%s", s->node);
    mgr->has_stats = true;
    figures_add(s, &mgr->stats);
}

void managers_stats_ask(struct supervisor *s) {
    struct sup_msg m = {.type = SUP_STATS};
    for (unsigned i = 0; i < processes_n(s); i++)
        if (process_serves(&s->local[i]))
            manager_send(&s->local[i], &m, NULL, 0);
}

bool managers_stats_are_in(const struct supervisor *s) {
    for (unsigned i = 0; i < processes_n(s); i++) {
        const struct local_manager *mgr = &s->local[i];
        if (process_serves(mgr) && !mgr->gone && mgr->pid > 0 && !mgr->has_stats)
            return false;
    }
    return true;
}

void managers_stats_rescue(struct supervisor *s) {
    for (unsigned i = 0; i < processes_n(s); i++)
        manager_stats_rescue(&s->local[i]);
}

static void manager_died(struct local_manager *mgr, int status) {
    struct supervisor *s = mgr->s;
    if (!mgr->given_up && manager_return(mgr, status))
        return;
    if (mgr->given_up || shadow_can_go(mgr)) {
        shadow_lost(mgr, mgr->death);
        shadow_forget(mgr);
        return;
    }
    if (process_moves(mgr, mgr->death)) {
        if (mgr->shadow)
            shadow_forget(mgr);
        return;
    }
    manager_stats_rescue(mgr);
    if (!s->lost)
        s->lost_manager = mgr->id;
    if (!s->lost)
        s->lost_node = s->node_id;
    if (!s->lost)
        s->lost_memory = mgr->no_memory;
    const char *limit = mgr->no_memory ? memlimit_reached() : "";
    supervisor_lost(s, "%s on node %s %s%s%s", mgr->name, s->node, mgr->death, *limit ? ": " : "",
                    limit);
    lifecycle_check(s);
}

const struct manager_handlers manager_events = {.message = manager_message, .died = manager_died};
