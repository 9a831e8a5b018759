/* SPDX-License-Identifier: Apache-2.0 */
/* grants.c - the lease of this node. */
#include "grants.h"

#include "managers.h"
#include "status_page.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static uint64_t boot_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void grants_page(const struct local_manager *mgr) {
    const struct grants *g = mgr->s->grants;
    __atomic_store_n(&mgr->page->lease, g && g->lease ? g->lease : UINT64_MAX, __ATOMIC_RELEASE);
}

static void clients_page(struct supervisor *s) {
    const struct grants *g = s->grants;
    uint64_t mono = clock_ns(), boot = boot_ns(); /* in this order: rather too short */
    if (s->stage >= STAGE_READY)
        status_page_lease(s, g->lease > boot ? mono + (g->lease - boot) : 0, g->suspended);
}

static void pages_set(struct supervisor *s) {
    for (unsigned i = 0; i < processes_n(s); i++)
        if (s->local[i].page)
            grants_page(&s->local[i]);
    clients_page(s);
}

static void suspend(struct supervisor *s, bool suspended) {
    struct sup_msg m = {.type = SUP_PING};
    if (s->grants->suspended == suspended)
        return;
    s->grants->suspended = suspended;
    clients_page(s);
    if (suspended)
        log_warn("node 0 has not answered for %u s: this node serves nothing until it does",
                 DD_LEASE_MS / 1000);
    else
        log_info("node 0 answers: this node serves again");
    if (!suspended)
        processes_send(s, &m); /* they look */
}

static void over_at(struct grants *g, uint64_t ns) {
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)}};
    timerfd_settime(g->over.fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* A lease that was renewed since is awaited anew. */
static void over_ready(struct io_handler *h, uint32_t events) {
    struct grants *g = (struct grants *)(void *)((char *)h - offsetof(struct grants, over));
    uint64_t times;
    if (read(h->fd, &times, sizeof times) < 0 || g->s->stage >= STAGE_ENDING)
        return;
    if (boot_ns() < g->lease)
        over_at(g, g->lease);
    else
        suspend(g->s, true);
}

int grants_init(struct supervisor *s) {
    if (s->node_id == 0 || s->opt.replicas < 2)
        return 0;
    struct grants *g = s->grants = calloc(1, sizeof *g);
    if (!g)
        return -ENOMEM;
    g->s = s;
    g->over = (struct io_handler){.fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK),
                                  .ready = over_ready};
    if (g->over.fd < 0)
        return dd_error(-errno, "no timer for the lease of this node: %s", strerror(errno));
    return io_add(s->epoll_fd, &g->over, EPOLLIN);
}

uint32_t grants_beat(struct supervisor *s) {
    struct grants *g = s->grants;
    if (!g)
        return 0;
    g->number++;
    g->sent[g->number % GRANT_BEATS] = boot_ns();
    return g->number;
}

void grants_begin(struct supervisor *s) {
    if (!s->grants)
        return;
    s->grants->lease = boot_ns() + DD_LEASE_MS * 1000000ull;
    pages_set(s);
}

void grants_heard(struct supervisor *s, uint32_t number) {
    struct grants *g = s->grants;
    if (!g || number == 0 || number > g->number || g->number - number >= GRANT_BEATS)
        return;
    uint64_t until = g->sent[number % GRANT_BEATS] + DD_LEASE_MS * 1000000ull;
    if (until <= g->lease)
        return;
    g->lease = until;
    pages_set(s);
    if (g->suspended && boot_ns() < until) {
        suspend(s, false);
        over_at(g, until);
    }
}

void grants_ready(struct supervisor *s) {
    if (!s->grants)
        return;
    pages_set(s);
    over_at(s->grants, s->grants->lease);
}

void grants_end(struct supervisor *s) {
    if (s->grants && s->grants->over.fd >= 0)
        close(s->grants->over.fd);
    free(s->grants);
    s->grants = NULL;
}
