/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_late.c - managers that do not answer: calls end in time, say what became of what they had
 * sent, and what is for others is done.
 */
#include "client_dict.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1u << 20)

static struct dict x;
static ddict_t *d; /* on node 0, with manager 0 */
static char big[24 * MIB];

static void begin(int nodes) {
    dict_start(&x, nodes, nodes, (uint64_t)nodes * 128 * MIB);
    d = dict_attach(&x, 0);
    value_fill(big, sizeof big, 4);
    for (unsigned m = 0; m < (unsigned)nodes; m++) { /* connections are there */
        char key[32];
        ok(ddict_put(d, key, key_of(d, m, 0, key, sizeof key), "x", 1, 0, 10000));
    }
}

static void end(void) {
    ddict_detach(d);
    dict_stop(&x);
}

/* --- a key that is waited for --- */

enum { GET, VIEW, MANY, JOB, FORMS };
static const char *const form_name[] = {"get", "view", "get of many", "job"};

static int key_await(int form, const char *key, size_t n, int ms) {
    struct ddict_view v;
    char buf[8];
    size_t len;
    if (form == GET)
        return ddict_get(d, key, n, buf, sizeof buf, &len, NULL, DDICT_WAIT, ms);
    if (form == VIEW)
        return ddict_view(d, key, n, &v, DDICT_WAIT, ms);
    if (form == MANY) {
        struct ddict_want w = {.key = key, .klen = n};
        ddict_get_many(d, &w, 1, DDICT_WAIT, ms);
        return w.status;
    }
    struct ddict_op j = {.what = DDICT_OP_VIEW,
                         .flags = DDICT_WAIT,
                         .key = key,
                         .klen = n,
                         .timeout_ms = ms},
                    done;
    ddict_async_t *q;
    ok(ddict_async_open(d, &q));
    ck_assert_int_eq(ddict_async_submit(q, &j, 1), 1);
    ck_assert_int_eq(ddict_async_poll(q, &done, 1, 5000), 1);
    ddict_async_close(q);
    free(done.text);
    return done.status;
}

/* The manager is silent: the caller does not wait for its word, which would have been that the key
 * has not come. */
START_TEST(a_wait_is_over_when_its_time_is) {
    begin(2);
    for (unsigned m = 0; m < 2; m++) {
        char key[32];
        size_t n = key_of(d, m, 9, key, sizeof key);
        kill(x.manager[m], SIGSTOP);
        for (int form = 0; form < FORMS; form++) {
            double least = 99;
            /* a busy machine is late now and then */
            for (int i = 0; i < 4 && least > 0.4; i++) {
                double t = now_s();
                ck_assert_int_eq(key_await(form, key, n, 30), -ETIMEDOUT);
                t = now_s() - t;
                least = t < least ? t : least;
            }
            ck_assert_msg(least < 0.5, "%s of manager %u: 30 ms took %.3f s at least",
                          form_name[form], m, least);
        }
        kill(x.manager[m], SIGCONT);
    }
    end();
}
END_TEST

/* --- events --- */

struct text {
    char s[24];
};

static void *fill_lane(void *arg) {
    enum { N = 3000 };
    static struct ddict_pair p[N];
    static struct text k[N];
    for (unsigned i = 0, j = 0; i < N; j++) {
        size_t n = (size_t)sprintf(k[i].s, "f%u", j);
        if (ddict_owner(d, k[i].s, n) == 0)
            p[i] = (struct ddict_pair){.key = k[i].s, .klen = n, .val = big, .vlen = 1000}, i++;
    }
    ddict_put_many(d, p, N, 2000);
    return NULL;
}

/* The lane is full: the subscription, whose prefix is long, can not ask again. */
START_TEST(next_event_is_over_when_its_time_is) {
    enum { PREFIX = 4000 };
    static char key[2][PREFIX + 16];
    ddict_sub_t *sub;
    struct ddict_event e;
    pthread_t t;
    setenv("DDICT_TIMEOUT", "4", 1);
    begin(2);
    unsetenv("DDICT_TIMEOUT");
    for (unsigned m = 0; m < 2; m++) {
        memset(key[m], 'p', PREFIX);
        for (unsigned i = 0;
             sprintf(key[m] + PREFIX, "%u", i) > 0 && ddict_owner(d, key[m], strlen(key[m])) != m;)
            i++;
    }
    ok(ddict_subscribe(d, key[0], PREFIX, 0, &sub, 10000));
    ck_assert_int_eq(ddict_next_event(sub, &e, 100), 0);
    for (unsigned m = 0; m < 2; m++)
        ok(ddict_put(d, key[m], strlen(key[m]), "x", 1, 0, 10000));
    usleep(300000); /* the events are here */
    kill(x.manager[0], SIGSTOP);
    ck_assert_int_eq(pthread_create(&t, NULL, fill_lane, NULL), 0);
    usleep(300000);
    unsigned events = 0;
    for (unsigned i = 0; i < 6; i++) {
        double began = now_s();
        int rc = ddict_next_event(sub, &e, 100);
        ck_assert_msg(rc >= 0 && now_s() - began < 3.5, "%d %s after %.2f s", rc, ddict_errmsg(),
                      now_s() - began);
        events += (unsigned)rc; /* also that of the other manager */
    }
    ck_assert_uint_eq(events, 2);
    kill(x.manager[0], SIGCONT);
    pthread_join(t, NULL);
    ok(ddict_put(d, key[0], strlen(key[0]), "y", 1, 0, 10000));
    ck_assert_int_eq(ddict_next_event(sub, &e, 10000), 1);
    ck_assert_uint_eq(e.manager, 0);
    ddict_unsubscribe(sub);
    end();
}
END_TEST

