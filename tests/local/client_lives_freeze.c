/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_lives_freeze.c - managers are killed while the dictionary is being frozen or unfrozen, and
 * started again (--restarts). Invariants: the call ends well, once, and then all managers are in the
 * state that it wanted.
 */
#include "client_dict.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB      (1u << 20)
#define MANAGERS 2

static struct dict x;
static ddict_t *d; /* on node 0; it asks manager 0 */

static void begin(int nodes, const char *die) {
    setenv("DDICT_RESTARTS", "16", 1);
    if (die) {
        setenv("DDICT_TEST_DIE", die, 1);
        setenv("DDICT_TEST_MANAGER", "0", 1);
    }
    d = dict_begin(&x, nodes, MANAGERS, 64 * MIB);
    unsetenv("DDICT_TEST_DIE");
    unsetenv("DDICT_TEST_MANAGER");
    dict_managers(&x, d);
}

static void end(void) {
    dict_managers(&x, d); /* those that dict_stop() waits for */
    dict_end(&x, d);
}

static void manager_kill(int m) {
    pid_t was = x.manager[m];
    ck_assert(was > 0 && kill(was, SIGKILL) == 0);
    while (kill(was, 0) == 0) /* ddictd has waited for it */
        usleep(500);
}

static int set(bool frozen) {
    return frozen ? ddict_freeze(d, 60000) : ddict_unfreeze(d, 60000);
}

/* Each manager refuses to write, or does not. */
static void state_check(bool frozen) {
    for (unsigned m = 0; m < MANAGERS; m++) {
        char key[32];
        size_t n = key_of(d, m, 0, key, sizeof key);
        int rc = ddict_put(d, key, n, "1", 1, 0, 20000);
        ck_assert_msg(rc == (frozen ? DDICT_EFROZEN : 0), "manager %u: %d", m, rc);
    }
}

struct setting {
    pthread_t thread;
    bool frozen;
    int rc;
};

static void *is_setting(void *arg) {
    struct setting *s = arg;
    s->rc = set(s->frozen);
    return NULL;
}

/* Manager 1 stands still, so nobody is told that it is done; `victim` is killed meanwhile. */
static void under_way(bool frozen, int victim) {
    struct setting s = {.frozen = frozen};
    pid_t stopped = x.manager[1];
    ck_assert(kill(stopped, SIGSTOP) == 0);
    ck_assert_int_eq(pthread_create(&s.thread, NULL, is_setting, &s), 0);
    usleep(500000);
    manager_kill(victim);
    usleep(300000);
    if (victim != 1)
        ck_assert(kill(stopped, SIGCONT) == 0);
    pthread_join(s.thread, NULL);
    ck_assert_int_eq(s.rc, 0);
    dict_managers(&x, d);
    state_check(frozen);
}

static void under_way_on(int nodes) {
    begin(nodes, NULL);
    for (int victim = 0; victim < MANAGERS; victim++) {
        under_way(true, victim);
        under_way(false, victim);
    }
    end();
}

START_TEST(a_freeze_under_way_goes_on) {
    under_way_on(1);
}
END_TEST

START_TEST(a_freeze_of_two_nodes_goes_on) {
    under_way_on(2);
}
END_TEST

/* The manager that is asked dies at each n-th such step, in its first 8 lives. */
static void at_each(const char *step) {
    for (unsigned n = 3; n <= 5; n++) {
        char die[32];
        sprintf(die, "%s:%u", step, n);
        begin(1, die);
        pid_t first = x.manager[0];
        for (unsigned i = 0; i < 30; i++) {
            ok(set(i % 2 == 0));
            state_check(i % 2 == 0);
        }
        dict_managers(&x, d);
        ck_assert_msg(x.manager[0] != first, "no life ended");
        end();
    }
}

START_TEST(a_freeze_that_was_begun_is_carried_out) {
    at_each("begun");
}
END_TEST

START_TEST(a_freeze_that_was_answered_is_over) {
    at_each("answered");
}
END_TEST

START_TEST(what_follows_a_freeze_is_done) {
    at_each("taken");
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {a_freeze_under_way_goes_on, a_freeze_of_two_nodes_goes_on,
                                  a_freeze_that_was_begun_is_carried_out,
                                  a_freeze_that_was_answered_is_over,
                                  what_follows_a_freeze_is_done};
    return tests_main("client_lives_freeze", argc, argv, tests, sizeof tests / sizeof *tests);
}
