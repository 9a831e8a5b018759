/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.c - the set of jobs that a program holds: who is inside, what is over, what time it is. jobs.h has the rules. */
#include "jobs.h"

#include "ask.h"
#include "lease.h"
#include "port_inside.h"
#include <base/spin.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define TICK_NS                 \
    (10ull * DD_WAIT_SLICE_MS * \
     1000000u)  /* while jobs are under way the board is looked at so often */
#define ENDS 32 /* jobs ended at a time */

enum { ON_EVENT, ON_BELL_FD, ON_TIMER, ON_SOCKET };

/* --- under jobs.lock --- */

static void event_clear(struct ddict_jobs *q) {
    eventfd_t n;
    if (q->signalled && eventfd_read(q->event_fd, &n) == 0)
        q->signalled = false;
}

static void event_set(struct ddict_jobs *q) {
    if (!q->signalled && eventfd_write(q->event_fd, 1) == 0)
        q->signalled = true;
}

static uint64_t jobs_now(struct ddict_jobs *q) {
    uint64_t now = clock_ns(), gap = now - q->looked_ns;
    if (q->under_way > 0 && gap > DD_SUSPEND_GAP_MS * 1000000ull)
        q->shift_ns += gap; /* stopped, or nobody polled: answers may be there */
    q->looked_ns = now;
    return now - q->shift_ns;
}

static bool table_grow(struct ddict_jobs *q) {
    uint32_t cap = q->cap ? 2 * q->cap : 64;
    struct job **job = realloc(q->job, cap * sizeof *job);
    if (job != NULL)
        q->job = job;
    uint32_t *unused = realloc(q->unused, cap * sizeof *unused);
    if (unused != NULL)
        q->unused = unused;
    if (job == NULL || unused == NULL)
        return false;
    for (uint32_t i = cap; i-- > q->cap;) {
        q->job[i] = NULL;
        q->unused[q->unused_n++] = i;
    }
    q->cap = cap;
    return true;
}

bool jobs_add(struct ddict_jobs *q, struct job *j) {
    pthread_mutex_lock(&q->lock);
    bool ok = q->unused_n > 0 || table_grow(q);
    if (ok) {
        uint32_t i = q->unused[--q->unused_n];
        q->job[i] = j;
        if (++q->tickets == 0)
            q->tickets = 1;
        j->pub.ticket = (uint64_t)q->tickets << 32 | i;
        j->at_ns = jobs_now(q) + (uint64_t)j->timeout_ms * 1000000u;
        if (q->under_way == 0 || j->at_ns < q->earliest_ns)
            q->earliest_ns = j->at_ns;
        q->under_way++;
        q->len++;
    }
    pthread_mutex_unlock(&q->lock);
    return ok;
}

void jobs_done(struct ddict_jobs *q, struct job *j) {
    pthread_mutex_lock(&q->lock);
    j->done = true;
    j->next = NULL;
    __atomic_store_n(q->done_end, j, __ATOMIC_RELAXED); /* who spins looks at the first */
    q->done_end = &j->next;
    q->under_way--;
    if (q->awake == 0)
        event_set(q); /* Q2 */
    pthread_mutex_unlock(&q->lock);
}

/* --- who is inside --- */

int jobs_enter(struct ddict_jobs *q, struct session **s) {
    if (q->generation != __atomic_load_n(&fork_generation, __ATOMIC_RELAXED))
        return dd_error(-ECANCELED, "this set is of the parent process");
    pthread_mutex_lock(&q->lock);
    while (q->shut) /* it is short, and what is over then is complete */
        pthread_cond_wait(&q->quiet, &q->lock);
    *s = q->session;
    q->users++;
    q->awake++;
    pthread_mutex_unlock(&q->lock);
    return 0;
}

void jobs_leave(struct ddict_jobs *q) {
    pthread_mutex_lock(&q->lock);
    if (--q->awake == 0 && q->done != NULL)
        event_set(q);
    if (--q->users == 0 && q->shut)
        pthread_cond_broadcast(&q->quiet);
    pthread_mutex_unlock(&q->lock);
}

/* --- the end of jobs that are not answered --- */

