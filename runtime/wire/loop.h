/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h - handlers of the descriptors in an epoll set. The loop itself is epoll_wait() and one
 * call. */
#ifndef DDICT_WIRE_LOOP_H
#define DDICT_WIRE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct io_handler {
    int fd;
    void (*ready)(struct io_handler *h, uint32_t events);
};

int io_add(int epoll_fd, struct io_handler *h, uint32_t events);
int io_change(int epoll_fd, struct io_handler *h, uint32_t events);
void io_remove(int epoll_fd, struct io_handler *h);
/* Wait at most timeout_ms (0: not at all), and call the handlers of ready descriptors. A handler
 * may remove and free others: a removed handler is not called any more. Returns the number of
 * events, or a negative code. */
int io_wait(int epoll_fd, int timeout_ms);

/* CLOCK_MONOTONIC at which the last io_wait() of this thread stopped waiting and began to call
 * handlers; unchanged by one with timeout_ms 0. */
uint64_t io_woke(void);

/*
 * Work that is deferred to the next io_wait() of this thread; it runs before the wait, and once
 * more after the handlers. Connections gather their output that way. Embedded in its owner, all
 * zero at first. Deferring it twice is deferring it once. A forked child has none.
 */
struct io_deferred {
    struct io_deferred *next, *prev; /* list of this thread; both NULL: not deferred */
    void (*run)(struct io_deferred *d);
};
void io_defer(struct io_deferred *d);
void io_undefer(struct io_deferred *d);

/*
 * Work that epoll alone does not report. look() is called before every wait of this thread. It does
 * what is to be done, lowers *timeout_ms (-1: no limit) to the time after which it must be called
 * again, and returns whether it did anything, which counts as an event. It may neither add nor
 * remove watchers. A forked child has none.
 */
struct io_watcher {
    struct io_watcher *next; /* list of this thread */
    bool (*look)(struct io_watcher *w, int *timeout_ms);
};
void io_watch(struct io_watcher *w);
void io_unwatch(struct io_watcher *w);

#endif
