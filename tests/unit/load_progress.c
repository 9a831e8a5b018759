/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_progress.c - what is shown of a load, with a clock of ours. Invariants: on a terminal a bar
 * that is drawn again in its place and can be cleared; elsewhere no line in the first 30 s and then
 * one in 30 s; a worker says the same figures to its front, which draws them; --quiet says nothing.
 */
#include "unit.h"
#include <base/clock.h>

#include <fcntl.h>
#include <load/load.h>
#include <load/progress.h>
#include <pty.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct load the_load;
static struct load_options options;
static uint64_t now = 5000000;

uint64_t clock_ns(void) {
    return now * 1000000;
}

/* --- stderr is ours while a test looks at it --- */

static int saved = -1, from = -1, to = -1;
static char said[4096];

static void capture(int reads, int writes) {
    saved = dup(2);
    from = reads, to = writes;
    ck_assert_int_ge(dup2(to, 2), 0);
    ck_assert_int_eq(fcntl(from, F_SETFL, O_NONBLOCK), 0);
}

/* A terminal of so many columns, or a pipe (0). */
static void begin(unsigned short columns) {
    int fd[2];
    options = (struct load_options){0};
    the_load.o = &options;
    if (columns == 0)
        ck_assert_int_eq(pipe(fd), 0);
    else
        ck_assert_int_eq(
            openpty(&fd[0], &fd[1], NULL, NULL, &(struct winsize){.ws_col = columns, .ws_row = 24}),
            0);
    capture(fd[0], fd[1]);
    progress_start();
}

/* What was said since. */
static const char *words(void) {
    ssize_t n = 0, all = 0;
    fflush(stderr);
    while (all < (ssize_t)sizeof said - 1 &&
           (n = read(from, said + all, sizeof said - 1 - (size_t)all)) > 0)
        all += n;
    said[all] = 0;
    return said;
}

static void end(void) {
    fflush(stderr);
    ck_assert_int_ge(dup2(saved, 2), 0);
    close(saved);
    close(from);
    close(to);
}

static void show(uint64_t read, uint64_t total, uint64_t items, uint64_t bytes) {
    progress_show(&(struct progress){.read = read, .total = total, .items = items, .bytes = bytes});
}

#define MIB (1ull << 20)

START_TEST(a_terminal_has_a_bar_that_is_drawn_again) {
    begin(120);
    show(0, 100 * MIB, 0, 0);
    ck_assert_str_eq(words(), ""); /* nothing flickers where it takes no time */
    now += 1000;
    show(25 * MIB, 100 * MIB, 1000, 30 * MIB);
    ck_assert_str_eq(
        words(),
        "\r 25% [######..................] 1000 items, 30.0 MiB, 30.0 MiB/s, 3 s left\033[K");
    now += 100;
    show(26 * MIB, 100 * MIB, 1001, 30 * MIB);
    ck_assert_str_eq(words(), ""); /* not more often than it can be read */
    now += 900;
    show(50 * MIB, 100 * MIB, 2000, 60 * MIB);
    ck_assert_str_eq(
        words(),
        "\r 50% [############............] 2000 items, 60.0 MiB, 30.0 MiB/s, 2 s left\033[K");
    now += 1000;
    show(100 * MIB, 100 * MIB, 4000, 120 * MIB);
    ck_assert_str_eq(words(),
                     "\r100% [########################] 4000 items, 120.0 MiB, 40.0 MiB/s\033[K");
    progress_clear();
    ck_assert_str_eq(words(), "\r\033[K");
    progress_clear();
    ck_assert_str_eq(words(), "");
    end();
}
END_TEST

START_TEST(a_narrow_terminal_has_one_line) {
    begin(30);
    now += 1000;
    show(25 * MIB, 100 * MIB, 1000, 30 * MIB);
    ck_assert_str_eq(words(), "\r 25% [######.................\033[K"); /* 29 of 30 columns */
    progress_clear();
    words();
    end();
}
END_TEST