/* The manager whose keys are to be listed is silent. */
START_TEST(a_listing_does_not_keep_next_event_longer) {
    enum { N = 200 };
    ddict_sub_t *sub;
    struct ddict_event e;
    char key[32];
    begin(2);
    for (unsigned i = 0; i < N; i++)
        ok(ddict_put(d, key, key_of(d, 1, 20 + i, key, sizeof key), "x", 1, 0, 10000));
    ok(ddict_subscribe(d, NULL, 0, DDICT_SUB_THERE, &sub, 4000));
    kill(x.manager[1], SIGSTOP);
    ck_assert_int_eq(ddict_next_event(sub, &e, 100), 1); /* ours */
    for (unsigned i = 0; i < 3; i++) {
        double began = now_s();
        int rc = ddict_next_event(sub, &e, 100);
        ck_assert_msg(rc == 0 && now_s() - began < 3.5, "%d %s after %.2f s", rc, ddict_errmsg(),
                      now_s() - began);
    }
    kill(x.manager[1], SIGCONT);
    unsigned n = 0;
    /* also by who never waits */
    for (double until = now_s() + 20; n < N + 1 && now_s() < until;)
        n += ddict_next_event(sub, &e, 0) == 1;
    ck_assert_uint_eq(n, N + 1);
    ddict_unsubscribe(sub);
    end();
}
END_TEST

/* --- what became of the pairs --- */

START_TEST(a_put_of_many_says_what_was_not_sent) {
    enum { N = 3000 };
    static char val[1000];
    begin(2);
    for (unsigned m = 0; m < 2; m++) {
        struct ddict_pair *p = calloc(N, sizeof *p);
        struct text *k = calloc(N, sizeof *k);
        unsigned silent = 0, unsent = 0;
        for (unsigned i = 0, j = 0; i < N; j++) {
            size_t n = (size_t)sprintf(k[i].s, "n%u_%u", m, j);
            if (ddict_owner(d, k[i].s, n) == m)
                p[i] =
                    (struct ddict_pair){.key = k[i].s, .klen = n, .val = val, .vlen = sizeof val},
                i++;
        }
        p[700].val = p[N - 1].val = big;
        p[700].vlen = p[N - 1].vlen = sizeof big;
        kill(x.manager[m], SIGSTOP);
        ck_assert_int_eq(ddict_put_many(d, p, N, 500), 0);
        kill(x.manager[m], SIGCONT);
        for (unsigned i = 0; i < N; i++) {
            silent += p[i].status == -ETIMEDOUT;
            unsent += p[i].status == -ECANCELED;
        }
        ck_assert_uint_eq(silent + unsent, N);
        ck_assert_msg(silent > 0 && unsent > 0, "of manager %u: %u not answered, %u not sent", m,
                      silent, unsent);
        ck_assert_int_eq(p[N - 1].status, -ECANCELED);
        ok(ddict_put(d, "behind", 6, "x", 1, 0, 10000));
        usleep(500000);
        for (unsigned i = 0; i < N; i++)
            ck_assert_msg(p[i].status == -ETIMEDOUT ||
                              ddict_contains(d, p[i].key, p[i].klen, NULL, 10000) == 0,
                          "pair %u was not sent, and is there", i);
        free(p);
        free(k);
    }
    end();
}
END_TEST

/* --- one of three managers stands still --- */

enum { EACH = 1500 };

static struct ddict_pair pair[3 * EACH];
static struct text name[3 * EACH];

static void pairs_make(void) {
    static char val[1000];
    unsigned n[3] = {0, 0, 0};
    /* of each manager as many, in turn or nearly so */
    for (unsigned j = 0, all = 0; all < 3 * EACH; j++) {
        char key[24];
        size_t len = (size_t)sprintf(key, "h%u", j);
        unsigned m = ddict_owner(d, key, len), i = 3 * n[m] + m;
        if (n[m] == EACH)
            continue;
        memcpy(name[i].s, key, sizeof key);
        pair[i] =
            (struct ddict_pair){.key = name[i].s, .klen = len, .val = val, .vlen = sizeof val};
        n[m]++;
        all++;
    }
}

