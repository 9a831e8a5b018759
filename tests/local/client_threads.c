/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_threads.c - many threads on one handle; also the program that is run under
 * ThreadSanitizer. Invariants: each answer reaches who asked for it; a view is whole whichever
 * thread reads or releases it; a thread that waits does not hold up another; the slots of threads
 * that ended are used again.
 */
#include "client_dict.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB     (1u << 20)
#define THREADS 8

static ddict_t *d;
static unsigned rounds = 1500;

/* --- each its own keys, all kinds of calls --- */

static void own_round(unsigned me, unsigned i, unsigned char *buf) {
    char key[32];
    size_t k = (size_t)sprintf(key, "t%u.%u", me, i % 50),
           len = i % 40 == 0   ? 300000 + i
                 : i % 10 == 0 ? 9000
                               : i % 700,
           n;
    uint64_t seed = me * 100000 + i;
    struct ddict_view v;
    unsigned tag;
    value_fill(buf, len, seed);
    ok(ddict_put(d, key, k, buf, len, DDICT_TAG(me), 20000));
    ok(ddict_get(d, key, k, buf, 1u << 20, &n, &tag, 0, 20000));
    ck_assert(n == len && tag == me && value_is(buf, n, seed));
    ok(ddict_view(d, key, k, &v, 0, 20000));
    ck_assert(v.len == len && v.tag == me && value_is(v.data, v.len, seed));
    if (i % 3 == 0)
        ok(ddict_del(d, key, k, 20000));
    ck_assert(value_is(v.data, v.len, seed));
    ddict_release(&v);
    ck_assert_int_eq(ddict_contains(d, key, k, NULL, 20000), i % 3 != 0);
    if (i % 3 == 1) {
        ok(ddict_pop(d, key, k, &v, 0, 20000));
        ck_assert(v.len == len && value_is(v.data, v.len, seed));
        ddict_release(&v);
    }
    if (i % 500 == 0) {
        struct ddict_manager_stats *s;
        ok(ddict_stats(d, &s, sizeof *s, 20000));
        free(s);
        ok(ddict_len(d, 20000));
    }
}

static void *own_run(void *arg) {
    unsigned char *buf = malloc(1u << 20);
    for (unsigned i = 0; i < rounds; i++)
        own_round((unsigned)(uintptr_t)arg, i, buf);
    free(buf);
    return NULL;
}

static void together(void *(*run)(void *), unsigned n) {
    pthread_t t[64];
    for (unsigned i = 0; i < n; i++)
        ck_assert(pthread_create(&t[i], NULL, run, (void *)(uintptr_t)i) == 0);
    for (unsigned i = 0; i < n; i++)
        pthread_join(t[i], NULL);
}

