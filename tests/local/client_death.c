/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_death.c - what calls do when managers hang, die, or are not there. Invariants: no call
 * hangs; a call under way when a manager that is not started again, a node or ddictd dies gives
 * DDICT_ELOST (DDICT_EGONE when the dictionary ended) within a second; a call that ran out of time has
 * no effect on a later one; views that are held stay readable.
 */
#include "client_dict.h"
#include <base/defaults.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MIB (1u << 20)

static struct dict x;
static ddict_t *d;
static char key_here[32], key_far[32]; /* owned by manager 0 (this node) and 1 (the other) */
static size_t len_here, len_far;

static void begin(int nodes) {
    dict_start(&x, nodes, 2, 64 * MIB);
    d = dict_attach(&x, 0);
    len_here = key_of(d, 0, 0, key_here, 32);
    len_far = key_of(d, 1, 0, key_far, 32);
}

/* --- one call of each kind that must ask a manager --- */

enum kind {
    PUT_HERE,
    PUT_FAR,
    PUT_BIG,
    GET_FAR,
    VIEW_FAR,
    WAIT_HERE,
    WAIT_FAR,
    POP_WAIT,
    DEL_FAR,
    HEAD_FAR,
    LEN,
    CLEAR,
    STATS,
    KEYS,
    PUT_MANY,
    GET_MANY,
    KINDS
};
static const char *const kind_name[] = {"put here", "put far",      "large put", "get far",
                                        "view far", "wait here",    "wait far",  "pop wait",
                                        "del far",  "contains far", "len",       "clear",
                                        "stats",    "keys",         "put_many",  "get_many"};
static char big[30 * MIB];

static long long call_kind(enum kind k, int timeout_ms) {
    struct ddict_view v;
    struct ddict_manager_stats *s;
    char buf[64];
    long long rc;
    switch (k) {
    case PUT_HERE:
        return ddict_put(d, key_here, len_here, "v", 1, 0, timeout_ms);
    case PUT_FAR:
        return ddict_put(d, key_far, len_far, "v", 1, 0, timeout_ms);
    case PUT_BIG:
        return ddict_put(d, key_here, len_here, big, 10 * MIB, 0, timeout_ms);
    case GET_FAR:
        return ddict_get(d, key_far, len_far, buf, sizeof buf, NULL, NULL, 0, timeout_ms);
    case VIEW_FAR:
        if ((rc = ddict_view(d, key_far, len_far, &v, 0, timeout_ms)) == 0)
            ddict_release(&v);
        return rc;
    case WAIT_HERE:
    case WAIT_FAR: {
        char none[32];
        size_t n = key_of(d, k == WAIT_FAR, 5, none, 32);
        return ddict_get(d, none, n, buf, sizeof buf, NULL, NULL, DDICT_WAIT, timeout_ms);
    }
    case POP_WAIT: {
        char none[32];
        size_t n = key_of(d, 0, 6, none, 32);
        return ddict_pop(d, none, n, &v, DDICT_WAIT, timeout_ms);
    }
    case DEL_FAR:
        return ddict_del(d, key_far, len_far, timeout_ms);
    case HEAD_FAR:
        return ddict_contains(d, key_far, len_far, NULL, timeout_ms);
    case LEN:
        return ddict_len(d, timeout_ms);
    case CLEAR:
        return ddict_clear(d, timeout_ms);
    case STATS:
        if ((rc = ddict_stats(d, &s, sizeof *s, timeout_ms)) >= 0)
            free(s);
        return rc;
    case KEYS: {
        ddict_iter_t *it;
        const void *key;
        size_t n;
        if ((rc = ddict_iter_open(d, 1, &it, timeout_ms)) < 0)
            return rc;
        while ((rc = ddict_iter_next(it, &key, &n)) == 1) {
        }
        ddict_iter_close(it);
        return rc;
    }
    case PUT_MANY: {
        struct ddict_pair p[2] = {{key_here, len_here, "v", 1, 0, 0},
                                  {key_far, len_far, "v", 1, 0, 0}};
        rc = ddict_put_many(d, p, 2, timeout_ms);
        return rc < 0 ? rc : p[0].status < 0 ? p[0].status : p[1].status;
    }
    case GET_MANY: {
        struct ddict_want w[2] = {{.key = key_here, .klen = len_here},
                                  {.key = key_far, .klen = len_far}};
        rc = ddict_get_many(d, w, 2, 0, timeout_ms);
        int st = w[1].status;
        ddict_release(&w[0].view);
        ddict_release(&w[1].view);
        return rc < 0 ? rc : st;
    }
    default:
        return 0;
    }
}

