/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_freeze.c - freeze, unfreeze and the node cache. A read with a timeout of 0 asks nobody, so
 * one that succeeds was in place. Invariants: while frozen nothing can be written; what one process
 * of a node has read of another node the next ones read in place; no read gives a value older than
 * a put that was acknowledged before it began, whatever freezes and unfreezes come between; nothing
 * cached counts as a key.
 */
#include "client_dict.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB  (1ull << 20)
#define KEYS 600u

static size_t key_name(char *key, unsigned k) {
    return (size_t)sprintf(key, "key number %u", k);
}
static size_t length_of(unsigned k) {
    return k % 100 == 0  ? 2 * MIB + k * 8
           : k % 30 == 0 ? 200000 + k * 8
           : k % 7 == 0  ? k % 5 * 8
                         : 1000 + k % 13 * 400;
}

static void put_all(ddict_t *d, unsigned n, uint64_t seed) {
    char key[64];
    uint8_t *buf = malloc(4 * MIB);
    for (unsigned k = 0; k < n; k++) {
        value_fill(buf, length_of(k), seed + k);
        ok(ddict_put(d, key, key_name(key, k), buf, length_of(k), DDICT_TAG(k % 200), -1));
    }
    free(buf);
}

/* By one of the four ways; the codes of it. */
static int read_one(ddict_t *d, unsigned k, uint64_t seed, int way, int timeout_ms) {
    static uint8_t buf[4 * MIB];
    struct ddict_view v;
    char key[64];
    size_t klen = key_name(key, k), len = 0;
    unsigned tag = 0;
    int rc;
    if (way == 0) {
        if ((rc = ddict_view(d, key, klen, &v, 0, timeout_ms)) < 0)
            return rc;
        ck_assert(v.len == length_of(k) && v.tag == k % 200 && value_is(v.data, v.len, seed + k));
        ddict_release(&v);
    } else if (way == 1) {
        if ((rc = ddict_get(d, key, klen, buf, sizeof buf, &len, &tag, 0, timeout_ms)) < 0)
            return rc;
        ck_assert(len == length_of(k) && tag == k % 200 && value_is(buf, len, seed + k));
    } else if (way == 2) {
        struct ddict_want w = {.key = key, .klen = klen};
        if (ddict_get_many(d, &w, 1, 0, timeout_ms) != 1)
            return w.status;
        ck_assert(w.view.len == length_of(k) && value_is(w.view.data, w.view.len, seed + k));
        ddict_release(&w.view);
    } else {
        if ((rc = ddict_contains(d, key, klen, &len, timeout_ms)) < 0)
            return rc;
        ck_assert_int_eq(rc, 1);
        ck_assert_uint_eq(len, length_of(k));
    }
    return 0;
}

struct figures {
    uint64_t items, hits, evictions, keys, frozen;
};
static struct figures figures_of(ddict_t *d) {
    struct ddict_manager_stats *s;
    struct figures f = {0};
    int n = ddict_stats(d, &s, sizeof *s, -1);
    ok(n);
    for (int i = 0; i < n; i++) {
        f.items += s[i].cached_items;
        f.hits += s[i].cache_hits;
        f.evictions += s[i].evictions;
        f.keys += s[i].num_keys;
        f.frozen += s[i].frozen;
    }
    free(s);
    return f;
}

static unsigned far_keys(ddict_t *d, unsigned node, unsigned nodes, unsigned n) {
    char key[64];
    unsigned far = 0;
    for (unsigned k = 0; k < n; k++)
        far += ddict_owner(d, key, key_name(key, k)) % nodes != node;
    return far;
}

static unsigned keys_walked(ddict_t *d) {
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    unsigned n = 0;
    ok(ddict_iter_open(d, -1, &it, -1));
    while (ddict_iter_next(it, &key, &klen) == 1)
        n++;
    ddict_iter_close(it);
    return n;
}

