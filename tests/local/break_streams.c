/* SPDX-License-Identifier: Apache-2.0 */
/*
 * break_streams.c - large values of another node while readers are slow, stopped, or many.
 * Invariants: a stream goes on when its reader goes on; of several readers none starves; a refused
 * or abandoned stream leaves the handle as good as new.
 */
#include "client_dict.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static void put_filled(ddict_t *d, const char *key, size_t klen, size_t len, uint64_t seed) {
    char *val = malloc(len);
    value_fill(val, len, seed);
    ok(ddict_put(d, key, klen, val, len, 0, -1));
    free(val);
}

/* In a process of its own: a view, which takes a transit block, then a get, whose pieces go through
 * the lane. */
static void view_then_get(struct dict *x, const char *small, size_t n, const char *large, size_t m,
                          size_t len) {
    ddict_t *d = NULL;
    struct ddict_view v;
    char *buf = malloc(len);
    size_t got = 0;
    setenv("DDICT_NAME", x->name, 1);
    setenv("DDICT_NODE", x->node[0], 1);
    bool good = ddict_attach(&d, NULL, 5000) == 0 && ddict_view(d, small, n, &v, 0, 5000) == 0;
    if (good)
        ddict_release(&v);
    good = good && ddict_get(d, large, m, buf, len, &got, NULL, 0, 12000) == 0 && got == len &&
           value_is(buf, len, 2);
    if (!good)
        fprintf(stderr, "the reader got %zu bytes: %s\n", got, ddict_errmsg());
    ddict_detach(d);
    free(buf);
    _exit(good ? 0 : 1);
}

START_TEST(a_stream_after_a_view_goes_on_when_its_reader_was_stopped) {
    struct dict x;
    char small[32], large[32];
    dict_start(&x, 2, 2, 512 * MIB);
    ddict_t *d = dict_attach(&x, 1);
    size_t n = key_of(d, 1, 0, small, 32), m = key_of(d, 1, 1, large, 32), len = 128 * MIB;
    put_filled(d, small, n, MIB, 1);
    put_filled(d, large, m, len, 2);
    pid_t reader = fork();
    if (reader == 0)
        view_then_get(&x, small, n, large, m, len);
    int status = 0;
    pid_t over = 0;
    for (int i = 0; i < 3000 && (over = waitpid(reader, &status, WNOHANG)) == 0; i++) {
        usleep(3000);
        kill(reader, SIGSTOP);
        usleep(3000);
        kill(reader, SIGCONT);
    }
    if (over == 0)
        ck_assert_int_eq(waitpid(reader, &status, 0), reader);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the reader failed: status %x",
                  status);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

struct getter {
    ddict_t *d;
    const char *key;
    size_t klen, len;
    unsigned done;
    int failed;
    const int *stop;
};

static void *get_again_and_again(void *arg) {
    struct getter *g = arg;
    char *buf = malloc(g->len);
    while (!__atomic_load_n(g->stop, __ATOMIC_RELAXED)) {
        size_t got;
        if (ddict_get(g->d, g->key, g->klen, buf, g->len, &got, NULL, 0, -1) < 0)
            g->failed = 1;
        __atomic_fetch_add(&g->done, 1, __ATOMIC_RELAXED);
    }
    free(buf);
    return NULL;
}

