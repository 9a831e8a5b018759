/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_lives_far.c - the manager of another node is killed while it is asked, and started again
 * (--restarts). Invariants: what reads is answered, each time, with the right value; who waits goes
 * on waiting, once, with what is left of his time.
 */
#include "client_dict.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB  (1u << 20)
#define KEYS 40u
#define LEN  3000u
#define LONG 100000u /* one message all the same; a view of it goes into a block of the proxy */

enum { PROXY, OWNER }; /* managers; we are on the node of the first */

static struct dict x;
static ddict_t *d;
static unsigned char val[LONG];
static char keys[KEYS][32]; /* of the owner */

static void begin(void) {
    setenv("DDICT_RESTARTS", "16", 1);
    d = dict_begin(&x, 2, 2, 64 * MIB);
    for (unsigned i = 0; i < KEYS; i++)
        key_of(d, OWNER, i, keys[i], sizeof keys[i]);
}

static void end(void) {
    dict_managers(&x, d); /* those that dict_stop() waits for */
    dict_end(&x, d);
}

static size_t len_of(unsigned i) {
    return i % 2 ? LEN : LONG;
}

static void keys_put(void) {
    for (unsigned i = 0; i < KEYS; i++) {
        value_fill(val, len_of(i), i);
        ok(ddict_put(d, keys[i], strlen(keys[i]), val, len_of(i), 0, 20000));
    }
}

static void owner_kill(void) {
    pid_t was = x.manager[OWNER];
    ck_assert(was > 0 && kill(was, SIGKILL) == 0);
    while (kill(was, 0) == 0) /* ddictd has waited for it */
        usleep(500);
    dict_managers(&x, d); /* asks it */
    ck_assert_int_ne(x.manager[OWNER], was);
}

static void owner_kills(unsigned times) {
    unsigned seed = 4711;
    for (unsigned i = 0; i < times; i++) {
        seed = seed * 1103515245 + 12345;
        usleep(50000 + seed / 65536 % 300000);
        owner_kill();
    }
}

/* --- what reads --- */
static int get_one(unsigned i) {
    unsigned char buf[LONG];
    size_t len;
    int rc = ddict_get(d, keys[i], strlen(keys[i]), buf, sizeof buf, &len, NULL, 0, 20000);
    return rc < 0 || (len == len_of(i) && value_is(buf, len, i)) ? rc : -EBADMSG;
}

static int view_one(unsigned i) {
    struct ddict_view v;
    int rc = ddict_view(d, keys[i], strlen(keys[i]), &v, 0, 20000);
    if (rc < 0)
        return rc;
    if (v.len != len_of(i) || !value_is(v.data, v.len, i))
        rc = -EBADMSG;
    ddict_release(&v);
    return rc;
}

static int get_all(unsigned first) {
    struct ddict_want w[KEYS];
    int bad = 0;
    for (unsigned i = 0; i < KEYS; i++)
        w[i] = (struct ddict_want){.key = keys[i], .klen = strlen(keys[i])};
    ssize_t n = ddict_get_many(d, w, KEYS, 0, 20000);
    for (unsigned i = 0; n >= 0 && i < KEYS; i++) {
        if (w[i].status < 0)
            bad = w[i].status;
        else if (w[i].view.len != len_of(i) || !value_is(w[i].view.data, len_of(i), i))
            bad = -EBADMSG;
        if (w[i].status == 0)
            ddict_release(&w[i].view);
    }
    return n < 0 ? (int)n : bad;
}

static int count(unsigned i) {
    int64_t n = ddict_len(d, 20000);
    return n == KEYS || n < 0 ? (int)n : -EBADMSG;
}

static int figures(unsigned i) {
    struct ddict_manager_stats *s;
    int n = ddict_stats(d, &s, sizeof *s, 20000);
    if (n > 0)
        free(s);
    return n == 2 || n < 0 ? n : -EBADMSG;
}

static int list(unsigned i) {
    ddict_iter_t *it;
    const void *key;
    size_t n;
    unsigned found = 0;
    int rc = ddict_iter_open_prefix(d, -1, "k", 1, &it, 20000);
    if (rc < 0)
        return rc;
    while ((rc = ddict_iter_next(it, &key, &n)) > 0)
        found++;
    ddict_iter_close(it);
    return rc < 0 || found == KEYS ? rc : -EBADMSG;
}

static const struct {
    const char *name;
    int (*once)(unsigned i);
} reads[] = {{"get", get_one}, {"view", view_one}, {"get_many", get_all},
             {"len", count},   {"stats", figures}, {"list", list}};
