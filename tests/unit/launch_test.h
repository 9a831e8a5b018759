/* SPDX-License-Identifier: Apache-2.0 */
/* launch_test.h - what the tests of launch, place and plugin share: one case with a time limit,
 * descriptors and children counted around every test. */
#ifndef DDICT_TESTS_LAUNCH_TEST_H
#define DDICT_TESTS_LAUNCH_TEST_H

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

static int fds_before;

static inline int fds_open(void) {
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    ck_assert_ptr_nonnull(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}
static inline void state_note(void) {
    fds_before = fds_open();
}
static inline void state_check(void) {
    ck_assert_int_eq(fds_open(), fds_before);
    ck_assert_msg(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "a child is left");
}

static inline int tests_run(const char *name, double seconds, const TTest *const *tests, size_t n) {
    Suite *s = suite_create(name);
    TCase *c = tcase_create(name);
    SRunner *r;
    size_t i;
    int failed;

    tcase_set_timeout(c, seconds);
    tcase_add_checked_fixture(c, state_note, state_check);
    for (i = 0; i < n; i++)
        tcase_add_test(c, tests[i]);
    suite_add_tcase(s, c);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
#define TESTS_RUN(name, seconds, ...)                                  \
    (tests_run((name), (seconds), (const TTest *const[]){__VA_ARGS__}, \
               sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(TTest *)))

#endif
