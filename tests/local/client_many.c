/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_many.c - many at once, iteration, len and clear. Invariants: each pair has its own status;
 * of two puts of one key in one call the later wins, whatever their sizes; a key that is present
 * throughout a walk is met exactly once, also while the index grows and shrinks.
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
#define N   70000 /* more than one slab of put_many and of get_many */

struct text {
    char s[24];
};

static void many_of_a_size(ddict_t *d, size_t n, size_t len) {
    struct ddict_pair *p = calloc(n, sizeof *p);
    struct ddict_want *w = calloc(n + 10, sizeof *w);
    struct text *k = calloc(n + 10, sizeof *k);
    unsigned char *val = malloc(n * len + 1);
    for (size_t i = 0; i < n; i++) {
        value_fill(val + i * len, len, i);
        p[i] = (struct ddict_pair){.key = k[i].s,
                                   .klen = (size_t)sprintf(k[i].s, "m%zu.%zu", len, i),
                                   .val = val + i * len,
                                   .vlen = len,
                                   .flags = DDICT_TAG(i)};
    }
    ck_assert_int_eq(ddict_put_many(d, p, n, -1), n);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(p[i].status, 0);
    for (size_t i = 0; i < n + 10; i++) /* ten that are not there */
        w[i] =
            (struct ddict_want){.key = k[i].s, .klen = (size_t)sprintf(k[i].s, "m%zu.%zu", len, i)};
    ck_assert_int_eq(ddict_get_many(d, w, n + 10, 0, -1), n);
    for (size_t i = 0; i < n + 10; i++) {
        ck_assert_int_eq(w[i].status, i < n ? 0 : DDICT_ENOKEY);
        if (i < n)
            ck_assert(w[i].view.len == len && value_is(w[i].view.data, len, i) &&
                      w[i].view.tag == (i & 255));
        ddict_release(&w[i].view);
    }
    free(p);
    free(w);
    free(k);
    free(val);
}

