/* SPDX-License-Identifier: Apache-2.0 */
/* wire_loop.c - one round of the loop: a handler that was removed is not called any more, deferred
 * work runs once and before the wait. */
#include "wire_test.h"
#include <base/clock.h>
#include <wire/loop.h>

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

struct counted {
    struct io_handler io;
    int calls;
    struct counted *victim; /* removed and freed at the first call */
};
static int ep;
static void counted_ready(struct io_handler *h, uint32_t events) {
    struct counted *c = (struct counted *)h;
    c->calls++;
    if (c->victim) {
        io_remove(ep, &c->victim->io);
        close(c->victim->io.fd);
        free(c->victim);
        c->victim = NULL;
    }
}
static struct counted *counted_new(void) {
    struct counted *c = calloc(1, sizeof *c);
    c->io =
        (struct io_handler){.fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK), .ready = counted_ready};
    ck_assert_int_eq(io_add(ep, &c->io, EPOLLIN), 0);
    return c;
}
static void counted_free(struct counted *c) {
    io_remove(ep, &c->io);
    close(c->io.fd);
    free(c);
}
static void setup(void) {
    fds_count();
    ep = epoll_create1(EPOLL_CLOEXEC);
}
static void teardown(void) {
    close(ep);
    fds_check();
}

START_TEST(ready_handlers_are_called_and_counted) {
    struct counted *a = counted_new(), *b = counted_new();
    ck_assert_int_eq(io_wait(ep, 1000), 2);
    ck_assert_int_eq(a->calls + b->calls, 2);
    ck_assert_int_eq(io_change(ep, &b->io, 0), 0);
    ck_assert_int_eq(io_wait(ep, 1000), 1);
    ck_assert_int_eq(b->calls, 1);
    counted_free(a);
    counted_free(b);
    ck_assert_int_eq(io_wait(ep, 0), 0);
    ck_assert_int_eq(io_wait(-1, 0), -EBADF);
}
END_TEST

/* Whichever comes first in the batch frees the other. */
START_TEST(a_handler_that_was_freed_in_the_same_round_is_not_called) {
    for (int swap = 0; swap < 2; swap++) {
        struct counted *a = counted_new(), *b = counted_new(), *killer = swap ? b : a;
        killer->victim = swap ? a : b;
        io_wait(ep, 1000);
        ck_assert_int_eq(killer->calls, 1);
        ck_assert_ptr_null(killer->victim);
        counted_free(killer);
    }
}
END_TEST

struct work {
    struct io_deferred d;
    int runs;
    bool again;
    struct work *cancel;
};
static void work_run(struct io_deferred *d) {
    struct work *w = (struct work *)d;
    w->runs++;
    if (w->again)
        io_defer(&w->d);
    if (w->cancel)
        io_undefer(&w->cancel->d);
}

START_TEST(deferred_work_runs_once_before_the_wait) {
    struct work w = {.d.run = work_run}, x = {.d.run = work_run}, y = {.d.run = work_run};
    io_defer(&w.d);
    io_defer(&w.d);
    io_defer(&x.d);
    io_defer(&y.d);
    io_undefer(&x.d);
    io_undefer(&x.d);
    ck_assert_int_eq(io_wait(ep, 0), 0);
    ck_assert_int_eq(w.runs, 1);
    ck_assert_int_eq(x.runs, 0);
    ck_assert_int_eq(y.runs, 1);
    io_wait(ep, 0);
    ck_assert_int_eq(w.runs, 1);
    struct work z = {.d.run = work_run, .cancel = &w}; /* earlier work takes later work back */
    io_defer(&z.d);
    io_defer(&w.d);
    io_wait(ep, 0);
    ck_assert_int_eq(w.runs, 1);
}
END_TEST

START_TEST(work_that_defers_itself_neither_blocks_nor_starves_the_loop) {
    struct work w = {.d.run = work_run, .again = true};
    io_defer(&w.d);
    uint64_t t = clock_ms();
    io_wait(ep, WAIT_MS);
    ck_assert_uint_lt(clock_ms() - t, WAIT_MS / 2);
    ck_assert_int_eq(w.runs, 2); /* before and after the handlers */
    io_undefer(&w.d);
}
END_TEST

START_TEST(a_forked_child_does_not_run_the_work_of_its_parent) {
    struct work w = {.d.run = work_run};
    int status;
    io_defer(&w.d);
    pid_t pid = fork();
    if (pid == 0) {
        int own = epoll_create1(EPOLL_CLOEXEC);
        io_wait(own, 0);
        _exit(w.runs);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    io_wait(ep, 0);
    ck_assert_int_eq(w.runs, 1);
}
END_TEST

int main(void) {
    Suite *s = suite_create("wire_loop");
    TCase *c = tcase_create("loop");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, ready_handlers_are_called_and_counted);
    tcase_add_test(c, a_handler_that_was_freed_in_the_same_round_is_not_called);
    tcase_add_test(c, deferred_work_runs_once_before_the_wait);
    tcase_add_test(c, work_that_defers_itself_neither_blocks_nor_starves_the_loop);
    tcase_add_test(c, a_forked_child_does_not_run_the_work_of_its_parent);
    suite_add_tcase(s, c);
    return wire_main(s);
}
