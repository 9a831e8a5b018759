/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_hung.c - one manager that stands still or has very much to do: who asks others notices
 * nothing.
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

/* --- fairness --- */

#define WRITERS 48
#define RECORD  100000u
#define EACH    5

static struct dict x;
static ddict_t *of[WRITERS];
static bool over;

static void *write_on(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    static char val[RECORD];
    char key[EACH][32];
    struct ddict_pair p[EACH];
    for (unsigned i = 0; i < EACH; i++) {
        size_t n = key_of(of[me], 0, me * EACH + i, key[i], sizeof key[i]);
        p[i] = (struct ddict_pair){.key = key[i], .klen = n, .val = val, .vlen = sizeof val};
    }
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        ck_assert_int_eq(ddict_put_many(of[me], p, EACH, 60000), EACH);
    return NULL;
}

static uint64_t newest(ddict_t *d, unsigned flags) {
    uint64_t most = 0;
    for (unsigned i = 0; i < WRITERS * EACH; i++) {
        char key[32];
        struct ddict_view v;
        ok(ddict_view(d, key, key_of(d, 0, i, key, sizeof key), &v, flags, 20000));
        most = v.version > most ? v.version : most;
        ddict_release(&v);
    }
    return most;
}

static void *put_far(void *d) {
    char key[32];
    ok(ddict_put(d, key, key_of(d, 0, 5000, key, sizeof key), "x", 1, 0, 60000));
    return NULL;
}

/* The manager is stopped in the middle of its work for many writers; how many of their values does
 * it take before one that has come over the network? */
START_TEST(many_writers_of_a_node_do_not_keep_a_request_of_another_node_waiting) {
    pthread_t t[WRITERS], far;
    uint64_t most = 0;
    dict_start(&x, 2, 2, 256 * MIB);
    for (unsigned i = 0; i < WRITERS; i++)
        of[i] = dict_attach(&x, 0);
    ddict_t *other = dict_attach(&x, 1);
    put_far(other); /* the connection is there */
    over = false;
    for (unsigned i = 0; i < WRITERS; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, write_on, (void *)(uintptr_t)i), 0);
    newest(of[0], DDICT_WAIT); /* all write */
    for (unsigned round = 0; round < 20; round++) {
        char key[32];
        struct ddict_view v;
        kill(x.manager[0], SIGSTOP);
        usleep(50000); /* all rings are full */
        uint64_t before = newest(of[0], 0);
        ck_assert_int_eq(pthread_create(&far, NULL, put_far, other), 0);
        usleep(50000);
        kill(x.manager[0], SIGCONT);
        pthread_join(far, NULL);
        ok(ddict_view(other, key, key_of(other, 0, 5000, key, sizeof key), &v, 0, 20000));
        ck_assert_uint_gt(v.version, before);
        most = v.version - before > most ? v.version - before : most;
        ddict_release(&v);
    }
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(t[i], NULL);
    ck_assert_msg(most <= 100, "%llu values of %u bytes went before", (unsigned long long)most,
                  RECORD);
    for (unsigned i = 0; i < WRITERS; i++)
        ddict_detach(of[i]);
    ddict_detach(other);
    dict_stop(&x);
}
END_TEST

/* --- a manager that stands still --- */

static ddict_t *here;
static char big[32 * MIB];

struct far_put {
    pthread_t thread;
    unsigned owner, i;
    size_t len;
    int timeout_ms;
    bool placed;
    long rc;
};

static void *far_put_run(void *arg) {
    struct far_put *f = arg;
    char key[32];
    size_t n = key_of(here, f->owner, f->i, key, sizeof key);
    if (!f->placed) {
        f->rc = ddict_put(here, key, n, big, f->len, 0, f->timeout_ms);
        return NULL;
    }
    struct ddict_place p;
    f->rc = ddict_reserve(here, key, n, f->len, 0, &p);
    if (f->rc == 0) {
        memcpy(p.data, big, f->len);
        f->rc = ddict_commit(&p, f->timeout_ms);
    }
    return NULL;
}

static void far_put(struct far_put *f, unsigned owner, unsigned i, size_t len, int timeout_ms,
                    bool placed) {
    *f = (struct far_put){
        .owner = owner, .i = i, .len = len, .timeout_ms = timeout_ms, .placed = placed};
    ck_assert_int_eq(pthread_create(&f->thread, NULL, far_put_run, f), 0);
}

/* Calls for keys of managers that are well take no time to speak of. */
static void others_are_well(const char *when) {
    for (unsigned i = 0; i < 20; i++) {
        for (unsigned m = 0; m < 3; m += 2) {
            char key[32], back[8];
            size_t n = key_of(here, m, i, key, sizeof key), got;
            double began = now_s();
            int rc = ddict_put(here, key, n, &i, sizeof i, 0, 4000);
            if (rc == 0)
                rc = ddict_get(here, key, n, back, sizeof back, &got, NULL, 0, 4000);
            ck_assert_msg(rc == 0 && got == sizeof i && memcmp(back, &i, sizeof i) == 0,
                          "%s: key of manager %u: %d %s after %.1f s", when, m, rc, ddict_errmsg(),
                          now_s() - began);
        }
        usleep(20000);
    }
}

