/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_lives_wait.c - a manager is killed while requests wait for their key or for events, and
 * started again (--restarts). Invariants: who waits is answered once, in order, with the value that
 * was put for it, or when its time is over; a request at which the manager dies each time is refused.
 */
#include "client_lives_dict.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct blocked {
    pthread_t thread;
    const char *key;
    int timeout_ms, rc;
    bool pops;
    unsigned seed;
    double took;
};

static void *is_blocked(void *arg) {
    struct blocked *b = arg;
    struct ddict_view v;
    double began = now_s();
    b->rc = (b->pops ? ddict_pop : ddict_view)(d, b->key, strlen(b->key), &v, DDICT_WAIT,
                                               b->timeout_ms);
    b->took = now_s() - began;
    if (b->rc == 0 && !value_is(v.data, v.len, b->seed))
        b->rc = -EBADMSG;
    if (b->rc == 0)
        ddict_release(&v);
    return NULL;
}

static void blocked_begin(struct blocked *b) {
    ck_assert_int_eq(pthread_create(&b->thread, NULL, is_blocked, b), 0);
}

/* Views and pops that wait outlive two managers, the order of the pops and each one's time, too. */
START_TEST(who_waits_is_answered_by_the_next_life) {
    /* lengths of keys, of which 64 bytes go into an entry, and 232 into each further one */
    enum { POPS = 5, VIEWS = 5 };
    static const size_t lens[VIEWS] = {1, 64, 65, 297, DDICT_KEY_MAX};
    static char name[VIEWS][DDICT_KEY_MAX + 1];
    struct blocked view[VIEWS], pop[POPS], late = {.key = "never", .timeout_ms = 8000};
    struct ddict_view v;
    begin(1, 1, "16");
    keys_put(0);
    for (unsigned i = 0; i < VIEWS; i++) {
        for (size_t at = 0; at < lens[i]; at++)
            name[i][at] = (char)('a' + at % 25);
        view[i] = (struct blocked){.key = name[i], .timeout_ms = 60000, .seed = 1 + i};
        blocked_begin(&view[i]);
    }
    blocked_begin(&late);
    for (unsigned i = 0; i < POPS; i++) {
        pop[i] = (struct blocked){.key = "q", .timeout_ms = 60000, .pops = true, .seed = 10 + i};
        blocked_begin(&pop[i]);
        usleep(300000); /* in this order */
    }
    for (int i = 0; i < 2; i++) {
        quiet_wait();
        manager_kill(0);
        manager_came_back(0);
    }
    for (unsigned i = 0; i < VIEWS; i++) {
        value_fill(val, LEN, 1 + i);
        ok(ddict_put(d, view[i].key, strlen(view[i].key), val, LEN, 0, 20000));
    }
    for (unsigned i = 0; i < POPS + 1; i++) {
        value_fill(val, LEN, 10 + i);
        ok(ddict_push(d, "q", 1, val, LEN, 0, 0, 20000));
    }
    for (unsigned i = 0; i < VIEWS; i++) {
        pthread_join(view[i].thread, NULL);
        ck_assert_int_eq(view[i].rc, 0);
        ok(ddict_del(d, view[i].key, strlen(view[i].key), 20000));
    }
    for (unsigned i = 0; i < POPS; i++) {
        pthread_join(pop[i].thread, NULL);
        ck_assert_int_eq(pop[i].rc, 0);
    }
    ok(ddict_pop(d, "q", 1, &v, 0, 20000)); /* each took one */
    ck_assert(value_is(v.data, v.len, 10 + POPS));
    ddict_release(&v);
    pthread_join(late.thread, NULL);
    ck_assert_int_eq(late.rc, -ETIMEDOUT);
    ck_assert_msg(late.took > 7.9 && late.took < 14, "after %.1f s", late.took);
    keys_check(0);
    end();
}
END_TEST

/*
 * A put finds more who wait than it has time for; the value is deleted, and its memory used again.
 * All get it nevertheless.
 */
