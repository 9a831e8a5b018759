/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_events.c - keys with several values, and subscriptions, by the calls of ddict.h.
 * Invariants: each value that was pushed is popped once, in order; a limit is never passed; every
 * event comes once or is counted as missed; a child goes on by itself; nothing is left of who ended
 * in the middle.
 */
#include "client_dict.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1u << 20)

START_TEST(values_of_a_key_come_out_as_they_went_in) {
    static const size_t sizes[] = {0, 1, 5000, 200000, 3u << 20};
    struct dict x;
    dict_start(&x, 2, 4, 400 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    unsigned char *val = malloc(3u << 20);
    for (unsigned m = 0; m < 4; m++) {
        char key[32];
        struct ddict_view v;
        size_t k = key_of(d, m, 0, key, sizeof key);
        ck_assert_int_eq(ddict_queued(d, key, k, -1), 0);
        for (unsigned i = 0; i < 20; i++) {
            value_fill(val, sizes[i % 5], i);
            ok(ddict_push(d, key, k, val, sizes[i % 5], DDICT_TAG(i), 0, -1));
            ck_assert_int_eq(ddict_queued(d, key, k, -1), i + 1);
        }
        ok(ddict_view(d, key, k, &v, 0, -1)); /* the first, in place */
        ck_assert(v.len == 0 && v.tag == 0);
        ddict_release(&v);
        for (unsigned i = 0; i < 20; i++) {
            ok(ddict_pop(d, key, k, &v, 0, -1));
            ck_assert(v.len == sizes[i % 5] && v.tag == i && value_is(v.data, v.len, i));
            ddict_release(&v);
        }
        fails(DDICT_ENOKEY, ddict_pop(d, key, k, &v, 0, -1));
        fails(DDICT_ENOKEY, ddict_pop(d, key, k, &v, DDICT_WAIT | DDICT_SURE, 50));
        fails(-EINVAL, ddict_push(d, key, k, "", 0, DDICT_NEW, 0, -1));
        fails(DDICT_EKEYSIZE, ddict_push(d, key, 0, "", 0, 0, 0, -1));
    }
    ck_assert_int_eq(ddict_len(d, -1), 0);
    free(val);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(a_limit_is_kept_and_waited_for) {
    struct dict x;
    dict_start(&x, 2, 2, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    for (unsigned m = 0; m < 2; m++) {
        char key[32];
        size_t k = key_of(d, m, 0, key, sizeof key);
        ok(ddict_push(d, key, k, "a", 1, 0, 2, -1));
        ok(ddict_push(d, key, k, "b", 1, 0, 2, -1));
        fails(-EAGAIN, ddict_push(d, key, k, "c", 1, 0, 2, -1));
        double began = now_s();
        fails(-EAGAIN, ddict_push(d, key, k, "c", 1, DDICT_WAIT, 2, 200));
        ck_assert(now_s() - began > 0.19);
        ck_assert_int_eq(ddict_queued(d, key, k, -1), 2);
        fails(-ETIMEDOUT, ddict_push(d, key, k, "c", 1, DDICT_WAIT, 2, 0));
        /* who names no limit has the queue's */
        fails(-EAGAIN, ddict_push(d, key, k, "more", 4, 0, 0, -1));
        uint64_t own;
        ok(ddict_queue_open(d, key, k, 0, &own, -1));
        ck_assert_uint_eq(own, 2);
        ok(ddict_queue_open(d, key, k, 2, NULL, -1));
        fails(-EINVAL, ddict_queue_open(d, key, k, 3, NULL, -1));
        fails(-EINVAL, ddict_push(d, key, k, "c", 1, 0, 3, -1));
        ok(ddict_del(d, key, k, -1));
        ck_assert_int_eq(ddict_queued(d, key, k, -1), 0);
        ok(ddict_queue_open(d, key, k, 0, &own, -1));
        ck_assert_uint_eq(own, 0);
        for (int i = 0; i < 5; i++)
            ok(ddict_push(d, key, k, "more", 4, 0, 0, -1));
        ok(ddict_queue_open(d, key, k, 3, &own, -1)); /* it has more: they stay */
        ck_assert_uint_eq(own, 3);
        ck_assert_int_eq(ddict_queued(d, key, k, -1), 5);
        fails(-EAGAIN, ddict_push(d, key, k, "more", 4, 0, 3, -1));
        ok(ddict_clear(d, -1));
        ck_assert_int_eq(ddict_queued(d, key, k, -1), 0);
        ok(ddict_queue_open(d, key, k, 4, &own, -1));
        ck_assert_uint_eq(own, 4);
    }
    ck_assert_int_eq(ddict_len(d, -1), 0);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

struct worker {
    ddict_t *d;
    const char *key;
    size_t klen;
    unsigned first, n;
    uint64_t sum;
};

static void *pushes(void *arg) {
    struct worker *w = arg;
    for (unsigned i = w->first; i < w->first + w->n; i++)
        if (ddict_push(w->d, w->key, w->klen, &i, sizeof i, DDICT_WAIT | DDICT_SURE, 3, 60000) != 0)
            return (void *)1;
    return NULL;
}

static void *pops(void *arg) {
    struct worker *w = arg;
    for (unsigned i = 0; i < w->n; i++) {
        struct ddict_view v;
        unsigned got;
        if (ddict_pop(w->d, w->key, w->klen, &v, DDICT_WAIT | DDICT_SURE, 60000) != 0)
            return (void *)1;
        memcpy(&got, v.data, sizeof got);
        w->sum += got;
        ddict_release(&v);
    }
    return NULL;
}

START_TEST(threads_share_a_queue_without_losing_or_doubling) {
    struct dict x;
    dict_start(&x, 2, 2, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    for (unsigned m = 0; m < 2; m++) {
        char key[32];
        size_t k = key_of(d, m, 0, key, sizeof key);
        struct worker w[6];
        pthread_t t[6];
        uint64_t sum = 0;
        for (unsigned i = 0; i < 6; i++) {
            w[i] = (struct worker){.d = d, .key = key, .klen = k, .first = i * 200, .n = 200};
            ck_assert_int_eq(pthread_create(&t[i], NULL, i < 3 ? pushes : pops, &w[i]), 0);
        }
        for (unsigned i = 0; i < 6; i++) {
            void *failed;
            pthread_join(t[i], &failed);
            ck_assert(!failed);
            sum += w[i].sum;
        }
        ck_assert_uint_eq(sum, 599u * 600 / 2);
        ck_assert_int_eq(ddict_queued(d, key, k, -1), 0);
    }
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(every_event_comes_once) {
    struct dict x;
    dict_start(&x, 2, 4, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    ddict_sub_t *sub, *all;
    struct ddict_event e;
    unsigned char seen[500] = {0};
    ok(ddict_put(d, "k-there", 7, "x", 1, 0, -1));
    ok(ddict_subscribe(d, "k-", 2, DDICT_SUB_VALUES | DDICT_SUB_THERE, &sub, -1));
    ok(ddict_subscribe(d, NULL, 0, DDICT_SUB_DELS, &all, -1));
    ck_assert_int_eq(ddict_next_event(sub, &e, -1), 1);
    ck_assert(e.kind == DDICT_EVENT_PUT && e.klen == 7 && memcmp(e.key, "k-there", 7) == 0 &&
              e.version == 0);
    ck_assert_int_eq(ddict_next_event(sub, &e, 500), 0); /* to the end of the listing */
    for (unsigned i = 0; i < 500; i++) {
        char key[32];
        size_t k = (size_t)snprintf(key, sizeof key, "k-%u", i);
        ok(ddict_put(d, key, k, &i, sizeof i, DDICT_TAG(9), -1));
    }
    for (unsigned n = 0; n < 500; n++) {
        unsigned i;
        ck_assert_int_eq(ddict_next_event(sub, &e, 30000), 1);
        ck_assert(e.kind == DDICT_EVENT_PUT && e.val && e.vlen == sizeof i && e.tag == 9 &&
                  e.version > 0);
        memcpy(&i, e.val, sizeof i);
        ck_assert(i < 500 && !seen[i]);
        seen[i] = 1;
    }
    ck_assert_int_eq(ddict_next_event(sub, &e, 50), 0);
    ok(ddict_clear(d, -1));
    unsigned clears = 0, puts = 0;
    while (clears < 4) {
        ck_assert_int_eq(ddict_next_event(all, &e, 30000), 1);
        clears += e.kind == DDICT_EVENT_CLEAR;
        puts += e.kind == DDICT_EVENT_PUT;
    }
    ck_assert_uint_eq(puts, 500);
    ddict_unsubscribe(all);
    pid_t child = fork();
    if (child == 0) {
        /* 0 ms are too short for the child's own attach, which the next call goes on with */
        int rc = ddict_next_event(sub, &e, 0) == 0 && ddict_next_event(sub, &e, 30000) == 1 &&
                         e.klen == 6 && memcmp(e.key, "k-fork", 6) == 0
                     ? 0
                     : 1;
        ddict_unsubscribe(sub);
        ddict_detach(d);
        _exit(rc);
    }
    usleep(50000);
    ok(ddict_put(d, "k-fork", 6, "x", 1, 0, -1));
    ck_assert_int_eq(ddict_next_event(sub, &e, 30000), 1);
    ck_assert(e.klen == 6);
    int status;
    ck_assert(waitpid(child, &status, 0) == child && status == 0);
    ddict_unsubscribe(sub);
    ddict_unsubscribe(NULL);
    fails(-EINVAL, ddict_subscribe(d, "k", 1, 128, &sub, -1));
    fails(-ETIMEDOUT, ddict_subscribe(d, "k", 1, 0, &sub, 0));
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    ok(ddict_put(d, "other", 5, "x", 1, 0, -1));
    ok(ddict_iter_open_prefix(d, -1, "k-", 2, &it, -1));
    ck_assert_int_eq(ddict_iter_next(it, &key, &klen), 1);
    ck_assert_int_eq(ddict_iter_next(it, &key, &klen), 0);
    ddict_iter_close(it);
    ck_assert_int_eq(ddict_ending(d), 0);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* Prefixes of many lengths, one within the other: each subscription gets the events of its own. */
START_TEST(prefixes_within_prefixes_get_their_own) {
    enum { N = 200 };
    struct dict x;
    dict_start(&x, 1, 2, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    ddict_sub_t *sub[N];
    struct ddict_event e;
    char key[N];
    memset(key, 'a', N);
    for (unsigned i = 0; i < N; i++) /* of 0, 1, .. N-1 letters */
        ok(ddict_subscribe(d, key, i, DDICT_SUB_DELS, &sub[i], -1));
    ok(ddict_put(d, key, 5, "", 0, 0, -1));
    ok(ddict_put(d, key, N, "", 0, 0, -1));
    for (unsigned i = 0; i < N; i++) {
        if (i <= 5) {
            ck_assert_int_eq(ddict_next_event(sub[i], &e, 30000), 1);
            ck_assert(e.klen == 5 || e.klen == N);
        }
        ck_assert_int_eq(ddict_next_event(sub[i], &e, 30000), 1);
        ck_assert(e.klen == N || (i <= 5 && e.klen == 5));
        ck_assert_int_eq(ddict_next_event(sub[i], &e, 0), 0);
    }
    for (unsigned i = 0; i < N; i += 2) {
        ddict_unsubscribe(sub[i]);
        sub[i] = NULL;
    }
    ok(ddict_clear(d, -1));
    for (unsigned i = 1; i < N; i += 2) {
        for (int m = 0; m < 2; m++) { /* one of each manager */
            ck_assert_int_eq(ddict_next_event(sub[i], &e, 30000), 1);
            ck_assert_int_eq(e.kind, DDICT_EVENT_CLEAR);
        }
        ddict_unsubscribe(sub[i]);
    }
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

int main(void) {
    Suite *s = suite_create("client_events");
    TCase *c = tcase_create("events");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, values_of_a_key_come_out_as_they_went_in);
    tcase_add_test(c, a_limit_is_kept_and_waited_for);
    tcase_add_test(c, threads_share_a_queue_without_losing_or_doubling);
    tcase_add_test(c, every_event_comes_once);
    tcase_add_test(c, prefixes_within_prefixes_get_their_own);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
