/* SPDX-License-Identifier: Apache-2.0 */
/* async.c - a set of asynchronous operations: the threads inside, ops that are done, the set's
 * clock. async.h has the rules. */
#include "async.h"

#include "client_lane_inside.h"
#include "lease.h"
#include "request.h"
#include <base/spin.h>
#include <base/vec.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* interval between checks of the status page while ops are under way */
#define TICK_NS (10ull * DD_WAIT_SLICE_MS * 1000000u)
#define END_MAX 32 /* ops ended in one round */

enum { ON_EVENT, ON_CLIENT_EVENTFD, ON_TIMER, ON_SOCKET };

/* --- under async.lock --- */

static void async_event_clear(struct ddict_async *q) {
    eventfd_t n;
    if (q->signalled && eventfd_read(q->event_fd, &n) == 0)
        q->signalled = false;
}

static void async_event_set(struct ddict_async *q) {
    if (!q->signalled && eventfd_write(q->event_fd, 1) == 0)
        q->signalled = true;
}

static uint64_t async_now(struct ddict_async *q) {
    uint64_t now = clock_ns(), gap = now - q->looked_ns;
    if (q->under_way > 0 && gap > DD_SUSPEND_GAP_MS * 1000000ull)
        /* the process was stopped, or nobody polled: answers may have arrived */
        q->shift_ns += gap;
    q->looked_ns = now;
    return now - q->shift_ns;
}

static bool async_grow(struct ddict_async *q) {
    size_t cap = q->cap, unused_cap = q->cap;
    if (cap > UINT32_MAX / 2 || VEC_ROOM(&q->op_table, &cap, cap + 1, 64) < 0 ||
        VEC_ROOM(&q->unused, &unused_cap, cap, 64) < 0)
        return false;
    for (uint32_t i = (uint32_t)cap; i-- > q->cap;) {
        q->op_table[i] = NULL;
        q->unused[q->unused_n++] = i;
    }
    q->cap = (uint32_t)cap;
    return true;
}

bool async_add(struct ddict_async *q, struct async_op *op) {
    pthread_mutex_lock(&q->lock);
    bool ok = q->unused_n > 0 || async_grow(q);
    if (ok) {
        uint32_t i = q->unused[--q->unused_n];
        q->op_table[i] = op;
        if (++q->tickets == 0)
            q->tickets = 1;
        op->pub.ticket = (uint64_t)q->tickets << 32 | i;
        op->at_ns = async_now(q) + (uint64_t)op->timeout_ms * 1000000u;
        if (q->under_way == 0 || op->at_ns < q->earliest_ns)
            q->earliest_ns = op->at_ns;
        q->under_way++;
        q->len++;
    }
    pthread_mutex_unlock(&q->lock);
    return ok;
}

void async_add_again(struct ddict_async *q, struct async_op *op) {
    pthread_mutex_lock(&q->lock);
    op->done = false;
    q->under_way++;
    if (op->at_ns < q->earliest_ns)
        q->earliest_ns = op->at_ns;
    pthread_mutex_unlock(&q->lock);
}

void async_add_done(struct ddict_async *q, struct async_op *op) {
    pthread_mutex_lock(&q->lock);
    op->done = true;
    op->next = NULL;
    /* spinning threads look at the first op without the lock */
    __atomic_store_n(q->done_end, op, __ATOMIC_RELAXED);
    q->done_end = &op->next;
    q->under_way--;
    if (q->awake == 0)
        async_event_set(q); /* Q2 */
    pthread_mutex_unlock(&q->lock);
}

/* --- threads inside a set --- */

int async_enter(struct ddict_async *q, struct session **s) {
    if (q->generation != __atomic_load_n(&fork_generation, __ATOMIC_RELAXED))
        return dd_error(-ECANCELED, "these asynchronous requests are of the parent process");
    pthread_mutex_lock(&q->lock);
    while (q->shut) /* detach is short, and completes all ops */
        pthread_cond_wait(&q->quiet, &q->lock);
    *s = q->session;
    q->users++;
    q->awake++;
    pthread_mutex_unlock(&q->lock);
    return 0;
}