START_TEST(who_was_woken_gets_the_value) {
    enum { HEADS = 6, WAIT = 10 };
    ddict_async_t *q;
    struct blocked head[HEADS];
    struct ddict_op view = {.what = DDICT_OP_VIEW,
                            .key = "k",
                            .klen = 1,
                            .flags = DDICT_WAIT,
                            .timeout_ms = 30000},
                    done[WAIT];
    setenv("DDICT_TEST_WAKE_MS", "300", 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_WAKE_MS");
    keys_put(0);
    ok(ddict_async_open(d, &q));
    /* HEADs come first, and are being answered when the manager dies: no answer in CQ names the
     * value, so the ledger alone keeps it */
    for (unsigned i = 0; i < HEADS; i++) {
        head[i] = (struct blocked){.key = "k", .timeout_ms = 8000, .seed = 77};
        blocked_begin(&head[i]);
    }
    usleep(300000);
    for (unsigned i = 0; i < WAIT; i++)
        ck_assert_int_eq(ddict_async_submit(q, &view, 1), 1);
    quiet_wait();
    value_fill(val, LEN, 77);
    ok(ddict_put(d, "k", 1, val, LEN, 0, 20000));
    ok(ddict_del(d, "k", 1, 20000));
    manager_kill(0); /* each answer takes 300 ms, so most are left */
    manager_came_back(0);
    pid_t p = fork();
    if (p == 0) { /* who has no part in that lane */
        memory_fill();
        _exit(0);
    }
    expect_exit(p, 0);
    for (unsigned n = 0; n < WAIT;) {
        int got = ddict_async_poll(q, done + n, WAIT - n, 20000);
        ck_assert_int_gt(got, 0);
        n += (unsigned)got;
    }
    for (unsigned i = 0; i < WAIT; i++) {
        ck_assert_int_eq(done[i].status, 0);
        ck_assert(value_is(done[i].view.data, done[i].view.len, 77));
        ddict_release(&done[i].view);
    }
    ddict_async_close(q);
    for (unsigned i = 0; i < HEADS; i++)
        pthread_join(head[i].thread, NULL);
    keys_check(0);
    end();
}
END_TEST

/* Where the next life cannot keep that value, those are told so; nobody is forgotten. */
START_TEST(who_was_woken_is_told_that_the_value_is_lost) {
    enum { WAIT = 6 };
    ddict_async_t *q;
    struct ddict_op view = {.what = DDICT_OP_VIEW,
                            .key = "k",
                            .klen = 1,
                            .flags = DDICT_WAIT,
                            .timeout_ms = 30000},
                    done;
    unsigned lost = 0;
    setenv("DDICT_TEST_WAKE_MS", "300", 1);
    setenv("DDICT_TEST_KEEP_REFUSED", "100", 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_WAKE_MS");
    unsetenv("DDICT_TEST_KEEP_REFUSED");
    ok(ddict_async_open(d, &q));
    for (unsigned i = 0; i < WAIT; i++)
        ck_assert_int_eq(ddict_async_submit(q, &view, 1), 1);
    quiet_wait();
    value_fill(val, LEN, 77);
    ok(ddict_put(d, "k", 1, val, LEN, 0, 20000));
    ok(ddict_del(d, "k", 1, 20000)); /* all are woken when it is answered */
    manager_kill(0);                 /* each answer takes 300 ms, so most are left */
    manager_came_back(0);
    for (unsigned i = 0; i < WAIT; i++) {
        ck_assert_int_eq(ddict_async_poll(q, &done, 1, 20000), 1);
        if (done.status == 0) {
            ck_assert(value_is(done.view.data, done.view.len, 77));
            ddict_release(&done.view);
            continue;
        }
        ck_assert_int_eq(done.status, DDICT_ELOST);
        ck_assert_str_eq(done.text, "the value was lost with the manager");
        free(done.text);
        lost++;
    }
    ck_assert_uint_gt(lost, 0);
    ddict_async_close(q);
    memory_fill();
    end();
}
END_TEST

/* One pop after the other waits, and is served by a put of its own; the manager dies at each `step`. */
static void one_by_one(const char *step) {
    enum { ROUND = 12 };
    struct ddict_manager_stats *s;
    setenv("DDICT_TEST_DIE", step, 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_DIE");
    dict_managers(&x, d);
    pid_t first = x.manager[0];
    while (kill(first, 0) == 0) { /* so that its next lives count from here */
        ok(ddict_put(d, "another", 7, "", 0, 0, 20000));
        usleep(200000);
    }
    for (unsigned i = 0; i < ROUND; i++) {
        char key[16];
        size_t n = name_of(key, i);
        struct blocked b = {.key = key, .timeout_ms = 60000, .pops = true, .seed = i};
        blocked_begin(&b);
        usleep(300000);
        value_fill(val, LEN, i);
        ok(ddict_put(d, key, n, val, LEN, 0, 20000));
        pthread_join(b.thread, NULL);
        ck_assert_int_eq(b.rc, 0);
    }
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[0], first);
    ck_assert_int_eq(ddict_stats(d, &s, sizeof *s, 20000), 1);
    ck_assert_uint_eq(s->gets_local, ROUND); /* nobody was answered twice */
    free(s);
    end();
}

/* At the change of each pop: the next life answers it. */
START_TEST(a_pop_that_waited_is_answered_by_what_it_took) {
    one_by_one("changed:2");
}
END_TEST

/* At the end of each entry: the next life finds the answer. */
START_TEST(who_waited_and_was_answered_is_not_answered_again) {
    one_by_one("answered:3");
}
END_TEST

/* Its life dies between the entry and SQ head, eight times: it waits once all the same. */
START_TEST(who_was_about_to_wait_waits_once) {
    struct blocked pop = {.key = "q", .timeout_ms = 60000, .pops = true, .seed = 1};
    struct ddict_view v;
    setenv("DDICT_TEST_DIE", "answered:1", 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_DIE");
    blocked_begin(&pop);
    quiet_wait();
    for (unsigned i = 1; i <= 2; i++) {
        value_fill(val, LEN, i);
        ok(ddict_push(d, "q", 1, val, LEN, 0, 0, 20000));
    }
    pthread_join(pop.thread, NULL);
    ck_assert_int_eq(pop.rc, 0);
    ok(ddict_pop(d, "q", 1, &v, 0, 20000)); /* nobody else has taken it */
    ck_assert(value_is(v.data, v.len, 2));
    ddict_release(&v);
    end();
}
END_TEST

static void *kills(void *arg) {
    quiet_wait();
    manager_kill(0);
    return NULL;
}

/* A subscriber that waits is told once what it missed, and then each event once. */
START_TEST(who_waits_for_events_is_told_what_it_missed) {
    ddict_sub_t *sub;
    struct ddict_event e;
    begin(1, 1, "16");
    ok(ddict_subscribe(d, "e", 1, 0, &sub, -1));
    for (unsigned i = 0; i < 3; i++) {
        pthread_t t;
        dict_managers(&x, d);
        ck_assert_int_eq(pthread_create(&t, NULL, kills, NULL), 0);
        ck_assert_int_eq(ddict_next_event(sub, &e, 20000), 1); /* it waits in the manager */
        ck_assert_int_eq(e.kind, DDICT_EVENT_MISSED);
        pthread_join(t, NULL);
        manager_came_back(0);
        ok(ddict_put(d, "e1", 2, &i, sizeof i, 0, 20000));
        ck_assert_int_eq(ddict_next_event(sub, &e, 20000), 1);
        ck_assert(e.kind == DDICT_EVENT_PUT && e.klen == 2 && memcmp(e.key, "e1", 2) == 0);
        ck_assert_int_eq(ddict_next_event(sub, &e, 300), 0);
    }
    ddict_unsubscribe(sub);
    end();
}
END_TEST

/* A manager that ends by a fault each time when it comes to a request goes on without it. */
START_TEST(a_request_that_ended_two_lives_is_refused) {
    struct blocked pop = {.key = "awaited", .timeout_ms = 60000, .pops = true};
    struct ddict_view v;
    setenv("DDICT_TEST_EXIT", "POP:3", 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_EXIT");
    keys_put(0);
    fails(DDICT_ELOST, ddict_pop(d, "key 1", 5, &v, 0, 20000));
    ck_assert_msg(strstr(ddict_errmsg(), "ended 2 times at this request"), "%s", ddict_errmsg());
    keys_check(0);
    blocked_begin(&pop);
    usleep(500000); /* it has waited when it finds its value */
    ok(ddict_put(d, "awaited", 7, "1", 1, 0, 20000));
    pthread_join(pop.thread, NULL);
    ck_assert_int_eq(pop.rc, DDICT_ELOST);
    ok(ddict_del(d, "awaited", 7, 20000)); /* nobody took it */
    fails(DDICT_ELOST, ddict_pop(d, "key 1", 5, &v, 0, 20000));
    keys_check(0);
    end();
}
END_TEST

/* Also where it waits by then: nobody is left that takes the value. */
START_TEST(a_request_that_ended_two_lives_when_it_began_to_wait_is_refused) {
    struct blocked pop = {.key = "awaited", .timeout_ms = 60000, .pops = true};
    setenv("DDICT_TEST_DIE", "answered:1", 1);
    setenv("DDICT_TEST_DIE_LIVES", "3", 1); /* the first at the STATS of begin() */
    setenv("DDICT_TEST_DIE_CODE", "3", 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_DIE");
    unsetenv("DDICT_TEST_DIE_LIVES");
    unsetenv("DDICT_TEST_DIE_CODE");
    blocked_begin(&pop);
    pthread_join(pop.thread, NULL);
    ck_assert_int_eq(pop.rc, DDICT_ELOST);
    ok(ddict_put(d, "awaited", 7, "1", 1, 0, 20000));
    ok(ddict_del(d, "awaited", 7, 20000));
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {who_waits_is_answered_by_the_next_life,
                                  who_was_woken_gets_the_value,
                                  who_was_woken_is_told_that_the_value_is_lost,
                                  a_pop_that_waited_is_answered_by_what_it_took,
                                  who_waited_and_was_answered_is_not_answered_again,
                                  who_was_about_to_wait_waits_once,
                                  who_waits_for_events_is_told_what_it_missed,
                                  a_request_that_ended_two_lives_is_refused,
                                  a_request_that_ended_two_lives_when_it_began_to_wait_is_refused};
    return tests_main("client_lives_wait", argc, argv, tests, sizeof tests / sizeof *tests);
}