START_TEST(many_small_and_many_large_arrive_whole) {
    struct dict x;
    dict_start(&x, 2, 4, 800 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    many_of_a_size(d, N, 40);
    many_of_a_size(d, 3000, 5000);
    many_of_a_size(d, 200, 131008);
    many_of_a_size(d, 50, 1500000);
    ck_assert_int_eq(ddict_len(d, -1), N + 3250);
    ck_assert_int_eq(ddict_put_many(d, NULL, 0, -1), 0);
    ck_assert_int_eq(ddict_get_many(d, NULL, 0, 0, -1), 0);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(each_pair_has_its_own_status_and_the_later_wins) {
    struct dict x;
    dict_start(&x, 2, 2, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    static char big[4 * MIB];
    char kept[32], fresh[32], again[32];
    for (unsigned m = 0; m < 2; m++) {
        size_t k0 = key_of(d, m, 0, kept, 32), k1 = key_of(d, m, 1, fresh, 32),
               k2 = key_of(d, m, 2, again, 32);
        memset(big, 1, sizeof big);
        ok(ddict_put(d, kept, k0, "old", 3, 0, -1));
        struct ddict_pair p[] = {
            {kept, k0, "new", 3, DDICT_NEW, 7},
            {fresh, k1, "a", 1, DDICT_EXISTING, 7},
            {fresh, k1, "b", 1, DDICT_NEW, 7},
            {again, k2, big, sizeof big, 0, 7},
            {again, k2, "small", 5, 0, 7},
            {kept, k0, "x", 1, 3, 7},
            {kept, k0, big, 60 * MIB, DDICT_NEW, 7},
            {again, k2, "last", 4, DDICT_EXISTING, 7},
            {"", 0, "", 0, 0, 7},
        };
        p[6].val = malloc(60 * MIB);
        memset((void *)(uintptr_t)p[6].val, 2, 60 * MIB);
        static const int want[] = {DDICT_EEXISTS, DDICT_ENOKEY, 0, 0, 0, -EINVAL, DDICT_EVALSIZE, 0,
                                   DDICT_EKEYSIZE};
        ck_assert_int_eq(ddict_put_many(d, p, 9, -1), 4);
        for (int i = 0; i < 9; i++)
            ck_assert_msg(p[i].status == want[i], "pair %d: %d, expected %d", i, p[i].status,
                          want[i]);
        char buf[8];
        size_t n;
        ok(ddict_get(d, again, k2, buf, 8, &n, NULL, 0, -1));
        ck_assert(n == 4 && memcmp(buf, "last", 4) == 0);
        ok(ddict_get(d, kept, k0, buf, 8, &n, NULL, 0, -1));
        ck_assert(n == 3 && memcmp(buf, "old", 3) == 0);
        free((void *)(uintptr_t)p[6].val);
        /* Large then small then large, of one key, many times: order is kept among streams and
         * inline values. */
        struct ddict_pair q[60];
        for (int i = 0; i < 60; i++)
            q[i] = (struct ddict_pair){
                again, k2, big, i % 3 == 1 ? 200000u + (unsigned)i : (unsigned)i, 0, 0};
        ck_assert_int_eq(ddict_put_many(d, q, 60, -1), 60);
        ck_assert_int_eq(ddict_contains(d, again, k2, &n, -1), 1);
        ck_assert_uint_eq(n, 59);
    }
    fails(-ETIMEDOUT, ddict_put_many(d, &(struct ddict_pair){"k", 1, "v", 1, 0, 0}, 1, 0));
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(pairs_need_not_be_dealt_out_evenly) {
    struct dict x;
    dict_start(&x, 1, 2, 128 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    struct ddict_pair *p = calloc(N, sizeof *p);
    struct text *k = calloc(N, sizeof *k);
    /* The first slab has three pairs for manager 1, the second has the rest of it, the last ones
     * nearly all for manager 1. */
    for (unsigned i = 0, at = 0; at < N; i++) {
        size_t n = (size_t)sprintf(k[at].s, "u%u", i);
        if (ddict_owner(d, k[at].s, n) == (at < 3 || at >= 65600))
            p[at++] = (struct ddict_pair){.klen = n, .val = "v", .vlen = 1};
    }
    for (unsigned i = 0; i < N; i++)
        p[i].key = k[i].s;
    ck_assert_int_eq(ddict_put_many(d, p, N, -1), N);
    ck_assert_int_eq(ddict_len(d, -1), N);
    ck_assert_int_eq(ddict_put_many(d, p + 65600, N - 65600, -1), N - 65600);
    free(p);
    free(k);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(many_that_run_out_of_time_have_a_status_each) {
    struct dict x;
    dict_start(&x, 1, 2, 128 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    struct ddict_pair *p = calloc(N, sizeof *p);
    struct text *k = calloc(N, sizeof *k);
    static char val[1000];
    for (unsigned i = 0; i < N; i++)
        p[i] = (struct ddict_pair){.key = k[i].s,
                                   .klen = (size_t)sprintf(k[i].s, "o%u", i),
                                   .val = val,
                                   .vlen = sizeof val};
    for (int m = 0; m < 2; m++)
        kill(x.manager[m], SIGSTOP);
    double t = now_s();
    ssize_t rc = ddict_put_many(d, p, N, 300);
    t = now_s() - t;
    for (int m = 0; m < 2; m++)
        kill(x.manager[m], SIGCONT);
    ck_assert_msg(rc == 0 && t < 1.5, "%zd after %.2f s", rc, t);
    for (unsigned i = 0; i < N; i++)
        ck_assert_int_eq(p[i].status,
                         i < 65536 && p[i].status == -ETIMEDOUT ? -ETIMEDOUT : -ECANCELED);
    /* late answers of the first call are nobody's */
    ck_assert_int_eq(ddict_put_many(d, p, N, -1), N);
    ck_assert_int_eq(ddict_len(d, -1), N);
    free(p);
    free(k);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(get_many_waits_for_keys_that_come) {
    struct dict x;
    dict_start(&x, 2, 2, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    int go[2];
    ck_assert_int_eq(pipe(go), 0);
    pid_t child = fork();
    if (child == 0) {
        char c;
        if (read(go[0], &c, 1) != 1)
            _exit(2);
        usleep(200000);
        for (int i = 0; i < 20; i++) {
            char k[16];
            if (ddict_put(d, k, (size_t)sprintf(k, "w%d", i), &i, sizeof i, 0, -1) != 0)
                _exit(1);
        }
        _exit(0);
    }
    struct ddict_want w[20];
    struct text k[20];
    for (int i = 0; i < 20; i++)
        w[i] = (struct ddict_want){.key = k[i].s, .klen = (size_t)sprintf(k[i].s, "w%d", i)};
    double t = now_s();
    ck_assert_int_eq(ddict_get_many(d, w, 20, 0, 30000), 0);
    ck_assert_int_eq(write(go[1], "", 1), 1); /* nothing can come before */
    ck_assert_int_eq(ddict_get_many(d, w, 20, DDICT_WAIT, 30000), 20);
    ck_assert_msg(now_s() - t < 20, "they came after %.1f s, as if nobody had waited", now_s() - t);
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < 20; i++) {
        ck_assert(w[i].status == 0 && w[i].view.len == sizeof i &&
                  memcmp(w[i].view.data, &i, sizeof i) == 0);
        ddict_release(&w[i].view);
    }
    w[3].key = "never";
    w[3].klen = 5;
    ck_assert_int_eq(ddict_get_many(d, w, 20, DDICT_WAIT, 200), 19);
    ck_assert_int_eq(w[3].status, -ETIMEDOUT);
    for (int i = 0; i < 20; i++)
        ddict_release(&w[i].view);
    int status;
    ck_assert(waitpid(child, &status, 0) == child && status == 0);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* --- walks --- */

static unsigned walk(ddict_t *d, int manager, unsigned char *seen, unsigned n) {
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    unsigned count = 0;
    int rc;
    memset(seen, 0, n);
    ok(ddict_iter_open(d, manager, &it, -1));
    while ((rc = ddict_iter_next(it, &key, &klen)) == 1) {
        char text[32] = "";
        unsigned i;
        ck_assert(klen < sizeof text);
        memcpy(text, key, klen);
        if (sscanf(text, "s%u", &i) == 1) { /* others come and go */
            ck_assert(i < n);
            ck_assert_msg(++seen[i] == 1, "%s twice", text);
            count++;
        }
    }
    ok(rc);
    ck_assert_int_eq(ddict_iter_next(it, &key, &klen), 0);
    ddict_iter_close(it);
    return count;
}

static void *churn(void *arg) {
    ddict_t *d = ((void **)arg)[0];
    int *stop = ((void **)arg)[1];
    for (unsigned round = 0; !__atomic_load_n(stop, __ATOMIC_RELAXED); round++) {
        for (unsigned i = 0; i < 20000; i++) {
            char k[24];
            size_t n = (size_t)sprintf(k, "x%u.%u", round, i);
            ok(ddict_put(d, k, n, "", 0, 0, -1));
        }
        for (unsigned i = 0; i < 20000; i += 2) {
            char k[24];
            ok(ddict_del(d, k, (size_t)sprintf(k, "x%u.%u", round, i), -1));
        }
    }
    return NULL;
}

START_TEST(a_walk_meets_each_key_once_also_while_the_index_grows) {
    enum { KEYS = 30000 };
    struct dict x;
    dict_start(&x, 2, 3, 256 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    struct ddict_pair *p = calloc(KEYS, sizeof *p);
    struct text *k = calloc(KEYS, sizeof *k);
    unsigned owned[3] = {0};
    for (unsigned i = 0; i < KEYS; i++) {
        p[i] = (struct ddict_pair){.key = k[i].s, .klen = (size_t)sprintf(k[i].s, "s%u", i)};
        owned[ddict_owner(d, k[i].s, p[i].klen)]++;
    }
    ck_assert_int_eq(ddict_put_many(d, p, KEYS, -1), KEYS);
    unsigned char *seen = malloc(KEYS);
    ck_assert_uint_eq(walk(d, -1, seen, KEYS), KEYS);
    for (int m = 0; m < 3; m++)
        ck_assert_uint_eq(walk(d, m, seen, KEYS), owned[m]);
    ck_assert_uint_eq(walk(d, -2, seen, KEYS), owned[0] + owned[2]);
    int stop = 0;
    pthread_t t;
    void *arg[] = {d, &stop};
    pthread_create(&t, NULL, churn, arg);
    for (int i = 0; i < 15; i++)
        ck_assert_uint_eq(walk(d, -1, seen, KEYS), KEYS);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(t, NULL);
    ddict_iter_t *it; /* closed in the middle */
    const void *key;
    size_t klen;
    ok(ddict_iter_open(d, -1, &it, -1));
    ck_assert_int_eq(ddict_iter_next(it, &key, &klen), 1);
    ddict_iter_close(it);
    ddict_iter_close(NULL);
    ok(ddict_clear(d, -1));
    ck_assert_int_eq(ddict_len(d, -1), 0);
    ck_assert_uint_eq(walk(d, -1, seen, KEYS), 0);
    ck_assert_int_eq(ddict_contains(d, "s1", 2, NULL, -1), 0);
    ok(ddict_put(d, "s1", 2, "", 0, 0, -1));
    ck_assert_uint_eq(walk(d, -1, seen, KEYS), 1);
    free(seen);
    free(p);
    free(k);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* --- equal gets --- */

static uint64_t gets_of(ddict_t *d, unsigned m) {
    struct ddict_manager_stats *s;
    ok(ddict_stats(d, &s, sizeof *s, 5000));
    uint64_t n = s[m].gets_local + s[m].gets_remote;
    free(s);
    return n;
}

START_TEST(gets_of_one_key_that_were_not_sent_yet_share_an_answer) {
    enum { SAME = 600 };
    static const size_t lens[] = {0, 100, 5000, 131008, 700000};
    struct dict x;
    dict_start(&x, 2, 2, 400 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    struct ddict_want *w = calloc(SAME, sizeof *w);
    unsigned char *val = malloc(700000);
    uint64_t found = 0, asked = 0;
    for (unsigned i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        char key[2][32], none[32];
        size_t k[2], kn = key_of(d, 1, 50, none, 32);
        for (unsigned j = 0; j < 2; j++) {
            k[j] = key_of(d, 1, 2 * i + j, key[j], 32);
            value_fill(val, lens[i], j);
            ok(ddict_put(d, key[j], k[j], val, lens[i], DDICT_TAG(j + 1), -1));
        }
        uint64_t before = gets_of(d, 1);
        found += SAME - SAME / 50;
        /* two keys in turns, and now and then one that is not there */
        for (unsigned n = 0; n < SAME; n++)
            w[n] = n % 50 == 49 ? (struct ddict_want){.key = none, .klen = kn}
                                : (struct ddict_want){.key = key[n % 2], .klen = k[n % 2]};
        ck_assert_int_eq(ddict_get_many(d, w, SAME, 0, -1), SAME - SAME / 50);
        for (unsigned n = 0; n < SAME; n++) {
            ck_assert_int_eq(w[n].status, n % 50 == 49 ? DDICT_ENOKEY : 0);
            if (w[n].status == 0)
                ck_assert(w[n].view.len == lens[i] && w[n].view.tag == n % 2 + 1 &&
                          value_is(w[n].view.data, lens[i], n % 2));
            ddict_release(&w[n].view);
        }
        asked += gets_of(d, 1) - before;
    }
    /* up to 64 are taken from the lane before the first of them is sent */
    ck_assert_uint_lt(asked, found - found / 20);
    free(val);
    free(w);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* A writer on the owner's node, readers on the other: what was acknowledged before a get began is
 * what it gets, or something newer. */
static struct {
    ddict_t *d[2];
    char key[32];
    size_t k;
    uint64_t acknowledged, over;
} fresh;

static void *fresh_write(void *arg) {
    static uint64_t val[MIB / 8];
    /* the large one is still on its way when the small one is acknowledged */
    for (uint64_t i = 1; i <= 600; i++) {
        val[0] = i;
        ok(ddict_put(fresh.d[1], fresh.key, fresh.k, val, i % 2 == 1 ? sizeof val : 64, 0, 20000));
        __atomic_store_n(&fresh.acknowledged, i, __ATOMIC_RELEASE);
        if (i % 2 == 0)
            usleep(200);
    }
    __atomic_store_n(&fresh.over, 1, __ATOMIC_RELEASE);
    return arg;
}

static void *fresh_read(void *arg) {
    static __thread uint64_t buf[MIB / 8];
    while (!__atomic_load_n(&fresh.over, __ATOMIC_ACQUIRE)) {
        struct ddict_want w[8];
        size_t n;
        uint64_t least = __atomic_load_n(&fresh.acknowledged, __ATOMIC_ACQUIRE);
        for (int i = 0; i < 8; i++)
            w[i] = (struct ddict_want){.key = fresh.key, .klen = fresh.k};
        ck_assert_int_eq(ddict_get_many(fresh.d[0], w, 8, 0, 20000), 8);
        for (int i = 0; i < 8; i++) {
            if (*(const uint64_t *)w[i].view.data < least)
                ck_abort_msg("%llu was read after %llu was acknowledged",
                             (unsigned long long)*(const uint64_t *)w[i].view.data,
                             (unsigned long long)least);
            ddict_release(&w[i].view);
        }
        least = __atomic_load_n(&fresh.acknowledged, __ATOMIC_ACQUIRE);
        ok(ddict_get(fresh.d[0], fresh.key, fresh.k, buf, sizeof buf, &n, NULL, 0, 20000));
        if (buf[0] < least)
            ck_abort_msg("%llu was copied after %llu was acknowledged", (unsigned long long)buf[0],
                         (unsigned long long)least);
    }
    return arg;
}

START_TEST(a_get_never_shares_an_answer_older_than_its_beginning) {
    struct dict x;
    pthread_t t[4];
    dict_start(&x, 2, 2, 100 * MIB);
    for (int i = 0; i < 2; i++)
        fresh.d[i] = dict_attach(&x, i);
    fresh.k = key_of(fresh.d[0], 1, 0, fresh.key, sizeof fresh.key);
    static const uint64_t zero[8];
    ok(ddict_put(fresh.d[0], fresh.key, fresh.k, zero, sizeof zero, 0, -1));
    for (int i = 0; i < 4; i++)
        ck_assert(pthread_create(&t[i], NULL, i == 0 ? fresh_write : fresh_read, NULL) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < 2; i++)
        ddict_detach(fresh.d[i]);
    dict_stop(&x);
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {many_small_and_many_large_arrive_whole,
                                  each_pair_has_its_own_status_and_the_later_wins,
                                  pairs_need_not_be_dealt_out_evenly,
                                  many_that_run_out_of_time_have_a_status_each,
                                  gets_of_one_key_that_were_not_sent_yet_share_an_answer,
                                  a_get_never_shares_an_answer_older_than_its_beginning,
                                  get_many_waits_for_keys_that_come,
                                  a_walk_meets_each_key_once_also_while_the_index_grows};
    return tests_main("client_many", argc, argv, tests, sizeof tests / sizeof *tests);
}