START_TEST(what_was_read_once_is_in_place_for_all_of_the_node) {
    struct dict x;
    char key[64];
    dict_start(&x, 2, 4, 512 * MIB);
    ddict_t *a = dict_attach(&x, 0), *b = dict_attach(&x, 1), *c = dict_attach(&x, 1);
    put_all(a, KEYS, 5);
    unsigned far = far_keys(b, 1, 2, KEYS);
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(ddict_is_frozen(a) + ddict_is_frozen(b), 0);
        for (unsigned k = 0; k < KEYS; k++)
            ck_assert_int_eq(read_one(b, k, 5, 0, -1), 0);
        ck_assert_uint_eq(figures_of(b).items, 0);
        ok(ddict_freeze(round ? b : a, -1));
        ok(ddict_freeze(b, -1)); /* it is */
        ck_assert_int_eq(ddict_is_frozen(a) + ddict_is_frozen(b) + ddict_is_frozen(c), 3);
        for (unsigned k = 0; k < KEYS; k++)
            ck_assert_int_eq(read_one(b, k, 5, round == 0 ? (int)k % 3 : (int)(k + 1) % 3, -1), 0);
        ck_assert_uint_eq(figures_of(a).items, far);
        struct figures was = figures_of(a);
        for (int way = 0; way < 4; way++)
            for (unsigned k = 0; k < KEYS; k++) {
                int rc = read_one(c, k, 5, way, 0);
                ck_assert_msg(rc == 0, "way %d, key %u: %d", way, k, rc);
            }
        struct figures now = figures_of(a);
        ck_assert_uint_eq(now.hits - was.hits, 3 * far);
        ck_assert_uint_eq(now.items, far);
        ck_assert_uint_eq(now.keys, KEYS);
        ck_assert_uint_eq(now.frozen, 4);
        ck_assert_int_eq(ddict_len(c, -1), KEYS);
        ck_assert_uint_eq(keys_walked(c), KEYS);
        fails(DDICT_ENOKEY, ddict_view(c, "absent", 6, &(struct ddict_view){0}, 0, -1));
        ok(ddict_unfreeze(c, -1));
        ok(ddict_unfreeze(a, -1));
        ck_assert_int_eq(ddict_is_frozen(a) + ddict_is_frozen(b), 0);
        now = figures_of(a);
        ck_assert_uint_eq(now.items + now.frozen, 0);
        unsigned asked = 0;
        for (unsigned k = 0; k < KEYS; k++) {
            int rc = read_one(c, k, 5, 0, 0);
            ck_assert(rc == 0 || rc == -ETIMEDOUT);
            asked += rc != 0;
        }
        ck_assert_uint_eq(asked, far);
    }
    for (unsigned k = 0; k < KEYS; k++)
        ok(ddict_put(b, key, key_name(key, k), "new", 3, 0, -1));
    dict_stop(&x);
    ddict_detach(a);
    ddict_detach(b);
    ddict_detach(c);
}
END_TEST

START_TEST(nothing_is_written_while_frozen) {
    struct dict x;
    struct ddict_view v;
    static uint8_t large[3 * MIB];
    dict_start(&x, 2, 2, 128 * MIB);
    ddict_t *d[2] = {dict_attach(&x, 0), dict_attach(&x, 1)};
    char key[64];
    for (unsigned m = 0; m < 2; m++)
        ok(ddict_put(d[0], key, key_of(d[0], m, 0, key, sizeof key), "old", 3, 0, -1));
    ok(ddict_freeze(d[1], -1));
    for (int i = 0; i < 2; i++)
        for (unsigned m = 0; m < 2; m++) {
            size_t n = key_of(d[0], m, 0, key, sizeof key);
            struct ddict_pair p[3];
            for (int j = 0; j < 3; j++)
                p[j] = (struct ddict_pair){
                    .key = key, .klen = n, .val = large, .vlen = j == 1 ? sizeof large : 5};
            fails(DDICT_EFROZEN, ddict_put(d[i], key, n, "new", 3, 0, -1));
            fails(DDICT_EFROZEN, ddict_put(d[i], key, n, large, sizeof large, 0, -1));
            fails(DDICT_EFROZEN, ddict_put(d[i], key, n, "new", 3, DDICT_EXISTING, -1));
            fails(DDICT_EFROZEN, ddict_del(d[i], key, n, -1));
            fails(DDICT_EFROZEN, ddict_pop(d[i], key, n, &v, 0, -1));
            fails(DDICT_EFROZEN, ddict_clear(d[i], -1));
            ck_assert_int_eq(ddict_put_many(d[i], p, 3, -1), 0);
            for (int j = 0; j < 3; j++)
                ck_assert_int_eq(p[j].status, DDICT_EFROZEN);
            fails(-ETIMEDOUT, ddict_view(d[i], "not there", 9, &v, DDICT_WAIT, 20));
            ok(ddict_view(d[i], key, n, &v, 0, -1));
            ck_assert(v.len == 3 && memcmp(v.data, "old", 3) == 0);
            ddict_release(&v);
        }
    ck_assert_int_eq(ddict_len(d[0], -1), 2);
    ok(ddict_unfreeze(d[0], -1));
    for (unsigned m = 0; m < 2; m++)
        ok(ddict_put(d[1], key, key_of(d[0], m, 0, key, sizeof key), large, sizeof large,
                     DDICT_EXISTING, -1));
    ddict_detach(d[0]);
    ddict_detach(d[1]);
    dict_stop(&x);
}
END_TEST