START_TEST(of_many_who_stream_large_values_none_starves) {
    enum { N = 8 };
    struct dict x;
    struct getter g[N];
    pthread_t t[N];
    char key[32];
    int stop = 0;
    dict_start(&x, 2, 2, 256 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    size_t klen = key_of(d, 1, 0, key, 32), len = 24 * MIB;
    put_filled(d, key, klen, len, 3);
    for (int i = 0; i < N; i++) {
        g[i] = (struct getter){.d = d, .key = key, .klen = klen, .len = len, .stop = &stop};
        pthread_create(&t[i], NULL, get_again_and_again, &g[i]);
    }
    /* who starves is behind for ever; who had no core for a moment comes up again */
    unsigned total = 0, least = 0, most = 0;
    for (double end = now_s() + 90; now_s() < end && (total < 20 * N || least * 4 < most);) {
        usleep(20000);
        total = most = 0;
        least = UINT_MAX;
        for (int i = 0; i < N; i++) {
            unsigned n = __atomic_load_n(&g[i].done, __ATOMIC_RELAXED);
            total += n;
            least = n < least ? n : least;
            most = n > most ? n : most;
        }
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < N; i++) {
        pthread_join(t[i], NULL);
        ck_assert_int_eq(g[i].failed, 0);
    }
    ck_assert_msg(least * 4 >= most, "of %d threads one read %u values and another %u", N, least,
                  most);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

struct stopper {
    struct dict *x;
    ddict_t *d;
    int64_t at;
    int over;
};

static void *stop_when_so_many(void *arg) {
    struct stopper *s = arg;
    while (!__atomic_load_n(&s->over, __ATOMIC_RELAXED))
        if (ddict_len(s->d, 1000) >= s->at) {
            kill(s->x->manager[0], SIGSTOP);
            break;
        }
    return NULL;
}

START_TEST(a_put_of_many_that_times_out_leaves_no_request_behind) {
    enum { SMALL = 65536, LARGE = 700, LEN = 60000 };
    struct dict x;
    struct text {
        char s[16];
    } *k = calloc(SMALL + LARGE, sizeof *k);
    struct ddict_pair *p = calloc(SMALL + LARGE, sizeof *p);
    char *val = calloc(1, LEN);
    dict_start(&x, 1, 1, 256 * MIB);
    ddict_t *d = dict_attach(&x, 0), *d2 = dict_attach(&x, 0);
    for (size_t i = 0; i < SMALL + LARGE; i++)
        p[i] = (struct ddict_pair){.key = k[i].s,
                                   .klen = (size_t)sprintf(k[i].s, "p%zu", i),
                                   .val = val,
                                   .vlen = i < SMALL ? 8 : LEN};
    ssize_t stored = 0;
    /* a slow machine needs longer for the small ones */
    for (int ms = 300; stored < SMALL && ms < 60000; ms *= 3) {
        struct stopper s = {&x, d2, SMALL + 20, 0};
        pthread_t t;
        ok(ddict_clear(d, 60000));
        pthread_create(&t, NULL, stop_when_so_many, &s);
        stored = ddict_put_many(d, p, SMALL + LARGE, ms);
        if (stored < SMALL)
            __atomic_store_n(&s.over, 1, __ATOMIC_RELAXED);
        pthread_join(t, NULL);
        if (stored < SMALL)
            kill(x.manager[0], SIGCONT);
    }
    ck_assert_msg(stored >= SMALL && stored < SMALL + LARGE, "%zd pairs were stored", stored);
    for (size_t i = 0; i < SMALL + LARGE; i++)
        ck_assert_int_eq(p[i].status, i < (size_t)stored          ? 0
                                      : p[i].status == -ETIMEDOUT ? -ETIMEDOUT
                                                                  : -ECANCELED);
    kill(x.manager[0], SIGCONT); /* its answers find nobody */
    usleep(200000);
    for (int i = 0; i < 100; i++)
        ok(ddict_put(d, "after", 5, "x", 1, 0, 5000));
    ddict_detach(d);
    ddict_detach(d2);
    dict_stop(&x);
    free(k);
    free(p);
    free(val);
}
END_TEST

int main(void) {
    Suite *s = suite_create("break_streams");
    TCase *t = tcase_create("streams");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, a_stream_after_a_view_goes_on_when_its_reader_was_stopped);
    tcase_add_test(t, of_many_who_stream_large_values_none_starves);
    tcase_add_test(t, a_put_of_many_that_times_out_leaves_no_request_behind);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
