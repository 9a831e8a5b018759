/* SPDX-License-Identifier: Apache-2.0 */
/* unit.h - one main for a unit test program: every test has a time limit, and leaves as many
 * descriptors open as it found. */
#ifndef DDICT_TESTS_UNIT_H
#define DDICT_TESTS_UNIT_H

#include <check.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNIT_SECONDS 60.0 /* with sanitizers on a busy machine; a test takes a few at most */

static int unit_fds_before;

/* limits: also the files of memlimit.c, which it keeps open as long as the process lives */
static inline int unit_fds_with(bool limits) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(d);
    for (const struct dirent *e; (e = readdir(d));) {
        char to[512];
        ssize_t len = readlinkat(dirfd(d), e->d_name, to, sizeof to - 1);
        to[len > 0 ? len : 0] = 0;
        n += limits || (strcmp(to, "/proc/meminfo") != 0 && !strstr(to, "/memory."));
    }
    closedir(d);
    return n;
}
static inline int unit_fds(void) {
    return unit_fds_with(false);
}
static inline void unit_fds_count(void) {
    unit_fds_before = unit_fds();
}
static inline void unit_fds_check(void) {
    ck_assert_int_eq(unit_fds(), unit_fds_before);
}

static inline uint64_t unit_random(uint64_t *s) {
    uint64_t z = (*s += 0x9E3779B97F4A7C15ull);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

static inline int unit_run(const char *name, const TTest *const *tests, size_t n,
                           void (*before)(void), void (*after)(void)) {
    Suite *s = suite_create(name);
    TCase *c = tcase_create(name);
    tcase_set_timeout(c, UNIT_SECONDS);
    tcase_add_checked_fixture(c, unit_fds_count, unit_fds_check);
    if (before)
        tcase_add_checked_fixture(c, before, after);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(c, tests[i]);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define UNIT_MAIN_WITH(name, before, after, ...)                                   \
    int main(void) {                                                               \
        const TTest *const tests[] = {__VA_ARGS__};                                \
        return unit_run(name, tests, sizeof tests / sizeof *tests, before, after); \
    }
#define UNIT_MAIN(name, ...) UNIT_MAIN_WITH(name, NULL, NULL, __VA_ARGS__)

#endif