START_TEST(threads_with_keys_of_their_own_see_their_own) {
    struct dict x;
    dict_start(&x, 2, 3, 300 * MIB);
    d = dict_attach(&x, 0);
    together(own_run, THREADS);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* --- all the same keys --- */

static void *shared_run(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    unsigned char *buf = malloc(8192);
    for (unsigned i = 0; i < rounds * 2; i++) {
        char key[8];
        size_t k = (size_t)sprintf(key, "s%u", i % 7);
        if (me % 2 == 0) { /* length and content follow from the first word */
            uint64_t seed = me * 1000000 + i;
            value_fill(buf + 8, 500 + seed % 7000, seed);
            memcpy(buf, &seed, 8);
            ok(ddict_put(d, key, k, buf, 508 + seed % 7000, 0, 20000));
        } else {
            struct ddict_view v;
            uint64_t seed;
            int rc = ddict_view(d, key, k, &v, DDICT_WAIT, 20000);
            ok(rc);
            memcpy(&seed, v.data, 8);
            ck_assert(v.len == 508 + seed % 7000 &&
                      value_is((const char *)v.data + 8, v.len - 8, seed));
            ddict_release(&v);
        }
    }
    free(buf);
    return NULL;
}

START_TEST(a_value_that_others_replace_is_read_whole) {
    struct dict x;
    dict_start(&x, 2, 2, 100 * MIB);
    d = dict_attach(&x, 0);
    together(shared_run, THREADS);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* --- views released by other threads --- */

#define PASSED 3000
static struct ddict_view passed[PASSED];
static unsigned taken;

static void *release_run(void *arg) {
    (void)arg;
    for (unsigned i; (i = __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED)) < PASSED;) {
        ck_assert(value_is(passed[i].data, passed[i].len, i % 10));
        ddict_release(&passed[i]);
    }
    return NULL;
}

static void *take_run(void *arg) {
    unsigned from = (unsigned)(uintptr_t)arg * (PASSED / 2);
    for (unsigned i = from; i < from + PASSED / 2; i++) {
        char key[8];
        ok(ddict_view(d, key, (size_t)sprintf(key, "p%u", i % 10), &passed[i], 0, -1));
    }
    return NULL;
}

START_TEST(a_view_is_released_by_any_thread_and_its_slot_is_used_again) {
    struct dict x;
    dict_start(&x, 1, 2, 100 * MIB);
    d = dict_attach(&x, 0);
    char val[3000];
    for (unsigned i = 0; i < 10; i++) {
        char key[8];
        value_fill(val, sizeof val, i);
        ok(ddict_put(d, key, (size_t)sprintf(key, "p%u", i), val, sizeof val, 0, -1));
    }
    /* 400 times 3,000 views is more than 2^20: without reuse it would end with DDICT_EVIEWS. */
    for (unsigned r = 0; r < (rounds < 1500 ? 30 : 400); r++) {
        together(take_run, 2);
        taken = 0;
        together(release_run, 3);
    }
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* --- waiting --- */

static void *wait_run(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    char key[16];
    struct ddict_view v;
    size_t k = (size_t)sprintf(key, "wait%u", me / 2);
    if (me % 2)
        ok(ddict_view(d, key, k, &v, DDICT_WAIT, 20000));
    else {
        char b[8];
        ok(ddict_get(d, key, k, b, 8, NULL, NULL, DDICT_WAIT, 20000));
        return NULL;
    }
    ck_assert(v.len == 1);
    ddict_release(&v);
    return NULL;
}

START_TEST(threads_that_wait_do_not_hold_up_others) {
    struct dict x;
    dict_start(&x, 2, 2, 100 * MIB);
    d = dict_attach(&x, 0);
    pthread_t t[32];
    for (unsigned i = 0; i < 32; i++)
        pthread_create(&t[i], NULL, wait_run, (void *)(uintptr_t)i);
    usleep(100000);
    char b[100];
    double began = now_s();
    for (int i = 0; i < 2000; i++) {
        char k[16];
        ok(ddict_put(d, k, (size_t)sprintf(k, "q%d", i), b, sizeof b, 0, 5000));
    }
    ck_assert_msg(now_s() - began < 15, "2000 puts took %.1f s", now_s() - began);
    for (int i = 0; i < 16; i++) {
        char k[16];
        ok(ddict_put(d, k, (size_t)sprintf(k, "wait%d", i), "x", 1, 0, 5000));
    }
    for (unsigned i = 0; i < 32; i++)
        pthread_join(t[i], NULL);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

static unsigned won;
static void *pop_run(void *arg) {
    (void)arg;
    struct ddict_view v;
    ok(ddict_pop(d, "one", 3, &v, DDICT_WAIT, 60000));
    ck_assert(v.len == 4 && memcmp(v.data, "item", 4) == 0);
    __atomic_fetch_add(&won, 1, __ATOMIC_RELAXED);
    ddict_release(&v);
    return NULL;
}

START_TEST(one_of_many_that_pop_gets_the_item) {
    struct dict x;
    dict_start(&x, 2, 2, 100 * MIB);
    d = dict_attach(&x, 0);
    pthread_t t[8];
    for (unsigned i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, pop_run, NULL);
    usleep(50000);
    for (unsigned n = 1; n <= 8; n++) {
        ok(ddict_put(d, "one", 3, "item", 4, 0, -1));
        for (double end = now_s() + 30; __atomic_load_n(&won, __ATOMIC_RELAXED) < n;) {
            ck_assert_msg(now_s() < end, "nobody got item %u", n);
            usleep(1000);
        }
        usleep(20000);
        ck_assert_uint_eq(__atomic_load_n(&won, __ATOMIC_RELAXED), n);
    }
    for (unsigned i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

static void *many_run(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    enum { M = 3000 };
    struct ddict_pair *p = calloc(M, sizeof *p);
    struct ddict_want *w = calloc(M, sizeof *w);
    char(*k)[24] = calloc(M, 24);
    for (unsigned r = 0; r < rounds / 150; r++) {
        for (unsigned i = 0; i < M; i++) {
            p[i] = (struct ddict_pair){.key = k[i],
                                       .klen = (size_t)sprintf(k[i], "y%u.%u", me, i),
                                       .val = k[i],
                                       .vlen = 10};
            w[i] = (struct ddict_want){.key = k[i], .klen = p[i].klen};
        }
        ck_assert_int_eq(ddict_put_many(d, p, M, 20000), M);
        ck_assert_int_eq(ddict_get_many(d, w, M, 0, 20000), M);
        for (unsigned i = 0; i < M; i++) {
            ck_assert(memcmp(w[i].view.data, k[i], 10) == 0);
            ddict_release(&w[i].view);
        }
    }
    free(p);
    free(w);
    free(k);
    return NULL;
}

START_TEST(threads_with_many_at_once_get_their_own) {
    struct dict x;
    dict_start(&x, 2, 3, 200 * MIB);
    d = dict_attach(&x, 0);
    together(many_run, 5);
    ck_assert_int_eq(ddict_len(d, -1), 15000);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

int main(void) {
    Suite *s = suite_create("client_threads");
    TCase *t = tcase_create("threads");
    if (getenv("DDICT_TEST_ROUNDS"))
        rounds = (unsigned)atoi(getenv("DDICT_TEST_ROUNDS"));
    tcase_set_timeout(t, 240);
    tcase_add_test(t, threads_with_keys_of_their_own_see_their_own);
    tcase_add_test(t, a_value_that_others_replace_is_read_whole);
    tcase_add_test(t, a_view_is_released_by_any_thread_and_its_slot_is_used_again);
    tcase_add_test(t, threads_that_wait_do_not_hold_up_others);
    tcase_add_test(t, one_of_many_that_pop_gets_the_item);
    tcase_add_test(t, threads_with_many_at_once_get_their_own);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
