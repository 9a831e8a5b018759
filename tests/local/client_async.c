/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_async.c - many requests under way at once. Invariants: every operation that is under way
 * gives exactly one result, with the right bytes, whoever polls; who sleeps on the descriptor is
 * woken for it and is left alone when there is nothing to do.
 */
#include "client_async.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

START_TEST(what_is_on_this_node_is_over_at_once) {
    char buf[100], key[2][32];
    size_t klen[2];
    begin(1);
    for (unsigned m = 0; m < 2; m++) {
        klen[m] = key_of(d, m, 0, key[m], 32);
        ok(ddict_put(d, key[m], klen[m], "value", 5, DDICT_TAG(9), -1));
    }
    struct ddict_op j[6] = {op_of(DDICT_OP_VIEW, key[0], klen[0], NULL, 0, 0),
                            op_of(DDICT_OP_GET, key[1], klen[1], buf, sizeof buf, 1),
                            op_of(DDICT_OP_GET, key[1], klen[1], buf, 3, 2),
                            op_of(DDICT_OP_VIEW, "none", 4, NULL, 0, 3),
                            op_of(DDICT_OP_VIEW, "", 0, NULL, 0, 4),
                            op_of(77, "k", 1, NULL, 0, 5)};
    ck_assert_int_eq(ddict_async_submit(q, j, 6), 0);
    ck_assert_int_eq(j[0].status, 0);
    ck_assert(j[0].view.len == 5 && memcmp(j[0].view.data, "value", 5) == 0 && j[0].view.tag == 9);
    ddict_release(&j[0].view);
    ck_assert(j[1].status == 0 && j[1].vlen == 5 && j[1].tag == 9 && memcmp(buf, "value", 5) == 0 &&
              !j[1].text);
    ck_assert(j[2].status == DDICT_ESMALL && j[2].vlen == 5 && j[2].text);
    ck_assert(j[3].status == DDICT_ENOKEY && !j[3].text);
    ck_assert(j[4].status == DDICT_EKEYSIZE && j[4].text);
    ck_assert(j[5].status == -EINVAL && j[5].text);
    for (int i = 0; i < 6; i++) {
        ck_assert_uint_eq(j[i].ticket, 0);
        free(j[i].text);
    }
    ck_assert_uint_eq(ddict_async_len(q), 0);
    ck_assert(quiet(q));
    struct ddict_op r;
    double t = now_s();
    /* nothing is under way: no reason to wait */
    ck_assert_int_eq(ddict_async_poll(q, &r, 1, 30000), 0);
    ck_assert(now_s() - t < 15);
    /* timeout 0: nothing is asked */
    struct ddict_op w = op_of(DDICT_OP_PUT, "k", 1, buf, 1, 0);
    w.timeout_ms = 0;
    submit_one(q, &w, 0);
    ck_assert_int_eq(w.status, -ETIMEDOUT);
    free(w.text);
    end();
}
END_TEST

