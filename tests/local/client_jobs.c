/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_jobs.c - many requests under way at once.
 * Invariants: every job that is under way gives exactly one result, with the right bytes, whoever polls; who sleeps on the descriptor is woken for it and is left
 * alone when there is nothing to do; jobs end in time whatever happens to managers, handle or process; nothing is left after close.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client_dict.h"

#define MIB (1u << 20)

static struct dict x;
static ddict_t *d;
static ddict_jobs_t *q;
static int fds_before;

static void begin(int nodes)
{
    dict_start(&x, nodes, 2, 256 * MIB);
    d = dict_attach(&x, 0);
    fds_before = open_fds();
    ok(ddict_jobs_open(d, &q));
}

static void end(void)
{
    ddict_jobs_close(q);
    ck_assert_int_eq(open_fds(), fds_before);
    ddict_detach(d);
    dict_stop(&x);
}

static bool readable(ddict_jobs_t *of, int ms)
{
    struct pollfd p = {.fd = ddict_jobs_fd(of), .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

/* Nothing is under way, and the descriptor does not say otherwise. A manager may ring once more for what we have taken already. */
static bool quiet(ddict_jobs_t *of)
{
    struct ddict_job none;
    for (int i = 0; i < 20; i++)
        if (ddict_poll(of, &none, 1, 0) == 0 && !readable(of, 50))
            return true;
    return false;
}

/* As an event loop does it: asleep on the descriptor, then all that there is. Returns n or fails. */
static size_t loop_until(ddict_jobs_t *of, struct ddict_job *done, size_t n)
{
    size_t got = 0;
    double end_s = now_s() + 60;
    while (got < n) {
        ck_assert_msg(now_s() < end_s && readable(of, 20000), "%zu of %zu results came", got, n);
        ssize_t k;
        do {
            k = ddict_poll(of, done + got, n - got < 7 ? n - got : 7, 0);
            ok(k);
            got += (size_t)k;
        } while (k > 0 && got < n);
    }
    return got;
}

static struct ddict_job job_of(unsigned what, const char *key, size_t klen, void *buf, size_t len, uintptr_t user)
{
    return (struct ddict_job){.what = what, .key = key, .klen = klen, .buf = buf, .len = len, .timeout_ms = 30000, .user = (void *)user};
}

static void submit_one(ddict_jobs_t *to, struct ddict_job *j, ssize_t under_way)
{
    ssize_t n = ddict_submit(to, j, 1);
    ck_assert_msg(n == under_way, "submit: %zd, status %d %s", n, j->status, ddict_errmsg());
}

START_TEST(what_is_on_this_node_is_over_at_once)
{
    char buf[100], key[2][32];
    size_t klen[2];
    begin(1);
    for (unsigned m = 0; m < 2; m++) {
        klen[m] = key_of(d, m, 0, key[m], 32);
        ok(ddict_put(d, key[m], klen[m], "value", 5, DDICT_TAG(9), -1));
    }
    struct ddict_job j[6] = {
        job_of(DDICT_DO_VIEW, key[0], klen[0], NULL, 0, 0), job_of(DDICT_DO_GET, key[1], klen[1], buf, sizeof buf, 1),
        job_of(DDICT_DO_GET, key[1], klen[1], buf, 3, 2),   job_of(DDICT_DO_VIEW, "none", 4, NULL, 0, 3),
        job_of(DDICT_DO_VIEW, "", 0, NULL, 0, 4),           job_of(77, "k", 1, NULL, 0, 5)};
    ck_assert_int_eq(ddict_submit(q, j, 6), 0);
    ck_assert_int_eq(j[0].status, 0);
    ck_assert(j[0].view.len == 5 && memcmp(j[0].view.data, "value", 5) == 0 && j[0].view.tag == 9);
    ddict_release(&j[0].view);
    ck_assert(j[1].status == 0 && j[1].vlen == 5 && j[1].tag == 9 && memcmp(buf, "value", 5) == 0 && j[1].text == NULL);
    ck_assert(j[2].status == DDICT_ESMALL && j[2].vlen == 5 && j[2].text != NULL);
    ck_assert(j[3].status == DDICT_ENOKEY && j[3].text == NULL);
    ck_assert(j[4].status == DDICT_EKEYSIZE && j[4].text != NULL);
    ck_assert(j[5].status == -EINVAL && j[5].text != NULL);
    for (int i = 0; i < 6; i++) {
        ck_assert_uint_eq(j[i].ticket, 0);
        free(j[i].text);
    }
    ck_assert_uint_eq(ddict_jobs_len(q), 0);
    ck_assert(quiet(q));
    struct ddict_job r;
    double t = now_s();
    ck_assert_int_eq(ddict_poll(q, &r, 1, 10000), 0); /* nothing is under way: no reason to wait */
    ck_assert(now_s() - t < 5);
    /* timeout 0: nothing is asked */
    struct ddict_job w = job_of(DDICT_DO_PUT, "k", 1, buf, 1, 0);
    w.timeout_ms = 0;
    submit_one(q, &w, 0);
    ck_assert_int_eq(w.status, -ETIMEDOUT);
    free(w.text);
    end();
}
END_TEST

/* Every kind of job, many at once, on both nodes, driven by the descriptor. */
START_TEST(each_of_many_jobs_ends_once_with_its_bytes)
{
    enum { N = 3000 };
    begin(2);
    struct ddict_job *j = calloc(N, sizeof *j), *done = calloc(N, sizeof *done);
    char (*key)[16] = calloc(N, sizeof *key);
    unsigned char *val = calloc(N, 2000);
    unsigned *seen = calloc(N, sizeof *seen);
    for (unsigned i = 0; i < N; i++) {
        size_t len = 1 + i * 7919u % 1999;
        value_fill(val + i * 2000, len, i);
        j[i] = job_of(DDICT_DO_PUT, key[i], (size_t)sprintf(key[i], "m%u", i), val + i * 2000, len, i);
        j[i].flags = DDICT_TAG(i & 0xff);
    }
    ck_assert_int_eq(ddict_submit(q, j, N), N);
    ck_assert_uint_eq(ddict_jobs_len(q), N);
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
        j[i] = i % 3 == 0   ? job_of(DDICT_DO_VIEW, key[i], strlen(key[i]), NULL, 0, i)
               : i % 3 == 1 ? job_of(DDICT_DO_GET, key[i], strlen(key[i]), to + i * 2000, i % 2 ? 2000 : 0, i)
                            : job_of(DDICT_DO_POP, key[i], strlen(key[i]), NULL, 0, i);
    ssize_t n = ddict_submit(q, j, N);
    ok(n);
    for (unsigned i = 0; i < N; i++)
        if (j[i].status != -EINPROGRESS)
            done[way++] = j[i];
    ck_assert_uint_eq(way, N - (size_t)n);
    loop_until(q, done + way, (size_t)n);
    for (unsigned k = 0; k < N; k++) {
        struct ddict_job *r = &done[k];
        unsigned i = (unsigned)(uintptr_t)r->user;
        size_t len = 1 + i * 7919u % 1999;
        seen[i]++;
        if (i % 3 == 1 && i % 2 == 0) {
            ck_assert(r->status == DDICT_ESMALL && r->vlen == len);
        } else if (i % 3 == 1) {
            ck_assert(r->status == 0 && r->vlen == len && r->tag == (i & 0xff) && value_is(to + i * 2000, len, i));
        } else {
            ck_assert_msg(r->status == 0, "%d %s", r->status, r->text);
            ck_assert(r->view.len == len && r->view.tag == (i & 0xff) && value_is(r->view.data, len, i));
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

START_TEST(large_values_come_and_go_in_pieces)
{
    enum { LEN = 20 * MIB + 12345 };
    char key[2][32];
    struct ddict_job done[4];
    begin(2);
    unsigned char *val = malloc(LEN), *to = malloc(LEN);
    for (unsigned m = 0; m < 2; m++) {
        size_t klen = key_of(d, m, 0, key[m], 32);
        value_fill(val, LEN, m);
        struct ddict_job p = job_of(DDICT_DO_PUT, key[m], klen, val, LEN, m);
        submit_one(q, &p, 1);
        loop_until(q, done, 1);
        ck_assert_msg(done[0].status == 0, "%s", done[0].text);
        memset(to, 0, LEN);
        struct ddict_job g[2] = {job_of(DDICT_DO_GET, key[m], klen, to, LEN, 0), job_of(DDICT_DO_VIEW, key[m], klen, NULL, 0, 1)};
        ssize_t n = ddict_submit(q, g, 2);
        ck_assert_int_eq(n, m == 0 ? 0 : 2);
        if (n == 2)
            loop_until(q, done, 2);
        else
            memcpy(done, g, sizeof g);
        for (int i = 0; i < 2; i++) {
            ck_assert_msg(done[i].status == 0, "%s", done[i].text);
            if (done[i].what == DDICT_DO_VIEW) {
                ck_assert(done[i].view.len == LEN && memcmp(done[i].view.data, val, LEN) == 0);
                ddict_release(&done[i].view);
            }
        }
        ck_assert(memcmp(to, val, LEN) == 0);
    }
    /* Refused while its pieces are on their way: the lane goes on. */
    struct ddict_job p = job_of(DDICT_DO_PUT, key[0], strlen(key[0]), val, LEN, 0);
    p.flags = DDICT_NEW;
    submit_one(q, &p, 1);
    loop_until(q, done, 1);
    ck_assert_int_eq(done[0].status, DDICT_EEXISTS);
    free(done[0].text);
    unsigned char *huge = calloc(1, 300 * MIB);
    p = job_of(DDICT_DO_PUT, "huge", 4, huge, 300 * MIB, 0);
    submit_one(q, &p, 1);
    loop_until(q, done, 1);
    ck_assert_int_eq(done[0].status, DDICT_EVALSIZE);
    ck_assert(done[0].text != NULL);
    free(done[0].text);
    /* Cancelled in the middle. */
    for (int i = 0; i < 4; i++) {
        p = job_of(DDICT_DO_PUT, key[i % 2], strlen(key[i % 2]), val, LEN, 0);
        submit_one(q, &p, 1);
        ok(ddict_cancel(q, p.ticket));
        memset(val, 0x55, LEN); /* ours again */
        fails(-ENOENT, ddict_cancel(q, p.ticket));
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

static void *put_later(void *arg)
{
    usleep(100000);
    for (unsigned i = 0; i < 200; i++) {
        char k[16];
        ok(ddict_put(d, k, (size_t)sprintf(k, "w%u", i), &i, sizeof i, 0, -1));
    }
    return arg;
}

START_TEST(jobs_wait_for_their_keys)
{
    pthread_t t;
    struct ddict_job done[210];
    begin(2);
    for (unsigned i = 0; i < 200; i++) {
        char k[16];
        struct ddict_job j = job_of(DDICT_DO_VIEW, k, (size_t)sprintf(k, "w%u", i), NULL, 0, i);
        j.flags = DDICT_WAIT;
        submit_one(q, &j, 1);
    }
    ck_assert_int_eq(ddict_poll(q, done, 210, 0), 0);
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
        struct ddict_job j = job_of(DDICT_DO_VIEW, k, (size_t)sprintf(k, "never%u", i), NULL, 0, i);
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
    ok(ddict_cancel(q, ticket));
    loop_until(q, done, 1);
    ck_assert(done[0].status == -ECANCELED && (uintptr_t)done[0].user == 9);
    free(done[0].text);
    ck_assert(quiet(q));
    end();
}
END_TEST

/* More waits than a manager takes of one lane do not keep the put back that ends them. */
START_TEST(thousands_may_wait)
{
    enum { N = 9000 };
    begin(2);
    char key[32];
    size_t klen = key_of(d, 1, 0, key, 32);
    struct ddict_job j = job_of(DDICT_DO_GET, key, klen, NULL, 0, 0), *done = calloc(N, sizeof *done);
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
static ddict_jobs_t *of_thread[3];

static void *poll_all(void *arg)
{
    ddict_jobs_t *mine = arg;
    struct ddict_job done[5];
    while (__atomic_load_n(&left_to_come, __ATOMIC_ACQUIRE) > 0) {
        ssize_t n = ddict_poll(mine, done, 5, 100);
        ok(n);
        for (ssize_t i = 0; i < n; i++) {
            ck_assert_msg(done[i].status == 0, "%d %s", done[i].status, done[i].text);
            if (done[i].what == DDICT_DO_VIEW) {
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

static void threads(bool one_set)
{
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
            ok(ddict_jobs_open(d, &of_thread[i]));
    }
    left_to_come = N;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, poll_all, of_thread[i]), 0);
    ck_assert_int_eq(pthread_create(&t[3], NULL, ask_all, NULL), 0);
    for (unsigned i = 0, over = 0; i < N; i++) {
        char k[16];
        struct ddict_job j = job_of(i % 5 ? DDICT_DO_VIEW : DDICT_DO_PUT, k, (size_t)sprintf(k, "t%u", i % 20), val, 100 + 25 * 19, i % 20);
        if (i % 5 == 0) {
            j.user = (void *)19;
            j.key = "t19";
            j.klen = 3;
        }
        ok(ddict_submit(of_thread[i % 3], &j, 1));
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
            ddict_jobs_close(of_thread[i]);
    ck_assert_uint_eq(ddict_jobs_len(q), 0);
    end();
}
START_TEST(threads_share_a_set) { threads(true); }
END_TEST
START_TEST(threads_have_sets_of_their_own) { threads(false); }
END_TEST

/* --- ends --- */

START_TEST(a_child_has_no_part_in_the_jobs_of_its_parent)
{
    begin(2);
    char key[32];
    size_t klen = key_of(d, 1, 0, key, 32);
    struct ddict_job j = job_of(DDICT_DO_VIEW, key, klen, NULL, 0, 0), done;
    j.flags = DDICT_WAIT;
    submit_one(q, &j, 1);
    pid_t pid = fork();
    if (pid == 0) {
        int rc = ddict_poll(q, &done, 1, 0) == -ECANCELED && ddict_submit(q, &j, 1) == -ECANCELED && ddict_cancel(q, 1) == -ECANCELED ? 0 : 1;
        ddict_jobs_t *mine;
        if (rc == 0 && ddict_jobs_open(d, &mine) < 0)
            rc = 2;
        ddict_jobs_close(q);
        struct ddict_job p = job_of(DDICT_DO_PUT, key, klen, (void *)(uintptr_t)"child", 5, 0);
        if (rc == 0 && (ddict_submit(mine, &p, 1) != 1 || ddict_poll(mine, &done, 1, 10000) != 1 || done.status != 0))
            rc = 3;
        if (rc == 0)
            ddict_jobs_close(mine);
        _exit(rc);
    }
    int status;
    ck_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    loop_until(q, &done, 1);
    ck_assert(done.status == 0 && done.view.len == 5 && memcmp(done.view.data, "child", 5) == 0);
    ddict_release(&done.view);
    end();
}
END_TEST

static void *poll_one(void *arg)
{
    struct ddict_job *done = arg;
    ok(ddict_poll(q, done, 1, 30000));
    return arg;
}

START_TEST(detach_ends_what_is_under_way)
{
    begin(2);
    char key[32];
    size_t klen = key_of(d, 1, 0, key, 32);
    unsigned char val[5000];
    struct ddict_job done[3], first;
    value_fill(val, sizeof val, 1);
    ok(ddict_put(d, key, klen, val, sizeof val, 0, -1));
    struct ddict_job j = job_of(DDICT_DO_VIEW, key, klen, NULL, 0, 1), w = job_of(DDICT_DO_VIEW, "never", 5, NULL, 0, 2);
    w.flags = DDICT_WAIT;
    submit_one(q, &w, 1);
    submit_one(q, &w, 1);
    pthread_t t;
    ck_assert_int_eq(pthread_create(&t, NULL, poll_one, &first), 0);
    usleep(30000);
    submit_one(q, &j, 1);
    pthread_join(t, NULL); /* it has the view */
    ck_assert(first.status == 0);
    submit_one(q, &j, 1);
    double s = now_s();
    while (!readable(q, 1000) && now_s() < s + 20) {
    }
    ddict_poll(q, done, 0, 0);
    usleep(30000);
    ddict_detach(d);
    struct ddict_job more = w;
    fails(-ECANCELED, ddict_submit(q, &more, 1));
    loop_until(q, done, 3);
    unsigned cancelled = 0;
    for (int i = 0; i < 3; i++) {
        cancelled += done[i].status == -ECANCELED;
        if (done[i].status == 0) {
            ck_assert(value_is(done[i].view.data, sizeof val, 1));
            ddict_release(&done[i].view);
        }
        free(done[i].text);
    }
    ck_assert_uint_ge(cancelled, 2);
    ck_assert(quiet(q));
    ck_assert(value_is(first.view.data, sizeof val, 1));
    ddict_release(&first.view);
    ddict_jobs_close(q);
    dict_stop(&x);
}
END_TEST

/* Close with all stages of jobs in it. */
START_TEST(close_drops_everything)
{
    begin(2);
    char key[32];
    size_t klen = key_of(d, 1, 0, key, 32);
    static unsigned char val[4 * MIB];
    ok(ddict_put(d, key, klen, val, 100000, 0, -1));
    for (int turn = 0; turn < 20; turn++) {
        ddict_jobs_t *mine;
        ok(ddict_jobs_open(d, &mine));
        struct ddict_job j[3] = {job_of(DDICT_DO_VIEW, key, klen, NULL, 0, 0), job_of(DDICT_DO_VIEW, "never", 5, NULL, 0, 0),
                                 job_of(DDICT_DO_PUT, key, klen, val, turn % 2 ? 4 * MIB : 10, 0)};
        j[1].flags = DDICT_WAIT;
        ok(ddict_submit(mine, j, 3));
        usleep((useconds_t)(turn % 4) * 1000);
        ddict_jobs_close(mine);
    }
    struct ddict_manager_stats *s;
    double end_s = now_s() + 20;
    for (;;) { /* all of the transit blocks are free again */
        ok(ddict_put(d, key, klen, val, 4 * MIB, 0, -1));
        ok(ddict_stats(d, &s, -1));
        uint64_t leased = s[0].leased_bytes + s[1].leased_bytes;
        free(s);
        if (leased == 0)
            break;
        ck_assert(now_s() < end_s);
        usleep(10000);
    }
    end();
}
END_TEST

START_TEST(jobs_end_in_time_when_managers_hang)
{
    begin(2);
    static unsigned char val[MIB];
    struct ddict_job done[3];
    for (int m = 0; m < 2; m++)
        kill(x.manager[m], SIGSTOP);
    usleep(20000);
    char key[32];
    struct ddict_job j[3] = {job_of(DDICT_DO_PUT, "a", 1, val, MIB, 0), job_of(DDICT_DO_VIEW, key, key_of(d, 1, 0, key, 32), NULL, 0, 1),
                             job_of(DDICT_DO_DEL, "b", 1, NULL, 0, 2)};
    for (int i = 0; i < 3; i++)
        j[i].timeout_ms = 200;
    double s = now_s();
    ck_assert_int_eq(ddict_submit(q, j, 3), 3);
    loop_until(q, done, 3);
    ck_assert(now_s() - s > 0.19 && now_s() - s < 10);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(done[i].status, -ETIMEDOUT);
        free(done[i].text);
    }
    for (int m = 0; m < 2; m++)
        kill(x.manager[m], SIGCONT);
    ok(ddict_put(d, "a", 1, "x", 1, 0, 20000)); /* the lanes go on */
    end();
}
END_TEST

START_TEST(jobs_end_when_a_manager_dies)
{
    begin(2);
    struct ddict_job done[2], w = job_of(DDICT_DO_VIEW, "never", 5, NULL, 0, 2);
    w.flags = DDICT_WAIT;
    w.timeout_ms = 100000;
    submit_one(q, &w, 1);
    w.key = "never2";
    w.klen = 6;
    submit_one(q, &w, 1);
    ck_assert_int_eq(ddict_poll(q, done, 2, 50), 0);
    x.broken = true;
    double s = now_s();
    kill(x.manager[0], SIGKILL);
    loop_until(q, done, 2);
    ck_assert(now_s() - s < 10);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(done[i].status == DDICT_ELOST || done[i].status == DDICT_EGONE, "%d", done[i].status);
        ck_assert(done[i].text != NULL);
        free(done[i].text);
    }
    usleep(300000); /* ddictd is gone, too */
    struct ddict_job r;
    ck_assert_int_eq(ddict_poll(q, &r, 1, 0), 0);
    ck_assert_msg(quiet(q), "nothing to do, and yet it is readable");
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("client_jobs");
    TCase *t = tcase_create("jobs");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, what_is_on_this_node_is_over_at_once);
    tcase_add_test(t, each_of_many_jobs_ends_once_with_its_bytes);
    tcase_add_test(t, large_values_come_and_go_in_pieces);
    tcase_add_test(t, jobs_wait_for_their_keys);
    tcase_add_test(t, thousands_may_wait);
    tcase_add_test(t, threads_share_a_set);
    tcase_add_test(t, threads_have_sets_of_their_own);
    suite_add_tcase(s, t);
    t = tcase_create("ends");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_child_has_no_part_in_the_jobs_of_its_parent);
    tcase_add_test(t, detach_ends_what_is_under_way);
    tcase_add_test(t, close_drops_everything);
    tcase_add_test(t, jobs_end_in_time_when_managers_hang);
    tcase_add_test(t, jobs_end_when_a_manager_dies);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