void async_leave(struct ddict_async *q) {
    pthread_mutex_lock(&q->lock);
    if (--q->awake == 0 && q->done)
        async_event_set(q);
    if (--q->users == 0 && q->shut)
        pthread_cond_broadcast(&q->quiet);
    pthread_mutex_unlock(&q->lock);
}

/* --- ops whose time is over --- */

void async_arm_timer(struct ddict_async *q) {
    pthread_mutex_lock(&q->lock);
    uint64_t now = clock_ns(), at = now + TICK_NS;
    if (q->under_way > 0) {
        uint64_t ends = q->earliest_ns + q->shift_ns;
        if (ends < at)
            at = ends > now ? ends : now + 1;
        if (q->armed_ns == 0 || at < q->armed_ns) {
            struct itimerspec t = {.it_value = {.tv_sec = (time_t)(at / 1000000000u),
                                                .tv_nsec = (long)(at % 1000000000u)}};
            if (timerfd_settime(q->timer_fd, TFD_TIMER_ABSTIME, &t, NULL) == 0)
                q->armed_ns = at;
        }
    }
    pthread_mutex_unlock(&q->lock);
}

/* Collect tickets of ops to end, from number *from on: all of them, or those whose deadline is
 * before `now` or whose lane is broken. */
static unsigned async_find_ended(struct ddict_async *q, bool all, uint64_t now, uint32_t *from,
                                 uint64_t *ticket) {
    unsigned n = 0;
    if (*from == 0)
        q->earliest_ns = UINT64_MAX;
    for (; *from < q->cap && n < END_MAX; ++*from) {
        struct async_op *op = q->op_table[*from];
        if (!op || op->done)
            continue;
        /* If the op waits for its key, the manager ends it, so its answer gets some more time. */
        uint64_t at = op->at_ns + (op->waits && op->counted
                                       ? (uint64_t)answer_grace_ms(op->out.head.type) * 1000000u
                                       : 0);
        if (all || at <= now || op->m->lane.broken != 0)
            ticket[n++] = op->pub.ticket;
        else if (at < q->earliest_ns)
            q->earliest_ns = at;
    }
    return n;
}

static void async_end_ops(struct ddict_async *q, bool all, int code, const char *text) {
    uint64_t ticket[END_MAX];
    uint32_t from = 0;
    unsigned n;
    do {
        pthread_mutex_lock(&q->lock);
        n = async_find_ended(q, all, async_now(q), &from, ticket);
        pthread_mutex_unlock(&q->lock);
        for (unsigned i = 0; i < n; i++)
            async_op_end(q, ticket[i], code, text);
    } while (n == END_MAX);
}

static void async_check(struct ddict_async *q, struct session *s, bool tick) {
    int rc = tick ? session_check(s) : 0;
    if (rc < 0)
        async_end_ops(q, true, rc, dd_errmsg());
    pthread_mutex_lock(&q->lock);
    bool late = tick || (q->under_way > 0 && async_now(q) >= q->earliest_ns);
    pthread_mutex_unlock(&q->lock);
    if (late)
        async_end_ops(q, false, -ETIMEDOUT, "no answer in time");
}

/* --- polling --- */