void jobs_arm(struct ddict_jobs *q) {
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

/* Tickets of jobs that are to be ended, from number *from on: all of them, or those of the time `now` and of broken lanes. */
static unsigned ends_find(struct ddict_jobs *q, bool all, uint64_t now, uint32_t *from,
                          uint64_t *ticket) {
    unsigned n = 0;
    if (*from == 0)
        q->earliest_ns = UINT64_MAX;
    for (; *from < q->cap && n < ENDS; ++*from) {
        struct job *j = q->job[*from];
        if (j == NULL || j->done)
            continue;
        /* Of a key that is waited for the manager is the judge. */
        uint64_t at = j->at_ns + (j->waits && j->counted ? ANSWER_GRACE_MS * 1000000ull : 0);
        if (all || at <= now || j->m->port.broken != 0)
            ticket[n++] = j->pub.ticket;
        else if (at < q->earliest_ns)
            q->earliest_ns = at;
    }
    return n;
}

static void jobs_stop(struct ddict_jobs *q, bool all, int code, const char *text) {
    uint64_t ticket[ENDS];
    uint32_t from = 0;
    unsigned n;
    do {
        pthread_mutex_lock(&q->lock);
        n = ends_find(q, all, jobs_now(q), &from, ticket);
        pthread_mutex_unlock(&q->lock);
        for (unsigned i = 0; i < n; i++)
            job_end(q, ticket[i], code, text);
    } while (n == ENDS);
}

static void jobs_check(struct ddict_jobs *q, struct session *s, bool tick) {
    int rc = tick ? session_check(s) : 0;
    if (rc < 0)
        jobs_stop(q, true, rc, dd_errmsg());
    pthread_mutex_lock(&q->lock);
    bool late = tick || (q->under_way > 0 && jobs_now(q) >= q->earliest_ns);
    pthread_mutex_unlock(&q->lock);
    if (late)
        jobs_stop(q, false, -ETIMEDOUT, "no answer in time");
}

/* --- polling --- */

static void turn(struct ddict_jobs *q, struct session *s) {
    struct epoll_event e[4];
    bool bell = false, tick = false;
    eventfd_t value;
    uint64_t times;
    int n = epoll_wait(q->epoll_fd, e, 4, 0);
    for (int i = 0; i < n; i++) {
        if (e[i].data.u32 == ON_BELL_FD) {
            bell |= eventfd_read(s->bell, &value) == 0;
        } else if (e[i].data.u32 == ON_TIMER) {
            tick = true;
            pthread_mutex_lock(&q->lock);
            q->armed_ns = 0;
            pthread_mutex_unlock(&q->lock);
            if (read(q->timer_fd, &times, sizeof times) < 0)
                tick = true; /* another thread was here before */
        } else if (e[i].data.u32 == ON_SOCKET) {
            tick = true;
            epoll_ctl(q->epoll_fd, EPOLL_CTL_DEL, s->sock, NULL); /* it stays so */
        }
    }
    ports_turn(s, bell);
    jobs_check(q, s, tick);
}

/* Asked for a key, and told that its time is over, which it is not: we were stopped meanwhile. Ask again. */
static bool job_again(struct ddict_jobs *q, struct session *s, struct job *j, uint64_t now) {
    if (!j->waits || j->r.status != -ETIMEDOUT || !request_was_late(&j->r) || s == NULL ||
        now >= j->at_ns)
        return false;
    request_drop(&j->r);
    request_again(&j->r);
    j->out.begun = false;
    j->out.sent = 0;
    j->out.head.aux = (j->at_ns - now) / 1000u + 1;
    pthread_mutex_lock(&q->lock);
    j->done = false;
    q->under_way++;
    if (j->at_ns < q->earliest_ns)
        q->earliest_ns = j->at_ns;
    pthread_mutex_unlock(&q->lock);
    uint64_t ticket;
    job_send(j, &ticket);
    return true;
}

static void job_forget(struct ddict_jobs *q, struct job *j) {
    pthread_mutex_lock(&q->lock);
    uint32_t i = (uint32_t)j->pub.ticket;
    q->job[i] = NULL;
    q->unused[q->unused_n++] = i;
    q->len--;
    pthread_mutex_unlock(&q->lock);
    free(j);
}

/* Up to n of those that are over, a chain, and the set's time. */
static struct job *done_take(struct ddict_jobs *q, size_t n, uint64_t *now) {
    pthread_mutex_lock(&q->lock);
    struct job *first = q->done, **at = &first;
    for (; n > 0 && *at != NULL; n--)
        at = &(*at)->next;
    struct job *rest = *at;
    *at = NULL;
    __atomic_store_n(&q->done, rest, __ATOMIC_RELAXED);
    if (rest == NULL) {
        q->done_end = &q->done;
        if (!q->shut)
            event_clear(q);
    }
    *now = jobs_now(q);
    pthread_mutex_unlock(&q->lock);
    return first;
}

static size_t take(struct ddict_jobs *q, struct session *s, struct ddict_job *done, size_t n) {
    size_t got = 0;
    uint64_t now;
    bool placed = false, again = false;
    for (struct job *j = done_take(q, n, &now), *next; j != NULL; j = next) {
        next = j->next;
        if (!j->finished && job_again(q, s, j, now)) {
            again = true;
            continue;
        }
        if (!j->finished)
            job_finish(s, j);
        placed |= j->pub.view.kind_ == 1;
        done[got++] = j->pub;
        job_forget(q, j);
    }
    if (again)
        ports_turn(s, false);
    if (placed) {
        __atomic_thread_fence(
            __ATOMIC_SEQ_CST); /* the leases may be another thread's work; see fork_gate() */
        fork_gate();
    }
    return got;
}

/* Something to look at, soon? */
static bool jobs_spin(struct ddict_jobs *q, struct session *s) {
    uint64_t end = 0;
    for (unsigned i = 1; spin_cores() > 1; i++) {
        for (unsigned k = 0; k < s->nlocal; k++)
            if (__atomic_load_n(&s->local[k].port.jobs, __ATOMIC_RELAXED) > 0 &&
                port_ready(&s->local[k].port))
                return true;
        if (__atomic_load_n(&q->done, __ATOMIC_RELAXED) != NULL || !wait_turn(i, &end))
            break;
    }
    return false;
}

/* Asleep until there is something to do, at most ms. */
static void jobs_sleep(struct ddict_jobs *q, int ms) {
    struct pollfd p = {.fd = q->epoll_fd, .events = POLLIN};
    pthread_mutex_lock(&q->lock);
    bool sleeps = q->done == NULL && !q->shut;
    q->awake -= sleeps;
    pthread_mutex_unlock(&q->lock);
    if (!sleeps)
        return;
    poll(&p, 1, ms);
    pthread_mutex_lock(&q->lock);
    q->awake++;
    pthread_mutex_unlock(&q->lock);
}

static bool jobs_idle(struct ddict_jobs *q) {
    pthread_mutex_lock(&q->lock);
    bool idle = (q->under_way == 0 && q->done == NULL) || q->shut;
    pthread_mutex_unlock(&q->lock);
    return idle;
}

ssize_t ddict_poll(ddict_jobs_t *q, struct ddict_job *done, size_t n, int timeout_ms) {
    struct session *s;
    struct deadline d;
    size_t got = 0;
    int rc = jobs_enter(q, &s), left;
    if (rc < 0)
        return rc;
    bool started = false;
    while (n > 0) {
        if (s != NULL)
            turn(q, s);
        got = take(q, s, done, n);
        if (got > 0 || timeout_ms == 0 || s == NULL || jobs_idle(q))
            break;
        if (!started)
            deadline_start(&d, timeout_ms < 0 ? s->timeout_ms : timeout_ms);
        if (!started && (started = true) && jobs_spin(q, s))
            continue;
        if ((left = deadline_left(&d, -1)) == 0)
            break;
        jobs_arm(q);
        jobs_sleep(q, left);
    }
    if (s != NULL)
        jobs_arm(q);
    jobs_leave(q);
    return (ssize_t)got;
}

int ddict_cancel(ddict_jobs_t *q, uint64_t ticket) {
    struct session *s;
    int rc = jobs_enter(q, &s);
    if (rc < 0)
        return rc;
    rc = s != NULL && job_end(q, ticket, -ECANCELED, "it was cancelled") ? 0 : -ENOENT;
    jobs_leave(q);
    return rc < 0 ? dd_error(rc, "no job under way has this ticket") : 0;
}

int ddict_jobs_fd(ddict_jobs_t *q) {
    return q->epoll_fd;
}

size_t ddict_jobs_len(ddict_jobs_t *q) {
    pthread_mutex_lock(&q->lock);
    size_t n = q->len;
    pthread_mutex_unlock(&q->lock);
    return n;
}

/* --- life --- */

static int watch(struct ddict_jobs *q, int fd, uint32_t events, uint32_t what) {
    struct epoll_event e = {.events = events, .data.u32 = what};
    return epoll_ctl(q->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0 ? 0 : -errno;
}

static void jobs_free(struct ddict_jobs *q) {
    int fds[] = {q->epoll_fd, q->event_fd, q->timer_fd};
    for (unsigned i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(q->job);
    free(q->unused);
    free(q);
}

int ddict_jobs_open(ddict_t *d, ddict_jobs_t **out) {
    struct session *s;
    *out = NULL;
    int rc = session_enter(d, &s, -1);
    if (rc < 0)
        return rc;
    struct ddict_jobs *q = calloc(1, sizeof *q);
    if (q == NULL)
        return dd_error(-ENOMEM, "no memory for a set");
    q->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    q->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    q->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    rc = q->epoll_fd < 0 || q->event_fd < 0 || q->timer_fd < 0 ? -errno : 0;
    if (rc == 0 && ((rc = watch(q, q->event_fd, EPOLLIN, ON_EVENT)) < 0 ||
                    (rc = watch(q, s->bell, EPOLLIN, ON_BELL_FD)) < 0 ||
                    (rc = watch(q, q->timer_fd, EPOLLIN, ON_TIMER)) < 0 ||
                    (rc = watch(q, s->sock, EPOLLRDHUP, ON_SOCKET)) < 0)) {
    }
    if (rc < 0) {
        jobs_free(q);
        return dd_error(rc, "no descriptors for a set: %s", dd_strerror(rc));
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
    q->next = d->jobs;
    d->jobs = q;
    pthread_mutex_unlock(&registry_lock);
    *out = q;
    return 0;
}

static void done_finish(struct ddict_jobs *q, struct session *s) {
    for (struct job *j = q->done; j != NULL; j = j->next)
        if (!j->finished)
            job_finish(s, j);
}

/* Out of its session: what is under way ends. */
static void jobs_shut(struct ddict_jobs *q) {
    pthread_mutex_lock(&q->lock);
    struct session *s = q->session;
    q->shut = true;
    event_set(q);
    while (q->users > 0)
        pthread_cond_wait(&q->quiet, &q->lock);
    pthread_mutex_unlock(&q->lock);
    if (s == NULL)
        return;
    jobs_stop(q, true, -ECANCELED, "the handle was detached");
    done_finish(q, s);
    epoll_ctl(q->epoll_fd, EPOLL_CTL_DEL, s->bell,
              NULL); /* other processes have it, too: it does not leave by itself */
    epoll_ctl(q->epoll_fd, EPOLL_CTL_DEL, s->sock, NULL);
    epoll_ctl(q->epoll_fd, EPOLL_CTL_DEL, q->timer_fd, NULL);
    pthread_mutex_lock(&q->lock);
    q->session = NULL;
    q->shut = false;
    if (q->done == NULL)
        event_clear(q);
    pthread_cond_broadcast(&q->quiet);
    pthread_mutex_unlock(&q->lock);
}

void jobs_detach(ddict_t *d) {
    for (;;) {
        pthread_mutex_lock(&registry_lock);
        struct ddict_jobs *q = d->jobs;
        if (q != NULL) {
            d->jobs = q->next;
            q->d = NULL;
        }
        pthread_mutex_unlock(&registry_lock);
        if (q == NULL)
            return;
        jobs_shut(q);
    }
}

void ddict_jobs_close(ddict_jobs_t *q) {
    if (q == NULL)
        return;
    if (q->generation != fork_generation) { /* its memory is as the fork found it */
        q->job = NULL;
        q->unused = NULL;
        jobs_free(q);
        return;
    }
    pthread_mutex_lock(&registry_lock);
    if (q->d != NULL) {
        struct ddict_jobs **at = &q->d->jobs;
        while (*at != q)
            at = &(*at)->next;
        *at = q->next;
    }
    pthread_mutex_unlock(&registry_lock);
    jobs_shut(q);
    for (struct job *j; (j = q->done) != NULL;) {
        q->done = j->next;
        ddict_release(&j->pub.view);
        free(j->pub.text);
        free(j);
    }
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->quiet);
    jobs_free(q);
}
