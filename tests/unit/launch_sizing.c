/* SPDX-License-Identifier: Apache-2.0 */
/* launch_sizing.c - what users ask for. Invariant: a refusal names the option, the value and what
 * is allowed, and changes nothing. */
#include "launch_test.h"
#include <base/defaults.h>
#include <ddict_types.h>
#include <launch/sizing.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char why[ASK_WHY];

static void refused(int rc, const char *part) {
    ck_assert_int_eq(rc, -EINVAL);
    ck_assert_msg(strstr(why, part) != NULL, "'%s' is not in '%s'", part, why);
    ck_assert_ptr_null(strchr(why, '\n'));
}

START_TEST(numbers_that_are_none_are_refused_by_name) {
    static const char *const bad[] = {"",    "0",     "-1",       "+4",
                                      "4x",  " 4",    "4 ",       "0x4",
                                      "1e3", "65536", "99999999", "18446744073709551617"};
    uint32_t n = 7;
    size_t i;

    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        refused(ask_managers("--ddict-managers", bad[i], &n, why, sizeof why), "--ddict-managers=");
        ck_assert_ptr_nonnull(strstr(why, bad[i]));
        ck_assert_ptr_nonnull(strstr(why, "1 to 65535"));
    }
    refused(ask_managers("DDICT_MANAGERS", NULL, &n, why, sizeof why), "DDICT_MANAGERS");
    ck_assert_uint_eq(n, 7);
    ck_assert_int_eq(ask_managers("x", "65535", &n, why, sizeof why), 0);
    ck_assert_uint_eq(n, 65535);
}
END_TEST

START_TEST(sizes_that_are_none_are_refused_by_name) {
    static const char *const bad[] = {
        "", "16Q", "-1", "0", "G", "1 G", "4095K", "1.5", "16GG", "99999999999999T", "0x10M"};
    uint64_t mem = 7;
    size_t i;

    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        refused(ask_mem("--ddict-mem", bad[i], &mem, why, sizeof why), "--ddict-mem=");
        ck_assert_ptr_nonnull(strstr(why, bad[i]));
    }
    ck_assert_uint_eq(mem, 7);
    ck_assert_int_eq(ask_mem("x", "4M", &mem, why, sizeof why), 0);
    ck_assert_uint_eq(mem, 4u << 20);
    ck_assert_int_eq(ask_mem("x", "16g", &mem, why, sizeof why), 0);
    ck_assert_uint_eq(mem, 16ull << 30);
}
END_TEST

START_TEST(the_nodes_with_keys_are_a_number_or_components) {
    static const char *const bad[] = {"",       "0",      "-1",      "het",        "het:", "het:x",
                                      "het:1,", "het:,1", "het:128", "65536",      "2:",   "2:4",
                                      ":4G",    "het:1:", "het:1:x", "het:1:4G:2", "1,2"};
    struct key_nodes n = {.first = 7};
    size_t i;

    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(ask_key_nodes("--ddict-nodes", bad[i], &n, why, sizeof why), "--ddict-nodes=");
    ck_assert_uint_eq(n.first, 7);
    ck_assert_int_eq(ask_key_nodes("x", "2", &n, why, sizeof why), 0);
    ck_assert(n.first == 2 && n.groups == 0 && n.forward_mem == 0);
    ck_assert_int_eq(ask_key_nodes("x", "3:8M", &n, why, sizeof why), 0);
    ck_assert(n.first == 3 && n.forward_mem == 8u << 20);
    ck_assert_int_eq(ask_key_nodes("x", "het:1", &n, why, sizeof why), 0);
    ck_assert(n.first == 0 && n.groups == 1 && n.group[0] == 1 && n.forward_mem == 0);
    ck_assert_int_eq(ask_key_nodes("x", "het:2,0:4G", &n, why, sizeof why), 0);
    ck_assert(n.groups == 2 && n.group[0] == 2 && n.group[1] == 0 && n.forward_mem == 4ull << 30);
    /* as many as a job can have */
    char all[DD_COMPONENTS_MAX * 4 + 8] = "het:0";
    for (unsigned k = 1; k < DD_COMPONENTS_MAX; k++)
        snprintf(all + strlen(all), sizeof all - strlen(all), ",%u", k);
    ck_assert_int_eq(ask_key_nodes("x", all, &n, why, sizeof why), 0);
    ck_assert(n.groups == DD_COMPONENTS_MAX && n.group[DD_COMPONENTS_MAX - 1] == 127);
    strcat(all, ",1");
    refused(ask_key_nodes("--ddict-nodes", all, &n, why, sizeof why), "--ddict-nodes=");
}
END_TEST