static void async_turn(struct ddict_async *q, struct session *s) {
    struct epoll_event e[4];
    bool woken = false, tick = false;
    eventfd_t value;
    uint64_t times;
    int n = epoll_wait(q->epoll_fd, e, 4, 0);
    for (int i = 0; i < n; i++) {
        if (e[i].data.u32 == ON_CLIENT_EVENTFD) {
            woken |= eventfd_read(s->client_eventfd, &value) == 0;
        } else if (e[i].data.u32 == ON_TIMER) {
            tick = true;
            pthread_mutex_lock(&q->lock);
            q->armed_ns = 0;
            pthread_mutex_unlock(&q->lock);
            if (read(q->timer_fd, &times, sizeof times) < 0)
                tick = true; /* another thread has read it */
        } else if (e[i].data.u32 == ON_SOCKET) {
            tick = true;
            epoll_ctl(q->epoll_fd, EPOLL_CTL_DEL, s->sock, NULL); /* the hang-up is permanent */
        }
    }
    client_lanes_turn(s, woken);
    async_check(q, s, tick);
}

/* The op cannot be sent again: it fails with code. */
static bool async_op_fail(struct async_op *op, int code) {
    op->r.status = code;
    op->r.text = strdup(dd_errmsg());
    return false;
}

/*
 * Send the op again in three cases. It waits for a key, and the manager says that its time is over,
 * but our clock says not: we were stopped meanwhile. Or it pops a value that is longer than the
 * memory set aside; the value was not removed. Or it only reads, and has no answer (-ESTALE).
 */
static bool async_op_retry(struct ddict_async *q, struct session *s, struct async_op *op,
                           uint64_t now) {
    uint64_t len = 0;
    bool late = op->waits && op->r.status == -ETIMEDOUT && request_was_late(&op->r);
    bool small = async_op_refused(op, &len), stale = op->r.status == -ESTALE;
    if ((!late && !small && !stale) || !s)
        return false;
    if (now >= op->at_ns)
        return small && dd_error(-ETIMEDOUT, "no answer in time") < 0
                   ? async_op_fail(op, -ETIMEDOUT)
                   : false;
    request_drop(&op->r);
    if (small)
        op->r.room = 0;
    if (request_again(&op->r) < 0 || (small && request_pop(s, &op->r, &op->out, len) < 0))
        return async_op_fail(op, -ENOMEM);
    op->out.begun = false;
    op->out.sent = 0;
    if (op->waits)
        op->out.head.aux = (op->at_ns - now) / 1000u + 1;
    uint64_t ticket;
    async_op_send(op, &ticket);
    return true;
}

static void async_op_free(struct ddict_async *q, struct async_op *op) {
    pthread_mutex_lock(&q->lock);
    uint32_t i = (uint32_t)op->pub.ticket;
    q->op_table[i] = NULL;
    q->unused[q->unused_n++] = i;
    q->len--;
    pthread_mutex_unlock(&q->lock);
    free(op);
}

/* Take up to n done ops out of the set, as a list; *now is the set's time. */
static struct async_op *async_take_done(struct ddict_async *q, size_t n, uint64_t *now) {
    pthread_mutex_lock(&q->lock);
    struct async_op *first = q->done, **at = &first;
    for (; n > 0 && *at; n--)
        at = &(*at)->next;
    struct async_op *rest = *at;
    *at = NULL;
    __atomic_store_n(&q->done, rest, __ATOMIC_RELAXED);
    if (!rest) {
        q->done_end = &q->done;
        if (!q->shut)
            async_event_clear(q);
    }
    *now = async_now(q);
    pthread_mutex_unlock(&q->lock);
    return first;
}

static size_t async_take(struct ddict_async *q, struct session *s, struct ddict_op *done,
                         size_t n) {
    size_t got = 0;
    uint64_t now;
    bool placed = false, again = false;
    for (struct async_op *op = async_take_done(q, n, &now), *next; op; op = next) {
        next = op->next;
        if (!op->finished && async_op_retry(q, s, op, now)) {
            again = true;
            continue;
        }
        if (unlikely(op->leads))
            async_op_settle(op);
        if (!op->finished)
            async_op_finish(s, op);
        placed |= op->pub.view.kind_ == 1;
        done[got++] = op->pub;
        async_op_free(q, op);
    }
    if (again)
        client_lanes_turn(s, false);
    if (placed) {
        /* another thread may have stored the leases; see fork_gate() */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        fork_gate();
    }
    return got;
}

