/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_lives_stream.c - a manager is killed while values come to it in pieces, and started again
 * (--restarts). Invariants: each put is made once, whichever call makes it; no value is torn; what
 * is given up, or was refused, leaves nothing.
 */
#include "client_lives_dict.h"
#include "client_strays.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG 700000u /* 6 pieces */
static unsigned char value[LONG];

/* --- the calls that send a value --- */
static void put_plain(const char *key, size_t len) {
    ok(ddict_put(d, key, strlen(key), value, len, DDICT_NEW, 60000));
}

/* The manager reads it where it was built. */
static void put_place(const char *key, size_t len) {
    struct ddict_place p;
    ok(ddict_reserve(d, key, strlen(key), len, DDICT_NEW, &p));
    memcpy(p.data, value, len);
    ok(ddict_commit(&p, 60000));
}

static void put_many(const char *key, size_t len) {
    struct ddict_pair p[2] = {
        {.key = key, .klen = strlen(key), .val = value, .vlen = len, .flags = DDICT_NEW},
        {.key = "beside", .klen = 6, .val = value, .vlen = len}};
    ck_assert_int_eq(ddict_put_many(d, p, 2, 60000), 2);
    ck_assert(p[0].status == 0 && p[1].status == 0);
}

static void put_async(const char *key, size_t len) {
    ddict_async_t *q;
    struct ddict_op put = {.what = DDICT_OP_PUT,
                           .key = key,
                           .klen = strlen(key),
                           .buf = value,
                           .len = len,
                           .flags = DDICT_NEW,
                           .timeout_ms = 60000},
                    done;
    ok(ddict_async_open(d, &q));
    ck_assert_int_eq(ddict_async_submit(q, &put, 1), 1);
    ck_assert_int_eq(ddict_async_poll(q, &done, 1, 60000), 1);
    ck_assert_int_eq(done.status, 0);
    ddict_async_close(q);
}

/* Behind nothing, and behind another value. */
static void put_queue(const char *key, size_t len) {
    struct ddict_view v;
    ok(ddict_push(d, key, strlen(key), "first", 5, 0, 0, 60000));
    ok(ddict_push(d, key, strlen(key), value, len, 0, 0, 60000));
    ok(ddict_pop(d, key, strlen(key), &v, 0, 60000));
    ck_assert(v.len == 5 && memcmp(v.data, "first", 5) == 0);
    ddict_release(&v);
}

static void (*const puts_of[])(const char *key, size_t len) = {put_plain, put_place, put_many,
                                                               put_async, put_queue};
#define WAYS (sizeof puts_of / sizeof *puts_of)

/* There is one value of the key, and it is right; it is taken away. */
static void taken(const char *key, unsigned seed, size_t len) {
    struct ddict_view v;
    ok(ddict_pop(d, key, strlen(key), &v, 0, 60000));
    ck_assert_msg(v.len == len && value_is(v.data, v.len, seed), "%s: not value %u", key, seed);
    ddict_release(&v);
    fails(DDICT_ENOKEY, ddict_pop(d, key, strlen(key), &v, 0, 60000));
}

static void round_of(unsigned w, unsigned i) {
    char key[32];
    size_t len = i % 3 ? LONG : LONG / 2 + i;
    sprintf(key, "own %u %u", w, i % 7);
    value_fill(value, LONG, i);
    puts_of[i % WAYS](key, len);
    taken(key, i, len);
}

/* --- at each step --- */
static void one_by_one(const char *step, unsigned n) {
    char die[32];
    sprintf(die, "%s:%u", step, n);
    setenv("DDICT_TEST_DIE", die, 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_DIE");
    dict_managers(&x, d);
    pid_t first = x.manager[0];
    for (unsigned i = 0; i < 5 * WAYS; i++)
        round_of(0, i);
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[0], first);
    ddict_del(d, "beside", 6, 20000);
    ck_assert_int_eq(ddict_len(d, 20000), 0);
    memory_fill(); /* no block is left behind */
    end();
}

/* A value has a header and 6 pieces: each is the n-th record of a life for some n. */
static void at_each(const char *step) {
    static const unsigned n[] = {2, 3, 5, 8, 13};
    for (unsigned i = 0; i < sizeof n / sizeof *n; i++)
        one_by_one(step, n[i]);
}