/* Every kind of operation, many at once, on both nodes, driven by the descriptor. */
START_TEST(each_of_many_operations_ends_once_with_its_bytes) {
    enum { N = 3000 };
    begin(2);
    struct ddict_op *j = calloc(N, sizeof *j), *done = calloc(N, sizeof *done);
    char(*key)[16] = calloc(N, sizeof *key);
    unsigned char *val = calloc(N, 2000);
    unsigned *seen = calloc(N, sizeof *seen);
    for (unsigned i = 0; i < N; i++) {
        size_t len = 1 + i * 7919u % 1999;
        value_fill(val + i * 2000, len, i);
        j[i] =
            op_of(DDICT_OP_PUT, key[i], (size_t)sprintf(key[i], "m%u", i), val + i * 2000, len, i);
        j[i].flags = DDICT_TAG(i & 0xff);
    }
    ck_assert_int_eq(ddict_async_submit(q, j, N), N);
    ck_assert_uint_eq(ddict_async_len(q), N);
    loop_until(q, done, N);
    for (unsigned i = 0; i < N; i++) {
        ck_assert_msg(done[i].status == 0, "%d %s", done[i].status, done[i].text);
        ck_assert_uint_ne(done[i].ticket, 0);
        seen[(uintptr_t)done[i].user]++;
    }
    for (unsigned i = 0; i < N; i++)
        ck_assert_uint_eq(seen[i], 1);
    ck_assert_int_eq(ddict_len(d, -1), N);

    memset(seen, 0, N * sizeof *seen);
    unsigned char *to = calloc(N, 2000);
    size_t way = 0;
    for (unsigned i = 0; i < N; i++)
        j[i] = i % 3 == 0 ? op_of(DDICT_OP_VIEW, key[i], strlen(key[i]), NULL, 0, i)
               : i % 3 == 1
                   ? op_of(DDICT_OP_GET, key[i], strlen(key[i]), to + i * 2000, i % 2 ? 2000 : 0, i)
                   : op_of(DDICT_OP_POP, key[i], strlen(key[i]), NULL, 0, i);
    ssize_t n = ddict_async_submit(q, j, N);
    ok(n);
    for (unsigned i = 0; i < N; i++)
        if (j[i].status != -EINPROGRESS)
            done[way++] = j[i];
    ck_assert_uint_eq(way, N - (size_t)n);
    loop_until(q, done + way, (size_t)n);
    for (unsigned k = 0; k < N; k++) {
        struct ddict_op *r = &done[k];
        unsigned i = (unsigned)(uintptr_t)r->user;
        size_t len = 1 + i * 7919u % 1999;
        seen[i]++;
        if (i % 3 == 1 && i % 2 == 0) {
            ck_assert(r->status == DDICT_ESMALL && r->vlen == len);
        } else if (i % 3 == 1) {
            ck_assert(r->status == 0 && r->vlen == len && r->tag == (i & 0xff) &&
                      value_is(to + i * 2000, len, i));
        } else {
            ck_assert_msg(r->status == 0, "%d %s", r->status, r->text);
            ck_assert(r->view.len == len && r->view.tag == (i & 0xff) &&
                      value_is(r->view.data, len, i));
            ddict_release(&r->view);
        }
        free(r->text);
    }
    for (unsigned i = 0; i < N; i++)
        ck_assert_uint_eq(seen[i], 1);
    ck_assert_int_eq(ddict_len(d, -1), N - N / 3);
    ck_assert(quiet(q));
    free(j);
    free(done);
    free(key);
    free(val);
    free(seen);
    free(to);
    end();
}
END_TEST

START_TEST(large_values_come_and_go_in_pieces) {
    enum { LEN = 20 * MIB + 12345 };
    char key[2][32];
    struct ddict_op done[4];
    begin(2);
    unsigned char *val = malloc(LEN), *to = malloc(LEN);
    for (unsigned m = 0; m < 2; m++) {
        size_t klen = key_of(d, m, 0, key[m], 32);
        value_fill(val, LEN, m);
        struct ddict_op p = op_of(DDICT_OP_PUT, key[m], klen, val, LEN, m);
        submit_one(q, &p, 1);
        loop_until(q, done, 1);
        ck_assert_msg(done[0].status == 0, "%s", done[0].text);
        memset(to, 0, LEN);
        struct ddict_op g[2] = {op_of(DDICT_OP_GET, key[m], klen, to, LEN, 0),
                                op_of(DDICT_OP_VIEW, key[m], klen, NULL, 0, 1)};
        ssize_t n = ddict_async_submit(q, g, 2);
        ck_assert_int_eq(n, m == 0 ? 0 : 2);
        if (n == 2)
            loop_until(q, done, 2);
        else
            memcpy(done, g, sizeof g);
        for (int i = 0; i < 2; i++) {
            ck_assert_msg(done[i].status == 0, "%s", done[i].text);
            if (done[i].what == DDICT_OP_VIEW) {
                ck_assert(done[i].view.len == LEN && memcmp(done[i].view.data, val, LEN) == 0);
                ddict_release(&done[i].view);
            }
        }
        ck_assert(memcmp(to, val, LEN) == 0);
    }
    /* Refused while its pieces are on their way: the lane goes on. */
    struct ddict_op p = op_of(DDICT_OP_PUT, key[0], strlen(key[0]), val, LEN, 0);
    p.flags = DDICT_NEW;
    submit_one(q, &p, 1);
    loop_until(q, done, 1);
    ck_assert_int_eq(done[0].status, DDICT_EEXISTS);
    free(done[0].text);
    unsigned char *huge = calloc(1, 300 * MIB);
    p = op_of(DDICT_OP_PUT, "huge", 4, huge, 300 * MIB, 0);
    submit_one(q, &p, 1);
    loop_until(q, done, 1);
    ck_assert_int_eq(done[0].status, DDICT_EVALSIZE);
    ck_assert(done[0].text != NULL);
    free(done[0].text);
    /* Cancelled in the middle. */
    for (int i = 0; i < 4; i++) {
        p = op_of(DDICT_OP_PUT, key[i % 2], strlen(key[i % 2]), val, LEN, 0);
        submit_one(q, &p, 1);
        ok(ddict_async_cancel(q, p.ticket));
        memset(val, 0x55, LEN); /* ours again */
        fails(-ENOENT, ddict_async_cancel(q, p.ticket));
        loop_until(q, done, 1);
        ck_assert(done[0].status == -ECANCELED && done[0].ticket == p.ticket);
        free(done[0].text);
    }
    for (int m = 0; m < 2; m++) { /* as before: none of the cancelled is stored in part */
        size_t n;
        ok(ddict_get(d, key[m], strlen(key[m]), to, LEN, &n, NULL, 0, -1));
        ck_assert(n == LEN && value_is(to, LEN, (uint64_t)m));
    }
    free(huge);
    free(val);
    free(to);
    end();
}
END_TEST

