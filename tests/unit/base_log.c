/* SPDX-License-Identifier: Apache-2.0 */
/* base_log.c - one line a message on stderr, read back through a pipe. */
#include "unit.h"
#include <base/log.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int pipe_out, saved_stderr;
static char got[8192];

static void before(void) {
    int p[2];
    unsetenv("DDICT_LOG");
    ck_assert_int_eq(pipe(p), 0);
    saved_stderr = dup(2);
    dup2(p[1], 2);
    close(p[1]);
    pipe_out = p[0];
}
static void restore(void) {
    if (saved_stderr < 0)
        return;
    dup2(saved_stderr, 2);
    close(saved_stderr);
    saved_stderr = -1;
}
static void after(void) {
    restore();
    close(pipe_out);
}
/* What was written so far; stderr is our own again, so that a failing check can be read. */
static const char *lines(void) {
    restore();
    size_t at = 0;
    for (ssize_t n; (n = read(pipe_out, got + at, sizeof got - 1 - at)) > 0;)
        at += (size_t)n;
    got[at] = 0;
    return got;
}

START_TEST(errors_and_warnings_are_said_by_default) {
    log_init("store");
    log_error("one %d", 1);
    log_warn("two");
    log_info("three");
    log_debug("four");
    ck_assert_str_eq(lines(), "ddict: store: one 1\nddict: store: two\n");
}
END_TEST

START_TEST(the_environment_asks_for_more) {
    setenv("DDICT_LOG", "info", 1);
    log_init("a");
    log_info("yes");
    log_debug("no");
    setenv("DDICT_LOG", "debug", 1);
    log_init("b");
    log_debug("yes");
    setenv("DDICT_LOG", "nonsense", 1);
    log_init("c");
    log_info("no");
    ck_assert_str_eq(lines(), "ddict: a: yes\nddict: b: yes\n");
}
END_TEST

START_TEST(the_part_can_be_changed) {
    log_init("manager");
    log_part("manager %d on %s", 3, "n1");
    log_error("lost");
    ck_assert_str_eq(lines(), "ddict: manager 3 on n1: lost\n");
}
END_TEST

START_TEST(a_message_is_always_one_line) {
    char text[4000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    log_init("p");
    log_error("a\nb\r\nc");
    log_error("%s", text);
    const char *l = lines(), *first = "ddict: p: a b  c\n";
    ck_assert_int_eq(strncmp(l, first, strlen(first)), 0);
    l += strlen(first);
    ck_assert_uint_eq(strlen(l), 1024 - 1);
    ck_assert_ptr_eq(strchr(l, '\n'), l + strlen(l) - 1);
}
END_TEST

START_TEST(errno_is_left_alone) {
    log_init("p");
    close(2);
    errno = ENOSPC;
    log_error("nobody hears this");
    ck_assert_int_eq(errno, ENOSPC);
    ck_assert_str_eq(lines(), "");
}
END_TEST

UNIT_MAIN_WITH("base_log", before, after, errors_and_warnings_are_said_by_default,
               the_environment_asks_for_more, the_part_can_be_changed, a_message_is_always_one_line,
               errno_is_left_alone)
