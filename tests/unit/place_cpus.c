/* SPDX-License-Identifier: Apache-2.0 */
/* place_cpus.c - sets of cpus: the texts of Linux and of Slurm. */
#include "unit.h"
#include <place/cpus.h>

#include <errno.h>
#include <string.h>

START_TEST(lists_are_read_and_written) {
    static const char *const good[] = {"0", "0-7", "0-7,16-23", "1,3,5", "4095", "63-64"};
    static const char *const bad[] = {
        "",   ",", "1,", "a", "1-", "-1", "3-1", "4096", "0-4096", "1 2", "99999999999999999999",
        "0x3"};
    struct cpus c;
    char text[64];

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_int_eq(cpus_list(&c, good[i]), 0);
        ck_assert_str_eq(cpus_text(text, sizeof text, &c), good[i]);
    }
    ck_assert_int_eq(cpus_list(&c, "5"), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(cpus_list(&c, bad[i]) == -EINVAL, "\"%s\"", bad[i]);
        ck_assert(cpus_has(&c, 5) && cpus_count(&c) == 1);
    }
}
END_TEST

START_TEST(masks_are_read) {
    char long_one[CPUS_MAX / 4 + 8] = "0x", text[64];
    struct cpus c;

    ck_assert_int_eq(cpus_mask(&c, "0x00ff00ff", 10), 0);
    ck_assert_str_eq(cpus_text(text, sizeof text, &c), "0-7,16-23");
    ck_assert_int_eq(cpus_mask(&c, "F", 1), 0);
    ck_assert_str_eq(cpus_text(text, sizeof text, &c), "0-3");
    ck_assert_int_eq(cpus_mask(&c, "0x0000000000000400000000000000", 30), 0);
    ck_assert_str_eq(cpus_text(text, sizeof text, &c), "58");
    ck_assert_int_eq(cpus_mask(&c, "0x", 2), -EINVAL);
    ck_assert_int_eq(cpus_mask(&c, "", 0), -EINVAL);
    ck_assert_int_eq(cpus_mask(&c, "0xg", 3), -EINVAL);
    memset(long_one + 2, 'f', CPUS_MAX / 4);
    ck_assert_int_eq(cpus_mask(&c, long_one, CPUS_MAX / 4 + 2), 0);
    ck_assert_int_eq(cpus_count(&c), CPUS_MAX);
    long_one[CPUS_MAX / 4 + 2] = '1';
    ck_assert_int_eq(cpus_mask(&c, long_one, CPUS_MAX / 4 + 3), -EINVAL);
}
END_TEST

START_TEST(a_text_that_does_not_fit_says_so) {
    struct cpus c = {{0}};
    char text[16];

    for (int i = 0; i < 64; i += 2)
        cpus_add(&c, i);
    ck_assert_str_eq(cpus_text(text, sizeof text, &c), "0,2,4,6,8,...");
}
END_TEST

START_TEST(my_own_cpus_are_found) {
    struct cpus c;

    ck_assert_int_eq(cpus_mine(&c), 0);
    ck_assert_int_gt(cpus_count(&c), 0);
}
END_TEST

static void tasks_are(int tasks, const char *type, const char *list, const char *expect) {
    struct cpus of[8];
    char all[256] = "", text[64];

    int rc = cpus_tasks(of, tasks, type, list);
    if (!expect) {
        ck_assert_msg(rc == -EINVAL, "%s%s: %d", type, list, rc);
        return;
    }
    ck_assert_msg(rc == 0, "%s%s: %d", type, list, rc);
    for (int i = 0; i < tasks; i++) {
        strcat(all, i ? " " : "");
        strcat(all, cpus_text(text, sizeof text, &of[i]));
    }
    ck_assert_str_eq(all, expect);
}

START_TEST(the_tasks_of_slurm_are_read) {
    struct cpus of[2];

    tasks_are(2, "mask_cpu:", "0x00010001,0x00020002", "0,16 1,17");
    tasks_are(3, "mask_cpu:", "0xF,0xF0", "0-3 4-7 0-3");
    tasks_are(1, "mask_cpu:", "0x0000000000000400000000000000", "58");
    tasks_are(3, "map_cpu:", "7,0,0x10", "7 0 16");
    tasks_are(4, "map_cpu:", "1*2,3", "1 1 3 1");
    tasks_are(2, "verbose,mask_cpu:", "0x1*2", "0 0");
    ck_assert_int_eq(cpus_tasks(of, 2, NULL, "0x1"), -ENOENT);
    ck_assert_int_eq(cpus_tasks(of, 2, "none", NULL), -ENOENT);
    ck_assert_int_eq(cpus_tasks(of, 2, "none", ""), -ENOENT);
    ck_assert_int_eq(cpus_tasks(of, 2, "rank_ldom", "0x1"), -ENOENT);
    tasks_are(2, "mask_cpu:", "0x1,", NULL);
    tasks_are(2, "mask_cpu:", "0x0", NULL);
    tasks_are(2, "mask_cpu:", "0x1*", NULL);
    tasks_are(2, "mask_cpu:", "0x1*0", NULL);
    tasks_are(2, "map_cpu:", "1-3", NULL);
    tasks_are(2, "map_cpu:", "0xfffff", NULL);
    tasks_are(2, "map_cpu:", "x", NULL);
}
END_TEST

UNIT_MAIN("place_cpus", lists_are_read_and_written, masks_are_read,
          a_text_that_does_not_fit_says_so, my_own_cpus_are_found, the_tasks_of_slurm_are_read)
