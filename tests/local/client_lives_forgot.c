/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_lives_forgot.c - a manager dies with what the next life knows nothing of (PROTOCOL 12, FORGOT), and
 * with values that it is sending in pieces. Invariants: the dictionary goes on; what only reads has its
 * answer; a change that fails with DDICT_ELOST has happened once or not at all, every other one once; a
 * value that was popped comes whole, to one process.
 */
#include "client_lives_dict.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ddict_async_t *q;

static void submit(struct ddict_op op, const char *key, size_t n) {
    op.key = key;
    op.klen = n;
    op.timeout_ms = 60000;
    op.status = 0;
    ck_assert_int_eq(ddict_async_submit(q, &op, 1), 1);
}

static void poll_one(struct ddict_op *done) {
    ck_assert_int_eq(ddict_async_poll(q, done, 1, 60000), 1);
}

static bool is_there(const char *key, size_t n, const void *value, size_t len) {
    struct ddict_view v;
    int rc = ddict_view(d, key, n, &v, 0, 20000);
    ck_assert_msg(rc == 0 || rc == DDICT_ENOKEY, "%s", ddict_errmsg());
    if (rc == 0) {
        ck_assert(v.len == len && memcmp(v.data, value, len) == 0);
        ddict_release(&v);
    }
    return rc == 0;
}

/* --- parked, while its owner stands still --- */
static unsigned char large[16 * MIB];