START_TEST(one_node_can_be_frozen_too) {
    struct dict x;
    dict_start(&x, 1, 3, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    ok(ddict_put(d, "a", 1, "1", 1, 0, -1));
    for (int i = 0; i < 20; i++) {
        ok(ddict_freeze(d, -1));
        ck_assert_int_eq(ddict_is_frozen(d), 1);
        fails(DDICT_EFROZEN, ddict_put(d, "a", 1, "2", 1, 0, -1));
        ok(ddict_unfreeze(d, -1));
        ck_assert_int_eq(ddict_is_frozen(d), 0);
        ok(ddict_put(d, "a", 1, "2", 1, 0, -1));
    }
    fails(-ETIMEDOUT, ddict_freeze(d, 0));
    ck_assert_int_eq(ddict_prefetch(d, &(struct iovec){(char *)(uintptr_t) "a", 1}, 1, -1), 0);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* --- more than the cache holds --- */
#define LARGE 64000u
START_TEST(a_small_cache_evicts_and_gives_the_right_bytes_also_under_held_views) {
    struct dict x;
    char key[64];
    static uint8_t buf[LARGE];
    struct {
        struct ddict_view v;
        unsigned k;
    } held[20] = {0};
    uint64_t rng = 77;
    dict_start(&x, 2, 2, 64 * MIB);
    ddict_t *a = dict_attach(&x, 0), *b = dict_attach(&x, 1);
    unsigned n = 0;
    for (;; n++) { /* until both are nearly full */
        value_fill(buf, LARGE, n);
        if (ddict_put(a, key, key_name(key, n), buf, LARGE, 0, -1) < 0)
            break;
    }
    /* Room on one, so that it can keep some of the other's. */
    for (unsigned k = 0; k < n; k++)
        if (ddict_owner(a, key, key_name(key, k)) == 1 && k % 4)
            ok(ddict_del(a, key, key_name(key, k), -1));
    int64_t len = ddict_len(a, -1);
    ok(ddict_freeze(a, -1));
    struct figures f = {0};
    for (unsigned i = 0; i < 60000; i++) {
        if (i >= 6000 && i % 500 == 0 && (f = figures_of(a)).evictions > 100 && f.items > 50 &&
            f.hits > 500)
            break;
        rng = rng * 6364136223846793005ull + 1442695040888963407ull;
        unsigned k = (unsigned)(rng >> 40) % n;
        struct ddict_view v;
        int rc = ddict_view(b, key, key_name(key, k), &v, 0, -1);
        if (rc == DDICT_ENOKEY)
            continue;
        ok(rc);
        ck_assert(v.len == LARGE && value_is(v.data, LARGE, k));
        unsigned h = (unsigned)(rng >> 33) % 20;
        if (held[h].v.kind_) {
            ck_assert(value_is(held[h].v.data, LARGE, held[h].k));
            ddict_release(&held[h].v);
        }
        held[h].v = v;
        held[h].k = k;
    }
    ck_assert_uint_gt(f.evictions, 100);
    ck_assert_uint_gt(f.items, 50);
    ck_assert_uint_gt(f.hits, 500);
    ck_assert_int_eq(f.keys, len);
    ok(ddict_unfreeze(b, -1));
    for (unsigned h = 0; h < 20; h++)
        if (held[h].v.kind_) {
            ck_assert(value_is(held[h].v.data, LARGE, held[h].k));
            ddict_release(&held[h].v);
        }
    /* All that was cached is free for puts again. */
    value_fill(buf, LARGE, 1);
    unsigned stored = 0;
    for (unsigned k = 0; k < n; k++)
        if (ddict_owner(a, key, key_name(key, k)) == 1 && k % 4)
            stored += ddict_put(b, key, key_name(key, k), buf, LARGE, 0, -1) == 0;
    ck_assert_uint_gt(stored, n / 2 * 3 / 4 * 8 / 10);
    ddict_detach(a);
    ddict_detach(b);
    dict_stop(&x);
}
END_TEST

START_TEST(prefetched_keys_come_by_themselves) {
    struct dict x;
    static char name[KEYS][64];
    struct iovec key[KEYS];
    dict_start(&x, 2, 4, 512 * MIB);
    ddict_t *a = dict_attach(&x, 0), *b = dict_attach(&x, 1);
    put_all(a, KEYS, 9);
    for (unsigned k = 0; k < KEYS; k++)
        key[k] = (struct iovec){name[k], key_name(name[k], k)};
    unsigned far = far_keys(b, 1, 2, KEYS);
    ck_assert_int_eq(ddict_prefetch(b, key, KEYS, -1), 0); /* not frozen */
    ok(ddict_freeze(a, -1));
    struct iovec absent = {(char *)(uintptr_t) "nobody's key", 12},
                 bad = {(char *)(uintptr_t) "", 0};
    fails(DDICT_EKEYSIZE, ddict_prefetch(b, &bad, 1, -1));
    ck_assert_int_ge(ddict_prefetch(b, &absent, 1, -1), 0);
    ck_assert_int_eq(ddict_prefetch(b, key, KEYS, -1), far);
    for (double end = now_s() + 30; figures_of(a).items < far && now_s() < end;)
        usleep(2000);
    ck_assert_uint_eq(figures_of(a).items, far);
    for (unsigned k = 0; k < KEYS; k++)
        ck_assert_int_eq(read_one(b, k, 9, 0, 0), 0);
    ck_assert_int_eq(ddict_prefetch(b, key, KEYS, -1), 0); /* all are here */
    ok(ddict_unfreeze(a, -1));
    ok(ddict_freeze(a, -1));
    ck_assert_int_eq(ddict_prefetch(b, key, KEYS, -1), far);
    ok(ddict_unfreeze(b, -1)); /* in the middle of it */
    ck_assert_uint_eq(figures_of(a).items, 0);
    put_all(b, KEYS, 10);
    for (unsigned k = 0; k < KEYS; k++)
        ck_assert_int_eq(read_one(b, k, 10, (int)k % 4, -1), 0);
    ddict_detach(a);
    ddict_detach(b);
    dict_stop(&x);
}
END_TEST

/* --- freezes and unfreezes between puts and gets, all at once --- */
#define HOT 40u
static ddict_t *on[2];
static uint64_t acked[HOT]; /* version of the last put that returned */
static uint32_t stop;
static uint64_t done[8]; /* by thread: what it has done */

static size_t hot_len(unsigned k, uint64_t v) {
    return 8 * (1 + (k * 31 + v) % (k % 8 == 0 ? 40000 : 300));
}

static uint64_t done_by(unsigned i) {
    return __atomic_load_n(&done[i], __ATOMIC_RELAXED);
}

static void *put_hot(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    uint64_t *buf = malloc(8 * 40001), version = 0;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        unsigned k = (unsigned)(++version % (HOT / 2)) * 2 + me; /* one writer a key */
        char key[64];
        size_t klen = key_name(key, k), len = hot_len(k, version);
        for (size_t i = 0; i < len / 8; i++)
            buf[i] = version * 1000 + k;
        int rc = ddict_put(on[version % 2], key, klen, buf, len, 0, -1);
        ck_assert_msg(rc == 0 || rc == DDICT_EFROZEN, "put: %d %s", rc, ddict_errmsg());
        if (rc == 0)
            __atomic_store_n(&acked[k], version, __ATOMIC_SEQ_CST);
        if (rc == 0)
            __atomic_fetch_add(&done[me], 1, __ATOMIC_RELAXED);
        else
            usleep(200);
    }
    free(buf);
    return NULL;
}

static void hot_check(const void *data, size_t len, unsigned k, uint64_t least) {
    const uint64_t *w = data;
    uint64_t v = len >= 8 ? w[0] / 1000 : 0;
    ck_assert_msg(v >= least, "key %u: version %llu is older than %llu", k, (unsigned long long)v,
                  (unsigned long long)least);
    ck_assert_uint_eq(len, hot_len(k, v));
    for (size_t i = 0; i < len / 8; i++)
        ck_assert_msg(w[i] == v * 1000 + k, "key %u, word %zu", k, i);
}

static void *get_hot(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    uint64_t rng = me * 77 + 5;
    uint8_t *buf = malloc(8 * 40001);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        rng = rng * 6364136223846793005ull + 1442695040888963407ull;
        unsigned k = (unsigned)(rng >> 33) % HOT;
        char key[64];
        size_t klen = key_name(key, k), len = 0;
        ddict_t *d = on[rng >> 60 & 1];
        uint64_t least = __atomic_load_n(&acked[k], __ATOMIC_SEQ_CST);
        struct ddict_view v;
        struct ddict_want w = {.key = key, .klen = klen};
        if (least == 0)
            continue;
        switch (rng >> 58 & 3) {
        case 0:
        case 3:
            ok(ddict_view(d, key, klen, &v, 0, -1));
            hot_check(v.data, v.len, k, least);
            ddict_release(&v);
            break;
        case 1:
            ok(ddict_get(d, key, klen, buf, 8 * 40001, &len, NULL, 0, -1));
            hot_check(buf, len, k, least);
            break;
        default:
            ck_assert_int_eq(ddict_get_many(d, &w, 1, 0, -1), 1);
            hot_check(w.view.data, w.view.len, k, least);
            ddict_release(&w.view);
        }
        __atomic_fetch_add(&done[me], 1, __ATOMIC_RELAXED);
    }
    free(buf);
    return NULL;
}

