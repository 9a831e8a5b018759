/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h - what every descriptor in an epoll set points at. The loop itself is epoll_wait and one
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
/* Wait at most timeout_ms (0: only look) and call the handlers of what is ready. Handlers may
 * remove and free other handlers: the batch is small and a removed handler of the same batch is
 * skipped. Returns the number of events or a negative code. */
int io_wait(int epoll_fd, int timeout_ms);

/* When the last io_wait() of this thread was over with waiting and began with handlers; of one that
 * was to look only (timeout_ms 0) it is not told. */
uint64_t io_woke(void);

/*
 * Work that is put off to the next io_wait() of this thread, before it waits and once more after
 * the handlers: connections gather their output so. Embedded in its owner, all zero at first.
 * Deferred twice is deferred once. A forked child has none.
 */
struct io_deferred {
    struct io_deferred *next, *prev; /* the list of this thread; both NULL: not in it */
    void (*run)(struct io_deferred *d);
};
void io_defer(struct io_deferred *d);
void io_undefer(struct io_deferred *d);

/*
 * What has work that epoll alone does not show. look() is asked before every wait of this thread:
 * it does what there is to do, lowers *timeout_ms (-1: no limit) to how long may be waited without
 * asking it again, and returns whether it did anything, which counts as an event. It may neither
 * add nor remove watchers. A forked child has none.
 */
struct io_watcher {
    struct io_watcher *next; /* of this thread */
    bool (*look)(struct io_watcher *w, int *timeout_ms);
};
void io_watch(struct io_watcher *w);
void io_unwatch(struct io_watcher *w);

#endif
