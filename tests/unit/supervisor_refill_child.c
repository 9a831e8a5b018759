/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor_refill_child.c - the child that reads sets again: a script that stands for `ddict`. Whatever
 * it does, its end is told of once. */
#include "unit.h"
#include <base/clock.h>
#include <base/error.h>
#include <supervisor/refill_child.h>
#include <supervisor/results.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

static struct supervisor s;
static char script[64];
static struct refill_said got;
static unsigned ends;
static uint32_t of[4];

/* --- what it uses --- */
void program_find(char *path, size_t cap) {
    snprintf(path, cap, "%s", script);
}
static void child_ended(struct supervisor *sup, const uint32_t *owners, unsigned n,
                        const struct refill_said *said) {
    ends++;
    got = *said;
    memcpy(of, owners, n * sizeof *owners);
}

static void before(void) {
    memset(&s, 0, sizeof s);
    memset(&got, 0, sizeof got);
    ends = 0;
    s.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    strcpy(s.opt.name, "1000.7.job");
    strcpy(s.node, "n1");
    strcpy(script, "/tmp/ddict-refill-test.XXXXXX");
    close(mkstemp(script));
}
static void after(void) {
    refill_child_end(&s);
    unlink(script);
    close(s.epoll_fd);
}

static void script_is(const char *text) {
    FILE *f = fopen(script, "w");
    fprintf(f, "#!/bin/sh\n%s\n", text);
    fclose(f);
    chmod(script, 0700);
}

/* Turn the loop as ddictd does, until it is over. */
static void turns(void) {
    struct deadline d;
    deadline_start(&d, 20000);
    while (ends == 0 && !deadline_over(&d)) {
        struct epoll_event e;
        if (epoll_wait(s.epoll_fd, &e, 1, 10) == 1) {
            struct io_handler *h = e.data.ptr;
            h->ready(h, e.events);
        }
        refill_child_reap(&s);
    }
    ck_assert_uint_eq(ends, 1);
}

static void runs(const char *text) {
    static const uint32_t owners[] = {1, 3};
    script_is(text);
    ck_assert_int_eq(refill_child_begin(&s, owners, 2, child_ended), 0);
    turns();
    ck_assert_uint_eq(of[0], 1);
    ck_assert_uint_eq(of[1], 3);
    refill_child_reap(&s);
    ck_assert_uint_eq(ends, 1);
}

START_TEST(what_it_put_is_told) {
    setenv("DDICT_TIMEOUT", "3", 1);
    runs("[ \"$*\" = 'load --name 1000.7.job --refill 1,3' ] && [ $DDICT_NODE = n1 ] || exit 9\n"
         "[ -z \"${DDICT_TIMEOUT+x}\" ] || exit 8\n"
         "echo "
         "'{\"sets\":[{\"set\":\"a\",\"items\":3,\"bytes\":40,\"lost\":3},{\"set\":\"b\",\"items\":"
         "4,"
         "\"bytes\":2,\"lost\":4}],\"items\":7,\"bytes\":42,\"seconds\":0.5}'");
    ck_assert_str_eq(got.why, "");
    ck_assert(!got.failed);
    ck_assert_uint_eq(got.sets, 2);
    ck_assert_uint_eq(got.items, 7);
    ck_assert_str_eq(got.why, "");
}
END_TEST

START_TEST(a_set_that_failed_is_named) {
    runs("echo "
         "'{\"sets\":[{\"set\":\"a\",\"items\":3},{\"set\":\"b\",\"items\":0,\"error\":\"x.tar has "
         "changed\"},{\"set\":\"c\",\"error\":\"no\"}],\"items\":3,\"bytes\":40}'; exit 1");
    ck_assert(got.failed && got.again);
    ck_assert_uint_eq(got.items, 3);
    ck_assert_str_eq(got.why, "b: x.tar has changed");
}
END_TEST

START_TEST(no_other_try_helps_where_all_that_failed_is_final) {
    runs("echo '{\"sets\":[{\"set\":\"a\",\"error\":\"restored\",\"final\":true}]}'; exit 1");
    ck_assert(got.failed && !got.again);
}
END_TEST

