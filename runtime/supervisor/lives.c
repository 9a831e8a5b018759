/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lives.c - a manager that dies is started again over what outlives it: its arena, the lanes and
 * leases of its clients, its listening socket. The next life is told all clients and hold pages
 * before its first turn; that of a shadow has none. Where it dies too often, the dictionary ends.
 */
#include "lives.h"

#include "clients.h"
#include "control.h"
#include "fork_leases.h"
#include "freeze.h"
#include "managers.h"
#include "owner_map.h"
#include "startup_output.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

/* As many deaths as may be are made good already. */
static bool dies_too_often(const struct local_manager *mgr, uint64_t now) {
    unsigned most = mgr->s->opt.restarts;
    return mgr->deaths >= most &&
           now - mgr->died_ns[(mgr->deaths - most) % RESTARTS_MAX] < DD_RESTARTS_MS * 1000000ull;
}

static bool is_killed(int status) {
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* Whether the kernel killed it for want of memory. Each of its kills is the death of one. */
static bool had_no_memory(struct supervisor *s, int status) {
    if (!is_killed(status) || memlimit_kills() <= s->memory_kills)
        return false;
    s->memory_kills++;
    return true;
}

/* Say in mgr->death how it died; why: what follows, or "". */
static void death_text(struct local_manager *mgr, int status, const char *why) {
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    bool fault = signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
                 signal == SIGABRT;
    if (mgr->no_memory) /* that is the whole reason, whatever follows */
        snprintf(mgr->death, sizeof mgr->death, "was killed because %s",
                 getenv("SLURM_JOB_ID") ? "the job ran out of memory (--mem)" : "memory ran out");
    else
        snprintf(mgr->death, sizeof mgr->death, "died (%s %d%s%s)%s",
                 signal ? "signal" : "exit code", signal ? signal : WEXITSTATUS(status),
                 WIFSIGNALED(status) && WCOREDUMP(status) ? ", core dumped" : "",
                 fault ? "; the managers' log says where" : "", why);
}

bool manager_return(struct local_manager *mgr, int status) {
    struct supervisor *s = mgr->s;
    struct sup_msg go = {.type = SUP_GO};
    uint64_t now = clock_ns();
    mgr->no_memory = had_no_memory(s, status);
    death_text(mgr, status, "");
    /* a first life that did not get ready is not tried again */
    if (s->opt.restarts == 0 || s->stage < STAGE_READY || s->stage >= STAGE_ENDING || s->lost ||
        !(mgr->ready || mgr->deaths > 0))
        return false;
    if (dies_too_often(mgr, now)) {
        char why[64];
        snprintf(why, sizeof why, ", %u times before within %u s", s->opt.restarts,
                 DD_RESTARTS_MS / 1000);
        death_text(mgr, status, why);
        return false;
    }
    mgr->died_ns[mgr->deaths++ % RESTARTS_MAX] = now;
    mgr->page->fell = !is_killed(status);
    mgr->page->no_memory = mgr->no_memory;
    mgr->ready = mgr->gone = mgr->pinged = mgr->silent = false;
    mgr->turned_ns = 0;
    if (manager_start(mgr) < 0) {
        log_error("%s", dd_errmsg());
        mgr->gone = true;
        return false;
    }
    if (!mgr->shadow) { /* which has no clients */
        clients_tell(mgr);
        fork_leases_tell(mgr);
    }
    if (s->owner_map)
        owner_map_tell(mgr);
    manager_send(mgr, &go, NULL, 0);
    freezes_tell(mgr);
    return true;
}

void manager_returned(struct local_manager *mgr) {
    struct supervisor *s = mgr->s;
    uint64_t ns = clock_ns() - mgr->died_ns[(mgr->deaths - 1) % RESTARTS_MAX];
    struct note n = {.kind = NOTE_RESTART, .manager = mgr->id, .count = mgr->page->lives - 1};
    snprintf(n.node, sizeof n.node, "%s", s->node);
    snprintf(n.text, sizeof n.text, "%s on node %s %.90s and was started again within %u ms",
             mgr->name, s->node, mgr->death, (unsigned)(ns / 1000000) + 1);
    log_warn("%s", n.text);
    startup_print("warn %s", n.text);
    control_note(s, &n);
}