/* --- a manager that does not answer --- */

static void all_stop(int sig) {
    for (int m = 0; m < 2; m++)
        kill(x.manager[m], sig);
    if (sig == SIGSTOP)
        usleep(20000);
}

#define TRIES 5 /* to be as quick as it has to be: others may have the cores meanwhile */

START_TEST(each_call_ends_in_time_when_managers_hang) {
    begin(2);
    ok(ddict_put(d, key_here, len_here, "old", 3, 0, -1));
    ok(ddict_put(d, key_far, len_far, "old", 3, 0, -1));
    all_stop(SIGSTOP);
    for (enum kind k = 0; k < KINDS; k++) {
        double t = 0, most = k == WAIT_HERE || k == WAIT_FAR || k == POP_WAIT ? 1.6 : 0.6;
        for (int tries = 0; tries < TRIES && (tries == 0 || t >= most); tries++) {
            t = now_s();
            long long rc = call_kind(k, 150);
            t = now_s() - t;
            ck_assert_msg(rc == -ETIMEDOUT, "%s: %lld %s", kind_name[k], rc, ddict_errmsg());
            ck_assert_msg(t > 0.14 && t < 20, "%s took %.2f s", kind_name[k], t);
            ck_assert(ddict_errmsg()[0] != 0);
        }
        ck_assert_msg(t < most, "%s took %.2f s, and no less in %d tries", kind_name[k], t, TRIES);
    }
    all_stop(SIGCONT);
    /* What was sent takes effect now or never, but the lane goes on: all later answers belong to
     * their requests. */
    ok(ddict_clear(d, 5000));
    for (unsigned i = 0; i < 3000; i++) {
        char k[16];
        unsigned char b[700], c[700];
        size_t n = (size_t)sprintf(k, "n%u", i), got;
        value_fill(b, sizeof b, i);
        ok(ddict_put(d, k, n, b, i % 700, 0, 5000));
        ok(ddict_get(d, k, n, c, sizeof c, &got, NULL, 0, 5000));
        ck_assert(got == i % 700 && memcmp(b, c, got) == 0);
    }
    ck_assert_int_eq(ddict_len(d, 5000), 3000);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(streams_that_are_given_up_leave_no_trace) {
    begin(2);
    for (unsigned round = 0; round < 6; round++) {
        const char *key = round % 2 ? key_far : key_here;
        size_t klen = round % 2 ? len_far : len_here;
        value_fill(big, 10 * MIB, round);
        ok(ddict_put(d, key, klen, big, 10 * MIB, 0, 5000));
        all_stop(SIGSTOP);
        static char other[10 * MIB], back[10 * MIB];
        memset(other, 7, sizeof other);
        size_t got = 0;
        /* in the middle: can not be committed */
        fails(-ETIMEDOUT, ddict_put(d, key, klen, other, sizeof other, 0, 100));
        if (round % 2)
            fails(-ETIMEDOUT, ddict_get(d, key, klen, back, sizeof back, &got, NULL, 0, 100));
        all_stop(SIGCONT);
        memset(back, 0, sizeof back);
        ok(ddict_get(d, key, klen, back, sizeof back, &got, NULL, 0, 10000));
        ck_assert_uint_eq(got, 10 * MIB);
        ck_assert(value_is(back, got, round));
    }
    ok(ddict_clear(d, 5000));
    double until = now_s() + 30;
    uint64_t used = UINT64_MAX;
    while (used > 6 * MIB && now_s() < until) {
        struct ddict_manager_stats *s;
        for (int i = 0; i < 500; i++)
            ok(ddict_put(d, key_here, len_here, big, 4096, 0, 5000));
        ok(ddict_stats(d, &s, sizeof *s, 5000));
        used = s[0].total_used_bytes > s[1].total_used_bytes ? s[0].total_used_bytes
                                                             : s[1].total_used_bytes;
        free(s);
    }
    ck_assert_msg(used <= 6 * MIB, "%llu bytes are used after clear", (unsigned long long)used);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(a_get_that_waits_ends_at_its_time) {
    begin(2);
    struct ddict_view v;
    char b[8];
    for (int far = 0; far < 2; far++) {
        char none[32];
        size_t n = key_of(d, (unsigned)far, 9, none, 32);
        double t = now_s();
        fails(-ETIMEDOUT, ddict_get(d, none, n, b, 8, NULL, NULL, DDICT_WAIT, 200));
        fails(-ETIMEDOUT, ddict_view(d, none, n, &v, DDICT_WAIT, 200));
        fails(-ETIMEDOUT, ddict_pop(d, none, n, &v, DDICT_WAIT, 200));
        t = now_s() - t;
        ck_assert_msg(t > 0.59 && t < 20, "%.3f s", t);
        ok(ddict_put(d, none, n, "x", 1, 0, -1)); /* nobody takes it any more */
        ck_assert_int_eq(ddict_contains(d, none, n, NULL, -1), 1);
    }
    setenv("DDICT_TIMEOUT", "0.3", 1);
    ddict_t *e = dict_attach(&x, 0);
    double t = 1;
    for (int tries = 0; tries < TRIES && t >= 0.6; tries++) {
        t = now_s();
        fails(-ETIMEDOUT, ddict_get(e, "no such key", 11, b, 8, NULL, NULL, DDICT_WAIT, -1));
        t = now_s() - t;
    }
    ck_assert_msg(t > 0.29 && t < 0.6, "%.3f s", t);
    ddict_detach(e);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* --- deaths --- */

struct caller {
    enum kind kind;
    pthread_t thread;
    long long rc;
    double over;
};
static int go_on, over_n; /* how many of them are over */

static void *caller_run(void *arg) {
    struct caller *c = arg;
    while (__atomic_load_n(&go_on, __ATOMIC_RELAXED)) {
        c->rc = call_kind(c->kind, 20000);
        if (c->rc == DDICT_ELOST || c->rc == DDICT_EGONE)
            break;
        if (c->rc < 0 && c->rc != DDICT_ENOKEY && c->rc != DDICT_EFULL)
            break;
        usleep(500); /* the time to an error is measured, not the machine's load */
    }
    c->over = now_s();
    __atomic_fetch_add(&over_n, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void *reader_run(void *arg) /* in place only: no system call */
{
    struct caller *c = arg;
    struct ddict_view v;
    while (__atomic_load_n(&go_on, __ATOMIC_RELAXED)) {
        c->rc = ddict_view(d, "held", 4, &v, 0, 20000);
        if (c->rc == 0)
            ddict_release(&v);
        else if (c->rc != DDICT_ENOKEY) /* clear is among the callers */
            break;
        usleep(100);
    }
    c->over = now_s();
    __atomic_fetch_add(&over_n, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* How long the last call took to end. */
static double fail_after(void (*strike)(void), bool gone_allowed) {
    struct caller c[KINDS + 1];
    struct ddict_view v;
    char val[5000];
    begin(2);
    x.broken = true;
    if (ddict_owner(d, "held", 4) != 0) { /* it must lie here */
        ck_abort_msg("choose another key");
    }
    value_fill(val, sizeof val, 3);
    ok(ddict_put(d, "held", 4, val, sizeof val, 0, -1));
    ok(ddict_view(d, "held", 4, &v, 0, -1));
    go_on = 1;
    over_n = 0;
    for (int k = 0; k <= KINDS; k++) {
        c[k] = (struct caller){.kind = (enum kind)k};
        pthread_create(&c[k].thread, NULL, k == KINDS ? reader_run : caller_run, &c[k]);
    }
    usleep(300000);
    double t = now_s();
    strike();
    double longest = 0;
    while (__atomic_load_n(&over_n, __ATOMIC_RELAXED) <= KINDS && now_s() < t + 20)
        usleep(5000);
    __atomic_store_n(&go_on, 0, __ATOMIC_RELAXED);
    for (int k = 0; k <= KINDS; k++) {
        const char *name = k == KINDS ? "view in place" : kind_name[k];
        pthread_join(c[k].thread, NULL);
        ck_assert_msg(c[k].rc == DDICT_ELOST || (gone_allowed && c[k].rc == DDICT_EGONE),
                      "%s: %lld", name, c[k].rc);
        if (c[k].over - t > longest)
            longest = c[k].over - t;
    }
    long long rc = call_kind(PUT_HERE, 1000);
    ck_assert(rc == DDICT_ELOST || (gone_allowed && rc == DDICT_EGONE));
    ck_assert(strlen(ddict_errmsg()) > 10);
    ck_assert(value_is(v.data, v.len, 3)); /* still ours */
    ddict_release(&v);
    ddict_detach(d);
    dict_stop(&x);
    return longest;
}

static void all_fail_after(void (*strike)(void), bool gone_allowed) {
    double took = 2;
    for (int tries = 0; tries < TRIES && took >= 1.0; tries++)
        took = fail_after(strike, gone_allowed);
    ck_assert_msg(took < 1.0, "a call ended after %.2f s, and not earlier in %d tries", took,
                  TRIES);
}

/* No manager that dies is started again. */
static void managers_die_for_good(void) {
    setenv("DDICT_RESTARTS", "0", 1);
}
static void kill_manager_here(void) {
    kill(x.manager[0], SIGKILL);
}
static void kill_manager_far(void) {
    kill(x.manager[1], SIGKILL);
}
static void kill_ddictd_here(void) {
    kill(x.pid[0], SIGKILL);
}
static void kill_ddictd_far(void) {
    kill(x.pid[1], SIGKILL);
}
static void end_it(void) {
    kill(x.pid[0], SIGTERM);
}

START_TEST(a_manager_of_this_node_dies) {
    managers_die_for_good();
    all_fail_after(kill_manager_here, false);
}
END_TEST
START_TEST(a_manager_of_another_node_dies) {
    managers_die_for_good();
    all_fail_after(kill_manager_far, false);
}
END_TEST
START_TEST(ddictd_of_this_node_dies) {
    all_fail_after(kill_ddictd_here, false);
}
END_TEST
START_TEST(ddictd_of_another_node_dies) {
    all_fail_after(kill_ddictd_far, false);
}
END_TEST
START_TEST(the_dictionary_is_ended) {
    all_fail_after(end_it, true);
}
END_TEST

START_TEST(down_ends_it) {
    begin(2);
    ok(ddict_down(x.name, 5000));
    ck_assert_int_eq(call_kind(PUT_FAR, 5000), 0); /* draining: those who are attached go on */
    ddict_t *e;
    fails(DDICT_EGONE, ddict_attach(&e, x.name, 2000));
    ddict_detach(d);
    dict_stop(&x);
    fails(DDICT_ENODICT, ddict_down(x.name, 1000));
}
END_TEST

/* --- nothing there, or something else --- */

START_TEST(no_name_and_nobody_there_are_told_apart) {
    ddict_t *e;
    unsetenv("DDICT_NAME");
    double t = now_s();
    fails(DDICT_ENODICT, ddict_attach(&e, NULL, 30000));
    ck_assert_msg(strstr(ddict_errmsg(), "DDICT_NAME is not set") &&
                      strstr(ddict_errmsg(), "--ddict-mem"),
                  "%s", ddict_errmsg());
    fails(DDICT_ENODICT, ddict_attach(&e, "0.local.nobody", 30000));
    ck_assert_msg(strstr(ddict_errmsg(), "0.local.nobody") != NULL, "%s", ddict_errmsg());
    ck_assert(now_s() - t < 15); /* less than their timeouts */
    ck_assert_ptr_null(e);
    fails(DDICT_ENODICT, ddict_attach(&e, "", 5000));
    fails(-EINVAL, ddict_attach(&e, "a/b", 5000));
    char longer[200];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    fails(-EINVAL, ddict_attach(&e, longer, 5000));
    fails(-EINVAL, ddict_attach(NULL, "x", 5000));
    fails(DDICT_ENODICT, ddict_down(NULL, 1000));
}
END_TEST

/* A server of our own under the dictionary's name. */
static int squat(const char *name) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    setenv("DDICT_NODE", "squat", 1);
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "ddict/%s/squat", name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert(bind(fd, (struct sockaddr *)&a,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0 &&
              listen(fd, 5) == 0);
    return fd;
}

static void *answer_run(void *arg) {
    int *what = arg, c = accept(what[0], NULL, NULL);
    unsigned char m[2048] = {0};
    ssize_t n = recv(c, m, sizeof m, 0);
    if (n > 0 && what[1] == 1) { /* the same greeting of a later version */
        uint32_t version;
        memcpy(&version, m + 12, 4);
        version++;
        memcpy(m + 12, &version, 4);
        m[8] = 2;
        send(c, m, (size_t)n, 0);
    } else if (what[1] == 2) {
        send(c, "garbage", 7, 0);
    } else if (what[1] == 3) {
        (void)!recv(c, m, sizeof m, 0); /* until it goes */
    } else if (what[1] == 4 && n > 0) { /* a welcome without descriptors */
        m[8] = 2;
        send(c, m, (size_t)n, 0);
        (void)!recv(c, m, sizeof m, 0);
    }
    close(c);
    return NULL;
}

static void attach_to(int what, int code) {
    char name[64];
    ddict_t *e;
    snprintf(name, sizeof name, "%u.local.s%d", (unsigned)geteuid(), (int)getpid());
    int arg[2] = {squat(name), what}, fds = open_fds();
    pthread_t t;
    pthread_create(&t, NULL, answer_run, arg);
    double began = now_s();
    fails(code, ddict_attach(&e, name, 300));
    ck_assert(now_s() - began < 20);
    pthread_join(t, NULL);
    ck_assert_int_eq(open_fds(), fds);
    close(arg[0]);
}

START_TEST(a_stranger_under_the_name_is_told) {
    attach_to(1, DDICT_EVERSION);
    attach_to(2, DDICT_EPROTO);
    attach_to(3, -ETIMEDOUT);
    attach_to(4, DDICT_EPROTO);
    attach_to(5, DDICT_EGONE);
}
END_TEST

START_TEST(another_users_name_is_refused) {
    if (geteuid() != 0)
        return;
    char name[64];
    int ready[2];
    snprintf(name, sizeof name, "0.local.u%d", (int)getpid());
    ck_assert(pipe(ready) == 0);
    pid_t p = fork();
    if (p == 0) {
        if (setuid(65534) != 0)
            _exit(1);
        squat(name);
        ck_assert(write(ready[1], "x", 1) == 1);
        pause();
        _exit(0);
    }
    char c;
    ck_assert(read(ready[0], &c, 1) == 1);
    setenv("DDICT_NODE", "squat", 1);
    ddict_t *e;
    fails(DDICT_ECRED, ddict_attach(&e, name, 1000));
    ck_assert_msg(strstr(ddict_errmsg(), "65534") != NULL, "%s", ddict_errmsg());
    kill(p, SIGKILL);
    waitpid(p, NULL, 0);
}
END_TEST

START_TEST(a_million_views_and_not_one_more) {
    begin(1);
    struct ddict_view *v = malloc((1u << 20) * sizeof *v), w;
    char b[8];
    unsigned n = 0;
    int rc;
    ok(ddict_put(d, "k", 1, "v", 1, 0, -1));
    double t = now_s();
    while (n < 1u << 20 && (rc = ddict_view(d, "k", 1, &v[n], 0, -1)) == 0)
        n++;
    t = now_s() - t;
    ck_assert_msg(rc == DDICT_EVIEWS && n >= DD_LEASE_CHUNKS * DD_LEASE_CHUNK_SLOTS - 4,
                  "%u views, then %d", n, rc);
    ck_assert_msg(t < 60, "%.1f s", t);
    fails(DDICT_EVIEWS, ddict_view(d, "k", 1, &w, 0, -1));
    ok(ddict_get(d, "k", 1, b, 8, NULL, NULL, 0, -1));
    ok(ddict_put(d, "k2", 2, "v", 1, 0, -1));
    ddict_release(&v[--n]);
    ok(ddict_view(d, "k", 1, &v[n++], 0, -1));
    while (n > 0)
        ddict_release(&v[--n]);
    for (int i = 0; i < 1000; i++) {
        ok(ddict_view(d, "k", 1, &w, 0, -1));
        ddict_release(&w);
    }
    free(v);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

int main(void) {
    Suite *s = suite_create("client_death");
    TCase *t = tcase_create("death");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, each_call_ends_in_time_when_managers_hang);
    tcase_add_test(t, streams_that_are_given_up_leave_no_trace);
    tcase_add_test(t, a_get_that_waits_ends_at_its_time);
    tcase_add_test(t, a_manager_of_this_node_dies);
    tcase_add_test(t, a_manager_of_another_node_dies);
    tcase_add_test(t, ddictd_of_this_node_dies);
    tcase_add_test(t, ddictd_of_another_node_dies);
    tcase_add_test(t, the_dictionary_is_ended);
    tcase_add_test(t, down_ends_it);
    tcase_add_test(t, no_name_and_nobody_there_are_told_apart);
    tcase_add_test(t, a_stranger_under_the_name_is_told);
    tcase_add_test(t, another_users_name_is_refused);
    tcase_add_test(t, a_million_views_and_not_one_more);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