/* Spin until there is something to do. False: nothing came in time. */
static bool async_spin(struct ddict_async *q, struct session *s) {
    uint64_t end = 0;
    for (unsigned i = 1; spin_cores() > 1; i++) {
        for (unsigned k = 0; k < s->nlocal; k++)
            if (__atomic_load_n(&s->local[k].lane.ops, __ATOMIC_RELAXED) > 0 &&
                client_lane_has_records(&s->local[k].lane))
                return true;
        if (__atomic_load_n(&q->done, __ATOMIC_RELAXED) || !spin_turn(i, &end))
            break;
    }
    return false;
}

/* Sleep until there is something to do, at most ms. */
static void async_sleep(struct ddict_async *q, int ms) {
    struct pollfd p = {.fd = q->epoll_fd, .events = POLLIN};
    pthread_mutex_lock(&q->lock);
    bool sleeps = !q->done && !q->shut;
    q->awake -= sleeps;
    pthread_mutex_unlock(&q->lock);
    if (!sleeps)
        return;
    poll(&p, 1, ms);
    pthread_mutex_lock(&q->lock);
    q->awake++;
    pthread_mutex_unlock(&q->lock);
}

static bool async_is_idle(struct ddict_async *q) {
    pthread_mutex_lock(&q->lock);
    bool idle = (q->under_way == 0 && !q->done) || q->shut;
    pthread_mutex_unlock(&q->lock);
    return idle;
}

ssize_t ddict_async_poll(ddict_async_t *q, struct ddict_op *done, size_t n, int timeout_ms) {
    struct session *s;
    struct deadline d;
    size_t got = 0;
    int rc = async_enter(q, &s), left;
    if (rc < 0)
        return rc;
    bool started = false;
    while (n > 0) {
        if (s)
            async_turn(q, s);
        got = async_take(q, s, done, n);
        if (got > 0 || timeout_ms == 0 || !s || async_is_idle(q))
            break;
        if (!started)
            deadline_start(&d, timeout_ms < 0 ? s->timeout_ms : timeout_ms);
        if (!started && (started = true) && async_spin(q, s))
            continue;
        if ((left = deadline_left(&d, -1)) == 0)
            break;
        async_arm_timer(q);
        async_sleep(q, left);
    }
    if (s)
        async_arm_timer(q);
    async_leave(q);
    return (ssize_t)got;
}

int ddict_async_cancel(ddict_async_t *q, uint64_t ticket) {
    struct session *s;
    int rc = async_enter(q, &s);
    if (rc < 0)
        return rc;
    rc = s && async_op_end(q, ticket, -ECANCELED, "it was cancelled") ? 0 : -ENOENT;
    async_leave(q);
    return rc < 0 ? dd_error(rc, "no request under way has this ticket") : 0;
}

int ddict_async_fd(ddict_async_t *q) {
    return q->epoll_fd;
}

size_t ddict_async_len(ddict_async_t *q) {
    pthread_mutex_lock(&q->lock);
    size_t n = q->len;
    pthread_mutex_unlock(&q->lock);
    return n;
}

/* --- life --- */

