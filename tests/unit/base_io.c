/* SPDX-License-Identifier: Apache-2.0 */
/* base_io.c - all bytes go and come, over short counts and signals; the end of a file and an error
 * are told apart. */
#include "unit.h"
#include <base/io.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG (8u << 20) /* many times what a pipe holds */

static volatile sig_atomic_t signals;

static void on_signal(int sig) {
    signals += sig == SIGALRM;
}

static uint8_t *bytes_make(size_t n) {
    uint8_t *b = malloc(n);
    uint64_t rng = 5;
    ck_assert_ptr_nonnull(b);
    for (size_t i = 0; i < n; i++)
        b[i] = (uint8_t)unit_random(&rng);
    return b;
}

/* In the child: compare all that comes, slowly, and in pieces that fit nothing. */
static void child_run(int in, const uint8_t *want) __attribute__((noreturn));
static void child_run(int in, const uint8_t *want) {
    static uint8_t got[100003];
    size_t at = 0;
    ssize_t n;
    while ((n = read_all(in, got, sizeof got)) > 0 && memcmp(got, want + at, (size_t)n) == 0)
        at += (size_t)n;
    _exit(n == 0 && at == LONG ? 0 : 1);
}

START_TEST(a_pipe_takes_all_over_signals) {
    const struct sigaction act = {.sa_handler = on_signal}; /* without SA_RESTART */
    const struct itimerval each = {{0, 500}, {0, 500}}, none = {{0, 0}, {0, 0}};
    uint8_t *bytes = bytes_make(LONG);
    int fds[2], status = -1;
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        close(fds[1]);
        child_run(fds[0], bytes);
    }
    close(fds[0]);
    signals = 0;
    ck_assert_int_eq(sigaction(SIGALRM, &act, NULL), 0);
    /* until a signal came: as often as it takes on a fast machine */
    ck_assert_int_eq(setitimer(ITIMER_REAL, &each, NULL), 0);
    while (signals == 0)
        usleep(100);
    ck_assert_int_eq(write_all(fds[1], bytes, LONG), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &none, NULL), 0);
    close(fds[1]);
    while (waitpid(pid, &status, 0) < 0)
        ck_assert_int_eq(errno, EINTR);
    ck_assert_int_eq(status, 0);
    free(bytes);
}
END_TEST

START_TEST(positions_of_a_file_are_written_and_read) {
    int fd = memfd_create("base_io", MFD_CLOEXEC);
    uint8_t *bytes = bytes_make(1000), got[1000];
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write_all_at(fd, bytes, 1000, 5000), 0);
    ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), 0);
    ck_assert_int_eq(read_all_at(fd, got, 1000, 5000), 1000);
    ck_assert_mem_eq(got, bytes, 1000);
    ck_assert_int_eq(read_all_at(fd, got, 1000, 5900), 100);
    ck_assert_mem_eq(got, bytes + 900, 100);
    ck_assert_int_eq(read_all_at(fd, got, 1000, 6000), 0);
    ck_assert_int_eq(lseek(fd, 5500, SEEK_SET), 5500);
    ck_assert_int_eq(read_all(fd, got, 1000), 500);
    ck_assert_mem_eq(got, bytes + 500, 500);
    ck_assert_int_eq(read_all(fd, got, 1000), 0);
    ck_assert_int_eq(write_all(fd, bytes, 0), 0);
    ck_assert_int_eq(write_all_at(-1, bytes, 0, 0), 0);
    close(fd);
    free(bytes);
}
END_TEST

START_TEST(an_error_is_its_code) {
    int fds[2], full = open("/dev/full", O_RDWR | O_CLOEXEC);
    static const uint8_t bytes[LONG];
    uint8_t got[10];
    ck_assert_int_ge(full, 0);
    ck_assert_int_eq(write_all(full, bytes, 10), -ENOSPC);
    close(full);
    ck_assert_int_eq(write_all(-1, bytes, 1), -EBADF);
    ck_assert_int_eq(write_all_at(-1, bytes, 1, 0), -EBADF);
    ck_assert_int_eq(read_all(-1, got, 1), -EBADF);
    ck_assert_int_eq(read_all_at(-1, got, 1, 0), -EBADF);
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_eq(write_all_at(fds[1], bytes, 1, 0), -ESPIPE);
    ck_assert_int_eq(read_all(fds[0], got, sizeof got), -EAGAIN);
    ck_assert_int_eq(write_all(fds[1], "abc", 3), 0);
    ck_assert_int_eq(read_all(fds[0], got, sizeof got), -EAGAIN);
    ck_assert_mem_eq(got, "abc", 3);
    ck_assert_int_eq(write_all(fds[1], bytes, LONG), -EAGAIN);
    signal(SIGPIPE, SIG_IGN);
    close(fds[0]);
    ck_assert_int_eq(write_all(fds[1], bytes, 1), -EPIPE);
    close(fds[1]);
}
END_TEST

UNIT_MAIN("base_io", a_pipe_takes_all_over_signals, positions_of_a_file_are_written_and_read,
          an_error_is_its_code)
