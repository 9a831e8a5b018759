/* SPDX-License-Identifier: Apache-2.0 */
/* base_user.c - the maps of user namespaces. */
#include "unit.h"
#include <base/user.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[160];

static const char *map_of(const char *text) {
    snprintf(path, sizeof path, "%s/ddict-map.XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

START_TEST(a_user_is_found_outside_of_its_namespace) {
    static const struct {
        const char *map;
        unsigned long in, out;
    } rows[] = {
        {"         0          0 4294967295\n", 1000, 1000},
        {"         0       1000          1\n", 0, 1000},
        {"         0     100000       1000\n      1000       1000          1\n      1001     "
         "101000      64535\n",
         1000, 1000},
        {"         0     100000       1000\n      1000       1000          1\n      1001     "
         "101000      64535\n",
         1001, 101000},
        {"         0       1000          1\n", 7, 7}, /* no such user in there */
        {"", 7, 7},
        {"nonsense", 7, 7},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_uint_eq(user_outside(map_of(rows[i].map), rows[i].in), rows[i].out);
        unlink(path);
    }
    ck_assert_uint_eq(user_outside("/nonexistent", 7), 7);
}
END_TEST

START_TEST(the_number_of_all_who_have_none_is_nobody) {
    static const struct {
        const char *map;
        uid_t uid;
        bool one;
    } rows[] = {
        {"0 0 4294967295\n", 65534, true},
        {"0 1000 1\n", 65534, false},
        {"65534 1000 1\n", 65534, false},
        {"0 100000 65536\n", 65534, false},
        {"", 65534, false},
        {"65534 1000 1\n", 0, true},
        {"", 1000, true},
        {"0 0 65534\n65534 65534 4294901761\n", 65534, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_msg(user_is_one(map_of(rows[i].map), rows[i].uid) == rows[i].one, "%s",
                      rows[i].map);
        unlink(path);
    }
    ck_assert(!user_is_one("/nonexistent", 65534));
    ck_assert(user_is_one(USER_UID_MAP, geteuid()));
}
END_TEST

START_TEST(a_job_is_named_after_the_user_it_belongs_to) {
    setenv("SLURM_JOB_UID", "59300", 1);
    ck_assert_uint_eq(user_of_job(), 59300);
    setenv("SLURM_JOB_UID", "59300x", 1);
    ck_assert_uint_eq(user_of_job(), user_outside(USER_UID_MAP, geteuid()));
    unsetenv("SLURM_JOB_UID");
    ck_assert_uint_eq(user_of_job(), user_outside(USER_UID_MAP, geteuid()));
}
END_TEST

UNIT_MAIN("base_user", a_user_is_found_outside_of_its_namespace,
          the_number_of_all_who_have_none_is_nobody, a_job_is_named_after_the_user_it_belongs_to)
