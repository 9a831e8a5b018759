/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_up.c - the plugin's `ddict up` children: several are waited for together, so a start or an
 * end takes as long as one. Shells are in their place. */
#include "launch_test.h"
#include <base/clock.h>
#include <base/defaults.h>

#include <plugin/ddict_up.h>
#include <string.h>
#include <unistd.h>

#define READY "echo ddict1 ready name=1.2.0.3; "
#define END   "while read -r x; do :; done; echo ddict1 end; "
/* it has no answer, and its input's end is nothing to it */
#define DEAF "exec sleep 1000"

static char said[1024];

static void say(const char *line) {
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", line);
}

static void begin(const char *script) {
    static char path[] = "PATH=/usr/bin:/bin", *env[] = {path, NULL};
    static struct up_args a;

    memset(&a, 0, sizeof a);
    up_arg(&a, "/bin/sh");
    up_arg(&a, "-c");
    up_arg(&a, "%s", script);
    ck_assert_int_eq(up_spawn(&a, env, 0), 0);
}

/* Until all are ready; why one is not, and how long that took. */
static const char *ready_wait(uint64_t *ms) {
    static struct settings site;
    uint64_t begun = clock_ms();
    const char *why = up_wait(&site, say);

    *ms = clock_ms() - begun;
    return why;
}

START_TEST(all_become_ready_and_end) {
    uint64_t ms;

    begin(READY END);
    begin("echo ddict1 warn slow disk; sleep 0.2; " READY
          "echo ddict1 summary 1 key; echo ddict1 warn slow net; " END);
    ck_assert_ptr_null(ready_wait(&ms));
    up_end(say, say);
    ck_assert_str_eq(said, "component 2 of 2 of the step: slow disk\n"
                           "1.2.0.3: slow net\n1.2.0.3: 1 key\n");
}
END_TEST

START_TEST(a_start_that_fails_ends_the_wait_for_all) {
    uint64_t ms;

    begin("sleep 0.2; " READY END);
    begin("while read -r x; do :; done");
    begin("echo ddict1 error no room");
    ck_assert_str_eq(ready_wait(&ms), "component 3 of 3 of the step: no room");
    ck_assert_uint_lt(ms, 4 * DD_STOP_MS);
}
END_TEST

/* They are heard meanwhile: what they warn of, behind more than a pipe holds. */
START_TEST(those_that_are_ready_are_read_while_others_are_not) {
    uint64_t ms;

    begin(READY "yes x | head -c 200000; echo ddict1 warn slow disk; " END);
    begin("sleep 1; " READY END);
    ck_assert_ptr_null(ready_wait(&ms));
    ck_assert_str_eq(said, "1.2.0.3: slow disk\n");
    up_end(say, say);
}
END_TEST

static void lost(const char *script, const char *why) {
    uint64_t ms;

    begin(script);
    begin("while read -r x; do :; done");
    ck_assert_str_eq(ready_wait(&ms), why);
    ck_assert_uint_lt(ms, 4 * DD_STOP_MS);
}

START_TEST(one_that_is_lost_ends_the_wait_for_all) {
    lost(READY "echo ddict1 error node n1 is lost", "1.2.0.3: node n1 is lost");
}
END_TEST

START_TEST(so_does_one_that_ends_in_order) {
    lost(READY "echo ddict1 end",
         "1.2.0.3: the dictionary ended before those of the others were ready");
}
END_TEST

/* It has no more to say. */
START_TEST(one_that_was_there_before_is_not_lost) {
    uint64_t ms;

    begin("echo ddict1 exists name=1.2.0.3");
    begin("sleep 1; " READY END);
    ck_assert_ptr_null(ready_wait(&ms));
    up_end(say, say);
}
END_TEST

START_TEST(those_that_do_not_end_have_one_time_together) {
    uint64_t ms;
    int i;

    for (i = 0; i < 3; i++)
        begin(READY DEAF);
    begin("sleep 0.5; echo ddict1 error no room");
    ck_assert_str_eq(ready_wait(&ms), "component 4 of 4 of the step: no room");
    ck_assert_uint_ge(ms, 4 * DD_STOP_MS);
    ck_assert_uint_lt(ms, 2 * 4 * DD_STOP_MS);
}
END_TEST

START_TEST(also_at_the_end_of_srun) {
    uint64_t ms, begun, most = DD_DRAIN_MS + DD_DRAIN_GRACE_MS + 4 * DD_STOP_MS;

    begin(READY DEAF);
    begin(READY DEAF);
    ck_assert_ptr_null(ready_wait(&ms));
    begun = clock_ms();
    up_end(say, say);
    ms = clock_ms() - begun;
    ck_assert_uint_ge(ms, most);
    ck_assert_uint_lt(ms, 2 * most);
    ck_assert_str_eq(said, "1.2.0.3: the managers did not end in time\n"
                           "1.2.0.3: the managers did not end in time\n");
}
END_TEST

int main(void) {
    return TESTS_RUN("plugin_up", 60, all_become_ready_and_end,
                     those_that_are_ready_are_read_while_others_are_not,
                     one_that_is_lost_ends_the_wait_for_all, so_does_one_that_ends_in_order,
                     one_that_was_there_before_is_not_lost,
                     a_start_that_fails_ends_the_wait_for_all,
                     those_that_do_not_end_have_one_time_together, also_at_the_end_of_srun);
}
