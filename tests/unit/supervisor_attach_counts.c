/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor_attach_counts.c - counts of attached processes by step: each process once, those of
 * other nodes once however often they are told. */
#include "unit.h"
#include <supervisor/attach_counts.h>
#include <supervisor/supervisor.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct supervisor s;
static char *text;

static void before(void) {
    memset(&s, 0, sizeof s);
    ck_assert_int_eq(attach_counts_init(&s), 0);
}
static void after(void) {
    attach_counts_end(&s);
    free(text);
    text = NULL;
}

static const char *json(void) {
    size_t len;
    free(text);
    FILE *f = open_memstream(&text, &len);
    attach_counts_json(&s, f);
    fclose(f);
    return text;
}

START_TEST(a_process_that_attaches_twice_counts_once) {
    ck_assert_str_eq(json(), "[]");
    for (int i = 0; i < 5; i++)
        attach_counts_add(&s, "12.1", getpid());
    ck_assert_str_eq(json(), "[{\"step\":\"12.1\",\"processes\":1}]");
    attach_counts_add(&s, "12.1", getppid());
    attach_counts_add(&s, "12.2", getpid()); /* one process, two steps: as it says */
    ck_assert_str_eq(json(),
                     "[{\"step\":\"12.1\",\"processes\":2},{\"step\":\"12.2\",\"processes\":1}]");
}
END_TEST

START_TEST(processes_that_can_not_be_seen_count_each_time) {
    for (int i = 0; i < 1000; i++)
        attach_counts_add(&s, "12.1", 0);
    ck_assert_str_eq(json(), "[{\"step\":\"12.1\",\"processes\":1000}]");
}
END_TEST

START_TEST(steps_come_in_the_order_of_their_numbers) {
    const char *names[] = {"12.10", "12.batch", "12.9", "9.1", "-", "12.interactive"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        attach_counts_add(&s, names[i], getpid());
    const char *order[] = {"\"-\"",     "\"9.1\"",      "\"12.9\"",
                           "\"12.10\"", "\"12.batch\"", "\"12.interactive\""};
    const char *at = json();
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        ck_assert_ptr_nonnull(at = strstr(at, order[i]));
}
END_TEST

START_TEST(what_a_client_says_can_not_break_the_line) {
    const char *bad[] = {"", "12.\"1", "12.1\n", "a b", "\\", "12.\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        attach_counts_add(&s, bad[i], 0);
    ck_assert_str_eq(json(), "[{\"step\":\"-\",\"processes\":6}]");
}
END_TEST

START_TEST(other_nodes_are_added_and_replace_what_they_said) {
    attach_counts_add(&s, "12.1", getpid());
    for (int i = 0; i < 3; i++) {
        attach_counts_set(&s, 1, "12.1", 7);
        attach_counts_set(&s, 2, "12.1", 1);
        attach_counts_set(&s, 2, "12.2", 0);
    }
    ck_assert_str_eq(json(), "[{\"step\":\"12.1\",\"processes\":9}]");
}
END_TEST

/* As at the end on node 0: some pass over all for each would take minutes. */
START_TEST(many_nodes_with_many_steps_are_counted_and_a_limit_holds) {
    char step[STEP_NAME_MAX];
    for (int again = 0; again < 2; again++)
        for (uint32_t node = 1; node <= 300; node++)
            for (unsigned i = 0; i < 200; i++) {
                snprintf(step, sizeof step, "12.%u", i);
                attach_counts_set(&s, node, step, node);
            }
    const char *at = json();
    for (unsigned i = 0; i < 200; i++) {
        char want[80];
        snprintf(want, sizeof want, "{\"step\":\"12.%u\",\"processes\":45150}", i);
        ck_assert_ptr_nonnull(at = strstr(at, want));
    }
    for (unsigned i = 0; i < 70000; i++) {
        snprintf(step, sizeof step, "13.%u", i);
        attach_counts_set(&s, 1, step, 1);
    }
    ck_assert_ptr_nonnull(strstr(json(), "\"13.5535\""));
    ck_assert_ptr_null(strstr(text, "\"13.5536\""));
    attach_counts_set(&s, 300, "12.0", 1); /* one that is there still changes */
    ck_assert_ptr_nonnull(strstr(json(), "\"processes\":44851}"));
}
END_TEST

UNIT_MAIN_WITH("supervisor_attach_counts", before, after, a_process_that_attaches_twice_counts_once,
               processes_that_can_not_be_seen_count_each_time,
               steps_come_in_the_order_of_their_numbers, what_a_client_says_can_not_break_the_line,
               other_nodes_are_added_and_replace_what_they_said,
               many_nodes_with_many_steps_are_counted_and_a_limit_holds)
