/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_hung.c - one manager that stands still or has very much to do: who asks others notices nothing.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_dict.h"

#define MIB (1u << 20)

/* --- fairness --- */

#define WRITERS 48
#define RECORD 100000u
#define EACH 5

static struct dict x;
static ddict_t *of[WRITERS];
static bool over;

static void *write_on(void *arg)
{
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

static uint64_t newest(ddict_t *d)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < WRITERS * EACH; i++) {
        char key[32];
        struct ddict_view v;
        ok(ddict_view(d, key, key_of(d, 0, i, key, sizeof key), &v, 0, 20000));
        most = v.version > most ? v.version : most;
        ddict_release(&v);
    }
    return most;
}

static void *put_far(void *d)
{
    char key[32];
    ok(ddict_put(d, key, key_of(d, 0, 5000, key, sizeof key), "x", 1, 0, 60000));
    return NULL;
}

/* The manager is stopped in the middle of its work for many writers; how many of their values does it take before one that has come over the network? */
START_TEST(many_writers_of_a_node_do_not_keep_a_request_of_another_node_waiting)
{
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
    usleep(500000);
    for (unsigned round = 0; round < 20; round++) {
        char key[32];
        struct ddict_view v;
        kill(x.manager[0], SIGSTOP);
        usleep(50000); /* all rings are full */
        uint64_t before = newest(of[0]);
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
    ck_assert_msg(most <= 100, "%llu values of %u bytes went before", (unsigned long long)most, RECORD);
    for (unsigned i = 0; i < WRITERS; i++)
        ddict_detach(of[i]);
    ddict_detach(other);
    dict_stop(&x);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {many_writers_of_a_node_do_not_keep_a_request_of_another_node_waiting};
    return tests_main("client_hung", argc, argv, tests, sizeof tests / sizeof *tests);
}