static void *many_far(void *arg) {
    static char val[1000];
    enum { N = 3000 };
    struct ddict_pair *p = calloc(N, sizeof *p);
    char(*key)[32] = calloc(N, sizeof *key);
    unsigned k = 0;
    for (unsigned i = 0; i < N; k++) {
        int n = snprintf(key[i], sizeof key[i], "many%u", k);
        if (ddict_owner(here, key[i], (size_t)n) == 1)
            p[i] =
                (struct ddict_pair){
                    .key = key[i], .klen = (size_t)n, .val = val, .vlen = sizeof val},
            i++;
    }
    *(long *)arg = ddict_put_many(here, p, N, 20000);
    free(p);
    free(key);
    return NULL;
}

static void three_nodes(void) {
    dict_start(&x, 3, 3, 768 * MIB);
    here = dict_attach(&x, 0);
    for (unsigned m = 0; m < 3; m++) { /* connections are there */
        char key[32];
        ok(ddict_put(here, key, key_of(here, m, 0, key, sizeof key), "x", 1, 0, 10000));
    }
    value_fill(big, sizeof big, 9);
}

static void has(unsigned owner, unsigned i, size_t len) {
    char key[32];
    static char back[32 * MIB];
    size_t got;
    ok(ddict_get(here, key, key_of(here, owner, i, key, sizeof key), back, sizeof back, &got, NULL,
                 0, 20000));
    ck_assert_uint_eq(got, len);
    ck_assert(memcmp(back, big, len) == 0);
}

/* Whatever is under way to a manager that is stopped for some seconds: nobody else notices, and all
 * of it arrives. */
START_TEST(a_short_stop_delays_only_what_is_for_the_stopped_one_and_loses_nothing) {
    struct far_put large[4], placed[2], small[8];
    pthread_t many;
    long stored = 0;
    three_nodes();
    kill(x.manager[1], SIGSTOP);
    usleep(100000);
    for (unsigned i = 0; i < 4; i++)
        far_put(&large[i], 1, 100 + i, sizeof big, 30000, false);
    others_are_well("streams");
    for (unsigned i = 0; i < 2; i++)
        far_put(&placed[i], 1, 110 + i, sizeof big, 30000, true);
    others_are_well("places");
    ck_assert_int_eq(pthread_create(&many, NULL, many_far, &stored), 0);
    others_are_well("a put of many");
    for (unsigned i = 0; i < 8; i++)
        far_put(&small[i], 1, 120 + i, 100 + i, 30000, false);
    others_are_well("small puts");
    kill(x.manager[1], SIGCONT);
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(large[i].thread, NULL);
        ck_assert_int_eq(large[i].rc, 0);
        has(1, 100 + i, sizeof big);
    }
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(placed[i].thread, NULL);
        ck_assert_int_eq(placed[i].rc, 0);
        has(1, 110 + i, sizeof big);
    }
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(small[i].thread, NULL);
        ck_assert_int_eq(small[i].rc, 0);
        has(1, 120 + i, 100 + i);
    }
    pthread_join(many, NULL);
    ck_assert_int_eq(stored, 3000);
    ddict_detach(here);
    dict_stop(&x);
}
END_TEST

/* The calls run out of time while it is stopped: what they had under way is in nobody's way, then
 * and later. */
START_TEST(what_was_given_up_is_in_nobodys_way) {
    struct far_put large[4], placed[2];
    char key[32];
    three_nodes();
    for (unsigned round = 0; round < 2; round++) {
        kill(x.manager[1], SIGSTOP);
        usleep(100000);
        for (unsigned i = 0; i < 4; i++)
            far_put(&large[i], 1, 100 + i, sizeof big, 1000, false);
        for (unsigned i = 0; i < 2; i++)
            far_put(&placed[i], 1, 110 + i, sizeof big, 1000, true);
        others_are_well("while they are under way");
        for (unsigned i = 0; i < 4; i++) {
            pthread_join(large[i].thread, NULL);
            ck_assert_int_eq(large[i].rc, -ETIMEDOUT);
        }
        for (unsigned i = 0; i < 2; i++) {
            pthread_join(placed[i].thread, NULL);
            ck_assert_int_eq(placed[i].rc, -ETIMEDOUT);
        }
        for (unsigned i = 0; i < 700; i++) { /* more than may be under way */
            size_t n = key_of(here, 1, 0, key, sizeof key);
            int rc = i % 2 ? ddict_put(here, key, n, "x", 1, 0, 2) : ddict_del(here, key, n, 2);
            ck_assert_int_eq(rc, -ETIMEDOUT);
        }
        others_are_well("after they were given up");
        kill(x.manager[1], SIGCONT);
        for (unsigned i = 0; i < 10; i++) {
            far_put(&large[0], 1, 130, MIB + i, 20000, i % 2);
            pthread_join(large[0].thread, NULL);
            ck_assert_int_eq(large[0].rc, 0);
            has(1, 130, MIB + i);
        }
        others_are_well("when it goes on");
        for (unsigned i = 0; i < 6; i++) { /* a value whose end was never sent is not there */
            size_t n = key_of(here, 1, i < 4 ? 100 + i : 106 + i, key, sizeof key);
            ck_assert_int_eq(ddict_contains(here, key, n, NULL, 10000), 0);
        }
    }
    ddict_detach(here);
    dict_stop(&x);
}
END_TEST

