/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lives.c - a manager that dies is started again over what outlives it: its arena, the lanes and
 * leases of its clients, its listening socket. The next life is told all clients and hold pages
 * before its first turn. What dies with a manager is counted in its page; where that is not
 * nothing, or it dies too often, the dictionary ends.
 */
#include "lives.h"

#include "clients.h"
#include "control.h"
#include "fork_leases.h"
#include "freeze.h"
#include "managers.h"
#include "startup_output.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

/* As many deaths as may be are made good already. */
static bool dies_too_often(const struct local_manager *mgr, uint64_t now) {
    unsigned most = mgr->s->opt.restarts;
    return mgr->deaths >= most &&
           now - mgr->died_ns[(mgr->deaths - most) % RESTARTS_MAX] < DD_RESTARTS_MS * 1000000ull;
}

static bool may_return(const struct local_manager *mgr, int status, uint64_t now) {
    const struct supervisor *s = mgr->s;
    /* a first life that did not get ready is not tried again; for want of memory: the next life
     * would be killed, too */
    bool memory =
        WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && memlimit_kills() > s->memory_kills;
    return s->opt.restarts > 0 && s->stage >= STAGE_READY && s->stage < STAGE_ENDING && !s->lost &&
           !memory && (mgr->ready || mgr->deaths > 0) && mgr->page->held == 0 &&
           !dies_too_often(mgr, now);
}

bool manager_return(struct local_manager *mgr, int status) {
    struct sup_msg go = {.type = SUP_GO};
    uint64_t now = clock_ns();
    if (!may_return(mgr, status, now))
        return false;
    snprintf(mgr->death, sizeof mgr->death, "died (%s %d)",
             WIFSIGNALED(status) ? "signal" : "exit code",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    mgr->died_ns[mgr->deaths++ % RESTARTS_MAX] = now;
    mgr->page->fell = !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL;
    mgr->ready = mgr->gone = mgr->pinged = mgr->silent = false;
    mgr->turned_ns = 0;
    if (manager_start(mgr) < 0) {
        log_error("%s", dd_errmsg());
        mgr->gone = true;
        return false;
    }
    clients_tell(mgr);
    fork_leases_tell(mgr);
    manager_send(mgr, &go, NULL, 0);
    freezes_tell(mgr);
    return true;
}

void manager_returned(struct local_manager *mgr) {
    struct supervisor *s = mgr->s;
    uint64_t ns = clock_ns() - mgr->died_ns[(mgr->deaths - 1) % RESTARTS_MAX];
    struct note n = {.kind = NOTE_RESTART, .manager = mgr->id, .count = mgr->page->lives - 1};
    snprintf(n.node, sizeof n.node, "%s", s->node);
    snprintf(n.text, sizeof n.text, "manager %u on node %s %s and was started again within %u ms",
             mgr->id, s->node, mgr->death, (unsigned)(ns / 1000000) + 1);
    log_warn("%s", n.text);
    startup_print("warn %s", n.text);
    control_note(s, &n);
}