#define READS (sizeof reads / sizeof *reads)

static bool stop; /* atomic */

struct reader {
    pthread_t thread;
    size_t what;
    unsigned n;
    int rc;
};

static void *is_reading(void *arg) {
    struct reader *r = arg;
    while (r->rc >= 0 && !__atomic_load_n(&stop, __ATOMIC_RELAXED))
        r->rc = reads[r->what].once(r->n++ % KEYS);
    if (r->rc < 0)
        fprintf(stderr, "%s: %d %s\n", reads[r->what].name, r->rc, ddict_errmsg());
    return NULL;
}

START_TEST(what_reads_does_not_notice) {
    struct reader r[READS];
    begin();
    keys_put();
    for (size_t i = 0; i < READS; i++) {
        r[i] = (struct reader){.what = i};
        ck_assert_int_eq(pthread_create(&r[i].thread, NULL, is_reading, &r[i]), 0);
    }
    owner_kills(14);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < READS; i++) {
        pthread_join(r[i].thread, NULL);
        ck_assert_msg(r[i].rc >= 0, "%s: %d", reads[i].name, r[i].rc);
        ck_assert_uint_gt(r[i].n, 10);
    }
    end();
}
END_TEST

/* --- what waits --- */
struct blocked {
    pthread_t thread;
    const char *key;
    int timeout_ms, rc;
    unsigned seed;
    double took;
};

static void *is_blocked(void *arg) {
    struct blocked *b = arg;
    struct ddict_view v;
    double began = now_s();
    b->rc = ddict_view(d, b->key, strlen(b->key), &v, DDICT_WAIT, b->timeout_ms);
    b->took = now_s() - began;
    if (b->rc == 0 && (v.len != len_of(b->seed) || !value_is(v.data, v.len, b->seed)))
        b->rc = -EBADMSG;
    if (b->rc == 0)
        ddict_release(&v);
    return NULL;
}

START_TEST(who_waits_is_answered_by_the_next_life) {
    struct blocked view[KEYS], late = {.timeout_ms = 9000};
    char never[32];
    begin();
    key_of(d, OWNER, KEYS, never, sizeof never);
    late.key = never;
    for (unsigned i = 0; i < KEYS; i++) {
        view[i] = (struct blocked){.key = keys[i], .timeout_ms = 60000, .seed = i};
        ck_assert_int_eq(pthread_create(&view[i].thread, NULL, is_blocked, &view[i]), 0);
    }
    ck_assert_int_eq(pthread_create(&late.thread, NULL, is_blocked, &late), 0);
    usleep(500000);
    owner_kills(4);
    keys_put();
    for (unsigned i = 0; i < KEYS; i++) {
        pthread_join(view[i].thread, NULL);
        ck_assert_msg(view[i].rc == 0, "%u: %d", i, view[i].rc);
    }
    pthread_join(late.thread, NULL);
    ck_assert_int_eq(late.rc, -ETIMEDOUT);
    ck_assert_msg(late.took > 8.9 && late.took < 16, "after %.1f s", late.took);
    end();
}
END_TEST

/* A subscriber is told what it missed; behind that, each event once. */
START_TEST(who_waits_for_events_is_told_what_it_missed) {
    ddict_sub_t *sub;
    struct ddict_event e;
    begin();
    ok(ddict_subscribe(d, "k", 1, 0, &sub, -1));
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(ddict_next_event(sub, &e, 300), 0); /* it waits there */
        owner_kill();
        ck_assert_int_eq(ddict_next_event(sub, &e, 20000), 1);
        ck_assert_int_eq(e.kind, DDICT_EVENT_MISSED);
        ok(ddict_put(d, keys[i], strlen(keys[i]), &i, sizeof i, 0, 20000));
        ck_assert_int_eq(ddict_next_event(sub, &e, 20000), 1);
        ck_assert(e.kind == DDICT_EVENT_PUT && e.klen == strlen(keys[i]) &&
                  memcmp(e.key, keys[i], e.klen) == 0);
        ck_assert_int_eq(ddict_next_event(sub, &e, 300), 0);
    }
    ddict_unsubscribe(sub);
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {what_reads_does_not_notice,
                                  who_waits_is_answered_by_the_next_life,
                                  who_waits_for_events_is_told_what_it_missed};
    return tests_main("client_lives_far", argc, argv, tests, sizeof tests / sizeof *tests);
}
