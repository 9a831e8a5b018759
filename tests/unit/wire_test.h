/* SPDX-License-Identifier: Apache-2.0 */
/* wire_test.h - what the tests of runtime/wire share: one main, descriptors counted around every
 * test, a small random source. */
#ifndef DDICT_TESTS_WIRE_TEST_H
#define DDICT_TESTS_WIRE_TEST_H

#include <check.h>
#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>

#define WAIT_MS 30000 /* for what comes at once, on a busy machine with sanitizers */

static int fds_before;

static inline int fds_open(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}
void conn_take_ready(void); /* wire/conn.h: keeps one for good */
static inline void fds_count(void) {
    conn_take_ready();
    fds_before = fds_open();
}
static inline void fds_check(void) {
    ck_assert_int_eq(fds_open(), fds_before);
}

static inline uint64_t test_random(uint64_t *s) /* splitmix64 */
{
    uint64_t z = (*s += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* A case with a time limit in seconds; its tests are added by tcase_add_test(). Descriptors are
 * counted before and after each. */
static inline TCase *wire_case(Suite *s, const char *name, double seconds) {
    TCase *c = tcase_create(name);
    tcase_set_timeout(c, seconds);
    tcase_add_checked_fixture(c, fds_count, fds_check);
    suite_add_tcase(s, c);
    return c;
}

static inline int wire_main(Suite *s) {
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