START_TEST(what_was_parked_is_lost_or_asked_again) {
    enum { OPS = 180, EVERY = 3, VALUE = 60000 }; /* more than DD_COPIES_MAX */
    static unsigned char value[VALUE];
    char key[64], there[64], whole[64];
    unsigned lost = 0, read = 0;
    begin(2, 1, NULL);
    dict_managers(&x, d);
    size_t there_n = key_of(d, 1, OPS, there, sizeof there);
    value_fill(value, VALUE, 5);
    ok(ddict_put(d, there, there_n, value, VALUE, 0, 20000));
    ok(ddict_async_open(d, &q));
    key_of(d, 1, OPS + 1, whole, sizeof whole);
    value_fill(large, sizeof large, 9);
    ck_assert_int_eq(kill(x.manager[1], SIGSTOP), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(ddict_put(d, whole, strlen(whole), large, sizeof large, 0, 60000) != 0);
    usleep(
        500000); /* until a connection is full of it, and the owner counts as one that stands still */
    for (unsigned i = 0; i < OPS; i++) {
        struct ddict_op op = {.what = DDICT_OP_PUT, .buf = value, .len = VALUE, .flags = DDICT_NEW};
        if (i % EVERY == EVERY - 1)
            submit((struct ddict_op){.what = DDICT_OP_VIEW}, there, there_n);
        else
            submit(op, key, key_of(d, 1, i, key, sizeof key));
    }
    usleep(500000);
    manager_kill(0);
    usleep(300000);
    ck_assert_int_eq(kill(x.manager[1], SIGCONT), 0);
    for (unsigned i = 0; i < OPS; i++) {
        struct ddict_op done;
        poll_one(&done);
        if (done.what == DDICT_OP_VIEW) {
            ck_assert_msg(done.status == 0, "%d %s", done.status, done.text ? done.text : "");
            ck_assert(done.view.len == VALUE && value_is(done.view.data, VALUE, 5));
            ddict_release(&done.view);
            read++;
        } else if (done.status != 0) {
            ck_assert_msg(done.status == DDICT_ELOST && strstr(done.text, "it may have happened"),
                          "%d %s", done.status, done.text);
            lost++;
        }
        free(done.text);
    }
    ddict_async_close(q);
    expect_exit(child, 0); /* what came of it is known, and the rest is sent again */
    ck_assert(is_there(whole, strlen(whole), large, sizeof large));
    manager_came_back(0);
    unsigned found = 0, puts = OPS - OPS / EVERY;
    for (unsigned i = 0; i < OPS; i++)
        if (i % EVERY != EVERY - 1)
            found += is_there(key, key_of(d, 1, i, key, sizeof key), value, VALUE);
    ck_assert_uint_eq(read, OPS / EVERY);
    ck_assert_msg(lost > 0, "nothing was parked");
    ck_assert_msg(found >= puts - lost, "%u of %u puts are there, %u were lost", found, puts, lost);
    ok(ddict_put(d, key, 1, value, VALUE, 0, 20000));
    end();
}
END_TEST

/* --- where the ledger has no room --- */
START_TEST(what_waits_without_an_entry_waits_on) {
    enum { WAITERS = 400 }; /* a chunk has 256 entries */
    char key[32];
    setenv("DDICT_TEST_LEDGER", "1", 1);
    begin(1, 1, NULL);
    unsetenv("DDICT_TEST_LEDGER");
    dict_managers(&x, d);
    ok(ddict_async_open(d, &q));
    for (unsigned i = 0; i < WAITERS; i++)
        submit((struct ddict_op){.what = DDICT_OP_VIEW, .flags = DDICT_WAIT}, key,
               (size_t)sprintf(key, "w %u", i));
    usleep(200000);
    manager_kill(0);
    for (unsigned i = 0; i < WAITERS; i++) {
        value_fill(val, LEN, i);
        ok(ddict_put(d, key, (size_t)sprintf(key, "w %u", i), val, LEN, 0, 20000));
    }
    for (unsigned i = 0; i < WAITERS; i++) {
        struct ddict_op done;
        poll_one(&done);
        ck_assert_msg(done.status == 0, "%d %s", done.status, done.text ? done.text : "");
        ck_assert_uint_eq(done.view.len, LEN);
        ddict_release(&done.view);
    }
    ddict_async_close(q);
    manager_came_back(0);
    end();
}
END_TEST

/* --- two lives, one behind the other, end at a request by which it is asked for --- */
START_TEST(what_waits_is_not_refused_where_lives_end_at_a_question_for_it) {
    setenv("DDICT_TEST_DIE", "begun:2", 1); /* the first is what waits, in each life */
    setenv("DDICT_TEST_DIE_LIVES", "8", 1); /* two at the DEL, others at KNOWS */
    setenv("DDICT_TEST_DIE_CODE", "3", 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_DIE");
    unsetenv("DDICT_TEST_DIE_LIVES");
    unsetenv("DDICT_TEST_DIE_CODE");
    ok(ddict_async_open(d, &q));
    submit((struct ddict_op){.what = DDICT_OP_POP, .flags = DDICT_WAIT}, "queue", 5);
    fails(DDICT_ELOST, ddict_del(d, "k", 1, 20000));
    value_fill(val, LEN, 3);
    ok(ddict_push(d, "queue", 5, val, LEN, 0, 0, 20000));
    struct ddict_op done;
    poll_one(&done);
    ck_assert_msg(done.status == 0, "%d %s", done.status, done.text ? done.text : "");
    ck_assert(done.view.len == LEN && value_is(done.view.data, LEN, 3));
    ddict_release(&done.view);
    ddict_async_close(q);
    end();
}
END_TEST

/* --- keys of another node --- */
START_TEST(each_key_of_another_node_is_listed_once) {
    enum { LONG = 1500, MANY = 400, KILLS = 12 };
    static char key[LONG];
    static bool seen[MANY];
    unsigned lists = 0;
    begin(2, 1, "16");
    dict_managers(&x, d);
    memset(key, 'k', LONG);
    for (unsigned i = 0; i < MANY; i++) {
        memcpy(key, &i, sizeof i);
        ok(ddict_put(d, key, LONG, "v", 1, 0, 20000));
    }
    pid_t killer = fork();
    if (killer == 0) {
        for (unsigned i = 0; i < KILLS; i++) {
            usleep(30000);
            manager_kill(i % 2);
            manager_came_back(i % 2);
        }
        _exit(0);
    }
    for (int status = 0; waitpid(killer, &status, WNOHANG) == 0; lists++) {
        ddict_iter_t *it;
        const void *k;
        size_t n;
        int rc;
        memset(seen, 0, sizeof seen);
        ok(ddict_iter_open(d, -1, &it, 20000));
        while ((rc = ddict_iter_next(it, &k, &n)) == 1) {
            unsigned i;
            memcpy(&i, k, sizeof i);
            ck_assert(n == LONG && i < MANY && !seen[i]);
            seen[i] = true;
        }
        ck_assert_msg(rc == 0, "%s", ddict_errmsg());
        for (unsigned i = 0; i < MANY; i++)
            ck_assert(seen[i]);
        ddict_iter_close(it);
    }
    ck_assert_uint_gt(lists, KILLS);
    manager_came_back(0);
    end();
}
END_TEST

/* --- values that go out in pieces: to who has no lease left --- */
#define LONG  700000u /* 6 pieces */
#define VIEWS (1u << 20)
static struct ddict_view *taken;
static unsigned taken_n;
static unsigned char value[LONG];

static void leases_take(void) {
    ok(ddict_put(d, "k", 1, "v", 1, 0, 20000));
    taken = calloc(VIEWS, sizeof *taken);
    for (taken_n = 0; taken_n < VIEWS && ddict_view(d, "k", 1, &taken[taken_n], 0, 20000) == 0;)
        taken_n++;
    ck_assert_uint_lt(taken_n, VIEWS);
}

static void leases_give(void) {
    while (taken_n > 0)
        ddict_release(&taken[--taken_n]);
    free(taken);
    ok(ddict_del(d, "k", 1, 20000));
}

static char where[48] = "any"; /* a manager dies */

static void popped(const char *key, unsigned flags, unsigned seed) {
    struct ddict_view v;
    int rc = ddict_pop(d, key, strlen(key), &v, flags, 60000);
    ck_assert_msg(rc == 0, "%s, value %u, flags %x: %s", where, seed, flags, ddict_errmsg());
    ck_assert_msg(v.len == LONG && value_is(v.data, v.len, seed), "%s: not value %u", where, seed);
    ddict_release(&v);
}

static void *is_popping(void *arg) {
    popped("queue", DDICT_WAIT, *(unsigned *)arg);
    return NULL;
}

static void pieces_of(const char *step, unsigned n) {
    struct ddict_view v;
    sprintf(where, "%s:%u", step, n);
    setenv("DDICT_TEST_DIE", where, 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_DIE");
    dict_managers(&x, d);
    pid_t first = x.manager[0];
    leases_take();
    for (unsigned i = 0; i < 6; i++) {
        value_fill(value, LONG, i);
        ok(ddict_push(d, "queue", 5, value, LONG, 0, 0, 60000));
        popped("queue", 0, i);
    }
    for (unsigned i = 0; i < 6; i++) { /* it waits for its key */
        pthread_t t;
        ck_assert_int_eq(pthread_create(&t, NULL, is_popping, &i), 0);
        usleep(20000);
        value_fill(value, LONG, i);
        ok(ddict_push(d, "queue", 5, value, LONG, 0, 0, 60000));
        pthread_join(t, NULL);
    }
    fails(DDICT_ENOKEY, ddict_pop(d, "queue", 5, &v, 0, 60000));
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[0], first);
    leases_give();
    memory_fill(); /* no block is left behind */
    end();
}

START_TEST(a_popped_value_goes_on_behind_each_part) {
    static const unsigned n[] = {1, 2, 4, 7, 8, 11};
    for (unsigned i = 0; i < sizeof n / sizeof *n; i++) {
        pieces_of("noted", n[i]);
        pieces_of("passed", n[i]);
    }
}
END_TEST

START_TEST(a_popped_value_goes_on_at_each_step_of_its_request) {
    for (unsigned n = 1; n < 6; n++) {
        pieces_of("changed", n);
        pieces_of("answered", 7 * n + 2);
        pieces_of("taken", 7 * n + 2);
    }
}
END_TEST

START_TEST(a_popped_value_comes_whole_over_any_kill) {
    enum { VALUES = 60, KILLS = 12 };
    unsigned seed = 7;
    begin(1, 1, "16");
    dict_managers(&x, d);
    leases_take();
    pid_t killer = fork();
    if (killer == 0) {
        for (unsigned i = 0; i < KILLS; i++) {
            seed = seed * 1103515245 + 12345;
            usleep(5000 + seed / 65536 % 30000);
            manager_kill(0);
            manager_came_back(0);
        }
        _exit(0);
    }
    for (unsigned i = 0; i < VALUES || waitpid(killer, NULL, WNOHANG) == 0; i++) {
        value_fill(value, LONG, i);
        ok(ddict_push(d, "queue", 5, value, LONG, 0, 0, 60000));
        popped("queue", 0, i);
    }
    manager_came_back(0);
    leases_give();
    memory_fill();
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {what_was_parked_is_lost_or_asked_again,
                                  what_waits_without_an_entry_waits_on,
                                  what_waits_is_not_refused_where_lives_end_at_a_question_for_it,
                                  each_key_of_another_node_is_listed_once,
                                  a_popped_value_goes_on_behind_each_part,
                                  a_popped_value_goes_on_at_each_step_of_its_request,
                                  a_popped_value_comes_whole_over_any_kill};
    return tests_main("client_lives_forgot", argc, argv, tests, sizeof tests / sizeof *tests);
}