static void *freeze_hot(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    uint64_t rng = me * 31 + 7;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        rng = rng * 6364136223846793005ull + 1442695040888963407ull;
        ok(ddict_freeze(on[rng >> 60 & 1], -1));
        usleep((rng >> 40) % 4000);
        ok(ddict_unfreeze(on[rng >> 61 & 1], -1));
        /* On a busy machine a put takes longer than the pause: let each writer have its turn. */
        uint64_t was[2] = {done_by(0), done_by(1)};
        usleep((rng >> 50) % 4000);
        for (double end = now_s() + 0.1;
             now_s() < end && (done_by(0) == was[0] || done_by(1) == was[1]);)
            usleep(500);
        __atomic_fetch_add(&done[me], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void hot(int freezers, double seconds, uint64_t mem) {
    struct dict x;
    pthread_t t[8];
    unsigned all = 0;
    dict_start(&x, 2, 4, mem);
    on[0] = dict_attach(&x, 0);
    on[1] = dict_attach(&x, 1);
    memset(acked, 0, sizeof acked);
    memset(done, 0, sizeof done);
    stop = 0;
    for (uintptr_t i = 0; i < 2; i++)
        /* as number i: done[i] */
        ck_assert_int_eq(pthread_create(&t[all++], NULL, put_hot, (void *)i), 0);
    for (uintptr_t i = 2; i < 4; i++)
        ck_assert_int_eq(pthread_create(&t[all++], NULL, get_hot, (void *)i), 0);
    for (int i = 0; i < freezers; i++, all++)
        ck_assert_int_eq(pthread_create(&t[all], NULL, freeze_hot, (void *)(uintptr_t)all), 0);
    double end = now_s() + seconds;
    /* all have done something, however busy the machine */
    for (unsigned i = 0; i < all || now_s() < end; i += i < all) {
        while (i < all && done_by(i) < 3) {
            ck_assert_msg(now_s() < end + 60, "thread %u does not come on", i);
            usleep(20000);
        }
        usleep(20000);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < all; i++)
        ck_assert_int_eq(pthread_join(t[i], NULL), 0);
    ok(ddict_unfreeze(on[0], -1));
    ck_assert_uint_gt(figures_of(on[0]).hits, 0);
    ddict_detach(on[0]);
    ddict_detach(on[1]);
    dict_stop(&x);
}

START_TEST(no_read_is_older_than_an_acknowledged_put) {
    hot(1, 3, 128 * MIB);
}
END_TEST
START_TEST(freezes_and_unfreezes_of_several_at_once_are_done_in_turn) {
    hot(3, 2, 32 * MIB);
}
END_TEST

/* --- ends in the middle --- */
static void *freeze_one(void *d) {
    return (void *)(intptr_t)ddict_freeze(d, 20000);
}

START_TEST(a_manager_that_dies_in_the_middle_ends_it) {
    setenv("DDICT_RESTARTS", "0", 1); /* it is not started again */
    for (int stopped = 0; stopped < 4; stopped++) {
        struct dict x;
        pthread_t t;
        void *rc;
        dict_start(&x, 2, 2, 64 * MIB);
        x.broken = true;
        ddict_t *d = dict_attach(&x, stopped % 2);
        pid_t pid = stopped < 2 ? x.manager[stopped] : x.pid[stopped - 2];
        kill(pid, SIGSTOP);
        ck_assert_int_eq(pthread_create(&t, NULL, freeze_one, d), 0);
        usleep(50000);
        double began = now_s();
        kill(pid, SIGKILL);
        pthread_join(t, &rc);
        ck_assert_msg((intptr_t)rc == DDICT_ELOST || (intptr_t)rc == DDICT_EGONE, "%d: %ld",
                      stopped, (long)(intptr_t)rc);
        ck_assert_msg(now_s() - began < 15, "%g s", now_s() - began);
        ddict_detach(d);
        dict_stop(&x);
    }
}
END_TEST

START_TEST(it_waits_for_a_manager_that_is_stopped_and_goes_on) {
    struct dict x;
    dict_start(&x, 2, 2, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0), *e = dict_attach(&x, 1);
    kill(x.manager[1], SIGSTOP);
    fails(-ETIMEDOUT, ddict_freeze(d, 100));
    ck_assert_int_eq(ddict_is_frozen(d) + ddict_is_frozen(e), 0); /* all or none */
    kill(x.manager[1], SIGCONT);
    for (double end = now_s() + 20; ddict_is_frozen(d) + ddict_is_frozen(e) < 2 && now_s() < end;)
        usleep(2000); /* what was asked happens */
    ck_assert_int_eq(ddict_is_frozen(d) + ddict_is_frozen(e), 2);
    ok(ddict_unfreeze(e, -1));
    ok(ddict_put(d, "a", 1, "b", 1, 0, -1));
    ddict_detach(d);
    ddict_detach(e);
    dict_stop(&x);
}
END_TEST

int main(void) {
    Suite *s = suite_create("client_freeze");
    /* first: those that are run by each transport, too */
    TCase *first = tcase_create("first"), *t = tcase_create("freeze");
    tcase_set_timeout(first, 120);
    tcase_set_timeout(t, 120);
    tcase_add_test(first, what_was_read_once_is_in_place_for_all_of_the_node);
    tcase_add_test(first, nothing_is_written_while_frozen);
    tcase_add_test(t, one_node_can_be_frozen_too);
    tcase_add_test(t, a_small_cache_evicts_and_gives_the_right_bytes_also_under_held_views);
    tcase_add_test(t, prefetched_keys_come_by_themselves);
    tcase_add_test(t, no_read_is_older_than_an_acknowledged_put);
    tcase_add_test(t, freezes_and_unfreezes_of_several_at_once_are_done_in_turn);
    tcase_add_test(t, a_manager_that_dies_in_the_middle_ends_it);
    tcase_add_test(t, it_waits_for_a_manager_that_is_stopped_and_goes_on);
    suite_add_tcase(s, first);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
