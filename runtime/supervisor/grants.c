/* SPDX-License-Identifier: Apache-2.0 */
/* grants.c - the lease of this node. */
#include "grants.h"

#include "control.h"
#include "election.h"
#include "held_map.h"
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
        log_warn("%s has not answered for %u s: this node serves nothing until it does",
                 control_decides(s) ? "a majority of the nodes" : "who decides",
                 DD_LEASE_MS / 1000);
    else
        log_info("it was answered: this node serves again");
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
    if (boot_ns() < g->lease) {
        over_at(g, g->lease);
        return;
    }
    suspend(g->s, true);
    if (control_decides(g->s))
        grants_round(g->s);
}

/* From when that was sent which was answered. */
static void lease_from(struct supervisor *s, uint64_t sent) {
    struct grants *g = s->grants;
    uint64_t until = sent + DD_LEASE_MS * 1000000ull;
    if (until <= g->lease)
        return;
    g->lease = until;
    pages_set(s);
    if (g->suspended && boot_ns() < until) {
        suspend(s, false);
        over_at(g, until);
    }
}

/* --- who decides: rounds --- */
static bool has_answered(const void *arg, uint32_t node) {
    const struct grants *g = arg;
    return g->answered[node] > g->reached;
}

/* Asks come in the order of their rounds. */
static void asks_answer(struct grants *g, uint32_t node) {
    struct grant_ask *ask = g->asks[node];
    uint32_t number = 0;
    while (ask[0].number && ask[0].round <= g->reached) {
        number = ask[0].number;
        ask[0] = ask[1];
        ask[1].number = 0;
    }
    if (number)
        control_grant(g->s, node, number);
}

/* Of the rounds that a majority has answered the newest counts. */
static void reached_check(struct supervisor *s) {
    struct grants *g = s->grants;
    uint32_t before = g->reached;
    while (g->reached < g->round && held_majority(s, &s->held->held, has_answered, g))
        g->reached++;
    if (g->reached == before)
        return;
    if (g->round - g->reached < GRANT_BEATS)
        lease_from(s, g->round_sent[g->reached % GRANT_BEATS]);
    for (uint32_t i = 0; i < s->nodes; i++)
        asks_answer(g, i);
}

void grants_round(struct supervisor *s) {
    struct grants *g = s->grants;
    if (!g || !control_decides(s))
        return;
    struct round_word w = {.term = s->election->term, .round = ++g->round};
    g->round_at = timers_now(&s->timers);
    g->round_sent[g->round % GRANT_BEATS] = boot_ns();
    g->answered[s->node_id] = g->round;
    control_map(s, CONTROL_CHILDREN, MSG_CTL_ROUND, &w, sizeof w);
    reached_check(s);
}

static void round_fire(struct timer *t) {
    grants_round(((struct grants *)(void *)((char *)t - offsetof(struct grants, next_round)))->s);
}

void grants_asked(struct supervisor *s, uint32_t node, uint32_t number) {
    struct grants *g = s->grants;
    if (!g) {
        control_grant(s, node, number);
        return;
    }
    struct grant_ask *ask = g->asks[node], to = {.number = number, .round = g->round + 1};
    ask[ask[0].number != 0] = to;
    uint64_t now = timers_now(&s->timers), next = g->round_at + DD_ROUND_MS * 1000000ull;
    if (now >= next)
        grants_round(s);
    else if (!g->next_round.pos)
        timer_after(&s->timers, &g->next_round, next - now);
}

void grants_answered(struct supervisor *s, uint32_t node, uint32_t round) {
    struct grants *g = s->grants;
    if (!g || !control_decides(s) || round > g->round || round <= g->answered[node])
        return;
    g->answered[node] = round;
    reached_check(s);
}

/* What was answered before was asked in an older term. */
void grants_decide(struct supervisor *s) {
    struct grants *g = s->grants;
    if (!g)
        return;
    g->reached = ++g->round;
    memset(g->answered, 0, s->nodes * sizeof *g->answered);
    memset(g->asks, 0, s->nodes * sizeof *g->asks);
    g->round_at = 0;
}

int grants_init(struct supervisor *s) {
    if (!survives_nodes(s) || (s->node_id == 0 && s->nodes < 3))
        return 0;
    struct grants *g = s->grants = calloc(1, sizeof *g);
    if (!g)
        return -ENOMEM;
    g->s = s;
    g->over.fd = -1;
    g->next_round.fire = round_fire;
    g->answered = calloc(s->nodes, sizeof *g->answered);
    g->asks = calloc(s->nodes, sizeof *g->asks);
    if (!g->answered || !g->asks)
        return -ENOMEM;
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

bool grants_valid(const struct supervisor *s) {
    return !s->grants || boot_ns() < s->grants->lease;
}

void grants_heard(struct supervisor *s, uint32_t number) {
    struct grants *g = s->grants;
    if (!g || number == 0 || number > g->number || g->number - number >= GRANT_BEATS)
        return;
    lease_from(s, g->sent[number % GRANT_BEATS]);
}

void grants_ready(struct supervisor *s) {
    if (!s->grants)
        return;
    if (control_decides(s)) /* nobody looks for another before it has heard READY of us */
        s->grants->lease = boot_ns() + DD_LEASE_MS * 1000000ull;
    pages_set(s);
    over_at(s->grants, s->grants->lease);
}

void grants_end(struct supervisor *s) {
    struct grants *g = s->grants;
    if (!g)
        return;
    timer_clear(&s->timers, &g->next_round);
    if (g->over.fd >= 0)
        close(g->over.fd);
    free(g->answered);
    free(g->asks);
    free(g);
    s->grants = NULL;
}