static int async_watch(struct ddict_async *q, int fd, uint32_t events, uint32_t what) {
    struct epoll_event e = {.events = events, .data.u32 = what};
    return epoll_ctl(q->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0 ? 0 : -errno;
}

static void async_free(struct ddict_async *q) {
    int fds[] = {q->epoll_fd, q->event_fd, q->timer_fd};
    for (unsigned i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(q->op_table);
    free(q->unused);
    free(q);
}

int ddict_async_open(ddict_t *d, ddict_async_t **out) {
    struct session *s;
    *out = NULL;
    int rc = session_enter(d, &s, -1);
    if (rc < 0)
        return rc;
    struct ddict_async *q = calloc(1, sizeof *q);
    if (!q)
        return dd_error(-ENOMEM, "no memory for asynchronous requests");
    q->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    q->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    q->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    rc = q->epoll_fd < 0 || q->event_fd < 0 || q->timer_fd < 0 ? -errno : 0;
    if (rc == 0 && ((rc = async_watch(q, q->event_fd, EPOLLIN, ON_EVENT)) < 0 ||
                    (rc = async_watch(q, s->client_eventfd, EPOLLIN, ON_CLIENT_EVENTFD)) < 0 ||
                    (rc = async_watch(q, q->timer_fd, EPOLLIN, ON_TIMER)) < 0 ||
                    (rc = async_watch(q, s->sock, EPOLLRDHUP, ON_SOCKET)) < 0)) {
    }
    if (rc < 0) {
        async_free(q);
        return dd_error(rc, "no descriptors for asynchronous requests: %s", dd_strerror(rc));
    }
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->quiet, NULL);
    q->session = s;
    q->done_end = &q->done;
    q->looked_ns = clock_ns();
    q->earliest_ns = UINT64_MAX;
    pthread_mutex_lock(&registry_lock);
    q->generation = fork_generation;
    q->d = d;
    q->next = d->asyncs;
    d->asyncs = q;
    pthread_mutex_unlock(&registry_lock);
    *out = q;
    return 0;
}

static void async_finish_done(struct ddict_async *q, struct session *s) {
    for (struct async_op *op = q->done; op; op = op->next) {
        if (op->leads)
            async_op_settle(op);
        if (!op->finished)
            async_op_finish(s, op);
    }
}

/* Leave the session: ops under way end. */
static void async_shut(struct ddict_async *q) {
    pthread_mutex_lock(&q->lock);
    struct session *s = q->session;
    q->shut = true;
    async_event_set(q);
    while (q->users > 0)
        pthread_cond_wait(&q->quiet, &q->lock);
    pthread_mutex_unlock(&q->lock);
    if (!s)
        return;
    async_end_ops(q, true, -ECANCELED, "the handle was detached");
    async_finish_done(q, s);
    /* other processes hold the eventfd, too, so closing ours does not remove it */
    epoll_ctl(q->epoll_fd, EPOLL_CTL_DEL, s->client_eventfd, NULL);
    epoll_ctl(q->epoll_fd, EPOLL_CTL_DEL, s->sock, NULL);
    epoll_ctl(q->epoll_fd, EPOLL_CTL_DEL, q->timer_fd, NULL);
    pthread_mutex_lock(&q->lock);
    q->session = NULL;
    q->shut = false;
    if (!q->done)
        async_event_clear(q);
    pthread_cond_broadcast(&q->quiet);
    pthread_mutex_unlock(&q->lock);
}

void async_detach(ddict_t *d) {
    for (;;) {
        pthread_mutex_lock(&registry_lock);
        struct ddict_async *q = d->asyncs;
        if (q) {
            d->asyncs = q->next;
            q->d = NULL;
        }
        pthread_mutex_unlock(&registry_lock);
        if (!q)
            return;
        async_shut(q);
    }
}

void ddict_async_close(ddict_async_t *q) {
    if (!q)
        return;
    /* its memory may be inconsistent, as of the moment of the fork */
    if (q->generation != fork_generation) {
        q->op_table = NULL;
        q->unused = NULL;
        async_free(q);
        return;
    }
    pthread_mutex_lock(&registry_lock);
    if (q->d) {
        struct ddict_async **at = &q->d->asyncs;
        while (*at != q)
            at = &(*at)->next;
        *at = q->next;
    }
    pthread_mutex_unlock(&registry_lock);
    async_shut(q);
    for (struct async_op *op; (op = q->done);) {
        q->done = op->next;
        ddict_release(&op->pub.view);
        free(op->pub.text);
        free(op);
    }
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->quiet);
    async_free(q);
}