static void *put_later(void *arg) {
    usleep(100000);
    for (unsigned i = 0; i < 200; i++) {
        char k[16];
        ok(ddict_put(d, k, (size_t)sprintf(k, "w%u", i), &i, sizeof i, 0, -1));
    }
    return arg;
}

START_TEST(operations_wait_for_their_keys) {
    pthread_t t;
    struct ddict_op done[210];
    begin(2);
    for (unsigned i = 0; i < 200; i++) {
        char k[16];
        struct ddict_op j = op_of(DDICT_OP_VIEW, k, (size_t)sprintf(k, "w%u", i), NULL, 0, i);
        j.flags = DDICT_WAIT;
        submit_one(q, &j, 1);
    }
    ck_assert_int_eq(ddict_async_poll(q, done, 210, 0), 0);
    ck_assert_int_eq(pthread_create(&t, NULL, put_later, NULL), 0);
    loop_until(q, done, 200);
    for (unsigned i = 0; i < 200; i++) {
        unsigned v;
        ck_assert_msg(done[i].status == 0, "%d %s", done[i].status, done[i].text);
        memcpy(&v, done[i].view.data, sizeof v);
        ck_assert(done[i].view.len == sizeof v && v == (uintptr_t)done[i].user);
        ddict_release(&done[i].view);
    }
    pthread_join(t, NULL);
    /* Those that do not come: in time, by the descriptor alone. */
    uint64_t ticket = 0;
    for (unsigned i = 0; i < 10; i++) {
        char k[16];
        struct ddict_op j = op_of(DDICT_OP_VIEW, k, (size_t)sprintf(k, "never%u", i), NULL, 0, i);
        j.flags = DDICT_WAIT;
        j.timeout_ms = i == 9 ? 60000 : 200;
        submit_one(q, &j, 1);
        ticket = j.ticket;
    }
    double s = now_s();
    loop_until(q, done, 9);
    ck_assert(now_s() - s > 0.19 && now_s() - s < 10);
    for (int i = 0; i < 9; i++) {
        ck_assert_int_eq(done[i].status, -ETIMEDOUT);
        ck_assert(done[i].text != NULL);
        free(done[i].text);
    }
    ok(ddict_async_cancel(q, ticket));
    loop_until(q, done, 1);
    ck_assert(done[0].status == -ECANCELED && (uintptr_t)done[0].user == 9);
    free(done[0].text);
    ck_assert(quiet(q));
    end();
}
END_TEST