/* --- too many that wait --- */

static unsigned refused, waited;

static void *wait_for_many(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg, i = 0;
    enum { N = 1024 };
    struct ddict_want *w = calloc(N, sizeof *w);
    char(*key)[32] = calloc(N, sizeof *key);
    for (unsigned k = 0; i < N; k++) {
        int n = snprintf(key[i], sizeof key[i], "w%u.%u", me, k);
        if (ddict_owner(here, key[i], (size_t)n) == 1)
            w[i] = (struct ddict_want){.key = key[i], .klen = (size_t)n}, i++;
    }
    ddict_get_many(here, w, N, DDICT_WAIT, 8000);
    for (i = 0; i < N; i++) {
        ck_assert_msg(w[i].status == DDICT_EBUSY || w[i].status == -ETIMEDOUT, "%d", w[i].status);
        __atomic_fetch_add(w[i].status == DDICT_EBUSY ? &refused : &waited, 1, __ATOMIC_RELAXED);
    }
    free(w);
    free(key);
    return NULL;
}

START_TEST(any_number_of_waiting_requests_leaves_room_for_the_puts_that_they_wait_for) {
    pthread_t t[8];
    three_nodes();
    for (unsigned i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, wait_for_many, (void *)(uintptr_t)i), 0);
    usleep(500000);
    char key[32];
    for (unsigned i = 0; i < 10; i++)
        for (unsigned m = 0; m < 3; m++)
            ok(ddict_put(here, key, key_of(here, m, i, key, sizeof key), "x", 1, 0, 6000));
    for (unsigned i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    ck_assert_msg(refused >= 8 * 1024 - 4096 - 1024 && waited >= 2000, "%u refused, %u waited",
                  refused, waited);
    ddict_detach(here);
    dict_stop(&x);
}
END_TEST

/* Values that come in pieces share what may be under way. What one that is cancelled may still have
 * is the others', who have no other reason to be looked at. */
START_TEST(a_value_goes_on_when_those_before_it_are_cancelled) {
    enum { N = 8, LEN = 12 * MIB };
    static char key[N][32], buf[N][LEN];
    struct ddict_op job[N], done;
    dict_start(&x, 2, 1, 512 * MIB);
    here = dict_attach(&x, 1);
    for (unsigned i = 0; i < N; i++) {
        value_fill(big, LEN, i);
        ok(ddict_put(here, key[i], key_of(here, 0, i, key[i], sizeof key[i]), big, LEN, 0, 20000));
    }
    for (unsigned kept = 0; kept < N; kept++) {
        ddict_async_t *q;
        unsigned ended = 0;
        double since = now_s();
        ok(ddict_async_open(here, &q));
        for (unsigned i = 0; i < N; i++)
            job[i] = (struct ddict_op){.what = DDICT_OP_GET,
                                       .key = key[i],
                                       .klen = strlen(key[i]),
                                       .buf = buf[i],
                                       .len = LEN,
                                       .timeout_ms = 60000,
                                       .user = key[i]};
        ck_assert_int_eq(ddict_async_submit(q, job, N), N);
        usleep(20000); /* some have been allowed more, some wait for that */
        kill(x.manager[0], SIGSTOP);
        for (double end = now_s() + 0.5; now_s() < end;)
            ck_assert_int_eq(ddict_async_poll(q, &done, 1, 50), 0);
        for (unsigned i = 0; i < N; i++)
            if (i != kept)
                ok(ddict_async_cancel(q, job[i].ticket));
        for (double end = now_s() + 0.3; now_s() < end;) {
            if (ddict_async_poll(q, &done, 1, 50) != 1)
                continue;
            ended++;
            free(done.text);
        }
        kill(x.manager[0], SIGCONT);
        for (; ended < N; ended++) {
            ck_assert_int_eq(ddict_async_poll(q, &done, 1, 60000), 1);
            if (done.user == key[kept]) {
                ck_assert_msg(done.status == 0, "value %u: %d %s", kept, done.status,
                              done.text ? done.text : "");
                ck_assert(done.vlen == LEN && value_is(buf[kept], LEN, kept));
            }
            free(done.text);
        }
        /* DD_STREAM_MS is 30 s */
        ck_assert_msg(now_s() - since < 20, "value %u stood still", kept);
        ddict_async_close(q);
    }
    ddict_detach(here);
    dict_stop(&x);
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {
        many_writers_of_a_node_do_not_keep_a_request_of_another_node_waiting,
        a_short_stop_delays_only_what_is_for_the_stopped_one_and_loses_nothing,
        what_was_given_up_is_in_nobodys_way,
        any_number_of_waiting_requests_leaves_room_for_the_puts_that_they_wait_for,
        a_value_goes_on_when_those_before_it_are_cancelled};
    return tests_main("client_hung", argc, argv, tests, sizeof tests / sizeof *tests);
}
