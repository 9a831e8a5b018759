/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager.h - what the fuzz targets of a primary and of its backup share: a clock that the input
 * moves, no log, and the other end of a connection, which sends what it likes. They are linked with
 * --wrap=clock_ns and --wrap=log_line.
 */
#ifndef DDICT_TESTS_FUZZ_MANAGER_H
#define DDICT_TESTS_FUZZ_MANAGER_H

#include "address.h"
#include "conn_buffers.h"
#include "fuzz.h"
#include <base/clock.h>
#include <manager/lanes.h>
#include <manager/main_loop.h>
#include <manager/supmsg.h>
#include <wire/conn.h>

#include <errno.h>
#include <sys/socket.h>

/* --- time: it passes with each look, and where the input says so --- */
static uint64_t fuzz_clock = 1000000000000ull;

uint64_t __wrap_clock_ns(void);
uint64_t __wrap_clock_ns(void) {
    return fuzz_clock += 1000;
}

void __wrap_log_line(int level, const char *fmt, ...);
void __wrap_log_line(int level, const char *fmt, ...) { /* each connection that ends is said */
}

static void turn(struct manager *m, int supervisor_fd) {
    char told[sizeof(struct sup_msg)];
    m->now = clock_ns();
    share_begin(m);
    lanes_turn(m);
    io_wait(m->epoll_fd, 0);
    manager_work(m);
    while (recv(supervisor_fd, told, sizeof told, MSG_DONTWAIT) > 0)
        continue;
    fuzz_must(!m->stopping);
}

/* --- the other end --- */
struct end {
    struct conn *c;
    struct conn_identity me;
    struct msg last; /* message */
    uint64_t messages;
    bool up, down;
};

static void end_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    ((struct end *)arg)->up = true;
}

static void end_down(struct conn *c, void *arg, int code) {
    struct end *e = arg;
    e->down = true;
    e->up = false;
    conn_free(c);
    e->c = NULL;
}

/* As many bytes as there is room for, and what is behind that when it was read; false: the end. */
static inline bool end_write(struct end *e, const void *bytes, size_t n, void (*read)(void)) {
    const uint8_t *at = bytes;
    for (unsigned idle = 0; n > 0 && e->c && e->up && idle < 64;) {
        ssize_t k = send(conn_fd(e->c), at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k > 0) {
            at += k;
            n -= (size_t)k;
            continue;
        }
        idle++;
        read();
    }
    return n == 0;
}

static inline uint64_t fuzz_number(struct fuzz_input *in, unsigned bytes) {
    uint64_t n = 0;
    fuzz_copy(in, &n, bytes);
    return n;
}

#endif