START_TEST(more_than_was_planned_is_no_more_than_all) {
    begin(120);
    now += 1000;
    show(300, 100, 1, 1000);
    ck_assert_str_eq(words(), "\r100% [########################] 1 items, 1000 B, 1000 B/s\033[K");
    now += 1000;
    show(5, 0, 1, 1000); /* nobody knows how much there is */
    ck_assert_ptr_nonnull(strstr(words(), "\r  0% [........................] 1 items"));
    progress_clear();
    words();
    end();
}
END_TEST

START_TEST(a_log_has_one_line_in_thirty_seconds) {
    unsigned lines = 0;
    begin(0);
    for (unsigned s = 0; s < 30; s++, now += 999)
        show(s * MIB, 1000 * MIB, s, s * MIB);
    ck_assert_str_eq(words(), "");
    now += 30;
    show(30 * MIB, 1000 * MIB, 30, 30 * MIB);
    ck_assert_str_eq(words(), "ddict load: 3%, 30 items, 30.0 MiB, 1.0 MiB/s, 16 min 10 s left\n");
    for (unsigned s = 31; s <= 150; s++) {
        now += 1000;
        show(s * MIB, 1000 * MIB, s, s * MIB);
        lines += *words() != 0;
    }
    ck_assert_uint_eq(lines, 4);
    ck_assert_str_eq(said, "ddict load: 15%, 150 items, 150.0 MiB, 1.0 MiB/s, 14 min 10 s left\n");
    progress_clear(); /* there is nothing to clear in a log */
    ck_assert_str_eq(words(), "");
    end();
}
END_TEST

START_TEST(the_time_left_follows_the_rate_of_late) {
    begin(120);
    now += 40000;
    show(40 * MIB, 40000 * MIB, 1, 40 * MIB);
    ck_assert_ptr_nonnull(strstr(words(), ", 1.0 MiB/s, 11 h 06 min left\033[K"));
    for (unsigned s = 1; s <= 60; s++) {
        now += 1000;
        words();
        show((40 + 10 * s) * MIB, 40000 * MIB, s, (40 + 10 * s) * MIB); /* ten times as fast */
    }
    ck_assert_ptr_nonnull(strstr(words(), ", 640.0 MiB, 6.4 MiB/s, 1 h 05 min left\033[K"));
    progress_clear();
    words();
    end();
}
END_TEST

START_TEST(what_a_worker_says_is_what_its_front_draws) {
    char line[200];
    begin(0);
    options.run = "0123";
    now += 1000;
    show(25 * MIB, 100 * MIB, 1000, 30 * MIB);
    ck_assert_int_eq(sscanf(words(), "%199[^\n]", line), 1);
    ck_assert_ptr_nonnull(strchr(said, '\n'));
    end();
    begin(120);
    now += 1000;
    progress_line(line);
    ck_assert_str_eq(
        words(),
        "\r 25% [######..................] 1000 items, 30.0 MiB, 30.0 MiB/s, 3 s left\033[K");
    strcpy(line, "slurmstepd: something else");
    progress_line(line); /* other lines come through, in a line of their own */
    ck_assert_str_eq(words(), "\r\033[Kslurmstepd: something else\r\n");
    end();
}
END_TEST

START_TEST(quiet_is_quiet) {
    char mark[] = "ddict1 progress 25 100 1000 30";
    begin(0);
    options.quiet = true;
    now += 40000;
    show(25 * MIB, 100 * MIB, 1000, 30 * MIB);
    progress_line(mark);
    options.run = "0123";
    show(25 * MIB, 100 * MIB, 1000, 30 * MIB);
    ck_assert_str_eq(words(), "");
    end();
}
END_TEST

UNIT_MAIN("load_progress", a_terminal_has_a_bar_that_is_drawn_again, a_narrow_terminal_has_one_line,
          more_than_was_planned_is_no_more_than_all, a_log_has_one_line_in_thirty_seconds,
          the_time_left_follows_the_rate_of_late, what_a_worker_says_is_what_its_front_draws,
          quiet_is_quiet)