START_TEST(a_working_set_is_a_number_and_what_is_waited_for) {
    static const char *const bad[] = {"",
                                      "0",
                                      "-1",
                                      "65536",
                                      "x",
                                      "2x",
                                      "2,",
                                      ",2",
                                      "2,,wait-for-keys",
                                      "2,wait",
                                      "2,wait-for-keysx",
                                      "wait-for-keys",
                                      "2 ,wait-for-keys",
                                      "99999999999"};
    struct working_set w = {.size = 7};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(ask_working_set("--ddict-working-set", bad[i], &w, why, sizeof why),
                "from 1 to 65535");
    refused(ask_working_set("--ddict-working-set", "1,wait-for-keys", &w, why, sizeof why),
            "--ddict-working-set=1,wait-for-keys: a checkpoint that waits");
    refused(ask_working_set("x", "1,wait-for-writers", &w, why, sizeof why), "at least 2");
    ck_assert_uint_eq(w.size, 7);
    ck_assert_int_eq(ask_working_set("x", "1", &w, why, sizeof why), 0);
    ck_assert(w.size == 1 && w.flags == 0);
    ck_assert_int_eq(ask_working_set("x", "65535,wait-for-writers", &w, why, sizeof why), 0);
    ck_assert(w.size == 65535 && w.flags == DDICT_WAIT_FOR_WRITERS);
    ck_assert_int_eq(ask_working_set("x", "2,wait-for-keys,wait-for-writers", &w, why, sizeof why),
                     0);
    ck_assert(w.size == 2 && w.flags == (DDICT_WAIT_FOR_KEYS | DDICT_WAIT_FOR_WRITERS));
}
END_TEST

START_TEST(a_long_value_is_cut_in_the_sentence) {
    char text[5000];
    uint32_t n;

    memset(text, '9', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    refused(ask_managers("--ddict-managers", text, &n, why, sizeof why), "want a whole number");
}
END_TEST

START_TEST(too_little_for_a_manager_says_what_would_do) {
    ck_assert_int_eq(ask_fits("--mem", 16u << 20, "--managers", 4, 2, why, sizeof why), 0);
    refused(ask_fits("--mem", (16u << 20) - 1, "--managers", 4, 2, why, sizeof why), "--mem=16M");
    ck_assert_int_eq(ask_fits("--mem", 4096ull << 20, "--managers", 512, 2, why, sizeof why), 0);
    refused(ask_fits("--mem", 4096ull << 20, "--managers", 513, 2, why, sizeof why),
            "at most 512 on 2 nodes");
}
END_TEST

START_TEST(shares_follow_manager_m_on_node_m_mod_nodes) {
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < 3; i++)
        sum += ask_share(5000, 5, 3, i, 1);
    ck_assert_uint_eq(sum, 5000);
    ck_assert_uint_eq(ask_share(5000, 5, 3, 0, 1), 2000);
    ck_assert_uint_eq(ask_share(5000, 5, 3, 1, 1), 2000);
    ck_assert_uint_eq(ask_share(5000, 5, 3, 2, 1), 1000);
    ck_assert_uint_eq(ask_share(5000, 1, 3, 2, 1), 0);
}
END_TEST

START_TEST(the_second_copies_are_on_the_next_node) {
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < 3; i++)
        sum += ask_share(5000, 5, 3, i, 2);
    ck_assert_uint_eq(sum, 10000);
    ck_assert_uint_eq(ask_share(5000, 5, 3, 0, 2), 3000);
    ck_assert_uint_eq(ask_share(5000, 5, 3, 1, 2), 4000);
    ck_assert_uint_eq(ask_share(5000, 5, 3, 2, 2), 3000);
    ck_assert_uint_eq(ask_share(5000, 2, 2, 1, 2), 5000);
}
END_TEST