/* More waits than a manager takes of one lane do not keep the put back that ends them. */
START_TEST(thousands_may_wait) {
    enum { N = 9000 };
    begin(2);
    char key[32];
    size_t klen = key_of(d, 1, 0, key, 32);
    struct ddict_op j = op_of(DDICT_OP_GET, key, klen, NULL, 0, 0), *done = calloc(N, sizeof *done);
    j.flags = DDICT_WAIT;
    for (unsigned i = 0; i < N; i++)
        submit_one(q, &j, 1);
    ok(ddict_put(d, key, klen, "here", 4, 0, 20000));
    loop_until(q, done, N);
    for (unsigned i = 0; i < N; i++) {
        ck_assert(done[i].status == DDICT_ESMALL && done[i].vlen == 4);
        free(done[i].text);
    }
    free(done);
    end();
}
END_TEST

/* --- threads --- */

static uint32_t left_to_come;
static ddict_async_t *of_thread[3];

static void *poll_all(void *arg) {
    ddict_async_t *mine = arg;
    struct ddict_op done[5];
    while (__atomic_load_n(&left_to_come, __ATOMIC_ACQUIRE) > 0) {
        ssize_t n = ddict_async_poll(mine, done, 5, 100);
        ok(n);
        for (ssize_t i = 0; i < n; i++) {
            ck_assert_msg(done[i].status == 0, "%d %s", done[i].status, done[i].text);
            if (done[i].what == DDICT_OP_VIEW) {
                ck_assert(value_is(done[i].view.data, done[i].view.len, (uintptr_t)done[i].user));
                ddict_release(&done[i].view);
            }
        }
        __atomic_fetch_sub(&left_to_come, (uint32_t)n, __ATOMIC_RELEASE);
    }
    return arg;
}

static void *ask_all(void *arg) /* plain calls beside */
{
    unsigned char buf[600];
    while (__atomic_load_n(&left_to_come, __ATOMIC_ACQUIRE) > 0)
        for (unsigned i = 0; i < 20; i++) {
            char k[16];
            size_t n;
            ok(ddict_get(d, k, (size_t)sprintf(k, "t%u", i), buf, sizeof buf, &n, NULL, 0, -1));
            ck_assert(value_is(buf, n, i));
        }
    return arg;
}

static void threads(bool one_set) {
    enum { N = 4000 };
    pthread_t t[4];
    unsigned char val[600];
    begin(2);
    for (unsigned i = 0; i < 20; i++) {
        char k[16];
        value_fill(val, 100 + 25 * i, i);
        ok(ddict_put(d, k, (size_t)sprintf(k, "t%u", i), val, 100 + 25 * i, 0, -1));
    }
    for (int i = 0; i < 3; i++) {
        of_thread[i] = q;
        if (!one_set && i > 0)
            ok(ddict_async_open(d, &of_thread[i]));
    }
    left_to_come = N;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, poll_all, of_thread[i]), 0);
    ck_assert_int_eq(pthread_create(&t[3], NULL, ask_all, NULL), 0);
    for (unsigned i = 0, over = 0; i < N; i++) {
        char k[16];
        struct ddict_op j = op_of(i % 5 ? DDICT_OP_VIEW : DDICT_OP_PUT, k,
                                  (size_t)sprintf(k, "t%u", i % 20), val, 100 + 25 * 19, i % 20);
        if (i % 5 == 0) {
            j.user = (void *)19;
            j.key = "t19";
            j.klen = 3;
        }
        ok(ddict_async_submit(of_thread[i % 3], &j, 1));
        if (j.status != -EINPROGRESS) {
            ck_assert(j.status == 0 && value_is(j.view.data, j.view.len, i % 20));
            ddict_release(&j.view);
            over = 1;
        }
        if (j.status != -EINPROGRESS)
            __atomic_fetch_sub(&left_to_come, over, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    for (int i = 1; i < 3; i++)
        if (!one_set)
            ddict_async_close(of_thread[i]);
    ck_assert_uint_eq(ddict_async_len(q), 0);
    end();
}
START_TEST(threads_share_a_set) {
    threads(true);
}
END_TEST
START_TEST(threads_have_sets_of_their_own) {
    threads(false);
}
END_TEST

ASYNC_MAIN("client_async", what_is_on_this_node_is_over_at_once,
           each_of_many_operations_ends_once_with_its_bytes, large_values_come_and_go_in_pieces,
           operations_wait_for_their_keys, thousands_may_wait, threads_share_a_set,
           threads_have_sets_of_their_own)