START_TEST(a_piece_that_was_begun_is_taken) {
    at_each("begun");
}
END_TEST

START_TEST(a_value_that_was_put_is_answered) {
    for (unsigned n = 1; n < 4; n++)
        one_by_one("changed", n);
}
END_TEST

/* A piece that is in its block is not taken again. */
START_TEST(a_piece_that_was_taken_is_over) {
    at_each("answered");
}
END_TEST

START_TEST(the_next_piece_is_taken) {
    at_each("taken");
}
END_TEST

/* --- at any moment --- */
START_TEST(writers_of_long_values_notice_no_kill) {
    enum { WRITERS = 3, ROUNDS = 40, KILLS = 12 };
    pid_t p[WRITERS];
    unsigned seed = 99;
    begin(1, 1, "16");
    dict_managers(&x, d);
    for (unsigned w = 0; w < WRITERS; w++)
        if ((p[w] = fork()) == 0) {
            for (unsigned i = 0; i < ROUNDS; i++) {
                round_of(w, i);
                memcpy(value, &w, sizeof w);
                memcpy(value + sizeof w, &i, sizeof i);
                ok(ddict_push(d, "all", 3, value, LONG / 4, 0, 0, 60000));
            }
            _exit(strays_came(d));
        }
    for (unsigned i = 0; i < KILLS; i++) {
        seed = seed * 1103515245 + 12345;
        usleep(20000 + seed / 65536 % 100000);
        manager_kill(0);
        manager_came_back(0);
    }
    for (unsigned w = 0; w < WRITERS; w++)
        expect_exit(p[w], 0);
    unsigned next[WRITERS] = {0};
    for (unsigned i = 0; i < WRITERS * ROUNDS; i++) {
        struct ddict_view v;
        unsigned who[2];
        ok(ddict_pop(d, "all", 3, &v, 0, 20000));
        memcpy(who, v.data, sizeof who);
        ck_assert_uint_eq(v.len, LONG / 4);
        ddict_release(&v);
        ck_assert_uint_lt(who[0], WRITERS);
        ck_assert_uint_eq(who[1], next[who[0]]++); /* in order, each once */
    }
    ddict_del(d, "beside", 6, 20000);
    ck_assert_int_eq(ddict_len(d, 20000), 0);
    memory_fill();
    end();
}
END_TEST

/* --- in the middle --- */
struct putter {
    pthread_t thread;
    int rc;
    char text[256];
};

static void *is_putting(void *arg) {
    struct putter *p = arg;
    p->rc = ddict_put(d, "k", 1, value, LONG, DDICT_NEW, 120000);
    snprintf(p->text, sizeof p->text, "%s", p->rc < 0 ? ddict_errmsg() : "");
    return NULL;
}

static void begin_slowly(const char *piece_ms) {
    setenv("DDICT_TEST_PIECE_MS", piece_ms, 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_PIECE_MS");
    dict_managers(&x, d);
    value_fill(value, LONG, 7);
}

/* The child of ddictd that is not `was`, without a word to it. */
static pid_t manager_other_than(pid_t was) {
    char path[64];
    int pid = 0;
    double until = now_s() + 30;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)x.pid[0], (int)x.pid[0]);
    while (pid <= 0 || pid == was) {
        FILE *f = fopen(path, "r");
        if (!f || fscanf(f, "%d", &pid) != 1)
            pid = 0;
        if (f)
            fclose(f);
        ck_assert_msg(now_s() < until, "no manager is started");
        usleep(1000);
    }
    return pid;
}

/* Some lives take a part of it each. A process that ends in the middle leaves nothing. */
START_TEST(a_value_comes_over_some_lives) {
    struct putter p;
    begin_slowly("300");
    ck_assert_int_eq(pthread_create(&p.thread, NULL, is_putting, &p), 0);
    pid_t child = fork();
    if (child == 0) {
        ddict_put(d, "other", 5, value, LONG, 0, 120000);
        _exit(0);
    }
    for (unsigned i = 0; i < 3; i++) {
        usleep(500000);
        manager_kill(0);
        x.manager[0] = manager_other_than(x.manager[0]);
    }
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    pthread_join(p.thread, NULL);
    ck_assert_int_eq(p.rc, 0);
    taken("k", 7, LONG);
    end();
}
END_TEST