START_TEST(whatever_goes_wrong_is_told) {
    static const struct {
        const char *text, *why;
    } all[] = {
        {"echo '{\"error\":\"no dictionary\",\"code\":-5}'; exit 1", "no dictionary"},
        {"exit 0", "`ddict load` ended with exit code 0"},
        {"exit 3", "`ddict load` ended with exit code 3"},
        {"echo nonsense; exit 1", "`ddict load` ended with exit code 1"},
        {"echo '{\"sets\":[],\"items\":0,\"bytes\":0}'; exit 4",
         "`ddict load` ended with exit code 4"},
        {"exec 1>&-; sleep 0.1; kill -9 $$", "`ddict load` was killed by signal 9"},
        {"echo '{\"sets\":[],\"items\":0'; kill -11 $$", "`ddict load` was killed by signal 11"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ends = 0;
        runs(all[i].text);
        ck_assert(got.failed);
        ck_assert_str_eq(got.why, all[i].why);
    }
    ends = 0;
    unlink(script);
    static const uint32_t owner = 2;
    ck_assert_int_eq(refill_child_begin(&s, &owner, 1, child_ended), 0);
    turns();
    ck_assert(got.failed);
    ck_assert_ptr_nonnull(strstr(got.why, "No such file"));
}
END_TEST

START_TEST(much_output_is_taken) {
    runs("printf '{\"sets\":['; i=0; while [ $i -lt 3000 ]; do printf '{\"set\":\"a long name of a "
         "set, "
         "as some have\",\"items\":1},'; i=$((i+1)); done; echo '{}],\"items\":3000,\"bytes\":1}'");
    ck_assert_str_eq(got.why, "");
    ck_assert(!got.failed);
    ck_assert_uint_eq(got.sets, 3000);
}
END_TEST

START_TEST(one_runs_at_a_time_and_not_for_ever) {
    static const uint32_t owner = 0;
    script_is("exec sleep 1000");
    ck_assert_int_eq(refill_child_begin(&s, &owner, 1, child_ended), 0);
    ck_assert_int_eq(refill_child_begin(&s, &owner, 1, child_ended), -EBUSY);
    ck_assert_uint_eq(s.timers.n, 1);
    struct timer *limit = s.timers.heap[0];
    timer_clear(&s.timers, limit); /* as if it had fired */
    limit->fire(limit);
    ck_assert_uint_eq(ends, 1);
    ck_assert(got.failed);
    ck_assert_str_eq(got.why, "it was not done within 30 min");
    struct deadline d;
    int e;
    deadline_start(&d, 20000);
    while ((e = refill_child_begin(&s, &owner, 1, child_ended)) == -EBUSY && !deadline_over(&d)) {
        poll(NULL, 0, 5);
        refill_child_reap(&s);
    }
    ck_assert_int_eq(e, 0); /* the killed one is gone, and its end was told once */
    ck_assert_uint_eq(ends, 1);
}
END_TEST

START_TEST(its_end_with_ddictd_is_told_to_nobody) {
    static const uint32_t owner = 0;
    script_is("echo $$ >&2; exec sleep 1000");
    ck_assert(!refill_child_is(0));
    ck_assert_int_eq(refill_child_begin(&s, &owner, 1, child_ended), 0);
    refill_child_end(&s);
    for (int i = 0; i < 100; i++, poll(NULL, 0, 5))
        refill_child_reap(&s);
    ck_assert_uint_eq(ends, 0);
    ck_assert_uint_eq(s.timers.n, 0);
}
END_TEST

START_TEST(one_that_is_stopped_tells_nobody_and_another_can_begin) {
    static const uint32_t owner = 0;
    struct deadline d;
    int e;
    script_is("exec sleep 1000");
    ck_assert_int_eq(refill_child_begin(&s, &owner, 1, child_ended), 0);
    refill_child_stop(&s);
    ck_assert(s.timers.n == 0 && refill_child_begin(&s, &owner, 1, child_ended) == -EBUSY);
    script_is("echo '{\"sets\":[],\"items\":0,\"bytes\":0}'");
    deadline_start(&d, 20000);
    while ((e = refill_child_begin(&s, &owner, 1, child_ended)) == -EBUSY && !deadline_over(&d)) {
        poll(NULL, 0, 5);
        refill_child_reap(&s);
    }
    ck_assert(e == 0 && ends == 0);
    turns();
    ck_assert(!got.failed);
}
END_TEST

START_TEST(none_begins_without_a_limit) {
    static const uint32_t owner = 0;
    script_is("exec sleep 1000");
    s.timers.n = SIZE_MAX - 1; /* there is no memory for so many */
    ck_assert_int_eq(refill_child_begin(&s, &owner, 1, child_ended), -ENOMEM);
    s.timers.n = 0;
    refill_child_reap(&s);
    ck_assert_uint_eq(ends, 0);
    ck_assert_int_eq(refill_child_begin(&s, &owner, 1, child_ended), 0); /* there was no child */
    ck_assert_uint_eq(s.timers.n, 1);
}
END_TEST

UNIT_MAIN_WITH("supervisor_refill_child", before, after, what_it_put_is_told,
               a_set_that_failed_is_named, no_other_try_helps_where_all_that_failed_is_final,
               whatever_goes_wrong_is_told, much_output_is_taken,
               one_runs_at_a_time_and_not_for_ever, its_end_with_ddictd_is_told_to_nobody,
               one_that_is_stopped_tells_nobody_and_another_can_begin, none_begins_without_a_limit)