START_TEST(more_than_the_job_has_says_both_figures_and_the_option) {
    ck_assert_int_eq(
        ask_room("--ddict-mem", 4ull << 30, 1, 2ull << 30, "n1", 2048, 0, why, sizeof why), 0);
    /* no limit known */
    ck_assert_int_eq(
        ask_room("--ddict-mem", 1ull << 50, 1, 1ull << 49, "n1", 0, 0, why, sizeof why), 0);
    refused(ask_room("--ddict-mem", 20ull << 30, 1, 10ull << 30, "n1", 2048, 0, why, sizeof why),
            "--mem=12G");
    ck_assert_ptr_nonnull(strstr(why, "10.0 GiB on node n1"));
    ck_assert_ptr_nonnull(strstr(why, "the job has 2.0 GiB"));
    ck_assert_ptr_null(strstr(why, "--mem-per-cpu"));
    refused(ask_room("--ddict-mem", 20ull << 30, 1, 10ull << 30, "n1", 2048, 1, why, sizeof why),
            "instead of --mem-per-cpu");
    ck_assert_ptr_null(strstr(why, "copies"));
    refused(ask_room("--ddict-mem", 20ull << 30, 2, 20ull << 30, "n1", 2048, 0, why, sizeof why),
            "--ddict-mem of 20.0 GiB, in two copies, is 20.0 GiB on node n1");
}
END_TEST

START_TEST(amounts_are_sizes_or_shares) {
    static const char *const bad[] = {"%",   "0%",   "0.00%", "100.01%", "101%",
                                      "-4%", "4%%",  "4 %",   "4.%",     "4.123%",
                                      ".5%", "1e1%", "40%G",  "16Q",     ""};
    struct amount a = {.bytes = 7};
    char text[16];
    size_t i;

    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        refused(ask_amount("--mem", bad[i], &a, why, sizeof why), "--mem=");
        ck_assert_ptr_nonnull(strstr(why, bad[i]));
    }
    refused(ask_amount("--mem", NULL, &a, why, sizeof why), "--mem=");
    ck_assert(a.bytes == 7 && a.share == 0);
    ck_assert_int_eq(ask_amount("--mem", "40%", &a, why, sizeof why), 0);
    ck_assert(a.bytes == 0 && a.share == 4000);
    ck_assert_uint_eq(amount_bytes(&a, 1000), 400);
    ck_assert_uint_eq(amount_bytes(&a, UINT64_MAX >> 1),
                      (uint64_t)((unsigned __int128)(UINT64_MAX >> 1) * 4 / 10));
    ck_assert_str_eq(amount_format(text, sizeof text, &a), "40%");
    ck_assert_int_eq(ask_amount("--mem", "12.5%", &a, why, sizeof why), 0);
    ck_assert_str_eq(amount_format(text, sizeof text, &a), "12.5%");
    ck_assert_int_eq(ask_amount("--mem", "0.05%", &a, why, sizeof why), 0);
    ck_assert_str_eq(amount_format(text, sizeof text, &a), "0.05%");
    ck_assert_int_eq(ask_amount("--mem", "100%", &a, why, sizeof why), 0);
    ck_assert_uint_eq(amount_bytes(&a, 12345), 12345);
    ck_assert_int_eq(ask_amount("--mem", "16G", &a, why, sizeof why), 0);
    ck_assert(a.share == 0 && amount_bytes(&a, 5) == 16ull << 30);
}
END_TEST

int main(void) {
    return TESTS_RUN(
        "launch_ask", 60, numbers_that_are_none_are_refused_by_name,
        sizes_that_are_none_are_refused_by_name, the_nodes_with_keys_are_a_number_or_components,
        a_working_set_is_a_number_and_what_is_waited_for, a_long_value_is_cut_in_the_sentence,
        too_little_for_a_manager_says_what_would_do, shares_follow_manager_m_on_node_m_mod_nodes,
        the_second_copies_are_on_the_next_node, amounts_are_sizes_or_shares,
        more_than_the_job_has_says_both_figures_and_the_option);
}