/*
 * Where the next life cannot keep what is there of it, the put is refused, and the client goes on. The
 * life before ends at one of the first pieces, which is in the block, and in SQ.
 */
START_TEST(a_value_whose_beginning_is_lost_is_refused) {
    for (unsigned n = 3; n <= 5; n++) {
        char die[32];
        sprintf(die, "answered:%u", n);
        setenv("DDICT_TEST_DIE", die, 1);
        setenv("DDICT_TEST_DIE_LIVES", "1", 1);
        setenv("DDICT_TEST_KEEP_REFUSED", "1", 1);
        begin(1, 1, "16");
        unsetenv("DDICT_TEST_DIE");
        unsetenv("DDICT_TEST_DIE_LIVES");
        unsetenv("DDICT_TEST_KEEP_REFUSED");
        value_fill(value, LONG, 7);
        fails(DDICT_ELOST, ddict_put(d, "k", 1, value, LONG, DDICT_NEW, 60000));
        ck_assert_str_eq(ddict_errmsg(), "the value was lost with the manager");
        put_plain("k", LONG);
        taken("k", 7, LONG);
        memory_fill();
        end();
    }
}
END_TEST

/* A piece at which two lives end by a fault is not taken again: the put is refused. */
START_TEST(a_piece_that_ended_two_lives_is_refused) {
    struct rlimit none = {0, 0};
    struct putter p;
    struct ddict_view v;
    setrlimit(RLIMIT_CORE, &none);
    begin_slowly("1500");
    ck_assert_int_eq(pthread_create(&p.thread, NULL, is_putting, &p), 0);
    for (unsigned i = 0; i < 2; i++) {
        usleep(700000); /* it sleeps before the first piece */
        ck_assert_int_eq(kill(x.manager[0], SIGABRT), 0);
        x.manager[0] = manager_other_than(x.manager[0]);
    }
    pthread_join(p.thread, NULL);
    ck_assert_int_eq(p.rc, DDICT_ELOST);
    ck_assert_msg(strstr(p.text, "ended 2 times at this request"), "%s", p.text);
    fails(DDICT_ENOKEY, ddict_pop(d, "k", 1, &v, 0, 60000));
    ok(ddict_put(d, "k", 1, value, 1000, DDICT_NEW, 60000));
    taken("k", 7, 1000);
    memory_fill();
    end();
}
END_TEST

/* The same of its header, which has an entry by then: the client goes on. */
START_TEST(a_value_that_ended_two_lives_when_it_began_is_refused) {
    setenv("DDICT_TEST_DIE", "answered:1", 1);
    setenv("DDICT_TEST_DIE_LIVES", "3", 1); /* the first at the STATS of begin() */
    setenv("DDICT_TEST_DIE_CODE", "3", 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_DIE");
    unsetenv("DDICT_TEST_DIE_LIVES");
    unsetenv("DDICT_TEST_DIE_CODE");
    value_fill(value, LONG, 7);
    fails(DDICT_ELOST, ddict_put(d, "k", 1, value, LONG, DDICT_NEW, 60000));
    ck_assert_msg(strstr(ddict_errmsg(), "ended 2 times at this request"), "%s", ddict_errmsg());
    put_plain("k", LONG);
    taken("k", 7, LONG);
    memory_fill();
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {a_piece_that_was_begun_is_taken,
                                  a_value_that_was_put_is_answered,
                                  a_piece_that_was_taken_is_over,
                                  the_next_piece_is_taken,
                                  writers_of_long_values_notice_no_kill,
                                  a_value_comes_over_some_lives,
                                  a_value_whose_beginning_is_lost_is_refused,
                                  a_piece_that_ended_two_lives_is_refused,
                                  a_value_that_ended_two_lives_when_it_began_is_refused};
    return tests_main("client_lives_stream", argc, argv, tests, sizeof tests / sizeof *tests);
}
