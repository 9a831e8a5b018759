/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - ddictd: parse, become ready, serve, end. The picture of the parts is in supervisor.h. */
#include "attach_counts.h"
#include "backtrace.h"
#include "clients.h"
#include "control.h"
#include "control_messages.h"
#include "coordinator.h"
#include "elect.h"
#include "election.h"
#include "figures.h"
#include "fork_leases.h"
#include "freeze.h"
#include "grants.h"
#include "held_map.h"
#include "life_events.h"
#include "lifecycle.h"
#include "manager_events.h"
#include "managers.h"
#include "owner_steps.h"
#include "record_writer.h"
#include "refill.h"
#include "rendezvous.h"
#include "results.h"
#include "save_passes.h"
#include "signals.h"
#include "startup_output.h"
#include "status_page.h"
#include "supervisor.h"
#include "takeover.h"
#include "tasks.h"
#include "transport.h"
#include "wireup.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <base/oom.h>
#include <wire/conn_counts.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct supervisor s;

static void start_print(void) {
    const char *job = managers_job(), *step = getenv("SLURM_STEP_ID"),
               *node = getenv("SLURM_NODEID");
    char name[64] = "-";
    if (job && step)
        snprintf(name, sizeof name, "%s.%s", job, step);
    if (s.opt.wireup == WIREUP_STDIO || !node)
        startup_print("start node=%u step=%s", s.opt.node_id, name);
    else
        startup_print("start node=%s step=%s", node, name);
}

static void start_timer_fire(struct timer *t) {
    if (!save_child_is_ready(&s)) {
        supervisor_lost(&s, "cannot save to %s on node %s: it did not answer within %d s",
                        s.opt.save, s.node, s.opt.ready_ms / 1000);
        return;
    }
    supervisor_lost(&s, "node %s: the managers of the dictionary were not ready within %d s",
                    s.node, s.opt.ready_ms / 1000);
}

/* What can fail on this node alone, before the others are waited for: the error travels in the
 * node info. */
static int open_local(void) {
    int e = !s.opt.stay ? clients_listen(&s) : s.node_id == 0 ? elect_name(&s) : 0;
    if (e != 0)
        return e;
    if ((e = managers_listen(&s)) < 0 || (e = managers_fit(&s)) < 0)
        return e;
    return control_listen(&s);
}

/* 1: there is nothing to serve, another dictionary of this name is there. */
static int supervisor_open(void) {
    int e, input;
    struct rlimit files;
    /* a client costs three descriptors and one a manager */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if ((e = lifecycle_init(&s)) < 0)
        return e;
    s.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s.epoll_fd < 0)
        return dd_error(-errno, "no epoll descriptor: %s", strerror(errno));
    if (s.opt.node[0])
        setenv("DDICT_NODE", s.opt.node, 1);
    attach_node_name(s.node, sizeof s.node);
    int found = transport_find(&s);
    char *missing = found < 0 ? strdup(dd_errmsg()) : NULL;
    if ((e = wireup_place(&s)) < 0)
        return e;
    log_part("ddictd on %s", s.node);
    int local =
        found < 0 ? dd_error(found, "%s", missing ? missing : dd_strerror(found)) : open_local();
    free(missing);
    char *error = local < 0 ? strdup(*dd_errmsg() ? dd_errmsg() : dd_strerror(local)) : NULL;
    e = wireup_exchange(&s, error);
    if (local < 0)
        e = dd_error(local, "%s", error ? error : dd_strerror(local));
    free(error);
    if (e != 0)
        return e;
    if (s.opt.stay && s.node_id > 0 && (e = elect_follow(&s)) < 0)
        return e;
    if ((e = signals_block()) < 0)
        return e;
    if (record_writer_init(&s) < 0 || attach_counts_init(&s) < 0 || tasks_init(&s) < 0)
        return dd_error(-ENOMEM, "no memory");
    if ((e = grants_init(&s)) < 0 ||
        (s.owner_map && ((e = held_map_init(&s)) < 0 || (e = election_init(&s)) < 0 ||
                         (e = coordinator_init(&s)) < 0)))
        return e;
    if (s.owner_map && (e = owner_steps_init(&s)) < 0)
        return e;
    if (s.owner_map && s.opt.refill && (e = refill_init(&s)) < 0)
        return e;
    if ((e = freezes_init(&s)) < 0 || (e = figures_init(&s)) < 0 || (e = status_page_open(&s)) < 0)
        return e;
    s.start_timer.fire = start_timer_fire;
    if ((e = timer_after(&s.timers, &s.start_timer, (uint64_t)s.opt.ready_ms * 1000000)) < 0)
        return e;
    if ((e = control_start(&s, control_message_heard)) < 0)
        return e;
    if ((e = save_child_start(&s)) < 0)
        return e;
    if ((e = managers_start(&s, manager_events)) < 0)
        return e;
    if ((input = signals_open(&s)) < 0)
        return input;
    managers_reap(&s); /* one that died before we looked for signals */
    if (input == 1 && !s.opt.stay)
        supervisor_drain(&s, s.opt.drain_ms, REASON_DRAINED);
    return 0;
}

static void exists_print(void) {
    char id[33];
    if (s.node_id == 0) {
        startup_print("exists id=%s managers=%u nodes=%u mem=%llu", hex_format(id, s.other.id),
                      s.other.managers, s.other.nodes, (unsigned long long)s.other.bytes);
        startup_print("end");
    }
}

static void supervisor_serve(void) {
    while (s.stage != STAGE_OVER) {
        io_wait(s.epoll_fd, timers_wait_ms(&s.timers));
        timers_run(&s.timers, timers_now(&s.timers));
    }
}

static void supervisor_close(void) {
    control_close(&s);
    conn_counts_log();
    clients_end(&s);
    fork_leases_end(&s);
    rendezvous_end(&s);
    managers_stop(&s);
    record_writer_end(&s);
    results_end(&s);
    attach_counts_end(&s);
    figures_end(&s);
    tasks_end(&s);
    takeover_end(&s);
    freezes_end(&s);
    owner_steps_end(&s);
    refill_end(&s);
    coordinator_end(&s);
    election_end(&s);
    held_map_end(&s);
    grants_end(&s);
    free(s.owner_map);
    s.owner_map = NULL;
    save_passes_end(&s);
    timers_free(&s.timers);
    free(s.line);
    free(s.lifecycle);
    free(s.peers);
    free(s.control_at);
    free(s.node_names);
}

int main(int argc, char **argv) {
    log_init("ddictd");
    backtrace_on_faults(); /* its managers inherit that */
    oom_not_first();       /* a task that starts us may have said that of itself */
    s.began = clock_ns();
    s.lost_manager = s.lost_node = UINT32_MAX;
    s.attach.fd = s.input.fd = s.script.fd = s.control_fd = s.status_page_ro_fd = -1;
    int e = options_parse(&s.opt, argc, argv);
    if (e == 1)
        return 0;
    if (e == 0)
        e = signals_init();
    if (e == 0) {
        start_print();
        e = supervisor_open();
    }
    if (e == 1) {
        exists_print();
        lifecycle_abandon(&s);
    } else if (e < 0) {
        if (!s.lost)
            startup_print("error %s", *dd_errmsg() ? dd_errmsg() : dd_strerror(e));
        s.exit_code = 1;
        lifecycle_abandon(&s);
    } else
        supervisor_serve();
    /* When a task ends, Slurm's PMIx server of its node ends with it, and may still have node infos
     * to pass on. */
    if (s.ends_after_wireup)
        poll(NULL, 0, DD_LINGER_MS);
    supervisor_close();
    return s.exit_code;
}