START_TEST(a_put_of_many_stores_what_is_for_others) {
    begin(3);
    pairs_make();
    pair[3 * 300 + 1].val = big; /* one stops in its middle */
    pair[3 * 300 + 1].vlen = sizeof big;
    kill(x.manager[1], SIGSTOP);
    usleep(100000);
    ssize_t stored = ddict_put_many(d, pair, 3 * EACH, 2000);
    kill(x.manager[1], SIGCONT);
    for (unsigned i = 0; i < 3 * EACH; i++) {
        if (i % 3 != 1)
            ck_assert_msg(pair[i].status == 0, "pair %u of manager %u: %d", i, i % 3,
                          pair[i].status);
        else
            ck_assert_msg(pair[i].status == -ETIMEDOUT || pair[i].status == -ECANCELED,
                          "pair %u of manager 1: %d", i, pair[i].status);
    }
    ck_assert_int_eq(stored, 2 * EACH);
    end();
}
END_TEST

static void *go_on(void *arg) {
    usleep(2000000);
    kill(x.manager[1], SIGCONT);
    return NULL;
}

/* It goes on while the call still waits: all is stored, and of two pairs of one key the later one.
 * */
START_TEST(what_was_put_off_comes_in_its_order) {
    pthread_t t;
    begin(3);
    pairs_make();
    for (unsigned i = 1; i < 3 * EACH; i += 3)
        if (i % 2 == 1 && i + 30 < 3 * EACH) { /* that of its key behind it is another value */
            pair[i + 30].key = pair[i].key;
            pair[i + 30].klen = pair[i].klen;
            pair[i + 30].val = "later";
            pair[i + 30].vlen = 5;
        }
    /* before one of them, values in pieces */
    for (unsigned i = 3 * 101 + 1; i < 3 * 104; i += 3) {
        pair[i].val = big;
        pair[i].vlen = 4 * MIB;
    }
    kill(x.manager[1], SIGSTOP);
    usleep(100000);
    ck_assert_int_eq(pthread_create(&t, NULL, go_on, NULL), 0);
    ck_assert_int_eq(ddict_put_many(d, pair, 3 * EACH, 20000), 3 * EACH);
    pthread_join(t, NULL);
    for (unsigned i = 0; i < 3 * EACH; i++) {
        struct ddict_view v;
        unsigned last = i;
        for (unsigned j = i; j < 3 * EACH; j++)
            if (pair[j].klen == pair[i].klen && memcmp(pair[j].key, pair[i].key, pair[i].klen) == 0)
                last = j;
        ok(ddict_view(d, pair[i].key, pair[i].klen, &v, 0, 10000));
        ck_assert_msg(v.len == pair[last].vlen && memcmp(v.data, pair[last].val, v.len) == 0,
                      "of pair %u is there another value (%zu bytes) than of %u", i, v.len, last);
        ddict_release(&v);
    }
    end();
}
END_TEST

START_TEST(a_get_of_many_finds_what_others_have) {
    static struct ddict_want want[3 * EACH];
    pthread_t t;
    begin(3);
    pairs_make();
    ck_assert_int_eq(ddict_put_many(d, pair, 3 * EACH, 20000), 3 * EACH);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 3 * EACH; i++)
            want[i] = (struct ddict_want){.key = pair[i].key, .klen = pair[i].klen};
        kill(x.manager[1], SIGSTOP);
        usleep(100000);
        if (round == 1)
            ck_assert_int_eq(pthread_create(&t, NULL, go_on, NULL), 0);
        double began = now_s();
        ssize_t n = ddict_get_many(d, want, 3 * EACH, 0, round == 0 ? 1000 : 20000);
        double took = now_s() - began;
        kill(x.manager[1], SIGCONT);
        if (round == 1)
            pthread_join(t, NULL);
        for (unsigned i = 0; i < 3 * EACH; i++) {
            bool silent = round == 0 && i % 3 == 1;
            ck_assert_msg(want[i].status == (silent ? -ETIMEDOUT : 0),
                          "round %u: key %u of manager %u: %d", round, i, i % 3, want[i].status);
            ddict_release(&want[i].view);
        }
        ck_assert_int_eq(n, round == 0 ? 2 * EACH : 3 * EACH);
        /* not its time for each thousand keys */
        ck_assert_msg(took < (round == 0 ? 4 : 15), "it took %.1f s", took);
        usleep(1500000); /* it is not held any more */
    }
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {
        a_wait_is_over_when_its_time_is,           next_event_is_over_when_its_time_is,
        a_listing_does_not_keep_next_event_longer, a_put_of_many_says_what_was_not_sent,
        a_put_of_many_stores_what_is_for_others,   what_was_put_off_comes_in_its_order,
        a_get_of_many_finds_what_others_have};
    return tests_main("client_late", argc, argv, tests, sizeof tests / sizeof tests[0]);
}
