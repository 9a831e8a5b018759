/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor_backtrace.c - a child that ends by a fault says where, and ends by that signal even
 * where nobody reads what it says. */
#include "unit.h"
#include <base/log.h>
#include <supervisor/backtrace.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int said[2]; /* stderr of the child */
static char text[65536];

static void before(void) {
    ck_assert_int_eq(pipe(said), 0);
}
static void after(void) {
    close(said[0]);
}

/* The signal that ends a child which does this. */
static int end_of(void (*does)(void)) {
    struct rlimit none = {0, 0};
    int status;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &none);
        dup2(said[1], STDERR_FILENO);
        log_part("a part");
        backtrace_on_faults();
        does();
        _exit(0);
    }
    close(said[1]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status), "status %x", (unsigned)status);
    return WTERMSIG(status);
}

/* Each line behind the first is a frame. */
static void said_where(const char *first) {
    ssize_t n, at = 0;
    unsigned frames = 0;
    while ((n = read(said[0], text + at, sizeof text - 1 - (size_t)at)) > 0)
        at += n;
    text[at] = 0;
    ck_assert_msg(strncmp(text, first, strlen(first)) == 0, "%s", text);
    for (char *line = strchr(text, '\n'); line && line[1]; line = strchr(line + 1, '\n'), frames++)
        ck_assert_msg(strstr(line, "[0x"), "%s", text);
    ck_assert_msg(frames >= 3, "%s", text);
}

START_TEST(an_abort_says_where) {
    ck_assert_int_eq(end_of(abort), SIGABRT);
    said_where("ddict: a part: ends by SIGABRT\n");
}
END_TEST

static void kill_itself(void) {
    kill(getpid(), SIGILL);
}
START_TEST(a_signal_that_was_sent_is_told_from_a_fault) {
    ck_assert_int_eq(end_of(kill_itself), SIGILL);
    said_where("ddict: a part: ends by SIGILL, which was sent to it\n");
}
END_TEST

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
static void write_nowhere(void) {
    char *volatile nowhere = (char *)0x10;
    *nowhere = 1;
}
START_TEST(a_fault_says_its_address) {
    ck_assert_int_eq(end_of(write_nowhere), SIGSEGV);
    said_where("ddict: a part: ends by SIGSEGV at address 0x10\n");
}
END_TEST
#endif

static void fill_and_abort(void) {
    fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
    while (write(STDERR_FILENO, text, sizeof text) > 0) {
    }
    while (write(STDERR_FILENO, text, 1) > 0) {
    }
    fcntl(STDERR_FILENO, F_SETFL, 0);
    signal(SIGALRM, SIG_IGN); /* as in ddictd */
    abort();
}
START_TEST(a_stderr_that_nobody_reads_does_not_keep_it) {
    ck_assert_int_eq(end_of(fill_and_abort), SIGABRT);
}
END_TEST

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
UNIT_MAIN_WITH("supervisor_backtrace", before, after, an_abort_says_where,
               a_signal_that_was_sent_is_told_from_a_fault, a_fault_says_its_address,
               a_stderr_that_nobody_reads_does_not_keep_it)
#else /* which say of such a fault what they know themselves */
UNIT_MAIN_WITH("supervisor_backtrace", before, after, an_abort_says_where,
               a_signal_that_was_sent_is_told_from_a_fault,
               a_stderr_that_nobody_reads_does_not_keep_it)
#endif
