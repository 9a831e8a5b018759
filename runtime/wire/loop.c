/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c - one round of an epoll loop, and the work that is deferred to its beginning and end. */
#include "loop.h"

#include <base/clock.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>

#define BATCH 64 /* events of one round */

static __thread struct epoll_event batch[BATCH]; /* of the current round of this thread */
static __thread int batch_len;
static __thread uint64_t woke;
static __thread struct io_deferred *first, *last;
static __thread unsigned waiting;
static __thread struct io_watcher *watchers;

static int epoll_control(int epoll_fd, int op, struct io_handler *h, uint32_t events) {
    struct epoll_event ev = {.events = events, .data.ptr = h};
    return epoll_ctl(epoll_fd, op, h->fd, &ev) == 0 ? 0 : -errno;
}

int io_add(int epoll_fd, struct io_handler *h, uint32_t events) {
    return epoll_control(epoll_fd, EPOLL_CTL_ADD, h, events);
}

int io_change(int epoll_fd, struct io_handler *h, uint32_t events) {
    return epoll_control(epoll_fd, EPOLL_CTL_MOD, h, events);
}

void io_remove(int epoll_fd, struct io_handler *h) {
    epoll_control(epoll_fd, EPOLL_CTL_DEL, h, 0);
    for (int i = 0; i < batch_len; i++)
        if (batch[i].data.ptr == h)
            batch[i].data.ptr = NULL;
}

static void forget_deferred(void) {
    first = last = NULL; /* they belong to the parent */
    waiting = 0;
    batch_len = 0;
    watchers = NULL;
}

static void watch_fork(void) {
    pthread_atfork(NULL, NULL, forget_deferred);
}

static bool deferred_is_queued(const struct io_deferred *d) {
    return d->next || d->prev || first == d;
}

static void watch_fork_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_fork);
}

void io_watch(struct io_watcher *w) {
    watch_fork_once();
    w->next = watchers;
    watchers = w;
}

void io_unwatch(struct io_watcher *w) {
    for (struct io_watcher **at = &watchers; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            return;
        }
}

void io_defer(struct io_deferred *d) {
    watch_fork_once();
    if (deferred_is_queued(d))
        return;
    d->prev = last;
    d->next = NULL;
    if (last)
        last->next = d;
    else
        first = d;
    last = d;
    waiting++;
}

void io_undefer(struct io_deferred *d) {
    if (!deferred_is_queued(d))
        return;
    if (d->prev)
        d->prev->next = d->next;
    else
        first = d->next;
    if (d->next)
        d->next->prev = d->prev;
    else
        last = d->prev;
    d->next = d->prev = NULL;
    waiting--;
}

/* Run what is deferred now; work that is deferred meanwhile waits for the next time. */
static void run_deferred(void) {
    for (unsigned n = waiting; n > 0 && first; n--) {
        struct io_deferred *d = first;
        io_undefer(d);
        d->run(d); /* may free d and others */
    }
}

uint64_t io_woke(void) {
    return woke;
}

int io_wait(int epoll_fd, int timeout_ms) {
    run_deferred();
    int looked = 0;
    if (first)
        timeout_ms = 0;
    for (struct io_watcher *w = watchers; w; w = w->next)
        looked |= w->look(w, &timeout_ms);
    int n = epoll_wait(epoll_fd, batch, BATCH, first || looked ? 0 : timeout_ms);
    if (timeout_ms != 0)
        woke = clock_ns();
    if (n < 0)
        return errno == EINTR ? looked : -errno;
    batch_len = n;
    for (int i = 0; i < batch_len; i++) {
        struct io_handler *h = batch[i].data.ptr;
        if (h)
            h->ready(h, batch[i].events);
    }
    batch_len = 0;
    run_deferred();
    return n + looked;
}
