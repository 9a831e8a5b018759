/* SPDX-License-Identifier: Apache-2.0 */
/*
 * break_times.c - deadlines: of many keys in one call, of waits that others disturb, and of a job
 * that was suspended. Invariants: a call ends by its timeout, however many keys it has; a suspended
 * job has lost no time; who waits keeps nobody from putting.
 */
#include "client_dict.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB  ((size_t)1 << 20)
#define MANY 600 /* more than the requests that a manager keeps under way for a lane */

struct names {
    char s[MANY][32];
    struct ddict_want w[MANY];
};

static struct names *names_of(ddict_t *d, unsigned manager, unsigned n) {
    struct names *k = calloc(1, sizeof *k);
    for (unsigned i = 0, at = 0; i < n; at++) {
        size_t len = (size_t)sprintf(k->s[i], "n%u", at);
        if (ddict_owner(d, k->s[i], len) == manager)
            k->w[i++] = (struct ddict_want){.key = k->s[i], .klen = len};
    }
    for (unsigned i = 0; i < n; i++)
        k->w[i].key = k->s[i];
    return k;
}

START_TEST(a_get_of_many_ends_by_its_timeout_when_nobody_answers) {
    struct dict x;
    dict_start(&x, 2, 2, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    struct names *k = names_of(d, 1, 12);
    ck_assert_int_eq(ddict_get_many(d, k->w, 12, 0, 5000), 0);
    kill(x.manager[1], SIGSTOP);
    double began = now_s();
    ck_assert_int_eq(ddict_get_many(d, k->w, 12, 0, 400), 0);
    double plain = now_s() - began;
    for (int i = 0; i < 12; i++)
        ck_assert_int_eq(k->w[i].status, -ETIMEDOUT);
    began = now_s();
    ck_assert_int_eq(ddict_get_many(d, k->w, 12, DDICT_WAIT, 2500), 0);
    double waiting = now_s() - began;
    kill(x.manager[1], SIGCONT);
    ck_assert_msg(plain < 4, "a get of many with a timeout of 0.4 s took %.1f s", plain);
    ck_assert_msg(waiting < 15, "a waiting get of many with a timeout of 2.5 s took %.1f s",
                  waiting);
    ok(ddict_put(d, "after", 5, "x", 1, 0, 5000));
    ddict_detach(d);
    dict_stop(&x);
    free(k);
}
END_TEST

START_TEST(a_get_of_many_waits_once_for_keys_of_this_node) {
    struct dict x;
    dict_start(&x, 1, 1, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    struct names *k = names_of(d, 0, 12);
    ok(ddict_put(d, k->s[11], k->w[11].klen, "x", 1, 0, -1));
    double took = 5;
    for (int tries = 0; tries < 3 && took >= 4.5; tries++) { /* others may have the cores */
        double began = now_s();
        /* longer than what counts as suspended */
        ck_assert_int_eq(ddict_get_many(d, k->w, 12, DDICT_WAIT, 2500), 1);
        took = now_s() - began;
        if (took >= 4.5 && tries < 2)
            ddict_release(&k->w[11].view);
    }
    ck_assert_msg(took > 2.4 && took < 4.5,
                  "a waiting get of many with a timeout of 2.5 s took %.1f s", took);
    for (int i = 0; i < 12; i++)
        ck_assert_int_eq(k->w[i].status, i < 11 ? -ETIMEDOUT : 0);
    ddict_release(&k->w[11].view);
    ddict_detach(d);
    dict_stop(&x);
    free(k);
}
END_TEST

struct waiting {
    ddict_t *d;
    struct names *k;
    ssize_t found;
};

static void *wait_for_all(void *arg) {
    struct waiting *w = arg;
    w->found = ddict_get_many(w->d, w->k->w, MANY, DDICT_WAIT, 40000);
    return NULL;
}

START_TEST(who_waits_for_many_keys_of_another_node_lets_others_of_the_process_put_them) {
    struct dict x;
    pthread_t t;
    dict_start(&x, 2, 2, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    struct waiting w = {d, names_of(d, 1, MANY), 0};
    struct names *k = names_of(d, 1, MANY);
    double began = now_s();
    pthread_create(&t, NULL, wait_for_all, &w);
    usleep(300000);
    for (int i = 0; i < MANY; i++)
        ok(ddict_put(d, k->s[i], k->w[i].klen, "x", 1, 0, 5000));
    pthread_join(t, NULL);
    ck_assert_int_eq(w.found, MANY);
    ck_assert_msg(now_s() - began < 30, "it took %.1f s", now_s() - began);
    for (int i = 0; i < MANY; i++)
        ddict_release(&w.k->w[i].view);
    free(w.k);
    free(k);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

struct puts {
    ddict_t *d;
    int stop, failed;
};

static void *put_all_the_time(void *arg) {
    struct puts *p = arg;
    while (!__atomic_load_n(&p->stop, __ATOMIC_RELAXED))
        if (ddict_put(p->d, "busy", 4, "x", 1, 0, 3000) < 0) {
            p->failed = 1;
            fprintf(stderr, "put: %s\n", ddict_errmsg());
        }
    return NULL;
}

/* Waits for a key of manager m; busy: another thread puts meanwhile, so that the manager is not
 * asleep when it is stopped. */
static void wait_for_key(struct dict *x, unsigned m, bool busy) {
    ddict_t *d = NULL;
    struct ddict_view v;
    char key[32];
    pthread_t t;
    setenv("DDICT_NAME", x->name, 1);
    setenv("DDICT_NODE", x->node[0], 1);
    if (ddict_attach(&d, NULL, 5000) < 0)
        _exit(2);
    struct puts p = {d, 0, 0};
    if (busy)
        pthread_create(&t, NULL, put_all_the_time, &p);
    /* less than until it is stored, if the suspension counted */
    int rc = ddict_view(d, key, key_of(d, m, 0, key, sizeof key), &v, DDICT_WAIT, 4500);
    if (rc < 0)
        fprintf(stderr, "view of a key of manager %u, busy %d: %s\n", m, busy, ddict_errmsg());
    __atomic_store_n(&p.stop, 1, __ATOMIC_RELAXED);
    if (busy)
        pthread_join(t, NULL);
    ddict_release(&v);
    ddict_detach(d);
    _exit(rc < 0 || p.failed ? 1 : 0);
}

/* A job of two nodes, and whom of it we suspend. */
static const struct suspended {
    const char *what;
    unsigned manager;
    bool busy, client_only;
} suspended[] = {
    {"its manager was busy", 0, true, false},
    {"its manager slept", 0, false, false},
    {"its key is another node's", 1, false, false},
    {"its key is another node's, whose manager was busy", 1, true, false},
    {"only the client was suspended", 1, false, true},
};
#define SUSPENDED (int)(sizeof suspended / sizeof *suspended)

START_TEST(a_wait_survives_a_suspended_job) {
    struct dict x[SUSPENDED];
    ddict_t *d[SUSPENDED];
    pid_t all[SUSPENDED][5];
    for (int i = 0; i < SUSPENDED; i++) {
        dict_start(&x[i], 2, 2, 64 * MIB);
        d[i] = dict_attach(&x[i], 0);
    }
    for (int i = 0; i < SUSPENDED; i++) {
        pid_t child = fork();
        if (child == 0)
            wait_for_key(&x[i], suspended[i].manager, suspended[i].busy);
        memcpy(all[i], (pid_t[]){child, x[i].manager[0], x[i].manager[1], x[i].pid[0], x[i].pid[1]},
               sizeof all[i]);
    }
    usleep(700000); /* they wait */
    for (int i = 0; i < SUSPENDED; i++)
        for (int k = 0; k < (suspended[i].client_only ? 1 : 5); k++)
            kill(all[i][k], SIGSTOP);
    usleep(4000000);
    for (int i = 0; i < SUSPENDED; i++)
        for (int k = 4; k >= 0; k--)
            kill(all[i][k], SIGCONT);
    usleep(500000);
    for (int i = 0; i < SUSPENDED; i++) {
        char key[32];
        ok(ddict_put(d[i], key, key_of(d[i], suspended[i].manager, 0, key, sizeof key), "x", 1, 0,
                     5000));
    }
    for (int i = 0; i < SUSPENDED; i++) {
        int status = 0;
        ck_assert_int_eq(waitpid(all[i][0], &status, 0), all[i][0]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                      "%s: the waiting process failed: status %x", suspended[i].what, status);
        ddict_detach(d[i]);
        dict_stop(&x[i]);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("break_times");
    TCase *t = tcase_create("times");
    tcase_set_timeout(t, 180);
    tcase_add_test(t, a_get_of_many_ends_by_its_timeout_when_nobody_answers);
    tcase_add_test(t, a_get_of_many_waits_once_for_keys_of_this_node);
    tcase_add_test(t, who_waits_for_many_keys_of_another_node_lets_others_of_the_process_put_them);
    suite_add_tcase(s, t);
    t = tcase_create("suspended");
    tcase_set_timeout(t, 180);
    tcase_add_test(t, a_wait_survives_a_suspended_job);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
